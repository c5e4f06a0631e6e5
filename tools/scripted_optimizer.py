"""A scripted optimizer with a gate, as two run logs: for pictures, and for tests of what reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import skillglass

TASKS = 8  # of validation
GIVEN = {"sums/SKILL.md": "---\nname: sums\ndescription: Adds numbers.\n---\n# Sums\n"}
# Candidate: what it began with (0: the given skill), what the gate did, and how many validation tasks it passed.
# None: the gate did not try it on validation.
CANDIDATES: tuple[tuple[int, str, int | None], ...] = (
    (0, "rejected", 1),
    (0, "applied", 5),
    (2, "rejected", None),
    (2, "rejected", 4),
    (0, "applied", 6),
    (5, "no-op", None),
    (5, "applied", 7),
    (7, "rejected", 7),
)


def log_optimizer(folder: Path) -> None:
    """Write the run of the given skill and that of the optimizer."""
    with skillglass.start("optimizer", folder=folder, name="given", condition="old-skill", agent_model="script") as run:
        _validate(run, 3, {**GIVEN})
        run.finish()
    texts: dict[int, Mapping[str, str]] = {0: GIVEN}
    with skillglass.start(
        "optimizer",
        folder=folder,
        name="optimized",
        condition="with-skills",
        agent_model="script",
        author_model="optimizer",
        skills={**GIVEN},
    ) as run:
        for number, (parent, status, passed) in enumerate(CANDIDATES, start=1):
            with run.trial(f"train-{number}", "acquisition", skills=dict(texts[parent])) as trial:
                trial.end(success=False)
            texts[number] = {name: f"{text}- Rule {number}.\n" for name, text in texts[parent].items()}
            proposed = dict(texts[parent if status == "no-op" else number])
            if passed is not None:
                _validate(run, passed, proposed)
            reason = "" if passed is None else f"gate: {passed} of {TASKS} on validation, {status}"
            run.decision(proposed, status=status, before=dict(texts[parent]), reason=reason, evidence=[trial])
        run.freeze(dict(texts[7]))
        run.finish()


def _validate(run: skillglass.Run, passed: int, skills: dict[str, str]) -> None:
    for number in range(TASKS):
        with run.trial(f"validation-{number}", "replay", skills=skills) as trial:
            trial.end(success=number < passed)

"""Rows of probes with outcomes as a test wants them."""

from __future__ import annotations

from typing import Any

from benchapp.models import Episode, Probe, Snapshot
from tests.worlds.factories import make_episode, make_experiment, make_run, make_snapshot, make_trial


def make_probe(
    origin: Episode,
    outcomes: str,
    *,
    frozen: Snapshot | None = None,
    reverted: int = 0,
    decision: int = 1,
    phase: str = "deployment",
) -> Probe:
    """outcomes: p, f or - (not scored yet) of each trial of the first task that the origin met in this phase."""
    frozen = frozen or origin.library
    assert frozen is not None
    library = make_snapshot({"a/SKILL.md": f"without {reverted}\n"}) if reverted else frozen
    run = make_run(make_experiment(suite=origin.run.experiment.suite), condition="library-probe")
    episode = make_episode(run, library=library)
    task = origin.trials.filter(phase=phase).order_by("task__ordinal")[0].task
    for sample, letter in reversed(list(enumerate(outcomes))):  # the factory makes each as the first sample
        success = {"p": True, "f": False}.get(letter)
        make_trial(episode, task, phase="deployment", sample=sample, success=success, finished=letter != "-")
    return Probe.objects.create(
        run=run, origin=origin, decision=origin.decisions.get(number=decision), state="R2", frozen=frozen, library=library,  # noqa: E501
        reverted=[{"id": str(n), "path": "a/SKILL.md", "place": "line 1", "did": "x"} for n in range(reverted)],
        reverted_digest="d" * 64 if reverted else "", times=len(outcomes), reason="why", actor_name="ada",
    )  # fmt: skip


def measure_round(origin: Episode, decision: int, outcomes: str, **run: Any) -> Probe:
    """The library that this decision of the origin left, on all deployed tasks: p, f or - of each, in order."""
    made = origin.decisions.get(number=decision)
    probed = make_run(
        make_experiment(suite=origin.run.experiment.suite), condition="library-probe", **{"status": "done", **run}
    )
    episode = make_episode(probed, library=made.after)
    deployed = origin.trials.filter(phase="deployment").order_by("task__family__ordinal", "task__ordinal")
    for trial, letter in zip(deployed.select_related("task"), outcomes, strict=True):
        success = {"p": True, "f": False}.get(letter)
        make_trial(
            episode, trial.task, phase="deployment", success=success, finished=letter != "-", snapshot=made.after
        )
    return Probe.objects.create(
        run=probed, origin=origin, decision=made, state=f"R{made.round}", frozen=made.after, library=made.after,
        times=1, reason="learning curve", actor_name="ada",
    )  # fmt: skip

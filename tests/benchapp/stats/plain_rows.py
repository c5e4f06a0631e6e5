"""Trials as plain dictionaries, generated, and the same trials as columns: one for the obvious answer, one for ours."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from benchapp.stats.metrics.outcomes import CORPUS_CODES, PHASE_CODES, ROLE_CODES, Outcomes, outcomes_from

Row = dict[str, Any]
PHASES = ("acquisition", "deployment", "replay", "evaluation")
ROLES = ("canonical", "enriched", "variant", "context-shift", "adversarial", "composition")
COUNTS = ("turns", "input_tokens", "cached_tokens", "output_tokens")
MEASURED = (
    "success",
    "reward",
    "outcome",
    "process",
    "overall",
    *COUNTS,
    "cost_usd",
    "seconds",
    "skills_mounted",
    "skills_read",
    "skills_invoked",
)


def plain_row(trial: int, **given: Any) -> Row:
    """One trial of which nothing is measured but what is given."""
    fixed = {
        "trial": trial,
        "task": 1,
        "family": None,
        "environment": None,
        "episode": 1,
        "ordered": True,
        "tainted": False,
        "done": True,
        "skipped": False,
        "phase": "acquisition",
        "role": "",
        "corpus": "",
        "sample": 0,
        "ordinal": 0,
        "seeds": 1,
        "finished": trial,
        "library": None,
    }
    unknown = set(given) - set(fixed) - set(MEASURED)
    assert not unknown, f"no such fact of a trial: {unknown}"
    return {**fixed, **dict.fromkeys(MEASURED), **given}


def is_rehearsal(row: Row, rows: list[Row]) -> bool:
    """Worked on while learning, and deployed too."""
    deployed = {other["task"] for other in rows if other["phase"] == "deployment"}
    return row["phase"] == "acquisition" and row["task"] in deployed


def as_columns(rows: list[Row]) -> Outcomes:
    """The columns that the record would give for these trials."""
    coded = [
        {
            **row,
            **{key: -1 if row[key] is None else row[key] for key in ("family", "environment", "library")},
            "phase": PHASE_CODES[row["phase"]],
            "role": ROLE_CODES[row["role"]],
            "corpus": CORPUS_CODES[row["corpus"]],
            "cluster": row["episode"],
            "position": position_of(row, rows),
            "seed": 1 <= row["ordinal"] <= row["seeds"],
        }
        for row in rows
    ]
    return outcomes_from({field.name: [row[field.name] for row in coded] for field in fields(Outcomes)})


def position_of(row: Row, rows: list[Row]) -> int:
    """How many trials of its episode and phase ended before it; those without a time end last."""
    return sum(
        other["episode"] == row["episode"] and other["phase"] == row["phase"] and _ended(other) < _ended(row)
        for other in rows
    )


def _ended(row: Row) -> tuple[bool, int, int]:
    return row["finished"] is None, row["finished"] or 0, row["trial"]


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


GRADES = st.sampled_from((0.0, 0.25, 0.5, 1.0))
SKILLS = st.integers(0, 4)
NUMBERS = st.fixed_dictionaries(
    {
        "success": _maybe(st.booleans()),
        "reward": _maybe(GRADES),
        "outcome": _maybe(GRADES),
        "process": _maybe(GRADES),
        "overall": _maybe(GRADES),
        **dict.fromkeys(COUNTS, _maybe(st.integers(0, 10_000))),
        "cost_usd": _maybe(st.floats(0, 10)),
        "seconds": _maybe(st.floats(0, 3600)),
        "skills_mounted": _maybe(SKILLS),
        "skills_read": _maybe(SKILLS),
        "skills_invoked": _maybe(SKILLS),
        "finished": _maybe(st.integers(0, 5)),
        "library": _maybe(st.integers(1, 4)),
    }
)


@st.composite
def runs_of_rows(draw: st.DrawFn, max_trials: int = 24) -> list[Row]:
    """One run: episodes ordered or not, some tainted; tasks with or without family, role and place; several samples;
    anything measured may be missing, and trials come in no order."""
    episodes = draw(st.lists(st.tuples(st.booleans(), st.sampled_from((False, False, True))), min_size=1, max_size=3))
    tasks = draw(
        st.lists(
            st.tuples(_maybe(st.integers(1, 3)), st.sampled_from(("", *ROLES)), st.integers(0, 3)),
            min_size=1,
            max_size=6,
        )
    )
    slot = st.tuples(
        st.integers(0, len(episodes) - 1), st.sampled_from(PHASES), st.integers(0, len(tasks) - 1), st.integers(0, 2)
    )
    slots = draw(st.lists(slot, unique=True, max_size=max_trials))
    trials = draw(st.permutations(range(1, len(slots) + 1)))
    seeds = draw(st.integers(1, 3))
    rows = []
    for trial, (episode, phase, task, sample) in zip(trials, slots, strict=True):
        ordered, tainted = episodes[episode]
        family, role, ordinal = tasks[task]
        rows.append(
            plain_row(
                trial,
                episode=episode + 1,
                ordered=ordered,
                tainted=tainted,
                phase=phase,
                task=task + 1,
                sample=sample,
                family=family,
                role=role,
                ordinal=ordinal,
                seeds=seeds,
                **draw(NUMBERS),
            )
        )
    return rows

"""Can a task show whether skills help? By its qualification, or else by the trials of one experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.shares import Rate


class Fit(StrEnum):
    """In the order of every list."""

    FIT = "fit"
    EASY = "too-easy"
    UNSOLVED = "never-solved"
    BROKEN = "broken"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        return self.value.replace("-", " ")


TOO_EASY = 0.5  # more of the trials without a skill pass
LEAST_TRIALS = 2  # of a task, before its difficulty is judged
_KINDS = {"no_skill": Fit.EASY, "no_corpus": Fit.EASY, "with_corpus": Fit.EASY, "reference": Fit.UNSOLVED}


@dataclass(frozen=True, slots=True)
class TaskFit(Shaped):
    """`why`: the count or the reason behind it; empty if there is nothing to add."""

    fit: Fit = Fit.UNKNOWN
    why: str = ""

    json_shape = JsonShape("fit", "why?")


def judge_by_trials(alone: Rate, skilled: Rate) -> TaskFit:
    """`alone`: trials without a skill. `skilled`: trials with a skill. One trial decides nothing."""
    if alone.scored < LEAST_TRIALS:
        return TaskFit(why=f"{alone.scored or 'no'} trial without a skill")
    if alone.passed > TOO_EASY * alone.scored:
        return TaskFit(Fit.EASY, f"{alone.passed} of {alone.scored} without a skill")
    if skilled.passed:
        return TaskFit(Fit.FIT)
    if skilled.scored < LEAST_TRIALS:
        return TaskFit(why=f"{skilled.scored or 'no'} trial with a skill")
    return TaskFit(Fit.UNSOLVED, f"in {skilled.scored} trials with a skill")


def judge_by_verdict(admission: str, reasons: Sequence[str], broken: Iterable[str]) -> TaskFit:
    """`broken`: the checks whose rule the task breaks. A fault of the task itself counts before its difficulty."""
    if admission == "admit":
        return TaskFit(Fit.FIT)
    kinds = {_KINDS.get(name, Fit.BROKEN) for name in broken}
    kind = next((fit for fit in (Fit.BROKEN, Fit.UNSOLVED, Fit.EASY) if fit in kinds), Fit.UNKNOWN)
    return TaskFit(kind, reasons[0] if reasons else "")


def summarise_fit(fits: Sequence[TaskFit]) -> tuple[str, str]:
    """Return the answer in one sentence, and the line of evidence below it; both empty if nothing is known."""
    counts = {kind: sum(each.fit is kind for each in fits) for kind in Fit}
    known = len(fits) - counts[Fit.UNKNOWN]
    if not known:
        return "", ""
    told = {
        Fit.EASY: "too easy without a skill",
        Fit.UNSOLVED: "never solved with a skill",
        Fit.BROKEN: "broken",
        Fit.UNKNOWN: "unknown",
    }
    parts = [f"{counts[kind]} {words}" for kind, words in told.items() if counts[kind]]
    evidence = f"{', '.join(parts)}." if parts else ""
    tasks = f"{len(fits):,} task{'' if len(fits) == 1 else 's'}"
    return f"{counts[Fit.FIT] or 'None'} of {tasks} can show whether skills help.", evidence

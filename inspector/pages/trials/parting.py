"""Where a trial and another of the same task first part: the way into a failure that reports no error."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.analysis.alignment.aligned_reading import AlignedSide, read_side
from benchapp.analysis.alignment.alignment import Alignment
from benchapp.analysis.alignment.step_pairing import align
from benchapp.models import Trajectory, Trial
from inspector.web.text.visible import one_line
from runner.base.types import TrajectoryKind

SAID_CHARS = 110


@dataclass(frozen=True, slots=True)
class TrialParting:
    """`here`, `there`: numbers of the steps at the first row where the agents acted differently, None where a side has no
    step of its own there; `did_here`, `did_there`: these steps in a line. `row`: of the alignment, from 1, None where the
    two never act differently. `steps`: how many the other has."""

    row: int | None
    here: int | None
    there: int | None
    did_here: str
    did_there: str
    steps: int


def find_parting(trial: Trial, other: Trial) -> TrialParting:
    """Two queries for each side."""
    left, right = (read_side(_find_main(each)) for each in (trial, other))
    alignment = align(left.signs, right.signs)
    row = _find_row(alignment)
    if row is None:
        return TrialParting(None, None, None, "", "", right.total)
    here, there = _find_step(alignment, row, "left"), _find_step(alignment, row, "right")
    return TrialParting(row + 1, _number(here), _number(there), _say(left, here), _say(right, there), right.total)


def _find_main(trial: Trial) -> Trajectory | None:
    found = Trajectory.objects.filter(attempt__trial=trial, attempt__counts=True, is_superseded=False)
    ordered = list(found.order_by("ordinal", "id"))
    return next((each for each in ordered if each.kind == TrajectoryKind.MAIN), ordered[0] if ordered else None)


def _find_row(alignment: Alignment) -> int | None:
    """The first other action; where there is none, the first other result or words. A longer prompt is no deed."""
    parting = alignment.parting()
    others = [row for row in (parting.result, parting.words) if row is not None]
    return parting.action if parting.action is not None else min(others, default=None)


def _find_step(alignment: Alignment, row: int, side: str) -> int | None:
    """The side's step at the row, else its next one that has no equal: there it went on its own way."""
    for later in alignment.rows[row:]:
        place: int | None = getattr(later, side)
        if place is not None and (later.differs or later is alignment.rows[row]):
            return place
        if place is not None:
            return None
    return None


def _number(place: int | None) -> int | None:
    return None if place is None else place + 1


def _say(side: AlignedSide, place: int | None) -> str:
    return "" if place is None else one_line(side.lines[place], SAID_CHARS)

"""Where a trial and another of the same task first part: the way into a failure that reports no error."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from benchapp.analysis.alignment.aligned_reading import AlignedSide, read_side
from benchapp.analysis.alignment.alignment import AlignedRow, Alignment, DifferingPart, RowKind
from benchapp.analysis.alignment.step_pairing import align
from benchapp.models import SkillUse, Trajectory, Trial
from inspector.web.closed_pages import refuse_closed
from inspector.web.responses import read_htmx
from inspector.web.text.visible import one_line
from runner.base.types import TrajectoryKind, UseKind

LINE_CHARS = 110


@require_safe
def parting(request: HttpRequest, public_id: UUID, other_id: UUID) -> HttpResponse:
    """Where two trials of one task first part, for htmx; anybody else is sent to the two side by side."""
    if not read_htmx(request):
        return redirect("compare-pair", public_id, other_id)
    left = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    right = get_object_or_404(Trial.objects.for_detail(), public_id=other_id)
    for trial in (left, right):
        if closed := refuse_closed(request, trial=trial):
            return closed
    if left.task_id != right.task_id:
        raise Http404("these two have different tasks")
    return render(
        request,
        "trials/_parting.html",
        {"parting": _find_parting(left, right), "other": right, "this_trial_id": left.public_id},
    )


def _find_parting(trial: Trial, other: Trial) -> dict[str, object]:
    """Return for the template: `row`, of the alignment, from 1, None where the two never act differently; `here` and `there`,
    numbers of the steps at that row, None where a side has no step of its own there; `did_here` and `did_there`, these
    steps in a line; `skill`, where they part because one of them alone opened it; `is_mine`, this trial did.

    A skill that one of them alone opened comes before any other difference. Three queries for each side."""
    mains = [_find_main(each) for each in (trial, other)]
    left, right = (read_side(main) for main in mains)
    alignment = align(left.signs, right.signs)
    row, skill, is_mine = _find_lone_skill(alignment, *mains) or (_find_row(alignment, left), "", False)
    if row is None:
        return {"row": None}
    here, there = _find_step(alignment, row, "left"), _find_step(alignment, row, "right")
    return {
        "row": row + 1,
        "here": None if here is None else here + 1,
        "there": None if there is None else there + 1,
        "did_here": "" if here is None else one_line(left.lines[here], LINE_CHARS),
        "did_there": "" if there is None else one_line(right.lines[there], LINE_CHARS),
        "skill": skill,
        "is_mine": is_mine,
    }


def _find_lone_skill(
    alignment: Alignment, left: Trajectory | None, right: Trajectory | None
) -> tuple[int, str, bool] | None:
    """Return (first row where one side opens a skill that the other never opens, its name, is it the left side?)."""
    mine, theirs = _list_opened(left), _list_opened(right)
    alone = {("left", mine[name]): name for name in mine.keys() - theirs.keys()}
    alone |= {("right", theirs[name]): name for name in theirs.keys() - mine.keys()}
    for at, row in enumerate(alignment.rows):
        for side, place in (("left", row.left), ("right", row.right)):
            if place is not None and (skill := alone.get((side, place))) is not None:
                return at, skill, side == "left"
    return None


def _list_opened(main: Trajectory | None) -> dict[str, int]:
    """Skill -> place of the step that first opened it."""
    if main is None:
        return {}
    uses = SkillUse.objects.filter(trajectory=main, step__isnull=False).exclude(kind=UseKind.MOUNTED)
    opened: dict[str, int] = {}
    for skill, step in uses.values_list("skill", "step"):
        opened.setdefault(skill, (step or 1) - 1)
    return opened


def _find_main(trial: Trial) -> Trajectory | None:
    found = Trajectory.objects.filter(attempt__trial=trial, attempt__counts=True, is_superseded=False)
    ordered = list(found.order_by("ordinal", "id"))
    return next((each for each in ordered if each.kind == TrajectoryKind.MAIN), ordered[0] if ordered else None)


def _find_row(alignment: Alignment, left: AlignedSide) -> int | None:
    """Return the first different action, before one that is only worded differently; without one, the first different
    result or words. A longer prompt does not count as an action."""
    acted = [at for at, row in enumerate(alignment.rows) if DifferingPart.ACTION in row.differs]
    deeds = [at for at in acted if not _is_wording(alignment.rows[at], left)]
    parting = alignment.parting()
    others = [row for row in (parting.result, parting.words) if row is not None]
    return min(deeds or acted or others, default=None)


def _is_wording(row: AlignedRow, left: AlignedSide) -> bool:
    """Another command that printed the same, and wrote no file: what is in a file shows later."""
    is_pair = row.kind is RowKind.CHANGED and DifferingPart.RESULT not in row.differs
    return is_pair and row.left is not None and row.left + 1 not in left.writes


def _find_step(alignment: Alignment, row: int, side: str) -> int | None:
    """Return the side's step at the row, else its next step without an equal."""
    for later in alignment.rows[row:]:
        place: int | None = getattr(later, side)
        if place is not None and (later.differs or later is alignment.rows[row]):
            return place
        if place is not None:
            return None
    return None

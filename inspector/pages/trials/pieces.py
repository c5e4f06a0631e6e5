"""Pieces of a trial's page: rows of a long outline, a field, an image, a text, the trajectory as a file."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from benchapp.analysis.alignment.alignment import (
    AlignedRow,
    AlignedSide,
    Alignment,
    DifferingPart,
    RowKind,
    align,
    read_side,
)
from benchapp.exports.harbor_export import atif_pieces, select_trajectories
from benchapp.models import Blob, Chunk, SkillUse, Trajectory, Trial
from benchapp.record.trajectory_store import MAX_CHUNK_STEPS, open_field
from benchapp.record.visible import one_line, visible
from inspector.pages.trials.trial import read_kept_query, write_query
from inspector.reader.outline import read_headings, read_lines
from inspector.reader.reading import choose_attempt, choose_trajectory, list_skill_steps, read_uses
from inspector.web.responses import attach, read_htmx
from inspector.web.subject import of_trial, of_trial_alone, refuse_closed
from runner.base.types import UseKind
from runner.trajectories.fields import FIELD
from runner.trajectories.images import read_image

LINE_CHARS = 110
PIECE_CHARS = 64_000  # of one field in one answer
PIECE_PARTS = ("first", "middle", "last")


def parting(request: HttpRequest, public_id: UUID, other_id: UUID) -> HttpResponse:
    """Render where two trials of one task first part, for htmx; redirect anybody else to the two side by side."""
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
    """Return for the template: `row`, of the alignment, from 1, None where the two never act differently; `here` and
    `there`, numbers of the steps at that row, None where a side has no step of its own there; `did_here` and
    `did_there`, these steps in a line; `skill`, where they part because one of them alone opened it; `is_mine`, this
    trial did.

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
    """Return skill -> place of the step that first opened it."""
    if main is None:
        return {}
    uses = SkillUse.objects.filter(trajectory=main, step__isnull=False).exclude(kind=UseKind.MOUNTED)
    opened: dict[str, int] = {}
    for skill, step in uses.values_list("skill", "step"):
        opened.setdefault(skill, (step or 1) - 1)
    return opened


def _find_main(trial: Trial) -> Trajectory | None:
    return choose_trajectory(list(Trajectory.objects.of_counting_attempt(trial)), "")


def _find_row(alignment: Alignment, left: AlignedSide) -> int | None:
    """Return the first different action, before one that is only worded differently; without one, the first different
    result or words. A longer prompt does not count as an action."""
    acted = [at for at, row in enumerate(alignment.rows) if DifferingPart.ACTION in row.differs]
    deeds = [at for at in acted if not _is_wording(alignment.rows[at], left)]
    parting = alignment.parting()
    others = [row for row in (parting.result, parting.words) if row is not None]
    return min(deeds or acted or others, default=None)


def _is_wording(row: AlignedRow, left: AlignedSide) -> bool:
    """Is it another command that printed the same and wrote no file? What is in a file shows later."""
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


class OutlineForm(forms.Form):
    """Which rows of a long outline: of the steps from `first` to `last`, without it of the chunk's most."""

    trajectory = forms.UUIDField(required=False)
    first = forms.IntegerField(min_value=1, max_value=2**31)
    last = forms.IntegerField(min_value=1, max_value=2**31, required=False)


class FieldPieceForm(forms.Form):
    """A piece of a field: offsets in characters of the field's canonical text. `part`: its place between them."""

    trajectory = forms.UUIDField(required=False)
    step = forms.IntegerField(min_value=1, max_value=2**31)
    field = forms.RegexField(FIELD)
    start = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    end = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    part = forms.ChoiceField(required=False, choices=[(part, part) for part in PIECE_PARTS])


@of_trial
def outline_rows(request: HttpRequest, trial: Trial) -> HttpResponse:
    """Render what is below one heading of a long outline, for htmx: the headings it joins, or the rows of one
    chunk."""
    form = OutlineForm(request.GET)
    if not form.is_valid():
        raise Http404("no such rows")
    trajectory = _find_trajectory(trial, form.cleaned_data["trajectory"])
    attempt = trajectory.attempt
    skills = list_skill_steps(read_uses(attempt), trajectory)
    first, last = form.cleaned_data["first"], form.cleaned_data["last"]
    headings = read_headings(trajectory, first, last, list(skills)) if last else []
    count = min(last - first + 1, MAX_CHUNK_STEPS) if last else MAX_CHUNK_STEPS
    context = {
        "headings": headings,
        "lines": [] if headings else read_lines(trajectory, first, count, list(skills)),
        "rows_of": trajectory.public_id,
        "this_trial": trial,
        "this_query": write_query(read_kept_query(attempt, trajectory)),
    }
    return render(request, "trials/_outline_rows.html", context)


@of_trial_alone
def field(request: HttpRequest, trial: Trial) -> HttpResponse:
    """Return one field: a bounded piece as HTML for htmx, otherwise all of it as plain text. 404 if the field does
    not exist."""
    form = FieldPieceForm(request.GET)
    if not form.is_valid():
        raise Http404("no such piece")
    asked = form.cleaned_data
    trajectory = _find_trajectory(trial, asked["trajectory"])
    try:
        stored = open_field(trajectory, asked["step"], asked["field"])
    except KeyError as error:
        raise Http404("no such field") from error
    end = stored.length if asked["end"] is None else min(asked["end"], stored.length)
    start = min(asked["start"] or 0, end)
    if not read_htmx(request):
        return HttpResponse(visible(stored.read(start, end)), "text/plain; charset=utf-8")
    spare = max(0, end - start - PIECE_CHARS)
    first = start + {"middle": spare // 2, "last": spare}.get(asked["part"], 0)
    last = min(first + PIECE_CHARS, end)
    context = {
        "piece": visible(stored.read(first, last)),
        "before": _gap(request, start, first),
        "after": _gap(request, last, end),
    }
    return render(request, "trials/_field_piece.html", context)


@of_trial_alone
def image(request: HttpRequest, trial: Trial, digest: str) -> HttpResponse:
    """Return an image of one of the trial's steps. Its content decides its type, never the log."""
    kept = Chunk.pieces.through.objects.filter(chunk__trajectory__attempt__trial=trial, blob=digest)
    content = Blob.objects.read(digest) if kept.exists() else b""
    shape = read_image(content)
    if shape is None:
        raise Http404("no such image")
    response = HttpResponse(content, shape[0])
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "private, max-age=3600"
    return response


def _gap(request: HttpRequest, start: int, end: int) -> dict[str, object] | None:
    """Return what is not loaded yet between a piece and its neighbour. `address` lacks the part."""
    if start >= end:
        return None
    query = request.GET.copy()
    query.pop("part", None)
    query["start"], query["end"] = str(start), str(end)
    return {
        "address": f"{request.path}?{query.urlencode()}",
        "left_out": end - start,
        "piece": min(PIECE_CHARS, end - start),
        "is_long": end - start > PIECE_CHARS,
    }


@of_trial
def text(request: HttpRequest, trial: Trial, name: str) -> HttpResponse:
    """Return a text about a trial as a whole: `instruction`, or of an attempt `output` (its verifier's) or
    `exception`."""
    attempt = choose_attempt(list(trial.attempts.order_by("number")), request.GET.get("attempt", ""))
    verdict = attempt.verdicts.order_by("-is_primary", "id").first() if attempt else None
    digest = {
        "instruction": trial.task_revision.instruction_id if trial.task_revision else None,
        "output": verdict.output_id if verdict else None,
        "exception": attempt.exception_id if attempt else None,
    }.get(name)
    if digest is None:
        raise Http404("no such text")
    return HttpResponse(visible(Blob.objects.read_text(digest)), "text/plain; charset=utf-8")


@of_trial_alone
def trajectory_file(request: HttpRequest, trial: Trial) -> HttpResponse | StreamingHttpResponse:
    """Return an ATIF document of the attempt that counts, or of `?attempt=`. 404 if it recorded no step."""
    attempts = list(trial.attempts.order_by("number"))
    attempt = choose_attempt(attempts, request.GET.get("attempt", ""))
    trajectories = select_trajectories(attempt) if attempt else []
    if attempt is None or not trajectories:
        raise Http404("this attempt recorded no step")
    pieces, headers = atif_pieces(attempt, trajectories), attach(f"trajectory-{attempt.public_id}.json")
    return StreamingHttpResponse(pieces, content_type="application/json", headers=headers)


def _find_trajectory(found: Trial, public_id: UUID | None) -> Trajectory:
    if public_id:
        return get_object_or_404(Trajectory, attempt__trial=found, public_id=public_id)
    if main := _find_main(found):
        return main
    raise Http404("no trajectory")

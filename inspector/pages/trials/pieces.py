"""Pieces of a trial's page: rows of a long outline, a field, an image, a text, the trajectory as a file."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from benchapp.exports.harbor_export import atif_pieces, select_trajectories
from benchapp.models import Blob, Chunk, Trajectory, Trial
from benchapp.record.trajectory_store import MAX_CHUNK_STEPS, open_field
from inspector.pages.trials.trial import read_kept_query, write_query
from inspector.reader.outline import read_headings, read_lines
from inspector.reader.reading import choose_attempt, list_skill_steps, read_uses
from inspector.web.responses import read_htmx
from inspector.web.subject import of_trial, of_trial_alone
from inspector.web.text.visible import visible
from runner.trajectories.images import read_image

PIECE_CHARS = 64_000  # of one field in one answer
PIECE_PARTS = ("first", "middle", "last")


class OutlineForm(forms.Form):
    """Which rows of a long outline: of the steps from `first` to `last`, without it of the chunk's most."""

    trajectory = forms.UUIDField(required=False)
    first = forms.IntegerField(min_value=1, max_value=2**31)
    last = forms.IntegerField(min_value=1, max_value=2**31, required=False)


class FieldPieceForm(forms.Form):
    """A piece of a field: offsets in characters of the field's canonical text. `part`: its place between them."""

    trajectory = forms.UUIDField(required=False)
    step = forms.IntegerField(min_value=1, max_value=2**31)
    field = forms.RegexField(r"\A(message|reasoning|tool_calls/\d{1,6}|observations/\d{1,6})\Z")
    start = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    end = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    part = forms.ChoiceField(required=False, choices=[(part, part) for part in PIECE_PARTS])


@require_safe
@of_trial
def outline_rows(request: HttpRequest, found: Trial) -> HttpResponse:
    """What is below one heading of a long outline, for htmx: the headings it joins, or the rows of one chunk."""
    form = OutlineForm(request.GET)
    if not form.is_valid():
        raise Http404("no such rows")
    trajectory = _find_trajectory(found, form.cleaned_data["trajectory"])
    attempt = trajectory.attempt
    skills = list_skill_steps(read_uses(attempt), trajectory)
    first, last = form.cleaned_data["first"], form.cleaned_data["last"]
    headings = read_headings(trajectory, first, last, list(skills)) if last else []
    count = min(last - first + 1, MAX_CHUNK_STEPS) if last else MAX_CHUNK_STEPS
    context = {
        "headings": headings,
        "lines": [] if headings else read_lines(trajectory, first, count, list(skills)),
        "rows_of": trajectory.public_id,
        "this_trial": found,
        "this_query": write_query(read_kept_query(attempt, trajectory)),
    }
    return render(request, "trials/_outline_rows.html", context)


@require_safe
@of_trial_alone
def field(request: HttpRequest, found: Trial) -> HttpResponse:
    """Return one field: a bounded piece as HTML for htmx, otherwise all of it as plain text. 404 if the field does
    not exist."""
    form = FieldPieceForm(request.GET)
    if not form.is_valid():
        raise Http404("no such piece")
    asked = form.cleaned_data
    trajectory = _find_trajectory(found, asked["trajectory"])
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


@require_safe
@of_trial_alone
def image(request: HttpRequest, found: Trial, digest: str) -> HttpResponse:
    """An image of one of the trial's steps. Its content decides its type, never the log."""
    kept = Chunk.pieces.through.objects.filter(chunk__trajectory__attempt__trial=found, blob=digest)
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
    """What is not loaded yet between a piece and its neighbour. `address` lacks the part."""
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


@require_safe
@of_trial
def text(request: HttpRequest, found: Trial, name: str) -> HttpResponse:
    """A text about a trial as a whole: `instruction`, or of an attempt `output` (its verifier's) or `exception`."""
    attempt = choose_attempt(list(found.attempts.order_by("number")), request.GET.get("attempt", ""))
    verdict = attempt.verdicts.order_by("-is_primary", "id").first() if attempt else None
    digest = {
        "instruction": found.task_revision.instruction_id if found.task_revision else None,
        "output": verdict.output_id if verdict else None,
        "exception": attempt.exception_id if attempt else None,
    }.get(name)
    if digest is None:
        raise Http404("no such text")
    return HttpResponse(visible(Blob.objects.read_text(digest)), "text/plain; charset=utf-8")


@require_safe
@of_trial_alone
def trajectory_file(request: HttpRequest, trial: Trial) -> HttpResponse | StreamingHttpResponse:
    """An ATIF document of the attempt that counts, or of `?attempt=`. 404 where it recorded no step."""
    attempts = list(trial.attempts.order_by("number"))
    attempt = choose_attempt(attempts, request.GET.get("attempt", ""))
    trajectories = select_trajectories(attempt) if attempt else []
    if attempt is None or not trajectories:
        raise Http404("this attempt recorded no step")
    response = StreamingHttpResponse(atif_pieces(attempt, trajectories), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="trajectory-{attempt.public_id}.json"'
    return response


def _find_trajectory(found: Trial, public_id: UUID | None) -> Trajectory:
    trajectories = Trajectory.objects.filter(attempt__trial=found)
    if public_id:
        return get_object_or_404(trajectories, public_id=public_id)
    main = trajectories.filter(attempt__counts=True, is_superseded=False).order_by("ordinal", "id")
    if first := main.filter(kind="main").first() or main.first():
        return first
    raise Http404("no trajectory")

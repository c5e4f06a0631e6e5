"""`/trials/<id>/`, the inspector: how did it end, where did it go wrong, and had it read a skill?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.analysis.alignment.counterparts import Counterpart, find_counterparts
from benchapp.analysis.failures.failure_reading import WORDS, read_class
from benchapp.exports.atif_file import atif_pieces, select_trajectories
from benchapp.models import Attempt, Blob, Chunk, Decision, Trajectory, Trial
from benchapp.record.json_shape import JsonShape, encode
from benchapp.record.recorded import BOUND_OF
from benchapp.record.trajectory_store import MAX_CHUNK_STEPS, StoredStep, open_field
from inspector.evolution.strip import open_strip
from inspector.pages.people.comments import count_step_comments
from inspector.pages.trials.live_trial import read_live_steps, read_steps_since
from inspector.pages.trials.parting import find_parting
from inspector.pages.trials.step_map import read_headings, read_lines
from inspector.pages.trials.step_reading import StepReading, list_skill_steps, read_uses
from inspector.pages.trials.trial import (
    Inspection,
    Surroundings,
    choose_attempt,
    find_surroundings,
    inspect_trial,
    read_more_steps,
)
from inspector.web.closed_pages import refuse_closed, words_of
from inspector.web.responses import PageLink, is_published, link_to, read_htmx, render_page
from inspector.web.subject import of_trial, of_trial_alone
from inspector.web.text.visible import visible
from runner.trajectories.fields import fields
from runner.trajectories.images import read_image

VIEW_WORDS = {"rich": "full trace", "rough": "short trace"}
SHOWN_BESIDE, MOST_BESIDE = 10, 60  # trials of the same task: in the list, and among which one that passed is sought
JSON_CHARS = 20_000  # of one text in the JSON twin
JSON_PAGE_CHARS = 1_000_000  # of all fields of its page of steps together
PIECE_CHARS = 64_000  # of one field in one answer
PIECE_PARTS = ("first", "middle", "last")


class OutlineForm(forms.Form):
    """Which rows of a long outline: of the steps from `first` to `last`, without it of the chunk's most."""

    trajectory = forms.UUIDField(required=False)
    first = forms.IntegerField(min_value=1, max_value=2**31)
    last = forms.IntegerField(min_value=1, max_value=2**31, required=False)


class FieldPieceForm(forms.Form):
    """Which piece of which field: offsets in characters of the field's canonical text. `part`: where the piece lies
    between them."""

    trajectory = forms.UUIDField(required=False)
    step = forms.IntegerField(min_value=1, max_value=2**31)
    field = forms.RegexField(r"\A(message|reasoning|tool_calls/\d{1,6}|observations/\d{1,6})\Z")
    start = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    end = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    part = forms.ChoiceField(required=False, choices=[(part, part) for part in PIECE_PARTS])


@require_safe
@of_trial
def trial(request: HttpRequest, found: Trial, *, as_json: bool = False) -> HttpResponse:
    inspection = inspect_trial(found, request.GET)
    most = MOST_BESIDE if found.success is False else SHOWN_BESIDE
    others = find_counterparts(found, without=words_of(request).closed_trials(), most=most)
    beside = others[:SHOWN_BESIDE]
    live = read_live_steps(inspection.attempt) if inspection.trajectory is None else None
    strip = None if as_json else open_strip(found.episode.run, found.episode, words_of(request), trial=found)
    around = Surroundings() if strip else find_surroundings(found)

    def twin() -> dict[str, object]:
        return {
            **FACTS.read(found),
            **INSPECTION.read(inspection),
            **SURROUNDINGS.read(around),
            "next": _build_next(request, inspection),
            "live": [step for _, step in live.published] if live else None,
            "compare_with": [_beside_twin(found, each) for each in beside],
        }

    context = {
        "section": "trial",
        "this": inspection,
        "live": live,
        "strip": strip,
        "around": around,
        "views": list(VIEW_WORDS.items()),
        "counterparts": beside,
        "passing": _choose_passing(inspection, others),
        "failure": None if as_json else _name_failure(found),
        **_build_step_context(
            found, inspection.attempt, inspection.reading, commented=not (as_json or is_published(request))
        ),
    }
    return render_page(request, "trials/trial.html", data=twin, context=context, as_json=as_json)


def _name_failure(found: Trial) -> dict[str, str] | None:
    """Its class as the tables of failures name it, with its meaning and the address of the others of its experiment."""
    if not (key := read_class(found)):
        return None
    title, meaning = WORDS[key]
    query = urlencode({"experiment": found.episode.run.experiment.public_id, "class": key})
    return {"title": title, "meaning": meaning, "url": f"{reverse('compare-failures')}?{query}#trials"}


@require_safe
@of_trial
def steps(request: HttpRequest, found: Trial) -> HttpResponse:
    """Further steps for htmx: from `?first=` on, up to `?to=`, or around `?at=`. Anybody else is sent to the page."""
    if not read_htmx(request):
        query = request.GET.copy()
        query["at"] = query.get("at") or query.get("first") or query.get("to") or "1"
        return redirect(f"{found.get_absolute_url()}?{query.urlencode()}")
    reading = read_more_steps(found, request.GET)
    attempt = reading.trajectory.attempt if reading.trajectory else None
    context = {
        "reading": reading,
        "above": reading.window.above if "first" not in request.GET else None,
        "below": reading.window.next if "to" not in request.GET else None,
        **_build_step_context(found, attempt, reading),
    }
    return render(request, "trials/_more_steps.html", context)


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
        "this_query": _write_query(_read_kept_query(attempt, trajectory)),
    }
    return render(request, "trials/_outline_rows.html", context)


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
        {"parting": find_parting(left, right), "other": right, "this_trial_id": left.public_id},
    )


@require_safe
@of_trial_alone
def field(request: HttpRequest, found: Trial) -> HttpResponse:
    """Of one field: a bounded piece as HTML for htmx, all that was asked for as plain text without it. 404 where there
    is no such field."""
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
    first, last = _place_piece(start, end, asked["part"])
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


def _place_piece(start: int, end: int, part: str) -> tuple[int, int]:
    """Where PIECE_CHARS of the stretch begin and end."""
    spare = max(0, end - start - PIECE_CHARS)
    first = start + {"middle": spare // 2, "last": spare}.get(part, 0)
    return first, min(first + PIECE_CHARS, end)


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


@require_safe
@of_trial
def live_trial(request: HttpRequest, found: Trial) -> HttpResponse:
    """A fragment for htmx; anybody else is sent to the page it belongs to."""
    if not read_htmx(request):
        return redirect(found)
    number = request.GET.get("attempt", "")
    attempt = get_object_or_404(found.attempts, number=int(number) if number.isdecimal() and len(number) < 6 else 0)
    context = {"live": read_steps_since(attempt, request.GET.get("after", "")), "this_trial": found, "is_more": True}
    return render(request, "trials/_live_more.html", context)


def _build_step_context(
    trial: Trial, attempt: Attempt | None, reading: StepReading, *, commented: bool = True
) -> dict[str, object]:
    """What the templates of steps and of the outline need, on the page and in its pieces."""
    trajectory = reading.trajectory
    kept = _read_kept_query(attempt, trajectory)
    return {
        "this_trial": trial,
        "this_query": _write_query(kept),
        "this_hidden": kept,
        "steps_at": reverse("trial-steps", args=[trial.public_id]),
        "piece_at": f"{trial.get_absolute_url()}field/?trajectory={trajectory.public_id}" if trajectory else "",
        "images_at": f"{trial.get_absolute_url()}image/" if trajectory else "",
        "commented": count_step_comments(trial, trajectory) if reading.cards and commented else None,
    }


def _read_kept_query(attempt: Attempt | None, trajectory: Trajectory | None) -> list[tuple[str, object]]:
    """What a link inside the page must say besides its step: nothing while the counting attempt's main one is shown."""
    kept: list[tuple[str, object]] = []
    if attempt and not attempt.counts:
        kept.append(("attempt", attempt.number))
    if trajectory and trajectory.kind != "main":
        kept.append(("trajectory", trajectory.public_id))
    return kept


def _write_query(kept: Sequence[tuple[str, object]]) -> str:
    return "".join(f"&{name}={value}" for name, value in kept)


def _choose_passing(this: Inspection, others: Sequence[Counterpart]) -> Counterpart | None:
    """The closest trial of the same task that passed, beside one that did not. No probe's, unless this is one of a probe: a
    library that was edited for a test does not tell how a learning run could have passed."""
    if this.trajectory is None or this.trial.success is not False:
        return None
    with_probes = this.trial.episode.run.is_probe
    passed = (each for each in others if each.trial.status == Trial.Status.PASSED)
    return next((each for each in passed if with_probes or not each.trial.episode.run.is_probe), None)


def _find_trajectory(found: Trial, public_id: UUID | None) -> Trajectory:
    trajectories = Trajectory.objects.filter(attempt__trial=found)
    if public_id:
        return get_object_or_404(trajectories, public_id=public_id)
    main = trajectories.filter(attempt__counts=True, is_superseded=False).order_by("ordinal", "id")
    if first := main.filter(kind="main").first() or main.first():
        return first
    raise Http404("no trajectory")


# --- the twin ---------------------------------------------------------------------------------------------------


def _beside_twin(found: Trial, beside: Counterpart) -> dict[str, object]:
    url = PageLink("compare-pair-json", found.public_id, beside.trial.public_id)
    return {"id": beside.trial, "why": beside.why, "status": beside.trial.status, "url": url}


def _steps_twin(stored: Sequence[StoredStep]) -> list[dict[str, object]]:
    """Every field with its length; a text over its share of the page is cut, and `length` tells."""
    total = sum(1 for found in stored for _ in fields(found.step))
    limit = min(JSON_CHARS, JSON_PAGE_CHARS // max(total, 1))
    return [{**STEP.read(found.step), "fields": list(_fields_twin(found, limit))} for found in stored]


def _fields_twin(stored: StoredStep, limit: int) -> Iterator[dict[str, object]]:
    for name, text in fields(stored.step):
        yield {"name": name, "text": text[:limit], "length": stored.long.get(name, len(text))}


def _deciding_twin(this: Inspection) -> Iterator[dict[str, object]]:
    """Of every check the steps that most likely decided it, by rule."""
    verdict = this.decided.verdict
    for group in verdict.groups if verdict else ():
        for check in (*group.open, *group.good):
            for one in check.decided:
                yield {"check": check.name, "step": one.step, "rule": one.rule, "about": one.about, "words": one.words}


def _library_link(decision: Decision) -> PageLink:
    episode = decision.episode
    return PageLink("library-json", episode.run.public_id, episode=episode.public_id, decision=decision.number)


def _compactions_twin(this: Inspection) -> list[dict[str, object]]:
    return [{"kind": kind, **COMPACTION.read(one)} for kind, one in this.compactions.items()]


def _build_next(request: HttpRequest, this: Inspection) -> str | None:
    if this.window.next is None or this.view != "full":
        return None
    query = request.GET.copy()
    for name in ("step", "at", "to", "next", "after"):
        query.pop(name, None)
    query["first"] = str(this.window.next)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


TASK = JsonShape("key", "title", "role?")
RUN = JsonShape("id=public_id", "condition", "scripted", link_to("run-json"))
ATTEMPT = JsonShape(
    *("id=public_id", "number", "status", "counts", "started_at", "finished_at", "input_tokens", "output_tokens"),
    *("cost_usd", "estimated_usd", "price_table?", *BOUND_OF.values(), "queued_seconds", "exception_type", "lineage"),
    ("exception_message", lambda attempt: attempt.exception_message[:JSON_CHARS]),
)
CHECK = JsonShape("group", "name", "status", "message")
DIMENSION = JsonShape("name", "score", "max_score", "weight")
VERDICT = JsonShape(
    *("source", "primary=is_primary", "success", "reward", "outcome", "process", "overall", "rewards", "notes"),
    ("checks", lambda verdict: CHECK.read_all(verdict.checks.all())),
)
TRAJECTORY = JsonShape(
    *("id=public_id", "name", "kind", "source_format", "digest", "steps=steps_total", "copied_steps", "parent"),
    *("input_tokens", "output_tokens"),
    ("tool_call_id", lambda one: one.extra.get("tool_call_id")),
    ("provider_delay", lambda one: one.extra.get("provider_delay") if one.provider_delay else None),
    ("events_without_step", lambda one: one.extra.get("facts", {}).get("events_without_step", {})),
    ("not_sent", lambda one: one.extra.get("not_sent", [])),
)
STEP = JsonShape(
    *("number", "source", "time=timestamp", "model"),
    ("error", lambda step: any(observation.is_error for observation in step.observations)),
    *("input_tokens=usage.input_tokens", "output_tokens=usage.output_tokens"),
)
COMPACTION = JsonShape("version", "tokens", "kept=steps_kept", "of=steps_total")
DECISION = JsonShape("number", "status", ("url", _library_link))
SHOWN_IN = JsonShape("number", ("url", _library_link))
FACTS = JsonShape(
    *("id=public_id", "status", ("task", lambda trial: TASK.read(trial.task)), "family=task.family.key", "phase"),
    *("sample", "experiment=episode.run.experiment", ("run", lambda trial: RUN.read(trial.episode.run)), "episode"),
    *("library_digest=snapshot.digest", "success", "reward", "outcome", "process", "overall", "checks_passed"),
    *(
        "checks_total",
        "turns",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "input_at_least?",
        "estimated_usd",
        "output_at_least?",
    ),
    *("cost_usd", "duration_seconds", "exception_type", "skills_mounted", "skills_read", "finished_at"),
)
SURROUNDINGS = JsonShape("previous", "following")
INSPECTION = JsonShape(
    ("attempts", lambda this: ATTEMPT.read_all(this.attempts)),
    "attempt=attempt.number",
    (
        "verdicts",
        lambda this: [
            {**VERDICT.read(view.verdict), "dimensions": DIMENSION.read_all(view.dimensions)} for view in this.verdicts
        ],
    ),
    ("skills", lambda this: [{"skill": skill.slug, **encode(skill)} for skill in this.skills]),
    ("trajectories", lambda this: TRAJECTORY.read_all(this.trajectories)),
    "trajectory",
    ("compactions", _compactions_twin),
    ("decisions", lambda this: DECISION.read_all(this.decisions)),
    ("shown_in", lambda this: SHOWN_IN.read_all(this.shown_in)),
    *("retrieved", "ending"),
    ("deciding", lambda this: list(_deciding_twin(this))),
    ("steps", lambda this: _steps_twin(this.reading.stored)),
    "steps_total=window.total",
)

"""`/trials/<id>/`, the inspector: how did it end, where did it go wrong, and had it read a skill?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from benchapp.aligning.counterparts import Counterpart, counterparts
from benchapp.models import Attempt, Blob, Trajectory, Trial, User
from benchapp.recorded import BOUND_OF
from benchapp.reviewing.blinding import closed_trials
from benchapp.trajectory_store import StoredStep, read_field
from inspector.commented import commented_steps
from inspector.inspection import Inspection, chosen_attempt, inspect_trial
from inspector.live_trial import live_steps
from inspector.pages import absolute, render_page
from inspector.verdict import VerdictView
from inspector.views.review.closed import closed_to
from inspector.visible import visible
from runner.trajectories.fields import fields

VIEW_WORDS = {"full": "Full", "rich": "Rich", "rough": "Rough"}
JSON_CHARS = 20_000  # of one text in the JSON twin
JSON_PAGE_CHARS = 1_000_000  # of all fields of its page of steps together
PIECE_CHARS = 64_000  # of one field in one answer


class FieldPieceForm(forms.Form):
    """Which piece of which field: offsets in characters of the field's canonical text."""

    trajectory = forms.UUIDField(required=False)
    step = forms.IntegerField(min_value=1, max_value=2**31)
    field = forms.RegexField(r"\A(message|reasoning|tool_calls/\d{1,6}|observations/\d{1,6})\Z")
    start = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    end = forms.IntegerField(required=False, min_value=0, max_value=2**40)


@require_safe
def trial(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    if closed := closed_to(request, trial=found, as_json=as_json):
        return closed
    inspection = inspect_trial(found, request.GET)
    beside = counterparts(found, without=closed_trials(cast(User, request.user)))
    live = live_steps(inspection.attempt) if inspection.trajectory is None else None

    def twin() -> dict[str, Any]:
        return {
            **_as_json(request, inspection),
            "live": [step for _, step in live.published] if live else None,
            "compare_with": [_beside_as_json(request, found, each) for each in beside],
        }

    kept, trajectory = _kept_query(inspection), inspection.trajectory
    context = {
        "section": "trial",
        "this": inspection,
        "live": live,
        "this_trial": found,
        "this_query": "".join(f"&{name}={value}" for name, value in kept),
        "this_hidden": kept,
        "piece_at": f"{found.get_absolute_url()}field/?trajectory={trajectory.public_id}" if trajectory else "",
        "views": list(VIEW_WORDS.items()),
        "counterparts": beside,
        "commented": commented_steps(found, inspection.trajectory) if inspection.steps and not as_json else None,
    }
    return render_page(request, "inspector/trial.html", data=twin, context=context, as_json=as_json)


@require_safe
def field(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Of one field: a bounded piece as HTML for htmx, all that was asked for as plain text without it. 404 where there
    is no such field."""
    found = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    if closed := closed_to(request, trial=found):
        return closed
    form = FieldPieceForm(request.GET)
    if not form.is_valid():
        raise Http404("no such piece")
    asked = form.cleaned_data
    trajectory = _trajectory(found, asked["trajectory"])
    start, end = asked["start"] or 0, asked["end"]
    try:
        text = read_field(trajectory, asked["step"], asked["field"], start, end)
    except KeyError as error:
        raise Http404("no such field") from error
    if not request.htmx:  # type: ignore[attr-defined]
        return HttpResponse(visible(text), "text/plain; charset=utf-8")
    query = request.GET.copy()
    query["start"] = str(start + PIECE_CHARS)
    context = {
        "piece": visible(text[:PIECE_CHARS]),
        "left_out": max(0, len(text) - PIECE_CHARS),
        "address": f"{request.path}?{query.urlencode()}",
    }
    return render(request, "inspector/_field_piece.html", context)


@require_safe
def text(request: HttpRequest, public_id: UUID, name: str) -> HttpResponse:
    """A text about a trial as a whole: `instruction`, or of an attempt `output` (its verifier's) or `exception`."""
    found = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    if closed := closed_to(request, trial=found):
        return closed
    attempt = chosen_attempt(list(found.attempts.order_by("number")), request.GET.get("attempt", ""))
    verdict = attempt.verdicts.order_by("-is_primary", "id").first() if attempt else None
    digest = {
        "instruction": found.task_revision.instruction_id if found.task_revision else None,
        "output": verdict.output_id if verdict else None,
        "exception": attempt.exception_id if attempt else None,
    }.get(name)
    if digest is None:
        raise Http404("no such text")
    return HttpResponse(visible(Blob.objects.read_text(digest)), "text/plain; charset=utf-8")


def _kept_query(this: Inspection) -> list[tuple[str, object]]:
    """What a link inside the page must say besides its step: nothing while the counting attempt's main one is shown."""
    kept: list[tuple[str, object]] = []
    if this.attempt and this.attempt != this.attempts[-1] and not this.attempt.counts:
        kept.append(("attempt", this.attempt.number))
    if this.trajectory and this.trajectory.kind != "main":
        kept.append(("trajectory", this.trajectory.public_id))
    return kept


def _trajectory(found: Trial, public_id: UUID | None) -> Trajectory:
    trajectories = Trajectory.objects.filter(attempt__trial=found)
    if public_id:
        return get_object_or_404(trajectories, public_id=public_id)
    main = trajectories.filter(attempt__counts=True, is_superseded=False).order_by("ordinal", "id")
    if first := main.filter(kind="main").first() or main.first():
        return first
    raise Http404("no trajectory")


def _as_json(request: HttpRequest, this: Inspection) -> dict[str, Any]:
    found = this.trial
    return {
        **_facts(request, found),
        "attempts": [_attempt_as_json(attempt) for attempt in this.attempts],
        "attempt": this.attempt.number if this.attempt else None,
        "verdicts": [_verdict_as_json(view) for view in this.verdicts],
        "skills": [
            {"skill": skill.slug, "mounted": skill.is_mounted, "used": skill.kinds, "first_step": skill.first_step}
            for skill in this.skills
        ],
        "trajectories": [_trajectory_as_json(trajectory) for trajectory in this.trajectories],
        "trajectory": this.trajectory.public_id if this.trajectory else None,
        "compactions": [
            {"kind": kind, "version": one.version, "tokens": one.tokens, "kept": one.steps_kept, "of": one.steps_total}
            for kind, one in this.compactions.items()
        ],
        "decisions": [
            {"number": decision.number, "status": decision.status, "url": _library_url(request, decision)}
            for decision in this.decisions
        ],
        "shown_in": [{"number": decision.number, "url": _library_url(request, decision)} for decision in this.shown_in],
        "retrieved": [other.public_id for other in this.retrieved],
        "previous": this.previous.public_id if this.previous else None,
        "following": this.following.public_id if this.following else None,
        "steps": _steps_as_json(this.stored),
        "steps_total": this.window.total,
        "next": _next(request, this),
    }


def _beside_as_json(request: HttpRequest, found: Trial, beside: Counterpart) -> dict[str, Any]:
    url = absolute(request, "compare-pair-json", found.public_id, beside.trial.public_id)
    return {"id": beside.trial.public_id, "why": beside.why, "status": beside.trial.status, "url": url}


def _facts(request: HttpRequest, found: Trial) -> dict[str, Any]:
    run = found.episode.run
    names = (
        *("success", "reward", "outcome", "process", "overall", "checks_passed", "checks_total", "turns"),
        *("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "duration_seconds", "exception_type"),
        *("skills_mounted", "skills_read", "finished_at"),
    )
    return {
        "id": found.public_id,
        "status": found.status,
        "task": {"key": found.task.key, "title": found.task.title, "role": found.task.role or None},
        "family": found.task.family.key if found.task.family else None,
        "phase": found.phase,
        "sample": found.sample,
        "experiment": run.experiment.public_id,
        "run": {
            "id": run.public_id,
            "condition": run.condition,
            "scripted": run.scripted,
            "url": absolute(request, "run-json", run.public_id),
        },
        "episode": found.episode.public_id,
        "library_digest": found.snapshot.digest if found.snapshot else None,
        **{name: getattr(found, name) for name in names},
    }


def _attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.public_id,
        "number": attempt.number,
        "status": attempt.status,
        "counts": attempt.counts,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "input_tokens": attempt.input_tokens,
        "output_tokens": attempt.output_tokens,
        "cost_usd": attempt.cost_usd,
        **{name: getattr(attempt, name) for name in BOUND_OF.values()},
        "exception_type": attempt.exception_type,
        "exception_message": attempt.exception_message[:JSON_CHARS],
    }


def _verdict_as_json(view: VerdictView) -> dict[str, Any]:
    verdict = view.verdict
    return {
        "source": verdict.source,
        "primary": verdict.is_primary,
        "success": verdict.success,
        "reward": verdict.reward,
        "outcome": verdict.outcome,
        "process": verdict.process,
        "overall": verdict.overall,
        "rewards": verdict.rewards,
        "notes": verdict.notes,
        "checks": [
            {"group": check.group, "name": check.name, "status": check.status, "message": check.message}
            for check in verdict.checks.all()
        ],
        "dimensions": [
            {"name": one.name, "score": one.score, "max_score": one.max_score, "weight": one.weight}
            for one in view.dimensions
        ],
    }


def _trajectory_as_json(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "id": trajectory.public_id,
        "name": trajectory.name,
        "kind": trajectory.kind,
        "source_format": trajectory.source_format,
        "digest": trajectory.digest,
        "steps": trajectory.steps_total,
        "parent": trajectory.parent.public_id if trajectory.parent else None,
        "tool_call_id": trajectory.extra.get("tool_call_id"),
        "provider_delay": trajectory.extra.get("provider_delay") if trajectory.provider_delay else None,
        "events_without_step": trajectory.extra.get("facts", {}).get("events_without_step", {}),
        "not_sent": trajectory.extra.get("not_sent", []),
    }


def _steps_as_json(stored: Sequence[StoredStep]) -> list[dict[str, Any]]:
    """Every field with its length; a text over its share of the page is cut, and `length` tells."""
    total = sum(1 for found in stored for _ in fields(found.step))
    limit = min(JSON_CHARS, JSON_PAGE_CHARS // max(total, 1))
    return [_step_as_json(found, limit) for found in stored]


def _step_as_json(stored: StoredStep, limit: int) -> dict[str, Any]:
    step, usage = stored.step, stored.step.usage
    return {
        "number": step.number,
        "source": step.source,
        "time": step.timestamp,
        "model": step.model,
        "error": any(observation.is_error for observation in step.observations),
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "fields": [
            {"name": name, "text": text[:limit], "length": stored.long.get(name, len(text))}
            for name, text in fields(step)
        ],
    }


def _library_url(request: HttpRequest, decision: Any) -> str:
    base = absolute(request, "library-json", decision.episode.run.public_id)
    return f"{base}?episode={decision.episode.public_id}&decision={decision.number}"


def _next(request: HttpRequest, this: Inspection) -> str | None:
    if this.window.next is None or this.view != "full":
        return None
    query = request.GET.copy()
    query.pop("step", None)
    query["first"] = str(this.window.next)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")

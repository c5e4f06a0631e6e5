"""`/runs/<id>/library/findings/`: what rules say of the library at each round; alarms about leaks first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from benchapp.diagnosing.diagnosis import RULES, RULES_VERSION
from benchapp.diagnosing.queueing import ask_for, with_library
from benchapp.models import Episode, LibraryDiagnosis, Run, User
from benchapp.reviewing.blinding import closed_trials
from inspector.access import needs
from inspector.findings import PER_PAGE, PROFILE_WORDS, FindingsPage, Shown, open_findings, shown_on
from inspector.pages import absolute, choose, next_url, paginate, render_page
from inspector.views.review.closed import of_open_run


@require_safe
@of_open_run
def findings(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes = _episodes(run)
    episode = choose(episodes, request.GET.get("episode", ""), lambda one: one.alarms)
    user = cast(User, request.user)
    opened = open_findings(run, episode, request.GET, closed_trials(user)) if episode else None
    page = paginate(request, opened.chosen, per_page=PER_PAGE) if opened else None
    shown = shown_on(page, opened) if opened and page is not None else []
    data = {
        "run": {"id": run.public_id, "condition": run.condition, "scripted": run.scripted},
        "episodes": [
            {"id": each.public_id, "title": each.title, "alarms": each.alarms, "read": each.alarms is not None}
            for each in episodes
        ],
        "episode": episode.public_id if episode else None,
        "rules_version": RULES_VERSION,
        **(_as_json(request, opened, shown) if opened else {}),
        "next": next_url(request, page) if page is not None else None,
    }
    context = {
        "section": "run",
        "this_run": run,
        "this_episode": episode,
        "all_episodes": episodes,
        "opened": opened,
        "page": page,
        "shown": shown,
        "totals": {severity: opened.total(severity) for severity in ("alarm", "warning", "note")} if opened else {},
        "profile_words": PROFILE_WORDS,
        "rules_total": len(RULES),
        "may_ask": user.may(User.Level.OPERATOR),
    }
    return render_page(request, "inspector/findings.html", data=data, context=context, as_json=as_json)


@require_POST
@needs(User.Level.OPERATOR)
def findings_ask(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Queues the reading of this run's libraries. Reading twice changes nothing, so nobody is asked why."""
    run = get_object_or_404(Run.objects.for_detail(), public_id=public_id)
    asked = ask_for(with_library(Episode.objects.filter(run=run)))
    if asked is None:
        messages.error(
            request, "No worker can be asked: the broker is away. `manage.py diagnose_libraries` reads them here."
        )
    else:
        messages.success(
            request, f"A worker reads {asked} librar{'y' if asked == 1 else 'ies'}; load this page again soon."
        )
    return redirect("findings", run.public_id)


def _episodes(run: Run) -> list[Episode]:
    """With the alarms of each one's present library; None where no rule has read it."""
    episodes = run.episodes.select_related("library", "family", "run")
    rows = LibraryDiagnosis.objects.filter(episode__run=run, snapshot=F("episode__library"))
    alarms = dict(rows.values_list("episode", "alarms"))
    found = list(with_library(episodes).order_by("ordinal", "id"))
    for episode in found:
        episode.alarms = alarms.get(episode.pk)
    return found


def _as_json(request: HttpRequest, opened: FindingsPage, shown: Sequence[Shown]) -> dict[str, Any]:
    diagnosis = opened.diagnosis
    return {
        "round": opened.state.key,
        "library_digest": opened.state.digest or None,
        "group": opened.group or None,
        "diagnosis": {
            "rules_version": diagnosis.rules_version,
            "at": diagnosis.diagnosed_at,
            "alarms": opened.total("alarm"),
            "warnings": opened.total("warning"),
            "notes": opened.total("note"),
            "withheld": opened.withheld,
            "left_out": diagnosis.left_out,
            "files_cut": diagnosis.cut,
            "tasks_seen": diagnosis.tasks_seen,
            "trials_read": diagnosis.trials_read,
            "trials_left_out": diagnosis.trials_left_out,
            "references": diagnosis.references,
        }
        if diagnosis
        else None,
        "trend": [
            {"round": column.state.key, **{name: getattr(column.diagnosis, name, None) for name in COUNTED}}
            for column in opened.trend
        ],
        "skills": diagnosis.skills if diagnosis else [],
        "findings": [_finding_as_json(request, each) for each in shown],
    }


COUNTED = ("alarms", "warnings", "notes")


def _finding_as_json(request: HttpRequest, shown: Shown) -> dict[str, Any]:
    finding = shown.finding
    return {
        "rule": finding.rule,
        "group": finding.group,
        "severity": finding.severity,
        "heuristic": shown.rule.is_heuristic if shown.rule else None,
        "path": finding.path,
        "line": finding.line or None,
        "start": finding.start,
        "end": finding.end,
        "quote": finding.quote,
        "says": finding.says,
        "trial": finding.trial.public_id if finding.trial else None,
        "trial_url": absolute(request, "trial-json", finding.trial.public_id) if finding.trial else None,
        "step": finding.step,
        "field": finding.field or None,
        "url": request.build_absolute_uri(shown.file_url),
    }

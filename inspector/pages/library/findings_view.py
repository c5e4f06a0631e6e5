"""`/runs/<id>/library/findings/`: what rules say of the library at each round; alarms about leaks first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from uuid import UUID

from django.contrib import messages
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from benchapp.analysis.diagnoses.diagnosis import RULES, RULES_VERSION
from benchapp.analysis.diagnoses.diagnosis_queue import enqueue_reading, select_with_library
from benchapp.models import Episode, LibraryDiagnosis, Run, User
from benchapp.record.json_shape import JsonShape
from inspector.pages.library.findings import PER_PAGE, PROFILE_WORDS, ShownFinding, open_findings, read_findings_on
from inspector.web.access import needs
from inspector.web.closed_pages import words_of
from inspector.web.responses import PageLink, next_url, paginate, render_page
from inspector.web.subject import choose_row, of_run
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.var_folder import MANAGE


@require_safe
@of_run
def findings(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    present = LibraryDiagnosis.objects.filter(episode=OuterRef("pk"), snapshot=OuterRef("library"))
    with_library = select_with_library(run.episodes.select_related("library", "family", "run"))
    # None where no rule has read the present library.
    episodes = list(with_library.annotate(alarms=Subquery(present.values("alarms")[:1])))
    episode = choose_row(episodes, request.GET.get("episode", ""), lambda each: each.alarms)
    user = cast(User, request.user)
    opened = open_findings(run, episode, request.GET, words_of(request).closed_trials()) if episode else None
    page = paginate(request, opened.chosen, per_page=PER_PAGE) if opened else None
    shown = read_findings_on(page, opened) if opened and page is not None else []
    data = {
        "run": RUN_HEAD.read(run),
        "episodes": EPISODE.read_all(episodes),
        "episode": episode,
        "rules_version": RULES_VERSION,
        **({**OPENED.read(opened), "findings": _findings_twin(request, shown)} if opened else {}),
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
    return render_page(request, "library/findings.html", data=data, context=context, as_json=as_json)


@require_POST
@needs(User.Level.OPERATOR)
def findings_ask(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Queues the reading of this run's libraries. Reading twice changes nothing, so nobody is asked why."""
    run = get_object_or_404(Run.objects.for_detail(), public_id=public_id)
    asked = enqueue_reading(select_with_library(Episode.objects.filter(run=run)))
    if asked is None:
        messages.error(request, f"The broker does not answer, so no worker runs it. Use `{MANAGE} diagnose_libraries`.")
    else:
        messages.success(
            request, f"A worker checks {asked} librar{'y' if asked == 1 else 'ies'}. Reload this page soon."
        )
    return redirect("findings", run.public_id)


def _findings_twin(request: HttpRequest, shown: Sequence[ShownFinding]) -> list[dict[str, object]]:
    return [{**FINDING.read(each), "url": request.build_absolute_uri(each.file_url)} for each in shown]


DIAGNOSIS = JsonShape(
    "rules_version=diagnosis.rules_version",
    "at=diagnosis.diagnosed_at",
    ("alarms", lambda opened: opened.total("alarm")),
    ("warnings", lambda opened: opened.total("warning")),
    ("notes", lambda opened: opened.total("note")),
    *("withheld", "left_out=diagnosis.left_out", "files_cut=diagnosis.cut", "tasks_seen=diagnosis.tasks_seen"),
    *("trials_read=diagnosis.trials_read", "trials_left_out=diagnosis.trials_left_out"),
    "references=diagnosis.references",
)
COLUMN = JsonShape(
    *("round=state.key", "alarms=diagnosis.alarms", "warnings=diagnosis.warnings", "notes=diagnosis.notes"),
)
OPENED = JsonShape(
    *("round=state.key", "library_digest=state.digest?", "group?"),
    ("diagnosis", lambda opened: DIAGNOSIS.read(opened) if opened.diagnosis else None),
    ("trend", lambda opened: COLUMN.read_all(opened.trend)),
    ("skills", lambda opened: opened.diagnosis.skills if opened.diagnosis else []),
)
FINDING = JsonShape(
    *("rule=finding.rule", "group=finding.group", "severity=finding.severity", "heuristic=rule.is_heuristic"),
    *("path=finding.path", "line=finding.line?", "start=finding.start", "end=finding.end", "quote=finding.quote"),
    *("says=finding.says", "trial=finding.trial"),
    ("trial_url", lambda shown: shown.finding.trial and PageLink("trial-json", shown.finding.trial.public_id)),
    *("step=finding.step", "field=finding.field?"),
)
EPISODE = JsonShape("id=public_id", "title", "alarms", ("read", lambda episode: episode.alarms is not None))

"""`/experiments/<id>/`: what an experiment answers, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import yaml
from django.db.models import Case, Count, Max, Min, Value, When
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.analysis.lineage.attribution import read_round_rates
from benchapp.experiments.launch_spec import describe_launched
from benchapp.experiments.probe_results import read_results
from benchapp.experiments.qualification import read_verdicts, say_solved, say_verdicts, sum_up_checks
from benchapp.experiments.work.progress import progress_of
from benchapp.models import Episode, Experiment, Probe, Run, Trial
from benchapp.models.episodes import FAILING, REASON
from benchapp.models.stand_ins import join_stand_ins
from benchapp.papers.loading import PAPERS
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.columns import outcomes_of, read_settled_after
from benchapp.stats.comparing.hypotheses import correct_hypotheses, list_unknown_metrics
from benchapp.stats.comparing.selection import facets_of, name_probe
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import spending_of
from benchapp.stats.metrics.tally import TrialTally
from inspector.charts.cards import build_gallery
from inspector.charts.chart_request import sheet_of
from inspector.charts.figures.validation import CHART as VALIDATION
from inspector.pages.compare.compare_view import (
    answer_twin,
    build_answer_context,
    comparison_twin,
    find_new_address,
    groups_twin,
)
from inspector.pages.compare.comparisons_view import HYPOTHESIS, say_held, write_declared
from inspector.pages.compare.tabs_view import MEMBER, RUNS_PER_PAGE, build_members, sum_up
from inspector.web.closed_pages import words_of
from inspector.web.responses import next_url, paginate, read_htmx, render_page, wants_fragment

MOST_REASONS, REASON_LENGTH = 3, 300  # a traceback may follow; its beginning says what happened
FAILS = Value("failing, retrying")  # the status of an episode that continues after a failure of the machine
AXES_CHOSEN = ("condition", "agent_model", "harness")  # what most readers narrow; an address may name more
SCORES = 200  # rows of the table of scores; the twin has all
GROUPS_PER_PAGE = 15  # condition x models x harness


@require_safe
def experiment(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(Experiment.objects.for_list(), public_id=public_id)
    if wants_fragment(request) and read_htmx(request).target == "live":
        return _render_count(request, found)
    sheet = sheet_of(request, experiment=(found.public_id,))
    if sheet.comparison.choices.q:
        return redirect(find_new_address(sheet.comparison.choices, found, as_json=as_json))
    as_of = sheet.comparison.choices.as_of
    runs = list(found.runs.filter(created_at__lte=as_of) if as_of else found.runs.all())
    groups = paginate(request, arrange(sheet.comparison.groups.all), per_page=GROUPS_PER_PAGE, name="groups")
    outcomes = _read_outcomes(runs, as_of)
    total = sum((TrialTally.of(each) for each in outcomes.values()), TrialTally())
    file = describe_launched(found.spec) if found.origin == Experiment.Origin.RUN and found.spec else None
    still = _read_standing_still(found)
    data = {
        **comparison_twin(request, sheet),
        **EXPERIMENT.read(found),
        "file": file and yaml.safe_dump(file, sort_keys=False, allow_unicode=True, width=88, default_flow_style=None),
        "scripted": any(run.scripted for run in runs),
        "is_probe": any(run.is_probe for run in runs),
        "trials": total,
        "runs_total": len(runs),
        "libraries": [] if sheet.metric else _list_libraries(request, found),
        "scores": [] if sheet.metric else _list_scores(request, found),
        **TIMES.read(found),
        "spent": sum_up(spending_of(runs, as_of).values()),
        "estimate": found.estimate.get("whole"),  # null for what was not launched here
        "standing_still": [{"status": word, "reason": why or None, "episodes": n} for word, why, n in still],
    }
    declared = correct_hypotheses(sheet.comparison).get(found.pk)
    if declared:
        data["declared"] = {
            "unknown_metrics": list_unknown_metrics(found),
            "futile": declared.futile or None,
            "tested": declared.tested,
            "without_runs": declared.missing,
            "below_level": declared.found,
            "differences": DECLARED.read_all(declared.hypotheses),
        }
    if as_json:
        data |= {"answer": answer_twin(sheet), "groups": groups_twin(sheet, list(groups))}
        data["groups_next"] = next_url(request, groups, name="groups")
        page = paginate(request, runs, per_page=RUNS_PER_PAGE)
        data["runs"] = MEMBER.read_all(build_members(list(page), outcomes, as_of))
        data["next"] = next_url(request, page)
        return render_page(request, "experiments/experiment.html", data=data, as_json=True)
    verdicts = read_verdicts(found) if any(run.is_qualification for run in runs) else []
    context = {
        **build_answer_context(request, sheet, list(groups)),
        "experiment": found,
        "facets": [facet for facet in facets_of(sheet.comparison.choices, found) if facet.axis in AXES_CHOSEN],
        "papers": PAPERS,
        "qualified": say_verdicts(verdicts) if verdicts else "",
        "solved": say_solved(verdicts),
        "checks": sum_up_checks(verdicts),
        "stand_ins": join_stand_ins(runs),
        **(_read_probed(request, found) if data["is_probe"] else {"title": found.name, "is_probe": False}),
        "page": groups,
        "page_name": "groups",
        "libraries": data["libraries"],
        "scores": data["scores"],
        "scores_shown": data["scores"][:SCORES],
        "validation": next(iter(build_gallery((VALIDATION,), sheet).cards), None),
        "total": total,
        "seen": total.done,
        "is_live": as_of is None and found.is_live,
        "standing_still": still,
        "notices": sorted({run.notice for run in runs} - {""}),
        "launch_again": f"{reverse('launch')}?from={found.public_id}" if file else "",
        "has_authors": bool(file) and any(run.author_model and not run.is_probe for run in runs),
    }
    if declared and declared.total:
        context |= {
            "declared": declared,
            "declared_rows": [write_declared(each) for each in declared.hypotheses],
            "held_in_words": say_held(declared.hypotheses),
            "unknown_metrics": list_unknown_metrics(found),
        }
    return render_page(request, "experiments/experiment.html", data=data, context=context, as_json=False)


def _list_libraries(request: HttpRequest, found: Experiment) -> list[dict[str, object]]:
    """List the libraries with a history where no metric has an answer: a git repository of skills has no trial, and a loop that
    only learned has none that shows the result. `rounds`: trials of the author by the round of the library that they had."""
    closed = words_of(request).closed_runs().values("pk")
    episodes = Episode.objects.filter(run__experiment=found).exclude(run__in=closed)
    counted = episodes.annotate(total=Count("decisions")).filter(total__gt=0).order_by("ordinal", "pk")
    rows = list(counted.values_list("pk", "public_id", "title", "total", "run__public_id")[:GROUPS_PER_PAGE])
    rates = read_round_rates([pk for pk, *_ in rows])
    return [
        {
            "episode": str(episode),
            "title": title,
            "decisions": total,
            "rounds": [{"round": number, **rate.as_json()} for number, rate in sorted(rates[pk].items())],
            "url": f"{reverse('library', args=[run])}?episode={episode}",
        }
        for pk, episode, title, total, run in rows
    ]


def _list_scores(request: HttpRequest, found: Experiment) -> list[dict[str, object]]:
    """Sum up the scores of each task under each condition, of trials without a verdict: all that there is to compare
    where a tool only grades. Two queries."""
    words = words_of(request)
    graded = Trial.objects.filter(episode__run__experiment=found, success=None, reward__isnull=False).order_by()
    graded = graded.exclude(pk__in=words.closed_trials()).exclude(episode__run__in=words.closed_runs().values("pk"))
    ends = {"first": Min("pk"), "last": Max("pk"), "best": Max("reward"), "trials": Count("pk")}
    rows = list(
        graded.values("task", "task__title", "episode__run__condition").annotate(**ends).order_by("task__title")
    )
    rewards = dict(
        graded.filter(pk__in={row[end] for row in rows for end in ("first", "last")}).values_list("pk", "reward")
    )
    return [
        {
            "task": row["task__title"],
            "condition": row["episode__run__condition"],
            "first": rewards[row["first"]],
            "last": rewards[row["last"]],
            "best": row["best"],
            "trials": row["trials"],
        }
        for row in rows
    ]


def _read_probed(request: HttpRequest, found: Experiment) -> dict[str, object]:
    """Return what its probes found, which answers another question than its conditions. Left out: forks, imports that do not
    say what they probe, and runs that the reader reviews blind."""
    closed = words_of(request).closed_runs().values("pk")
    probes = list(Probe.objects.standing().filter(run__experiment=found).exclude(origin__run__in=closed))
    title = next((name_probe(probe) for probe in probes if probe.origin), found.name)
    return {"probed": read_results(probes), "title": title, "is_probe": True}


def _render_count(request: HttpRequest, found: Experiment) -> HttpResponse:
    """How far it is, every few seconds, and what came since the page was loaded (`?seen=` trials). The browser loads the
    page again for the first result and at the end; in between its reader decides."""
    progress = progress_of([found])[found.pk]
    sent = request.GET.get("seen", "")
    seen = int(sent) if sent.isdecimal() else progress.done
    counts = {"total": progress, "time_left": progress.time_left, "seen": seen, "newer": progress.done - seen}
    context = {"experiment": found, "is_live": found.is_live, "is_fragment": True, **counts}
    response = render(request, "experiments/_experiment_live.html", context)
    is_over = found.origin == Experiment.Origin.RUN and not found.is_open
    if is_over or (progress.done and not seen):
        response["HX-Refresh"] = "true"
    return response


def _read_standing_still(found: Experiment) -> list[tuple[str, str, int]]:
    """(status, how its reason begins, episodes) of what waits for an operator or fails and is tried again, the most
    frequent reason first."""
    if found.origin != Experiment.Origin.RUN or found.status in (Experiment.Status.DONE, Experiment.Status.CANCELLED):
        return []
    troubled = (
        Episode.objects.filter(run__experiment=found).troubled().order_by().annotate(told=Left(REASON, REASON_LENGTH))
    )
    told = troubled.annotate(state=Case(When(FAILING, then=FAILS), default="status")).values_list("state", "told")
    return list(told.annotate(n=Count("pk")).order_by("-n", "state", "told")[:MOST_REASONS])


def _read_outcomes(runs: list[Run], as_of: datetime | None) -> Mapping[int, Outcomes]:
    """run pk -> its trials; what was settled after the pin is planned, as everywhere on a pinned page."""
    found = outcomes_of(runs)
    later = read_settled_after(runs, as_of) if as_of else set()
    return {pk: each.without(later) for pk, each in found.items()} if later else found


EXPERIMENT = JsonShape("id=public_id", "name", "status", "origin", "suite=suite.key", "source?")
TIMES = JsonShape("created_at", "started_at", "finished_at")
DECLARED = JsonShape(*HYPOTHESIS, "waiting", "is_found")

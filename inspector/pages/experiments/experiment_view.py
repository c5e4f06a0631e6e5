"""`/experiments/<id>/`: what an experiment answers, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from uuid import UUID

import yaml
from django.contrib import messages
from django.db.models import Case, Count, Max, Min, Value, When
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from benchapp.analysis.lineage.attribution import read_round_rates
from benchapp.experiments.launch_spec import describe_launched
from benchapp.experiments.library_probes import (
    ROUNDS_REASON,
    SKILLS_REASON,
    RoundsPreview,
    RunRounds,
    cancel_rounds,
    launch_rounds,
    list_judges,
    list_learning_runs,
    preview_rounds,
    preview_skills,
)
from benchapp.experiments.probe_results import read_results
from benchapp.experiments.qualification import read_verdicts, say_verdicts, sum_up_checks
from benchapp.experiments.work.progress import progress_of
from benchapp.judges.judging_orders import JudgingWish, order_judging, progress_of_judging
from benchapp.models import Episode, Experiment, Judging, JudgingOrder, Probe, Run, Trial, User
from benchapp.models.episodes import FAILING, REASON
from benchapp.models.stand_ins import join_stand_ins
from benchapp.papers.published_rows import PAPERS
from benchapp.record.json_shape import JsonShape
from benchapp.record.writing.human_acts import note_activity
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.columns import outcomes_of, read_settled_after
from benchapp.stats.comparing.hypotheses import correct_hypotheses, list_unknown_metrics
from benchapp.stats.comparing.selection import facets_of, name_probe
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import spending_of
from benchapp.stats.metrics.tally import TrialTally
from inspector.charts.chart_request import Gallery, sheet_of
from inspector.charts.figures.validation import CHART as VALIDATION
from inspector.pages.compare.answer_page import (
    HYPOTHESIS,
    answer_twin,
    build_answer_context,
    comparison_twin,
    groups_twin,
    say_held,
    write_declared,
)
from inspector.pages.compare.members import MEMBER, RUNS_PER_PAGE, build_members, sum_up
from inspector.pages.compare.results import find_new_address
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, link_to, next_url, paginate, read_htmx, render_page, wants_fragment
from inspector.web.subject import review_access
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.errors import RunnerError, SetupError
from runner.base.text import parse_count, plural
from runner.judging.metrics import SCORED
from runner.models.presets import preset_files
from runner.prompts.roles import OWN

MOST_REASONS, REASON_LENGTH = 3, 300  # a traceback may follow; its beginning says what happened
FAILS = Value("failing, retrying")  # the status of an episode that continues after a failure of the machine
AXES_CHOSEN = ("condition", "agent_model", "harness")  # what most readers narrow; an address may name more
SCORES = 200  # rows of the table of scores; the twin has all
GROUPS_PER_PAGE = 15  # condition x models x harness
FIRST_CALLS = 200  # offered as limit: there is a call for each key point, and nobody should be surprised by the bill
PASS = JsonShape(
    "run model prompts=prompt_version repeat scripted finished_at stopped?", link_to("judgements-json", "run.public_id")
)
ROUNDS, SKILLS = "rounds", "skills"
FIRST_TIMES = 1  # as the deployment of most protocols
PREVIEW = JsonShape(("probes", lambda found: len(found.probes)), "trials estimate")
EXPERIMENT = JsonShape("id=public_id name status origin suite=suite.key source?")
TIMES = JsonShape("created_at started_at finished_at")
DECLARED = JsonShape(HYPOTHESIS, "waiting is_found")


def experiment(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    experiment = get_object_or_404(Experiment.objects.for_list(), public_id=public_id)
    if wants_fragment(request) and read_htmx(request).target == "live":
        return _render_count(request, experiment)
    sheet = sheet_of(request, experiment=(experiment.public_id,))
    if sheet.comparison.choices.q:
        return redirect(find_new_address(sheet.comparison.choices, experiment, as_json=as_json))
    as_of = sheet.comparison.choices.as_of
    runs = list(experiment.runs.filter(created_at__lte=as_of) if as_of else experiment.runs.all())
    groups = paginate(request, arrange(sheet.comparison.groups.all), per_page=GROUPS_PER_PAGE, name="groups")
    outcomes: Mapping[int, Outcomes] = outcomes_of(runs)
    if as_of and (later := read_settled_after(runs, as_of)):  # counts as planned, as everywhere on a pinned page
        outcomes = {pk: each.without(later) for pk, each in outcomes.items()}
    total = sum((TrialTally.of(each) for each in outcomes.values()), TrialTally())
    is_ours = experiment.origin == Experiment.Origin.RUN
    file = describe_launched(experiment.spec) if is_ours and experiment.spec else None
    still = _read_standing_still(experiment)
    data = {
        **comparison_twin(request, sheet),
        **EXPERIMENT.read(experiment),
        "file": file and yaml.safe_dump(file, sort_keys=False, allow_unicode=True, width=88, default_flow_style=None),
        "scripted": any(run.scripted for run in runs),
        "is_probe": any(run.is_probe for run in runs),
        "trials": total,
        "runs_total": len(runs),
        "libraries": [] if sheet.metric else _list_libraries(request, experiment),
        "scores": [] if sheet.metric else _list_scores(request, experiment),
        **TIMES.read(experiment),
        "spent": sum_up(spending_of(runs, as_of).values()),
        "estimate": experiment.estimate.get("whole"),  # null for what was not launched here
        "standing_still": [{"status": word, "reason": why or None, "episodes": n} for word, why, n in still],
    }
    declared = correct_hypotheses(sheet.comparison).get(experiment.pk)
    if declared:
        data["declared"] = {
            "unknown_metrics": list_unknown_metrics(experiment),
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
        return render_page(request, "experiments/experiment.html", data=data, page=page, as_json=True)
    verdicts = read_verdicts(experiment) if any(run.is_qualification for run in runs) else []
    context = {
        **build_answer_context(request, sheet, list(groups)),
        "experiment": experiment,
        "facets": [facet for facet in facets_of(sheet.comparison.choices, experiment) if facet.axis in AXES_CHOSEN],
        "papers": PAPERS,
        "qualified": say_verdicts(verdicts) if verdicts else "",
        "checks": sum_up_checks(verdicts),
        "stand_ins": join_stand_ins(runs),
        **(_read_probed(request, experiment) if data["is_probe"] else {"title": experiment.name, "is_probe": False}),
        "page": groups,
        "page_name": "groups",
        "scores_shown": data["scores"][:SCORES],
        "validation": next(iter(Gallery((VALIDATION,), sheet).cards), None),
        "total": total,
        "seen": total.done,
        "is_live": as_of is None and experiment.is_live,
        "standing_still": still,
        "notices": sorted({run.notice for run in runs} - {""}),
        "launch_again": f"{reverse('launch')}?from={experiment.public_id}" if file else "",
        "has_authors": bool(file) and any(run.author_model and not run.is_probe for run in runs),
    }
    if declared and declared.total:
        context |= {
            "declared": declared,
            "declared_rows": [write_declared(each) for each in declared.hypotheses],
            "held_in_words": say_held(declared.hypotheses),
            "unknown_metrics": list_unknown_metrics(experiment),
        }
    return render_page(request, "experiments/experiment.html", data=data, context=context)


def _list_libraries(request: HttpRequest, experiment: Experiment) -> list[dict[str, object]]:
    """List the libraries with a history where no metric has an answer: a git repository of skills has no trial, and a
    loop that only learned has none that shows the result. `rounds`: trials of the author by the round of the library
    that they had."""
    closed = review_access(request).closed_runs().values("pk")
    episodes = Episode.objects.filter(run__experiment=experiment).exclude(run__in=closed)
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


def _list_scores(request: HttpRequest, experiment: Experiment) -> list[dict[str, object]]:
    """Sum up the scores of each task under each condition, of trials without a verdict: all that there is to compare
    where a tool only grades. Two queries."""
    access = review_access(request)
    graded = Trial.objects.filter(episode__run__experiment=experiment, success=None, reward__isnull=False).order_by()
    graded = graded.exclude(pk__in=access.closed_trials()).exclude(episode__run__in=access.closed_runs().values("pk"))
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


def _read_probed(request: HttpRequest, experiment: Experiment) -> dict[str, object]:
    """Return what its probes found, which answers another question than its conditions. Left out: forks, imports that
    do not say what they probe, and runs that the reader reviews blind."""
    closed = review_access(request).closed_runs().values("pk")
    probes = list(Probe.objects.not_deleted().filter(run__experiment=experiment).exclude(origin__run__in=closed))
    title = next((name_probe(probe) for probe in probes if probe.origin), experiment.name)
    return {"probed": read_results(probes), "title": title, "is_probe": True}


def _render_count(request: HttpRequest, experiment: Experiment) -> HttpResponse:
    """Render how far it is, every few seconds, and what came since the page was loaded (`?seen=` trials). The browser
    loads the page again for the first result and at the end; in between its reader decides."""
    progress = progress_of([experiment])[experiment.pk]
    seen = parse_count(request.GET.get("seen", ""))
    seen = progress.done if seen is None else seen
    counts = {"total": progress, "time_left": progress.time_left, "seen": seen, "newer": progress.done - seen}
    context = {"experiment": experiment, "is_live": experiment.is_live, "is_fragment": True, **counts}
    response = render(request, "experiments/_experiment_live.html", context)
    is_over = experiment.origin == Experiment.Origin.RUN and not experiment.is_open
    if is_over or (progress.done and not seen):
        response["HX-Refresh"] = "true"
    return response


def _read_standing_still(experiment: Experiment) -> list[tuple[str, str, int]]:
    """Return (status, beginning of the reason, episodes) of what waits for an operator or fails and is tried again,
    the most frequent reason first."""
    status = Experiment.Status
    if experiment.origin != Experiment.Origin.RUN or experiment.status in (status.DONE, status.CANCELLED):
        return []
    own = Episode.objects.filter(run__experiment=experiment).order_by()
    troubled = own.troubled().annotate(reason=Left(REASON, REASON_LENGTH))
    counted = troubled.annotate(state=Case(When(FAILING, then=FAILS), default="status")).values_list("state", "reason")
    return list(counted.annotate(n=Count("pk")).order_by("-n", "state", "reason")[:MOST_REASONS])


# --- a model judges the runs ----------------------------------------------------------------------------------------


@needs(User.Level.OPERATOR, to_change=True)
def experiment_judging(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    experiment = get_object_or_404(Experiment.objects.not_deleted(), public_id=public_id)
    problem = _order_judging(request, experiment) if request.method == "POST" else ""
    if request.method == "POST" and not problem:
        return redirect("experiment-judging", public_id)
    progress = progress_of_judging(JudgingOrder.objects.filter(run__experiment=experiment))
    passes = (
        Judging.objects.filter(run__experiment=experiment).select_related("run").order_by("-started_at", "-pk")[:100]
    )
    data = {"experiment": experiment, "judging": progress, "passes": PASS.read_all(passes)}
    context = {
        "passes": passes,
        "is_live": any(each.is_open for each in progress),
        "problem": problem,
        "asked": request.POST if problem else {"prompts": OWN, "calls": FIRST_CALLS},
        "metrics": [(metric.value, not problem or metric in request.POST.getlist("metrics")) for metric in SCORED],
        "presets": sorted(preset_files()),
        "runs": experiment.runs.count(),
        "ended": experiment.runs.filter(status=Run.Status.DONE).count(),
        "live_url": reverse("experiment-judging", args=[public_id]),
    }
    template = "experiments/_judging_live.html" if wants_fragment(request) else "experiments/judging.html"
    return render_page(request, template, data=data, context=context, as_json=as_json, status=422 if problem else 200)


def _order_judging(request: HttpRequest, experiment: Experiment) -> str:
    """Order the judging that was sent for. Return what is wrong with it; empty if it is ordered."""
    try:
        wish = _read_judging_wish(request.POST)
        wish.check()
    except SetupError as error:
        return str(error)
    by = user_of(request)
    ordered = order_judging(experiment.runs.all(), wish, by)
    detail = {"model": wish.model, "prompts": wish.prompts, "metrics": list(wish.metrics)}
    note_activity(by, "experiment.judged", experiment, detail={**detail, "calls": wish.max_calls, "usd": wish.max_usd})
    messages.success(request, f"{wish.model} judges {plural(ordered, 'run')}, each after its end.")
    return ""


def _read_judging_wish(sent: QueryDict) -> JudgingWish:
    """Return what is asked for. SetupError says what is wrong with a field and what was expected."""
    calls, usd = sent.get("calls", "").strip(), sent.get("usd", "").strip()
    try:
        max_calls, max_usd = int(calls) if calls else None, float(usd) if usd else None
    except ValueError:
        raise SetupError("Limits: expected a whole number of calls and an amount in dollars, or nothing.") from None
    if (max_calls is not None and not 0 < max_calls < 2**31) or (max_usd is not None and not 0 < max_usd < 1e9):
        raise SetupError("Limits: expected more than 0, or nothing.")
    model, metrics = sent.get("model", "").strip(), tuple(sent.getlist("metrics"))
    if not model or len(model) > 200:
        raise SetupError("Model: expected a preset, or a model with its provider.")
    if not metrics:
        raise SetupError("Metrics: expected one at least.")
    all_or_some = () if set(metrics) >= set(SCORED) else metrics
    return JudgingWish(model, sent.get("prompts", "").strip() or OWN, all_or_some, max_calls, max_usd)


# --- libraries are tried on all deployed tasks ----------------------------------------------------------------------


class AskedMeasuring:
    """What an address or a form asks for. `runs`: public ids; none: all. `max_usd`: of all probes together; None: each
    as its run. `design`: each round's library, or the last one without each of its skills. `problem`: what is not a
    number; then all but the runs is as if nobody asked."""

    def __init__(self, query: QueryDict) -> None:
        self.runs, self.times, self.design, self.problem = query.getlist("run"), FIRST_TIMES, ROUNDS, ""
        self.max_usd: float | None = None
        times, usd = query.get("times", "").strip(), query.get("usd", "").strip()
        try:
            limit = float(usd) if usd else None
        except ValueError:
            limit = -1.0
        if times and not (times.isascii() and times.isdigit() and len(times) < 7):
            self.problem = f"Trials of each task: expected a whole number, found {times[:40]!r}."
        elif limit is not None and not (isfinite(limit) and 0 < limit < 1e9):
            self.problem = f"Dollars at most: expected more than 0, or nothing; found {usd[:40]!r}."
        else:
            self.times, self.max_usd = int(times) if times else FIRST_TIMES, limit
            self.design = SKILLS if query.get("design") == SKILLS else ROUNDS

    def takes(self, rounds: RunRounds) -> bool:
        return not self.runs or str(rounds.run.public_id) in self.runs

    def preview(self, runs: Sequence[RunRounds]) -> RoundsPreview:
        """Raise NotPossible and SetupError as `round_probes.preview_rounds`."""
        chosen = [each for each in runs if self.takes(each)]
        if self.design == SKILLS:
            return preview_skills([each.run for each in chosen], times=self.times, max_usd=self.max_usd)
        return preview_rounds(chosen, times=self.times, max_usd=self.max_usd)


@needs(User.Level.OPERATOR, to_change=True)
def experiment_rounds(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Show what measuring the rounds would take. `?times=` asks for the estimate as well, which reads the suite."""
    experiment = get_object_or_404(Experiment.objects.not_deleted(), public_id=public_id)
    is_post = request.method == "POST"
    if is_post and request.POST.get("act") == "cancel":
        return _cancel_probes(request, experiment)
    if is_post and _launch_probes(request, experiment):
        return redirect("experiment-rounds", public_id)
    query = request.POST if is_post else request.GET
    asked, runs = AskedMeasuring(query), list_learning_runs(experiment)
    preview, problem = None, asked.problem
    if query.get("times") and not problem:
        try:
            preview = asked.preview(runs)
        except RunnerError as error:
            problem = str(error)
    shown = [(each, not each.run.is_open and asked.takes(each)) for each in runs]
    stand_ins = {each.run.stand_ins for each in runs}
    data = {
        "experiment": experiment,
        "problem": problem or None,
        "measured": sum(each.measured for each in runs),
        "libraries": sum(each.libraries for each in runs),
        "times": asked.times,
        "max_usd": asked.max_usd,
        "design": asked.design,
        "judges": list(list_judges(each.run for each in runs if asked.takes(each))) if preview else [],
        "runs": [_read_run(each, is_chosen=is_chosen) for each, is_chosen in shown],
        "preview": preview and PREVIEW.read(preview),
    }
    context = {
        "runs": shown,
        "stand_ins": stand_ins.pop() if len(stand_ins) == 1 else None,  # where all runs have the same
        "preview": preview,
        "asked": asked,
        "under_way": sum(len(each.under_way) for each in runs),
        "has_open": any(each.open for each in runs),
        "has_ended": any(not each.run.is_open for each in runs),
        "reason": query.get("reason", SKILLS_REASON if asked.design == SKILLS else ROUNDS_REASON),
        "wants_judged": request.method == "GET" or "judged" in query,
    }
    status = 422 if is_post else 200
    return render_page(
        request, "experiments/measuring.html", data=data, context=context, as_json=as_json, status=status
    )


def _read_run(rounds: RunRounds, *, is_chosen: bool) -> dict[str, object]:
    return {
        "run": RUN_HEAD.read(rounds.run),
        "chosen": is_chosen,
        "episodes": len(rounds.episodes),
        "rounds": rounds.most_rounds,
        "libraries": rounds.libraries,
        "measured": rounds.measured,
        "under_way": rounds.coming,
        "open": len(rounds.open),
        "probe_trials": rounds.probed,
        "url": PageLink("run-json", rounds.run.public_id),
    }


def _launch_probes(request: HttpRequest, experiment: Experiment) -> bool:
    """Launch what was estimated. Return False if it is refused: the page says why."""
    asked = AskedMeasuring(request.POST)
    try:
        if asked.problem:
            raise RunnerError(asked.problem)
        wanted = asked.preview(list_learning_runs(experiment))
        judged = bool(request.POST.get("judged"))
        probes = launch_rounds(wanted, reason=request.POST.get("reason", ""), by=user_of(request), judged=judged)
    except RunnerError as error:
        messages.error(request, f"Nothing was launched. {error}")
        return False
    message = f"{plural(len(probes), 'probe')}, {wanted.trials} trials"
    place = "What skills add" if asked.design == SKILLS else "The learning curve"
    messages.success(request, f"Launched: {message}. {place} appears when they have ended.")
    return True


def _cancel_probes(request: HttpRequest, experiment: Experiment) -> HttpResponse:
    reason = request.POST.get("reason", "")
    try:
        stopped = cancel_rounds(list_learning_runs(experiment), reason=reason, by=user_of(request))
    except RunnerError as error:
        messages.error(request, f"Nothing was cancelled. {error}")
    else:
        messages.success(request, f"Cancelled: {plural(stopped, 'probe')}. What they recorded stays.")
    return redirect("experiment-rounds", experiment.public_id)

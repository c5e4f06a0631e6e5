"""`/`: what there is, what is running, and whether it helped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from copy import copy

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Left, Lower
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.experiments.work.progress import WorkProgress, at_work, progress_of
from benchapp.models import Episode, Experiment, Run
from benchapp.models.episodes import REASON
from benchapp.models.stand_ins import join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.review.blinding import still_to_code
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.experiment_verdicts import HEADLINES, ExperimentVerdict, JudgedWay, judge_experiments
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.spending import RunSpending, spending_of
from benchapp.stats.metrics.tally import TrialTally, tally_by_phase
from inspector.pages.overview.tour import find_story
from inspector.web.access import user_of
from inspector.web.responses import PageLink, link_to, paginate, render_page, wants_fragment
from inspector.web.subject import review_access, without_closed
from inspector.web.text.row_shapes import AT_WORK
from runner.base.recent import Recent
from runner.base.text import plural
from runner.base.types import Phase
from runner.protocols.conditions import unpooled_conditions

PER_PAGE = 50
MAX_RUNNING = 12  # cells shown as running now
TOUR_COOKIE, HIDDEN, YEAR = "tour", "hidden", 365 * 24 * 3600
MAX_CONDITIONS = 3  # named where there is no baseline to draw them against; the rest is counted
REASON_LENGTH = 160
OF_RUN = ("public_id", "revision", "status", "experiment", "condition", "replicate", "scripted", "harness")
OF_MODELS = ("agent_model", "author_model", "author_agent", "setup_digest")
STOPPED = (Experiment.Status.BLOCKED, Experiment.Status.PAUSED)
OPEN = (Experiment.Status.WAITING, Experiment.Status.RUNNING)
TABS: Mapping[str, tuple[str, Q]] = {
    "": ("All", Q()),
    "running": ("Running", Q(status__in=OPEN)),
    "stopped": (
        "Needs you",
        Q(status__in=STOPPED) | Q(pk__in=Episode.objects.own().troubled().values("run__experiment")),
    ),
    "imported": ("Imported", Q(origin=Experiment.Origin.IMPORTED)),
}
SORTS = {"": "newest first", "gain": "largest gain", "trials": "most trials", "name": "name"}
MAX_RANKED = 1_000  # experiments that are judged to be sorted by their gain; older ones follow as they are


def index(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """List the experiments. Probes are found from the line they took back, qualifications from their suite's page:
    here they would push the experiments off the page, so they are counted and listed on demand."""
    if request.GET.get("tour") in ("hide", "show") and not as_json:
        # Per browser: whether somebody has seen enough of it is nothing to keep on record.
        response = HttpResponseRedirect(reverse("index"))
        if request.GET["tour"] == "show":
            response.delete_cookie(TOUR_COOKIE)
        else:
            response.set_cookie(TOUR_COOKIE, HIDDEN, max_age=YEAR, httponly=True, samesite="Lax")
        return response
    asked = ListFilter(request.GET)
    found = asked.select()
    counts = found.order_by().aggregate(**{f"tab_{key}": Count("pk", filter=test) for key, (_, test) in TABS.items()})
    page = paginate(request, asked.order_by_tab(found), per_page=PER_PAGE)
    rows = build_rows(list(page))
    extra = Experiment.objects.not_deleted().count_extra()
    probes = sum(count for (is_probe, _), count in extra.items() if is_probe)
    qualifications = extra.total() - probes
    live = any(Experiment.Status(status).is_open for _, status in extra) or any(row.experiment.is_open for row in rows)
    working = without_closed(review_access(request), at_work(limit=MAX_RUNNING)) if live else []
    fragment = wants_fragment(request)
    tour, pausing = (None, None) if fragment else find_story(user_of(request))
    data = {
        "experiments": rows,
        "running": [
            {**AT_WORK.read(row), "url": PageLink("run-json", row.attempt.trial.episode.run.public_id)}
            for row in working
        ],
        "tour": tour,
        "total": page.paginator.count,
        "probes": probes,
        "qualifications": qualifications,
    }
    extras = [(word, n) for word, n in (("probe", probes), ("qualification", qualifications)) if n]
    of_runs = {pk: tally for row in rows for pk, tally in row.of_runs.items()}
    ways = {way.condition for row in rows if row.verdict for way in row.verdict.ways}
    context = {
        "rows": rows,
        "live": live,
        "asked": asked,
        "tabs": [(key, words, counts[f"tab_{key}"]) for key, (words, _) in TABS.items()],
        "sorts": SORTS.items(),
        "extra": " and ".join(plural(n, word) for word, n in extras),
        "extra_words": " and ".join(f"{word}s" for word, _ in extras),
        # Running attempts, with how far their run has come; None for a run that is on no row of this page.
        "cells": [(row, of_runs.get(row.attempt.trial.episode.run_id)) for row in working],
        "open_rows": [row for row in rows if row.progress],
        "drawn": sorted(ways, key=lambda code: (name_condition(code).order, code)),
        "without_condition": sum(all(run.condition == Run.UNKNOWN for run in row.runs) for row in rows if row.runs),
        "is_fragment": fragment,
        "is_tour_shown": tour is not None and request.COOKIES.get(TOUR_COOKIE) != HIDDEN,
        "tour_paused_by": pausing,
        "left_to_code": still_to_code([pausing], user_of(request)) if pausing else 0,
    }
    template = "overview/_overview_live.html" if fragment else "overview/overview.html"
    return render_page(request, template, data=data, context=context, page=page, as_json=as_json)


# --- which ones ---------------------------------------------------------------------------------------------------


class ListFilter:
    """What an address asks for; nonsense means the default."""

    def __init__(self, query: QueryDict) -> None:
        tab, sort = query.get("show", ""), query.get("sort", "")
        self.text = " ".join(query.get("q", "").replace("\0", "").split())[:200]
        self.tab, self.sort = tab if tab in TABS else "", sort if sort in SORTS else ""
        self.with_probes = query.get("probes") == "1"
        self.is_set = bool(self.text or self.tab)

    def select(self) -> QuerySet[Experiment]:
        """Select those whose names, suite, models or conditions hold every word, in all tabs."""
        found = Experiment.objects.for_list()
        if not self.with_probes:
            found = found.comparing()
        for word in self.text.split():
            matches = Q(agent_model__icontains=word) | Q(author_model__icontains=word) | Q(condition__icontains=word)
            runs = Run.objects.filter(matches, experiment=OuterRef("pk"))
            found = found.filter(Q(name__icontains=word) | Q(suite__name__icontains=word) | Exists(runs))
        return found

    def order_by_tab(self, experiments: QuerySet[Experiment]) -> QuerySet[Experiment] | list[Experiment]:
        """Select those of the tab, in the order asked for."""
        experiments = experiments.filter(TABS[self.tab][1])
        if self.sort == "name":
            return experiments.order_by(Lower("name"), "-id")
        if self.sort == "trials":
            return experiments.annotate(planned=Count("runs__episodes__trials")).order_by(
                "-planned", "-created_at", "-id"
            )
        return _rank_by_gain(list(experiments)) if self.sort == "gain" else experiments


def _rank_by_gain(experiments: list[Experiment]) -> list[Experiment]:
    runs = read_runs(experiments[:MAX_RANKED])
    verdicts = judge_experiments({each: runs[each.pk] for each in experiments[:MAX_RANKED] if not each.is_open})

    def rank(each: Experiment) -> tuple[bool, float]:
        gain = verdicts[each.pk].gain if each.pk in verdicts else None
        return gain is None, -(gain or 0.0)

    return sorted(experiments, key=rank)


# --- a row --------------------------------------------------------------------------------------------------------


class ExperimentRow(Shaped):
    """An experiment as the list shows it. `progress`: of those with work left. `verdict`: None while it has work left
    and where it compares nothing. `stopped`: why it waits for somebody, or what fails in it and is tried again.

    `of_runs`: run pk -> its trials; of an open experiment. `measure`: the trials that compare its conditions:
    deployment if there is any, else all trials. `results`: each condition with what it passed by that; counts of
    replicates are added up. `conditions`: each once, in the order of their first runs; unknown ones last. `models`:
    each agent model once; none if none is known. `is_probe`: it reruns tasks with another run's library, and compares
    no conditions. `is_qualification`: it tries the tasks of a suite."""

    json_shape = JsonShape(
        "id=experiment name=experiment.name status=experiment.status origin=experiment.origin",
        "suite=experiment.suite.key conditions is_probe measure",
        ("results", lambda row: [{"condition": name, **encode(tally)} for name, tally in row.results]),
        "agent_models=models scripted",
        ("runs", lambda row: len(row.runs)),
        "trials=tally progress verdict spent_usd=bill.spent_usd spent_tokens=bill.spent_tokens",
        "unknown_tokens=bill.unknown_tokens stopped?",
        *(f"{name}=experiment.{name}" for name in ("created_at", "started_at", "finished_at")),
        link_to("experiment-json", "experiment.public_id"),
    )

    def __init__(
        self,
        experiment: Experiment,
        runs: list[Run],
        tallies: Mapping[int, Mapping[str, TrialTally]],
        spending: Mapping[int, RunSpending],
        progress: WorkProgress | None,
        verdict: ExperimentVerdict | None,
        stopped: str,
    ) -> None:
        self.experiment, self.runs, self.progress, self.verdict = experiment, runs, progress, verdict
        self.stopped, self.forest = stopped, draw_forest(verdict)
        phases: dict[tuple[str, str], TrialTally] = defaultdict(TrialTally)  # by condition and phase
        for run in runs:
            for phase, tally in tallies[run.pk].items():
                phases[run.condition, phase] += tally
        self.tally = sum(phases.values(), TrialTally())
        self.bill = progress or WorkProgress(spent=tuple(spending[run.pk] for run in runs))
        is_open = experiment.is_open
        self.of_runs = {run.pk: sum(tallies[run.pk].values(), TrialTally()) for run in runs} if is_open else {}
        deployed = any(phase == Phase.DEPLOYMENT for _, phase in phases)
        self.measure = Phase.DEPLOYMENT.value if deployed else "all trials"
        named = dict.fromkeys(run.condition for run in runs)
        self.conditions = sorted(named, key=lambda condition: condition == Run.UNKNOWN)
        sums = dict.fromkeys(self.conditions, TrialTally())
        for (condition, phase), tally in phases.items():
            if self.measure in ("all trials", phase):
                sums[condition] += tally
        self.results = list(sums.items())
        self.named_results = self.results[:MAX_CONDITIONS]
        self.more_conditions = max(0, len(self.conditions) - MAX_CONDITIONS)
        self.models = [name for name in dict.fromkeys(run.agent_model for run in runs) if name not in ("", Run.UNKNOWN)]
        self.is_probe, self.scripted = any(run.is_probe for run in runs), any(run.scripted for run in runs)
        self.is_qualification, self.stand_ins = any(run.is_qualification for run in runs), join_stand_ins(runs)
        self.effect = verdict.effect if verdict else Effect.ESTIMATE

    @property
    def is_failing(self) -> bool:
        """Do workers still try while the machine fails them?"""
        return bool(self.stopped) and self.experiment.is_open

    @property
    def why_untested(self) -> str:
        """Say what keeps it from an answer; empty if it has one."""
        if self.verdict is None:
            return "" if _is_extra(self.runs) else "Still running"
        if self.verdict.is_baseline_alone:
            return "No condition with skills yet"
        if not self.verdict.has_baseline:
            return "No baseline"
        return ""

    @property
    def said_more(self) -> str:
        """Return the line below the answer."""
        found = self.verdict
        if found is None or not found.has_baseline:
            return ""
        if named := found.headlines:
            more = found.count(*HEADLINES) - len(named)
            return f"{more} more {Effect.BETTER.words} or worse" if more else ""
        count = found.episodes
        return plural(count, "episode") if count else "no task was scored on both sides"


def read_runs(experiments: Sequence[Experiment]) -> dict[int, list[Run]]:
    """Return experiment pk -> its runs, in one query, with what a list shows and a comparison needs."""
    found: dict[int, list[Run]] = defaultdict(list)
    known = {each.pk: each for each in experiments}
    for run in Run.objects.filter(experiment__in=experiments).only(*OF_RUN, *OF_MODELS).order_by("id"):
        run.experiment = known[run.experiment_id]
        found[run.experiment_id].append(run)
    return found


# Of experiments at their end. Its size is the number of runs.
KEPT: Recent[Hashable, ExperimentRow] = Recent(20_000, lambda row: len(row.runs))


def build_rows(experiments: Sequence[Experiment]) -> list[ExperimentRow]:
    """Build the rows. That of an experiment at its end is kept in this process until one of its runs is another."""
    keys = _name_rows(experiments)
    kept = {each.pk: row for each in experiments if each.pk in keys and (row := KEPT.get(keys[each.pk]))}
    made = {row.experiment.pk: row for row in _build_rows([each for each in experiments if each.pk not in kept])}
    for pk in made.keys() & keys.keys():
        KEPT.put(keys[pk], made[pk])
    rows = [made.get(each.pk) or copy(kept[each.pk]) for each in experiments]
    for row, each in zip(rows, experiments, strict=True):
        row.experiment = each
    return rows


def _name_rows(experiments: Sequence[Experiment]) -> dict[int, Hashable]:
    """Return the keys of the rows of ended experiments: all that they show of their runs,
    and the state of their numbers."""
    ended = {each.pk: each for each in experiments if each.status not in (*STOPPED, *OPEN)}
    states: dict[int, list[tuple[object, ...]]] = {pk: [] for pk in ended}
    runs = Run.objects.filter(experiment__in=list(ended)).order_by("id")
    for state in runs.values_list("experiment_id", *OF_RUN, *OF_MODELS):
        states[state[0]].append(state)
    return {pk: (ended[pk].public_id, ended[pk].status, tuple(states[pk])) for pk in ended}


def _build_rows(experiments: Sequence[Experiment]) -> list[ExperimentRow]:
    if not experiments:
        return []
    runs = read_runs(experiments)
    every = [run for each in runs.values() for run in each]
    is_open = [each for each in experiments if each.is_open]
    progress = progress_of(is_open) if is_open else {}
    tallies = tally_by_phase(every)
    spending = spending_of([run for run in every if run.experiment_id not in progress])
    ended = {each: runs[each.pk] for each in experiments if not each.is_open and not _is_extra(runs[each.pk])}
    verdicts, stopped = judge_experiments(ended), _read_stopped(experiments)
    rows = []
    for each in experiments:
        facts = progress.get(each.pk), verdicts.get(each.pk), stopped.get(each.pk, "")
        rows.append(ExperimentRow(each, runs[each.pk], tallies, spending, *facts))
    return rows


def _is_extra(runs: Sequence[Run]) -> bool:
    return any(run.condition in unpooled_conditions() for run in runs)


def _read_stopped(experiments: Sequence[Experiment]) -> dict[int, str]:
    """Return experiment pk -> how its first reason begins; no query where all are at their end."""
    waiting = [
        each.pk for each in experiments if each.status in (*STOPPED, *OPEN) and each.origin == Experiment.Origin.RUN
    ]
    if not waiting:
        return {}
    found = Episode.objects.filter(run__experiment__in=waiting).troubled().order_by("-ordinal")
    reasons = found.annotate(reason=Left(REASON, REASON_LENGTH)).values_list("run__experiment", "reason")
    return {pk: why.partition("\n")[0] for pk, why in reasons}


# --- its forest: a lane for each condition, points against no skill, the same axis in every row ---------------------


WIDTH, MIDDLE, EDGE = 200, 100.0, 94.0  # pixels; from the middle to the edge
REACH = 0.6  # shares: what is farther from no skill is drawn at the edge
LANE, MAX_HEIGHT = 11.0, 66.0  # many lanes are drawn closer


def draw_forest(verdict: ExperimentVerdict | None) -> SafeString:
    """Draw it, empty where nothing could be compared with a baseline.
    Put together here: a list has hundreds of marks."""
    if verdict is None or not verdict.ways:
        return SafeString("")
    ways = sorted(verdict.ways, key=lambda way: (name_condition(way.condition).order, way.label))
    lane = min(LANE, MAX_HEIGHT / len(ways))
    height = lane * len(ways) + 4
    words = [
        f"{name_condition(way.condition).title}: {percent_text(way.own, 0)} %, {render_signed(100 * way.delta, 0)} "
        f"points, {way.words}"
        for way in ways
    ]
    lanes = (
        _draw_lane(way, label, 2 + lane * (at + 0.5)) for at, (way, label) in enumerate(zip(ways, words, strict=True))
    )
    return SafeString(
        f'<svg class="small-forest" width="{WIDTH}" height="{height:g}" role="img" aria-label="{escape("; ".join(words))}">'  # noqa: E501
        f'<line class="zero" x1="{MIDDLE:g}" x2="{MIDDLE:g}" y1="0" y2="{height:g}"/>{"".join(lanes)}</svg>'
    )


def _draw_lane(way: JudgedWay, words: str, y: float) -> str:
    name, interval = name_condition(way.condition), ""
    if way.low is not None and way.high is not None:
        ends = f'x1="{_place(way.low):g}" x2="{_place(way.high):g}"'
        interval = f'<line class="reach" {ends} y1="{y:g}" y2="{y:g}"/>'
    return (
        f'<g class="c-{name.colour or "ink"}{"" if way.effect.is_clear else " open"}">{interval}'
        f'<use href="#shape-{name.shape}" x="{_place(way.delta):g}" y="{y:g}"><title>{escape(words)}</title></use></g>'
    )


def _place(share: float) -> float:
    """Return pixels from the left; right is better."""
    return round(MIDDLE + EDGE * max(-REACH, min(REACH, share)) / REACH, 1)

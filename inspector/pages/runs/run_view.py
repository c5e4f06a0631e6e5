"""`/runs/<id>/`: the grid of a run that follows a protocol, a sortable list of trials for any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from uuid import UUID

from django.db.models import Max, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.analysis.failures.run_endings import endings_of
from benchapp.experiments.work.progress import at_work, progress_of
from benchapp.models import (
    Attempt,
    Decision,
    Entry,
    Experiment,
    ModelCall,
    Run,
    SkillUse,
    Square,
    Trajectory,
    Trial,
    User,
)
from benchapp.record.json_shape import JsonShape, encode
from benchapp.stats.benchmarks import skillevolbench_metrics
from benchapp.stats.learning.funnel import held_by
from benchapp.stats.metrics.no_skill_sibling import beside, outcomes_of, sibling_of, stored_outcomes
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.spending import spending_of
from benchapp.stats.metrics.tally import TrialTally, tally_by
from inspector.pages.jobs.budget import budget_of
from inspector.pages.library.probe import read_probes_of_run
from inspector.pages.runs.run import LibraryFacts, Lines, build_grid, count_retests, find_bypasses
from inspector.pages.runs.run_cards import cards_of
from inspector.web.forms import TrialListForm
from inspector.web.responses import PageLink, address_of_any, next_url, paginate, render_page, wants_fragment
from inspector.web.text.live_step import in_a_line, without_closed
from inspector.web.text.row_shapes import ATTEMPT, AUTHOR_CALL, TRIAL
from runner.base.types import DecisionStatus, Phase

PER_PAGE = 100  # trials, or episodes
MAX_LISTED = 30  # names in the aside; the rest is counted


@require_safe
def run(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(
        Run.objects.for_detail().select_related(
            "forked_from__experiment", "probe__origin__run__experiment", "probe__decision"
        ),
        public_id=public_id,
    )
    trials = Trial.objects.filter(episode__run=found)
    tallies = tally_by(trials, "phase", "task__role")
    tally, rates = sum(tallies.values(), TrialTally()), skillevolbench_metrics.rates_of(tallies)
    if rates:
        return _grid_page(request, found, tally, rates, as_json=as_json)
    return _list_page(request, found, tally, as_json=as_json)


def _progress_facts(found: Run) -> dict[str, Any]:
    """How far it has come, what it may spend, what stands still: of runs of ours that are not at their end."""
    if found.experiment.origin != Experiment.Origin.RUN or found.status in (Run.Status.DONE, Run.Status.CANCELLED):
        return {}
    progress = progress_of([found])[found.pk]
    still = list(found.episodes.standing_still())
    return {"progress": progress, "budget": budget_of(found, progress), "standing_still": still}


def _progress_twin(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "progress": facts.get("progress"),
        "budget": facts.get("budget", []),
        "standing_still": STANDING_STILL.read_all(facts.get("standing_still", ())),
    }


def _grid_page(
    request: HttpRequest, found: Run, tally: TrialTally, rates: Mapping[str, Rate], *, as_json: bool
) -> HttpResponse:
    squares = Trial.objects.filter(episode__run=found).for_grid()
    sibling = sibling_of(found)
    under_way = Attempt.objects.under_way().filter(trial__episode__run=found)
    facts: dict[str, Any] = {
        **_progress_facts(found),
        "compared": beside(outcomes_of(squares), stored_outcomes(sibling)) if sibling else {},
        "sibling": sibling,
        "retest": count_retests(squares),
        "bypassed": _find_failed_bypasses(found, squares),
        "unscored": list(_find_unscored_attempts(found)),
        "spent": spending_of([found])[found.pk],
        "delays": _delays(found),
        "endings": endings_of([found])[found.pk],
        "now": without_closed(cast(User, request.user), at_work(under_way, MAX_LISTED)) if found.is_open else [],
        "calling": _calling(found),
    }
    if as_json:
        data = _grid_twin(request, found, tally, rates, squares, facts)
        return render_page(request, "runs/run.html", data=data, as_json=True)
    context = {**facts, **read_probes_of_run(found), **_build_context(found, tally, rates, squares, facts)}
    template = "runs/_run_live.html" if wants_fragment(request) else "runs/run.html"
    return render_page(request, template, data={}, context=context, as_json=False)


def _build_context(
    found: Run, tally: TrialTally, rates: Mapping[str, Rate], squares: list[Square], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """What the page says of these facts."""
    grid = build_grid(squares, found.episodes.select_related("environment").in_bulk(), _library_facts(found))
    compared, bypassed = facts["compared"], facts["bypassed"]
    return {
        "run": found,
        "tally": tally,
        "cards": cards_of(
            rates,
            compared,
            frozenset(group.episode.protocol for group in grid.groups),
            samples=1 + max((square.sample for square in squares if square.phase == Phase.DEPLOYMENT), default=0),
        ),
        "grid": grid,
        "trial_address": address_of_any("trial"),
        "tainted": any(group.episode.is_tainted for group in grid.groups),
        "bypassed": bypassed[:MAX_LISTED],
        "bypassed_total": len(bypassed),
        "bypassed_more": max(0, len(bypassed) - MAX_LISTED),
        "unscored": facts["unscored"][:MAX_LISTED],
        "unscored_more": max(0, len(facts["unscored"]) - MAX_LISTED),
        "delays": facts["delays"],
        "agent": facts["spent"].agent,
        "author": facts["spent"].author,
        "judge": facts["spent"].judge,
    }


def _list_page(request: HttpRequest, found: Run, tally: TrialTally, *, as_json: bool) -> HttpResponse:
    form = TrialListForm(request.GET)
    trials = form.apply(Trial.objects.filter(episode__run=found).select_related("task__family", "episode"))
    page = paginate(request, trials, per_page=PER_PAGE)
    spent, endings = spending_of([found])[found.pk], endings_of([found])[found.pk]
    facts = _progress_facts(found)
    libraries = list(
        found.episodes.exclude(library=None).select_related("library").order_by("title", "id")[: PER_PAGE + 1]
    )
    data = {
        **_run_twin(found, tally),
        **_progress_twin(facts),
        "metrics": {},
        "spent": spent,
        "endings": endings,
        "libraries": LIBRARY.read_all(libraries[:PER_PAGE]),
        "trials": TRIAL.read_all(page),
        "next": next_url(request, page),
    }
    context = {
        **facts,
        "endings": endings,
        "in_order": found.experiment.origin == Experiment.Origin.RUN
        and found.episodes.filter(is_ordered=True).exists(),
        **read_probes_of_run(found),
        "run": found,
        "tally": tally,
        "page": page,
        "chosen": form.chosen(),
        "statuses": Trial.Status.choices,
        "agent": spent.agent,
        "episodes": libraries[:PER_PAGE],
        "more_episodes": len(libraries) > PER_PAGE,
    }
    return render_page(request, "runs/run_list.html", data=data, context=context, as_json=as_json)


# --- queries ----------------------------------------------------------------------------------------------------


def _library_facts(found: Run) -> LibraryFacts:
    """Seals, rounds, and what decisions and curated skills did to each family, in two queries."""
    entries = Entry.objects.filter(episode__run=found, kind__in=[Entry.Kind.FREEZE, Entry.Kind.SEED])
    seals: dict[int, str] = {}
    lines: dict[tuple[int, int], Lines] = {}
    for episode, seal, family in entries.values_list("episode_id", "seal__seal", "seeding__family_id"):
        if seal:
            seals[episode] = seal
        elif family:
            lines[episode, family] = Lines(seeded=True)
    rounds: dict[int, int] = {}
    applied = Decision.objects.filter(episode__run=found, status=DecisionStatus.APPLIED).order_by()
    sums = (Sum("lines_added"), Sum("lines_removed"), Max("round"))
    for episode, family, added, removed, last in applied.values_list("episode_id", "family_id").annotate(*sums):
        seeded = (episode, family) in lines
        lines[episode, family] = Lines(added, removed, seeded)
        rounds[episode] = max(rounds.get(episode, 0), last)
    return LibraryFacts(seals, rounds, lines)


def _calling(found: Run) -> list[ModelCall]:
    """Its authors at work."""
    calls = ModelCall.objects.of_authors_at_work().filter(episode__run=found)
    return list(calls[:MAX_LISTED]) if found.is_open else []


def _find_unscored_attempts(found: Run) -> Iterable[Attempt]:
    attempts = Attempt.objects.without_score().filter(trial__episode__run=found)
    return attempts.select_related("trial__task").order_by("-started_at", "-id")


def _delays(found: Run) -> dict[str, Any] | None:
    """How long the agents' models were waited for in vain; None where none failed."""
    held_up = Trajectory.objects.filter(attempt__trial__episode__run=found, extra__has_key="provider_delay")
    told = [delay for row in held_up.only("extra") if (delay := row.provider_delay)]
    if not told:
        return None
    return {
        "attempts": len(told),
        "failed_tries": sum(tries for tries, _ in told),
        "seconds": sum(seconds for _, seconds in told),
    }


def _uses_of_failed(found: Run) -> Iterable[tuple[int, str, str]]:
    counting = SkillUse.objects.filter(attempt__counts=True, attempt__trial__episode__run=found)
    failed = counting.filter(attempt__trial__success=False).order_by()
    return failed.values_list("attempt__trial_id", "skill", "kind").distinct()


def _find_failed_bypasses(found: Run, squares: list[Square]) -> list[Square]:
    failed = (square for square in squares if square.success is False)
    held = held_by({square.snapshot_id for square in failed if square.snapshot_id})
    return find_bypasses(squares, _uses_of_failed(found), held)


# --- the twin ---------------------------------------------------------------------------------------------------


RUN = JsonShape(
    *("id=public_id", "experiment", "condition", "replicate", "harness", "harness_version?", "agent_model"),
    *("author_model", "scripted", "status", "seed", "forked_from"),
    ("probe_of", lambda found: PROBE.read(found.probe) if hasattr(found, "probe") else None),
    "setup_digest?",
)
PROBE = JsonShape("run=origin.run", "episode=origin", "state", "reverted")
STANDING_STILL = JsonShape("episode=public_id", "status", "reason=blocked_reason?")
LIBRARY = JsonShape(
    *("episode=public_id", "title", "digest=library.digest", "skills=library.skills_total"),
    *("files=library.files_total", "bytes=library.bytes_total"),
)


def _run_twin(found: Run, tally: TrialTally) -> dict[str, Any]:
    return {**RUN.read(found), "trial_counts": tally, "library": PageLink("library-json", found.public_id)}


def _grid_twin(
    request: HttpRequest,
    found: Run,
    tally: TrialTally,
    rates: Mapping[str, Rate],
    squares: list[Square],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    page = paginate(request, squares, per_page=PER_PAGE)
    trials = Trial.objects.select_related("task__family", "episode").in_bulk([square.pk for square in page])
    compared = facts["compared"]
    return {
        **_run_twin(found, tally),
        "now": [{**ATTEMPT.read(row.attempt), "latest": in_a_line(row.step) or None} for row in facts["now"]],
        "provider_delay": facts["delays"],
        "authors": AUTHOR_CALL.read_all(facts["calling"]),
        **_progress_twin(facts),
        "metrics": {key: {**encode(rate), "beside_no_skill": compared.get(key)} for key, rate in rates.items()},
        "sibling": facts["sibling"],
        "retest": facts["retest"],
        "silent_bypass": facts["bypassed"],
        "unscored_attempts": ATTEMPT.read_all(facts["unscored"]),
        "spent": facts["spent"],
        "endings": facts["endings"],
        "trials": TRIAL.read_all(trials[square.pk] for square in page),
        "next": next_url(request, page),
    }

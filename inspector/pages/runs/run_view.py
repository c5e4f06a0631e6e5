"""`/runs/<id>/`: the grid of a run that follows a protocol, a sortable list of trials for any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Max, QuerySet, Sum
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.analysis.failures.run_endings import Endings, read_endings
from benchapp.experiments.work.progress import AtWork, WorkProgress, at_work, progress_of
from benchapp.models import (
    Attempt,
    Decision,
    Entry,
    Episode,
    Experiment,
    ModelCall,
    Run,
    SkillUse,
    Square,
    Trajectory,
    Trial,
)
from benchapp.models.episodes import REASON
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.review.blinding import Words, hidden_until
from benchapp.stats.benchmarks import skillevolbench_metrics
from benchapp.stats.learning.funnel import read_skills_held
from benchapp.stats.metrics.no_skill_sibling import (
    BesideNoSkill,
    Successes,
    compare_with_no_skill,
    outcomes_of,
    read_outcomes,
    sibling_of,
)
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.spending import RunSpending, spending_of
from benchapp.stats.metrics.tally import TrialTally, tally_by
from inspector.pages.jobs.budget import BudgetPart, budget_of
from inspector.pages.library.library_view import choose_episode
from inspector.pages.library.probe import read_probes_of_run
from inspector.pages.runs.cursor import draw_evolution
from inspector.pages.runs.run import (
    LibraryFacts,
    Lines,
    RetestCounts,
    build_cards,
    build_grid,
    count_reading,
    count_retests,
    find_bypasses,
    split_cards,
)
from inspector.web.closed_pages import words_of
from inspector.web.forms import TrialListForm
from inspector.web.responses import PageLink, address_of_any, next_url, paginate, read_htmx, render_page, wants_fragment
from inspector.web.text.live_step import in_a_line, without_closed
from inspector.web.text.row_shapes import ATTEMPT, AUTHOR_CALL, TRIAL
from runner.base.types import DecisionStatus, Phase

PER_PAGE = 100  # trials, or episodes
REASON_LENGTH = 300  # a traceback may follow
MAX_LISTED = 30  # names in the aside; the rest is counted


@require_safe
def run(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(Run.objects.for_detail().select_related("probe"), public_id=public_id)
    if read_htmx(request).target == "evolution":
        return _evolution_part(request, found)
    trials = Trial.objects.filter(episode__run=found)
    tallies = tally_by(trials, "phase", "task__role")
    tally, rates = sum(tallies.values(), TrialTally()), skillevolbench_metrics.rates_of(tallies)
    if rates:
        return _grid_page(request, found, tally, rates, as_json=as_json)
    return _list_page(request, found, tally, as_json=as_json)


def _evolution_part(request: HttpRequest, found: Run) -> HttpResponse:
    """What a move of the cursor changes."""
    sibling = sibling_of(found)
    squares = Trial.objects.filter(episode__run=found).for_grid()
    beside = read_outcomes(sibling) if sibling else {}
    return HttpResponse(_draw_evolution(request, found, choose_episode(found)[0], squares, beside))


def _draw_evolution(
    request: HttpRequest, found: Run, episodes: Sequence[Episode], squares: Sequence[Square], beside: Successes
) -> str:
    asked = {name: request.GET.get(name, "") for name in ("episode", "at")}
    return draw_evolution(found, episodes, squares, words_of(request), **asked, beside=beside)


STANDING_STILL = JsonShape("episode=public_id", "status", "reason=told?")


@dataclass(frozen=True)
class Headway(Shaped):
    """How far a run has come, what it may spend, what stands still: empty of imports and of what is at its end."""

    progress: WorkProgress | None = None
    budget: Sequence[BudgetPart] = ()
    standing_still: Sequence[Episode] = ()

    json_shape = JsonShape(
        *("progress", "budget", ("standing_still", lambda found: STANDING_STILL.read_all(found.standing_still)))
    )


@dataclass(frozen=True)
class GridFacts:
    """What the page of a grid and its twin tell of a run."""

    run: Run
    tally: TrialTally
    rates: Mapping[str, Rate]
    squares: list[Square]
    headway: Headway
    compared: Mapping[str, BesideNoSkill]
    sibling: Run | None
    beside: Successes  # of the sibling
    retest: RetestCounts | None
    bypassed: list[Square]
    unscored: list[Attempt]
    spent: RunSpending
    delays: Mapping[str, float] | None
    endings: Endings
    now: list[AtWork]
    calling: list[ModelCall]


def _read_headway(found: Run) -> Headway:
    if found.experiment.origin != Experiment.Origin.RUN or found.status in (Run.Status.DONE, Run.Status.CANCELLED):
        return Headway()
    progress = progress_of([found])[found.pk]
    return Headway(
        progress,
        budget_of([found], progress),
        list(found.episodes.troubled().annotate(told=Left(REASON, REASON_LENGTH))),
    )


def _grid_page(
    request: HttpRequest, found: Run, tally: TrialTally, rates: Mapping[str, Rate], *, as_json: bool
) -> HttpResponse:
    squares = Trial.objects.filter(episode__run=found).for_grid()
    sibling = sibling_of(found)
    beside = read_outcomes(sibling) if sibling else {}
    facts = GridFacts(
        run=found,
        tally=tally,
        rates=rates,
        squares=squares,
        headway=_read_headway(found),
        compared=compare_with_no_skill(outcomes_of(squares), beside),
        sibling=sibling,
        beside=beside,
        retest=count_retests(squares),
        bypassed=_find_failed_bypasses(found, squares),
        unscored=list(_select_unscored(found)),
        spent=spending_of([found])[found.pk],
        delays=_sum_delays(found),
        endings=read_endings([found])[found.pk],
        now=_list_working(request, found) if found.is_open else [],
        calling=_list_calling(found) if found.is_open else [],
    )
    template = "runs/_run_live.html" if wants_fragment(request) else "runs/run.html"
    if as_json:
        return render_page(request, template, data=_grid_twin(request, facts), as_json=True)
    return render_page(request, template, data={}, context=_build_context(request, facts), as_json=False)


def _build_context(request: HttpRequest, facts: GridFacts) -> dict[str, object]:
    """What the page says of these facts."""
    found, episodes = facts.run, choose_episode(facts.run)[0]
    grid = build_grid(facts.squares, {episode.pk: episode for episode in episodes}, _read_library_facts(found))
    samples = (square.sample for square in facts.squares if square.phase == Phase.DEPLOYMENT)
    protocols = frozenset(group.episode.protocol for group in grid.groups)
    return {
        **vars(facts),
        **vars(facts.headway),
        **read_probes_of_run(found, words_of(request)),
        "cards": split_cards(build_cards(facts.rates, facts.compared, protocols, samples=1 + max(samples, default=0))),
        "reading": count_reading(facts.squares),
        "evolution": _draw_evolution(request, found, episodes, facts.squares, facts.beside),
        "grid": grid,
        "trial_address": address_of_any("trial"),
        "tainted": any(group.episode.is_tainted for group in grid.groups),
        "bypassed": facts.bypassed[:MAX_LISTED],
        "bypassed_total": len(facts.bypassed),
        "bypassed_more": max(0, len(facts.bypassed) - MAX_LISTED),
        "unscored": facts.unscored[:MAX_LISTED],
        "unscored_more": max(0, len(facts.unscored) - MAX_LISTED),
        "agent": facts.spent.agent,
        "author": facts.spent.author,
        "judge": facts.spent.judge,
    }


def _list_page(request: HttpRequest, found: Run, tally: TrialTally, *, as_json: bool) -> HttpResponse:
    form = TrialListForm(request.GET)
    trials = form.apply(Trial.objects.filter(episode__run=found).select_related("task__family", "episode"))
    page = paginate(request, trials, per_page=PER_PAGE)
    spent, endings = spending_of([found])[found.pk], read_endings([found])[found.pk]
    headway = _read_headway(found)
    libraries = list(
        found.episodes.exclude(library=None).select_related("library").order_by("title", "id")[: PER_PAGE + 1]
    )
    data = {
        **_run_twin(request, found, tally),
        **encode(headway),
        "metrics": {},
        "spent": spent,
        "endings": endings,
        "libraries": LIBRARY.read_all(libraries[:PER_PAGE]),
        "trials": TRIAL.read_all(page),
        "next": next_url(request, page),
    }
    episodes = choose_episode(found)[0] if found.experiment.origin == Experiment.Origin.RUN else []
    in_order = any(episode.is_ordered for episode in episodes)
    squares = Trial.objects.filter(episode__run=found).for_grid() if in_order else []
    context = {
        **vars(headway),
        "in_order": in_order,
        "evolution": _draw_evolution(request, found, episodes, squares, {}) if in_order and not as_json else "",
        **read_probes_of_run(found, words_of(request)),
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


def _read_library_facts(found: Run) -> LibraryFacts:
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
    # Grouped by status, not filtered: a filter leads the planner of SQLite to the index of all applied decisions there are.
    decisions = Decision.objects.filter(episode__run=found).order_by().values_list("episode_id", "family_id", "status")
    sums = (Sum("lines_added"), Sum("lines_removed"), Max("round"))
    for episode, family, status, added, removed, last in decisions.annotate(*sums):
        if status != DecisionStatus.APPLIED:
            continue
        seeded = (episode, family) in lines
        lines[episode, family] = Lines(added, removed, seeded)
        rounds[episode] = max(rounds.get(episode, 0), last)
    return LibraryFacts(seals, rounds, lines)


def _list_working(request: HttpRequest, found: Run) -> list[AtWork]:
    """Its agents at work."""
    under_way = Attempt.objects.under_way().filter(trial__episode__run=found)
    return without_closed(words_of(request), at_work(under_way, MAX_LISTED))


def _list_calling(found: Run) -> list[ModelCall]:
    """Its authors at work."""
    return list(ModelCall.objects.of_authors_at_work().filter(episode__run=found)[:MAX_LISTED])


def _select_unscored(found: Run) -> QuerySet[Attempt]:
    attempts = Attempt.objects.without_score().filter(trial__episode__run=found)
    return attempts.select_related("trial__task").order_by("-started_at", "-id")


def _sum_delays(found: Run) -> dict[str, float] | None:
    """How long agents waited for models in vain; None where no call failed."""
    held_up = Trajectory.objects.filter(attempt__trial__episode__run=found, extra__has_key="provider_delay")
    delays = [delay for row in held_up.only("extra") if (delay := row.provider_delay)]
    if not delays:
        return None
    return {
        "attempts": len(delays),
        "failed_tries": sum(tries for tries, _ in delays),
        "seconds": sum(seconds for _, seconds in delays),
    }


def _select_uses_of_failed(found: Run) -> Iterable[tuple[int, str, str]]:
    counting = SkillUse.objects.filter(attempt__counts=True, attempt__trial__episode__run=found)
    failed = counting.filter(attempt__trial__success=False).order_by()
    return failed.values_list("attempt__trial_id", "skill", "kind").distinct()


def _find_failed_bypasses(found: Run, squares: list[Square]) -> list[Square]:
    failed = (square for square in squares if square.success is False)
    held = read_skills_held({square.snapshot_id for square in failed if square.snapshot_id})
    return find_bypasses(squares, _select_uses_of_failed(found), held)


# --- the twin ---------------------------------------------------------------------------------------------------


PROBE = JsonShape("run=origin.run", "episode=origin", "state", "reverted")
RUN = JsonShape(
    *("id=public_id", "experiment", "condition", "replicate", "harness", "harness_version?", "agent_model"),
    *("author_agent?", "author_model", "scripted", "status", "seed", "forked_from"),
    ("probe_of", lambda found: PROBE.read(found.probe) if hasattr(found, "probe") else None),
    *("setup_digest?", "notice?"),
)
LIBRARY = JsonShape(
    *("episode=public_id", "title", "digest=library.digest", "skills=library.skills_total"),
    *("files=library.files_total", "bytes=library.bytes_total"),
)


def _hide_reverted(words: Words, found: Run) -> dict[str, object]:
    """The entry of a probe without the lines it took back, where these are closed to the reader."""
    origin = found.probe.origin if hasattr(found, "probe") else None
    queue = words.closing_library(origin) if origin else None
    return {"probe_of": {**PROBE.read(found.probe), "reverted": hidden_until(queue)}} if queue else {}


def _run_twin(request: HttpRequest, found: Run, tally: TrialTally) -> dict[str, object]:
    return {
        **RUN.read(found),
        **_hide_reverted(words_of(request), found),
        "trial_counts": tally,
        "library": PageLink("library-json", found.public_id),
    }


GRID = JsonShape(
    ("now", lambda facts: [{**ATTEMPT.read(row.attempt), "latest": in_a_line(row.step) or None} for row in facts.now]),
    *("provider_delay=delays", ("authors", lambda facts: AUTHOR_CALL.read_all(facts.calling)), "*headway"),
    (
        "metrics",
        lambda facts: {
            key: {**encode(rate), "beside_no_skill": facts.compared.get(key)} for key, rate in facts.rates.items()
        },
    ),
    *("sibling", "retest", "silent_bypass=bypassed"),
    ("unscored_attempts", lambda facts: ATTEMPT.read_all(facts.unscored)),
    *("spent", "endings"),
)


def _grid_twin(request: HttpRequest, facts: GridFacts) -> dict[str, object]:
    page = paginate(request, facts.squares, per_page=PER_PAGE)
    trials = Trial.objects.select_related("task__family", "episode").in_bulk([square.pk for square in page])
    return {
        **_run_twin(request, facts.run, facts.tally),
        **GRID.read(facts),
        "trials": TRIAL.read_all(trials[square.pk] for square in page),
        "next": next_url(request, page),
    }

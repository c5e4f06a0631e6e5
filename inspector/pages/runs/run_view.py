"""`/runs/<id>/`: the grid of a run that follows a protocol, a sortable list of trials for any other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from django.db.models import Max, Sum
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from benchapp.analysis.failures.run_endings import read_endings
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
from benchapp.record.json_shape import JsonShape, encode
from benchapp.review.blinding import hidden_until
from benchapp.stats.inference.shares import Rate
from benchapp.stats.learning.funnel import read_skills_held
from benchapp.stats.metrics.catalogue import METRIC_NAMES, SKILLEVOLBENCH, name_role, rates_of
from benchapp.stats.metrics.no_skill_sibling import (
    BesideNoSkill,
    compare_with_no_skill,
    outcomes_of,
    read_outcomes,
    sibling_of,
)
from benchapp.stats.metrics.spending import spending_of
from benchapp.stats.metrics.tally import TrialTally, tally_by
from inspector.pages.jobs.budget import BudgetPart, budget_of
from inspector.pages.library.probe import read_probes_of_run
from inspector.pages.library.rail import choose_episode
from inspector.pages.runs.cursor import draw_evolution
from inspector.web.responses import PageLink, address_of_any_trial, paginate, read_htmx, render_page, wants_fragment
from inspector.web.subject import review_access, without_closed
from inspector.web.text.formats import in_a_line
from inspector.web.text.row_shapes import ATTEMPT, AUTHOR_CALL, TRIAL
from inspector.web.trial_columns import OF_RUN, TRIAL_COLUMNS, TrialListForm, list_heads
from runner.base.types import DecisionStatus, Phase, Role, UseKind

PER_PAGE = 100  # trials, or episodes
REASON_LENGTH = 300  # a traceback may follow
MAX_LISTED = 30  # names in the aside; the rest is counted

PHASE_TITLES: dict[str, str] = {
    Phase.ACQUISITION: "Acquisition",
    Phase.DEPLOYMENT: "Frozen deployment",
    Phase.REPLAY: "Replay",
    Phase.EVALUATION: "Evaluation",
}
PHASE_ORDER = [*PHASE_TITLES]  # as time goes: the library is written, sealed, used; replay looks back
ROLE_ORDER: list[str] = [*Role]

PROBE = JsonShape("run=origin.run episode=origin state reverted")
RUN = JsonShape(
    "id=public_id experiment condition replicate harness harness_version? agent_model author_agent? author_model",
    "scripted status seed forked_from",
    ("probe_of", lambda run: PROBE.read(run.probe) if hasattr(run, "probe") else None),
    "setup_digest? notice?",
)
LIBRARY = JsonShape(
    "episode=public_id title digest=library.digest skills=library.skills_total files=library.files_total",
    "bytes=library.bytes_total",
)
STANDING_STILL = JsonShape("episode=public_id status reason?")


def run_page(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    run = get_object_or_404(Run.objects.for_detail().select_related("probe"), public_id=public_id)
    trials = Trial.objects.filter(episode__run=run)
    if read_htmx(request).target == "evolution":  # the cursor moved and nothing else changes
        sibling = sibling_of(run)
        no_skill = read_outcomes(sibling) if sibling else {}
        return HttpResponse(draw_evolution(request, run, choose_episode(run)[0], trials.for_grid(), no_skill))
    tallies = tally_by(trials, "phase", "task__role")
    tally = sum(tallies.values(), TrialTally())
    if rates := rates_of(tallies):
        return _grid_page(request, run, tally, rates, as_json=as_json)
    return _list_page(request, run, tally, as_json=as_json)


def _grid_page(
    request: HttpRequest, run: Run, tally: TrialTally, rates: Mapping[str, Rate], *, as_json: bool
) -> HttpResponse:
    squares = Trial.objects.filter(episode__run=run).for_grid()
    sibling = sibling_of(run)
    no_skill = read_outcomes(sibling) if sibling else {}
    compared = compare_with_no_skill(outcomes_of(squares), no_skill)
    progress, budget, troubled = _read_headway(run)
    retest, reading, delays = count_retests(squares), _count_reading(squares), _sum_delays(run)
    # Of an import it is known that agents could read skills once one did: their text may be in the prompt.
    can_read = run.experiment.origin == Experiment.Origin.RUN or bool(reading and reading.passed)
    bypassed = _find_bypasses(run, squares) if can_read else []
    attempts = Attempt.objects.without_score().filter(trial__episode__run=run)
    unscored = list(attempts.select_related("trial__task").order_by("-started_at", "-id"))
    spent, endings = spending_of([run])[run.pk], read_endings([run])[run.pk]
    working: list[AtWork] = []
    calling: list[ModelCall] = []
    if run.is_open:
        under_way = Attempt.objects.under_way().filter(trial__episode__run=run)
        working = without_closed(review_access(request), at_work(under_way, MAX_LISTED))
        calling = list(ModelCall.objects.of_authors_at_work().filter(episode__run=run)[:MAX_LISTED])
    template = "runs/_run_live.html" if wants_fragment(request) else "runs/run.html"

    if as_json:
        page = paginate(request, squares, per_page=PER_PAGE)
        trials = Trial.objects.select_related("task__family", "episode").in_bulk([square.pk for square in page])
        data = {
            **_begin_twin(request, run, tally),
            "now": [{**ATTEMPT.read(row.attempt), "latest": in_a_line(row.step) or None} for row in working],
            "provider_delay": delays,
            "authors": AUTHOR_CALL.read_all(calling),
            "progress": progress,
            "budget": budget,
            "standing_still": STANDING_STILL.read_all(troubled),
            "metrics": {key: {**encode(rate), "beside_no_skill": compared.get(key)} for key, rate in rates.items()},
            "sibling": sibling,
            "retest": retest,
            "silent_bypass": bypassed,
            "unscored_attempts": ATTEMPT.read_all(unscored),
            "spent": spent,
            "endings": endings,
            "trials": TRIAL.read_all(trials[square.pk] for square in page),
        }
        return render_page(request, template, data=data, page=page, as_json=True)

    all_episodes = choose_episode(run)[0]
    in_grid = {square.episode_id for square in squares}
    episodes = {episode.pk: episode for episode in all_episodes if episode.pk in in_grid}
    samples = (square.sample for square in squares if square.phase == Phase.DEPLOYMENT)
    protocols = frozenset(episode.protocol for episode in episodes.values())
    cards = build_cards(rates, compared, protocols, samples=1 + max(samples, default=0))
    parts = ("CSSR", "ARSR", "CompSR")  # what ESR is made of
    context = {
        "run": run,
        "tally": tally,
        "progress": progress,
        "budget": budget,
        "standing_still": troubled,
        "endings": endings,
        "cards": {
            "main": next((card for card in cards if card.key == "ESR"), None),
            "parts": [card for card in cards if card.key in parts and card.rate],
            "others": [card for card in cards if card.key not in ("ESR", *parts) and card.rate],
        },
        "reading": reading,
        "can_read": can_read,
        "evolution": draw_evolution(request, run, all_episodes, squares, no_skill),
        "grid": _build_grid(run, squares, episodes),
        "trial_address": address_of_any_trial(),
        "tainted": any(episode.is_tainted for episode in episodes.values()),
        "sibling": sibling,
        "retest": retest,
        "bypassed": bypassed[:MAX_LISTED],
        "bypassed_total": len(bypassed),
        "bypassed_more": max(0, len(bypassed) - MAX_LISTED),
        "unscored": unscored[:MAX_LISTED],
        "unscored_more": max(0, len(unscored) - MAX_LISTED),
        "agent": spent.agent,
        "author": spent.author,
        "judge": spent.judge,
        "delays": delays,
        "now": working,
        "calling": calling,
        **read_probes_of_run(run, review_access(request)),
    }
    return render_page(request, template, context=context)


def _list_page(request: HttpRequest, run: Run, tally: TrialTally, *, as_json: bool) -> HttpResponse:
    form = TrialListForm(request.GET)
    trials = form.apply(Trial.objects.filter(episode__run=run).select_related("task__family", "episode"))
    page = paginate(request, trials, per_page=PER_PAGE)
    spent, endings = spending_of([run])[run.pk], read_endings([run])[run.pk]
    progress, budget, troubled = _read_headway(run)
    libraries = list(
        run.episodes.exclude(library=None).select_related("library").order_by("title", "id")[: PER_PAGE + 1]
    )
    episodes = choose_episode(run)[0] if run.experiment.origin == Experiment.Origin.RUN else []
    in_order = any(episode.is_ordered for episode in episodes)
    squares = Trial.objects.filter(episode__run=run).for_grid() if in_order else []
    data = {
        **_begin_twin(request, run, tally),
        "progress": progress,
        "budget": budget,
        "standing_still": STANDING_STILL.read_all(troubled),
        "metrics": {},
        "spent": spent,
        "endings": endings,
        "libraries": LIBRARY.read_all(libraries[:PER_PAGE]),
        "trials": TRIAL.read_all(page),
    }
    context = {
        "run": run,
        "tally": tally,
        "standing_still": troubled,
        "chosen": form.chosen(),
        "heads": [*list_heads(OF_RUN[:-1]), ("", *TRIAL_COLUMNS["read"][:2]), *list_heads(OF_RUN[-1:])],
        "statuses": Trial.Status.choices,
        "agent": spent.agent,
        "in_order": in_order,
        "evolution": draw_evolution(request, run, episodes, squares, {}) if in_order and not as_json else "",
        "episodes": libraries[:PER_PAGE],
        "more_episodes": len(libraries) > PER_PAGE,
        **read_probes_of_run(run, review_access(request)),
    }
    return render_page(request, "runs/run_list.html", data=data, context=context, page=page, as_json=as_json)


def _begin_twin(request: HttpRequest, run: Run, tally: TrialTally) -> dict[str, object]:
    """Return how both twins begin.
    The lines that a probe took back are hidden where its library is closed to the reader."""
    twin = {**RUN.read(run), "trial_counts": tally, "library": PageLink("library-json", run.public_id)}
    origin = run.probe.origin if hasattr(run, "probe") else None
    if origin and (queue := review_access(request).closing_library(origin)):
        twin["probe_of"] = {**PROBE.read(run.probe), "reverted": hidden_until(queue)}
    return twin


def _read_headway(run: Run) -> tuple[WorkProgress | None, Sequence[BudgetPart], list[Episode]]:
    """Return (progress, budget, episodes that do not advance), all empty for an import and for a run at its end."""
    if run.experiment.origin != Experiment.Origin.RUN or run.status in (Run.Status.DONE, Run.Status.CANCELLED):
        return None, [], []
    progress = progress_of([run])[run.pk]
    troubled = list(run.episodes.troubled().annotate(reason=Left(REASON, REASON_LENGTH)))
    return progress, budget_of([run], progress), troubled


# --- the cards at the head --------------------------------------------------------------------------------------


# Protocols that make a library first and try it afterwards, and their cards: metric key -> name, meaning.
LEARNED_FIRST = frozenset({"skilllearnbench", "skillgenbench", "skillgenbench-agnostic"})
LEARNED_FIRST_CARDS = {
    "LSR": ("in acquisition", "trials the library learned from, before its seal: not its result"),
    "ESR": ("after the seal", "trials with the sealed library; some tasks may be those it learned from"),
}


@dataclass(frozen=True, slots=True)
class RateCard:
    """One rate at the head of the page, next to no-skill's."""

    key: str  # of the metric, in the record's twin
    short: str  # the paper's own letters, where it is the paper's metric
    name: str
    meaning: str
    rate: Rate | None
    no_skill: BesideNoSkill | None
    beside_word: str = ""  # what the sibling's number is, where it is not the same
    is_pooled: bool = False  # trials of one task, again and again: no independent draws, so they carry no interval
    note: str = ""

    @property
    def plain(self) -> str:
        """Return the metric's plain name in one word, as on tiles and tabs."""
        return METRIC_NAMES[self.key].short if self.key in METRIC_NAMES else self.name


def build_cards(
    rates: Mapping[str, Rate], compared: Mapping[str, BesideNoSkill], protocols: frozenset[str], *, samples: int
) -> list[RateCard]:
    """Return the cards for episodes of these protocols ("" where an import names none).

    `samples`: the most that any task has after the seal.
    """
    cards = []
    if protocols and protocols <= LEARNED_FIRST:
        for key, (name, meaning) in LEARNED_FIRST_CARDS.items():
            if key in rates:
                repeats = key == "LSR" or samples > 1
                note = "trials, several of each task" if key != "LSR" and repeats else ""
                difference = compared.get(key)
                cards.append(RateCard(key, "", name, meaning, rates[key], difference, is_pooled=repeats, note=note))
        return cards
    has_roles = not protocols or not protocols.isdisjoint({"skillevolbench", ""})
    for metric in SKILLEVOLBENCH:
        if metric.key in rates or has_roles:
            key, difference = metric.key, compared.get(metric.key)
            # The reference of the replay rate is no-skill's first try at the same tasks.
            word = "LSR" if difference and difference.phase != metric.phase else ""
            cards.append(RateCard(key, key, metric.name, metric.meaning, rates.get(key), difference, word))
    return cards


def _count_reading(squares: Iterable[Square]) -> Rate | None:
    """Count which of the trials that were given a skill read one; `planned` counts the unknown ones too.

    None where no trial was given any.
    """
    given = [square.skills_read for square in squares if square.skills_mounted]
    known = [read for read in given if read is not None]
    return Rate(sum(read > 0 for read in known), len(known), len(given)) if given else None


# --- the grid ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GridCell:
    """A family's trials in one column."""

    is_edge: bool  # in the first column of its phase
    squares: Sequence[Square]


def _build_grid(run: Run, squares: Iterable[Square], episodes: Mapping[int, Episode]) -> dict[str, object]:
    """Return the table of families down, phases and roles across. Two queries.

    `squares` are in the order of the plan (`Trial.objects.for_grid`), which is that of the rows.
    """
    rows: dict[int, dict[int | None, dict[tuple[str, str], list[Square]]]] = {}
    names: dict[int | None, str] = {}
    for square in squares:
        names[square.family_id] = "no family" if square.family is None else square.family
        families = rows.setdefault(square.episode_id, {})
        families.setdefault(square.family_id, defaultdict(list))[square.phase, square.role].append(square)

    def rank(place: tuple[str, str]) -> tuple[int, int, str]:
        phase, role = place
        known = ROLE_ORDER.index(role) if role in ROLE_ORDER else len(ROLE_ORDER)
        return PHASE_ORDER.index(phase), known, role

    places = {place for families in rows.values() for cells in families.values() for place in cells}
    heads, columns = [], []
    for phase, group in groupby(sorted(places, key=rank), lambda place: place[0]):
        roles = [role for _, role in group]
        heads.append((PHASE_TITLES[phase], len(roles)))
        columns += [(phase, role, role == roles[0]) for role in roles]

    seals, rounds, lines = _read_libraries(run)
    return {
        "heads": heads,
        "columns": [
            {"label": name_role(role) or "tasks", "title": name_role(role) or "no role", "is_edge": is_edge}
            for _, role, is_edge in columns
        ],
        "width": len(columns) + 2,
        "groups": [
            {
                "episode": episodes[pk],
                "seal": seals.get(pk, ""),
                "rounds": rounds.get(pk, 0),
                "rows": [
                    {
                        "name": names[family],
                        "cells": [GridCell(edge, cells.get((phase, role), ())) for phase, role, edge in columns],
                        "lines": lines.get((pk, family)),
                    }
                    for family, cells in families.items()
                ],
            }
            for pk, families in rows.items()
        ],
    }


Lines = dict[tuple[int, int | None], dict[str, int]]


def _read_libraries(run: Run) -> tuple[dict[int, str], dict[int, int], Lines]:
    """Return seals and rounds by episode, and the lines that were written for each family of it. Two queries."""
    seals: dict[int, str] = {}
    rounds: dict[int, int] = {}
    lines: Lines = {}
    entries = Entry.objects.filter(episode__run=run, kind__in=[Entry.Kind.FREEZE, Entry.Kind.SEED])
    for episode, seal, family in entries.values_list("episode_id", "seal__seal", "seeding__family_id"):
        if seal:
            seals[episode] = seal
        elif family:
            lines[episode, family] = {"seeded": True}
    # Grouped by status, not filtered: a filter leads the planner of SQLite to the index of all applied decisions
    # there are.
    decisions = Decision.objects.filter(episode__run=run).order_by().values_list("episode_id", "family_id", "status")
    sums = (Sum("lines_added"), Sum("lines_removed"), Max("round"))
    for episode, family, status, added, removed, last in decisions.annotate(*sums):
        if status == DecisionStatus.APPLIED:
            seeded = (episode, family) in lines
            lines[episode, family] = {"seeded": seeded, "added": added, "removed": removed}
            rounds[episode] = max(rounds.get(episode, 0), last)
    return seals, rounds, lines


# --- the aside --------------------------------------------------------------------------------------------------


def count_retests(squares: Iterable[Square]) -> dict[str, int] | None:
    """Count how the same tasks ended at acquisition and at replay. None where nothing is replayed."""
    outcomes: dict[str, dict[tuple[int, int, int], bool | None]] = defaultdict(dict)
    for square in squares:
        outcomes[square.phase][square.episode_id, square.task_id, square.sample] = square.success
    first, again = outcomes[Phase.ACQUISITION], outcomes[Phase.REPLAY]
    if not again:
        return None
    pairs = Counter((first.get(key), after) for key, after in again.items())
    return {
        "recovered": pairs[False, True],
        "still_failed": pairs[False, False],
        "still_passed": pairs[True, True],
        "broke": pairs[True, False],
        "unpaired": sum(count for pair, count in pairs.items() if None in pair),  # not scored on both sides
    }


def _find_bypasses(run: Run, squares: Sequence[Square]) -> list[Square]:
    """Return the failed ones among the silent bypasses of `benchapp.stats.learning.funnel`: had a skill for it,
    read none of the library. Two queries."""
    failed = [square for square in squares if square.success is False]
    held = read_skills_held({square.snapshot_id for square in failed if square.snapshot_id})
    counting = SkillUse.objects.filter(attempt__counts=True, attempt__trial__episode__run=run)
    uses = counting.filter(attempt__trial__success=False).order_by()
    mounted: dict[int, set[str]] = defaultdict(set)
    read: dict[int, set[str]] = defaultdict(set)
    for trial, skill, kind in uses.values_list("attempt__trial_id", "skill", "kind").distinct():
        (mounted if kind == UseKind.MOUNTED else read)[trial].add(skill)
    slugs: dict[int, set[str]] = defaultdict(
        set
    )  # of an episode's families: a skill of another name is for all of them
    for square in squares:
        slugs[square.episode_id].add(square.slug or "")
    bypassed = []
    for square in failed:
        given = held.get(square.snapshot_id, set()) if square.snapshot_id else mounted[square.pk]
        is_for_it = any(skill == (square.slug or "") or skill not in slugs[square.episode_id] for skill in given)
        if is_for_it and not square.is_tainted and not given & read[square.pk]:
            bypassed.append(square)
    return bypassed


def _sum_delays(run: Run) -> dict[str, float] | None:
    """Sum how long agents waited for models in vain. None where no call failed."""
    delayed = Trajectory.objects.filter(attempt__trial__episode__run=run, extra__has_key="provider_delay")
    delays = [delay for row in delayed.only("extra") if (delay := row.provider_delay)]
    if not delays:
        return None
    tries, seconds = zip(*delays, strict=True)
    return {"attempts": len(delays), "failed_tries": sum(tries), "seconds": sum(seconds)}

"""Candidates of an optimizer with their scores on its validation tasks, in the order of its decisions.

An import has the skill before optimization as a run of its own (`old-skill`). What that run tried, except for the final
test, are the validation tasks. A candidate's trials of these tasks come right before its decision (a gate that
validates) or right after it (one that scores only what it accepted): its library says whose they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from statistics import fmean
from typing import NamedTuple
from uuid import UUID

from benchapp.models import Entry, Run, Trial
from benchapp.stats.comparing.choices import OLD_SKILL
from runner.base.types import DecisionStatus, Phase

GIVEN = "given"  # the status of what the optimizer began with

Outcome = tuple[bool | None, float | None]  # success and reward of a trial


@dataclass(slots=True)
class Candidate:
    """What one decision was about; number 0 is the given skill. Without `trials` it has no score on validation."""

    number: int
    status: str
    parent: int | None = None  # the number of the candidate it began with, None if unknown
    trials: list[Outcome] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        return self.status in (GIVEN, DecisionStatus.APPLIED)

    @property
    def scored(self) -> int:
        return sum(success is not None for success, _ in self.trials)

    @property
    def passed(self) -> int:
        return sum(success is True for success, _ in self.trials)

    @property
    def share(self) -> float | None:
        return self.passed / self.scored if self.scored else None

    @property
    def reward(self) -> float | None:
        """Return the mean of the scores that the tool gave."""
        rewards = [reward for _, reward in self.trials if reward is not None]
        return fmean(rewards) if rewards else None


@dataclass(frozen=True, slots=True)
class Validation:
    """The candidates of one episode, the given skill first."""

    run: int
    episode: str  # public id
    title: str
    candidates: Sequence[Candidate]


class _Place(NamedTuple):
    """One entry of a history: a seed, a trial or a decision."""

    episode: int
    run: int
    public_id: UUID
    title: str
    kind: str
    seeded: int | None
    task: int | None
    phase: str | None
    library: int | None
    success: bool | None
    reward: float | None
    number: int | None
    status: str | None
    before: int | None
    after: int | None
    patch: str | None


_FIELDS = (
    *("episode", "episode__run", "episode__public_id", "episode__title", "kind", "seeding__snapshot"),
    *(f"attempt__trial__{name}" for name in ("task", "phase", "snapshot", "success", "reward")),
    *(f"decision__{name}" for name in ("number", "status", "before", "after", "patch")),
)


def read_validations(runs: Iterable[Run], as_of: datetime | None = None) -> list[Validation]:
    """Return the candidates of every episode with one that was scored,
    for runs whose experiment has an `old-skill` run among them. Two queries."""
    wanted = list(runs)
    given = [run.pk for run in wanted if run.condition == OLD_SKILL]
    experiments = {run.pk: run.experiment_id for run in wanted}
    tried = Trial.objects.filter(episode__run__in=given, is_done=True).exclude(phase=Phase.DEPLOYMENT).order_by("pk")
    tried = tried.filter(settled_at__lte=as_of) if as_of else tried
    starts: dict[int, list[tuple[int, Outcome]]] = defaultdict(list)  # experiment -> (task, outcome)
    for run, task, success, reward in tried.values_list("episode__run", "task", "success", "reward") if given else ():
        starts[experiments[run]].append((task, (success, reward)))
    evolved = [run.pk for run in wanted if run.condition != OLD_SKILL and run.experiment_id in starts]
    entries = Entry.objects.filter(episode__run__in=evolved, episode__is_tainted=False)
    entries = entries.filter(recorded_at__lte=as_of) if as_of else entries
    rows = entries.order_by("episode__run", "episode__ordinal", "episode", "sequence").values_list(*_FIELDS)
    places = map(_Place._make, rows.iterator(chunk_size=5000) if evolved else ())
    found = []
    for _, group in groupby(places, key=lambda place: place.episode):
        history = list(group)
        first = history[0]
        start = starts[experiments[first.run]]
        candidates = _follow(history, {task for task, _ in start}, [outcome for _, outcome in start])
        if any(each.trials for each in candidates[1:]):
            found.append(Validation(first.run, str(first.public_id), first.title, candidates))
    return found


def _follow(places: Sequence[_Place], tasks: Collection[int], start: list[Outcome]) -> list[Candidate]:
    candidates = [Candidate(0, GIVEN, trials=start)]
    made: dict[int, Candidate] = {}  # by library
    between: dict[int | None, list[Outcome]] = defaultdict(list)  # trials since the last decision, by library
    awaited: int | None = None  # the library that was accepted before it was scored
    for place in places:
        if place.kind == Entry.Kind.SEED and place.seeded is not None:
            made[place.seeded] = candidates[0]
        elif place.kind == Entry.Kind.TRIAL and place.task in tasks and place.phase != Phase.DEPLOYMENT:
            is_of_awaited = awaited is not None and place.library == awaited
            trials = candidates[-1].trials if is_of_awaited else between[place.library]
            trials.append((place.success, place.reward))
        elif place.number is not None and place.before is not None and place.after is not None:
            parent = made.get(place.before)
            if place.status == DecisionStatus.APPLIED:
                trials = between.get(place.after, [])
            elif place.status == DecisionStatus.NO_OP:  # the same text again, which may have been scored before
                known = parent.trials if parent and place.patch else []
                trials = between.get(place.before, known)
            else:
                trials = next((between[library] for library in reversed(between) if library != place.before), [])
            origin = parent.number if parent else None
            found = Candidate(place.number, place.status or "", origin, trials)
            candidates.append(found)
            awaited = None
            if place.status == DecisionStatus.APPLIED:
                made[place.after] = found
                awaited = None if trials else place.after
            between.clear()
    return candidates

"""What the library of each round does on all tasks that a run deploys.

Source: SkillLearnBench, figure 4. Trials with one frozen library count: a run's own after the seal, and those of probes
that froze another round whole. An episode whose learning ended keeps its last library in later rounds, and a run has no
value before every library of every episode was measured. So all points of a curve are over the same tasks: none is
missing because its author stopped early or was probed less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import chain
from statistics import fmean

import numpy as np
from django.db.models import F, Max, Min, QuerySet

from benchapp.models import Decision, Probe, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.columns import outcomes_of, read_settled_after
from benchapp.stats.inference.interval import Ints, mean_interval, share_interval
from benchapp.stats.inference.sides import TaskMeans, weights_of
from benchapp.stats.judged import ChosenJudge, find_passes, with_judgements
from benchapp.stats.learning.computed_runs import RunCache
from benchapp.stats.metrics.metric import TrialMetric, family_interval
from benchapp.stats.metrics.outcomes import Mask, Outcomes
from benchapp.stats.metrics.tally import TrialTally
from runner.base.types import DecisionStatus, Phase


@dataclass(frozen=True, slots=True)
class FrozenTrials:
    """Trials of an episode's tasks with one library, of its own run or of a probe. `library`: key of the snapshot, -1
    where none is recorded. `mask`: which trials of `whole`. `is_over`: all have ended, or were skipped."""

    run: Run
    library: int
    whole: Outcomes
    mask: Mask
    is_over: bool

    @classmethod
    def of(cls, run: Run, library: int, whole: Outcomes, mask: Mask, later: Collection[int]) -> FrozenTrials:
        """Build it. `later`: keys of trials that were settled after the pin, and are blank in `whole`."""
        has_ended = run.status == Run.Status.DONE and not (later and np.isin(whole.trial[mask], list(later)).any())
        return cls(run, library, whole, mask, has_ended or bool(whole.done[mask].all()))

    @property
    def outcomes(self) -> Outcomes:
        return self.whole.where(self.mask)

    @property
    def tally(self) -> TrialTally:
        return TrialTally.of(self.outcomes)

    @property
    def is_coming(self) -> bool:
        """Are trials still to come? A cancelled run gets none."""
        return not self.is_over and self.run.status != Run.Status.CANCELLED


@dataclass(frozen=True, slots=True)
class EpisodeRounds:
    """`libraries`: after each round, in order. `own`: what the run itself deployed; None while its library changed."""

    episode: int
    libraries: tuple[int, ...]
    own: FrozenTrials | None
    probed: tuple[FrozenTrials, ...] = ()

    def frozen_at(self, number: int) -> list[FrozenTrials]:
        """Return trials with the library after this round, or the last one; without a round what was deployed."""
        own = [self.own] if self.own else []
        if not self.libraries:
            return own
        library = self.libraries[min(number, len(self.libraries)) - 1]
        return [each for each in (*own, *self.probed) if each.library == library]

    def measured_at(self, number: int) -> list[Outcomes]:
        """Return those that have ended: the first results of a task list are not typical of the whole."""
        return [each.outcomes for each in self.frozen_at(number) if each.is_over]

    @property
    def unmeasured(self) -> list[int]:
        """Return the rounds whose library has no finished trials, each library once."""
        rounds = {library: number for number, library in reversed(list(enumerate(self.libraries, start=1)))}
        return sorted(number for number in rounds.values() if not any(each.is_over for each in self.frozen_at(number)))


class RoundMean(Shaped):
    """A metric after this many rounds, in its unit. `means`: of the replicates. `scored` trials over `tasks` tasks;
    `passed`: of shares. `ended`: episodes, of all replicates, whose learning had ended in an earlier round."""

    json_shape = JsonShape("number means around passed scored tasks episodes ended")

    def __init__(
        self, number: int, replicates: Sequence[TaskMeans], metric: TrialMetric, episodes: int = 0, ended: int = 0
    ) -> None:
        self.number, self.episodes, self.ended = number, episodes, ended
        self.means = [
            float(each.value @ weights_of(each.task, each.family, by_family=metric.macro)) for each in replicates
        ]
        self.value = fmean(self.means)
        self.around = _find_interval(self.means, replicates[0], metric)
        counts = [np.asarray(each.samples) for each in replicates]
        passed = sum(float(each.value @ n) for each, n in zip(replicates, counts, strict=True))
        self.passed = round(passed) if metric.is_share else None
        self.scored = sum(int(n.sum()) for n in counts)
        self.tasks = len(reduce(np.union1d, [each.task for each in replicates]))


Change = tuple[int, int, datetime]  # episode, library after it, when
KEPT: RunCache[tuple[Change, ...]] = RunCache(600)  # runs


# --- reading ------------------------------------------------------------------------------------------------------


def read_rounds(
    runs: Iterable[Run],
    outcomes: Mapping[int, Outcomes],
    judge: ChosenJudge | None = None,
    as_of: datetime | None = None,
) -> dict[int, tuple[EpisodeRounds, ...]]:
    """Return run pk -> its episodes without tainted ones. Two queries, ten at most if rounds were probed and uncached.

    `judge`: whose scores the outcomes have; probes then have them too.
    """
    wanted = list(runs)
    libraries = _read_libraries(wanted, as_of)
    probed = _read_probed(wanted, judge, as_of) if libraries else {}
    later = read_settled_after(wanted, as_of) if as_of else set()
    return {run.pk: tuple(_list_episodes(run, outcomes[run.pk], libraries, probed, later)) for run in wanted}


def find_measured(
    groups: Sequence[Sequence[Run]],
    outcomes: Mapping[int, Outcomes],
    judge: ChosenJudge | None = None,
    as_of: datetime | None = None,
    *,
    is_probed: bool = True,
) -> tuple[bool, bool]:
    """Return (a group has a round, a group with a round has all its libraries measured). `is_probed`: False where no
    round was probed. Then episodes measured only their own library, and one query for two of each is enough."""
    wanted = [run for group in groups for run in group]
    libraries = _read_libraries(wanted, as_of) if is_probed else _read_first_and_last(wanted, as_of)
    probed = _read_probed(wanted, judge, as_of) if libraries and is_probed else {}
    later = read_settled_after(wanted, as_of) if as_of else set()

    def has_round(run: Run) -> bool:
        each = outcomes[run.pk]
        return not libraries.keys().isdisjoint(each.episode[~each.tainted].tolist())

    def is_measured(run: Run) -> bool:
        episodes = _list_episodes(run, outcomes[run.pk], libraries, probed, later)
        return not any(each.unmeasured for each in episodes)

    learned = [group for group in groups if any(map(has_round, group))]
    return bool(learned), any(all(map(is_measured, group)) for group in learned)


def _read_first_and_last(runs: Sequence[Run], as_of: datetime | None) -> dict[int, tuple[int, int]]:
    """Return episode -> the libraries with the lowest and with the highest key after its rounds."""
    changed = _select_changes(runs).order_by()
    if as_of is not None:
        changed = changed.filter(decided_at__lte=as_of)
    rows = changed.values_list("episode_id").annotate(first=Min("after"), last=Max("after"))
    return {episode: (first, last) for episode, first, last in rows}


def _read_libraries(runs: Sequence[Run], as_of: datetime | None) -> dict[int, tuple[int, ...]]:
    """Return episode -> its library after each round."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for changes in KEPT.read_all(runs, _read_changes).values():
        for episode, after, decided_at in changes:
            if as_of is None or decided_at <= as_of:
                found[episode].append(after)
    return {episode: tuple(each) for episode, each in found.items()}


def _read_changes(runs: list[Run]) -> dict[int, tuple[Change, ...]]:
    found: dict[int, list[Change]] = {run.pk: [] for run in runs}
    rows = _select_changes(runs).order_by("episode_id", "number")
    for run, episode, after, at in rows.values_list("episode__run_id", "episode_id", "after_id", "decided_at"):
        found[run].append((episode, after, at))
    return {run: tuple(changes) for run, changes in found.items()}


def _select_changes(runs: Sequence[Run]) -> QuerySet[Decision]:
    """Select the decisions that made a round."""
    decisions = Decision.objects.filter(episode__run__in=[run.pk for run in runs], status=DecisionStatus.APPLIED)
    return decisions.exclude(after=F("before"))


def find_round_probes(runs: Iterable[Run], as_of: datetime | None = None) -> list[Probe]:
    """Return probes of these runs without reverts, of any tasks. One query."""
    found = Probe.objects.filter(
        origin__run__in=[run.pk for run in runs], reverted_digest="", run__experiment__deleted_at=None
    )
    if as_of is not None:
        found = found.filter(created_at__lte=as_of)
    return list(found.select_related("run").order_by("pk"))


def _read_probed(
    runs: Sequence[Run], judge: ChosenJudge | None, as_of: datetime | None
) -> dict[int, tuple[FrozenTrials, ...]]:
    probes = find_round_probes(runs, as_of)
    if not probes:
        return {}
    of_probes = [probe.run for probe in probes]
    outcomes = outcomes_of(of_probes)
    if judge is not None:
        outcomes = with_judgements(outcomes, find_passes(judge, of_probes, as_of), as_of)
    later = read_settled_after(of_probes, as_of) if as_of else set()
    found: defaultdict[int, list[FrozenTrials]] = defaultdict(list)
    for probe in probes:
        whole = outcomes[probe.run_id].without(later)
        if not whole.tainted.any():
            every = np.ones(len(whole), dtype=bool)
            found[probe.origin_id or 0].append(FrozenTrials.of(probe.run, probe.frozen_id, whole, every, later))
    return {episode: tuple(each) for episode, each in found.items()}


def _list_episodes(
    run: Run,
    outcomes: Outcomes,
    libraries: Mapping[int, tuple[int, ...]],
    probed: Mapping[int, tuple[FrozenTrials, ...]],
    later: Collection[int],
) -> Iterator[EpisodeRounds]:
    deployed = outcomes.covering((Phase.DEPLOYMENT,))  # after the seal
    if not deployed.any():  # the protocol has no deployment
        deployed = outcomes.covering((Phase.EVALUATION,))
    for episode in np.unique(outcomes.episode[~outcomes.tainted]).tolist():
        mask = deployed & (outcomes.episode == episode)
        given = set(outcomes.library[mask & outcomes.done].tolist())
        own = FrozenTrials.of(run, given.pop(), outcomes, mask, later) if len(given) == 1 else None
        # The control of a probe of a few tasks does not measure a round.
        tasks, probes = outcomes.task[mask], probed.get(episode, ())
        whole = tuple(each for each in probes if np.isin(tasks, each.whole.task).all())
        yield EpisodeRounds(episode, libraries.get(episode, ()), own, whole)


# --- the curve ----------------------------------------------------------------------------------------------------


def follow_rounds(
    replicates: Sequence[Sequence[EpisodeRounds]], start: Sequence[Outcomes], metric: TrialMetric
) -> list[RoundMean]:
    """Return means from the first round to the last of any episode, after those of `start` without a skill on the same
    tasks. Empty where nothing was learned or a library is not measured, or not judged."""
    last = max((len(each.libraries) for episodes in replicates for each in episodes), default=0)
    steps = []
    for number in range(1, last + 1):
        step = [means for episodes in replicates if (means := _measure(episodes, number, metric)) is not None]
        if len(step) < len(replicates):
            return []
        steps.append(step)
    known = list(chain.from_iterable(steps))
    if not known:
        return []
    tasks: Ints = reduce(np.intersect1d, [means.task for means in known])
    if not len(tasks):
        return []
    before = [means.take(np.isin(means.task, tasks)) for means in (metric.task_means(each) for each in start)]
    without = [each for each in before if len(each.task)]
    found = [RoundMean(0, without, metric)] if without else []
    every = [each for episodes in replicates for each in episodes]
    for number, step in enumerate(steps, start=1):
        ended = sum(len(each.libraries) < number for each in every)
        kept = [means.take(np.isin(means.task, tasks)) for means in step]
        found.append(RoundMean(number, kept, metric, len(every), ended))
    return found


def _measure(episodes: Sequence[EpisodeRounds], number: int, metric: TrialMetric) -> TaskMeans | None:
    """Return None where an episode has no finished trials with its library of that round, or these have no value."""
    parts: list[TaskMeans] = []
    for episode in episodes:
        trials = episode.measured_at(number)
        means = [metric.task_means(each) for each in trials]
        has_values = any(len(each.task) for each in means)
        if not trials or (not has_values and any(metric.mask(each).any() for each in trials)):
            return None
        parts += means
    return _pool(parts) if parts else None


def _pool(parts: Sequence[TaskMeans]) -> TaskMeans:
    """Pool each task once, over all samples of all parts."""
    task, cluster, family, value, samples = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("task", "cluster", "family", "value", "samples")
    )
    tasks, first, place = np.unique(task, return_index=True, return_inverse=True)
    counts = np.bincount(place, weights=samples, minlength=len(tasks))
    sums = np.bincount(place, weights=value * samples, minlength=len(tasks))
    return TaskMeans(tasks, cluster[first], family[first], sums / counts, counts)


def _find_interval(means: Sequence[float], single: TaskMeans, metric: TrialMetric) -> tuple[float, float] | None:
    """Return Student's interval over replicates; of a single run over its families, where the metric is a share."""
    if len(means) == 1:
        return family_interval(single) if metric.is_share else None
    if metric.is_share:
        return share_interval(means)
    found = mean_interval(np.array(means))
    return (max(0.0, found.low), min(100.0, found.high)) if found else None

"""Try whole libraries on all tasks that they deploy: each round's, or the last one without each of its skills in turn.

`benchapp.stats.learning.learning_curves` draws a curve from the rounds. The last one is the run's own deployment. The
others are ordinary probes, each with its own budget, which can be cancelled or continued separately.

A skill that many tasks read may still add nothing, so each is removed on purpose. The mean over libraries has an error,
because libraries (each learned on its own) are drawn at random; skills and tasks within one are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from benchapp.analysis.lineage.library_states import LibraryState, read_histories
from benchapp.experiments import probe_runs
from benchapp.experiments.foresight import Estimate, Past
from benchapp.experiments.plans import Arm
from benchapp.experiments.probe_results import CONTROL, read_results
from benchapp.experiments.work.operations import cancel
from benchapp.judges.judging_orders import JudgingWish, order_judging
from benchapp.models import Episode, Experiment, JudgingOrder, Probe, Run, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.writing.human_acts import NotPossible
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.inference.interval import mean_interval
from benchapp.stats.learning.learning_curves import EpisodeRounds, read_rounds
from benchapp.stats.metrics.tally import TrialTally
from runner.models import make_model

ROUNDS_REASON = "Learning curve"
MAX_LIBRARIES = 200  # of one order: each has its own estimate


@dataclass(frozen=True, slots=True)
class RunRounds:
    """How much of a run's libraries has been measured."""

    run: Run
    episodes: tuple[EpisodeRounds, ...]

    @property
    def libraries(self) -> int:
        return sum(len(set(each.libraries)) for each in self.episodes)

    @property
    def measured(self) -> int:
        return self.libraries - sum(len(each.unmeasured) for each in self.episodes)

    @property
    def most_rounds(self) -> int:
        return max((len(each.libraries) for each in self.episodes), default=0)

    @property
    def probed(self) -> TrialTally:
        """Count the trials of the probes."""
        return sum((trials.tally for each in self.episodes for trials in each.probed), TrialTally())

    @property
    def open(self) -> list[tuple[int, int]]:
        """Return (episode, round) of libraries without finished or coming trials. Empty for an open run, which may
        measure its last one itself."""
        if self.run.is_open:
            return []
        return [
            (each.episode, number)
            for each in self.episodes
            for number in each.unmeasured
            if not any(trials.is_coming for trials in each.frozen_at(number))
        ]

    @property
    def under_way(self) -> list[Run]:
        """Return probes with trials to come."""
        return [trials.run for each in self.episodes for trials in each.probed if trials.is_coming]

    @property
    def coming(self) -> int:
        return self.libraries - self.measured - len(self.open)


@dataclass(frozen=True, slots=True)
class RoundsPreview:
    """Probes that are ready to launch."""

    probes: tuple[probe_runs.ProbePreview, ...]

    @property
    def trials(self) -> int:
        return sum(each.trials for each in self.probes)

    @property
    def estimate(self) -> Estimate:
        return sum((each.estimate.whole for each in self.probes), Estimate())


def list_learning_runs(experiment: Experiment) -> list[RunRounds]:
    """Return the runs that took a library through a round. Probes learn nothing."""
    runs = [run for run in experiment.runs.select_related("experiment") if not run.is_probe]
    rounds = read_rounds(runs, outcomes_of(runs))
    found = (RunRounds(run, rounds[run.pk]) for run in runs)
    return [each for each in found if each.libraries]


def preview_rounds(runs: Iterable[RunRounds], *, times: int, max_usd: float | None = None) -> RoundsPreview:
    """Preview what would run, and what it would take, without writing. `times`: trials of each task with each library.
    `max_usd`: for all probes, divided by trials. Raise NotPossible if nothing is open, or too much; else as
    `probe_runs.ProbePreview`."""
    probe_runs.require_times(times)
    wanted = [(episode, probe_runs.AskedProbe(state.key)) for episode, state in _list_wanted(runs)]
    if not wanted:
        raise NotPossible("every round's library is measured or under way (expected one that is not)")
    return preview_probes(wanted, times=times, max_usd=max_usd)


def preview_probes(
    wanted: Sequence[tuple[Episode, probe_runs.AskedProbe]], *, times: int, max_usd: float | None = None
) -> RoundsPreview:
    """Preview probes of all deployed tasks. Raise NotPossible for too many, and as `probe_runs.ProbePreview`."""
    if len(wanted) > MAX_LIBRARIES:
        raise NotPossible(f"{len(wanted)} libraries (expected at most {MAX_LIBRARIES} at once: choose fewer runs)")
    episodes = {episode.pk: episode for episode, _ in wanted}
    tasks = {pk: probe_runs.list_deployed_tasks(episode) for pk, episode in episodes.items()}
    trials = times * sum(len(tasks[episode.pk]) for episode, _ in wanted)
    if trials > settings.MAX_TRIALS:
        message = f"expected at most {settings.MAX_TRIALS:,}, the setting MAX_TRIALS: choose fewer runs"
        raise NotPossible(f"{trials:,} trials ({message})")
    models = dict.fromkeys(filter(None, (episode.run.agent_model for episode, _ in wanted)))
    if max_usd and (unpriced := next((name for name in models if not make_model(name).priced), "")):
        raise NotPossible(f"{unpriced} reports no cost, so no amount in dollars can limit it (expected none)")
    found: list[probe_runs.ProbePreview] = []
    past: dict[Arm, Past] = {}
    for episode, each in wanted:
        mine = tasks[episode.pk]
        share = max_usd * times * len(mine) / trials if max_usd else None
        asked = replace(each, tasks=mine, times=times, max_usd=share)
        suite = found[0].prepared.suite if found else None  # all are from one experiment, so from one suite
        found.append(probe_runs.ProbePreview(episode, asked, suite=suite, past=past))
    return RoundsPreview(tuple(found))


def _list_wanted(runs: Iterable[RunRounds]) -> Iterator[tuple[Episode, LibraryState]]:
    wanted = [place for each in runs for place in each.open]
    libraries = {each.episode: each.libraries for run in runs for each in run.episodes}
    keys = dict.fromkeys(episode for episode, _ in wanted)
    related = ("run__experiment__suite", "environment", "library")
    episodes = Episode.objects.select_related(*related).in_bulk(keys)
    histories = read_histories(list(episodes.values()))
    for episode, number in wanted:
        library, states = libraries[episode][number - 1], histories[episode].states
        made = next(state for state in states if state.decision and state.decision.after_id == library)
        yield episodes[episode], made


def launch_rounds(preview: RoundsPreview, *, reason: str, by: User | None = None, judged: bool = False) -> list[Probe]:
    """Launch all or none. `judged`: by the judges of the runs they come from, within the same limits.

    Raise NotPossible without a reason, or if another order for one of these libraries came first.
    """
    with transaction.atomic():
        runs = {each.episode.run_id for each in preview.probes}
        list(Run.objects.select_for_update().filter(pk__in=runs).order_by("pk"))  # another order waits here
        _refuse_ordered(preview.probes)
        probes = [probe_runs.launch_probe(each, reason=reason, by=by) for each in preview.probes]
        if judged:
            orders: dict[int, list[JudgingOrder]] = {}
            for order in JudgingOrder.objects.filter(run__episodes__probes__in=probes).distinct():
                orders.setdefault(order.run_id, []).append(order)
            for probe in probes:
                for order in orders.get(probe.origin.run_id, ()) if probe.origin else ():
                    wish = JudgingWish(order.model, order.prompts, tuple(order.metrics), order.max_calls, order.max_usd)
                    order_judging([probe.run], wish, by)
    return probes


def _refuse_ordered(probes: Sequence[probe_runs.ProbePreview]) -> None:
    """Refuse an order for what was just ordered, as by a button pressed twice, which would try everything twice."""
    began = {(each.episode.pk, each.state.snapshot and each.state.snapshot.pk, each.skill) for each in probes}
    coming = Probe.objects.filter(origin__in={episode for episode, *_ in began}, run__experiment__deleted_at=None)
    coming = coming.filter(Q(reverted_digest="") | ~Q(skill=""))
    coming = coming.exclude(run__status__in=[Run.Status.DONE, Run.Status.CANCELLED])
    if any(each in began for each in coming.values_list("origin_id", "frozen_id", "skill")):
        raise NotPossible("some of these libraries are being measured since the estimate (expected another estimate)")


def cancel_rounds(runs: Iterable[RunRounds], *, reason: str, by: User | None = None) -> int:
    """Cancel every whole probe of these runs that is under way; its records stay. Return how many. Raise NotPossible if
    there is none or the reason is missing."""
    if not reason.strip():
        raise NotPossible("cancelling needs a reason, which is kept with the act")
    stopped = 0
    for probe in (probe for each in runs for probe in each.under_way):
        with suppress(NotPossible):  # it ended since then
            stopped += cancel(probe, reason=reason, by=by) > 0
    if not stopped:
        raise NotPossible("no probe of a whole library is under way (expected one)")
    return stopped


def list_judges(runs: Iterable[Run]) -> list[str]:
    """Return the models that were ordered to judge these runs."""
    orders = JudgingOrder.objects.filter(run__in=[run.pk for run in runs])
    return list(orders.order_by("model").values_list("model", flat=True).distinct())


SKILLS_REASON = "Leave one skill out"


class LeftOut(Shaped):
    """What a skill added, as shares, -1..1: passed with the whole library minus passed without the skill,
    over tasks scored both ways. `skill`: empty for the mean over all `skills` of a library."""

    json_shape = JsonShape("condition skill? libraries skills delta interval")

    def __init__(self, condition: str, skill: str, libraries: dict[int, list[float]], skills: int) -> None:
        self.condition, self.skill, self.skills = condition, skill, skills
        means = np.array([fmean(deltas) for deltas in libraries.values()])
        self.libraries = len(means)
        self.delta = float(means.mean())
        found = mean_interval(means)  # Student's t over libraries; None below two
        self.interval = replace(found, low=max(-1.0, found.low), high=min(1.0, found.high)) if found else None


def preview_skills(runs: Iterable[Run], *, times: int, max_usd: float | None = None) -> RoundsPreview:
    """Preview a probe without each skill, and one of the whole library, unless they exist. Writes nothing.

    Raise NotPossible if no library has a skill or all are measured; otherwise as `round_probes.preview_rounds`.
    """
    probe_runs.require_times(times)
    related = ("run__experiment__suite", "environment", "library")
    ended = [run.pk for run in runs if not run.is_open]
    episodes = list(Episode.objects.filter(run__in=ended).select_related(*related).order_by("run_id", "ordinal"))
    histories = read_histories(episodes)
    known = Probe.objects.filter(origin__in=episodes, run__experiment__deleted_at=None)
    known = known.exclude(run__status=Run.Status.CANCELLED).filter(Q(reverted_digest="") | ~Q(skill=""))
    tried = set(known.values_list("origin_id", "frozen_id", "skill"))
    wanted: list[tuple[Episode, probe_runs.AskedProbe]] = []
    for episode in episodes:
        state = histories[episode.pk].states[-1]
        if state.snapshot is None or not (skills := probe_runs.list_skills(state.snapshot.read())):
            continue
        for skill in ("", *skills):
            if (episode.pk, state.snapshot.pk, skill) not in tried:
                wanted.append((episode, probe_runs.AskedProbe(state.key, skill=skill)))
    if not wanted:
        raise NotPossible("no skill is left to leave out (expected a run that ended with one that is not measured)")
    return preview_probes(wanted, times=times, max_usd=max_usd)


def read_left_out(runs: Sequence[Run]) -> list[LeftOut]:
    """Return, by condition, the mean over its libraries, then each skill by name. Only ended probes count, and only
    with a probe of the whole library. One query if nothing was probed."""
    about = Probe.objects.not_deleted().filter(origin__run__in=[run.pk for run in runs]).exclude(skill="")
    found: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    skills: dict[str, set[str]] = defaultdict(set)
    for result in read_results(about):
        probe, origin = result.probe, result.probe.origin
        both = [line for line in result.lines if line.has_pair(CONTROL)]
        if both and result.is_over and origin is not None:
            rates = [(line.sides[CONTROL].rate.value or 0.0, line.own.rate.value or 0.0) for line in both]
            delta = fmean(whole - without for whole, without in rates)  # each task counts once
            skills[origin.run.condition].add(probe.skill)
            for skill in ("", probe.skill):  # of all skills together, and of this one
                found[origin.run.condition, skill][origin.pk].append(delta)
    return [
        LeftOut(condition, skill, found[condition, skill], 1 if skill else len(names))
        for condition, names in skills.items()
        for skill in ("", *sorted(names))
    ]

"""Leave one skill out: try the last library of each episode without each of its skills in turn, and unchanged.

A skill that many tasks read may still add nothing. Here each is removed on purpose. The mean over libraries has an
error, because libraries (each learned on its own) are drawn at random; skills and tasks within one are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from django.db.models import Q

from benchapp.analysis.lineage.library_states import read_histories
from benchapp.experiments.probe_results import CONTROL, ProbeResult, read_results
from benchapp.experiments.probe_runs import AskedProbe, list_skills, require_times
from benchapp.experiments.round_probes import RoundsPreview, preview_probes
from benchapp.models import Episode, Probe, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.writing.human_acts import NotPossible
from benchapp.stats.inference.interval import Interval, mean_interval

REASON = "Leave one skill out"


@dataclass(frozen=True, slots=True)
class LeftOut(Shaped):
    """What a skill added, as shares, -1..1: passed with the whole library minus passed without the skill, over tasks scored both
    ways. skill: empty for the mean over all skills of a library. interval: Student's t over libraries; None below two."""

    condition: str
    skill: str
    libraries: int
    skills: int
    delta: float
    interval: Interval | None

    json_shape = JsonShape("condition", "skill?", "libraries", "skills", "delta", "interval")


def preview_skills(runs: Iterable[Run], *, times: int, max_usd: float | None = None) -> RoundsPreview:
    """Preview a probe without each skill, and one of the whole library, unless they exist. Writes nothing.

    Raise NotPossible if no library has a skill or all are measured; otherwise as `round_probes.preview_rounds`.
    """
    require_times(times)
    related = ("run__experiment__suite", "environment", "library")
    ended = [run.pk for run in runs if not run.is_open]
    episodes = list(Episode.objects.filter(run__in=ended).select_related(*related).order_by("run_id", "ordinal"))
    histories = read_histories(episodes)
    known = Probe.objects.filter(origin__in=episodes, run__experiment__deleted_at=None)
    known = known.exclude(run__status=Run.Status.CANCELLED).filter(Q(reverted_digest="") | ~Q(skill=""))
    tried = set(known.values_list("origin_id", "frozen_id", "skill"))
    wanted: list[tuple[Episode, AskedProbe]] = []
    for episode in episodes:
        state = histories[episode.pk].states[-1]
        if state.snapshot is None or not (skills := list_skills(state.snapshot.read())):
            continue
        for skill in ("", *skills):
            if (episode.pk, state.snapshot.pk, skill) not in tried:
                wanted.append((episode, AskedProbe(state.key, skill=skill)))
    if not wanted:
        raise NotPossible("no skill is left to leave out (expected a run that ended with one that is not measured)")
    return preview_probes(wanted, times=times, max_usd=max_usd)


def read_left_out(runs: Sequence[Run]) -> list[LeftOut]:
    """Return, by condition, the mean over its libraries, then each skill by name. Only ended probes count, and only
    with a probe of the whole library. One query if nothing was probed."""
    about = Probe.objects.standing().filter(origin__run__in=[run.pk for run in runs]).exclude(skill="")
    found: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    skills: dict[str, set[str]] = defaultdict(set)
    for result in read_results(about):
        delta, probe, origin = _measure(result), result.probe, result.probe.origin
        if delta is not None and origin is not None:
            skills[origin.run.condition].add(probe.skill)
            for skill in ("", probe.skill):  # of all skills together, and of this one
                found[origin.run.condition, skill][origin.pk].append(delta)
    return [
        _estimate(condition, skill, found[condition, skill], 1 if skill else len(names))
        for condition, names in skills.items()
        for skill in ("", *sorted(names))
    ]


def _measure(result: ProbeResult) -> float | None:
    """Return the mean over tasks, each counted once."""
    both = [line for line in result.lines if line.has_pair(CONTROL)]
    if not both or not result.is_over:
        return None
    sides = [(line.sides[CONTROL].rate.value or 0.0, line.own.rate.value or 0.0) for line in both]
    return fmean(whole - without for whole, without in sides)


def _estimate(condition: str, skill: str, libraries: dict[int, list[float]], skills: int) -> LeftOut:
    means = np.array([fmean(deltas) for deltas in libraries.values()])
    found = mean_interval(means)
    interval = replace(found, low=max(-1.0, found.low), high=min(1.0, found.high)) if found else None
    return LeftOut(condition, skill, len(means), skills, float(means.mean()), interval)

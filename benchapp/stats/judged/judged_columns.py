"""A judge's scores next to the trials of runs: the columns that judged metrics average.

A comparison shows one judge, because scores of two judges differ by the judges. The runs decide which: the judge of
most of them; among several a real one before a scripted one, then the first pass before its repeats, then the latest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from statistics import fmean, variance
from typing import cast

import numpy as np

from benchapp.models import Attempt, Judging, Run
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import Floats
from benchapp.stats.judged.judged_rows import LEVEL_1, LEVEL_2, JudgedRow, read_judged_rows
from benchapp.stats.metrics.outcomes import JUDGED, Mask, Outcomes

COLUMNS = tuple(f"{JUDGED}{measure}" for measure in (*LEVEL_1, *LEVEL_2))
PLACES = {name: place for place, name in enumerate(COLUMNS)}
OF_LIBRARIES = frozenset(COLUMNS[: len(LEVEL_1)])


@dataclass(frozen=True, slots=True)
class ChosenJudge(Shaped):
    """The judge whose scores are shown, and its passes over the runs. `other_judges`: how many more judged them."""

    model: str
    prompts: str
    repeat: int
    passes: tuple[Judging, ...]
    other_judges: int = 0
    retests: Mapping[str, float] = field(default_factory=dict)  # column -> variance, where it was asked again

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return join_stand_ins(self.passes)

    @property
    def is_scripted(self) -> bool:
        return any(each.scripted for each in self.passes)

    def say(self, judged: int, runs: int) -> str:
        """Return one sentence, for every place that shows its scores. `judged` and `runs`: of the runs shown."""
        name = f"{self.model} (scripted: its scores say nothing)" if self.is_scripted else self.model
        which = f", prompts {self.prompts}" + (f", pass {self.repeat}" if self.repeat > 1 else "")
        others = f" {self.other_judges} more judged them too." if self.other_judges else ""
        again = ""
        if self.retests:
            again = f" Asked again it differs from itself by {fmean(self.retests.values()) ** 0.5:.1f} (SD, of 100); no interval says less."
        return f"Judged by {name}{which}: {judged} of {runs} run{'' if runs == 1 else 's'}.{others}{again}"

    json_shape = JsonShape("model", "prompts", "repeat", "scripted=is_scripted", "other_judges")


def choose_judge(runs: Iterable[Run], as_of: datetime | None) -> ChosenJudge | None:
    """Return the judge to show, None where nobody judged any of these runs. One query."""
    judges: dict[tuple[str, str, str, int], list[Judging]] = defaultdict(list)
    for judging in _list_passes([run.pk for run in runs], as_of):
        judges[judging.model, judging.model_version, judging.prompt_version, judging.repeat].append(judging)
    if not judges:
        return None

    def rank(passes: Sequence[Judging]) -> tuple[int, bool, int, datetime]:
        return len(passes), not passes[0].scripted, -passes[0].repeat, max(each.started_at for each in passes)

    passes = max(judges.values(), key=rank)
    first = passes[0]
    return ChosenJudge(first.model, first.prompt_version, first.repeat, tuple(passes), len(judges) - 1)


def read_retests(judge: ChosenJudge, as_of: datetime | None) -> ChosenJudge:
    """Add how much its scores of one thing vary from pass to pass (n - 1, mean over what was asked again). One query,
    and another where anything was."""
    passes = _list_passes([each.run_id for each in judge.passes], as_of, judge)
    if len({each.repeat for each in passes}) < 2:
        return judge
    rows = read_judged_rows(passes, as_of)
    values: dict[str, dict[object, list[float]]] = defaultdict(lambda: defaultdict(list))
    for judging in passes:
        for row in rows[judging.pk]:
            values[f"{JUDGED}{row.measure}"][judging.run_id, row.unit].append(row.value)
    several = {name: [each for each in units.values() if len(each) > 1] for name, units in values.items()}
    return replace(judge, retests={name: fmean(map(variance, found)) for name, found in several.items() if found})


def find_passes(judge: ChosenJudge, runs: Iterable[Run], as_of: datetime | None) -> ChosenJudge:
    """Return the same judge with its passes over these runs instead. One query."""
    found = _list_passes([run.pk for run in runs], as_of, judge)
    return replace(judge, passes=tuple(each for each in found if each.repeat == judge.repeat))


def _list_passes(runs: Collection[int], as_of: datetime | None, judge: ChosenJudge | None = None) -> list[Judging]:
    """List the passes over these runs, of all judges or of one, with repeats. One query."""
    found = Judging.objects.filter(run__in=runs).order_by("pk")
    if judge is not None:
        first = judge.passes[0]
        versions = {"model_version": first.model_version, "prompt_version": first.prompt_version}
        found = found.filter(model=first.model, **versions)
    return list(found if as_of is None else found.filter(started_at__lte=as_of))


@dataclass(frozen=True, slots=True, eq=False)
class JudgedOutcomes(Outcomes):
    """The trials of a judged run. `scores` [n, COLUMNS]: 0..100, NaN where the judge gave none."""

    scores: Floats

    def column(self, name: str) -> Floats:
        place = PLACES.get(name)
        return Outcomes.column(self, name) if place is None else self.scores[:, place]

    def judgeable(self, name: str) -> Mask:
        """Mark [n]: for library scores the trials with a skill in their library."""
        if name not in OF_LIBRARIES:
            return np.ones(len(self), dtype=bool)
        return np.asarray((self.library >= 0) & (self.skills_mounted != 0))

    def without(self, trials: Collection[int]) -> Outcomes:
        blank = cast(JudgedOutcomes, Outcomes.without(self, trials))
        gone = np.isin(blank.trial, list(trials))
        return with_scores(blank, np.where(gone[:, np.newaxis], np.nan, blank.scores))


def with_scores(outcomes: Outcomes, scores: Floats) -> JudgedOutcomes:
    columns = {field.name: getattr(outcomes, field.name) for field in fields(Outcomes)}
    return JudgedOutcomes(**columns, scores=scores)


def with_judgements(
    outcomes: Mapping[int, Outcomes], judge: ChosenJudge | None, as_of: datetime | None
) -> dict[int, Outcomes]:
    """Return run pk -> its trials, with this judge's scores where it judged the run. Two queries, or none."""
    found = dict(outcomes)
    if judge is None:
        return found
    rows = read_judged_rows(judge.passes, as_of)
    attempts = {row.unit[3] for each in rows.values() for row in each} - {None}
    trials = dict(Attempt.objects.filter(pk__in=attempts, counts=True).values_list("pk", "trial_id"))
    for judging in judge.passes:
        own = found[judging.run_id]
        found[judging.run_id] = with_scores(own, _score_trials(own, rows[judging.pk], trials))
    return found


def _score_trials(outcomes: Outcomes, rows: Iterable[JudgedRow], trials: Mapping[int, int]) -> Floats:
    """Return [n, COLUMNS]: of a library the mean over its skills, for each trial of the task that received it. `trials`:
    attempt -> trial, for attempts that count."""
    libraries: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    attempts: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        place = PLACES.get(f"{JUDGED}{row.measure}")
        task, library, _, attempt = row.unit
        if place is None:
            continue
        if attempt is not None and attempt in trials:
            attempts[trials[attempt]][place].append(row.value)
        elif library is not None:
            libraries[task, library][place].append(row.value)
    scores = np.full((len(outcomes), len(COLUMNS)), np.nan)
    places = zip(outcomes.trial.tolist(), outcomes.task.tolist(), outcomes.library.tolist(), strict=True)
    for number, (trial, task, library) in enumerate(places):
        for place, values in (*attempts.get(trial, {}).items(), *libraries.get((task, library), {}).items()):
            scores[number, place] = fmean(values)
    return scores

"""How sure the differences of a comparison are, for these tasks or tasks like these, and over which trials and
tasks. And which family a skill was written after, and which family's tasks read it: do lessons transfer?

A skill counts for the family just before its first appearance; the initial contents of a library have no author here.
Trials that read a skill differ from others before they read it. So a difference to the baseline on the same tasks is
descriptive, and nothing tests it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

import numpy as np

from benchapp.models import Decision, Family, Run, SkillUse, Task
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.columns import MAX_NAMED
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.hypotheses import judge_difference
from benchapp.stats.inference.difference import Difference, SolvedCost, compare, divide_by_passes
from benchapp.stats.inference.interval import ZERO, Floats, Interval
from benchapp.stats.inference.model import ClaimTest
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.learning.funnel import read_skills_held
from benchapp.stats.learning.reuse import READ
from benchapp.stats.metrics.metric import FIRST_TRIES, MetricUnit, TrialMetric
from benchapp.stats.planning import measure_pairs
from runner.base.text import plural

SPENT = ((MetricUnit.USD, "cost_usd"), (MetricUnit.TOKENS, "total_tokens"))
ANY_FIRST_TRY = TrialMetric("first-try", "first try", "passed at the first try", FIRST_TRIES)
FEWEST_FAMILIES = 3
FEWEST_RUNS = 4  # with their results a task can agree


class GroupCertainty(Shaped):
    """One group against its baseline. difference: for these tasks. other_tasks: Student's interval of the average
    difference over families like these `families`; never narrower than for these tasks. read: on tasks whose trials all
    read a skill; None where none did, or all did."""

    json_shape = JsonShape("label=group.label difference families other_tasks? read?")

    def __init__(self, group: Group, difference: Difference, paired: Paired, read: Difference | None) -> None:
        self.group, self.difference, self.read = group, difference, read
        family = np.unique(np.where(paired.family >= 0, paired.family, -2 - paired.task), return_inverse=True)[1]
        self.families = count = int(family.max()) + 1
        self.other_tasks = None
        if count >= FEWEST_FAMILIES and difference.test:
            added = np.bincount(family, weights=paired.delta * paired.weight) * count
            anew = ClaimTest(difference.delta, float(added.std(ddof=1)) / count**0.5, count - 1)
            half = max(each.half_width(difference.comparisons) for each in (anew, difference.test))
            bound = difference.bound or np.inf
            low, high = max(-bound, difference.delta - half), min(bound, difference.delta + half)
            self.other_tasks = Interval(low, high, method="t over families")


@dataclass(frozen=True, slots=True)
class GroupCost(Shaped):
    """What agents spent in the trials of one group that the metric covers. Author calls are not in it."""

    group: Group
    unit: MetricUnit
    cost: SolvedCost

    json_shape = JsonShape("label=group.label unit cost")


@dataclass(frozen=True, slots=True)
class Item(Shaped):
    """One task in all runs. share, baseline: of passed trials in all conditions and in the baseline, 0..1. gain, loss:
    largest difference of a condition above and below the baseline. agreement: correlation over runs with the others."""

    task: Task
    share: float
    baseline: float | None
    gain: float
    loss: float
    agreement: float | None

    json_shape = JsonShape("task=task.key share baseline? gain loss agreement?")

    @property
    def never_moves(self) -> bool:
        """Did every trial pass, or none? Then no condition can be better here."""
        return self.share <= ZERO or self.share >= 1 - ZERO


class Certainty(Shaped):
    """measured: the source of the spread of shares; None where nothing is compared. factor: how much more whole runs
    vary than their cells alone predict."""

    json_shape = JsonShape("measured factor groups transfer items")

    def __init__(self, comparison: GroupComparison, metric: TrialMetric) -> None:
        self.groups: list[GroupCertainty] = []
        alike: dict[object, list[Paired]] = {}
        for group in arrange(comparison.groups.all):
            baseline = comparison.groups.baseline_of(group)
            if baseline is None:
                continue
            difference = judge_difference(comparison, group, metric)
            paired = pair(*comparison.sides(group, baseline, metric), by_family=metric.macro)
            if difference is None or paired is None:
                continue
            alike.setdefault((baseline.identity, paired.replicates, paired.clusters), []).append(paired)
            read = _read(comparison, group, baseline, metric)
            self.groups.append(GroupCertainty(group, difference, paired, read))
        factors = [each.difference.factor.phi for each in self.groups if each.difference.factor]
        self.measured = measure_pairs(max(alike.values(), key=len)) if alike and metric.is_share else None
        self.factor = float(np.mean(factors)) if factors else None
        self.transfer = _read_transfer(comparison) if metric.is_of_verdicts else None
        self.items = _list_items(comparison, metric) if metric.is_share and self.groups else []

    @property
    def answer(self) -> str:
        """Say how many of the differences exclude zero, by what they are claimed about."""
        known = [
            each.difference.rerun_interval or each.difference.interval for each in self.groups if each.difference.rerun
        ]
        intervals = {
            "for these tasks": [each.difference.interval for each in self.groups],
            "for tasks like these": [each.other_tasks for each in self.groups],
            **({"if rerun": known} if known else {}),
        }
        counts = [sum(bool(each and each.excludes_zero) for each in found) for found in intervals.values()]
        first, *others = (f"{count} {of}" for count, of in zip(counts, intervals, strict=True))
        which = plural(len(self.groups), "difference")
        return f"Sure of the direction, of {which}: {', '.join([first, *others])}."

    @property
    def moving(self) -> int:
        return sum(not item.never_moves for item in self.items)


def assess(comparison: GroupComparison, metric: TrialMetric) -> Certainty:
    """Assess a share, with two queries for the names of tasks. Cached with the comparison."""
    return comparison.once(("certainty", metric.key), lambda: Certainty(comparison, metric))


def _read(comparison: GroupComparison, group: Group, baseline: Group, metric: TrialMetric) -> Difference | None:
    """Compare only the tasks whose trials read a skill in every replicate; None where all did, or none.
    Not a random subset."""
    covered = [metric.select_covered(outcomes) for outcomes in comparison.of_group(group)]
    used = [outcomes.column("used") == 1 for outcomes in covered]
    if all(each.all() for each in used):
        return None
    own = [metric.task_means(outcomes.where(mask)) for outcomes, mask in zip(covered, used, strict=True)]
    paired = pair(own, comparison.sides(group, baseline, metric)[1], by_family=metric.macro)
    return compare(paired, is_share=metric.is_share) if paired else None


def list_costs(comparison: GroupComparison, metric: TrialMetric) -> list[GroupCost]:
    """List a verdict metric's costs: in USD if every trial of all groups has a cost, in tokens if all have those."""
    if not metric.is_of_verdicts:
        return []
    groups = arrange(comparison.groups.all)
    for unit, column in SPENT:
        spent = [[metric.means_of(column, outcomes) for outcomes in comparison.of_group(group)] for group in groups]
        if any(each.missing for runs in spent for each in runs):
            continue
        costs = []
        for group, own in zip(groups, spent, strict=True):
            passed = [metric.means_of("success", outcomes) for outcomes in comparison.of_group(group)]
            if cost := divide_by_passes(own, passed, by_family=metric.macro):
                costs.append(GroupCost(group, unit, cost))
        if costs:
            return costs
    return []


def _read_transfer(comparison: GroupComparison) -> TransferTable | None:
    """Count every phase of all runs but the baseline's,
    and compare with the baseline's first tries at the same tasks."""
    baselines = {baseline for _, baseline in comparison.groups.pairs}
    runs = [run for group in comparison.groups.all if group not in baselines for run in group.runs]
    means: dict[int, list[float]] = defaultdict(list)
    for outcomes in (each for group in baselines for each in comparison.of_group(group)):
        found = ANY_FIRST_TRY.task_means(outcomes)
        for task, value in zip(found.task.tolist(), found.value.tolist(), strict=True):
            means[task].append(value)
    return read_transfer(runs, {task: fmean(values) for task, values in means.items()})


def _list_items(comparison: GroupComparison, metric: TrialMetric) -> list[Item]:
    """List the tasks, the hardest first."""
    groups = comparison.groups.all
    means = [[metric.task_means(outcomes) for outcomes in comparison.of_group(group)] for group in groups]
    tasks = np.unique(np.concatenate([each.task for runs in means for each in runs]))
    values = np.full((sum(map(len, means)), len(tasks)), np.nan)
    for row, each in zip(values, (each for runs in means for each in runs), strict=True):
        row[np.searchsorted(tasks, each.task)] = each.value
    ends = np.cumsum(list(map(len, means)))[:-1]
    of_groups = np.stack([_mean(rows) for rows in np.split(values, ends)])  # [groups, tasks]
    is_baseline = np.isin(range(len(groups)), [groups.index(baseline) for _, baseline in comparison.groups.pairs])
    baseline = _mean(of_groups[is_baseline])
    apart = np.nan_to_num(of_groups[~is_baseline] - baseline)
    gain, loss = apart.max(axis=0, initial=0.0), apart.min(axis=0, initial=0.0)
    named: dict[int, Task] = {}
    for start in range(0, len(tasks), MAX_NAMED):
        named |= Task.objects.in_bulk(tasks[start : start + MAX_NAMED].tolist())
    columns = (_mean(values), baseline, gain, loss, _agree(values))
    items = []
    rows = zip(tasks.tolist(), *(column.tolist() for column in columns), strict=True)
    for task, share, of_baseline, most, least, agreement in rows:
        known = [None if np.isnan(each) else each for each in (of_baseline, agreement)]
        items.append(Item(named[task], share, known[0], most, least, known[1]))
    return sorted(items, key=lambda item: (item.share, item.task.key))


def _mean(values: Floats) -> Floats:
    """Average rows [n, tasks] without NaN: [tasks], NaN where none is left."""
    count = (~np.isnan(values)).sum(axis=0)
    mean = np.divide(np.nansum(values, axis=0), count, out=np.full(values.shape[1], np.nan), where=count > 0)
    return np.asarray(mean)


def _agree(values: Floats) -> Floats:
    """Correlate each task over runs with the mean of the others: values [runs, tasks] -> [tasks]. NaN where either does
    not vary, or in fewer than FEWEST_RUNS."""
    known = ~np.isnan(values)
    others = known.sum(axis=1, keepdims=True) - known
    both = known & (others > 0)
    rest = np.nansum(values, axis=1, keepdims=True) - np.nan_to_num(values)
    rest = np.divide(rest, others, out=np.full(values.shape, np.nan), where=both)
    own = np.where(both, values, np.nan)
    own, rest = own - _mean(own), rest - _mean(rest)
    spread = np.sqrt(np.nansum(own**2, axis=0) * np.nansum(rest**2, axis=0))
    enough = ((~np.isnan(own)).sum(axis=0) >= FEWEST_RUNS) & (spread > ZERO)
    return np.asarray(np.divide(np.nansum(own * rest, axis=0), spread, out=np.full(len(spread), np.nan), where=enough))


class Direction(StrEnum):
    """The family of the task that read a skill, compared with the family that wrote it."""

    OWN = "own"
    FORWARD = "forward"  # learned from later, or not at all
    BACKWARD = "backward"  # learned from earlier, and tried again


@dataclass(frozen=True, slots=True)
class Reading:
    """One trial that read skills of one family. success: of the trial."""

    writer: int
    reader: int
    direction: Direction
    trial: int
    task: int
    success: bool


class Transfer(Shaped):
    """Trials with a verdict in one direction that read a skill, or those of one family that read one of another. share:
    of their tasks' means; other: of the baseline on the same tasks, None where it has none."""

    json_shape = JsonShape("trials tasks share other")

    def __init__(self, readings: Iterable[Reading], baseline: Mapping[int, float]) -> None:
        trials = {each.trial: each for each in readings}  # one that read two skills of the family counts once
        by_task = defaultdict(list)
        for each in trials.values():
            by_task[each.task].append(each.success)
        known = [task for task in by_task if task in baseline]
        of = known or list(by_task)
        self.trials, self.tasks = len(trials), len(of)
        self.share = fmean(fmean(by_task[task]) for task in of)
        self.other = fmean(baseline[task] for task in known) if known else None


@dataclass(frozen=True, slots=True)
class TransferCell(Shaped):
    """`writer` and `reader` as families of the suite; `direction` of their readings, the first where runs differ."""

    writer: Family
    reader: Family
    direction: Direction
    found: Transfer

    json_shape = JsonShape("writer=writer.key reader=reader.key direction *found")


@dataclass(frozen=True, slots=True)
class TransferTable(Shaped):
    """directions: only those with a trial. cells: in the order of families in the suite."""

    directions: Mapping[str, Transfer]
    cells: tuple[TransferCell, ...]


def read_transfer(runs: Iterable[Run], baseline: Mapping[int, float]) -> TransferTable | None:
    """Read the table. `baseline`: task -> mean share passed there, 0..1. None where no trial read a skill that was
    written in its run. Four queries."""
    readings = list(_list_readings([run.pk for run in runs]))
    if not readings:
        return None
    families = Family.objects.in_bulk({key for each in readings for key in (each.writer, each.reader)})
    directions, pairs = defaultdict(list), defaultdict(list)
    for each in readings:
        directions[each.direction].append(each)
        pairs[each.writer, each.reader].append(each)
    cells = [
        TransferCell(families[writer], families[reader], found[0].direction, Transfer(found, baseline))
        for (writer, reader), found in pairs.items()
    ]
    cells.sort(key=lambda cell: (cell.writer.ordinal, cell.writer.key, cell.reader.ordinal, cell.reader.key))
    return TransferTable(
        {each.value: Transfer(directions[each], baseline) for each in Direction if directions[each]}, tuple(cells)
    )


def _list_readings(runs: list[int]) -> Iterator[Reading]:
    writers, places = _read_writers(runs)
    uses = SkillUse.objects.filter(READ, attempt__counts=True, attempt__trial__episode__run__in=runs)
    trial = "attempt__trial__"
    reported = uses.filter(
        attempt__trial__episode__is_tainted=False,
        attempt__trial__success__isnull=False,
        attempt__trial__task__family__isnull=False,
    ).order_by()
    facts = ("episode_id", "pk", "task_id", "task__family_id", "success")
    for episode, pk, task, reader, success, skill in reported.values_list(
        *(trial + fact for fact in facts), "skill"
    ).distinct():
        if (writer := writers.get((episode, skill))) is not None:
            place = places[episode]
            if writer == reader:
                direction = Direction.OWN
            elif reader in place and place[reader] < place[writer]:
                direction = Direction.BACKWARD
            else:
                direction = Direction.FORWARD
            yield Reading(writer, reader, direction, pk, task, success)


def _read_writers(runs: list[int]) -> tuple[dict[tuple[int, str], int], dict[int, dict[int, int]]]:
    """Return (episode, skill) -> the family that wrote it; episode -> family -> number of its first decision."""
    decisions = Decision.objects.filter(episode__run__in=runs).order_by("episode_id", "number")
    rows = list(decisions.values_list("episode_id", "family_id", "number", "before_id", "after_id"))
    held = read_skills_held({snapshot for *_, before, after in rows if before != after for snapshot in (before, after)})
    writers: dict[tuple[int, str], int] = {}
    places: dict[int, dict[int, int]] = defaultdict(dict)
    for episode, family, number, before, after in rows:
        places[episode].setdefault(family, number)
        for skill in held.get(after, set()) - held.get(before, set()):
            writers.setdefault((episode, skill), family)
    return writers, places

"""How much a run's numbers vary: between samples, between replicates, and when the same judge is asked again.

Source: SkillLearnBench, appendix E and Table 7, which rerun the seed instance three times. Here a value is the run's
own (mean over tasks) of each sample, or of each replicate, and the deviation is that of a sample (n - 1). A retest
(section L.3) pairs the rows of one unit across two passes. The paper pairs the means of four executability and of six
safety scores, on the scale 1..5; here values are 0..100, so a mean absolute error here is 25 times the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from benchapp.models import Judging, Run
from benchapp.stats.agreement import spearman
from benchapp.stats.judged import JudgedRow, by_measure, mean_over_tasks


@dataclass(frozen=True, slots=True)
class Spread:
    """`sd` None: a single value has no spread."""

    n: int
    mean: float
    sd: float | None


def over_samples(rows: Sequence[JudgedRow]) -> dict[str, Spread]:
    """Return measure -> spread, of measures about attempts: a library has no samples."""
    found = {}
    for measure, mine in by_measure(rows).items():
        samples = sorted({row.sample for row in mine if row.sample is not None})
        means = [mean_over_tasks(row for row in mine if row.sample == sample) for sample in samples]
        values = [mean.value for mean in means if mean is not None]
        if values:
            found[measure] = spread(values)
    return found


def over_replicates(passes: Mapping[int, Sequence[JudgedRow]]) -> dict[str, Spread]:
    """Return measure -> spread over the replicates that have it. Input: judging pk of each replicate -> its rows."""
    values: dict[str, list[float]] = {}
    for rows in passes.values():
        for measure, mine in by_measure(rows).items():
            mean = mean_over_tasks(mine)
            if mean is not None:
                values.setdefault(measure, []).append(mean.value)
    return {measure: spread(found) for measure, found in values.items()}


def spread(values: Sequence[float]) -> Spread:
    return Spread(len(values), fmean(values), stdev(values) if len(values) > 1 else None)


def replicates_of(judging: Judging) -> list[Judging]:
    """Return the same judge's passes over the runs that differ only in the replicate, including this one."""
    run = judging.run
    alike = ("condition", "harness", "agent_model", "author_model", "author_agent")
    runs = Run.objects.filter(experiment=run.experiment_id, **{name: getattr(run, name) for name in alike})
    found = Judging.objects.filter(
        run__in=runs,
        model=judging.model,
        model_version=judging.model_version,
        prompt_version=judging.prompt_version,
        repeat=judging.repeat,
    )
    return list(found.order_by("run__replicate", "run_id"))


@dataclass(frozen=True, slots=True)
class Retest:
    """`rho` None: fewer than two pairs, or a side that never varies. `alone`: units that only one of the passes has."""

    measure: str
    n: int
    rho: float | None
    mae: float | None
    alone: int


def retest(first: Iterable[JudgedRow], second: Iterable[JudgedRow], measures: Iterable[str]) -> list[Retest]:
    """Return one for each measure that either has."""
    left, right = _values(first), _values(second)
    found = []
    for measure in measures:
        one, two = left.get(measure, {}), right.get(measure, {})
        both = sorted(one.keys() & two.keys(), key=repr)
        if not (one or two):
            continue
        pairs = [(one[unit], two[unit]) for unit in both]
        mae = fmean(abs(a - b) for a, b in pairs) if pairs else None
        rho = spearman([a for a, _ in pairs], [b for _, b in pairs])
        found.append(Retest(measure, len(pairs), rho, mae, len(one.keys() ^ two.keys())))
    return found


def _values(rows: Iterable[JudgedRow]) -> dict[str, dict[object, float]]:
    found: dict[str, dict[object, float]] = {}
    for row in rows:
        found.setdefault(row.measure, {})[row.unit] = row.value
    return found

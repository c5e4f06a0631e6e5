"""How much a run's numbers vary between samples and between replicates: mean and standard deviation.

Source: SkillLearnBench, appendix E and Table 7, which rerun the seed instance three times. Here a value is the run's
own (mean over tasks) of each sample, or of each replicate, and the deviation is that of a sample (n - 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from benchapp.models import Judging, Run
from benchapp.stats.judged.judged_rows import JudgedRow, by_measure, mean_over_tasks


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

"""All metrics, in the sets a table shows together. `docs/reference/metrics.md` explains each.

A table has metrics over trials, which differences can be tested on, and numbers of whole runs, shown as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchapp.stats.benchmarks import judged_metrics, skillevolbench_metrics, skillflow_metrics, skilllearnbench_metrics
from benchapp.stats.metrics import passk, run_metrics
from benchapp.stats.metrics.metric import FIRST_TRIES, Better, MetricUnit, RunMetric, TrialMetric
from benchapp.stats.metrics.outcomes import PHASES, Outcomes
from runner.base.types import Phase

RECORD = "the record: mean over the trials that report it"
GRADES = (("outcome", "outcome"), ("process", "process"), ("overall", "overall"))
INPUT = "input tokens per trial, cached ones among them"
CACHED = "input tokens read from a cache, per trial"
SECONDS = "seconds from start to end of the attempt that counts"
READ = "skills read, invoked or executed in a trial"
GRADED = "what the verifier grades as {}, 0 to 1, mean over trials; partial credit, so no count of passes"


def _grade(column: str, name: str) -> tuple[TrialMetric, ...]:
    """Return the grade in every first try, and in deployment alone."""
    whole = TrialMetric(
        f"mean-{column}",
        f"mean {name}",
        GRADED.format(name) + "; first tries",
        FIRST_TRIES,
        column=column,
        unit=MetricUnit.SCORE,
        source="SkillEvolBench, section 4.5 (outcome, process and overall score)",
    )
    deployed = replace(
        whole,
        key=f"deployment-{column}",
        name=f"{name}, deployment",
        meaning=GRADED.format(name) + "; deployment alone",
        phases=(Phase.DEPLOYMENT,),
    )
    return whole, deployed


USAGE = tuple(
    TrialMetric(f"{key}-per-trial", name, meaning, (), column=column, unit=unit, better=better, source=RECORD)
    for key, name, meaning, column, unit, better in (
        ("input", "input", INPUT, "input_tokens", MetricUnit.TOKENS, Better.LOWER),
        ("cached", "cached input", CACHED, "cached_tokens", MetricUnit.TOKENS, Better.LOWER),
        ("output", "output", "output tokens per trial", "output_tokens", MetricUnit.TOKENS, Better.LOWER),
        ("cost", "cost", "USD per trial, of the attempt that counts", "cost_usd", MetricUnit.USD, Better.LOWER),
        ("seconds", "time", SECONDS, "seconds", MetricUnit.SECONDS, Better.LOWER),
        ("mounted", "skills mounted", "skills a trial was given", "skills_mounted", MetricUnit.SKILLS, Better.NEITHER),
        ("read", "skills read", READ, "skills_read", MetricUnit.SKILLS, Better.NEITHER),
    )
)

TABLES: dict[str, tuple[TrialMetric, ...]] = {
    "success": skillevolbench_metrics.METRICS,
    "scores": tuple(metric for column, name in GRADES for metric in _grade(column, name)),
    "skillflow": skillflow_metrics.METRICS,
    "skilllearnbench": (*skilllearnbench_metrics.METRICS, *judged_metrics.LEVELS),
    "skillgenbench": passk.METRICS,
    "usage": USAGE,
    "judged": judged_metrics.METRICS,
}
METRICS: dict[str, TrialMetric] = {metric.key: metric for metrics in TABLES.values() for metric in metrics}

RUN_TABLES: dict[str, tuple[RunMetric, ...]] = {
    "success": run_metrics.REPLAY,
    "scores": (),
    "skillflow": skillflow_metrics.RUN_METRICS,
    "skilllearnbench": run_metrics.PASSING,
    "skillgenbench": run_metrics.PASSING,
    "usage": (*run_metrics.SOLVING, *run_metrics.LIBRARY),
    "judged": (),
}
RUN_METRICS: dict[str, RunMetric] = {metric.key: metric for metrics in RUN_TABLES.values() for metric in metrics}
DEFAULT_METRIC = "ESR"


def pick_primary(metrics: Sequence[TrialMetric]) -> TrialMetric | None:
    """Pick deployment success; else the first that counts deployment, else the first; None without metrics."""
    default = (metric for metric in metrics if metric.key == DEFAULT_METRIC)
    deployed = (metric for metric in metrics if metric.phase == Phase.DEPLOYMENT)
    return next(iter((*default, *deployed, *metrics)), None)


def table_for(outcomes: Iterable[Outcomes]) -> str:
    """Return the set that fits these trials: SkillGenBench's where skills come from corpora. With acquisition or
    deployment, SkillEvolBench's where tasks have roles, else SkillLearnBench's. Without, SkillLearnBench's where
    unordered families have several instances, else SkillFlow's."""
    protocol = {PHASES.index(Phase.ACQUISITION), PHASES.index(Phase.DEPLOYMENT)}
    known = list(outcomes)
    if any((each.corpus > 0).any() for each in known):
        return "skillgenbench"
    if any(not protocol.isdisjoint(each.phase.tolist()) for each in known):
        return "success" if any((each.role > 0).any() for each in known) else "skilllearnbench"
    if any(((each.ordinal > 1) & (each.family >= 0) & ~each.ordered).any() for each in known):
        return "skilllearnbench"
    return "skillflow"

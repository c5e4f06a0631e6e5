"""Every metric there is, in the sets a table shows together."""

from __future__ import annotations

from collections.abc import Iterable

from benchapp.metrics import skillevolbench
from benchapp.metrics.metric import Better, Metric, Unit
from benchapp.metrics.outcomes import PHASES, Outcomes
from runner.types import Phase

FIRST_TRIES = (Phase.ACQUISITION, Phase.DEPLOYMENT, Phase.EVALUATION)  # a replay meets its tasks a second time

TABLES: dict[str, tuple[Metric, ...]] = {
    "success": skillevolbench.METRICS,
    "skillflow": (
        Metric("completion", "completion", "tasks completed", FIRST_TRIES, source="SkillFlow, section 3"),
        Metric(
            "turns",
            "turns",
            "turns per task; never compared across harnesses",
            FIRST_TRIES,
            column="turns",
            unit=Unit.TURNS,
            better=Better.LOWER,
            source="SkillFlow, Table 1",
        ),
    ),
}
METRICS: dict[str, Metric] = {metric.key: metric for metrics in TABLES.values() for metric in metrics}
DEFAULT_METRIC = "ESR"


def table_for(outcomes: Iterable[Outcomes]) -> str:
    """The set that fits these trials: SkillEvolBench's where some are acquisition or deployment, else plain completion."""
    protocol = {PHASES.index(Phase.ACQUISITION), PHASES.index(Phase.DEPLOYMENT)}
    fits = any(not protocol.isdisjoint(each.phase.tolist()) for each in outcomes)
    return "success" if fits else "skillflow"

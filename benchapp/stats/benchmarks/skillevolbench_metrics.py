"""SkillEvolBench's six success rates (paper section 4.5, equation 6), recomputed from tallies of trials.

Which trials each covers: acquisition T1-T3 for LSR, replay of T1-T3 for RSR, frozen deployment T4-T6 for ESR, and
of these T4 alone for CSSR, T5 for ARSR, T6 for CompSR.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.tally import TrialTally
from runner.base.types import Phase, Role

PAPER = "SkillEvolBench, section 4.5, equation 6"
LEARNING = "learning success: tasks passed while the library is being written"

METRICS = tuple(
    TrialMetric(key, name, meaning, (phase,), role, source=PAPER)
    for key, name, phase, role, meaning in (
        ("LSR", "acquisition", Phase.ACQUISITION, None, LEARNING),
        ("RSR", "replay", Phase.REPLAY, None, "replay success: the same tasks again with the finished library"),
        ("ESR", "deployment", Phase.DEPLOYMENT, None, "deployment success: unseen tasks with the frozen library"),
        ("CSSR", "new context", Phase.DEPLOYMENT, Role.CONTEXT_SHIFT, "deployment tasks in another context"),
        ("ARSR", "trap", Phase.DEPLOYMENT, Role.ADVERSARIAL, "deployment tasks built against a wrong rule"),
        ("CompSR", "combination", Phase.DEPLOYMENT, Role.COMPOSITION, "deployment tasks that need several skills"),
    )
)


def rates_of(tallies: Mapping[tuple[str, str], TrialTally]) -> dict[str, Rate]:
    """Return metric key -> rate from (phase, role) -> tally. A metric without a planned trial has no entry."""
    rates: dict[str, Rate] = {}
    for place, tally in tallies.items():
        for metric in METRICS:
            if metric.covers(*place):
                rates[metric.key] = rates.get(metric.key, Rate()) + tally.rate
    return rates

"""SkillLearnBench's outcome numbers (section 3.2, equation 2): first per task of the paper, then over its tasks.

What the paper calls a task is a family here, and its instances are the family's tasks. Instance 1 is the seed that
skills are learned from (instances 1 to N under "one-shot@N"), the others are held out. Acc = mean over families of the
mean over the family's instances, so a family of six instances weighs as much as one of two. Several samples of an
instance are averaged first.
"""

from __future__ import annotations

from benchapp.stats.metrics.metric import Better, Instances, MetricUnit, TrialMetric
from runner.base.types import Phase

PAPER = "SkillLearnBench, section 3.2, equation 2"
PHASES = (Phase.EVALUATION, Phase.DEPLOYMENT)  # imported runs have no phases; here instances follow the seal

SEED = "the same over seed instances, which the skills were learned from"
HELD_OUT = "the same over the other instances, 2 and up, which no skill was learned from"
RATE = "skills that the harness' skill tool opened, of those mounted; per instance, then per family and over families"
FIGURE = "SkillLearnBench, Figure 2 c"
ACCURACIES = tuple(
    TrialMetric(key, name, meaning, PHASES, source=source, instances=instances, macro=True)
    for key, name, meaning, source, instances in (
        ("accuracy", "accuracy", "instances passed, per family and then over families", PAPER, Instances.ALL),
        ("accuracy-seed", "accuracy, seed", SEED, FIGURE, Instances.SEED),
        ("accuracy-held-out", "accuracy, held-out", HELD_OUT, FIGURE, Instances.HELD_OUT),
    )
)
METRICS = (
    *ACCURACIES,
    TrialMetric(
        "solving-tokens",
        "tokens",
        "input (cached input among it) and output tokens per instance, per family and then over families",
        PHASES,
        column="total_tokens",
        unit=MetricUnit.TOKENS,
        better=Better.LOWER,
        source="SkillLearnBench, section 3.2 and Table 6",
        macro=True,
    ),
    TrialMetric(
        "usage",
        "skill usage",
        "skills used of those mounted, per instance, then per family and over families; unknown where none was mounted",
        PHASES,
        column="usage",
        unit=MetricUnit.SCORE,
        better=Better.NEITHER,
        source="SkillLearnBench, section 3.2 (skill usage rate), and reads and runs of a skill's files besides",
        macro=True,
    ),
    TrialMetric(
        "skill-usage-rate",
        "skill usage rate",
        f"{RATE}; unknown where none was mounted or the harness has no such tool",
        PHASES,
        column="usage_rate",
        unit=MetricUnit.SCORE,
        better=Better.NEITHER,
        source="SkillLearnBench, sections 3.2 and L.2, equation 3",
        macro=True,
    ),
)

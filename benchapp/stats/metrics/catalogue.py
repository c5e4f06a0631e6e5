"""All metrics as their papers define them, in the sets a table shows together. `docs/reference/metrics.md` explains
each.

A table has metrics over trials, which differences can be tested on, and numbers of whole runs, shown as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchapp.stats.inference.sentences import SOLVED
from benchapp.stats.inference.shares import Rate
from benchapp.stats.judged import ALIGNMENT
from benchapp.stats.metrics import passk, run_metrics
from benchapp.stats.metrics.metric import FIRST_TRIES, Better, Instances, MetricUnit, TrialMetric
from benchapp.stats.metrics.outcomes import JUDGED, PHASES, Outcomes
from benchapp.stats.metrics.run_metrics import RunMetric
from benchapp.stats.metrics.tally import TrialTally
from runner.base.types import Phase, Role
from runner.judging.metrics import SCALES, Metric

SHARE, SCORE, TURN, TOKENS = MetricUnit.SHARE, MetricUnit.SCORE, MetricUnit.TURNS, MetricUnit.TOKENS
USD, SECONDS, SKILLS = MetricUnit.USD, MetricUnit.SECONDS, MetricUnit.SKILLS

# --- SkillEvolBench's six success rates -----------------------------------------------------------------------------
# Acquisition of T1-T3 for LSR, replay of T1-T3 for RSR, frozen deployment of T4-T6 for ESR, and of these T4 alone for
# CSSR, T5 for ARSR, T6 for CompSR.

LEARNING = "learning success: tasks passed while the library is being written"
SKILLEVOLBENCH = tuple(
    TrialMetric(key, name, meaning, (phase,), role, source="SkillEvolBench, section 4.5, equation 6")
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
    """Return SkillEvolBench's rates by key, from (phase, role) -> tally. A metric without a planned trial has none."""
    rates: dict[str, Rate] = {}
    for place, tally in tallies.items():
        for metric in SKILLEVOLBENCH:
            if metric.covers(*place):
                rates[metric.key] = rates.get(metric.key, Rate()) + tally.rate
    return rates


GRADED = "what the verifier grades as {}, 0 to 1, mean over trials; partial credit, so no count of passes"
GRADES = tuple(
    TrialMetric(
        f"{key}-{grade}",
        name.format(grade),
        GRADED.format(grade) + which,
        phases,
        column=grade,
        unit=SCORE,
        source="SkillEvolBench, section 4.5 (outcome, process and overall score)",
    )
    for grade in ("outcome", "process", "overall")
    for key, name, which, phases in (
        ("mean", "mean {}", "; first tries", FIRST_TRIES),
        ("deployment", "{}, deployment", "; deployment alone", (Phase.DEPLOYMENT,)),
    )
)

# --- SkillFlow's table ----------------------------------------------------------------------------------------------
# Over the trials of any run: a family is an episode, worked in order. Every number has two versions, over all tasks and
# without the first task of each family: there the library is empty, so no skill can be used. So %use over all tasks
# stays below 100 % (146 of 166 in the paper's suite). The paper's released code counts a task without a result as
# absent and one without a trajectory as 0 turns; here both are unknown.

TURNS = "agent turns per task; harnesses count them differently, so never compared across harnesses"
COST = "USD per task, of the attempt that counts; the author's calls are not in it"
USE = "tasks in which a skill was read, invoked or executed, of all tasks"
OVER_ALL = tuple(
    TrialMetric(
        key,
        name,
        meaning,
        FIRST_TRIES,
        column=column,
        unit=unit,
        better=better,
        source="SkillFlow, section 2.5 and Table 1",
    )
    for key, name, meaning, column, unit, better in (
        ("completion", "completion", "tasks completed", "success", SHARE, Better.HIGHER),
        ("turns", "turns", TURNS, "turns", TURN, Better.LOWER),
        ("cost", "cost", COST, "cost_usd", USD, Better.LOWER),
        ("output-tokens", "output tokens", "output tokens per task", "output_tokens", TOKENS, Better.LOWER),
        ("use", "% use", USE, "used", SHARE, Better.NEITHER),
    )
)
PAST_FIRST = tuple(
    replace(
        metric,
        key=f"{metric.key}-past-first",
        name=f"{metric.name}, past first",
        meaning=f"{metric.meaning}; without the first task of each ordered episode",
        past_first=True,
    )
    for metric in OVER_ALL
)

# --- SkillLearnBench's outcome numbers ------------------------------------------------------------------------------
# What the paper calls a task is a family here, and its instances are the family's tasks. Instance 1 is the seed that
# skills are learned from (instances 1 to N under "one-shot@N"), the others are held out. Acc = mean over families of
# the mean over the family's instances, so a family of six instances weighs as much as one of two. Several samples of an
# instance are averaged first.

AFTER_SEAL = (Phase.EVALUATION, Phase.DEPLOYMENT)  # imported runs have no phases; here instances follow the seal
SEED = "the same over seed instances, which the skills were learned from"
HELD_OUT = "the same over the other instances, 2 and up, which no skill was learned from"
EQUATION, FIGURE = "SkillLearnBench, section 3.2, equation 2", "SkillLearnBench, Figure 2 c"
ACCURACIES = tuple(
    TrialMetric(key, name, meaning, AFTER_SEAL, source=source, instances=instances, macro=True)
    for key, name, meaning, source, instances in (
        ("accuracy", "accuracy", "instances passed, per family and then over families", EQUATION, Instances.ALL),
        ("accuracy-seed", "accuracy, seed", SEED, FIGURE, Instances.SEED),
        ("accuracy-held-out", "accuracy, held-out", HELD_OUT, FIGURE, Instances.HELD_OUT),
    )
)
SPENT = "input (cached input among it) and output tokens per instance, per family and then over families"
USED = "skills used of those mounted, per instance, then per family and over families; unknown where none was mounted"
OPENED = (
    "skills that the harness' skill tool opened, of those mounted; per instance, then per family and over families;"
    " unknown where none was mounted or the harness has no such tool"
)
OF_TOKENS = "SkillLearnBench, section 3.2 and Table 6"
OF_USE = "SkillLearnBench, section 3.2 (skill usage rate), and reads and runs of a skill's files besides"
OF_OPENED = "SkillLearnBench, sections 3.2 and L.2, equation 3"
SKILLLEARNBENCH = (
    *ACCURACIES,
    *(
        TrialMetric(key, name, meaning, AFTER_SEAL, column=column, unit=unit, better=better, source=source, macro=True)
        for key, name, meaning, column, unit, better, source in (
            ("solving-tokens", "tokens", SPENT, "total_tokens", TOKENS, Better.LOWER, OF_TOKENS),
            ("usage", "skill usage", USED, "usage", SCORE, Better.NEITHER, OF_USE),
            ("skill-usage-rate", "skill usage rate", OPENED, "usage_rate", SCORE, Better.NEITHER, OF_OPENED),
        )
    ),
)

# --- a judging model's scores (SkillLearnBench, 3.2, Tables 2, 10 to 12) --------------------------------------------
# A trial has the scores of its library for its task, each the mean over the library's skills, and those of its attempt:
# mean over samples, then over the family's instances, then over families.

POINTS = "key points that the library teaches, of those judged"
OVER_SKILLS = "mean over the skills of a trial's library"
RECALLED = "key points that the attempt did, of those judged"
ALIGNED = "mean of recall, order and completeness, where an attempt has all three"
JUDGED_METRICS = tuple(
    TrialMetric(
        key,
        key.replace("-", " "),
        f"{meaning}; a judging model's score, 0 to 100, per instance, then per family and over families",
        AFTER_SEAL,
        column=f"{JUDGED}{measure}",
        unit=MetricUnit.OF_HUNDRED,
        source=f"SkillLearnBench, section 3.2 and Table {table}",
        macro=True,
    )
    for key, measure, meaning, table in (
        ("coverage", Metric.COVERAGE, POINTS, 2),
        ("executability", Metric.EXECUTABILITY, f"mean of its four parts, {OVER_SKILLS}", 2),
        ("safety", Metric.SAFETY, f"mean of its six parts, {OVER_SKILLS}; higher is safer", 2),
        ("alignment", ALIGNMENT, ALIGNED, 2),
        *(
            (
                f"{metric}-{item.replace('_', '-')}",
                f"{metric}.{item}",
                f"{item.replace('_', ' ')}, {OVER_SKILLS}",
                table,
            )
            for metric, table in ((Metric.EXECUTABILITY, 10), (Metric.SAFETY, 11))
            for item in SCALES[metric]
        ),
        ("alignment-recall", Metric.RECALL, RECALLED, 12),
        ("alignment-order", Metric.ORDER, "steps in a workable order", 12),
        ("alignment-completeness", Metric.COMPLETENESS, "brought to a conclusion", 12),
    )
)
JUDGED_LEVELS = JUDGED_METRICS[:4]

# --- usage, for every run -------------------------------------------------------------------------------------------

INPUT = "input tokens per trial, cached ones among them"
READ = "skills read, invoked or executed in a trial"
RECORD = "the record: mean over the trials that report it"
BILLED = "USD per trial, of the attempt that counts"
LASTED = "seconds from start to end of the attempt that counts"
CACHED = "input tokens read from a cache, per trial"
USAGE = tuple(
    TrialMetric(f"{key}-per-trial", name, meaning, (), column=column, unit=unit, better=better, source=RECORD)
    for key, name, meaning, column, unit, better in (
        ("input", "input", INPUT, "input_tokens", TOKENS, Better.LOWER),
        ("cached", "cached input", CACHED, "cached_tokens", TOKENS, Better.LOWER),
        ("output", "output", "output tokens per trial", "output_tokens", TOKENS, Better.LOWER),
        ("cost", "cost", BILLED, "cost_usd", USD, Better.LOWER),
        ("seconds", "time", LASTED, "seconds", SECONDS, Better.LOWER),
        ("mounted", "skills mounted", "skills a trial was given", "skills_mounted", SKILLS, Better.NEITHER),
        ("read", "skills read", READ, "skills_read", SKILLS, Better.NEITHER),
    )
)

# --- tables ---------------------------------------------------------------------------------------------------------

TABLES: dict[str, tuple[TrialMetric, ...]] = {
    "success": SKILLEVOLBENCH,
    "scores": GRADES,
    "skillflow": tuple(metric for both in zip(OVER_ALL, PAST_FIRST, strict=True) for metric in both),
    "skilllearnbench": (*SKILLLEARNBENCH, *JUDGED_LEVELS),
    "skillgenbench": passk.METRICS,
    "usage": USAGE,
    "judged": JUDGED_METRICS,
}
METRICS: dict[str, TrialMetric] = {metric.key: metric for metrics in TABLES.values() for metric in metrics}

RUN_TABLES: dict[str, tuple[RunMetric, ...]] = {
    "success": run_metrics.REPLAY,
    "scores": (),
    "skillflow": run_metrics.SKILLS,
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


# --- names for readers: a plain name, with the code of the papers in small type ---------------------------------------


@dataclass(frozen=True, slots=True)
class MetricName:
    """`short` is for a tab or a tile. `tasks`: what the metric counts, "new tasks"; `did`: what a condition did to
    them; `done`: the same about the tasks."""

    code: str
    title: str
    short: str
    tasks: str = "tasks"
    did: str = SOLVED
    done: str = SOLVED

    def count(self, number: int) -> str:
        """Return what it counts, in the right number: "new task" for 1."""
        return self.tasks if number != 1 else re.sub(r"\b(task|instance)s\b", r"\1", self.tasks)


METRIC_NAMES = {
    name.code: name
    for name in (
        MetricName("LSR", "Acquisition success", "Acquisition", "acquisition tasks"),
        MetricName("RSR", "Replay success", "Replay", "repeated tasks"),
        MetricName("ESR", "Deployment success", "Deployment", "new tasks"),
        MetricName("CSSR", "New-context success", "New context", "tasks in a new setting"),
        MetricName("ARSR", "Trap success", "Traps", "trap tasks"),
        MetricName("CompSR", "Composition success", "Composition", "composition tasks"),
        MetricName("completion", "Tasks completed", "Completed"),
        MetricName("completion-past-first", "Completed, past the first task", "Past first"),
        MetricName("accuracy", "Instances passed", "All instances", "instances", "passed", "passed"),
        MetricName("accuracy-seed", "Seed instances passed", "Seed", "seed instances", "passed", "passed"),
        MetricName(
            "accuracy-held-out", "Held-out instances passed", "Held out", "held-out instances", "passed", "passed"
        ),
    )
}


def note_metric(metric: TrialMetric | RunMetric) -> str:
    """Return the small note of a metric: its code and unit, each only where the name does not have it already."""
    title = name_metric(metric).title.lower()
    code = metric.key if metric.key.replace("-", " ").lower() != title else ""
    unit = (
        ""
        if metric.unit in (MetricUnit.SHARE, MetricUnit.COUNT) or metric.unit.value.lower() in title.split()
        else metric.unit.value
    )
    return ", ".join(filter(None, (code, unit)))


def name_role(role: str) -> str:
    """Return a role in the words of its metric; the code stays in addresses and files."""
    names: dict[str, str] = {Role.CONTEXT_SHIFT: "new context", Role.ADVERSARIAL: "trap"}
    return names.get(role, role)


def name_metric(metric: TrialMetric | RunMetric) -> MetricName:
    """Return the plain names of a metric; one without gets its own name, beginning with a capital."""
    if known := METRIC_NAMES.get(metric.key):
        return known
    plain = metric.name[:1].upper() + metric.name[1:]
    if isinstance(metric, TrialMetric) and metric.column == "used":
        return MetricName(metric.key, plain, plain, did="used a skill in", done="with a skill used")
    return MetricName(metric.key, plain, plain)

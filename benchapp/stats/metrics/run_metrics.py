"""Numbers of a whole run other than means over trials: replay, passes among tries, the bill, the library.

A solved task costs what the first tries of a run and its author cost over the tasks solved at first tries. Failures
cost too, so every billed attempt counts: a mean over solved trials would reward an agent that fails expensively.
Replays are left out on both sides: they solve no new task, and a replayed condition would pay for more than one that is
not replayed. An attempted task costs what all phases of a run and its author cost over the trials of all phases:
replays are on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from statistics import fmean

import numpy as np

from benchapp.models import Run
from benchapp.stats.learning.libraries import Churn, LibrarySize, read_library_numbers
from benchapp.stats.learning.replay_gains import RETEST, pairs_of
from benchapp.stats.metrics.metric import FIRST_TRIES, Better, MetricUnit
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.passk import pass_curve
from benchapp.stats.metrics.spending import RunSpending, spending_of
from runner.base.types import DecisionStatus


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The inputs of one run's numbers. `libraries`: of its episodes that own one and are not tainted."""

    outcomes: Outcomes
    libraries: tuple[LibrarySize, ...]
    churn: Churn
    spending: RunSpending


def facts_of(
    runs: Sequence[Run], outcomes: Mapping[int, Outcomes], as_of: datetime | None = None
) -> dict[int, RunFacts]:
    """Return run pk -> facts; `outcomes`: run pk -> trials. Seven queries at most for any number of runs."""
    numbers, spent = read_library_numbers(runs, as_of), spending_of(runs, as_of)
    facts = {}
    for pk in (run.pk for run in runs):
        libraries = tuple(library for library in numbers[pk].sizes if not library.tainted)
        facts[pk] = RunFacts(outcomes[pk], libraries, numbers[pk].churn, spent[pk])
    return facts


@dataclass(frozen=True, slots=True)
class RunValue:
    """A number of one run. `over`: how many things (`of`: "episodes", "tasks", ...) it uses. None: see `note`."""

    value: float | None
    over: int = 0
    of: str = ""
    note: str = ""


def mean_of(values: Sequence[RunValue]) -> RunValue:
    """Combine replicates of a group: the mean of known values, the sum of `over`, and why others are unknown."""
    known = [value for value in values if value.value is not None]
    notes = "; ".join(dict.fromkeys(value.note for value in values if value.note))
    if not known:
        return RunValue(None, note=notes or "no run")
    if len(known) < len(values):
        notes = f"{len(known)} of {len(values)} replicates report it" + (f"; {notes}" if notes else "")
    mean = fmean(value.value for value in known if value.value is not None)
    return RunValue(mean, sum(value.over for value in known), known[0].of, notes)


@dataclass(frozen=True, slots=True)
class RunMetric:
    """A number of a whole run other than a mean over trials.
    It has no task for pairing, so it is shown without a test."""

    key: str
    name: str
    meaning: str
    unit: MetricUnit
    better: Better
    source: str
    compute: Callable[[RunFacts], RunValue]


# --- replay against acquisition -------------------------------------------------------------------------------------


def measure_recovery(facts: RunFacts) -> RunValue:
    """Share of tasks failed in acquisition that replay passed."""
    pairs = pairs_of(facts.outcomes)
    note = RETEST if pairs.failed_first else "nothing failed first and was replayed"
    return RunValue(pairs.recovery, pairs.failed_first, "first failures", note)


def measure_regression(facts: RunFacts) -> RunValue:
    """Share of tasks passed in acquisition that replay failed."""
    pairs = pairs_of(facts.outcomes)
    note = RETEST if pairs.passed_first else "nothing passed first and was replayed"
    return RunValue(pairs.regression, pairs.passed_first, "first passes", note)


CODE = "SkillEvolBench's released report (evolution_replay)"
RECOVERED = "first failures that replay passed: fail to pass / all failed first; includes retest noise"
REGRESSED = "first passes that replay failed: pass to fail / all passed first; includes retest noise"
REPLAY = (
    RunMetric("recovery", "recovery", RECOVERED, MetricUnit.SHARE, Better.HIGHER, CODE, measure_recovery),
    RunMetric("regression", "regression", REGRESSED, MetricUnit.SHARE, Better.LOWER, CODE, measure_regression),
)

# --- passes among tries ---------------------------------------------------------------------------------------------


def measure_passing(facts: RunFacts, k: int) -> RunValue:
    """Unbiased pass@k over the tasks with at least k scored samples."""
    point = pass_curve(facts.outcomes, (k,))[0]
    if not point.tasks:
        return RunValue(None, 0, "tasks", f"no task has {k} scored samples")
    note = f"{point.left_out} tasks with fewer than {k} scored samples left out" if point.left_out else ""
    return RunValue(point.value, point.tasks, "tasks", note)


CHEN = "Chen et al. 2021, equation 1; SkillGenBench, section 4.1"
TRIES = (
    "chance that one of {k} tries at a task passes, over tasks with at least {k} scored samples; the unbiased estimator"
)
PASSING = tuple(
    RunMetric(
        *(f"pass@{k}", f"pass@{k}", TRIES.format(k=k), MetricUnit.SHARE, Better.HIGHER, CHEN),
        partial(measure_passing, k=k),
    )
    for k in (1, 2, 3)
)

# --- the bill -------------------------------------------------------------------------------------------------------


def count_solved_tasks(outcomes: Outcomes) -> int:
    """Count tasks with a passed sample in acquisition, deployment or evaluation; a replay solves no new task."""
    mask = outcomes.covering(FIRST_TRIES) & (outcomes.success == 1)
    return len(np.unique(outcomes.task[mask]))


def divide_bill(facts: RunFacts, *, unit: MetricUnit, is_solved: bool) -> RunValue:
    """Divide the bill, in USD or in input and output tokens, with the author's calls: of all billed attempts at first
    tries by solved tasks, or of those in all phases by trials that ended. None where any part of the bill is
    unknown."""
    outcomes, spending = facts.outcomes, facts.spending
    if is_solved:
        spent, count = spending.of_first_tries, count_solved_tasks(outcomes)
        of, none = "solved tasks", "no task was solved"
    else:
        spent, count = spending.of_all_phases, int(outcomes.done.sum())
        of, none = "attempted tasks", "no trial has ended"
    is_cost = unit is MetricUnit.USD
    total, known = (spent.whole_cost, spent.cost_known) if is_cost else (spent.whole_tokens, spent.tokens_known)
    unknown = spent.things - known
    if outcomes.tainted.any():
        reason = "a trial was skipped: the bill of its episode cannot be left out with its results"
    elif unknown and is_cost:
        reason = f"the cost of {unknown:,} attempts or calls is unknown"
    elif unknown:
        reason = f"{unknown:,} of {spent.things:,} attempts or calls report no tokens"
    elif not spent.things:
        reason = "nothing was run"
    elif not count or total is None:
        reason = none
    else:
        return RunValue(total / count, count, of)
    return RunValue(None, count, of, reason)


FIRST_BILL = "of all billed attempts at first tries and author calls / tasks solved there"
WHOLE_BILL = "of all billed attempts in all phases, replays too, and of author calls / trials that ended"
UNPRICED = "unknown where any cost is unknown"
PER_SUCCESS = (
    "after SkillEvolBench's released report (total_cost_per_successful_task_usd); replays left out on both sides"
)
PER_TASK = "SkillEvolBench, Figure 7 and section 5.6; its released report (total_cost_per_task_usd)"
NO_PRICE = "as cost per {} task, where no price is known"
USD, TOKENS = MetricUnit.USD, MetricUnit.TOKENS
SOLVING = tuple(
    RunMetric(
        key=f"{'cost' if unit is USD else 'tokens'}-per-{'solved' if is_solved else 'attempted'}",
        name=f"{'cost' if unit is USD else 'tokens'} per {'solved' if is_solved else 'attempted'} task",
        meaning=meaning,
        unit=unit,
        better=Better.LOWER,
        source=source,
        compute=partial(divide_bill, unit=unit, is_solved=is_solved),
    )
    for unit, is_solved, meaning, source in (
        (USD, True, f"USD {FIRST_BILL}; {UNPRICED}", PER_SUCCESS),
        (TOKENS, True, f"input and output tokens {FIRST_BILL}", NO_PRICE.format("solved")),
        (USD, False, f"USD {WHOLE_BILL}; {UNPRICED}", PER_TASK),
        (TOKENS, False, f"input and output tokens {WHOLE_BILL}", NO_PRICE.format("attempted")),
    )
)

# --- the library ----------------------------------------------------------------------------------------------------


def average_libraries(facts: RunFacts, *, name: str) -> RunValue:
    """Average a number of `LibrarySize` over the episodes that own a library."""
    if not facts.libraries:
        return RunValue(None, note="no episode owns a library")
    return RunValue(fmean(getattr(library, name) for library in facts.libraries), len(facts.libraries), "episodes")


def measure_ever(facts: RunFacts) -> RunValue:
    """Average over episodes the skills that the library ever held, without seeded ones: those the author wrote."""
    churn = facts.churn
    if not facts.libraries or not churn.episodes:
        return RunValue(None, note="no episode owns a library")
    if not churn.recorded:
        return RunValue(None, note="the libraries came without their history")
    return RunValue(churn.created / churn.recorded, churn.recorded, "episodes")


def measure_accepted(facts: RunFacts) -> RunValue:
    """Applied decisions / all decisions."""
    decisions = facts.churn.decisions
    total = sum(decisions.values())
    if not total:
        return RunValue(None, 0, "decisions", "no author decided anything")
    return RunValue(decisions[DecisionStatus.APPLIED] / total, total, "decisions")


HELD = "skills in the final library, mean over episodes"
EVER = "skills the author ever wrote into the library, deleted ones included, mean over episodes"
FILES = "files in the final library, mean over episodes"
BYTES = "bytes of the final library, uncompressed, mean over episodes"
APPLIED = "answers of the author that changed the library / all answers, rejected, failed and no-op ones included"
OF_HELD = "SkillFlow, section 2.5; the released code's #Skills"
OF_EVER = "SkillFlow, Table 1's caption (#Skills as cumulative number)"
OF_FILES = "SkillEvolBench, Figure 5"
OF_APPLIED = "SkillEvolBench's released report (revision_acceptance_rate)"
SKILLS = tuple(
    RunMetric(key, name, meaning, MetricUnit.SKILLS, Better.NEITHER, source, compute)
    for key, name, meaning, source, compute in (
        ("skills-retained", "skills retained", HELD, OF_HELD, partial(average_libraries, name="skills")),
        ("skills-ever", "skills ever created", EVER, OF_EVER, measure_ever),
    )
)
LIBRARY = tuple(
    RunMetric(key, key.replace("-", " "), meaning, unit, Better.NEITHER, source, compute)
    for key, meaning, unit, source, compute in (
        ("library-files", FILES, MetricUnit.COUNT, OF_FILES, partial(average_libraries, name="files_total")),
        ("library-bytes", BYTES, MetricUnit.COUNT, "the record", partial(average_libraries, name="bytes")),
        ("decisions-applied", APPLIED, MetricUnit.SHARE, OF_APPLIED, measure_accepted),
    )
)

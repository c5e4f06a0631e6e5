"""How fit a suite is to measure skills: what screening found, its qualification, and its tasks by the conditions of one
experiment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypedDict
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, Max, Min
from django.urls import reverse

from benchapp.analysis.suite_screening import screen_once, summarise_screening, take_screening
from benchapp.experiments.qualification import (
    CHECK_WORDS,
    LEAST_TRIALS,
    RATES,
    Admission,
    Fit,
    TaskCheck,
    TaskFit,
    TaskVerdict,
    count_admissions,
    judge_by_trials,
    judge_by_verdict,
    list_qualifications,
    read_verdicts,
    say_verdicts,
    summarise_fit,
)
from benchapp.models import Experiment, Queue, Run, Trial
from benchapp.models.stand_ins import join_stand_ins
from benchapp.models.trials import TALLY
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.suite_files import find_suite
from benchapp.review.blinding import ReviewAccess
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.shares import Rate
from inspector.pages.suites.suite import SuiteTask, SuiteView
from inspector.web.responses import link_to
from runner.base.suite import Suite
from runner.base.types import Phase
from runner.protocols.conditions import base_name
from runner.protocols.plan import Rule
from runner.screening.suite_findings import KINDS, Screening, SuiteFinding, Weight
from runner.suites import SUITES

# in a bundled suite's folder: `qualification` of its page's twin, as it was when it was released
SHIPPED = "qualification.json"
TONES = {Admission.ADMIT: "ok", Admission.REJECT: "bad", Admission.LOOK: "warn"}
UNJUDGED = (Fit.UNKNOWN, Fit.HIDDEN)
BARE = "no-skill"
TRACES = frozenset({"raw-trajectory", "history-context"})  # no skill, and not bare either
MOST_SQUARES = 12  # of one cell; more trials are a count
QUOTE = JsonShape("task? path", ("line", lambda quote: quote.line or None), "text?")
FINDING = JsonShape("kind weight tasks says", ("quotes", lambda finding: QUOTE.read_all(finding.quotes)))


# --- screening: leaks, near-duplicates, roles that do not hold --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownScreening(Shaped):
    """`kinds`: (in words, its findings, whether any is a leak), those with leaks first."""

    sentence: str
    found: Screening
    kinds: tuple[tuple[str, tuple[SuiteFinding, ...], bool], ...]

    json_shape = JsonShape(
        "says=sentence",
        ("leaks", lambda row: row.found.count(Weight.LEAK)),
        ("looks", lambda row: row.found.count(Weight.LOOK)),
        ("more", lambda row: row.found.more),
        ("skipped", lambda row: list(row.found.skipped)),
        ("findings", lambda row: FINDING.read_all(row.found.findings)),
    )


def read_screening(view: SuiteView, *, asked: bool) -> ShownScreening | None:
    """Return what is kept. Where nothing is, a bundled suite is screened at once, another one when somebody asks.
    None: the folder is not here, or nobody has asked yet."""
    if view.read is None:
        return None
    found = screen_once(view.read) if asked or view.key in SUITES else take_screening(view.read)
    if found is None:
        return None
    by_kind = {kind: tuple(each for each in found.findings if each.kind == kind) for kind in KINDS}
    kinds = [
        (KINDS[kind], mine, any(each.weight is Weight.LEAK for each in mine)) for kind, mine in by_kind.items() if mine
    ]
    return ShownScreening(summarise_screening(found), found, tuple(sorted(kinds, key=lambda kind: not kind[2])))


# --- qualification: verdicts, the runs behind them, how sure they are ------------------------------------------------


class SuiteQualification(Shaped):
    """`is_of_this_state`: the suite's folder is as it was when its tasks were tried. `asked`: agent and model. `total`,
    `done`: of its trials. `rules`: each check that some task has in words, in their order, and its rule. `rows`: each
    task, the tone of its verdict, and its checks below `heads`."""

    json_shape = JsonShape(
        "id=experiment status=experiment.status digest is_of_this_state asked? measured_at counts",
        ("chances", lambda found: [_read_chances(title, rule) for title, rule in found.rules]),
        "tasks",
        link_to("experiment-json", "experiment.public_id"),
    )

    def __init__(self, experiment: Experiment, digest: str, tasks: Sequence[TaskVerdict], state: str) -> None:
        """`digest`: of the state that was tried; `state`: of the suite as it is now."""
        self.experiment, self.digest, self.tasks, self.is_of_this_state = experiment, digest, tasks, digest == state
        runs = list(experiment.runs.all())
        self.asked = next((f"{run.harness} with {run.agent_model}" for run in runs if run.agent_model), "")
        self.stand_ins = join_stand_ins(run for run in runs if run.agent_model or not self.asked)
        self.measured_at = experiment.finished_at or experiment.created_at
        self.counts, self.sentence = count_admissions(tasks), say_verdicts(tasks)
        self.has_costs = any(each.cost_usd for each in tasks)
        every = [check for each in tasks for check in each.checks]
        self.total = sum(check.trials for check in every)
        self.done = self.total - sum(check.open for check in every)
        # While it runs, the total falls with each task that is decided.
        bound = "at most " if experiment.is_open and self.done < self.total else ""
        self.trials_done = f"{self.done:,} of {bound}{self.total:,} trials are done"
        rules = {check.name: check.rule for check in every}
        self.checks = [name for name in CHECK_WORDS if name in rules]
        self.rules = [(CHECK_WORDS[name].title, rules[name]) for name in self.checks]
        self.heads = [(CHECK_WORDS[name].title, CHECK_WORDS[name].means, str(rules[name])) for name in self.checks]
        # While runs are to come, only tasks whose verdict they cannot change.
        judged = [each for each in tasks if each.admission is not Admission.LOOK or not experiment.is_open]
        self.rows = [(each, TONES[each.admission], self.row_of(each.key)) for each in judged]
        self.progress = f"{self.trials_done}, {len(judged):,} of {len(tasks):,} tasks judged"
        # how many of 100 tasks keep each rule if their runs pass at one of RATES
        self.chances = [
            (title, str(rule), [_write_chance(rule.chance(rate)) for rate in RATES]) for title, rule in self.rules
        ]

    def row_of(self, task: str) -> list[TaskCheck | None]:
        """Return the checks of a task below `heads`."""
        found = {check.name: check for each in self.tasks if each.key == task for check in each.checks}
        return [found.get(name) for name in self.checks]


def _read_chances(title: str, rule: Rule) -> dict[str, object]:
    """Return how probable it is that a task keeps the rule if its runs pass at one of RATES."""
    chances = [{"rate": rate, "kept": rule.chance(rate)} for rate in RATES]
    return {"check": title, "rule": str(rule), "chances": chances}


def _write_chance(chance: float) -> str:
    """Write a chance as a number of 100 tasks; 0 and 100 only if they are exact."""
    if 0.005 <= chance <= 0.995 or chance in (0.0, 1.0):
        return f"{100 * chance:.0f}"
    return "<1" if chance < 0.5 else ">99"


def read_qualification(key: str, digest: str) -> SuiteQualification | None:
    """Read that of the suite as it is now; where that state has none, of an earlier one."""
    found, then = list_qualifications({key: digest}).get(key, (None, ""))
    if found is None:
        return None
    page = reverse("compare-trials")

    def link(check: TaskCheck, task: str) -> TaskCheck:
        query = urlencode({"experiment": found.public_id, "condition": check.condition, "task": task})
        return replace(check, url=f"{page}?{query}") if check.trials else check

    verdicts = read_verdicts(found)
    tasks = [replace(each, checks=tuple(link(check, each.key) for check in each.checks)) for each in verdicts]
    return SuiteQualification(found, then, tasks, digest)


class ShippedCheck(TypedDict):
    check: str
    passed: int
    failed: int
    kept: bool | None


class ShippedVerdict(TypedDict):
    task: str
    verdict: str
    reasons: list[str]
    checks: list[ShippedCheck]


class ShippedVerdicts(TypedDict):
    """What is read of the file; a page shows all of it."""

    digest: str
    asked: str
    tasks: list[ShippedVerdict]


def read_shipped(read: Suite | None) -> ShippedVerdicts | None:
    """Read the verdicts that a bundled suite brings along; None where it has none, or its tasks are others by now."""
    if read is None or read.key not in SUITES:
        return None
    task = read.environments[0].families[0].tasks[0]
    path = task.folder.parent.parent / SHIPPED
    if not path.is_file():
        return None
    found: ShippedVerdicts = json.loads(path.read_text())
    return found if found["digest"] == read.digest else None


# --- tasks by condition -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """The trials of one task under one condition. Replays are left out: they repeat a task. `hidden_by`: the queue that
    hides some or all of them from this reader; these are not in the rate."""

    condition: str
    rate: Rate
    url: str
    hidden_by: Queue | None = None

    @property
    def marks(self) -> list[str]:
        """Return one word a square, passed trials first; empty if only the count is shown."""
        if self.rate.planned > MOST_SQUARES:
            return []
        failed = self.rate.scored - self.rate.passed
        return ["passed"] * self.rate.passed + ["failed"] * failed + ["unscored"] * self.rate.missing


@dataclass(slots=True)
class TaskMatrix(Shaped):
    """`experiment`: None while nothing was tried. `source`: what the fits are read from, once tasks are judged."""

    experiment: Experiment | None = None
    conditions: Sequence[str] = ()
    models: int = 0
    cells: Mapping[str, Mapping[str, MatrixCell]] = field(default_factory=dict)
    source: str = ""

    json_shape = JsonShape("experiment conditions models source")

    @property
    def hidden_by(self) -> Queue | None:
        return next((cell.hidden_by for row in self.cells.values() for cell in row.values() if cell.hidden_by), None)

    @property
    def shown(self) -> list[str]:
        """Return the conditions with a trial that this reader may see."""
        seen = {condition for row in self.cells.values() for condition, cell in row.items() if cell.url}
        return [condition for condition in self.conditions if condition in seen]

    def row_of(self, task: SuiteTask) -> list[MatrixCell | None]:
        """Return the cells below `shown`; none if this reader may see no trial of the task."""
        row = self.cells.get(task.key, {})
        if row and not any(cell.url for cell in row.values()):
            return []
        return [row.get(condition) for condition in self.shown]


def read_matrix(view: SuiteView, asked: str, access: ReviewAccess) -> tuple[TaskMatrix, list[str]]:
    """Count the trials of the experiment that was asked for by its id, or else of the one that can judge most tasks,
    without those that this reader still reviews blind. Return also what of the address was not understood."""
    experiments = {str(each.public_id): each for each in view.experiments}
    problems = []
    if asked and asked not in experiments:
        problems.append(f"experiment: {asked[:80]!r} did not use this suite")
    experiment = experiments.get(asked) or _choose_experiment(view)
    if experiment is None or view.row is None:
        return TaskMatrix(), problems
    cells = _read_cells(view.row.pk, experiment.pk, experiment.public_id, access)
    found = {condition for row in cells.values() for condition in row}
    conditions = sorted(found, key=lambda code: (name_condition(code).order, code))
    models = Run.objects.filter(experiment=experiment).order_by().values("agent_model").distinct().count()
    return TaskMatrix(experiment, conditions, models, cells), problems


def _choose_experiment(view: SuiteView) -> Experiment | None:
    """Return the newest of those with enough trials without a skill for most tasks:
    a run of one trial each rates none."""
    if len(view.experiments) < 2:
        return next(iter(view.experiments), None)
    trials = Trial.objects.pooled().filter(task__suite=view.row, episode__run__experiment__in=view.experiments)
    bare = trials.filter(episode__run__condition__startswith=BARE, success__isnull=False).exclude(phase=Phase.REPLAY)
    counted = bare.order_by().values("episode__run__experiment", "task").annotate(scored=Count("pk"))
    judged = Counter(counted.filter(scored__gte=LEAST_TRIALS).values_list("episode__run__experiment", flat=True))
    return max(view.experiments, key=lambda each: judged[each.pk])


def _read_cells(suite: int, experiment: int, public_id: UUID, access: ReviewAccess) -> dict[str, dict[str, MatrixCell]]:
    """Read the cells in one query, and another one for readers who review blind."""
    by = ("task__key", "episode__run__condition")
    trials = Trial.objects.pooled().filter(task__suite=suite, episode__run__experiment=experiment)
    trials, closed = trials.exclude(phase=Phase.REPLAY).order_by(), access.closed_trials()
    counted = trials.exclude(pk__in=closed).values(*by)
    cells: dict[str, dict[str, MatrixCell]] = {}
    for each in counted.annotate(**TALLY, first=Min("phase"), last=Max("phase")):
        key, condition = (each[name] for name in by)
        asked = {"experiment": public_id, "condition": condition, "task": key}
        if each["first"] == each["last"]:
            asked["phase"] = each["first"]
        rate = Rate(each["passed"], each["scored"], each["planned"])
        url = f"{reverse('compare-trials')}?{urlencode(asked)}"
        cells.setdefault(key, {})[condition] = MatrixCell(condition, rate, url)
    if access.hides_nothing:
        return cells
    hidden = trials.filter(pk__in=closed).values_list(*by, "task", "episode__key").distinct()
    for key, condition, task, episode in hidden:
        row = cells.setdefault(key, {})
        shown = row.get(condition) or MatrixCell(condition, Rate(), "")
        row[condition] = replace(shown, hidden_by=access.closing_trial(task, episode))
    return cells


def judge_tasks(
    view: SuiteView, matrix: TaskMatrix, qualification: SuiteQualification | None, shipped: ShippedVerdicts | None
) -> None:
    """Set the fit of each task: by its qualification in this state, or by the verdicts that came along, or by trials.
    A qualification that still runs counts once nothing else judges a task."""
    by_trials = {key: _judge_row(cells) for key, cells in matrix.cells.items()}
    is_judged = bool(shipped) or any(each.fit not in UNJUDGED for each in by_trials.values())
    if qualification and qualification.is_of_this_state and not (qualification.experiment.is_open and is_judged):
        fits = {
            each.key: judge_by_verdict(
                each.admission,
                each.reasons,
                {check.name: (check.passed, check.failed) for check in each.checks if check.kept is False},
            )
            for each in qualification.tasks
        }
        source = "qualification"
    elif shipped:
        fits, source = _judge_shipped(shipped), "shipped"
    else:
        fits, source = by_trials, "trials"
    view.tasks = [replace(task, fit=fits.get(task.key, TaskFit())) for task in view.tasks]
    matrix.source = source if fits else ""


def _judge_shipped(shipped: ShippedVerdicts) -> dict[str, TaskFit]:
    return {
        each["task"]: judge_by_verdict(
            each["verdict"],
            each["reasons"],
            {check["check"]: (check["passed"], check["failed"]) for check in each["checks"] if check["kept"] is False},
        )
        for each in shipped["tasks"]
    }


@cache
def _judge_bundled(key: str) -> dict[str, TaskFit]:
    shipped = read_shipped(find_suite(key))
    return _judge_shipped(shipped) if shipped else {}


def list_answers(sizes: Mapping[str, int], access: ReviewAccess) -> dict[str, str]:
    """Return, by key of a suite, what its page says about its fit without a qualification made here; empty where no
    task is judged. `sizes`: number of tasks by key. One query, and another one for readers who review blind."""
    trials = Trial.objects.pooled().filter(task__suite__key__in=sizes).exclude(phase=Phase.REPLAY)
    closed = access.closed_trials()
    counted = trials.exclude(pk__in=closed).order_by("-episode__run__experiment__created_at")
    by = ("task__suite__key", "episode__run__experiment", "task__key", "episode__run__condition")
    cells: dict[str, dict[int, dict[str, dict[str, MatrixCell]]]] = {}
    for each in counted.values(*by, "episode__run__experiment__created_at").annotate(**TALLY):
        suite, experiment, task, condition = (each[name] for name in by)
        rate = Rate(each["passed"], each["scored"], each["planned"])
        row = cells.setdefault(suite, {}).setdefault(experiment, {}).setdefault(task, {})
        row[condition] = MatrixCell(condition, rate, "")
    hidden = trials.none() if access.hides_nothing else trials.filter(pk__in=closed).order_by()
    for suite, experiment, key, task, episode in hidden.values_list(*by[:3], "task", "episode__key").distinct():
        row = cells.setdefault(suite, {}).setdefault(experiment, {}).setdefault(key, {})
        row["hidden"] = MatrixCell("hidden", Rate(), "", access.closing_trial(task, episode))
    found = {}
    for key, size in sizes.items():
        fits = _judge_bundled(key) if key in SUITES else {}
        if not fits:
            by_experiment = [{task: _judge_row(row) for task, row in of.items()} for of in cells.get(key, {}).values()]
            # As the suite's page: the newest of those that judge most tasks.
            fits = max(
                by_experiment, key=lambda fits: sum(fit.fit not in UNJUDGED for fit in fits.values()), default={}
            )
        unknown = [TaskFit()] * (size - len(fits))
        found[key] = summarise_fit([*fits.values(), *unknown])[0]
    return found


def _judge_row(cells: Mapping[str, MatrixCell]) -> TaskFit:
    if any(cell.hidden_by for cell in cells.values()):
        return TaskFit(Fit.HIDDEN)
    alone = sum((cell.rate for condition, cell in cells.items() if base_name(condition) == BARE), Rate())
    skilled = (cell.rate for condition, cell in cells.items() if base_name(condition) not in TRACES | {BARE})
    return judge_by_trials(alone, sum(skilled, Rate()))

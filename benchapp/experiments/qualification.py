"""Qualify a suite: the experiment's file, the current one for the suite's state, its verdict on each task (admit,
reject or look, with the runs behind it), and whether a task can show that skills help. Verdicts read only rows of
trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from django.db.models import Count, Q, Sum

from benchapp.experiments.launch_spec import try_spec
from benchapp.experiments.plans import rules_of
from benchapp.models import Attempt, Episode, Experiment, Run, Trial
from benchapp.record.json_shape import JsonShape, QueryRow, Shaped
from benchapp.stats.inference.shares import Rate
from runner.agents.oracle import digest_traps, has_solution, has_trap
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.text import plural
from runner.base.var_folder import MANAGE
from runner.protocols.plan import CHECKS, Rule
from runner.protocols.qualification import (
    CONDITIONS,
    MUST_PASS,
    NO_SKILL,
    REFERENCE,
    SOLUTION,
    TRAP,
    UNTOUCHED,
    WITH_CORPUS,
    find_check,
    find_condition_of,
)
from runner.protocols.registry import QUALIFICATION
from runner.protocols.stages import iterate_counted_tasks


class Fit(StrEnum):
    """How well a task fits, in the order of every list."""

    FIT = "fit"
    EASY = "too-easy"
    UNSOLVED = "never-solved"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    HIDDEN = "hidden"  # from a reader who still reviews its trials blind

    @property
    def words(self) -> str:
        return "not solved" if self is Fit.UNSOLVED else self.value.replace("-", " ")


TOO_EASY = 0.5  # more of the trials without a skill pass
LEAST_TRIALS = 2  # of a task, before its difficulty is judged
_KINDS = {"no_skill": Fit.EASY, "no_corpus": Fit.EASY, "with_corpus": Fit.EASY, "reference": Fit.UNSOLVED}


class CheckWords(NamedTuple):
    """`means`: what is done. `broken`: what a broken rule means. `tried`: how tasks are tried, of those that judge
    whether a task is fit. `lacks`: why there may be no trial."""

    title: str
    means: str
    broken: str
    tried: str = ""
    lacks: str = "not tried"


CHECK_WORDS = {
    "solution": CheckWords(
        "Own solution",
        "the task's own solution is run",
        "its own solution fails",
        lacks="it has no solution of its own",
    ),
    "untouched": CheckWords("Untouched", "nobody works on the task's files", "the untouched files pass"),
    "trap": CheckWords(
        "Wrong answer",
        "a wrong answer that the task declares is given",
        "the wrong answer that it declares passes",
    ),
    "no_skill": CheckWords("No skill", "an agent tries it without skills", "solved without a skill", "without a skill"),
    "no_corpus": CheckWords(
        "No corpus", "an agent tries it without the corpus", "solved without the corpus", "without the corpus"
    ),
    "with_corpus": CheckWords(
        "With corpus",
        "an agent tries it with the corpus alone",
        "solved with the corpus alone",
        "with the corpus alone",
    ),
    "reference": CheckWords(
        "Reference skill",
        "an agent tries it with the skill that comes with the suite",
        "fails with the reference skill",
        "with the reference skill",
        "there is no reference skill",
    ),
}


@dataclass(frozen=True, slots=True)
class TaskFit(Shaped):
    """`why`: the count or the reason behind it; empty if there is nothing to add."""

    fit: Fit = Fit.UNKNOWN
    why: str = ""

    json_shape = JsonShape("fit why?")


def judge_by_trials(alone: Rate, skilled: Rate) -> TaskFit:
    """`alone`: trials without a skill. `skilled`: trials with a skill. One trial decides nothing."""
    if alone.scored < LEAST_TRIALS:
        return TaskFit(why=f"{alone.scored or 'no'} trial without a skill")
    if alone.passed > TOO_EASY * alone.scored:
        return TaskFit(Fit.EASY, f"{alone.passed} of {alone.scored} without a skill")
    if skilled.passed:
        return TaskFit(Fit.FIT)
    if skilled.scored < LEAST_TRIALS:
        return TaskFit(why=f"{skilled.scored or 'no'} trial with a skill")
    return TaskFit(Fit.UNSOLVED, f"in {skilled.scored} trials with a skill")


def judge_by_verdict(admission: str, reasons: Sequence[str], broken: Mapping[str, tuple[int, int]]) -> TaskFit:
    """`broken`: (passed, failed) of each check whose rule the task breaks. A fault of the task itself counts before its
    difficulty, and its reason is given in full; of difficulty the count is enough."""
    if admission == "admit":
        return TaskFit(Fit.FIT)
    kinds = {_KINDS.get(name, Fit.BROKEN): name for name in broken}
    kind = next((fit for fit in (Fit.BROKEN, Fit.UNSOLVED, Fit.EASY) if fit in kinds), Fit.UNKNOWN)
    if kind in (Fit.UNSOLVED, Fit.EASY):
        passed, failed = broken[kinds[kind]]
        return TaskFit(kind, f"{passed} of {passed + failed} {CHECK_WORDS[kinds[kind]].tried}")
    return TaskFit(kind, reasons[0] if reasons else "")


def summarise_fit(fits: Sequence[TaskFit], skill: str = "a skill") -> tuple[str, str]:
    """Return the answer in one sentence, and the line of evidence below it; both empty if nothing is known. `skill`:
    what the tasks were tried with."""
    counts = {kind: sum(each.fit is kind for each in fits) for kind in Fit}
    hidden = counts[Fit.HIDDEN]
    known = len(fits) - counts[Fit.UNKNOWN] - hidden
    if not known:
        return "", ""
    names = {
        Fit.EASY: "too easy without a skill",
        Fit.UNSOLVED: f"not solved with {skill}",
        Fit.BROKEN: "broken",
        Fit.UNKNOWN: "unknown",
    }
    parts = [f"{counts[kind]} {words}" for kind, words in names.items() if counts[kind]]
    evidence = f"{', '.join(parts)}." if parts else ""
    tasks = plural(len(fits), "task")
    if hidden:
        shown = f"{counts[Fit.FIT] or 'None'} of the {len(fits) - hidden:,} tasks that you may see can show whether"
        return f"{shown} skills help; {hidden:,} {'is' if hidden == 1 else 'are'} hidden until you finish.", evidence
    if counts[Fit.UNKNOWN]:
        many = f"{counts[Fit.FIT] or 'none'} of them can show whether skills help"
        return f"{known:,} of {tasks} {'is' if known == 1 else 'are'} judged so far; {many}.", evidence
    return f"{counts[Fit.FIT] or 'None'} of {tasks} can show whether skills help.", evidence


def name_check(condition: str) -> str:
    """Return the short name of a qualification's check; empty for any other condition."""
    return CHECK_WORDS[find_check(condition, has_corpus=False)].title if condition in CONDITIONS else ""


def say_result(condition: str, passed: int, scored: int) -> str:
    """Return "2 of 17 passed", or "6 of 6 as expected" of a check whose trials must all pass, or all fail."""
    must_pass = MUST_PASS.get(condition)
    kept = scored - passed if must_pass is False else passed
    return f"{kept:,} of {scored:,} {'passed' if must_pass is None else 'as expected'}"


def find_rule(episode: Episode) -> Rule | None:
    """Return the rule of the check that this episode makes; None outside a qualification."""
    spec, _ = try_spec(episode.run.experiment.spec) if episode.run.is_qualification else (None, None)
    if spec is None or not spec.qualification:
        return None
    has_corpus = bool(episode.environment and episode.environment.kind)
    return rules_of(spec.qualification).get(find_check(episode.run.condition, has_corpus=has_corpus))


RATES = (0.1, 0.3, 0.5, 0.7, 0.9)  # true rates; a page shows how often a rule is kept at each
_ORDER = (
    *("episode__environment__ordinal", "episode__environment__key", "task__family__ordinal", "task__family__key"),
    *("task__ordinal", "task__key"),
)
_BY = (
    *("episode__run__experiment", "task__key", "task__title", "task__family__name"),
    *("episode__run__condition", "episode__environment__kind"),
)
# the script that was to give a wrong one broke off
_GAVE_NO_ANSWER = Q(episode__run__condition=TRAP) & ~Q(exception_type="")
_COUNTS = {
    "passed": Count("pk", filter=Q(success=True)),
    "failed": Count("pk", filter=Q(success=False) & ~_GAVE_NO_ANSWER),
    "blocked": Count("pk", filter=Q(status=Trial.Status.BLOCKED)),
    "open": Count("pk", filter=Q(status__in=[Trial.Status.WAITING, Trial.Status.RUNNING])),
    "trials": Count("pk"),
    "seconds": Sum("duration_seconds"),
    "cost_usd": Sum("cost_usd"),
}


DIGITS = 9  # of seconds and dollars


class Admission(StrEnum):
    """The verdict on a task. `look`: evidence is missing, and a person decides what that means."""

    ADMIT = "admit"
    REJECT = "reject"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class TaskCheck(Shaped):
    """The runs of one task under one check. `seconds` and `cost_usd`: of all of them; None if none is known."""

    name: str
    condition: str
    rule: Rule
    passed: int = 0
    failed: int = 0
    blocked: int = 0
    open: int = 0
    trials: int = 0
    seconds: float | None = None
    cost_usd: float | None = None
    is_asked: bool = True  # under some run of the experiment
    same_files: bool | None = None  # of a verdict that wavers: on equal files? None if unknown
    url: str = ""  # page of these trials, added by the page

    json_shape = JsonShape(
        "check=name condition passed failed trials runs=rule.runs least=rule.least most=rule.most kept wavers",
        "seconds cost_usd url?",
    )

    @property
    def title(self) -> str:
        return CHECK_WORDS[self.name].title

    @property
    def scored(self) -> int:
        return self.passed + self.failed

    @property
    def kept(self) -> bool | None:
        """Is the rule kept? None if unknown."""
        return self.rule.is_kept(self.passed, self.failed)

    @property
    def wavers(self) -> bool:
        """Do the same files, or the same script, get different verdicts?"""
        return self.name in ("solution", "untouched") and self.passed > 0 and self.failed > 0

    @property
    def reason(self) -> str:
        """Explain why this check admits nothing; empty if its rule is kept."""
        if self.kept:
            return ""
        counted = f"{self.passed} of {self.scored} passed, expected {self.rule}"
        if self.wavers:
            return f"{self._wavering}: {counted}"
        if self.kept is False:
            return f"{CHECK_WORDS[self.name].broken}: {counted}"
        return f"{self.title.lower()}: {self._missing}"

    @property
    def _wavering(self) -> str:
        """Explain whose fault it is, as far as the files that were left show it."""
        if self.name == "untouched":
            return "the verifier wavers on untouched files"
        if self.same_files:
            return "the verifier wavers on the same files, left by its own solution"
        if self.same_files is None:
            return "the verdict on its own solution wavers"
        return "its own solution wavers: it leaves other files where it fails"

    @property
    def _missing(self) -> str:
        if not self.is_asked:
            return "not tried"
        if not self.trials:
            return CHECK_WORDS[self.name].lacks
        states = (("blocked", self.blocked), ("still to run", self.open))
        missing = [f"{count} of {self.rule.runs} trials {word}" for word, count in states if count]
        silent = self.trials - self.scored - self.blocked - self.open
        return ", ".join([*missing, *([f"{silent} of {self.rule.runs} trials without a verdict"] if silent else [])])


@dataclass(frozen=True, slots=True)
class TaskVerdict(Shaped):
    """One task of a qualification. `rank`: its place by difficulty, 1 the easiest; equal ones share it; None if no
    model was asked."""

    key: str
    title: str
    family: str
    checks: tuple[TaskCheck, ...]
    rank: int | None = None

    json_shape = JsonShape("task=key title family? verdict=admission reasons rank seconds cost_usd checks")

    @property
    def admission(self) -> Admission:
        """Return the verdict. A broken rule decides, even if other evidence is missing."""
        answers = {each.kept for each in self.checks}
        if False in answers:
            return Admission.REJECT
        return Admission.LOOK if None in answers or not answers else Admission.ADMIT

    @property
    def reasons(self) -> list[str]:
        """Return the reasons for the verdict: the broken rules, or else what is missing."""
        broken = [each.reason for each in self.checks if each.kept is False]
        missing = [each.reason for each in self.checks if each.kept is None]
        return broken or missing or ([] if self.checks else ["no rule is on record for it"])

    @property
    def seconds(self) -> float | None:
        return _add(each.seconds for each in self.checks)

    @property
    def cost_usd(self) -> float | None:
        return _add(each.cost_usd for each in self.checks)

    @property
    def ease(self) -> tuple[float, float] | None:
        """Return the shares that passed without a skill and with the reference skill."""
        shares = {each.name: each.passed / each.scored for each in self.checks if each.scored}
        alone = shares.get("no_skill", shares.get("no_corpus"))
        return None if alone is None else (alone, shares.get("reference", 0.0))


def _add(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), DIGITS) if known else None


def read_verdicts(qualification: Experiment) -> list[TaskVerdict]:
    """Return verdicts in the order of the suite. Two queries, and a third if a verdict wavers; no blob."""
    return read_verdicts_of([qualification])[qualification.pk]


def read_verdicts_of(qualifications: Sequence[Experiment]) -> dict[int, list[TaskVerdict]]:
    """Return verdicts by the key of the experiment, in as many queries as for one."""
    tried: dict[int, set[str]] = {each.pk: set() for each in qualifications}
    runs = Run.objects.filter(experiment__in=qualifications).order_by()
    for experiment, condition in runs.values_list("experiment", "condition").distinct():
        tried[experiment].add(condition)
    rows: dict[int, dict[str, list[QueryRow]]] = {each.pk: {} for each in qualifications}
    trials = Trial.objects.filter(episode__run__experiment__in=qualifications).order_by(*_ORDER).values(*_BY)
    for row in trials.annotate(**_COUNTS).values(*_BY, *_COUNTS):
        rows[row["episode__run__experiment"]].setdefault(row["task__key"], []).append(row)
    verdicts = {}
    for each in qualifications:
        spec, _ = try_spec(each.spec)  # an import may have any file, or none
        rules = rules_of(spec.qualification) if spec and spec.qualification else {}
        verdicts[each.pk] = _rank([_judge(found, rules, tried[each.pk]) for found in rows[each.pk].values()])
    wavering = {task.key for tasks in verdicts.values() for task in tasks for each in task.checks if each.wavers}
    alike = _compare_files(qualifications, wavering) if wavering else {}

    def compare(experiment: int, task: TaskVerdict) -> TaskVerdict:
        found = (replace(each, same_files=alike.get((experiment, task.key, each.condition))) for each in task.checks)
        return replace(task, checks=tuple(found))

    return {key: [compare(key, task) for task in tasks] for key, tasks in verdicts.items()}


def _compare_files(qualifications: Sequence[Experiment], tasks: set[str]) -> dict[tuple[int, str, str], bool]:
    """Return (experiment, task, condition) -> did runs that left the same files get different verdicts? Runs that
    report no files are left out."""
    counting = Attempt.objects.filter(
        counts=True, trial__episode__run__experiment__in=qualifications, trial__task__key__in=tasks
    )
    verdicts: dict[tuple[int, str, str], dict[str, set[bool]]] = {}
    place = ("trial__episode__run__experiment", "trial__task__key", "trial__episode__run__condition")
    for *at, files, success in counting.exclude(trial__success=None).values_list(
        *place, "files_digest", "trial__success"
    ):
        verdicts.setdefault((at[0], at[1], at[2]), {}).setdefault(files, set()).add(success)
    return {at: any(len(each) > 1 for each in found.values()) for at, found in verdicts.items() if "" not in found}


def say_verdicts(tasks: Sequence[TaskVerdict]) -> str:
    """Summarise all of them in one sentence."""
    counts = count_admissions(tasks)
    waiting = sum(each.admission is Admission.LOOK and any(check.open for check in each.checks) for each in tasks)
    if waiting == len(tasks):
        return f"No verdict yet on {plural(len(tasks), 'task')}." if waiting else "No task was tried."
    admitted, total = counts[Admission.ADMIT], plural(len(tasks), "task")
    if admitted == len(tasks) > 1:
        return f"All {total} are admitted."
    others = {"rejected": counts[Admission.REJECT], "to look at": counts[Admission.LOOK] - waiting}
    others["still running"] = waiting
    parts = [f"{admitted or 'None'} of {total} {'is' if admitted < 2 else 'are'} admitted"]
    parts += [f"{count:,} {words}" for words, count in others.items() if count]
    return f"{', '.join(parts)}."


def sum_up_checks(tasks: Sequence[TaskVerdict]) -> list[dict[str, object]]:
    """Return, for each check, how many of its trials are done and how many tasks keep or break its rule."""
    found: dict[str, list[TaskCheck]] = {}
    for check in (check for each in tasks for check in each.checks):
        found.setdefault(check.name, []).append(check)
    return [
        {
            "title": CHECK_WORDS[name].title,
            "means": CHECK_WORDS[name].means,
            "condition": checks[0].condition,
            "rule": str(checks[0].rule),
            "trials": sum(each.trials for each in checks),
            "done": sum(each.trials - each.open for each in checks),
            "tasks": len(checks),
            "kept": sum(each.kept is True for each in checks),
            "broken": sum(each.kept is False for each in checks),
        }
        for name, checks in sorted(found.items(), key=lambda each: list(CHECK_WORDS).index(each[0]))
    ]


def count_admissions(tasks: Sequence[TaskVerdict]) -> dict[str, int]:
    found = Counter(each.admission for each in tasks)
    return {each.value: found[each] for each in Admission}


def _judge(rows: Sequence[QueryRow], rules: Mapping[str, Rule], tried: set[str]) -> TaskVerdict:
    """`rows`: the counts of one task, one for each condition."""
    first, has_corpus = rows[0], bool(rows[0]["episode__environment__kind"])
    counts = {find_check(row["episode__run__condition"], has_corpus=has_corpus): row for row in rows}
    without = {"no_skill"} if has_corpus else {"no_corpus", "with_corpus"}
    without |= {"trap"} - counts.keys()  # it declares no wrong answer
    checks = []
    for name in CHECKS:
        if name in rules and name not in without:
            condition = find_condition_of(name)
            found = {each: counts[name][each] for each in _COUNTS} if name in counts else {}
            for amount in ("seconds", "cost_usd"):  # the last digits depend on the order of addition in the database
                if found.get(amount) is not None:
                    found[amount] = round(found[amount], DIGITS)
            checks.append(TaskCheck(name, condition, rules[name], **found, is_asked=condition in tried))
    return TaskVerdict(first["task__key"], first["task__title"], first["task__family__name"] or "", tuple(checks))


def _rank(verdicts: Sequence[TaskVerdict]) -> list[TaskVerdict]:
    known = [each.ease for each in verdicts if each.ease is not None]
    return [
        each if each.ease is None else replace(each, rank=1 + sum(other > each.ease for other in known))
        for each in verdicts
    ]


def write_file(
    suite: Suite, *, model: str | None = None, agent: str = "shell", rules: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return the experiment file. Without a model it has only the checks that need none."""
    asking = {} if model is None else {"agents": [agent], "agent_models": [model]}
    return {
        "name": f"Qualification of {suite.name:.250}",
        "suite": suite.key,
        "protocol": QUALIFICATION,
        "conditions": list(_list_checks(suite, asks_model=model is not None)),
        **(asking or {"agents": ["oracle"], "agent_models": [None]}),
        "replicates": 1,
        "sandbox": "local" if suite.trusted else "docker",
        **({"qualification": dict(rules)} if rules else {}),
    }


def _list_checks(suite: Suite, *, asks_model: bool) -> Iterator[str]:
    """List the checks that at least one task supports."""
    if any(map(has_solution, iterate_counted_tasks(suite))):
        yield SOLUTION
    yield UNTOUCHED
    if any(map(has_trap, iterate_counted_tasks(suite))):
        yield TRAP
    if not asks_model:
        return
    yield NO_SKILL
    if any(environment.corpus for environment in suite.environments):
        yield WITH_CORPUS
    if any(family.curated for family in suite.families):
        yield REFERENCE


def find_qualification(key: str, digest: str = "") -> Experiment | None:
    """Return the newest that ended, over this state of the suite or any, for pages and launches. While none has ended,
    return the newest that runs."""
    found = Experiment.objects.not_deleted().qualifications().filter(suite__key=key).order_by("-created_at", "-pk")
    if digest:
        found = found.filter(pk__in=Run.objects.filter(setup__suite__digest=digest).values("experiment"))
    return next((each for each in found if not each.is_open), found.first())


def list_qualifications(digests: Mapping[str, str]) -> dict[str, tuple[Experiment, str]]:
    """Return suite -> its qualification, and the state of the suite that it tried. `digests`: the current states. The
    current state is preferred, then one that ended, then the newest. Two queries."""
    found = Experiment.objects.not_deleted().qualifications().filter(suite__key__in=digests).select_related("suite")
    tried: dict[int, list[str]] = {}
    runs = Run.objects.filter(experiment__in=found).order_by("pk").values_list("experiment", "setup__suite__digest")
    for experiment, digest in runs:
        tried.setdefault(experiment, []).append(str(digest or ""))
    best: dict[str, tuple[Experiment, str]] = {}
    for each in found.order_by("created_at", "pk"):
        key = each.suite.key if each.suite else ""
        states = tried.get(each.pk, [""])
        state = digests[key] if digests[key] and digests[key] in states else states[0]
        known = best.get(key)
        if known is None or _prefer(each, state, digests[key]) >= _prefer(*known, digests[key]):
            best[key] = (each, state)
    return best


def _prefer(qualification: Experiment, state: str, current: str) -> tuple[bool, bool]:
    return state == current, not qualification.is_open


def has_tried_traps(qualification: Experiment, suite: Suite) -> bool:
    """Return whether it tried the wrong answers that the suite declares now. No digest of a task covers them."""
    if not any(map(has_trap, iterate_counted_tasks(suite))):
        return True
    return qualification.runs.filter(condition=TRAP, setup__traps=digest_traps(suite)).exists()


def list_admitted(suite: Suite) -> tuple[str, ...]:
    """List the keys of the tasks that the suite's qualification admits, in the suite's order. Raise SetupError if none
    ended for this state of the suite, or it admits none."""
    found = find_qualification(suite.key, suite.digest)
    if found is None or found.is_open:
        message = f"a qualification of {suite.key} in its present state {'still runs' if found else 'is not on record'}"
        raise SetupError(f"{message} (expected one that ended: {MANAGE} qualify_suite {suite.key})")
    admitted = {each.key for each in read_verdicts(found) if each.admission is Admission.ADMIT}
    if not admitted:
        raise SetupError(f"the qualification of {suite.key} admits none of its tasks (/suites/{suite.key}/ says why)")
    return tuple(task.key for task in iterate_counted_tasks(suite) if task.key in admitted)

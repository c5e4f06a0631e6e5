"""A qualification's verdict on each task: admit, reject or look, with the runs behind it. Reads only rows of trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from django.db.models import Count, Q, Sum

from benchapp.experiments.launch_spec import try_spec
from benchapp.experiments.plans import rules_of
from benchapp.models import Attempt, Experiment, Run, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from runner.protocols.plan import CHECKS, Rule
from runner.protocols.qualification import TRAP, find_check, find_condition_of

CHECK_WORDS = {
    "solution": "Own solution",
    "untouched": "Untouched",
    "trap": "Wrong answer",
    "no_skill": "No skill",
    "no_corpus": "No corpus",
    "with_corpus": "With corpus",
    "reference": "Reference skill",
}
RATES = (0.1, 0.3, 0.5, 0.7, 0.9)  # true rates; a page shows how often a rule is kept at each
_BROKEN = {
    "solution": "its own solution fails",
    "untouched": "the untouched files pass",
    "trap": "the wrong answer that it declares passes",
    "no_skill": "solved without a skill",
    "no_corpus": "solved without the corpus",
    "with_corpus": "solved with the corpus alone",
    "reference": "fails with the reference skill",
}
_LACKS = {
    "solution": "it has no solution of its own",
    "reference": "there is no reference skill",
}
_ORDER = (
    *("episode__environment__ordinal", "episode__environment__key", "task__family__ordinal", "task__family__key"),
    *("task__ordinal", "task__key"),
)
_BY = (
    *("episode__run__experiment", "task__key", "task__title", "task__family__name"),
    *("episode__run__condition", "episode__environment__kind"),
)
_GAVE_NO_ANSWER = Q(episode__run__condition=TRAP) & ~Q(
    exception_type=""
)  # the script that was to give a wrong one broke off
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
        *("check=name", "condition", "passed", "failed", "trials", "runs=rule.runs"),
        *("least=rule.least", "most=rule.most", "kept", "wavers", "seconds", "cost_usd", "url?"),
    )

    @property
    def title(self) -> str:
        return CHECK_WORDS[self.name]

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
            return f"{_BROKEN[self.name]}: {counted}"
        return f"{self.title.lower()}: {self._missing}"

    @property
    def _wavering(self) -> str:
        """Explain whose fault it is, as far as the files that were left show it."""
        if self.name == "untouched":
            return "the verifier wavers on untouched files"
        if self.same_files:
            return "the verifier wavers on the same files, left by its own solution"
        return (
            "the verdict on its own solution wavers"
            if self.same_files is None
            else "its own solution wavers: it leaves other files where it fails"
        )

    @property
    def _missing(self) -> str:
        if not self.is_asked:
            return "not tried"
        if not self.trials:
            return _LACKS.get(self.name, "not tried")
        states = (("blocked", self.blocked), ("still to run", self.open))
        told = [f"{count} of {self.rule.runs} runs {word}" for word, count in states if count]
        silent = self.trials - self.scored - self.blocked - self.open
        return ", ".join([*told, *([f"{silent} of {self.rule.runs} runs without a verdict"] if silent else [])])


@dataclass(frozen=True, slots=True)
class TaskVerdict(Shaped):
    """One task of a qualification. `rank`: its place by difficulty, 1 the easiest; equal ones share it; None if no
    model was asked."""

    key: str
    title: str
    family: str
    checks: tuple[TaskCheck, ...]
    rank: int | None = None

    json_shape = JsonShape(
        *("task=key", "title", "family?", "verdict=admission", "reasons", "rank", "seconds", "cost_usd", "checks")
    )

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
        return (
            broken
            or [each.reason for each in self.checks if each.kept is None]
            or ([] if self.checks else ["no rule is on record for it"])
        )

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


class TrialCounts(NamedTuple):
    """Counts of one task under one condition."""

    experiment: int
    key: str
    title: str
    family: str | None
    condition: str
    corpus: str | None  # its kind; empty: there is none
    passed: int
    failed: int
    blocked: int
    open: int
    trials: int
    seconds: float | None
    cost_usd: float | None


def read_verdicts(qualification: Experiment) -> list[TaskVerdict]:
    """Return verdicts in the order of the suite. Two queries, and a third if a verdict wavers; no blob."""
    return read_verdicts_of([qualification])[qualification.pk]


def read_verdicts_of(qualifications: Sequence[Experiment]) -> dict[int, list[TaskVerdict]]:
    """Return verdicts by the key of the experiment, in as many queries as for one."""
    tried: dict[int, set[str]] = {each.pk: set() for each in qualifications}
    runs = Run.objects.filter(experiment__in=qualifications).order_by()
    for experiment, condition in runs.values_list("experiment", "condition").distinct():
        tried[experiment].add(condition)
    rows: dict[int, dict[str, list[TrialCounts]]] = {each.pk: {} for each in qualifications}
    for row in _count_trials(qualifications):
        rows[row.experiment].setdefault(row.key, []).append(row)
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
    told = {Admission.ADMIT: "admitted", Admission.REJECT: "rejected", Admission.LOOK: "to look at"}
    counts = count_admissions(tasks)
    parts = [f"{counts[each]:,} {words}" for each, words in told.items() if counts[each]]
    return f"{len(tasks):,} tasks: {', '.join(parts)}." if parts else "No task was tried."


def count_admissions(tasks: Sequence[TaskVerdict]) -> dict[str, int]:
    found = Counter(each.admission for each in tasks)
    return {each.value: found[each] for each in Admission}


def _count_trials(qualifications: Sequence[Experiment]) -> Iterator[TrialCounts]:
    trials = Trial.objects.filter(episode__run__experiment__in=qualifications).order_by(*_ORDER).values(*_BY)
    return map(TrialCounts._make, trials.annotate(**_COUNTS).values_list(*_BY, *_COUNTS))


def _judge(rows: Sequence[TrialCounts], rules: Mapping[str, Rule], tried: set[str]) -> TaskVerdict:
    """`rows`: of one task, one for each condition."""
    first = rows[0]
    counts = {find_check(row.condition, has_corpus=bool(first.corpus)): row for row in rows}
    without = {"no_skill"} if first.corpus else {"no_corpus", "with_corpus"}
    without |= {"trap"} - counts.keys()  # it declares no wrong answer
    names = [name for name in CHECKS if name in rules and name not in without]
    checks = tuple(_build_check(name, rules[name], counts.get(name), tried) for name in names)
    return TaskVerdict(first.key, first.title, first.family or "", checks)


def _build_check(name: str, rule: Rule, row: TrialCounts | None, tried: set[str]) -> TaskCheck:
    condition = find_condition_of(name)
    found = {each: value for each, value in row._asdict().items() if each in _COUNTS} if row else {}
    for amount in ("seconds", "cost_usd"):  # the last digits depend on the order of addition in the database
        if found.get(amount) is not None:
            found[amount] = round(found[amount], DIGITS)
    return TaskCheck(name, condition, rule, **found, is_asked=condition in tried)


def _rank(verdicts: Sequence[TaskVerdict]) -> list[TaskVerdict]:
    known = [each.ease for each in verdicts if each.ease is not None]
    return [
        each if each.ease is None else replace(each, rank=1 + sum(other > each.ease for other in known))
        for each in verdicts
    ]

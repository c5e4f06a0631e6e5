"""What the rules of a trial look at, read from its rows. The steps are read once, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.analysis.failures.classification import CheckMessage, VerifierRefusal
from benchapp.analysis.failures.quotes import keep_answers
from benchapp.analysis.trial_rules.course import Course, read_course
from benchapp.models import Attempt, Trial
from benchapp.record.trajectory_store import iterate_steps
from runner.base.types import CheckStatus, UseKind

CHECKS = 200  # failed checks looked at
MESSAGE_CHARS = 4_000  # of a check's message, from its end: that is where a test runner says what was wrong
BEGINNING_CHARS = 200  # of a longer one: that is where a declared evaluation says what kind of failure it is
OUTPUT_CHARS = 20_000  # of the verifier's output, from its end


@dataclass(frozen=True, slots=True)
class CheckFact:
    """A check that did not pass."""

    group: str
    name: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """success None: no verdict. course None: no trajectory was recorded. mounted None: unknown."""

    success: bool | None
    exception_type: str = ""
    exception_message: str = ""
    checks: tuple[CheckFact, ...] = ()
    checks_total: int | None = None
    output: str = ""
    mounted: frozenset[str] | None = None
    read: tuple[tuple[str, int | None], ...] = ()  # skill, step
    course: Course | None = None
    source: str = ""  # kind of the corpus its task is from; empty: it has none

    @property
    def failed(self) -> bool:
        return self.success is False

    @property
    def verifier_texts(self) -> tuple[str, ...]:
        """Return messages of failed checks, else the end of the verifier's output; for pytest only the answers."""
        messages = [check.message for check in self.checks if check.message] or [self.output] * bool(self.output)
        return tuple(map(keep_answers, messages))

    @property
    def refusal(self) -> VerifierRefusal:
        """Return what the classifier of failures looks at."""
        output = "" if any(check.message for check in self.checks) else keep_answers(self.output)
        course = self.course
        return VerifierRefusal(
            source=self.source,
            checks=tuple(CheckMessage(check.name, keep_answers(check.message)) for check in self.checks),
            output=output,
            exception=f"{self.exception_type}: {self.exception_message}" if self.exception_type else "",
            missing=course.most_missing if course else (),
            steps_total=course.steps_total if course else 0,
        )


def cut_both_ends(message: str) -> str:
    if len(message) <= MESSAGE_CHARS:
        return message
    return f"{message[:BEGINNING_CHARS]}\n{message[-MESSAGE_CHARS:]}"


def read_trial_facts(trial: Trial) -> TrialFacts:
    """Read the facts of the counting attempt. Five queries, and one for each chunk of steps."""
    attempt = trial.counting_attempt()
    if attempt is None:
        return TrialFacts(success=trial.success)
    verdict = attempt.verdicts.filter(is_primary=True).select_related("output").first()
    checks = verdict.checks.exclude(status=CheckStatus.PASSED).exclude(status=CheckStatus.SKIPPED) if verdict else ()
    mounted, read = _read_skills(attempt, knows_mounted=trial.skills_mounted is not None)
    main = attempt.trajectories.filter(is_superseded=False, kind="main").first()
    return TrialFacts(
        success=trial.success,
        exception_type=attempt.exception_type,
        exception_message=attempt.exception_message[-MESSAGE_CHARS:],
        checks=tuple(
            CheckFact(check.group, check.name, check.status, cut_both_ends(check.message)) for check in checks[:CHECKS]
        ),
        checks_total=trial.checks_total,
        output=verdict.output.content()[-OUTPUT_CHARS:].decode("utf-8", "replace")
        if verdict and verdict.output
        else "",
        mounted=mounted,
        read=read,
        course=read_course(iterate_steps(main)) if main else None,
        source=_find_source(trial),
    )


def _find_source(trial: Trial) -> str:
    family = trial.task.family
    return family.environment.kind if family and family.environment else ""


def _read_skills(
    attempt: Attempt, *, knows_mounted: bool
) -> tuple[frozenset[str] | None, tuple[tuple[str, int | None], ...]]:
    """Return the skills mounted, and each skill used with its first step."""
    mounted: set[str] = set()
    first: dict[str, int | None] = {}
    for skill, kind, step in attempt.skill_uses.order_by("step", "id").values_list("skill", "kind", "step"):
        if kind == UseKind.MOUNTED:
            mounted.add(skill)
        else:
            first.setdefault(skill, step)
    return (frozenset(mounted) if knows_mounted else None), tuple(first.items())

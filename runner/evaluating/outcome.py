"""The result of one case or one artifact: its checks, with names and words that let a reader or a rule see the cause.

A check's name is its stage and its subject: "run: NAME", "precheck: NAME", "compare: NAME", "judge: NAME". A stage
that was not reached is skipped. The message of a failed check begins with a marker:

| name       | marker                                        | what it points to                             |
|------------|-----------------------------------------------|-----------------------------------------------|
| run:       | exit, time, ended, ruined                     | runtime or dependency (stderr's end follows)  |
| precheck:  | missing, outside, link, special, unreadable   | asset or artifact: there is no usable file    |
| precheck:  | size, format, resolution, duration            | asset or artifact: the file is of another kind|
| precheck:  | columns, rows, schema                         | interface or schema                           |
| compare:   | numeric; "table, numbers"; "json, numbers"    | number or formula: only numbers are off       |
| compare:   | exact, text, table, json, pixels              | state or rule: the content is another         |
| judge:     | score                                         | state or rule, in a model's opinion           |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from runner.base.types import Check, CheckGroup, CheckStatus
from runner.evaluating.comparisons.comparison import Comparator, OutputComparison, PrecheckFailed
from runner.evaluating.prechecks import Precheck
from runner.evaluating.submission import Ran

RUN, PRECHECK, COMPARE, JUDGE = "run", "precheck", "compare", "judge"
NOT_REACHED = "not reached: an earlier stage failed"


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of checks: one case, or the artifact."""

    name: str
    group: CheckGroup

    def pass_stage(self, stage: str, message: str = "", seconds: float | None = None) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.PASSED, message, seconds)

    def fail_stage(self, stage: str, message: str, seconds: float | None = None) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.FAILED, message, seconds)

    def skip_stage(self, stage: str, message: str = NOT_REACHED) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.SKIPPED, message)

    def unknown(self, stage: str, message: str) -> Check:
        return Check(self.group, f"{stage}: {self.name}", CheckStatus.ERROR, message)

    def check_comparison(self, comparator: Comparator, comparison: OutputComparison) -> Check:
        among = ", numbers" if comparison.numbers_only and comparator.kind != "numeric" else ""
        message = f"{comparator.kind}{among}: {comparison.message}" if comparison.message else ""
        return (self.pass_stage if comparison.passed else self.fail_stage)(COMPARE, message)


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """Grows stage by stage. `comparison` is None if it was not reached or nothing is compared."""

    subject: Subject
    checks: tuple[Check, ...] = ()
    stopped: bool = False  # an earlier stage failed; later ones are skipped
    comparison: OutputComparison | None = None
    said: str = ""  # for the verdict's output
    seconds: float = field(default=0.0)

    @property
    def passed(self) -> bool:
        """Did all stages pass?"""
        return not self.stopped and (self.comparison is None or self.comparison.passed)

    @property
    def score(self) -> float:
        return self.comparison.score if self.comparison else 0.0

    def after_run(self, ran: Ran) -> EvaluationOutcome:
        if ran.problem is None:
            check = self.subject.pass_stage(RUN, seconds=ran.seconds)
        else:
            check = self.subject.fail_stage(RUN, ran.check_message, ran.seconds)
        ended = f"exit code {ran.exit_code}" if ran.problem is None else ran.problem
        said = f"{self.subject.name}: {ended}, {ran.seconds:.1f} s\n{ran.said}".strip()
        return self._with(check, stopped=ran.problem is not None, said=said, seconds=ran.seconds)

    def fail_precheck(self, problem: PrecheckFailed) -> EvaluationOutcome:
        return self._with(self.subject.fail_stage(PRECHECK, str(problem)), stopped=True)

    def skip_stages(self, *stages: str) -> EvaluationOutcome:
        outcome = self
        for stage in stages:
            outcome = outcome._with(self.subject.skip_stage(stage))
        return outcome

    def compare(
        self, output: bytes, expected: bytes | None, comparator: Comparator | None, precheck: Precheck
    ) -> EvaluationOutcome:
        """Pre-check, then compare if there is an expectation."""
        try:
            precheck.require(output)
            comparison = None
            if comparator is not None and expected is not None:
                comparison = comparator.compare(output, expected)
        except PrecheckFailed as problem:
            outcome = self.fail_precheck(problem)
            return outcome if comparator is None else outcome.skip_stages(COMPARE)
        outcome = self._with(self.subject.pass_stage(PRECHECK)) if precheck.is_declared else self
        if comparator is None or comparison is None:
            return outcome
        return replace(outcome._with(self.subject.check_comparison(comparator, comparison)), comparison=comparison)

    def _with(
        self, check: Check, *, stopped: bool | None = None, said: str | None = None, seconds: float = 0.0
    ) -> EvaluationOutcome:
        return replace(
            self,
            checks=(*self.checks, check),
            stopped=self.stopped if stopped is None else stopped,
            said=self.said if said is None else said,
            seconds=self.seconds + seconds,
        )

"""What one case, or one artifact, came to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from runner.base.types import Check
from runner.evaluating.checks import COMPARE, PRECHECK, RUN, Subject
from runner.evaluating.comparisons.comparison import Comparator, OutputComparison, PrecheckFailed
from runner.evaluating.prechecks import Precheck
from runner.evaluating.submission import Ran


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """Grows stage by stage. `comparison` is None where it was not reached, or nothing is compared."""

    subject: Subject
    checks: tuple[Check, ...] = ()
    stopped: bool = False  # an earlier stage failed; what follows is skipped
    comparison: OutputComparison | None = None
    said: str = ""  # for the verdict's output
    seconds: float = field(default=0.0)

    @property
    def passed(self) -> bool:
        """In all stages that there were."""
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

    def after_precheck(self) -> EvaluationOutcome:
        return self._with(self.subject.pass_stage(PRECHECK))

    def fail_precheck(self, problem: PrecheckFailed) -> EvaluationOutcome:
        return self._with(self.subject.fail_stage(PRECHECK, str(problem)), stopped=True)

    def skipping(self, *stages: str) -> EvaluationOutcome:
        outcome = self
        for stage in stages:
            outcome = outcome._with(self.subject.skip_stage(stage))
        return outcome

    def held_against(
        self, output: bytes, expected: bytes | None, comparator: Comparator | None, precheck: Precheck
    ) -> EvaluationOutcome:
        """Pre-checked, then compared where there is something to compare with."""
        try:
            precheck.require(output)
            comparison = None
            if comparator is not None and expected is not None:
                comparison = comparator.compare(output, expected)
        except PrecheckFailed as problem:
            outcome = self.fail_precheck(problem)
            return outcome if comparator is None else outcome.skipping(COMPARE)
        outcome = self.after_precheck() if precheck.is_declared else self
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

"""The verdict of a declared evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from runner.base.text import cut
from runner.base.types import CheckGroup, Dimension, Verdict
from runner.evaluating.artifact import JudgedArtifact
from runner.evaluating.declaration import Artifact, Evaluation, Execution
from runner.evaluating.judged_artifact import LEAST, MOST
from runner.evaluating.outcome import RUN, EvaluationOutcome, Subject

MAX_OUTPUT_CHARS = 100_000
PRECHECK_DIMENSION, COMPARISON_DIMENSION, JUDGE_DIMENSION = "pre-check", "comparison", "judge"


def of_cases(outcomes: Sequence[EvaluationOutcome], digest: str) -> Verdict:
    """reward and outcome: the share of cases that passed. overall: the mean of what the comparisons score."""
    share = _mean([float(each.passed) for each in outcomes])
    score = _mean([each.score for each in outcomes])
    return Verdict(
        source=Execution.source,
        success=all(each.passed for each in outcomes),
        reward=share,
        outcome=share,
        overall=score,
        checks=tuple(check for each in outcomes for check in each.checks),
        dimensions=(
            Dimension(PRECHECK_DIMENSION, _mean([float(each.comparison is not None) for each in outcomes])),
            Dimension(COMPARISON_DIMENSION, score),
        ),
        output=cut("\n\n".join(each.said for each in outcomes), MAX_OUTPUT_CHARS),
        verifier_digest=digest,
        duration_seconds=sum(each.seconds for each in outcomes),
    )


def of_artifact(outcome: EvaluationOutcome, judged: JudgedArtifact | None, digest: str) -> Verdict:
    """If a judge was wanted and unavailable, a passed comparison is not a success but unknown."""
    parts = _parts(outcome, judged)
    checks = outcome.checks if judged is None else (*outcome.checks, judged.check)
    success = outcome.passed and (judged is None or judged.passed)
    reward = None if success is None else _mean(parts)
    return Verdict(
        source=Artifact.source,
        success=success,
        reward=reward,
        outcome=None if success is None else float(success),
        overall=reward,
        checks=checks,
        dimensions=_dimensions(outcome, judged),
        output=cut(outcome.said, MAX_OUTPUT_CHARS),
        verifier_digest=digest,
        duration_seconds=outcome.seconds,
    )


def of_ruin(evaluation: Evaluation, reason: str, digest: str) -> Verdict:
    """Nothing can run in the sandbox any longer: the submission's fault, and another try would score the same."""
    check = Subject("sandbox", CheckGroup.TEST).fail_stage(RUN, f"ruined: {reason}")
    return Verdict(
        source=evaluation.source,
        success=False,
        reward=0.0,
        outcome=0.0,
        overall=0.0,
        checks=(check,),
        output=reason,
        verifier_digest=digest,
    )


def _parts(outcome: EvaluationOutcome, judged: JudgedArtifact | None) -> list[float]:
    """1 for what passed, its share for what did not. Nothing counts if the artifact cannot be compared."""
    if outcome.stopped:
        return [0.0]
    parts = [] if outcome.comparison is None else [1.0 if outcome.comparison.passed else outcome.score]
    if judged is not None and judged.opinion is not None:
        parts.append(1.0 if judged.passed else (judged.opinion.score - LEAST) / (MOST - LEAST))
    return parts


def _dimensions(outcome: EvaluationOutcome, judged: JudgedArtifact | None) -> tuple[Dimension, ...]:
    found = [Dimension(PRECHECK_DIMENSION, float(not outcome.stopped))]
    if outcome.comparison is not None:
        found.append(Dimension(COMPARISON_DIMENSION, outcome.score))
    if judged is not None and judged.opinion is not None:
        found.append(Dimension(JUDGE_DIMENSION, judged.opinion.score, float(MOST), reason=judged.opinion.reason))
    return tuple(found)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

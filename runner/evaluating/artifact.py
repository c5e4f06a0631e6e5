"""Artifact-based evaluation: one file, made by the submission and compared with a reference (SkillGenBench, 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

from runner.base.types import Check, Files
from runner.evaluating.comparisons.comparison import PrecheckFailed, decode_text
from runner.evaluating.declaration import Artifact, JudgeQuestion
from runner.evaluating.judged_artifact import Asked, Opinion, ask_judge
from runner.evaluating.outcome import COMPARE, JUDGE, PRECHECK, EvaluationOutcome, Subject
from runner.evaluating.submission import Submission
from runner.sandboxes import Sandbox

NO_JUDGE = "no judge model was given; what only a judge can tell is unknown"


@dataclass(frozen=True, slots=True)
class JudgedArtifact:
    """`opinion`: None without a judge or a readable answer."""

    check: Check
    opinion: Opinion | None = None
    passed: bool | None = None  # None: unknown


def examine(evaluation: Artifact, sandbox: Sandbox, tests: Files) -> tuple[EvaluationOutcome, bytes]:
    """Return the outcome without a judge, and the artifact (empty if it stopped before)."""
    submission = Submission(sandbox)
    outcome = _run_command(evaluation, submission)
    if outcome.stopped:
        stages = (PRECHECK,) if evaluation.comparator is None else (PRECHECK, COMPARE)
        return outcome.skip_stages(*stages), b""
    try:
        content = submission.take(evaluation.path, evaluation.precheck.max_bytes)
        if evaluation.judge is not None:
            decode_text(content)  # a judge reads text
    except PrecheckFailed as problem:
        refused = outcome.fail_precheck(problem)
        return refused if evaluation.comparator is None else refused.skip_stages(COMPARE), b""
    expected = None if evaluation.expected is None else evaluation.expected.read(tests)
    return outcome.compare(content, expected, evaluation.comparator, evaluation.precheck), content


def _run_command(evaluation: Artifact, submission: Submission) -> EvaluationOutcome:
    outcome = EvaluationOutcome(Subject(evaluation.path, evaluation.group))
    if not evaluation.command:
        return outcome
    submission.remove(evaluation.path)
    most, seconds = evaluation.precheck.max_bytes, evaluation.timeout_seconds
    return outcome.after_run(submission.run(evaluation.command, seconds=seconds, max_bytes=most))


def judge_artifact(
    question: JudgeQuestion,
    outcome: EvaluationOutcome,
    instruction: str,
    content: bytes,
    reference: bytes | None,
    ask: Asked | None,
) -> JudgedArtifact:
    """Ask a model about an artifact that passed the pre-check."""
    subject = outcome.subject
    if outcome.stopped:
        return JudgedArtifact(subject.skip_stage(JUDGE), passed=False)
    if ask is None:
        return JudgedArtifact(subject.skip_stage(JUDGE, NO_JUDGE))
    opinion, problem = ask_judge(question, instruction, content, reference, ask)
    if opinion is None:
        return JudgedArtifact(subject.unknown(JUDGE, problem))
    told = f"score: {opinion.score} of 5, at least {question.threshold} passes: {opinion.reason}"
    if opinion.score >= question.threshold:
        return JudgedArtifact(subject.pass_stage(JUDGE, told), opinion, True)
    return JudgedArtifact(subject.fail_stage(JUDGE, told), opinion, False)

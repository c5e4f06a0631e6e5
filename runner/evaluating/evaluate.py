"""One declared evaluation, from the workspace that the agent left to its verdict. A program is run once per case, an
artifact compared once (SkillGenBench, section 3.4)."""

from __future__ import annotations

import shlex

from runner.base.errors import SandboxRuined
from runner.base.types import Files, Verdict
from runner.evaluating.artifact import examine, judge_artifact
from runner.evaluating.comparisons.comparison import PrecheckFailed
from runner.evaluating.declaration import Artifact, Case, Evaluation, Execution
from runner.evaluating.judged_artifact import Asked
from runner.evaluating.outcome import COMPARE, EvaluationOutcome, Subject
from runner.evaluating.submission import Ran, Submission
from runner.evaluating.verdicts import of_artifact, of_cases, of_ruin
from runner.sandboxes import WORKSPACE, Sandbox


def evaluate(
    evaluation: Evaluation, sandbox: Sandbox, *, tests: Files, instruction: str, digest: str, ask: Asked | None
) -> Verdict:
    """Evaluate after the agent's processes ended and its files in tests and logs were removed. `digest`: of the tests.

    A fault of the submission is its result. A failing sandbox or judge raises InfrastructureError and scores nothing.
    """
    try:
        if not isinstance(evaluation, Artifact):
            return of_cases(run_cases(evaluation, sandbox, tests), digest)
        outcome, content = examine(evaluation, sandbox, tests)
    except SandboxRuined as error:
        return of_ruin(evaluation, str(error), digest)
    if evaluation.judge is None:
        return of_artifact(outcome, None, digest)
    reference = None if evaluation.expected is None else evaluation.expected.read(tests)
    judged = judge_artifact(evaluation.judge, outcome, instruction, content, reference, ask)
    return of_artifact(outcome, judged, digest)


def run_cases(evaluation: Execution, sandbox: Sandbox, tests: Files) -> list[EvaluationOutcome]:
    """Run them in file order, in one workspace. Inputs are put in right before their case, expected outputs never."""
    return [
        _outcome(evaluation, case, Submission(sandbox, number), tests)
        for number, case in enumerate(evaluation.cases, start=1)
    ]


def _outcome(evaluation: Execution, case: Case, submission: Submission, tests: Files) -> EvaluationOutcome:
    outcome = EvaluationOutcome(Subject(case.name, case.group)).after_run(_run(evaluation, case, submission, tests))
    if outcome.stopped:
        return outcome.skip_stages(COMPARE)
    most = evaluation.precheck.max_bytes
    try:
        output = submission.stdout(most) if case.output is None else submission.take(case.output, most)
    except PrecheckFailed as problem:
        return outcome.fail_precheck(problem).skip_stages(COMPARE)
    return outcome.compare(output, case.expected.read(tests), case.comparator, evaluation.precheck)


def _run(evaluation: Execution, case: Case, submission: Submission, tests: Files) -> Ran:
    if case.output is not None:
        submission.remove(case.output)
    submission.sandbox.put(WORKSPACE, {place: tests[path] for place, path in case.files.items()})
    return submission.run(
        " ".join((evaluation.command, *map(shlex.quote, case.args))),
        stdin=case.stdin.read(tests),
        seconds=case.timeout_seconds,
        max_bytes=evaluation.precheck.max_bytes,
        exit_code=case.exit_code,
    )

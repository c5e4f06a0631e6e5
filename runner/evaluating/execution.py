"""Execution-based evaluation: the submitted program, run once per case (SkillGenBench, section 3.4)."""

from __future__ import annotations

import shlex

from runner.base.types import Files
from runner.evaluating.checks import COMPARE, Subject
from runner.evaluating.comparisons.comparison import PrecheckFailed
from runner.evaluating.declaration import Case, Execution
from runner.evaluating.outcome import EvaluationOutcome
from runner.evaluating.submission import Ran, Submission
from runner.sandboxes import WORKSPACE, Sandbox


def run_cases(evaluation: Execution, sandbox: Sandbox, tests: Files) -> list[EvaluationOutcome]:
    """In the order of the file, in one workspace. Inputs of a case are put in right before it, expected outputs never."""
    return [
        _outcome(evaluation, case, Submission(sandbox, number), tests)
        for number, case in enumerate(evaluation.cases, start=1)
    ]


def _outcome(evaluation: Execution, case: Case, submission: Submission, tests: Files) -> EvaluationOutcome:
    outcome = EvaluationOutcome(Subject(case.name, case.group)).after_run(_run(evaluation, case, submission, tests))
    if outcome.stopped:
        return outcome.skipping(COMPARE)
    most = evaluation.precheck.max_bytes
    try:
        output = submission.stdout(most) if case.output is None else submission.take(case.output, most)
    except PrecheckFailed as problem:
        return outcome.fail_precheck(problem).skipping(COMPARE)
    return outcome.held_against(output, case.expected.read(tests), case.comparator, evaluation.precheck)


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

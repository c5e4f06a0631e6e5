"""One declared evaluation from the workspace the agent left to its verdict."""

from __future__ import annotations

from runner.base.errors import SandboxRuined
from runner.base.types import Files, Verdict
from runner.evaluating.artifact import examine, judge_artifact
from runner.evaluating.declaration import Artifact, Evaluation
from runner.evaluating.execution import run_cases
from runner.evaluating.judged_artifact import Asked
from runner.evaluating.verdicts import of_artifact, of_cases, of_ruin
from runner.sandboxes import Sandbox


def evaluate(
    evaluation: Evaluation, sandbox: Sandbox, *, tests: Files, instruction: str, digest: str, ask: Asked | None
) -> Verdict:
    """Nothing of the agent runs any more, and nothing of it lies in tests and logs. `digest` is that of the tests.

    What the submission does is its result; a sandbox or a judge that fails raises InfrastructureError and scores nothing.
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

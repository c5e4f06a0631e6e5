"""Running a task's own verifier in the sandbox the agent left, and making a verdict of the files it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.digests import digest_json, manifest
from runner.errors import SandboxRuined, SuiteError, VerifierError
from runner.evaluating.declaration import Evaluation
from runner.evaluating.evaluate import evaluate
from runner.evaluating.judging import Asked
from runner.evaluating.verdicts import of_ruin
from runner.sandboxes import LOGS, TESTS, Completed, Sandbox
from runner.suites.host_variables import resolved
from runner.suites.task_files import script_command, test_files
from runner.types import Check, CheckGroup, CheckStatus, Files, Task, Verdict
from runner.verifying.reports import (
    ReportProblem,
    ScoreReport,
    read_ctrf,
    read_reward_json,
    read_reward_txt,
    read_score_report,
    read_section_report,
)

SOURCE = "suite"
REPORTS = "verifier"  # folder below logs
MAX_OUTPUT_CHARS = 100_000

# Whatever the agent put where tests, reports or Python's own start-up files go is taken away before tests are put in.
_CLEAR = "chmod -R u+rwX {tests} {logs}; rm -rf {tests} {logs}; mkdir -p {tests} {logs}/{reports}"
_ENVIRONMENT = {"PYTHONNOUSERSITE": "1"}  # the agent owned HOME
_FULL = 1.0 - 1e-9  # rewards are written with six decimals


def run_verifier(task: Task, sandbox: Sandbox, ask: Asked | None = None) -> Verdict:
    """The verdict of the task's verifier on the workspace as it is.

    A task that declares its evaluation gets that one (`runner.evaluating`); `ask` is its judging model, where there is
    one. Every other task has a script:

    Ends whatever still runs, puts the tests in and runs tests/test.sh with the interpreter of its first line; its exit
    code says nothing. success is reward >= 1. outcome and process are shares of passed checks, overall the normalised
    total score. VerifierError (infrastructure, never scored) when it ran out of time or left no reward that can be
    read. Where the agent left nothing that can run, the task is failed. SetupError when the task asks for a variable
    that this host does not give.
    """
    sandbox.end_processes()
    tests = test_files(task)
    digest = digest_json(manifest(tests))
    if task.evaluation is not None:
        return _evaluated(task, task.evaluation, sandbox, tests, digest, ask)
    if "test.sh" not in tests:
        raise SuiteError(str(task.folder / "tests"), "folder", "test.sh", "there is none")
    try:
        done = _run(task, sandbox, tests)
    except SandboxRuined as error:  # the agent's doing, and trying again would score the same
        return Verdict(source=SOURCE, success=False, reward=0.0, output=str(error), verifier_digest=digest)
    if done.timed_out or done.exit_code is None:
        raise VerifierError(f"{task.key}: the verifier was ended after {done.duration_seconds:.0f} s{_tail(done)}")
    prefix = f"{REPORTS}/"
    files = {path.removeprefix(prefix): file for path, file in sandbox.files(LOGS).items() if path.startswith(prefix)}
    try:
        return _verdict(files, done, digest)
    except ReportProblem as error:
        raise VerifierError(f"{task.key}: {error}{_tail(done)}") from error


def _evaluated(
    task: Task, evaluation: Evaluation, sandbox: Sandbox, tests: Files, digest: str, ask: Asked | None
) -> Verdict:
    try:
        _clear(task, sandbox)
    except SandboxRuined as error:
        return of_ruin(evaluation, str(error), digest)
    return evaluate(evaluation, sandbox, tests=tests, instruction=task.instruction, digest=digest, ask=ask)


def _clear(task: Task, sandbox: Sandbox) -> None:
    places = {"tests": sandbox.path(TESTS), "logs": sandbox.path(LOGS), "reports": REPORTS}
    cleared = sandbox.execute(_CLEAR.format(**places), timeout_seconds=60)
    if cleared.exit_code != 0:
        raise VerifierError(f"{task.key}: tests and logs cannot be cleared: {cleared.output[-500:]}")


def _run(task: Task, sandbox: Sandbox, tests: Files) -> Completed:
    """Runs the tests where nothing of the agent's lies in their way. Nothing runs any more afterwards."""
    environment = resolved(task.verifier_environment, task.machine.host_variables)
    _clear(task, sandbox)
    sandbox.put(TESTS, tests)
    done = sandbox.execute(
        script_command(f"{sandbox.path(TESTS)}/test.sh", tests["test.sh"]),
        timeout_seconds=task.verifier_timeout_seconds,
        environment={**environment, **_ENVIRONMENT},
    )
    sandbox.end_processes()
    return done


def _verdict(files: Files, done: Completed, verifier_digest: str) -> Verdict:
    reward, rewards = _rewards(files)
    checks = _checks(files)
    score = _score(files)
    return Verdict(
        source=SOURCE,
        success=None if reward is None else reward >= _FULL,
        reward=reward,
        outcome=_share(checks, (CheckGroup.PUBLIC, CheckGroup.HIDDEN, CheckGroup.TEST)),
        process=_share(checks, (CheckGroup.PROCESS,)),
        overall=score.overall if score else _normalised(rewards),
        checks=checks,
        dimensions=score.dimensions if score else (),
        rewards=rewards,
        output=_capped(done.output),
        verifier_digest=verifier_digest,
        duration_seconds=done.duration_seconds,
    )


def _rewards(files: Files) -> tuple[float | None, dict[str, float]]:
    """The reward that counts and all that are named.

    reward.txt comes first: where both are there, reward.json tells details (SkillEvolBench: points out of 100). Alone,
    its "reward" counts, or its only number. Several numbers without a "reward" are kept and nothing is scored: which of
    them says that the task is solved is nowhere written, and the first of a JSON object is an accident of its writer.
    """
    rewards = read_reward_json(files["reward.json"].content) if "reward.json" in files else {}
    if "reward.txt" in files:
        return read_reward_txt(files["reward.txt"].content), rewards
    if "reward" in rewards:
        return rewards["reward"], rewards
    if rewards:
        return next(iter(rewards.values())) if len(rewards) == 1 else None, rewards
    found = ", ".join(sorted(files))[:1_000] or "nothing"
    raise ReportProblem(f"{LOGS}/{REPORTS}", "folder", "reward.txt, or reward.json with a number", f"found {found}")


def _normalised(rewards: Mapping[str, float]) -> float | None:
    """SkillEvolBench's verifiers repeat it in reward.json; some leave no score_report.json."""
    value = rewards.get("normalized_score")
    return None if value is None else min(1.0, max(0.0, value))


def _checks(files: Files) -> tuple[Check, ...]:
    """Of the two section reports; of the CTRF report only where there are none, since it counts the same checks."""
    groups = {
        "outcome_report.json": (CheckGroup.PUBLIC, CheckGroup.HIDDEN),
        "process_report.json": (CheckGroup.PROCESS, CheckGroup.PROCESS),
    }
    checks: list[Check] = []
    for name, (public, hidden) in groups.items():
        if name in files:
            report = read_section_report(files[name].content, name, public=public, hidden=hidden)
            checks += [*report.public, *report.hidden]
    if not checks and "ctrf.json" in files:
        checks += read_ctrf(files["ctrf.json"].content)
    return tuple(checks)


def _score(files: Files) -> ScoreReport | None:
    return read_score_report(files["score_report.json"].content) if "score_report.json" in files else None


def _share(checks: Sequence[Check], groups: tuple[CheckGroup, ...]) -> float | None:
    """Passed checks of these groups over those that ran; None where none ran."""
    ran = [check for check in checks if check.group in groups and check.status is not CheckStatus.SKIPPED]
    return sum(check.status is CheckStatus.PASSED for check in ran) / len(ran) if ran else None


def _capped(output: str) -> str:
    if len(output) <= MAX_OUTPUT_CHARS:
        return output
    half = MAX_OUTPUT_CHARS // 2
    return f"{output[:half]}\n[... {len(output) - 2 * half:,} characters left out ...]\n{output[-half:]}"


def _tail(done: Completed) -> str:
    return f"; it said: {done.output[-1000:].strip()}" if done.output.strip() else ""

"""Running a task's own verifier in the sandbox the agent left, and making a verdict of the files it writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from runner.base.digests import digest_json, manifest
from runner.base.errors import SandboxRuined, SuiteError, VerifierError
from runner.base.host_variables import resolve_variables
from runner.base.text import join_ends
from runner.base.types import File, Files, Task, Verdict, choose_reward, is_success
from runner.evaluating.declaration import Evaluation
from runner.evaluating.evaluate import evaluate, of_ruin
from runner.evaluating.judged_artifact import Asked
from runner.sandboxes import LOGS, OWN_FOLDER, TESTS, WORKSPACE, Completed, Sandbox
from runner.suites.tasks.task_files import read_test_files, script_command
from runner.verifying.reports import REWARDS, SIDE_REPORTS, ReportProblem, read_reward, read_rewards, read_side_reports

SOURCE = "suite"
REPORTS = "verifier"  # folder below logs
MAX_OUTPUT_CHARS = 100_000

# Removes anything the agent put in the place of tests, reports or Python's start-up files, before tests are put in.
_CLEAR = """PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
chmod -R u+rwX {tests} {logs}; rm -rf {tests} {logs}; mkdir -p {tests} {logs}/{reports}
"""
_CLEAR_LOGS = """PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
rm -rf {logs}; mkdir -p {logs}/{reports}
"""
# The agent controlled HOME and the working directory, so they are emptied. A task that needs one sets it itself.
_ENVIRONMENT = {"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1"}
_PYTHON_START = File((Path(__file__).parent / "python_start.py").read_bytes())
_PYTHONPATH = f'PYTHONPATH="$(cd {{tests}}/{OWN_FOLDER} && pwd)${{{{PYTHONPATH:+:$PYTHONPATH}}}}"; export PYTHONPATH; '
_FOREIGN_REPOSITORY = "detected dubious ownership in repository"  # git


def run_verifier(
    task: Task, sandbox: Sandbox, ask: Asked | None = None, *, bring: Callable[[], None] | None = None
) -> Verdict:
    """Return the verdict of the task's verifier on the workspace. `bring`: called after clearing, to put the inputs
    into a verifier's separate sandbox.

    A task that declares its evaluation gets that one (`runner.evaluating`); `ask` is its judging model, if any. Every
    other task has a script. End all remaining processes, put the tests in and run tests/test.sh with the interpreter of
    its first line; its exit code is ignored. success is reward >= 1. outcome and process are shares of passed checks,
    overall the normalised total score. The reward alone decides: problems of the other reports are in the verdict's
    notes.

    VerifierError (infrastructure, never scored) if it ran out of time or left no readable reward. If the agent left
    nothing that can run, the task is failed. SetupError if the task asks for a variable that this host does not give.
    """
    sandbox.end_processes()
    tests = read_test_files(task)
    digest = digest_json(manifest(tests))
    if isinstance(task.evaluation, Evaluation):
        return _evaluate(task, task.evaluation, sandbox, tests, digest, ask)
    if "test.sh" not in tests:
        raise SuiteError(str(task.folder / "tests"), "folder", "test.sh", "there is none")
    try:
        notes = _clear(task, sandbox)
        if bring is not None:
            bring()
        done = _run(task, sandbox, tests)
    except SandboxRuined as error:  # the agent's fault, and trying again would score the same
        return Verdict(source=SOURCE, success=False, reward=0.0, output=str(error), verifier_digest=digest)
    if done.timed_out or done.exit_code is None:
        raise VerifierError(f"{task.key}: the verifier was ended after {done.duration_seconds:.0f} s{_tail(done)}")
    left = sandbox.tree(LOGS, REPORTS, names=frozenset({*REWARDS, *SIDE_REPORTS}))
    files = {name: file.content for name, file in left.files.items()}
    try:
        verdict = make_verdict(files, left.left_out, done, digest)
    except ReportProblem as error:
        raise VerifierError(f"{task.key}: {error}{_tail(done)}") from error
    if not verdict.success:
        notes += _doubts(task, sandbox, tests, done)
    return replace(verdict, notes=(*notes, *verdict.notes))


def _evaluate(
    task: Task, evaluation: Evaluation, sandbox: Sandbox, tests: Files, digest: str, ask: Asked | None
) -> Verdict:
    try:
        notes = _clear(task, sandbox)
    except SandboxRuined as error:
        return of_ruin(evaluation, str(error), digest)
    verdict = evaluate(evaluation, sandbox, tests=tests, instruction=task.instruction, digest=digest, ask=ask)
    return replace(verdict, notes=(*notes, *verdict.notes))


def _clear(task: Task, sandbox: Sandbox) -> list[str]:
    """Remove what the agent put into the verifier's folders and the links to them. Return a sentence for each link."""
    places = {"tests": sandbox.path(TESTS), "logs": sandbox.path(LOGS), "reports": REPORTS}
    command = _CLEAR_LOGS if _brings_tests(task) else _CLEAR
    return sandbox.remove_links(command.format(**places))


def _run(task: Task, sandbox: Sandbox, tests: Files) -> Completed:
    """Run the tests after the agent's files are out of their way. All processes are ended afterwards."""
    environment = resolve_variables(task.verifier_environment, task.machine.host_variables)
    place, start = sandbox.path(TESTS), {f"{OWN_FOLDER}/sitecustomize.py": _PYTHON_START}
    if _brings_tests(task):
        sandbox.put(TESTS, start)
        script = f"chmod +x {place}/test.sh && {place}/test.sh"
    else:
        sandbox.put(TESTS, {**tests, **start})
        script = script_command(f"{place}/test.sh", tests["test.sh"])
    command = _PYTHONPATH.format(tests=place) + script
    if _starts_in_tests(task, sandbox, tests):
        command = f"cd {place} && {command}"
    done = sandbox.execute(
        command, timeout_seconds=task.verifier_timeout_seconds, environment={**_ENVIRONMENT, **environment}
    )
    sandbox.end_processes()
    return done


def _brings_tests(task: Task) -> bool:
    """Are the tests in the verifier's image?"""
    return task.verifier_place is not None and task.verifier_place.has_tests


def _starts_in_tests(task: Task, sandbox: Sandbox, tests: Files) -> bool:
    """Should the tests start in their own folder, because the agent may have manipulated the working directory?

    No folder helps against an agent that was root. Tests that never name the working directory can only find it by
    where they start: they stay there, as under Harbor.
    """
    folder = sandbox.path(WORKSPACE)
    if not sandbox.has_own_user or folder == "/" or task.verifier_place is not None:
        return False
    named = re.compile(rb"(?<![\w.-])" + re.escape(folder.encode()) + rb"(?![\w-])")
    texts = (
        *(file.content for file in tests.values()),
        *(value.encode() for value in task.verifier_environment.values()),
    )
    return any(named.search(text) for text in texts)


def _doubts(task: Task, sandbox: Sandbox, tests: Files, done: Completed) -> list[str]:
    """Notes on how our own precautions may have caused a failed verdict."""
    doubts: list[str] = []
    if _FOREIGN_REPOSITORY in done.output:
        doubts.append(
            "git refused a repository of the agent's user because verifiers run as root: GIT_CONFIG_COUNT, "
            "GIT_CONFIG_KEY_0 and GIT_CONFIG_VALUE_0 in [verifier.env] allow it (docs/explanation/sandboxes.md)"
        )
    if _starts_in_tests(task, sandbox, tests):
        doubts.append(
            f"test.sh was started in {sandbox.path(TESTS)} because the agent's user may write into "
            f"{sandbox.path(WORKSPACE)}: relative paths do not lead there (docs/explanation/sandboxes.md)"
        )
    return doubts


def make_verdict(files: Mapping[str, bytes], left_out: list[str], done: Completed, verifier_digest: str) -> Verdict:
    """Make the verdict from a verifier's reports, by their names. ReportProblem if they give no reward."""
    problems: list[ReportProblem] = []
    reward, rewards = _rewards(files, left_out, problems)
    side = read_side_reports(files)
    return Verdict(
        source=SOURCE,
        success=is_success(reward),
        reward=reward,
        outcome=side.outcome,
        process=side.process,
        overall=_normalise(rewards) if side.overall is None else side.overall,
        checks=tuple(side.checks),
        dimensions=tuple(side.dimensions),
        rewards=rewards,
        output=join_ends(done.output, "", 0, MAX_OUTPUT_CHARS)[0],
        verifier_digest=verifier_digest,
        duration_seconds=done.duration_seconds,
        notes=(*left_out, *map(str, (*problems, *side.problems))),
    )


def _rewards(
    files: Mapping[str, bytes], left_out: list[str], problems: list[ReportProblem]
) -> tuple[float | None, dict[str, float | None]]:
    """The reward that counts, and all named ones. ReportProblem if there is none.

    reward.txt comes first: if both exist, reward.json has details (SkillEvolBench: points out of 100). Alone,
    `choose_reward` picks one of it. Several numbers without a "reward" are kept and nothing is scored. An unreadable
    file of the two costs nothing if the other has a reward.
    """
    rewards = read_rewards(files["reward.json"], problems) if "reward.json" in files else {}
    try:
        if "reward.txt" in files:
            return read_reward(files["reward.txt"]), rewards
    except ReportProblem as problem:
        problems.append(problem)
    reward = choose_reward(rewards) if "reward" in rewards or "reward.txt" not in files else None
    has_reward = any(value is not None for value in rewards.values())
    if reward is not None or has_reward and "reward.txt" not in files:
        return reward, rewards
    if problems:
        raise problems[-1]
    if has_reward:
        return None, rewards
    found = ", ".join([*sorted(files), *left_out])[:1_000] or "nothing"
    raise ReportProblem(f"{LOGS}/{REPORTS}", "folder", "reward.txt, or reward.json with a number", f"found {found}")


def _normalise(rewards: Mapping[str, float | None]) -> float | None:
    """SkillEvolBench's verifiers repeat it in reward.json. Some omit the total in score_report.json, or the file."""
    value = rewards.get("normalized_score")
    return None if value is None else min(1.0, max(0.0, value))


def _tail(done: Completed) -> str:
    return f"; it said: {done.output[-1000:].strip()}" if done.output.strip() else ""

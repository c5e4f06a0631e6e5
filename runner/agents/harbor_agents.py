"""Agents that Harbor runs, in a sandbox that Harbor makes. One attempt is one `harbor run` and takes over its job.

Only agents that work outside the sandbox: Terminus 2 calls its model from here and types into a terminal there. A
program that Harbor installs inside would need the provider's key inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from runner.agents import PROGRAM_FAILED, AgentJob, AgentRun, Verified
from runner.agents.agent_program import QUOTED_CHARS, ProgramAgent, ProgramLog, read_log, tell_call
from runner.agents.agent_trajectory import TrajectoryBuilder
from runner.agents.oracle import require_solution
from runner.base.digests import digest_json, manifest
from runner.base.errors import ModelRefused, SandboxError, SetupError, VerifierError
from runner.base.types import (
    Failure,
    Observation,
    Source,
    Step,
    Task,
    ToolCall,
    Trajectory,
    TrajectoryHead,
    Usage,
)
from runner.models import Model
from runner.sandboxes import Completed, Sandbox
from runner.sandboxes.harbor.harbor_jobs import VERSION, HarborSandbox, HarborTrial, find_harbor, require_supported
from runner.sandboxes.needs import DUMMY_KEY, Needs
from runner.suites.tasks.task_files import read_test_files
from runner.verifying.reports import ReportProblem
from runner.verifying.verifier import REPORTS, make_verdict

# Harbor's names for the ends that are the agent's own. Every other exception comes from Harbor or its platform.
_OF_THE_AGENT = {
    "AgentTimeoutError": "AgentTimeout",
    "NonZeroAgentExitCodeError": PROGRAM_FAILED,
    "ContextLengthExceededError": PROGRAM_FAILED,
    "OutputLengthExceededError": PROGRAM_FAILED,
}
NO_TOKEN_LIMIT = "limits.max_total_tokens cannot be held by Harbor's agents (expected none)"
# litellm's names (Terminus 2 uses it) for a request that its provider refuses and would refuse again.
_REFUSED = frozenset({"BadRequestError", "NotFoundError", "UnprocessableEntityError", "PermissionDeniedError"})
_DONE = "mark_task_complete"
_NO_REWARD = frozenset(
    {"RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError", "VerifierTimeoutError"}
)


class HarborOracle:
    """Harbor's oracle: the task's own solution."""

    name = "harbor-oracle"
    version = VERSION

    def needs(self, model: Model | None) -> Needs:
        find_harbor()
        return Needs(whole_trial=True)

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        require_solution(job.task)
        trial = _run(job, sandbox, ["--agent", "oracle"], {}, with_library=False)
        builder = TrajectoryBuilder(on_step)
        builder.add(Source.USER, job.instruction)
        printed = trial.files.get("agent/oracle.txt")
        output = printed.content.decode(errors="replace") if printed else ""
        call = ToolCall("1", "shell", {"command": "solution/solve.sh"})
        builder.add(
            Source.AGENT, "The task's own solution.", tool_calls=(call,), observations=(Observation(output, call.id),)
        )
        trajectory = builder.trajectory(self.name, self.version)
        return AgentRun((trajectory,), trajectory.usage, 1, _read_failure(job.task, trial), _verify(job.task, trial))


class Terminus2(ProgramAgent):
    """Harbor's own agent. Summaries of long conversations are off: Harbor would spread them over several files."""

    name = "harbor-terminus-2"
    provider_address = "https://api.openai.com/v1"
    wire = "chat/completions"
    known_options = frozenset({"temperature", "reasoning_effort"})

    @property
    def version(self) -> str:
        return VERSION

    def find_program(self) -> None:
        find_harbor()

    def needs(self, model: Model | None) -> Needs:
        return replace(super().needs(model), whole_trial=True)

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        preset, gateway = self.preset(model), sandbox.gateway
        if sandbox.provider_url is None or gateway is None:
            raise SetupError(f"the agent {self.name!r} needs a sandbox that gives it a way to its provider")
        gateway.watch = partial(tell_call, on_step)
        words = ["--agent", "terminus-2", "--model", f"openai/{preset.agent_model}", "--base-url", sandbox.provider_url]
        settings = {"max_turns": job.limits.max_turns, "record_terminal_session": "false", "enable_summarize": "false"}
        for name, value in {**settings, **preset.options}.items():
            words += ["--agent-kwarg", f"{name}={value}"]
        trial = _run(job, sandbox, words, {"OPENAI_API_KEY": DUMMY_KEY}, with_library=True)
        gateway.close()
        if gateway.refusal is not None:
            raise gateway.refusal
        if gateway.trouble is not None and trial.result.get("exception_info") is not None:
            raise gateway.trouble
        log = self._read_log(trial, job)
        failure = _read_failure(job.task, trial) or _find_limit(log, job.limits.max_turns)
        usage = log.usage if gateway.usage == Usage() else gateway.usage
        usage = usage.in_part() if gateway.uncounted or gateway.broken_off else usage
        verified = _verify(job.task, trial)
        return AgentRun(log.trajectories, usage, self.turns(log), failure, verified, gateway.queued_seconds)

    def _read_log(self, trial: HarborTrial, job: AgentJob) -> ProgramLog:
        head = TrajectoryHead(source_format="empty", agent_name=self.name, agent_version=self.version)
        found = trial.files.get("agent/trajectory.json")
        if found is None:
            return ProgramLog((Trajectory(head, (Step(1, Source.USER, job.instruction),)),), {}, Usage())
        return read_log(found.content, job.instruction, head)


def _find_limit(log: ProgramLog, max_turns: int) -> Failure | None:
    """Terminus 2 stops silently at its turn limit. Otherwise its last act is to mark the task complete."""
    own = [step for step in log.trajectories[0].steps if step.source is Source.AGENT]
    if len(own) < max_turns or any(call.name == _DONE for call in own[-1].tool_calls):
        return None
    return Failure("TurnLimit", f"Not done after {len(own)} model calls.")


def _run(
    job: AgentJob, sandbox: Sandbox, words: Sequence[str], variables: Mapping[str, str], *, with_library: bool
) -> HarborTrial:
    if not isinstance(sandbox, HarborSandbox):
        raise SetupError("Harbor's agents need the sandbox 'harbor'")
    if job.limits.max_total_tokens is not None:
        raise SetupError(NO_TOKEN_LIMIT)
    seconds = job.limits.timeout_seconds or job.task.agent_timeout_seconds
    return sandbox.run_trial(
        job.task, job.instruction, words, seconds=seconds, variables=variables, with_library=with_library
    )


def _read_failure(task: Task, trial: HarborTrial) -> Failure | None:
    """Return the agent's own failure. Raise SandboxError for a fault of Harbor, so that it is retried and never
    scored, and SetupError for what Harbor cannot do here."""
    info = trial.result.get("exception_info")
    if not isinstance(info, dict):
        return None
    kind, message = str(info.get("exception_type")), str(info.get("exception_message"))[:QUOTED_CHARS]
    if kind in _OF_THE_AGENT:
        return Failure(_OF_THE_AGENT[kind], message)
    if kind in _REFUSED:
        raise ModelRefused(message)
    if kind in _NO_REWARD:
        return None  # `_verify` says so
    require_supported(task, message)
    raise SandboxError(f"Harbor ended the trial with {kind}: {message}")


def _verify(task: Task, trial: HarborTrial) -> Verified:
    """Raises VerifierError if the verifier left no readable reward, as for every other sandbox."""
    prefix = f"{REPORTS}/"
    files = {path.removeprefix(prefix): file.content for path, file in trial.files.items() if path.startswith(prefix)}
    output = files.get("test-stdout.txt", b"").decode(errors="replace")
    seconds = _read_seconds(trial, "verifier")
    done = Completed(0, output, duration_seconds=seconds or 0.0)
    try:
        verdict = make_verdict(files, trial.left_out, done, digest_json(manifest(read_test_files(task))))
    except ReportProblem as error:
        info = trial.result.get("exception_info")
        quoted = f"; Harbor said: {info.get('exception_message')}" if isinstance(info, dict) else ""
        raise VerifierError(f"{task.key}: {error}{quoted[:QUOTED_CHARS]}") from error
    return Verified(verdict, _read_seconds(trial, "agent_execution"), seconds)


def _read_seconds(trial: HarborTrial, part: str) -> float | None:
    span = trial.result.get(part)
    if not isinstance(span, dict):
        return None
    try:
        began, ended = (datetime.fromisoformat(str(span.get(name))) for name in ("started_at", "finished_at"))
    except ValueError:
        return None
    return (ended - began).total_seconds()

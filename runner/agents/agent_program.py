"""Base of the agents that are third-party programs: a pinned harness in the sandbox, its calls through the gateway.

In an attempt, the instruction is put below the logs folder and the program's command line runs once, with the task's
time limit. Its log is then read, kept and turned into trajectories by the reader of its format. An adapter has only
what is particular: command line, environment, files, which log to read, and what in it means a failure.

A program that ends badly is the agent's Failure, except when
- its last model call got no answer: the provider's fault (ModelUnavailable, ModelRefused);
- `before_call` refused a call: BudgetSpent;
- it ended before its first call: it could not be started in this image (SetupError).
"""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice

from runner.agents import PROGRAM_FAILED, AgentJob, AgentRun
from runner.base.errors import SandboxError, SetupError
from runner.base.types import Failure, File, Source, Step, Trajectory, TrajectoryHead, TrajectoryKind, Usage
from runner.models import Model
from runner.models.call_prices import call_cost
from runner.models.preset import Preset
from runner.programs import Program, find_installed, pin_of
from runner.sandboxes import LOGS, Completed, Sandbox
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.needs import Needs, Provider
from runner.trajectories.readers.reading import ReadTrajectory, read_trajectory

MAX_SOURCE_CHARS = 16 * 1024 * 1024
MAX_PROBLEMS = 20  # kept of one log


@dataclass(frozen=True, slots=True)
class ProgramLog:
    """A program's log after reading."""

    trajectories: tuple[Trajectory, ...]  # the main one first
    facts: Mapping[str, object]  # what the reader found in addition to the steps
    usage: Usage  # of the whole file, sub-agents included
    errors: str = ""  # the end of what the program wrote to its standard error

    @property
    def tells_work(self) -> bool:
        return any(step.source is Source.AGENT for step in self.trajectories[0].steps)


def read_log(content: bytes, instruction: str, head: TrajectoryHead, errors: str = "") -> ProgramLog:
    """Read the trajectories of a log of any known format. What the log does not say about itself is taken from `head`.

    A log that does not begin with the agent's instruction gets it as its first step.
    """
    found = read_trajectory(lambda: io.BytesIO(content))
    steps = tuple(found.steps)
    source = content.decode(errors="replace")[:MAX_SOURCE_CHARS]
    main = Trajectory(_merge_heads(found.head, head), _prepend_instruction(steps, instruction), found.usage, source)
    others = []
    for subagent in found.subagents:
        its_steps = tuple(subagent.steps)
        others.append(Trajectory(_merge_heads(subagent.head, head), its_steps, subagent.usage))
    return ProgramLog((_note_problems(main, found), *others), found.facts, found.usage, errors)


def with_subagents(log: ProgramLog, contents: Sequence[bytes], head: TrajectoryHead) -> ProgramLog:
    """Add sub-agents whose log is a file of its own, in the order given."""
    others: list[Trajectory] = []
    usage = log.usage
    for content in contents:
        name = f"subagent-{len(log.trajectories) + len(others)}"
        found = read_trajectory(lambda content=content: io.BytesIO(content), name=name)  # type: ignore[misc]
        steps = tuple(found.steps)
        if steps:
            its_head = replace(_merge_heads(found.head, head), kind=TrajectoryKind.SUBAGENT, parent="main")
            source = content.decode(errors="replace")[:MAX_SOURCE_CHARS]
            others.append(_note_problems(Trajectory(its_head, steps, found.usage, source), found))
            usage += found.usage
    return replace(log, trajectories=(*log.trajectories, *others), usage=usage)


def _note_problems(trajectory: Trajectory, found: ReadTrajectory) -> Trajectory:
    """Add the problems of the whole log, as an import keeps them: `extra["problems"]`."""
    problems = [asdict(problem) for problem in islice(found.problems, MAX_PROBLEMS)]
    extra = {**(trajectory.head.extra or {}), "problems": problems}
    return replace(trajectory, head=replace(trajectory.head, extra=extra)) if problems else trajectory


def _merge_heads(found: TrajectoryHead, known: TrajectoryHead) -> TrajectoryHead:
    return replace(
        found,
        agent_name=known.agent_name,
        agent_version=found.agent_version or known.agent_version,
        model=found.model or known.model,
    )


def _prepend_instruction(steps: tuple[Step, ...], instruction: str) -> tuple[Step, ...]:
    if any(step.source is Source.USER and step.message.strip() == instruction.strip() for step in steps):
        return steps
    return tuple(replace(step, number=at) for at, step in enumerate((Step(1, Source.USER, instruction), *steps), 1))


FOLDER = "agent"  # below the logs folder: the program's input and output
INSTRUCTION, OUTPUT, ERRORS = "instruction.md", "output.jsonl", "errors.txt"
HOME = "/root"
QUOTED_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """What an adapter needs to write its command line."""

    job: AgentJob
    preset: Preset
    program: str  # path of the program in the sandbox
    folder: str  # path of FOLDER in the sandbox
    url: str  # used as the provider's base URL

    @property
    def offline(self) -> bool:
        """Is the task cut off from the network? Then tools that the provider runs for the agent must be off too."""
        return not self.job.task.machine.network

    def option(self, name: str) -> str | None:
        value = self.preset.options.get(name)
        return None if value is None else str(value)


class ProgramAgent:
    """Subclasses set the class attributes, write `command`, and override the rest as their program requires."""

    name = ""
    provider_address = ""  # where the program's calls go unless the preset says otherwise
    wire = ""  # the format of its calls (runner.sandboxes.needs.Provider); the gateway forwards no other
    skill_folders: tuple[str, ...] = ()  # where the program looks for skills, absolute
    moving_variables: tuple[str, ...] = ()  # of an image: they would move the program's settings and skills elsewhere
    known_options: frozenset[str] = frozenset()  # the options of a preset that this program accepts

    @property
    def version(self) -> str:
        return pin_of(self.name).version

    # --- what an adapter says -----------------------------------------------------------------------------------

    def command(self, start: ProgramStart) -> Sequence[str]:
        """Return the command line, as words. The instruction comes on its standard input."""
        raise NotImplementedError

    def environment(self, start: ProgramStart) -> Mapping[str, str]:
        return {}

    def files(self, start: ProgramStart) -> Mapping[str, str]:
        """Return further files below FOLDER, such as the program's own settings."""
        return {}

    def logs(self, names: Sequence[str]) -> Sequence[str]:
        """Choose which files that the program left below FOLDER to read, the best first."""
        return [OUTPUT]

    def subagent_logs(self, names: Sequence[str]) -> Sequence[str]:
        """Choose which of those files are logs of sub-agents, if the program writes one for each."""
        return []

    def failure(self, log: ProgramLog) -> Failure | None:
        """Read an early end, such as a turn limit, from the program's own log."""
        return None

    def turns(self, log: ProgramLog) -> int | None:
        """Count model calls of the main agent, without its sub-agents. None if the log does not separate them."""
        return sum(step.source is Source.AGENT for step in log.trajectories[0].steps) if log.trajectories else None

    def base_address(self, address: str) -> str:
        """Return a provider's address without the part that the program adds itself."""
        return address

    def models(self, preset: Preset) -> frozenset[str]:
        """Names of the models that its calls may ask for. Side calls must use the priced model under test."""
        return frozenset({preset.agent_model})

    # --- the agent ----------------------------------------------------------------------------------------------

    def needs(self, model: Model | None) -> Needs:
        preset = self.preset(model)
        address = self.base_address(preset.base_url() or self.provider_address)
        provider = Provider(
            address, preset.key_variable, preset.key_header, self.wire, self.models(preset), preset.endpoint()
        )
        preset.require_key()
        call_cost(preset, Usage(0, 0, 0))  # loads the price list now, and not while the program waits for an answer
        return Needs(self.skill_folders, self.find_program(), provider, price=partial(call_cost, preset))

    def find_program(self) -> Program | None:
        """Return the program that its sandbox mounts. NotOnThisMachine if it is not installed."""
        return find_installed(self.name)

    def preset(self, model: Model | None) -> Preset:
        """Raises SetupError if the preset lacks what this program needs, or wants what the program cannot do."""
        if model is None or model.preset is None:
            raise SetupError(f"the agent {self.name!r} needs a model from a preset, which names it as the program does")
        preset = {
            name for name, value in model.preset.options.items() if value is not None
        }  # null: leave it to the program
        unknown = sorted(preset - self.known_options)
        if unknown:
            known = ", ".join(sorted(self.known_options)) or "none"
            raise SetupError(
                f"{self.name} has no option for {', '.join(unknown)} (preset {model.preset.name}); known: {known}"
            )
        return model.preset

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        preset, gateway = self.preset(model), sandbox.gateway
        if sandbox.provider_url is None or gateway is None:
            raise SetupError(f"the agent {self.name!r} needs a sandbox that gives it a way to its provider")
        program = find_installed(self.name)
        folder = f"{sandbox.path(LOGS)}/{FOLDER}"
        start = ProgramStart(job, preset, f"{program.target}/bin/{self.name}", folder, sandbox.provider_url)
        gateway.watch = partial(tell_call, on_step)
        gateway.allow(job.limits.max_turns, job.limits.max_total_tokens)
        done, seconds = self._execute(start, sandbox)
        gateway.close()  # processes it left running can ask nothing more; a call in progress is counted before we look
        log = self._log(sandbox, job)
        failure = self._find_failure_or_raise(done, seconds, log, gateway)
        # The provider's count, not the log's: the log may be cut off, and the agent can write to it.
        usage = log.usage if gateway.usage == Usage() else gateway.usage
        usage = usage.in_part() if gateway.uncounted or gateway.broken_off else usage
        turns = self.turns(log)
        turns = gateway.requests if turns is None else turns
        return AgentRun(log.trajectories, usage, turns, failure, queued_seconds=gateway.queued_seconds)

    def _execute(self, start: ProgramStart, sandbox: Sandbox) -> tuple[Completed, float]:
        files = {INSTRUCTION: start.job.instruction, **self.files(start)}
        sandbox.put(LOGS, {f"{FOLDER}/{path}": File(text.encode()) for path, text in files.items()})
        words = " ".join(shlex.quote(word) for word in self.command(start))
        places = [shlex.quote(f"{start.folder}/{name}") for name in (INSTRUCTION, OUTPUT, ERRORS)]
        environment = {"HOME": HOME, **self.environment(start), **_from_ours(start.preset)}
        # Set by an image, these would lead the program away from its library.
        unset = "".join(f"unset {name}; " for name in self.moving_variables if name not in environment)
        command = f"{unset}exec {words} < {places[0]} > {places[1]} 2> {places[2]}"
        seconds = start.job.limits.timeout_seconds or start.job.task.agent_timeout_seconds
        return sandbox.execute(command, timeout_seconds=seconds, environment=environment), seconds

    def _log(self, sandbox: Sandbox, job: AgentJob) -> ProgramLog:
        found = sandbox.files(LOGS)
        left = {
            path.removeprefix(f"{FOLDER}/"): file.content for path, file in found.items() if path.startswith(FOLDER)
        }
        names = [name for name in self.logs(sorted(left)) if left.get(name)]
        errors = left.get(ERRORS, b"").decode(errors="replace")[-QUOTED_CHARS:].strip()
        head = TrajectoryHead(source_format="empty", agent_name=self.name, agent_version=self.version)
        if not names:
            asked = Step(1, Source.USER, job.instruction)
            return ProgramLog((Trajectory(head, (asked,)),), {}, Usage(), errors)
        logs = (read_log(left[name], job.instruction, head, errors) for name in names)
        log = next(logs)
        if not log.tells_work:  # the best may contain no more than its head
            log = next((other for other in logs if other.tells_work), log)
        return with_subagents(log, [left[name] for name in self.subagent_logs(sorted(left))], head)

    def _find_failure_or_raise(
        self, done: Completed, seconds: float, log: ProgramLog, gateway: Gateway
    ) -> Failure | None:
        """Return the run's failure. Raise if the fault is the provider's, the budget's or the image's."""
        failure = self._failure(done, seconds, log, gateway)
        if gateway.refusal is not None:
            raise gateway.refusal
        if failure is None:
            return None
        if gateway.trouble is not None:
            raise gateway.trouble
        if gateway.requests == 0 and not done.timed_out:
            output = log.errors or done.output.strip()[-QUOTED_CHARS:] or failure.message
            if done.exit_code is None:  # it did not end by itself: the container stopped, or its disk filled up
                raise SandboxError(f"{self.name} {self.version} was ended before its first model call: {output}")
            raise SetupError(f"{self.name} {self.version} ended before its first model call: {output}")
        return failure

    def _failure(self, done: Completed, seconds: float, log: ProgramLog, gateway: Gateway) -> Failure | None:
        if done.timed_out:
            return Failure("AgentTimeout", f"The program was ended after {seconds:g} seconds.")
        if gateway.limit_reached:
            used = gateway.usage.known_tokens
            return Failure(gateway.limit_reached, f"Not done after {gateway.requests} model calls and {used:,} tokens.")
        failure = self.failure(log)
        if failure is None and done.exit_code != 0:
            output = log.errors or done.output.strip()[-QUOTED_CHARS:]
            how = "was ended from outside" if done.exit_code is None else f"ended with exit code {done.exit_code}"
            return Failure(PROGRAM_FAILED, f"The program {how}. {output}".strip())
        return failure


def tell_call(on_step: Callable[[Step], None], number: int, usage: Usage) -> None:
    """Report one call while the program works. Its own log is only read after it has ended."""
    sent, made = ("?" if count is None else f"{count:,}" for count in (usage.input_tokens, usage.output_tokens))
    on_step(Step(number, Source.AGENT, f"[model call {number}: {sent} tokens read, {made} written]"))


def _from_ours(preset: Preset) -> dict[str, str]:
    """The variables of our own environment that the preset lets into the sandbox, by name."""
    missing = sorted(name for name in preset.agent_environment.values() if name not in os.environ)
    if missing:
        raise SetupError(f"preset {preset.name}: not set in the environment: {', '.join(missing)}")
    return {variable: os.environ[name] for variable, name in preset.agent_environment.items()}

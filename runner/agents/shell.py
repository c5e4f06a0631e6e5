"""Our own agent: one completion a turn, a few tools, and nothing else between the model and the task."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from runner.agents import AgentJob, AgentRun, Limits
from runner.agents.agent_trajectory import TrajectoryBuilder, timestamp
from runner.agents.shell_tools import COMMAND_SECONDS, Toolset, list_tools
from runner.authoring.contract.contract import MAX_DESCRIPTION_CHARS
from runner.base.errors import SetupError
from runner.base.text import plural
from runner.base.types import (
    TOO_LONG,
    FailedTry,
    Failure,
    JsonValue,
    ModelReply,
    ModelRequest,
    Observation,
    Source,
    Step,
    Usage,
)
from runner.models import Model
from runner.models.wire.carried import call_fields, message_fields
from runner.sandboxes import Sandbox
from runner.sandboxes.needs import NOTHING, Needs

SYSTEM = """\
You solve a task by working in a shell. Every reply must call at least one tool.

- `shell` runs a command with sh in the working directory, where the task's files are. Each command starts there afresh:
  variables and `cd` do not carry over. A command cannot ask for input and is stopped after {command_seconds:g} seconds.
- `read` and `write` are for text files.
{skill_tool}- `submit` ends the work. Nothing runs after it.

Nobody can answer questions. Look at what you have, do the work, check the result, then call `submit`.

# Limits
{limits}
When a limit is reached, the work stops and the files are judged as they are.
"""
SKILL_TOOL = "- `skill` opens a skill of the library.\n"
SKILLS = """
# Skills
The library holds these skills. Each line gives a name and the author's description of when the skill applies.{advice}
{skills}
"""
ADVICE = " Open every\nskill that could fit the task with `skill`; its instructions are inside."
NO_SKILLS = """
# Skills
The library is empty.
"""
NUDGE = "Your reply called no tool. Call `shell` to continue, or `submit` if the task is done."
FEW_TURNS = 5  # from here on the model is shown how many are left
MAX_NUDGES = 2
MAX_NAME_CHARS = 64  # of a tool, according to OpenAI's documentation
MAX_QUOTED_CHARS = 500  # of a provider's refusal
MAX_LISTED_SKILLS = 200
MAX_LIST_CHARS = 24_000  # of all descriptions together; beyond it each is cut to an equal share
NO_DESCRIPTION = "(no description)"


class Shell:
    """Limits:
    - turns are completions; max_output_tokens applies to each completion;
    - time is wall-clock time of the whole run, without the provider's delay (tries that failed or hung, and the pauses
      after them) and the wait for a free slot of its server;
    - max_total_tokens is checked before each completion, so the last one may exceed it. Without usage data it cannot be
      enforced.

    An early end is a Failure of type AgentTimeout, TurnLimit, TokenLimit, ContextLimit, NoToolCall or OutputLimit.
    """

    name = "shell"
    version = "3"

    def needs(self, model: Model | None) -> Needs:
        if model is None:
            raise SetupError("the agent 'shell' needs a model")
        return NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        if model is None:
            raise SetupError("the agent 'shell' needs a model")
        session = _ShellSession(job, sandbox, model, TrajectoryBuilder(on_step))
        failure = session.work()
        extra = session.notes_on_calls()
        trajectory = session.builder.trajectory(self.name, self.version, model.name, session.skills_listed, extra)
        usage = trajectory.usage if session.lost is None else trajectory.usage + session.lost
        usage = usage if not session.uncounted and session.lost is None else usage.in_part()
        return AgentRun((trajectory,), usage, session.turns, failure, queued_seconds=session.queued)


class _ShellSession:
    """One run: the conversation so far, and the notebook that keeps it."""

    def __init__(self, job: AgentJob, sandbox: Sandbox, model: Model, builder: TrajectoryBuilder) -> None:
        self.job, self.model, self.builder = job, model, builder
        self.seconds = job.limits.timeout_seconds or job.task.agent_timeout_seconds
        self.deadline = time.monotonic() + self.seconds
        self.turns = 0
        self.uncounted = 0  # replies without usage data
        self.failed_tries: list[FailedTry] = []
        self.queued = 0.0  # seconds
        self.lost: Usage | None = None  # known usage of failed tries that may have used tokens
        self.not_sent: dict[str, None] = {}  # requested parameters that were not sent, in the order met
        self.messages: list[Mapping[str, object]] = []
        self.tools = list_tools(job.library)
        self.toolset = Toolset(sandbox, job.skills if job.library else None, self.remaining)
        self.skills_listed = job.skills[:MAX_LISTED_SKILLS] if job.library else ()

    def work(self) -> Failure | None:
        self.say(Source.SYSTEM, _system(self.job, self.seconds))
        self.say(Source.USER, self.job.instruction)
        nudges = 0
        while self.turns < self.job.limits.max_turns:
            if early := self.at_a_limit():
                return early
            reply = self.ask()
            if reply.tool_calls:
                if self.act(reply):
                    return None
                nudges = 0
                continue
            self.keep(reply, ())
            if reply.finish_reason == TOO_LONG:
                return _context_limit(reply, self.turns - 1)
            nudges += 1
            if nudges > MAX_NUDGES:
                return _no_tool_call(reply, nudges)
            self.say(Source.USER, f"{NUDGE}{self.turns_left()}")
        return self.at_a_limit() or Failure("TurnLimit", f"Not submitted after {self.turns} turns.")

    def say(self, source: Source, text: str) -> None:
        self.messages.append({"role": source.value, "content": text})
        self.builder.add(source, text)

    def ask(self) -> ModelReply:
        request = ModelRequest(
            messages=tuple(self.messages),
            tools=self.tools,
            max_tokens=self.job.limits.max_output_tokens,
            seed=self.job.seed,
        )
        self.job.before_call()
        self.turns += 1
        reply = self.model.complete(request)
        self.deadline += reply.delay_seconds
        self.failed_tries += reply.failed_tries
        self.queued += reply.queued_seconds
        return reply

    def act(self, reply: ModelReply) -> bool:
        """Run the reply's tool calls in order. Return True when the work is submitted; calls after that are not run."""
        at, submitted, cut = timestamp(), False, _explain_cut(reply, self.job.limits)
        observations = []
        for call in reply.tool_calls:
            if submitted:
                observations.append(Observation("[not run: already submitted]", call.id, is_error=True))
            elif call.name == "submit":
                submitted = True
                observations.append(Observation("Submitted.", call.id))
            else:
                observations.append(self.toolset.observe(call, cut))
        if not submitted:
            observations[-1] = replace(observations[-1], content=f"{observations[-1].content}{self.turns_left()}")
        self.keep(reply, tuple(observations), at)
        return submitted

    def keep(self, reply: ModelReply, observations: tuple[Observation, ...], at: str | None = None) -> None:
        """Add the reply and the results of its calls to the conversation and the notebook."""
        self.uncounted += reply.usage == Usage() and reply.finish_reason != TOO_LONG  # a refused request uses nothing
        if reply.lost_usage is not None:
            self.lost = (self.lost or Usage()) + reply.lost_usage
        self.not_sent.update(dict.fromkeys(reply.not_sent))
        self.messages.append(_assistant_message(reply))
        for call, observation in zip(reply.tool_calls, observations, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": observation.content})
        # For the step: the tries before this reply, whose time is not the agent's, and changes to the request
        tries = [{"reason": each.reason, "seconds": round(each.seconds, 1)} for each in reply.failed_tries]
        notes = {"failed_tries": tries, "notes": list(reply.notes)}
        self.builder.add(
            Source.AGENT,
            reply.text,
            reasoning=reply.reasoning,
            tool_calls=reply.tool_calls,
            observations=observations,
            model=reply.model or self.model.name,
            usage=reply.usage,
            at=at,
            extra={name: value for name, value in notes.items() if value} or None,
        )

    def notes_on_calls(self) -> dict[str, JsonValue] | None:
        """For the trajectory's head: the provider's failures before it answered, and parameters that were not sent."""
        notes: dict[str, JsonValue] = {}
        if self.failed_tries:
            seconds = round(sum(each.seconds for each in self.failed_tries), 1)
            notes["provider_delay"] = {"failed_tries": len(self.failed_tries), "seconds": seconds}
        if self.not_sent:
            notes["not_sent"] = list(self.not_sent)
        return notes or None

    def turns_left(self) -> str:
        left = self.job.limits.max_turns - self.turns
        return f"\n[{plural(left, 'turn')} left]" if 0 < left <= FEW_TURNS else ""

    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    def at_a_limit(self) -> Failure | None:
        """Return a failure if the time or tokens of the whole run are used up."""
        if self.remaining() <= 0:
            return Failure("AgentTimeout", f"Not submitted after {self.seconds:g} seconds.")
        limit, used = self.job.limits.max_total_tokens, self.builder.usage.known_tokens
        if limit is not None and used >= limit:
            return Failure("TokenLimit", f"Not submitted after {used:,} tokens, of {limit:,} allowed.")
        return None


def _system(job: AgentJob, seconds: float) -> str:
    """Build the prompt of a job. Equal jobs give equal prompts, so that it can be cached across turns and trials."""
    limits = job.limits
    lines = [
        f"- {limits.max_turns:,} turns; each of your replies is one.",
        f"- {seconds:,g} seconds in all.",
        f"- {limits.max_output_tokens:,} output tokens per reply. A reply that is cut off there loses its last tool "
        "call.",
    ]
    if limits.max_total_tokens is not None:
        lines.append(f"- {limits.max_total_tokens:,} tokens in all, read and written.")
    tool = SKILL_TOOL if job.library else ""
    text = SYSTEM.format(command_seconds=COMMAND_SECONDS, skill_tool=tool, limits="\n".join(lines))
    if not job.library:
        return text
    if not job.skills:
        return text + NO_SKILLS
    advice = ADVICE if job.advised else ""
    return text + SKILLS.format(skills=list_skills(job.skills, job.descriptions), advice=advice)


def list_skills(slugs: tuple[str, ...], descriptions: Mapping[str, str]) -> str:
    """Tier 1 of a skill library: the names and descriptions in an agent's context before it opens any skill.

    One line per skill. A name or a description with line breaks is put on one line. Source: agentskills.io, as
    SkillEvolBench quotes it (appendix C.3): the metadata is always in the agent's context, the body is loaded when the
    metadata matches. Claude Code, Codex and similar agents list the skills they find by themselves.
    """
    listed = slugs[:MAX_LISTED_SKILLS]
    room = min(MAX_DESCRIPTION_CHARS, MAX_LIST_CHARS // max(len(listed), 1))
    lines = [f"- {_one_line(slug, 100)}: {_one_line(descriptions.get(slug, ''), room)}" for slug in listed]
    more = len(slugs) - len(listed)
    return "\n".join([*lines, *([f"[... {more:,} more skills, not listed here ...]"] if more > 0 else [])])


def _one_line(text: str, room: int) -> str:
    line = "".join(each if each.isprintable() else "\ufffd" for each in " ".join(text.split()))
    if len(line) > room:
        line = f"{line[:room].rstrip()} [... {len(line) - room:,} characters left out ...]"
    return line or NO_DESCRIPTION


def _explain_cut(reply: ModelReply, limits: Limits) -> str:
    """Explain to the model why its reply ends in the middle. "" if it does not."""
    if reply.finish_reason == TOO_LONG:
        return "the reply was cut off because the context window is full"
    if reply.finish_reason != "length":
        return ""
    tokens = reply.usage.output_tokens or limits.max_output_tokens
    return f"the reply was cut off at {tokens:,} tokens (finish reason length): write less per call"


def _context_limit(reply: ModelReply, turns: int) -> Failure:
    when = f"After {plural(turns, 'turn')} the conversation" if turns else "The first request"
    text = "" if reply.usage.known_tokens else " ".join(reply.text.split())[:MAX_QUOTED_CHARS]  # else the model's words
    return Failure("ContextLimit", f"{when} does not fit the model's context window. {text}".rstrip())


def _no_tool_call(reply: ModelReply, times: int) -> Failure:
    if reply.finish_reason == "length":
        return Failure("OutputLimit", "The reply reached the limit on output tokens before it called a tool.")
    return Failure("NoToolCall", f"{times} replies in a row called no tool.")


def _assistant_message(reply: ModelReply) -> Mapping[str, object]:
    """Omit blank texts: litellm would replace them with words of its own, and other clients refuse such a turn."""
    text = {"content": reply.text} if reply.text.strip() else {}
    carried = message_fields(reply.carried)
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                # Providers refuse any conversation with another name, for good.
                "name": re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:MAX_NAME_CHARS] or "unnamed",
                "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
            },
            **call_fields(reply.carried, call.id),
        }
        for call in reply.tool_calls
    ]
    if calls:
        return {"role": "assistant", **text, "tool_calls": calls, **carried}
    return {"role": "assistant", "content": "(nothing)", **text, **carried}

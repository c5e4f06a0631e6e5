"""How an agent was ended, from the type of what ended it. One type, one end: nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum


class AgentEnd(StrEnum):
    """How an agent ended, in the order of the pages."""

    TIME = "time limit"
    TURNS = "turn limit"
    TOKENS = "token limit"
    CONTEXT = "context limit"
    OUTPUT = "output limit"
    NO_CALL = "no tool call"
    PROGRAM = "program failed"
    MACHINERY = "machinery"


# Types of `runner.base.types.Failure` from our agents (docs/reference/harnesses.md).
OF_TYPE: Mapping[str, AgentEnd] = {
    "AgentTimeout": AgentEnd.TIME,
    "TurnLimit": AgentEnd.TURNS,
    "TokenLimit": AgentEnd.TOKENS,
    "ContextLimit": AgentEnd.CONTEXT,
    "OutputLimit": AgentEnd.OUTPUT,
    "NoToolCall": AgentEnd.NO_CALL,
    "ProgramFailed": AgentEnd.PROGRAM,
}
# Exceptions of the machinery around an agent: containers, providers, reward files.
HARNESS_TYPES = re.compile(
    r"RewardFile|Docker|Container|Sandbox|Environment(?:Start|Build|Setup)|Infrastructure|Connection|RateLimit"
    r"|ServiceUnavailable|InternalServer|APIError|Authentication|AgentSetup|Daytona|Modal|CancelledError"
)
# Of other programs: Harbor's "AgentTimeoutError" and "VerifierTimeoutError", Inspect's "limit:message", SWE-agent's
# "exit_context".
_FOREIGN: tuple[tuple[re.Pattern[str], AgentEnd], ...] = (
    (re.compile(r"\A(?:Verifier|Environment|AgentSetup).*Time"), AgentEnd.MACHINERY),
    (re.compile(r"context", re.IGNORECASE), AgentEnd.CONTEXT),
    (
        re.compile(r"\Alimit:(?:message|turn)|max_?(?:turns|steps|iterations)|LimitsExceeded", re.IGNORECASE),
        AgentEnd.TURNS,
    ),
    (re.compile(r"\Alimit:(?:token|cost)|exit_cost", re.IGNORECASE), AgentEnd.TOKENS),
    (re.compile(r"\Alimit:(?:time|working)|time_?d?out|exit_total_execution_time", re.IGNORECASE), AgentEnd.TIME),
    (HARNESS_TYPES, AgentEnd.MACHINERY),
)


def end_of(exception_type: str) -> AgentEnd | None:
    """Return the end; None if the agent ended by itself, or the type does not show how."""
    if exception_type in OF_TYPE:
        return OF_TYPE[exception_type]
    if exception_type.lower().startswith(
        "submitted"
    ):  # SWE-agent's "submitted (exit_cost)": the work so far was handed in
        return None
    return next((end for pattern, end in _FOREIGN if pattern.search(exception_type)), None)

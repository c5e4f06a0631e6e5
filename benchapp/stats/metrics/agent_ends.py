"""How an agent ended that did not end by itself, from the type of what ended it. One type, one end: nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum


class End(StrEnum):
    """In the order in which pages name them."""

    TIME = "time limit"
    TURNS = "turn limit"
    TOKENS = "token limit"
    CONTEXT = "context limit"
    OUTPUT = "output limit"
    NO_CALL = "no tool call"
    PROGRAM = "program failed"
    MACHINERY = "machinery"


# Types of `runner.base.types.Failure`, as our agents give them (docs/reference/harnesses.md).
OF_TYPE: Mapping[str, End] = {
    "AgentTimeout": End.TIME,
    "TurnLimit": End.TURNS,
    "TokenLimit": End.TOKENS,
    "ContextLimit": End.CONTEXT,
    "OutputLimit": End.OUTPUT,
    "NoToolCall": End.NO_CALL,
    "ProgramFailed": End.PROGRAM,
}
# Exceptions of the machinery around an agent: containers, providers, reward files.
HARNESS_TYPES = re.compile(
    r"RewardFile|Docker|Container|Sandbox|Environment(?:Start|Build|Setup)|Infrastructure|Connection|RateLimit"
    r"|ServiceUnavailable|InternalServer|APIError|Authentication|AgentSetup|Daytona|Modal|CancelledError"
)
# Of other programs: Harbor's "AgentTimeoutError" and "VerifierTimeoutError", Inspect's "limit:message", SWE-agent's "exit_context".
_FOREIGN: tuple[tuple[re.Pattern[str], End], ...] = (
    (re.compile(r"\A(?:Verifier|Environment|AgentSetup).*Time"), End.MACHINERY),
    (re.compile(r"context", re.IGNORECASE), End.CONTEXT),
    (re.compile(r"\Alimit:(?:message|turn)|max_?(?:turns|steps|iterations)|LimitsExceeded", re.IGNORECASE), End.TURNS),
    (re.compile(r"\Alimit:(?:token|cost)|exit_cost", re.IGNORECASE), End.TOKENS),
    (re.compile(r"\Alimit:(?:time|working)|time_?d?out|exit_total_execution_time", re.IGNORECASE), End.TIME),
    (HARNESS_TYPES, End.MACHINERY),
)


def end_of(exception_type: str) -> End | None:
    """None: it ended by itself, or with something that says nothing of how."""
    if exception_type in OF_TYPE:
        return OF_TYPE[exception_type]
    if exception_type.lower().startswith(
        "submitted"
    ):  # SWE-agent's "submitted (exit_cost)": what was there was handed in
        return None
    return next((end for pattern, end in _FOREIGN if pattern.search(exception_type)), None)

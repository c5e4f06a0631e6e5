"""How an agent ended is read from one type, of our agents and of other programs."""

from __future__ import annotations

import pytest

from benchapp.stats.metrics.agent_ends import End, end_of


@pytest.mark.parametrize(
    ("types", "end"),
    [
        (("AgentTimeout", "AgentTimeoutError", "limit:time", "exit_total_execution_time"), End.TIME),
        (("TurnLimit", "limit:message", "LimitsExceeded"), End.TURNS),
        (("TokenLimit", "limit:token", "exit_cost"), End.TOKENS),
        (("ContextLimit", "exit_context", "ContextLengthExceededError"), End.CONTEXT),
        (("OutputLimit",), End.OUTPUT),
        (("NoToolCall",), End.NO_CALL),
        (("ProgramFailed",), End.PROGRAM),
        (("RewardFileNotFoundError", "VerifierTimeoutError", "EnvironmentStartTimeoutError"), End.MACHINERY),
        (("", "submitted (exit_cost)", "SolutionFailed", "ValueError"), None),
    ],
    ids=lambda value: None if isinstance(value, tuple) else str(value),
)
def test_the_type_tells_the_end(types: tuple[str, ...], end: End | None) -> None:
    assert [end_of(each) for each in types] == [end] * len(types)

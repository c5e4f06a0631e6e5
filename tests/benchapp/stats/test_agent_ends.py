"""How an agent ended is read from one type, of our agents and of other programs."""

from __future__ import annotations

import pytest

from benchapp.stats.metrics.agent_ends import AgentEnd, end_of


@pytest.mark.parametrize(
    ("types", "end"),
    [
        (("AgentTimeout", "AgentTimeoutError", "limit:time", "exit_total_execution_time"), AgentEnd.TIME),
        (("TurnLimit", "limit:message", "LimitsExceeded"), AgentEnd.TURNS),
        (("TokenLimit", "limit:token", "exit_cost"), AgentEnd.TOKENS),
        (("ContextLimit", "exit_context", "ContextLengthExceededError"), AgentEnd.CONTEXT),
        (("OutputLimit",), AgentEnd.OUTPUT),
        (("NoToolCall",), AgentEnd.NO_CALL),
        (("ProgramFailed",), AgentEnd.PROGRAM),
        (("RewardFileNotFoundError", "VerifierTimeoutError", "EnvironmentStartTimeoutError"), AgentEnd.MACHINERY),
        (("", "submitted (exit_cost)", "SolutionFailed", "ValueError"), None),
    ],
    ids=lambda value: None if isinstance(value, tuple) else str(value),
)
def test_the_type_tells_the_end(types: tuple[str, ...], end: AgentEnd | None) -> None:
    assert [end_of(each) for each in types] == [end] * len(types)

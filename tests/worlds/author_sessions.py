"""A decision behind which an agent worked: the call with its session's trajectories, as a recorder writes them."""

from __future__ import annotations

from collections.abc import Sequence

from benchapp.models import Decision, ModelCall
from benchapp.record.trajectory_store import pack_steps
from benchapp.record.writing.rows import PackedTrajectory, save_session
from runner.base.types import Observation, Source, Step, ToolCall, TrajectoryHead, TrajectoryKind, Usage

STEPS = (
    Step(1, Source.USER, "Write skills.\n"),
    Step(
        2,
        Source.AGENT,
        "I look first.",
        tool_calls=(ToolCall("c1", "shell", {"command": "ls -R"}),),
        observations=(Observation("skills\n", "c1"),),
        usage=Usage(100, 10, 5),
    ),
    Step(
        3,
        Source.AGENT,
        "I write it.",
        tool_calls=(ToolCall("c2", "write", {"path": "skills/tidy/SKILL.md", "content": "---\nname: tidy\n---\n"}),),
        observations=(Observation("Wrote 19 bytes.", "c2"),),
        usage=Usage(120, 100, 9),
    ),
)


def add_session(
    decision: Decision, steps: Sequence[Step] = STEPS, *, agent: str = "claude-code", below: Sequence[Step] = ()
) -> ModelCall:
    """Gives the decision's call a session, with a sub-agent where `below` has steps."""
    call = decision.call
    assert call is not None
    head = TrajectoryHead(agent_name=agent, agent_version="2.1", extra={"turns": 2})
    worked = [PackedTrajectory(head, pack_steps(steps), "runner/1", usage=Usage(220, 110, 14))]
    if below:
        sub = TrajectoryHead(TrajectoryKind.SUBAGENT, "helper", "main", agent_name=agent)
        worked.append(PackedTrajectory(sub, pack_steps(below), "runner/1"))
    save_session(call, worked)
    return call

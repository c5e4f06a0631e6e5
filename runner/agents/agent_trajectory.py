"""Collects an agent's steps: numbers and stamps them and passes them on to the observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from runner.base.types import JsonValue, Observation, Source, Step, ToolCall, Trajectory, TrajectoryHead, Usage


def timestamp() -> str:
    """Return the current time in UTC as ISO 8601. Nothing else in our trajectories differs between equal attempts."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TrajectoryBuilder:
    """The steps of one trajectory as they happen."""

    def __init__(self, on_step: Callable[[Step], None]) -> None:
        self.steps: list[Step] = []
        self.usage = Usage()
        self._on_step = on_step

    def add(
        self,
        source: Source,
        message: str,
        *,
        reasoning: str | None = None,
        tool_calls: tuple[ToolCall, ...] = (),
        observations: tuple[Observation, ...] = (),
        model: str | None = None,
        usage: Usage | None = None,
        at: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        step = Step(
            number=len(self.steps) + 1,
            source=source,
            message=message,
            reasoning=reasoning,
            tool_calls=tool_calls,
            observations=observations,
            timestamp=at or timestamp(),
            model=model,
            usage=usage,
            extra=extra,
        )
        self.steps.append(step)
        self.usage += usage or Usage()
        self._on_step(step)

    def trajectory(
        self,
        agent_name: str,
        agent_version: str,
        model: str | None = None,
        skills_listed: tuple[str, ...] = (),
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Trajectory:
        head = TrajectoryHead(
            agent_name=agent_name, agent_version=agent_version, model=model, skills_listed=skills_listed, extra=extra
        )
        return Trajectory(head, tuple(self.steps), self.usage)

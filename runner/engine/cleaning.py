"""Removes from a trial's texts what must not be recorded, before anything is made of them.

An agent in the local sandbox can print the worker's secrets. The caller defines what counts as a secret (benchapp's
redaction). It is applied here: once, right after the agent ran, the verifier finished or a model answered. Trajectory,
compactions, skill uses, evidence and verdict are then made of the same texts and agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from runner.agents import AgentRun
from runner.base.types import Failure, ModelReply, ModelRequest, Step, Trajectory, Verdict
from runner.models.wire.carried import clean_carried

T = TypeVar("T")


def as_it_is(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True)
class Cleaner:
    """`text` and `step` must be deterministic, and cleaning twice must change nothing."""

    text: Callable[[str], str] = as_it_is
    step: Callable[[Step], Step] = as_it_is

    def run(self, run: AgentRun) -> AgentRun:
        failure = None if run.failure is None else self._failure(run.failure)
        return replace(run, trajectories=tuple(map(self._trajectory, run.trajectories)), failure=failure)

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        source = None if trajectory.source is None else self.text(trajectory.source)
        head = replace(
            trajectory.head,
            agent_name=self._value(trajectory.head.agent_name),
            agent_version=self._value(trajectory.head.agent_version),
            model=self._value(trajectory.head.model),
            extra=self._value(trajectory.head.extra),
        )
        return replace(trajectory, head=head, steps=tuple(map(self.step, trajectory.steps)), source=source)

    def _failure(self, failure: Failure) -> Failure:
        return replace(failure, message=self.text(failure.message), traceback=self.text(failure.traceback))

    def verdict(self, verdict: Verdict) -> Verdict:
        """Names and messages of checks and dimensions come from files that a trial may have changed."""
        return verdict.with_texts(self.text)

    def request(self, request: ModelRequest) -> ModelRequest:
        """Clean what is sent, so that it is also what is recorded."""
        return replace(request, messages=tuple(self._value(dict(message)) for message in request.messages))

    def reply(self, reply: ModelReply) -> ModelReply:
        """Clean every text in any field: a provider may echo a key anywhere."""
        found: ModelReply = self._with_texts(replace(reply, carried=None))
        return replace(found, carried=clean_carried(reply.carried, self._value))

    def _with_texts(self, value: object) -> Any:
        """Clean every text in a runner value."""
        if isinstance(value, tuple):
            return tuple(map(self._with_texts, value))
        if not is_dataclass(value) or isinstance(value, type):
            return self._value(value)
        return replace(value, **{each.name: self._with_texts(getattr(value, each.name)) for each in fields(value)})

    def _value(self, value: object) -> Any:
        """Clean every text in a JSON value, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._value(item) for name, item in value.items()}
        return [self._value(item) for item in value] if isinstance(value, list | tuple) else value

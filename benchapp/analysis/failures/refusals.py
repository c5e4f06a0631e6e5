"""Refused trials as values: what was read of one run, and each trial with its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from benchapp.analysis.failures.classification import Classified
from benchapp.stats.metrics.agent_ends import AgentEnd


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A finished trial that its verifier refused. source: kind of its corpus, "" if none."""

    trial: UUID
    pk: int
    task: str
    source: str
    sample: int
    classified: Classified


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one run. ends: failed trials that a limit, the agent's program or the machinery ended; they are
    not refusals of finished work. left_out: refusals beyond those that were read."""

    refused: tuple[RefusedRow, ...] = ()
    ends: Mapping[AgentEnd, int] = field(default_factory=dict)
    left_out: int = 0

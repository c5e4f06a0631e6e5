"""A recorded attempt as one ATIF document (Harbor's trajectory.json): the main trajectory, with its sub-agents inside.

Written piece by piece, one chunk of steps in memory at a time. Steps are stored as ATIF writes them, so most are copied
unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchapp.models import Attempt, Trajectory
from benchapp.record.recorded import read_head, usage_of
from benchapp.record.trajectory_store import iterate_lines
from runner.base.types import TrajectoryKind, Usage
from runner.trajectories.atif_document import document_frame

Json = dict[str, Any]  # written here, member by member


def select_trajectories(attempt: Attempt) -> list[Trajectory]:
    """Return trajectories with steps that nothing superseded, the main one first."""
    return sorted(
        (each for each in attempt.trajectories.all() if not each.is_superseded and each.steps_total),
        key=lambda each: (each.kind != TrajectoryKind.MAIN, each.ordinal, each.pk),
    )


def atif_pieces(attempt: Attempt, trajectories: Sequence[Trajectory]) -> Iterator[bytes]:
    """Yield the document in pieces. `trajectories`: at least one, as from `select_trajectories`."""
    main, *others = trajectories
    yield from _write_opening(_frame(main, usage_of(attempt)), main)
    if others:
        yield b', "subagent_trajectories": ['
        for place, other in enumerate(others):
            yield b", " if place else b""
            yield from _write_opening({"trajectory_id": other.name, **_frame(other, usage_of(other))}, other)
            yield b"}"
        yield b"]"
    yield b"}\n"


def _write_opening(frame: Json, trajectory: Trajectory) -> Iterator[bytes]:
    """Write everything except the closing brace."""
    yield json.dumps(frame, ensure_ascii=False, allow_nan=False).encode()[:-1] + b', "steps": ['
    for place, lines in enumerate(iterate_lines(trajectory)):
        yield (b",\n" if place else b"\n") + b",\n".join(lines)
    yield b"\n]"


def _frame(trajectory: Trajectory, usage: Usage) -> Json:
    told = {**trajectory.extra, "kind": trajectory.kind, "digest": trajectory.digest}
    return document_frame(replace(read_head(trajectory), extra=told), usage, trajectory.steps_total)

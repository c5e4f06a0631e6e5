"""The index of a trajectory's steps, read within bounds and cached: a trajectory never changes."""

from __future__ import annotations

from benchapp.analysis.deciding.deciding_steps import StepIndex, build_step_index
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import iterate_beginning
from benchapp.stats.learning.computed_runs import Recent

MAX_STEPS = 2_000  # of a longer one a page lists chunks, and no rule searches it
MAX_CHUNKS = 6  # of at most 1 MiB each
KEPT_CHARS = 24_000_000


def _measure(index: StepIndex) -> int:
    return len(index.results) + 400 * len(index.glances)


KEPT: Recent[str, StepIndex] = Recent(KEPT_CHARS, _measure)


def read_step_index(trajectory: Trajectory | None, chunks: int) -> StepIndex | None:
    """Return None without a trajectory, or for one beyond the bounds. `chunks`: how many it has. At most one query."""
    if trajectory is None or not 0 < trajectory.steps_total <= MAX_STEPS or chunks > MAX_CHUNKS:
        return None
    found = KEPT.get(trajectory.digest)
    if found is None:
        steps = iterate_beginning(trajectory, steps=MAX_STEPS, chunks=MAX_CHUNKS)
        found = build_step_index(stored.step for stored, _ in steps)
        KEPT.put(trajectory.digest, found)
    return found

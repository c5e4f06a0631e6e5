"""One side of an alignment, read from the record within bounds."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.analysis.alignment.alignment import StepSign, build_sign
from benchapp.analysis.deciding.step_glances import list_written_files
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import iterate_beginning
from benchapp.stats.learning.computed_runs import Recent
from runner.trajectories.step_outline import first_text, subject

MAX_STEPS = 4_000  # of one side
MAX_LINE_CHARS = 400
MAX_CHUNKS = 8  # of at most 1 MiB each


@dataclass(frozen=True, slots=True)
class AlignedSide:
    """The beginning of a trajectory, as far as the bounds reach. `lines`: each step in a line. `tokens`: input (cached
    ones included) and output of each step, None where unknown."""

    signs: tuple[StepSign, ...]
    lines: tuple[str, ...]
    tokens: tuple[tuple[int | None, int | None], ...]
    errors: frozenset[int]  # numbers of steps with an error
    total: int
    writes: frozenset[int] = frozenset()  # numbers of steps that write a file

    @property
    def left_out(self) -> int:
        """Count the steps beyond the bounds, which no alignment includes."""
        return self.total - len(self.signs)


LONG = 1_000  # steps; longer sides are cached
KEPT: Recent[str, AlignedSide] = Recent(4)  # sides by the digest of their trajectory, of at most about 3 MB each

NOTHING = AlignedSide((), (), (), frozenset(), 0)


def read_side(trajectory: Trajectory | None) -> AlignedSide:
    """Read one side with one query. Memory: one chunk, and a few hundred bytes per step. Long trajectories are cached
    by their digest, because they never change."""
    if trajectory is None:
        return NOTHING
    if found := KEPT.get(trajectory.digest):
        return found
    signs, lines, tokens, errors, writes = [], [], [], set(), set()
    for stored, pieces in iterate_beginning(trajectory, steps=MAX_STEPS, chunks=MAX_CHUNKS):
        step, usage = stored.step, stored.step.usage
        signs.append(build_sign(step, pieces))
        # What the step did, if it acted. Its comment on that is left out of the alignment.
        about = next((text for call in step.tool_calls if (text := subject(call))), "")
        lines.append(" ".join(about[:MAX_LINE_CHARS].split()) or first_text(step))
        tokens.append((usage.input_tokens, usage.output_tokens) if usage else (None, None))
        if any(observation.is_error for observation in step.observations):
            errors.add(step.number)
        if any(name for call in step.tool_calls for name in list_written_files(call)):
            writes.add(step.number)
    ends = frozenset(errors), trajectory.steps_total, frozenset(writes)
    side = AlignedSide(tuple(signs), tuple(lines), tuple(tokens), *ends)
    if len(signs) >= LONG:
        KEPT.put(trajectory.digest, side)
    return side

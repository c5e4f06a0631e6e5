"""Check where a mark points against the record before it is kept.

An anchor names a step and a field of the item's trial, or a file of its decision or library, and a range there. A page
counts characters of the text it shows, the record those of the text it keeps; `Reading` converts between them. The
quote is what the reviewer saw, and is always kept word for word. The range is kept only where the page really shows the
quote there: an anchor never points at words nobody marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from benchapp.models import Mark, QueueItem, Snapshot, Trajectory
from benchapp.models.trajectories import main_first
from benchapp.record.trajectory_store import read_whole_step
from runner.trajectories.fields import FIELD, fields

MAX_QUOTE = 2_000  # characters of a marked range, kept next to its offsets
SIDES = ("before", "after")  # of a decision's files


class Reading(Protocol):
    """A field as a page shows it. Ranges in characters; None where no shown part of one remains."""

    @property
    def text(self) -> str: ...
    def map_to_recorded(self, start: int, end: int) -> tuple[int, int] | None: ...
    def map_to_shown(self, start: int, end: int) -> tuple[int, int]: ...


Reader = Callable[[Trajectory, int], Mapping[str, Reading]]  # the fields of one step as a page shows them, by name


@dataclass(frozen=True, slots=True)
class Plain:
    """A field shown as it is recorded."""

    text: str

    def map_to_recorded(self, start: int, end: int) -> tuple[int, int]:
        return start, end

    def map_to_shown(self, start: int, end: int) -> tuple[int, int]:
        return start, end


def plain_fields(trajectory: Trajectory, step: int) -> Mapping[str, Reading]:
    found = read_whole_step(trajectory, step)
    return {name: Plain(text) for name, text in fields(found)} if found else {}


class Misplaced(ValueError):
    """A mark names a place that the item does not have."""


@dataclass(frozen=True, slots=True)
class MarkPlace:
    """`trajectory`: which of the trial's trajectories, from 0. Offsets in characters, or in lines from 1 in a file."""

    trajectory: int = 0
    step: int | None = None
    field: str = ""
    start: int | None = None
    end: int | None = None
    quote: str = ""
    path: str = ""

    @property
    def has_range(self) -> bool:
        return self.start is not None and self.end is not None

    def without_range(self) -> MarkPlace:
        return replace(self, start=None, end=None)


class ItemEvidence:
    """What the marks of one item may point at; read once, and only where a mark asks."""

    def __init__(self, item: QueueItem, read: Reader = plain_fields) -> None:
        self.item = item
        self._read = read
        self._readings: dict[tuple[int, int], Mapping[str, Reading]] = {}

    @cached_property
    def trajectories(self) -> list[Trajectory]:
        """Trajectories of the attempt that counts, in the order of the page: main ones first."""
        if self.item.trial is None:
            return []
        return main_first(Trajectory.objects.of_counting_attempt(self.item.trial))

    def index_of(self, trajectory_id: int | None) -> int:
        """Return the place of a trajectory in that order; 0 for none, -1 for one that was read again since."""
        if trajectory_id is None:
            return 0
        keys = [trajectory.pk for trajectory in self.trajectories]
        return keys.index(trajectory_id) if trajectory_id in keys else -1

    def as_shown(self, place: MarkPlace) -> MarkPlace:
        """Convert a recorded place to characters of what the page shows."""
        if place.path or not place.has_range or place.trajectory < 0:
            return place
        reading = self._fields(place.trajectory, place.step or 0).get(place.field)
        if reading is None:
            return place.without_range()
        start, end = reading.map_to_shown(place.start or 0, place.end or 0)
        return replace(place, start=start, end=end)

    def check_place(self, place: MarkPlace) -> MarkPlace:
        """Convert a shown place to the one to keep. Misplaced where there is no such step, field or file."""
        if place.path:
            return self._in_file(place)
        if place.step is not None:
            if not 0 <= place.trajectory < len(self.trajectories):
                raise Misplaced(f"there is no trajectory {place.trajectory}")
            total = self.trajectories[place.trajectory].steps_total
            if not 1 <= (place.step or 0) <= total:
                raise Misplaced(f"there is no step {place.step}; the last one is {total}")
            if not place.field:
                return place.without_range()
            if not FIELD.match(place.field):
                raise Misplaced(f"a step has no field {place.field!r}")
            readings = self._fields(place.trajectory, place.step or 0)
            if readings and place.field not in readings:
                raise Misplaced(f"step {place.step} has no field {place.field!r}")
            return self._check_range(place, readings.get(place.field))
        if place.field or place.has_range:
            raise Misplaced("a field or a range needs a step or a file")
        return MarkPlace(quote=place.quote)

    def _check_range(self, place: MarkPlace, reading: Reading | None) -> MarkPlace:
        if not place.has_range:
            return place.without_range()
        start, end = place.start or 0, place.end or 0
        if start >= end:
            raise Misplaced(f"the range {start} to {end} is empty")
        if reading is None or not place.quote or reading.text[start:end][:MAX_QUOTE] != place.quote:
            return place.without_range()
        found = reading.map_to_recorded(start, min(end, len(reading.text)))
        return replace(place, start=found[0], end=found[1]) if found else place.without_range()

    def _fields(self, trajectory: int, step: int) -> Mapping[str, Reading]:
        key = (trajectory, step)
        if key not in self._readings:
            self._readings[key] = self._read(self.trajectories[trajectory], step)
        return self._readings[key]

    def _in_file(self, place: MarkPlace) -> MarkPlace:
        total = self._lines(place.field, place.path)
        if total is None:
            raise Misplaced(f"there is no file {place.path!r}")
        if not place.has_range:
            return replace(place.without_range(), step=None)
        if not 1 <= (place.start or 0) <= (place.end or 0) <= total:
            raise Misplaced(f"{place.path} has {total} lines, not {place.start} to {place.end}")
        return replace(place, step=None)

    def _lines(self, side: str, path: str) -> int | None:
        """Count a file's lines, None without a file. A refused decision's later side is what its patch asked for."""
        if self.item.decision is not None and side == "after":
            patch = self.item.decision.read_proposal()
            if patch and path in patch.upsert_files:
                return len(patch.upsert_files[path].splitlines())
        return self._snapshot(side).files.filter(path=path).values_list("lines", flat=True).first()

    def _snapshot(self, side: str) -> Snapshot:
        item = self.item
        if item.decision is not None and side in SIDES:
            return item.decision.before if side == "before" else item.decision.after
        if item.snapshot is not None and not side:
            return item.snapshot
        raise Misplaced(f"there are no files {side!r} in this item")


def place_of(mark: Mark, evidence: ItemEvidence) -> MarkPlace:
    """Return the place of a kept mark for a page: in characters of what it shows."""
    anchor = {name: getattr(mark, name) for name in Mark.ANCHOR}
    return evidence.as_shown(MarkPlace(evidence.index_of(mark.trajectory_id), **anchor))

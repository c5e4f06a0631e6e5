"""Where a mark points: checked against the record before it is kept.

An anchor names a step and a field of the item's trial, or a file of its decision or library, and a range there. The
quote is what the reviewer saw. It is kept word for word whatever happens; only where the record says the same at that
range are the offsets kept as well, so that an anchor never points at words nobody marked, and a made-up range never
brings back text that the page did not show.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from benchapp.models import Mark, QueueItem, Snapshot, Trajectory
from benchapp.trajectory_store import read_whole_steps
from runner.trajectories.fields import fields

MAX_QUOTE = 2_000  # characters of a marked range that are kept beside its offsets
FIELD = re.compile(r"(message|reasoning|tool_calls/\d{1,6}|observations/\d{1,6})\Z")
SIDES = ("before", "after")  # of a decision's files

# (canonical text, start, quote as the page showed it) -> the range it stands at, None where it does not
Locate = Callable[[str, int, str], tuple[int, int] | None]


class Misplaced(ValueError):
    """A mark names a place that the item does not have."""


@dataclass(frozen=True, slots=True)
class Place:
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

    def without_range(self) -> Place:
        return replace(self, start=None, end=None)


class Evidence:
    """What the marks of one item may point at; read once, and only where a mark asks."""

    def __init__(self, item: QueueItem, locate: Locate | None = None) -> None:
        self.item = item
        self._locate = locate or exactly
        self._texts: dict[tuple[int, int], dict[str, str]] = {}

    @cached_property
    def trajectories(self) -> list[Trajectory]:
        """Those of the attempt that counts, in the order in which the page offers them: main ones first."""
        if self.item.trial is None:
            return []
        found = Trajectory.objects.filter(
            attempt__trial=self.item.trial, attempt__counts=True, is_superseded=False
        ).order_by("ordinal", "id")
        return sorted(found, key=lambda trajectory: trajectory.kind != "main")

    def index_of(self, trajectory_id: int | None) -> int:
        """The place of a trajectory in that order; 0 for none, -1 for one that was read anew since."""
        if trajectory_id is None:
            return 0
        keys = [trajectory.pk for trajectory in self.trajectories]
        return keys.index(trajectory_id) if trajectory_id in keys else -1

    def checked(self, place: Place) -> Place:
        """The place as it is kept. Misplaced where there is no such step, field or file."""
        if place.path:
            return self._in_file(place)
        if place.step is not None:
            return self._in_step(place)
        if place.field or place.has_range:
            raise Misplaced("a field or a range needs a step or a file")
        return Place(quote=place.quote)

    def _in_step(self, place: Place) -> Place:
        if not 0 <= place.trajectory < len(self.trajectories):
            raise Misplaced(f"there is no trajectory {place.trajectory}")
        total = self.trajectories[place.trajectory].steps_total
        if not 1 <= (place.step or 0) <= total:
            raise Misplaced(f"there is no step {place.step}; the last one is {total}")
        if not place.field:
            return place.without_range()
        if not FIELD.match(place.field):
            raise Misplaced(f"a step has no field {place.field!r}")
        texts = self._fields(place.trajectory, place.step or 0)
        if texts and place.field not in texts:
            raise Misplaced(f"step {place.step} has no field {place.field!r}")
        return self._ranged(place, texts.get(place.field, ""))

    def _ranged(self, place: Place, text: str) -> Place:
        if not place.has_range:
            return place.without_range()
        start, end = place.start or 0, place.end or 0
        if start >= end:
            raise Misplaced(f"the range {start} to {end} is empty")
        found = self._locate(text, start, place.quote)
        if found is None:
            return place.without_range()
        if len(place.quote) < MAX_QUOTE:
            return replace(place, start=found[0], end=found[1])
        return replace(place, start=found[0], end=min(len(text), found[0] + end - start))  # quoted by its beginning

    def _fields(self, trajectory: int, step: int) -> dict[str, str]:
        key = (trajectory, step)
        if key not in self._texts:
            found = read_whole_steps(self.trajectories[trajectory], step, 1)
            self._texts[key] = dict(fields(found[0])) if found else {}
        return self._texts[key]

    def _in_file(self, place: Place) -> Place:
        snapshot = self._snapshot(place.field)
        file = snapshot.files.filter(path=place.path).select_related("blob").first()
        if file is None:
            raise Misplaced(f"there is no file {place.path!r}")
        if not place.has_range:
            return replace(place.without_range(), step=None)
        lines = file.blob.content().decode("utf-8", "replace").split("\n")
        first, last = place.start or 0, place.end or 0
        if not 1 <= first <= last <= len(lines):
            raise Misplaced(f"{place.path} has {len(lines)} lines, not {first} to {last}")
        text = "\n".join(lines[first - 1 : last])
        stands = self._locate(text, 0, place.quote) is not None
        return replace(place if stands else place.without_range(), step=None)

    def _snapshot(self, side: str) -> Snapshot:
        item = self.item
        if item.decision is not None and side in SIDES:
            return item.decision.before if side == "before" else item.decision.after
        if item.snapshot is not None and not side:
            return item.snapshot
        raise Misplaced(f"there are no files {side!r} in this item")


def exactly(text: str, start: int, quote: str) -> tuple[int, int] | None:
    """The quote stands at `start`, letter for letter."""
    return (start, start + len(quote)) if quote and text[start : start + len(quote)] == quote else None


def place_of(mark: Mark, evidence: Evidence) -> Place:
    """The place of a kept mark, as a page is told of it."""
    return Place(
        trajectory=evidence.index_of(mark.trajectory_id),
        step=mark.step,
        field=mark.field,
        start=mark.start,
        end=mark.end,
        quote=mark.quote,
        path=mark.path,
    )

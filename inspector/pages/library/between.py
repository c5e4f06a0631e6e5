"""What happened between two states of a library that lie several decisions apart: each decision, how many of its lines
still stand, and what came and went so that no difference of the two states shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from inspector.pages.library.rail import LibraryCourse, RailStop, Selection

MAX_GONE = 12


@dataclass(frozen=True, slots=True)
class RangeRow:
    """One decision or seeding of the range. `standing`: of the lines it wrote, those in the range's last state."""

    stop: RailStop
    written: int
    standing: int
    is_of_file: bool  # wrote lines that stand in the file shown first


@dataclass(frozen=True, slots=True)
class GoneFile:
    """A file of neither end. `moved_to`: where its lines went, where they did."""

    path: str
    came: RailStop
    went: RailStop
    moved_to: str = ""


@dataclass(frozen=True, slots=True)
class LibraryRange:
    """Everything that lies between two states, the one that made the later of them included."""

    rows: tuple[RangeRow, ...]
    gone: tuple[GoneFile, ...]

    @property
    def changed(self) -> int:
        return sum(row.stop.changed for row in self.rows)

    @property
    def lost(self) -> int:
        return sum(row.stop.tone == "refused" for row in self.rows)

    @property
    def unchanged(self) -> int:
        return len(self.rows) - self.changed - self.lost

    @property
    def standing(self) -> int:
        """Decisions of which a line still stands at the end."""
        return sum(row.standing > 0 for row in self.rows)


def list_range(course: LibraryCourse, selection: Selection, path: str) -> LibraryRange:
    """`path`: the file shown first."""
    traced = course.lineage.blame
    before, after = course.place_of(selection.before), course.place_of(selection.after)
    written: Counter[int] = Counter()
    standing: Counter[int] = Counter()
    for line in traced.lines:
        written[line.born] += 1
        standing[line.born] += line.last >= after
    of_file = {traced.lines[number].born for number in traced.states[after].get(path, ())}
    rows = []
    for stop in course.list_between(selection):
        place = course.place_of(stop.after) if stop.changed else -1
        rows.append(RangeRow(stop, written[place], standing[place], place in of_file))
    gone = tuple(_list_gone(course, before, after))
    return LibraryRange(tuple(rows), gone[:MAX_GONE])


def _list_gone(course: LibraryCourse, before: int, after: int) -> Iterator[GoneFile]:
    traced, rail = course.lineage.blame, course.rail
    ends = {*traced.states[before], *traced.states[after]}
    came: dict[str, int] = {}
    for place in range(before + 1, after + 1):
        for path in traced.states[place]:
            if path not in ends:
                came.setdefault(path, place)
        for path in [path for path in came if path not in traced.states[place]]:
            start, end = rail.find_maker(rail.states[came.pop(path)]), rail.find_maker(rail.states[place])
            if start and end:
                moved = next((move.new for move in traced.moves[place].values() if move.old == path), "")
                yield GoneFile(path, start, end, moved)

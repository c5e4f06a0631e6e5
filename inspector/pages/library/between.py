"""What happened between two states of a library, line by line and decision by decision: which decision wrote a line,
how the later trials ended that read it, and what came and went so that no difference of the two states shows it.

Association, not effect; the page says so once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from benchapp.analysis.lineage.attribution import count_rate
from benchapp.stats.inference.shares import Rate
from inspector.pages.library.changes import ShownFile
from inspector.pages.library.rail import LibraryCourse, RailStop, Selection
from inspector.web.text.diff import DiffRow, LineReaders

MAX_GONE = 12


# --- line by line -----------------------------------------------------------------------------------------------------


def add_gutters(course: LibraryCourse, selection: Selection, files: Iterable[ShownFile]) -> list[ShownFile]:
    """Add to each line how its readers ended and who wrote it.
    Authors are named only where several decisions are between the two states."""
    if course.lineage.too_big:
        return list(files)
    before, after = course.place_of(selection.before), course.place_of(selection.after)
    drawn = []
    for shown in files:
        stories = LineStories(course, shown.diff.path)
        blocks = tuple(replace(block, rows=stories.add_to(block.rows, before, after)) for block in shown.diff.blocks)
        known = [row.readers for block in blocks for row in block.rows if row.readers]
        has_readers = any(readers.scored for readers in known)
        has_authors = after - before > 1 and any(readers.by for readers in known)
        diff = replace(shown.diff, blocks=blocks)
        drawn.append(replace(shown, diff=diff, has_readers=has_readers, has_authors=has_authors))
    return drawn


@dataclass(slots=True)
class LineStories:
    """The lives of the lines of one file, in all states. Lines that came and went together share theirs."""

    course: LibraryCourse
    path: str
    known: dict[tuple[int, int], Rate] = field(default_factory=dict)

    def add_to(self, rows: Iterable[DiffRow], before: int, after: int) -> tuple[DiffRow, ...]:
        """Return the rows of a difference between two states, each with its readers."""
        found: list[DiffRow] = []
        last: tuple[Rate, int] | None = None
        for row in rows:
            place, number = (after, row.new) if row.new else (before, row.old)
            story = self._find(place, number or 0)
            if story:
                rate, by = story
                row = replace(row, readers=LineReaders(rate.passed, rate.scored, by, is_first=story != last))
                last = story
            found.append(row)
        return tuple(found)

    def _find(self, place: int, number: int) -> tuple[Rate, int] | None:
        """Return how the readers ended of the line with this number in this state, and the decision that wrote it."""
        traced = self.course.lineage.blame
        written = traced.states[place].get(self.path, ())
        if not 0 < number <= len(written):
            return None
        line = traced.lines[written[number - 1]]
        rate = self.known.get((line.born, line.last))
        if rate is None:
            skill = self.path.partition("/")[0]
            had_it = (each for each in self.course.lineage.trials if line.born <= each.state <= line.last)
            rate = count_rate(each for each in had_it if each.read and skill in each.read)
            self.known[line.born, line.last] = rate
        decision = self.course.rail.states[line.born].decision
        return rate, decision.number if decision else 0


# --- decision by decision ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangeRow:
    """One decision or seeding of the range. `kept`: of the lines it wrote, those in the range's last state."""

    stop: RailStop
    written: int
    kept: int
    is_of_file: bool  # wrote lines of the file shown first


class LibraryRange:
    """Everything between two states, the one that made the later of them included. `path`: the file shown first.

    `gone`: files of neither end; `moved_to`: where their lines went, where they did. `keeping`: how many decisions
    wrote a line which is still there at the end."""

    def __init__(self, course: LibraryCourse, selection: Selection, path: str) -> None:
        traced = course.lineage.blame
        before, after = course.place_of(selection.before), course.place_of(selection.after)
        written, surviving = Counter[int](), Counter[int]()
        for line in traced.lines:
            written[line.born] += 1
            surviving[line.born] += line.last >= after
        of_file = {traced.lines[number].born for number in traced.states[after].get(path, ())}
        self.rows = []
        for stop in course.list_between(selection):
            place = course.place_of(stop.after) if stop.changed else -1
            self.rows.append(RangeRow(stop, written[place], surviving[place], place in of_file))
        self.gone = list(_list_gone(course, before, after))[:MAX_GONE]
        self.changed = sum(row.stop.changed for row in self.rows)
        self.not_taken = sum(row.stop.tone == "refused" for row in self.rows)
        self.unchanged = len(self.rows) - self.changed - self.not_taken
        self.keeping = sum(row.kept > 0 for row in self.rows)


def _list_gone(course: LibraryCourse, before: int, after: int) -> Iterator[dict[str, object]]:
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
                yield {"path": path, "came": start, "went": end, "moved_to": moved}

"""What stands beside each line of a difference: how the later trials ended that read it, and which decision wrote it.

Association, not effect; the page says so once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from benchapp.analysis.lineage.attribution import count_rate
from benchapp.stats.metrics.rates import Rate
from inspector.pages.library.changes import ShownFile
from inspector.pages.library.rail import LibraryCourse, Selection
from inspector.web.text.diff import DiffRow, LineReaders


def add_gutters(course: LibraryCourse, selection: Selection, files: Iterable[ShownFile]) -> list[ShownFile]:
    """Authors are named only where several decisions lie between the two states."""
    before, after = course.place_of(selection.before), course.place_of(selection.after)
    if course.lineage.too_big:
        return list(files)
    return [_add(LineStories(course, shown.diff.path), shown, before, after) for shown in files]


@dataclass(slots=True)
class LineStories:
    """The lives of the lines of one file, whichever states they stand in. Lines that came and went together share theirs."""

    course: LibraryCourse
    path: str
    known: dict[tuple[int, int], Rate] = field(default_factory=dict)

    def count(self, place: int, number: int) -> tuple[Rate, int] | None:
        """How the readers ended of the line with this number in this state, and the decision that wrote it."""
        traced = self.course.lineage.blame
        written = traced.states[place].get(self.path, ())
        if not 0 < number <= len(written):
            return None
        line = traced.lines[written[number - 1]]
        rate = self.known.get((line.born, line.last))
        if rate is None:
            rate = self.known[line.born, line.last] = self._count(line.born, line.last)
        decision = self.course.rail.states[line.born].decision
        return rate, decision.number if decision else 0

    def _count(self, born: int, last: int) -> Rate:
        skill = self.path.partition("/")[0]
        trials = self.course.lineage.trials
        return count_rate(each for each in trials if born <= each.state <= last and each.read and skill in each.read)


def _add(stories: LineStories, shown: ShownFile, before: int, after: int) -> ShownFile:
    blocks = tuple(replace(block, rows=_tell(stories, block.rows, before, after)) for block in shown.diff.blocks)
    told = [row.readers for block in blocks for row in block.rows if row.readers]
    return replace(
        shown,
        diff=replace(shown.diff, blocks=blocks),
        has_readers=any(readers.scored for readers in told),
        has_authors=after - before > 1 and any(readers.by for readers in told),
    )


def _tell(stories: LineStories, rows: Sequence[DiffRow], before: int, after: int) -> tuple[DiffRow, ...]:
    told: list[DiffRow] = []
    last: tuple[Rate, int] | None = None
    for row in rows:
        place, number = (after, row.new) if row.new else (before, row.old)
        found = stories.count(place, number or 0)
        if found is None:
            told.append(row)
            continue
        rate, by = found
        told.append(replace(row, readers=LineReaders(rate.passed, rate.scored, by, is_first=found != last)))
        last = found
    return tuple(told)

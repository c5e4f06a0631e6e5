"""Who wrote each line: from the ordered states of a library to the state that introduced each line of each file.

Pure. A line keeps its origin through edits of its file, and through moves of the file or its whole skill within one
decision (`line_matching`). A line that was removed and later restored belongs to the change that restored it; a line
copied into another surviving file belongs to the change that copied it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.record.line_matching import Move, match_files, match_lines, split_bare_lines

Manifest = Mapping[str, str]  # path -> digest
Contents = Mapping[str, bytes]  # digest -> content
Written = tuple[int, ...]  # for each line of a file its number among all lines that were ever written


@dataclass(frozen=True, slots=True)
class TracedLine:
    """The life of one line. `born`, `last`: the first and the last state that hold it."""

    born: int
    last: int


@dataclass(frozen=True, slots=True)
class Blame:
    """`states[i][path]`: the lines of that file in the i-th state; `lines`: the history of each.

    `moves[i]`: new path -> the move in the i-th state.
    """

    states: tuple[Mapping[str, Written], ...]
    lines: tuple[TracedLine, ...]
    moves: tuple[Mapping[str, Move], ...]

    def origins(self, state: int, path: str) -> list[int]:
        """Return, for each line of the file, the state it was written in."""
        return [self.lines[number].born for number in self.states[state][path]]

    def paths(self, state: int, path: str) -> dict[int, str]:
        """Return state -> path of this file, from its first state to its last. Follows moves both ways."""
        found = {state: path}
        at, where = state, path
        while at and (earlier := self._before(at, where)) is not None:
            at, where = at - 1, earlier
            found[at] = where
        at, where = state, path
        while at + 1 < len(self.states) and (later := self._after(at, where)) is not None:
            at, where = at + 1, later
            found[at] = where
        return dict(sorted(found.items()))

    def _before(self, state: int, path: str) -> str | None:
        if move := self.moves[state].get(path):
            return move.old
        return path if path in self.states[state - 1] else None

    def _after(self, state: int, path: str) -> str | None:
        if path in self.states[state + 1]:
            return path
        return next((move.new for move in self.moves[state + 1].values() if move.old == path), None)

    def holding(self) -> list[dict[int, frozenset[str]]]:
        """Return, for each state, the state a line was written in -> the skills that hold such lines."""
        known: dict[int, frozenset[int]] = {}  # files that nobody touched share their lines
        found = []
        for files in self.states:
            skills: dict[int, set[str]] = {}
            for path, written in files.items():
                if id(written) not in known:
                    known[id(written)] = frozenset(self.lines[number].born for number in written)
                for born in known[id(written)]:
                    skills.setdefault(born, set()).add(path.partition("/")[0])
            found.append({born: frozenset(names) for born, names in skills.items()})
        return found


def trace_lines(manifests: Sequence[Manifest], contents: Contents) -> Blame:
    """Trace the lines. `contents` holds every digest that the manifests name; a missing one counts as an empty file."""
    born: list[int] = []
    last: list[int] = []
    states: list[dict[str, Written]] = []
    moves: list[dict[str, Move]] = []

    def write(count: int, state: int) -> range:
        first = len(born)
        born.extend([state] * count)
        last.extend([len(manifests) - 1] * count)
        return range(first, first + count)

    for state, manifest in enumerate(manifests):
        before = manifests[state - 1] if state else {}
        moved = match_files(before, manifest, contents)
        files = {}
        for path, digest in manifest.items():
            source = moved[path].old if path in moved else path if path in before else None
            if source is None:
                files[path] = tuple(write(len(split_bare_lines(contents.get(digest, b""))), state))
                continue
            written = states[-1][source]
            if before[source] == digest:
                files[path] = written
                continue
            kept = match_lines(
                split_bare_lines(contents.get(before[source], b"")), split_bare_lines(contents.get(digest, b""))
            )
            fresh = iter(write(kept.count(None), state))
            files[path] = tuple(next(fresh) if place is None else written[place] for place in kept)
        if state:
            _end(last, states[-1], files, state - 1)
        states.append(files)
        moves.append(moved)
    lines = tuple(TracedLine(*ends) for ends in zip(born, last, strict=True))
    return Blame(tuple(states), lines, tuple(moves))


def _end(last: list[int], before: Mapping[str, Written], after: Mapping[str, Written], state: int) -> None:
    """End, with `state`, the lines that existed before and no longer do. Untouched files are skipped."""
    untouched = {id(written) for written in after.values()}
    changed = [written for written in before.values() if id(written) not in untouched]
    standing = {number for written in after.values() for number in written} if changed else set()
    for written in changed:
        for number in written:
            if number not in standing:
                last[number] = state

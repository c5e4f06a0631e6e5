"""Problems of a trajectory's source. Collected while reading, which continues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from runner.base.text import storable

MAX_PER_EXPECTATION = 20
MAX_MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True)
class TrajectoryProblem:
    """`place`: a step, line or byte offset of the file; `expected`: by the format; `message`: what was found."""

    place: str
    expected: str
    message: str


class Problems:
    """A list of problems that stays small for a broken file of any size: repeats of one kind are counted, not kept."""

    def __init__(self) -> None:
        self._kept: list[TrajectoryProblem] = []
        self._seen: dict[str, int] = {}
        self._counted: dict[str, tuple[TrajectoryProblem, int]] = {}

    def add(self, place: str, expected: str, message: str) -> None:
        count = self._seen[expected] = self._seen.get(expected, 0) + 1
        if count <= MAX_PER_EXPECTATION:
            self._kept.append(TrajectoryProblem(storable(place), expected, storable(message[:MAX_MESSAGE_CHARS])))

    def count(self, place: str, expected: str, message: str) -> None:
        """Keep the first of one kind, with the total number."""
        first, times = self._counted.get(expected) or (
            TrajectoryProblem(storable(place), expected, storable(message[:MAX_MESSAGE_CHARS])),
            0,
        )
        self._counted[expected] = first, times + 1

    def __iter__(self) -> Iterator[TrajectoryProblem]:
        yield from self._kept
        for first, times in self._counted.values():
            more = f" ({times - 1:,} more of the same kind)" if times > 1 else ""
            yield replace(first, message=first.message + more)
        for expected, count in self._seen.items():
            if count > MAX_PER_EXPECTATION:
                yield TrajectoryProblem(
                    "whole file", expected, f"{count - MAX_PER_EXPECTATION:,} more of the same kind"
                )

    def __len__(self) -> int:
        return sum(1 for _ in self)

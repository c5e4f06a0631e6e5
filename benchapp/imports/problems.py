"""What an import could not take: which file, where in it, what was expected, what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from benchapp.record.json_shape import Shaped
from benchapp.record.redaction import redact_text
from benchapp.record.visible import visible
from runner.base.text import clean, cut

MAX_PER_KIND = 50  # problems with one expectation in one file; the rest is counted
MAX_KEPT = 20_000
MAX_MESSAGE = 1_000
ProblemParts: TypeAlias = tuple[str, str, str, str]  # path, place, expected, message


@dataclass(frozen=True, slots=True)
class ReportedProblem(Shaped):
    path: str
    place: str
    expected: str
    message: str

    def __str__(self) -> str:
        place = f", {self.place}" if self.place else ""
        return f"{self.path}{place}: expected {self.expected}; {self.message}"


class ProblemList:
    """Every problem of one import. The list is bounded for any input, and free of secrets and control characters."""

    def __init__(self) -> None:
        self._kept: list[ReportedProblem] = []
        self._seen: set[ProblemParts] = set()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._dropped = 0
        self.reported = 0  # how often something was reported, kept or not
        self._collected: list[ProblemParts] | None = None

    def collect(self) -> list[ProblemParts]:
        """Collect problems from now on in the returned list, at most MAX_KEPT, for another process to report."""
        self._collected = []
        return self._collected

    def add(self, path: str, place: str, expected: str, message: str) -> None:
        self.reported += 1
        if self._collected is not None:
            if len(self._collected) < MAX_KEPT:
                self._collected.append((path, place, expected, message))
            return
        if (problem := (path, place, expected, message)) in self._seen:  # a file that is read twice
            return
        kind = (path, expected)
        self._counts[kind] += 1
        if self._counts[kind] > MAX_PER_KIND or len(self._kept) >= MAX_KEPT:
            self._dropped += 1
            return
        self._seen.add(problem)
        self._kept.append(
            ReportedProblem(
                _line(path)[:1000],
                _line(place)[:300],
                _line(expected)[:500],
                cut(redact_text(clean(message)), MAX_MESSAGE),
            )
        )

    def __len__(self) -> int:
        return len(self._kept) + bool(self._dropped)

    def __iter__(self) -> Iterator[ReportedProblem]:
        yield from self._kept
        if self._dropped:
            yield ReportedProblem(
                "", "", "fewer problems", f"{self._dropped:,} more problems of the same kinds were counted, not kept"
            )


def _line(text: str) -> str:
    """Return one printable line: names of files and folders are untrusted too."""
    flat = "".join(character if character.isprintable() else "\ufffd" for character in visible(clean(str(text))))
    return redact_text(flat)


def render_found(value: object) -> str:
    """Describe a value in a message: its kind, and its beginning if that is short and harmless."""
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "nothing"}
    if type(value) in names:
        return f"found {names[type(value)]}"
    return f"found {str(value)[:80]!r}" if isinstance(value, str | int | float) else f"found {type(value).__name__}"

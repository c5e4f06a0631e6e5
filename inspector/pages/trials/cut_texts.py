"""What a compaction left out of each step: the spans it kept, turned round. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from inspector.web.text.excerpt import Span

RICH, ROUGH = "rich", "rough"
READERS = {RICH: "the author", ROUGH: "later agents"}


@dataclass(frozen=True, slots=True)
class CutState:
    """Of one step and one reader: cut, or cut in part."""

    kind: str
    extent: str  # cut, part

    @property
    def words(self) -> str:
        return f"cut {'in part ' if self.extent == 'part' else ''}for {READERS[self.kind]}"


@dataclass(frozen=True, slots=True)
class KeptSpans:
    """What one compaction kept: (step, field) -> stretches, and the length of every field it kept anything of."""

    fields: Mapping[tuple[int, str], tuple[tuple[int, int], ...]]
    partial: frozenset[int]
    steps: frozenset[int]


@dataclass(frozen=True, slots=True)
class Cuts:
    """By kind of compaction; empty where there is none."""

    kinds: Mapping[str, KeptSpans] = field(default_factory=dict)

    def of_step(self, number: int, names: Collection[str]) -> tuple[CutState, ...]:
        """`names`: of the fields that the step has."""
        states = []
        for kind, kept in self.kinds.items():
            if number not in kept.steps:
                states.append(CutState(kind, "cut"))
            elif number in kept.partial or any((number, name) not in kept.fields for name in names):
                states.append(CutState(kind, "part"))
        return tuple(states)

    def of_field(self, number: int, name: str, end: int) -> Iterator[tuple[int, int, str]]:
        """Stretches of the field that were cut, each with the class of its reader; of a step that was cut whole the card
        says so."""
        for kind, kept in self.kinds.items():
            if number in kept.steps:
                for start, stop in _list_gaps(kept.fields.get((number, name), ()), end):
                    yield start, stop, f"cut-{kind}"

    def list_missed(self, number: int) -> str:
        """Return CSS classes of the readers who saw no part of the step."""
        return "".join(f" {kind}-cut" for kind, kept in self.kinds.items() if number not in kept.steps)


def read_kept_spans(spans: Iterable[Span]) -> KeptSpans:
    fields: dict[tuple[int, str], list[tuple[int, int]]] = {}
    lengths: dict[tuple[int, str], int] = {}
    for step, name, start, end, length, _ in spans:
        fields.setdefault((step, name), []).append((start, end))
        lengths[step, name] = length
    partial = {
        step for (step, name), found in fields.items() if sum(end - start for start, end in found) < lengths[step, name]
    }
    ordered = {place: tuple(sorted(found)) for place, found in fields.items()}
    return KeptSpans(ordered, frozenset(partial), frozenset(step for step, _ in fields))


def _list_gaps(kept: tuple[tuple[int, int], ...], end: int) -> Iterator[tuple[int, int]]:
    at = 0
    for start, stop in (*kept, (end, end)):
        if start > at:
            yield at, start
        at = max(at, stop)

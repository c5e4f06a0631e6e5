"""What a compaction kept of a trajectory: its text as it was shown, and what it left out of each step.

The text is the record and is drawn unchanged, cut at its own headings, with its marks for what was left out made plain.
Where a step begins is taken from the recorded spans, not from the text alone: a heading counts only when it is the next
kept step's, so a trial that prints such a line gains little.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from benchapp.models import Blob, Compaction
from benchapp.record.visible import visible

READERS = {"rich": "the author", "rough": "later agents"}  # by kind of compaction
Span = tuple[int, str, int, int, int, str]  # as stored: step, field, start, end, length, reason

_MARK = re.compile(
    r"(\[\.\.\. [\d,]+ (?:characters?|steps?|tool calls|results|checks?|failed checks?)[^\[\]\n]{0,80} ?\.\.\.\])"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One kept step (or, with step None, the header). `reasons`: why it was kept. pieces: (text, is a cut mark)."""

    step: int | None
    heading: str
    pieces: tuple[tuple[str, bool], ...]
    reasons: tuple[str, ...] = ()
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class EvidenceExcerpt:
    """A compaction's text in segments."""

    compaction: Compaction
    segments: tuple[Segment, ...]


def read_excerpts(compactions: list[Compaction]) -> list[EvidenceExcerpt]:
    """The compactions with their texts, in one query."""
    contents = Blob.objects.read_many([blob for found in compactions for blob in (found.text_id, found.spans_id)])
    return [
        EvidenceExcerpt(found, tuple(_split_text(contents[found.text_id], orjson.loads(contents[found.spans_id]))))
        for found in compactions
    ]


def _split_text(content: bytes, spans: Sequence[Span]) -> Iterator[Segment]:
    text = content.decode("utf-8", "replace")
    reasons: dict[int, list[str]] = {}
    characters: Counter[int] = Counter()
    for step, _, start, end, _, reason in spans:
        reasons.setdefault(step, []).append(reason)
        characters[step] += end - start
    lengths: Counter[int] = Counter()
    for (step, _), length in {(step, name): length for step, name, _, _, length, _ in spans}.items():
        lengths[step] += length
    starts = _find_starts(text, sorted(reasons))
    ends = [start for _, start in starts[1:]] + [len(text)]
    if header := text[: starts[0][1] if starts else len(text)].strip("\n"):
        yield Segment(None, "", _split_pieces(header))
    for (step, start), end in zip(starts, ends, strict=False):
        heading, _, body = text[start:end].strip("\n").partition("\n")
        yield Segment(
            step=step,
            heading=visible(heading.lstrip("# ")),
            pieces=_split_pieces(body),
            reasons=tuple(dict.fromkeys(reasons[step])),
            is_partial=characters[step] < lengths[step],
        )


def _find_starts(text: str, steps: list[int]) -> list[tuple[int, int]]:
    """(step, offset of its heading) for every kept step, in order."""
    starts, at = [], 0
    for step in steps:
        match = re.compile(rf"^## Step {step},", re.MULTILINE).search(text, at)
        if match:
            starts.append((step, match.start()))
            at = match.end()
    return starts


def _split_pieces(text: str) -> tuple[tuple[str, bool], ...]:
    parts = _MARK.split(visible(text))
    return tuple((part, index % 2 == 1) for index, part in enumerate(parts) if part)


# --- what it left out -------------------------------------------------------------------------------------------


class CutState:
    """Of one step and one reader: cut, or cut in part. `extent`: cut, part."""

    def __init__(self, kind: str, extent: str) -> None:
        self.kind, self.extent = kind, extent
        self.words = f"cut {'in part ' if extent == 'part' else ''}for {READERS[kind]}"


class KeptSpans:
    """What one compaction kept: (step, field) -> stretches, and the steps it kept anything of, whole or in part."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.fields: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for step, name, start, end, _, _ in sorted(spans, key=lambda span: span[2:4]):
            self.fields.setdefault((step, name), []).append((start, end))
        lengths = {(step, name): length for step, name, _, _, length, _ in spans}
        sizes = {place: sum(end - start for start, end in kept) for place, kept in self.fields.items()}
        self.partial = frozenset(place[0] for place, size in sizes.items() if size < lengths[place])
        self.steps = frozenset(step for step, _ in self.fields)


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
        """Stretches of the field that were cut, each with the class of its reader;
        of a step that was cut whole the card says so."""
        for kind, kept in self.kinds.items():
            if number not in kept.steps:
                continue
            at = 0
            for start, stop in (*kept.fields.get((number, name), ()), (end, end)):
                if start > at:
                    yield at, start, f"cut-{kind}"
                at = max(at, stop)

    def list_missed(self, number: int) -> str:
        """Return CSS classes of the readers who saw no part of the step."""
        return "".join(f" {kind}-cut" for kind, kept in self.kinds.items() if number not in kept.steps)


def read_cuts(compactions: Mapping[str, Compaction]) -> Cuts:
    """One query, where there are compactions."""
    contents = Blob.objects.read_many([found.spans_id for found in compactions.values()]) if compactions else {}
    return Cuts({kind: KeptSpans(orjson.loads(contents[one.spans_id])) for kind, one in compactions.items()})

"""A compaction as it was shown, cut at its own headings, with its marks for what was left out made plain.

The text is the record and is drawn unchanged. Where a step begins is taken from the recorded spans, not from the
text alone: a heading counts only when it is the next kept step's, so a trial that prints such a line gains little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from benchapp.models import Blob, Compaction
from inspector.web.text.visible import visible

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
class KeptStep:
    """What a compaction kept of one step: reasons, and characters kept of those its kept fields have."""

    reasons: tuple[str, ...]
    characters: int
    length: int

    @property
    def is_partial(self) -> bool:
        return self.characters < self.length


@dataclass(frozen=True, slots=True)
class EvidenceExcerpt:
    """A compaction's text in segments, and what it kept of each step."""

    compaction: Compaction
    segments: tuple[Segment, ...]
    kept: dict[int, KeptStep]


def read_excerpts(compactions: list[Compaction]) -> list[EvidenceExcerpt]:
    """The compactions with their texts, in one query."""
    contents = Blob.objects.read_many([blob for found in compactions for blob in (found.text_id, found.spans_id)])
    return [
        build_excerpt(found, contents[found.text_id].decode("utf-8", "replace"), orjson.loads(contents[found.spans_id]))
        for found in compactions
    ]


def build_excerpt(compaction: Compaction, text: str, spans: Sequence[Span]) -> EvidenceExcerpt:
    kept = count_kept_steps(spans)
    segments, at = [], 0
    starts = _find_starts(text, sorted(kept))
    first = starts[0][1] if starts else len(text)
    if header := text[:first].strip("\n"):
        segments.append(Segment(None, "", _split_pieces(header)))
    for place, (step, at) in enumerate(starts):
        end = starts[place + 1][1] if place + 1 < len(starts) else len(text)
        heading, _, body = text[at:end].strip("\n").partition("\n")
        segments.append(
            Segment(step, visible(heading.lstrip("# ")), _split_pieces(body), kept[step].reasons, kept[step].is_partial)
        )
    return EvidenceExcerpt(compaction, tuple(segments), kept)


def count_kept_steps(spans: Iterable[Span]) -> dict[int, KeptStep]:
    """step -> what was kept of it."""
    found: dict[int, tuple[list[str], int, dict[str, int]]] = {}
    for step, field, start, end, length, reason in spans:
        reasons, characters, lengths = found.get(step, ([], 0, {}))
        lengths[field] = length
        found[step] = ([*reasons, reason] if reason not in reasons else reasons, characters + end - start, lengths)
    return {
        step: KeptStep(tuple(reasons), characters, sum(lengths.values()))
        for step, (reasons, characters, lengths) in found.items()
    }


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

"""An alignment as values: signs of steps, rows in order, and where the two sides diverge.

A sign has digests for equality and word sets for likeness, a few hundred bytes. Equality is exact. Likeness, from 0 to
1000, is a heuristic over words of bounded pieces, hashed into a bitmap, and is labelled a heuristic wherever a reader
sees it. Its parts: the same tools (200), shared words in the calls' arguments (600) and in the results (200): the same
tool with the same short result is not yet the same step. Prompts are not the agent's doing and always belong together,
so that a longer prompt is one difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby
from zlib import crc32

from runner.base.types import Source, Step
from runner.trajectories.fields import tool_call_text

BITS = 1024
HEAD_CHARS = 1_200  # of a text whose words are taken
TAIL_CHARS = 300  # of a longer one, in addition: commands and results often differ at the end
MAX_TEXTS = 8  # calls or results of one step whose words are taken
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, order=True)
class StepSign:
    """One step. `action`: its calls with their arguments, or its text if it called nothing. `result`: what came back.
    Both are digests of the whole texts; the bitmaps hold the words of their beginnings."""

    source: str
    tools: tuple[str, ...]
    action: str
    result: str
    action_words: int = 0
    result_words: int = 0

    @property
    def is_given(self) -> bool:
        """Is it a message to the agent, not the agent's own doing?"""
        return self.source != Source.AGENT


def build_sign(step: Step, pieces: Mapping[str, Sequence[str]] | None = None) -> StepSign:
    """Build the sign. `pieces`: digests of the long texts that `step` holds only the beginning of, by part: "message",
    "tool_calls", "observation". With them equality stays exact."""
    pieces = pieces or {}
    calls = [tool_call_text(call) for call in step.tool_calls]
    results = [observation.content for observation in step.observations]
    acts = calls or [step.message]
    # The names of arguments are the tool's and make no two calls more alike.
    about = [
        " ".join(str(value) for _, value in sorted(call.arguments.items())) for call in step.tool_calls[:MAX_TEXTS]
    ]
    return StepSign(
        source=step.source.value,
        tools=tuple(call.name for call in step.tool_calls),
        action=_compute_digest([*acts, *pieces.get("tool_calls" if calls else "message", ())]),
        result=_compute_digest([*results, *pieces.get("observation", ())]),
        action_words=_hash_words(about or acts),
        result_words=_hash_words(results),
    )


def _compute_digest(texts: Iterable[str]) -> str:
    found = blake2b(digest_size=12)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        found.update(len(content).to_bytes(8, "big") + content)
    return found.hexdigest()


def _hash_words(texts: Sequence[str]) -> int:
    """Set a bit for every word. Two texts without a word in common share a bit only by chance."""
    bits = 0
    for text in texts[:MAX_TEXTS]:
        piece = text if len(text) <= HEAD_CHARS + TAIL_CHARS else f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"
        for word in set(_WORDS.findall(piece)):
            bits |= 1 << (crc32(word.encode("utf-8", "surrogatepass")) % BITS)
    return bits


# --- how alike two steps are -------------------------------------------------------------------------------------------


WHOLE = 1_000
LEAST = 450  # two steps that are less alike do not belong together
TOOLS, ACTION, RESULT = 200, 600, 200
GIVEN = 500  # likeness of two prompts with any text


def measure_likeness(left: StepSign, right: StepSign) -> int:
    """Return the likeness. Symmetric; WHOLE only for steps that did the same and got the same."""
    if left.source != right.source:
        return 0
    is_same_action = left.action == right.action and left.tools == right.tools
    if is_same_action and left.result == right.result:
        return WHOLE
    if left.is_given:
        return GIVEN + count_shared(left.action_words, right.action_words, WHOLE - GIVEN - 1)
    if not left.tools and not right.tools:
        return count_shared(left.action_words, right.action_words, WHOLE - 1)
    if not left.tools or not right.tools:
        return 0
    tools = TOOLS if left.tools == right.tools else _count_shared_tools(left.tools, right.tools)
    action = ACTION if is_same_action else count_shared(left.action_words, right.action_words, ACTION - 1)
    return tools + action + count_shared(left.result_words, right.result_words, RESULT - 1)


def count_shared(left: int, right: int, most: int) -> int:
    """Return the share of words in both among words in either, scaled to `most`. Two texts without words are alike."""
    either = (left | right).bit_count()
    return most * (left & right).bit_count() // either if either else most


def _count_shared_tools(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    mine, theirs = Counter(left), Counter(right)
    return TOOLS * (mine & theirs).total() // (mine | theirs).total()


class RowKind(StrEnum):
    """How the two sides of a row relate."""

    SAME = "same"  # did the same and got the same
    CHANGED = "changed"  # belong together; the action or the result differs
    LEFT = "left"  # only on the left
    RIGHT = "right"


class DifferingPart(StrEnum):
    """The part that differs between two steps of a row."""

    GIVEN = "given"  # the prompt, or anything else that the agent did not do
    ACTION = "action"  # what the agent called, or whether it called anything
    RESULT = "result"
    WORDS = "words"  # what it said in a step that calls nothing


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """A pair of steps or a single step: places from 0. `differs`: the parts that differ, empty for the same."""

    left: int | None
    right: int | None
    kind: RowKind
    differs: tuple[DifferingPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows `first` to `last`, both included. Unpaired steps of either side form one stretch with `kind` None."""

    kind: RowKind | None
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Parting:
    """The first row where each `DifferingPart` differs, in their order; None if it never does."""

    given: int | None
    action: int | None
    result: int | None
    words: int | None

    @property
    def first(self) -> int | None:
        """Return the first row where the agents acted differently, else the first difference of any kind."""
        others = [row for row in (self.given, self.result, self.words) if row is not None]
        return self.action if self.action is not None else min(others, default=None)


@dataclass(frozen=True, slots=True)
class Alignment:
    """`rows` have every step of both sides once, in order on both. `cells`: pairs that were compared. `is_banded`: a
    stretch was too long to compare all its pairs, so steps far apart in it were never compared."""

    rows: tuple[AlignedRow, ...]
    cells: int = 0
    is_banded: bool = False

    def count(self, kind: RowKind) -> int:
        return sum(row.kind is kind for row in self.rows)

    def parting(self) -> Parting:
        def find_first(part: DifferingPart) -> int | None:
            return next((at for at, row in enumerate(self.rows) if part in row.differs), None)

        return Parting(*map(find_first, DifferingPart))

    def stretches(self) -> list[Stretch]:
        found, at = [], 0
        kinds = (None if row.left is None or row.right is None else row.kind for row in self.rows)
        for kind, rows in groupby(kinds):
            length = sum(1 for _ in rows)
            found.append(Stretch(kind, at, at + length - 1))
            at += length
        return found


def build_rows(
    left: Sequence[StepSign], right: Sequence[StepSign], pairs: Iterable[tuple[int, int]]
) -> tuple[AlignedRow, ...]:
    """Return every step once: the pairs, and between two of them the left steps, then the right ones."""
    rows: list[AlignedRow] = []
    at, beside = 0, 0
    for one, other in [*pairs, (len(left), len(right))]:
        rows += (AlignedRow(place, None, RowKind.LEFT, (_choose_part(left[place]),)) for place in range(at, one))
        rows += (
            AlignedRow(None, place, RowKind.RIGHT, (_choose_part(right[place]),)) for place in range(beside, other)
        )
        if one < len(left):
            rows.append(_make_row(one, other, left[one], right[other]))
        at, beside = one + 1, other + 1
    return tuple(rows)


def _choose_part(sign: StepSign) -> DifferingPart:
    """Return the part that an unpaired or different step belongs to."""
    return DifferingPart.GIVEN if sign.is_given else DifferingPart.ACTION if sign.tools else DifferingPart.WORDS


def _make_row(left: int, right: int, one: StepSign, other: StepSign) -> AlignedRow:
    differs = []
    if one.action != other.action or one.tools != other.tools:
        differs.append(_choose_part(one))
    if one.result != other.result:
        differs.append(DifferingPart.RESULT)
    return AlignedRow(left, right, RowKind.CHANGED if differs else RowKind.SAME, tuple(differs))

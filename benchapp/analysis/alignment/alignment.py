"""An alignment as values: signs of steps, rows in order, and where the two sides diverge.

A sign has digests for equality and word sets for likeness, a few hundred bytes. Equality is exact. Likeness, from 0 to
1000, is a heuristic over words of bounded pieces, hashed into a bitmap, and is labelled a heuristic wherever a reader
sees it. Its parts: the same tools (200), shared words in the calls' arguments (600) and in the results (200): the same
tool with the same short result is not yet the same step. Prompts are not the agent's doing and always belong together,
so that a longer prompt is one difference.

Steps that belong together are paired in bounded time and memory. Pair the equal steps at both ends first. Then pair
anchors: steps whose action occurs once on each side, in the longest chain with the same order on both. In the stretches
left, maximise the total likeness by dynamic programming. If these have more than `max_cells` pairs together, search
long ones in a band around their diagonal, and mark the alignment as banded.

Bounds for n and m steps: max_cells + 3 * (n + m) pairs are compared, each in constant time; memory is a byte for each
of them, and a few numbers per step. Everything else is O(n log n), with at most MAX_DEPTH passes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby
from zlib import crc32

from benchapp.analysis.deciding.step_glances import list_written_files
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import iterate_beginning
from runner.base.recent import Recent
from runner.base.types import Source, Step
from runner.trajectories.fields import tool_call_text
from runner.trajectories.step_outline import first_text, subject

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


# --- how alike two steps are ----------------------------------------------------------------------------------------


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
    at, other_at = 0, 0
    for one, other in [*pairs, (len(left), len(right))]:
        rows += (AlignedRow(place, None, RowKind.LEFT, (_choose_part(left[place]),)) for place in range(at, one))
        rows += (
            AlignedRow(None, place, RowKind.RIGHT, (_choose_part(right[place]),)) for place in range(other_at, other)
        )
        if one < len(left):
            rows.append(_make_row(one, other, left[one], right[other]))
        at, other_at = one + 1, other + 1
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


MAX_CELLS = 250_000
MAX_DEPTH = 8  # how often to search for anchors between anchors
PRICE = 350  # of a pair: two good pairs must beat three poor ones

Signs = Sequence[StepSign]
Like = Callable[[StepSign, StepSign], int]
Pair = tuple[int, int]

_ALONE, _BESIDE, _PAIR = 0, 1, 2  # moves: a step of the rows alone, one of the columns alone, a pair


@dataclass(frozen=True, slots=True)
class Box:
    """A stretch on both sides: places `left` to `left_end` and `right` to `right_end`, the ends not included."""

    left: int
    left_end: int
    right: int
    right_end: int

    @property
    def sides(self) -> tuple[int, int]:
        return self.left_end - self.left, self.right_end - self.right

    @property
    def cells(self) -> int:
        return self.sides[0] * self.sides[1]


def align(left: Signs, right: Signs, *, max_cells: int = MAX_CELLS, like: Like = measure_likeness) -> Alignment:
    """Align two sides. Pure. Symmetric: exchanging the sides exchanges the result."""
    if list(right) < list(left):  # resolves ties alike, for either order of the sides
        pairs, cells, is_banded = _pair_all(right, left, max_cells, like)
        pairs = [(one, other) for other, one in pairs]
    else:
        pairs, cells, is_banded = _pair_all(left, right, max_cells, like)
    return Alignment(build_rows(left, right, pairs), cells, is_banded)


def _pair_all(left: Signs, right: Signs, max_cells: int, like: Like) -> tuple[list[Pair], int, bool]:
    """Return (pairs in order, pairs compared, whether a band was needed)."""
    pairs, boxes = _anchor(left, right)
    cells, is_banded, room = 0, False, max_cells
    for done, box in enumerate(sorted(boxes, key=lambda box: box.cells)):  # long ones may use what small ones leave
        share = room // (len(boxes) - done)
        found, weighed = _pair_box(left, right, box, share, like)
        pairs += found
        cells += weighed
        room = max(0, room - weighed)
        is_banded = is_banded or weighed < box.cells
    return sorted(pairs), cells, is_banded


# --- what is equal ----------------------------------------------------------------------------------------------


def _anchor(left: Signs, right: Signs) -> tuple[list[Pair], list[Box]]:
    """Return pairs that need no comparison, and the boxes between them that have steps on both sides."""
    pairs: list[Pair] = []
    boxes: list[Box] = []
    waiting = [(Box(0, len(left), 0, len(right)), 0)]
    while waiting:
        whole, depth = waiting.pop()
        ends, box = _trim(left, right, whole)
        pairs += ends
        if not box.cells:
            continue
        anchors = _find_anchors(left, right, box) if depth < MAX_DEPTH else []
        if not anchors:
            boxes.append(box)
            continue
        pairs += anchors
        waiting += ((between, depth + 1) for between in _split_between(box, anchors))
    return pairs, boxes


def _trim(left: Signs, right: Signs, box: Box) -> tuple[list[Pair], Box]:
    """Return the pairs that are equal at both ends of the box, and the box without them."""
    one, other, one_end, other_end = box.left, box.right, box.left_end, box.right_end
    pairs = []
    while one < one_end and other < other_end and _acts_alike(left[one], right[other]):
        pairs.append((one, other))
        one, other = one + 1, other + 1
    while one < one_end and other < other_end and _acts_alike(left[one_end - 1], right[other_end - 1]):
        one_end, other_end = one_end - 1, other_end - 1
        pairs.append((one_end, other_end))
    return pairs, Box(one, one_end, other, other_end)


def _acts_alike(one: StepSign, other: StepSign) -> bool:
    return one.action == other.action and one.source == other.source and one.tools == other.tools


def _find_anchors(left: Signs, right: Signs, box: Box) -> list[Pair]:
    """Return the longest chain of steps whose action occurs once on each side, in the same order on both."""
    mine = _find_unique(left, box.left, box.left_end)
    theirs = _find_unique(right, box.right, box.right_end)
    return _find_chain([(place, theirs[key]) for key, place in mine.items() if key in theirs])


def _find_unique(signs: Signs, first: int, end: int) -> dict[tuple[object, ...], int]:
    keys = [(sign.source, sign.tools, sign.action) for sign in signs[first:end]]
    counts = Counter(keys)
    return {key: place for place, key in enumerate(keys, start=first) if counts[key] == 1}


def _find_chain(pairs: list[Pair]) -> list[Pair]:
    """Return the longest chain of pairs that rises on both sides; the pairs are given in the order of the left one."""
    tails: list[int] = []  # the right place that ends the best chain of each length
    ends: list[int] = []  # the pair that does
    before: list[int | None] = []
    for at, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        before.append(ends[length - 1] if length else None)
        if length == len(tails):
            tails.append(place)
            ends.append(at)
        else:
            tails[length], ends[length] = place, at
    chain, step = [], ends[-1] if ends else None
    while step is not None:
        chain.append(pairs[step])
        step = before[step]
    return chain[::-1]


def _split_between(box: Box, anchors: list[Pair]) -> list[Box]:
    starts = [(box.left, box.right), *((one + 1, other + 1) for one, other in anchors)]
    ends = [*anchors, (box.left_end, box.right_end)]
    return [Box(one, end, other, stop) for (one, other), (end, stop) in zip(starts, ends, strict=True)]


# --- what is alike ----------------------------------------------------------------------------------------------


def _pair_box(left: Signs, right: Signs, box: Box, room: int, like: Like) -> tuple[list[Pair], int]:
    """Return the pairs of a box with the highest total likeness, and how many were compared. The longer side makes the
    rows, so that the band moves by at most one column per row and stays on course."""
    mine, theirs = left[box.left : box.left_end], right[box.right : box.right_end]
    if len(mine) >= len(theirs):
        found, cells = _weigh(mine, theirs, room, like)
        return [(box.left + row, box.right + column) for row, column in found], cells
    found, cells = _weigh(theirs, mine, room, like)
    return [(box.left + column, box.right + row) for row, column in found], cells


def _weigh(rows: Signs, columns: Signs, room: int, like: Like) -> tuple[list[Pair], int]:
    """Weigh the pairs. Leaving steps out costs nothing; a pair gains its likeness less PRICE."""
    height, width = len(rows), len(columns)
    reach = width if height * width <= room else max(1, (room // height - 1) // 2)
    best = [0] * (width + 1)  # of the row before, and of this one as far as it is done
    lows: list[int] = []
    moves: list[bytearray] = []
    for row, sign in enumerate(rows, start=1):
        middle = row * width // height
        low, high = max(1, middle - reach), min(width, middle + reach)
        taken = bytearray(high - low + 1)
        corner = best[low - 1]
        for column in range(low, high + 1):
            above, most, move = best[column], best[column - 1], _BESIDE
            if above > most:
                most, move = above, _ALONE
            alike = like(sign, columns[column - 1])
            if alike >= LEAST and corner + alike - PRICE >= most:
                most, move = corner + alike - PRICE, _PAIR
            best[column], corner, taken[column - low] = most, above, move
        lows.append(low)
        moves.append(taken)
    return _walk_back(lows, moves, width), sum(map(len, moves))


def _walk_back(lows: list[int], moves: list[bytearray], width: int) -> list[Pair]:
    pairs: list[Pair] = []
    row, column = len(moves), width
    while row and column:
        low, taken = lows[row - 1], moves[row - 1]
        move = _ALONE if column < low else taken[column - low] if column - low < len(taken) else _BESIDE
        if move == _PAIR:
            pairs.append((row - 1, column - 1))
        row -= move != _BESIDE
        column -= move != _ALONE
    return pairs[::-1]


MAX_STEPS = 4_000  # of one side
MAX_LINE_CHARS = 400
MAX_CHUNKS = 8  # of at most 1 MiB each


@dataclass(frozen=True, slots=True)
class AlignedSide:
    """The beginning of a trajectory, as far as the bounds reach. `lines`: each step in a line. `tokens`: input (cached
    ones included) and output of each step, None where unknown."""

    signs: tuple[StepSign, ...]
    lines: tuple[str, ...]
    tokens: tuple[tuple[int | None, int | None], ...]
    errors: frozenset[int]  # numbers of steps with an error
    total: int
    writes: frozenset[int] = frozenset()  # numbers of steps that write a file

    @property
    def left_out(self) -> int:
        """Count the steps beyond the bounds, which no alignment includes."""
        return self.total - len(self.signs)


LONG = 1_000  # steps; longer sides are cached
KEPT: Recent[str, AlignedSide] = Recent(4)  # sides by the digest of their trajectory, of at most about 3 MB each

NOTHING = AlignedSide((), (), (), frozenset(), 0)


def read_side(trajectory: Trajectory | None) -> AlignedSide:
    """Read one side with one query. Memory: one chunk, and a few hundred bytes per step. Long trajectories are cached
    by their digest, because they never change."""
    if trajectory is None:
        return NOTHING
    if found := KEPT.get(trajectory.digest):
        return found
    signs, lines, tokens, errors, writes = [], [], [], set(), set()
    for stored, pieces in iterate_beginning(trajectory, steps=MAX_STEPS, chunks=MAX_CHUNKS):
        step, usage = stored.step, stored.step.usage
        signs.append(build_sign(step, pieces))
        # What the step did, if it acted. Its comment on that is left out of the alignment.
        about = next((text for call in step.tool_calls if (text := subject(call))), "")
        lines.append(" ".join(about[:MAX_LINE_CHARS].split()) or first_text(step))
        tokens.append((usage.input_tokens, usage.output_tokens) if usage else (None, None))
        if any(observation.is_error for observation in step.observations):
            errors.add(step.number)
        if any(name for call in step.tool_calls for name in list_written_files(call)):
            writes.add(step.number)
    ends = frozenset(errors), trajectory.steps_total, frozenset(writes)
    side = AlignedSide(tuple(signs), tuple(lines), tuple(tokens), *ends)
    if len(signs) >= LONG:
        KEPT.put(trajectory.digest, side)
    return side

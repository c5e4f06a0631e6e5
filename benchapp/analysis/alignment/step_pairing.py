"""Pair the steps of two trajectories that belong together, in bounded time and memory.

Pair the equal steps at both ends first. Then pair anchors: steps whose action occurs once on each side, in the longest
chain with the same order on both. In the stretches left, maximise the total likeness by dynamic programming. If these
have more than `max_cells` pairs together, search long ones in a band around their diagonal, and mark the alignment as
banded.

Bounds for n and m steps: max_cells + 3 * (n + m) pairs are compared, each in constant time; memory is a byte for each
of them, and a few numbers per step. Everything else is O(n log n), with at most MAX_DEPTH passes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchapp.analysis.alignment.alignment import LEAST, Alignment, StepSign, build_rows, measure_likeness

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

"""Names beside marks, put where they cover neither a mark nor one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LETTER = 5.6  # px of a character of 10 px, about
HIGH = 13  # px of a line of it
AWAY = 8  # px from the middle of a mark to its name
MARK = 5  # px from the middle of a mark to its edge
ROOM = 0.06  # of the span that plotly leaves free on either side of the values, about

Spot = tuple[float, float]  # px to the right and upwards
Box = tuple[float, float, float, float]  # left, low, right, high


@dataclass(frozen=True, slots=True)
class MarkLabel:
    """`text` is empty where there is no free place for it; `place` as plotly calls it."""

    text: str = ""
    place: str = "top center"


def spread(values: Sequence[float], size: float, on_axis: Sequence[float]) -> list[float]:
    """Values as px from one side of a panel of that size, where an axis without a range shows all those `on_axis`."""
    low, high = min(on_axis), max(on_axis)
    span = (high - low) or 1.0
    return [size * (ROOM + (1 - 2 * ROOM) * (value - low) / span) for value in values]


def labels_of(spots: Sequence[Spot], texts: Sequence[str], width: float) -> list[MarkLabel]:
    """One per spot, in their order: above its mark, else below, to the right, to the left, else none. A spot without a
    text is a mark that no name may cover; names keep inside a panel of that width."""
    taken = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in spots]
    found = []
    for spot, text in zip(spots, texts, strict=True):
        inside = {place: box for place, box in _boxes(spot, text).items() if box[0] >= -AWAY and box[2] <= width + AWAY}
        free = (place for place, box in inside.items() if not any(_meet(box, each) for each in taken))
        place = next(free, None) if text else None
        if place is None:
            found.append(MarkLabel())
            continue
        taken.append(_boxes(spot, text)[place])
        found.append(MarkLabel(text, place))
    return found


def _boxes(spot: Spot, text: str) -> dict[str, Box]:
    """Where the text would stand, in the order of preference."""
    (x, y), wide, half = spot, LETTER * len(text), HIGH / 2
    return {
        "top center": (x - wide / 2, y + AWAY, x + wide / 2, y + AWAY + HIGH),
        "bottom center": (x - wide / 2, y - AWAY - HIGH, x + wide / 2, y - AWAY),
        "middle right": (x + AWAY, y - half, x + AWAY + wide, y + half),
        "middle left": (x - AWAY - wide, y - half, x - AWAY, y + half),
    }


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]

"""Tokens summed step by step, as two lines in one small drawing made on the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 1_000, 140
POINTS = 240  # of one line; a longer one keeps every nth point and its last

Tokens = Sequence[tuple[int | None, int | None]]  # input (cached ones among it) and output of each step


@dataclass(frozen=True, slots=True)
class Curve:
    """`points` as SVG wants them; `at`: the place of the marked step. `known` of `steps` report tokens; if one of
    them reports only input or only output, `total` is a lower bound."""

    points: str
    total: int
    known: int
    steps: int
    at: tuple[float, float] | None
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Both on one scale: `most` tokens high, `steps` wide. A side without a step that reports tokens has no curve."""

    left: Curve | None
    right: Curve | None
    most: int
    steps: int
    width: int = WIDTH
    height: int = HEIGHT


def sum_tokens(tokens: Tokens) -> list[int]:
    """Input and output up to each step. A step without a report adds nothing; `Curve.known` counts the steps with one."""
    found, total = [], 0
    for step in tokens:
        total += sum(part or 0 for part in step)
        found.append(total)
    return found


def draw_curves(left: Tokens, right: Tokens, marked: tuple[int | None, int | None]) -> Curves:
    """`marked`: the place of the step to mark on either side, from 0."""
    steps = max(len(left), len(right), 1)
    heights = [sum_tokens(left), sum_tokens(right)]
    most = max((found[-1] for found in heights if found), default=0)
    drawn = [
        _draw_curve(tokens, found, steps, most, at)
        for tokens, found, at in zip((left, right), heights, marked, strict=True)
    ]
    return Curves(drawn[0], drawn[1], most, steps)


def _draw_curve(tokens: Tokens, found: list[int], steps: int, most: int, marked: int | None) -> Curve | None:
    known = sum(any(part is not None for part in step) for step in tokens)
    if not known or not most:
        return None
    places = [
        (round(WIDTH * (at + 1) / steps, 1), round(HEIGHT * (1 - total / most), 1)) for at, total in enumerate(found)
    ]
    line = " ".join(f"{x:g},{y:g}" for x, y in [(0, HEIGHT), *_thin_places(places)])
    is_partial = any((given is None) != (written is None) for given, written in tokens)
    return Curve(line, found[-1], known, len(tokens), None if marked is None else places[marked], is_partial)


def _thin_places(places: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    stride = -(-len(places) // POINTS)
    yield from places[: len(places) - 1 : stride]
    yield places[-1]

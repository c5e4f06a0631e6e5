"""The result of a comparison and the words for a difference. Messages are bounded: both sides may be of any size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from runner.base.text import storable

MAX_SHOWN = 120  # characters of one value in a message
MAX_DIFFERENCES = 5  # named in one message
BELOW_ONE = 1.0 - 1e-6  # a difference never scores full, even the smallest


class PrecheckFailed(ValueError):
    """An output that cannot be compared at all: not in its format, of other columns, of another resolution, too large.

    `kind` begins the message and distinguishes the causes: see `runner.evaluating.evaluate`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """`score` is 0..1, the share that is alike; below 1 if it did not pass. `message` names the first difference."""

    passed: bool
    score: float
    message: str = ""
    numbers_only: bool = False  # all expected numbers are present, but some are off


class Comparator(Protocol):
    """One way of comparing, with its options. Found and expected are whole files."""

    @property
    def kind(self) -> str: ...

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        """Raises PrecheckFailed if `found` cannot be read in the expected form."""
        ...


SAME = OutputComparison(True, 1.0)


def differs(score: float, differences: Iterable[str], count: int, *, numbers_only: bool = False) -> OutputComparison:
    """Not passed, with a total of `count` differences. The message names the first few."""
    named = list(differences)[:MAX_DIFFERENCES]
    more = count - len(named)
    message = "; ".join(named) + (f"; and {more:,} more" if more > 0 else "")
    return OutputComparison(False, max(0.0, min(score, BELOW_ONE)), message, numbers_only)


def shorten_value(value: object) -> str:
    """Shorten a value for a message. Python refuses to spell out integers of thousands of digits."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"an integer of {value.bit_length():,} bits"
    text = storable(repr(value[: MAX_SHOWN + 1] if isinstance(value, str | bytes) else value))
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def decode_text(content: bytes) -> str:
    """Decode UTF-8 without a byte order mark. NUL is allowed; broken bytes are not."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PrecheckFailed("format", f"byte {error.start:,} is no UTF-8 ({error.reason})") from error

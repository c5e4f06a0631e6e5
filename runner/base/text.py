"""Making hostile text fit for storing and showing. What is changed here stays readable in the kept source file.

- NUL becomes U+2400 (PostgreSQL cannot store NUL), lone surrogates become U+FFFD (UTF-8 cannot hold them).
- Terminal escapes are removed. Of a line redrawn with carriage returns (progress bars) the last drawing stays.
- A text over MAX_FIELD_CHARS keeps its beginning and end around a visible mark.
- Values nested deeper than MAX_DEPTH are replaced by a visible mark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

MAX_FIELD_CHARS = 8 * 1024 * 1024
MAX_DEPTH = 64
TOO_DEEP = f"[... nested deeper than {MAX_DEPTH} levels, left out ...]"

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS and the like
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
SURROGATES = re.compile("[\ud800-\udfff]")


def natural_key(text: str) -> list[tuple[int, str]]:
    """Sort "a-2" before "a-10"."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.findall(r"\d{1,9}|\D+", text)]


def parse_id(text: str) -> UUID | None:
    """Return the id; None for everything else."""
    try:
        return UUID(text)
    except ValueError:
        return None


def parse_count(text: str, most: int = 10**9) -> int | None:
    """Parse what an address or a form gives for a whole number from 0 to `most`; None for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return count if is_number and (count := int(text)) <= most else None


def plural(number: int, one: str, many: str = "") -> str:
    """Return "1 task", "1,200 tasks", "2 libraries"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def list_first(names: Sequence[str], most: int, total: int | None = None) -> str:
    """Return "a, b and 2 more"; `total` if `names` holds only some of them."""
    left = (len(names) if total is None else total) - len(names[:most])
    return ", ".join(names[:most]) + (f" and {left:,} more" if left else "")


def mark_left_out(characters: int) -> str:
    """The mark that stands for characters left out of a text."""
    return f"[... {characters:,} characters left out ...]"


def cut(text: str, limit: int = MAX_FIELD_CHARS) -> str:
    """`text`, or its first and last limit/2 characters around a mark."""
    if len(text) <= limit:
        return text
    end = limit // 2
    start = limit - end
    return text[:start] + mark_left_out(len(text) - limit) + text[len(text) - end :]


def cut_end(text: str, limit: int) -> str:
    """`text`, or its first characters with a mark on the next line."""
    return text if len(text) <= limit else f"{text[:limit]}\n{mark_left_out(len(text) - limit)}"


def join_ends(head: str, tail: str, between: int, limit: int) -> tuple[str, bool]:
    """(head and tail as one text, was something left out?). `between`: unread characters between the two.

    Of a text over the limit the first and the last half of it stay, around a mark on its own line.
    """
    whole, half = head + tail, limit // 2
    left_out = len(whole) + between - 2 * half
    if len(whole) + between <= limit:
        return whole, False
    return f"{whole[:half]}\n{mark_left_out(left_out)}\n{whole[-half:]}", True


def storable(text: str) -> str:
    """Replace every character that some database or UTF-8 cannot hold, and cut an overlong text."""
    if "\0" in text:
        text = text.replace("\0", "\u2400")
    if not text.isascii():
        try:
            text.encode()  # many times faster than checking each character
        except UnicodeEncodeError:
            text = SURROGATES.sub("\ufffd", text)
    return text if len(text) <= MAX_FIELD_CHARS else cut(text)


def clean(text: str) -> str:
    """`text` as a person would have seen it on a terminal: storable, no escapes, redrawn lines in their last state."""
    text = storable(text)
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join((line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line) for line in text.split("\n"))
    return text


def replace_unprintable(text: str) -> str:
    """For a terminal or a page: names of files and fields may have control sequences and invalid bytes."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def escape_unprintable(text: str) -> str:
    """For a list with one name a line, still recognisable: a newline becomes \\n, a tab \\t."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def storable_value(value: Any, depth: int = 0) -> Any:
    """A JSON value with storable texts, bounded depth and finite numbers (NaN and infinities become their names)."""
    kind = type(value)  # faster: abstract classes answer slowly, and this runs for every value of every step
    if kind is str:
        return storable(value)
    if kind is int or kind is bool or value is None:
        return value
    if kind is dict and depth < MAX_DEPTH:
        return {
            storable(str(key)): storable(item) if type(item) is str else storable_value(item, depth + 1)
            for key, item in value.items()
        }
    if kind is list and depth < MAX_DEPTH:
        return [storable_value(item, depth + 1) for item in value]
    if kind is float and math.isfinite(value):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        if depth >= MAX_DEPTH:
            return TOO_DEEP
        return {storable(str(key)): storable_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return TOO_DEEP if depth >= MAX_DEPTH else [storable_value(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return storable(str(value))

"""JSON of a small file without oddities, read at once. Everything else is left to `line_streams`, which is ten times
slower and handles them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import orjson

from runner.base.text import MAX_DEPTH, SURROGATES
from runner.base.types import JsonValue

SMALL_BYTES = 1024 * 1024  # a file up to this size cannot hold too many values, nor too long a text
LONG_LIST = 8 * 1024  # characters of a text that begins with a list worth a try with the faster parser
MAX_DIGITS = 18  # of an integer that any database holds
TWICE = "named twice; the last value was taken"
ONCE, NO_NUL = "each name once in an object", "text without NUL characters"
NO_HALF = "text without halves of surrogate pairs"
FINITE, ORDINARY = "finite numbers", f"integers of at most {MAX_DIGITS} digits"
_NAME_ENDS = b'":'
MAX_OPENINGS = MAX_DEPTH  # a line with no more brackets than this cannot be too deep

# Searched after _DIGITS_ALIKE: plain search costs hundreds of times less than a pattern.
_MANY_DIGITS = b"0" * (MAX_DIGITS + 1)
_DIGITS_ALIKE = bytes(0x30 if chr(byte).isdecimal() and byte < 128 else 0x20 for byte in range(256))
_POINT = ord(".")
_SPACE = re.compile(r"[ \t\n\r]*")


def read_plain(content: bytes) -> JsonValue:
    """Read the value of a small JSON file without oddities: no character or number that a database cannot hold, no deep
    nesting. None: it has to be read with care."""
    if len(content) > SMALL_BYTES or b"\\u0000" in content or has_long_number(content):
        return None
    try:
        found: JsonValue = orjson.loads(content)  # refuses lone surrogates, NaN and invalid UTF-8
    except orjson.JSONDecodeError:
        return None
    is_shallow = content.count(b"{") + content.count(b"[") <= MAX_OPENINGS or not is_deeper(found, MAX_DEPTH)
    return found if is_shallow else None


def has_long_number(content: bytes) -> bool:
    """Has it a run of more than MAX_DIGITS digits outside a fraction? Prices often have many decimals."""
    digits = content.translate(_DIGITS_ALIKE)
    at = digits.find(_MANY_DIGITS)
    while at > 0 and content[at - 1] == _POINT:
        end = digits.find(b" ", at)
        at = digits.find(_MANY_DIGITS, end) if end > 0 else -1
    return at >= 0


def plain_object(content: bytes) -> list[tuple[str, JsonValue]] | None:
    """The top-level pairs of a small JSON object without oddities; a key may come twice. None: it has to be read
    with care."""
    has_long = has_long_number(content)
    whole = _whole if has_long else None  # called for each integer, so only if one may be too long
    try:
        pairs = _pairs(content.decode(), json.JSONDecoder(parse_int=whole, parse_constant=_refuse), not has_long)
    except (ValueError, RecursionError):
        return None
    return None if is_deeper(dict(pairs), MAX_DEPTH) else pairs


def read_lenient(text: str, note: Callable[[str, str], None]) -> object:
    """Read the value, with null for NaN and infinities and texts for integers that no database holds. `note` is
    called with the expectation and the finding for each. Raw control characters are accepted."""

    def read_constant(name: str) -> None:
        note(FINITE, f"found {name}: read as null")

    def read_integer(digits: str) -> int | str:
        if len(digits.removeprefix("-")) <= MAX_DIGITS:
            return int(digits)
        note(ORDINARY, f"found {digits[:40]}: kept as text")
        return digits

    return json.loads(text, parse_constant=read_constant, parse_int=read_integer, strict=False)


def _pairs(text: str, decoder: json.JSONDecoder, in_haste: bool) -> list[tuple[str, JsonValue]]:
    """Return the pairs of the text, which must be one object; a key may come twice. ValueError for anything else.
    in_haste: may a long list be given to the faster parser?"""
    pairs: list[tuple[str, JsonValue]] = []
    at = _pass(text, 0, "{")
    is_open = not text.startswith("}", at)
    while is_open:
        key, at = decoder.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError(key)
        at = _pass(text, at, ":")
        value, at = (_long_list(text, at) if in_haste else None) or decoder.raw_decode(text, at)
        pairs.append((key, value))
        at = _space_end(text, at)
        is_open = text.startswith(",", at)
        if is_open:
            at = _pass(text, at, ",")
    if _pass(text, at, "}") < len(text):
        raise ValueError("something follows")
    return pairs


def _long_list(text: str, at: int) -> tuple[JsonValue, int] | None:
    """Parse the list that begins here, and return its end, with a parser that needs the end in advance. That is
    mostly the text's last bracket or the one before; only one can fit, because no list is the beginning of another."""
    if len(text) - at < LONG_LIST or text[at] != "[":
        return None
    end = len(text)
    for _ in range(2):
        end = text.rfind("]", at, end)
        if end < 0:
            break
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(text[at : end + 1]), end + 1
    return None


def _pass(text: str, at: int, sign: str) -> int:
    """Return the place after the sign. ValueError if the sign is not next."""
    at = _space_end(text, at)
    if not text.startswith(sign, at):
        raise ValueError(sign)
    return _space_end(text, at + 1)


def _space_end(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _refuse(name: str) -> JsonValue:
    raise ValueError(name)


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(digits)
    return int(digits)


def list_oddities(content: bytes, value: object) -> Iterator[tuple[str, str, str]]:
    """(place, expected, message) of silent changes by the parser: repeated names in one object, NUL characters and
    halves of surrogate pairs, each kind once. Nearly all content is searched, not parsed again."""
    if not _may_be_odd(content, value):
        return
    names = Counter[str]()

    def take(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names.update(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        return found

    try:
        value = json.loads(content.decode("utf-8-sig", "replace"), object_pairs_hook=take, parse_int=str, strict=False)
    except (ValueError, RecursionError):  # the value's reader reports it
        return
    letters = "".join(_list_texts(value))
    if names:
        yield (
            f"{next(iter(names))[:100]}",
            ONCE,
            TWICE + (f" ({names.total() - 1:,} more of the same kind)" if names.total() > 1 else ""),
        )
    if nuls := letters.count("\0"):
        yield "whole file", NO_NUL, f"{nuls:,} found, shown as \u2400"
    if halves := len(SURROGATES.findall(letters)):
        yield "whole file", NO_HALF, f"{halves:,} found, shown as \ufffd"


def _may_be_odd(content: bytes, value: object) -> bool:
    """Has it a NUL, or a different number of names than the parsed value? A false alarm only costs another check."""
    if b"\\u0000" in content or b"\\u0022" in content:
        return True
    try:
        return content.count(_NAME_ENDS) != orjson.dumps(value).count(_NAME_ENDS)
    except TypeError:  # half a pair, or a number that orjson does not write
        return True


def _list_texts(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += (*item, *item.values())
        elif isinstance(item, list):
            waiting += item


def is_deeper(value: object, limit: int) -> bool:
    """Does it hold lists or objects inside `limit` others?"""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            item
            for found in level
            for item in (found.values() if type(found) is dict else found)
            if type(item) is dict or type(item) is list
        ]
    return bool(level)

"""Text of strangers made visible: nothing in it may hide, reorder or pretend. Escaping stays the template's work.

Pages, charts, logs and commands all take it from here."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Terminal escapes: a page is no terminal, and what is left of them reads as noise.
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)

# Controls except tab and newline; bidirectional overrides and isolates; zero-width characters; line separators;
# tag characters, which can smuggle whole sentences past a reader.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)

_CHANGED = re.compile(f"\r\n|{_ANSI.pattern}|{_UNSEEN.pattern}")

ELLIPSIS = "…"


def visible(text: str) -> str:
    """`text` without terminal escapes, with every character a reader could not see written out as its code point.

    CRLF line ends become plain ones; tabs and newlines stay. Length may change, so offsets are taken before.
    """
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if "\x1b" in text or "\x9b" in text:
        text = _ANSI.sub("", text)
    return spell_out(text)


def spell_out(text: str) -> str:
    """`text` with every character a reader could not see written out, terminal escapes too: nothing is taken away, so what
    surrounds a stranger's text may come along."""
    return _UNSEEN.sub(_spell_match, text)


def changes(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """(start, end, what stands there instead) of every place between two offsets that `visible` would change."""
    for match in _CHANGED.finditer(text, start, end):
        found = match.group()
        instead = "\n" if found == "\r\n" else _spell_match(match) if _UNSEEN.fullmatch(found) else ""
        yield match.start(), match.end(), instead


def one_line(text: str, limit: int) -> str:
    """The first non-empty line, made visible and cut to `limit` characters."""
    line = visible(text[: limit * 8]).strip().partition("\n")[0].replace("\t", " ")
    return line if len(line) <= limit else line[: limit - 1] + ELLIPSIS


def _spell_match(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: U+2400 stands for NUL
    return f"⟨U+{code:04X}⟩"

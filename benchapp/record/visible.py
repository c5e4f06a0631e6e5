"""Make strangers' text visible: nothing in it may hide, reorder or pretend. Templates still do the escaping. Pages,
charts, logs and commands all use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import combining

# Terminal escapes: a page does not interpret them, and what is left of them reads as noise.
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)

# Controls except tab and newline; bidirectional overrides and isolates; zero-width characters; line separators;
# variation selectors; tag characters, which can smuggle whole sentences past a reader.
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    f"\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff{_SELECTORS}]"
)

# Where some of these belong to what a reader sees. Scripts whose letters join: Arabic to N'Ko, those of India,
# Mongolian.
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u1800-\u18af\ua840-\ua87f\ufb50-\ufdff\ufe70-\ufefc\U00010d00-\U00010d3f\U0001e900-\U0001e95f"  # noqa: E501
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u1980-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"  # scripts without spaces
_EMOJI = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"  # noqa: E501
_FLAG = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_TAG = re.compile("[\U000e0020-\U000e007f]")
_JOINING_LETTER = re.compile(f"[{_JOINING}]")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_PICTURE = re.compile(f"[{_EMOJI}]")
_SELECTOR = re.compile(f"[{_SELECTORS}]")
_VIRAMA = 9  # its combining class: the letter before it loses its vowel, and a joiner sets the shape

_CHANGED = re.compile(f"\r\n|{_ANSI.pattern}|{_UNSEEN.pattern}")

# Words of a script that is read from the right, with the blanks between them.
_FROM_RIGHT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
RIGHT_TO_LEFT = re.compile(f"[{_FROM_RIGHT}](?:[{_FROM_RIGHT}\u200c\u200d]| +(?=[{_FROM_RIGHT}]))*")

ELLIPSIS = "…"


def visible(text: str) -> str:
    """Return `text` without terminal escapes, with every character a reader could not see written as its code point.

    CRLF line ends become plain ones; tabs and newlines stay. Length may change, so take offsets before.
    """
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if "\x1b" in text or "\x9b" in text:
        text = _ANSI.sub("", text)
    return spell_out(text)


def spell_out(text: str, *, is_markup: bool = False) -> str:
    """Write out every character a reader could not see, terminal escapes too. Nothing is removed, so text around a
    stranger's may be included. `is_markup`: it is HTML, whose tags separate no letters."""
    return _UNSEEN.sub(lambda match: _spell_match(match, is_markup=is_markup), text)


def has_unseen(text: str) -> bool:
    return _UNSEEN.search(text) is not None


def changes(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, replacement) of every place between two offsets that `visible` would change."""
    for match in _CHANGED.finditer(text, start, end):
        found = match.group()
        instead = "\n" if found == "\r\n" else _spell_match(match) if _UNSEEN.fullmatch(found) else ""
        if instead != found:
            yield match.start(), match.end(), instead


def visible_between(text: str, start: int, end: int) -> str:
    """Return `visible` of a stretch, and keep the joiners that the characters around it need."""
    pieces, at = [], start
    for first, last, instead in changes(text, start, end):
        pieces += [text[at:first], instead]
        at = last
    return "".join([*pieces, text[at:end]])


def one_line(text: str, limit: int) -> str:
    """Return the first non-empty line, made visible and cut to `limit` characters."""
    line = visible(text[: limit * 8]).strip().partition("\n")[0].replace("\t", " ")
    return line if len(line) <= limit else line[: limit - 1] + ELLIPSIS


def _spell_match(match: re.Match[str], *, is_markup: bool = False) -> str:
    found, text = match.group(), match.string
    code = ord(found)
    if found == "\r":
        return "↵"
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: U+2400 stands for NUL
    before, after = match.start() - 1, match.end()
    if is_markup:
        before, after = _skip_tags_back(text, before), _skip_tags(text, after)
    return found if _belongs(found, text, before, after) else f"⟨U+{code:04X}⟩"


def _belongs(found: str, text: str, before: int, after: int) -> bool:
    """Is this character needed for what a reader sees between those at `before` and `after`?"""
    if before < 0:
        return False
    last, following = text[before], text[after : after + 1]
    if found in "\u200c\u200d":
        if combining(last) == _VIRAMA or (
            _JOINING_LETTER.match(following) and (last.isalnum() or _JOINING_LETTER.match(last))
        ):
            return True
        while before > 0 and (last == "\ufe0f" or "\U0001f3fb" <= last <= "\U0001f3ff"):
            before -= 1
            last = text[before]
        return found == "\u200d" and bool(_PICTURE.match(last) and _PICTURE.match(following))
    if found == "\u200b":
        return bool(_UNSPACED_LETTER.match(last) and _UNSPACED_LETTER.match(following))
    if _SELECTOR.match(found):
        return not (last.isspace() or last.isascii() and last not in "0123456789#*" or _UNSEEN.match(last))
    return bool(_TAG.match(found)) and any(
        flag.end() > before + 1 for flag in _FLAG.finditer(text, max(0, before - 6), before + 8)
    )


def _skip_tags_back(text: str, at: int) -> int:
    while at >= 0 and text[at] == ">":
        at = text.rfind("<", 0, at) - 1
    return at


def _skip_tags(text: str, at: int) -> int:
    while text.startswith("<", at) and (end := text.find(">", at)) > 0:
        at = end + 1
    return at

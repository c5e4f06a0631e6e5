"""Finding a passage in a printed text, despite the changes by pages, converters and line ends.

Anchors are compared without white space and with one kind of quotes and dashes. The passage is returned unchanged,
minus what the print added: fences of a conversion into Markdown, hyphens at line ends, common indentation.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from textwrap import dedent

from runner.prompts.pack_layout import Piece

MAX_PIECE_CHARS = 60_000
_ALIKE = str.maketrans("‘’`´“”„–—−‐‑", "''''\"\"\"-----")
_GONE = re.compile(r"[\s\u00ad\u200b\ufeff]+|\\n")  # in listings a line's end is sometimes written out
_FENCE = re.compile(r"^```\w*[ \t]*\n?", re.MULTILINE)
_FENCES_OF_A_CONVERSION = re.compile(r"^```[ \t]*\n(?:[ \t]*\n)*```[ \t]*$", re.MULTILINE)
_BROKEN_WORD = re.compile(r"(?<!\w)(\w+)-\n[ \t]*([a-z]\w*)")
_PAGE_NUMBER = re.compile(r"\s*\d{1,4}\s*")
_CLOSING = re.compile(r'\s*"""\s*$')
MOST_REPEATED = 3  # a line that begins or ends this many pages is not part of the text


class PrintedText:
    """A text with a view for finding anchors. `is_source`: strings of a program, read as Python reads them."""

    def __init__(self, text: str, *, is_source: bool = False) -> None:
        text = text.replace("\r\n", "\n")
        if not is_source:
            text = _without_furniture(text) if "\f" in text else text
            text = _FENCE.sub("", text) if _FENCES_OF_A_CONVERSION.search(text) else text
        self.text, self.is_source = text, is_source
        self._words = set(re.findall(r"\w+", text))
        self._squeezed, self._places = _squeeze(text)

    def find(self, piece: Piece) -> str | None:
        """Return the piece as it is sent, or None if an end is not found. Only papers have a heading before it."""
        at = self._seek(piece.after, 0)
        if at is None and piece.after.endswith("="):
            return None
        start = self._seek(piece.start, at or 0, past=False)
        end = None if start is None else self._end_of(piece, start)
        if start is None or end is None or not 0 < self._place(end) - self._place(start) <= MAX_PIECE_CHARS:
            return None
        return self._clean(self.text[self._place(start) : self._places[end - 1] + 1], piece)

    def _seek(self, anchor: str, start: int, *, past: bool = True) -> int | None:
        """Where the anchor begins or, `past` it, ends. The end includes repeats of its last character (rules)."""
        wanted, _ = _squeeze(anchor)
        found = self._squeezed.find(wanted, start)
        if found < 0:
            return None
        if not past:
            return found
        end = found + len(wanted)
        while wanted.endswith("=") and self._squeezed[end : end + 1] == "=" and not anchor.endswith(" ="):
            end += 1
        return end

    def _end_of(self, piece: Piece, start: int) -> int | None:
        if piece.before:
            return self._seek(piece.before, start, past=False)
        return next((end for anchor in piece.to if (end := self._seek(anchor, start)) is not None), None)

    def _place(self, index: int) -> int:
        return self._places[index] if index < len(self._places) else len(self.text)

    def _clean(self, text: str, piece: Piece) -> str:
        if piece.before:
            text = _CLOSING.sub("", text)
        if self.is_source:
            return text.strip("\n")
        first, newline, rest = text.partition("\n")
        text = first + newline + dedent(rest)
        if piece.listing:
            return re.sub(r"\\n\n?", "\n", text).strip("\n")
        return _BROKEN_WORD.sub(self._join_word, text)

    def _join_word(self, broken: re.Match[str]) -> str:
        """Remove the hyphen if the text has the word without it elsewhere."""
        whole = broken[1] + broken[2]
        return whole if whole in self._words else f"{broken[1]}-{broken[2]}"


def digest_words(text: str) -> str:
    """Digest letters and digits alone: line ends, quotes and hyphens differ between copies of one text."""
    return hashlib.sha256("".join(re.findall(r"[^\W_]+", text)).encode()).hexdigest()[:16]


def _squeeze(text: str) -> tuple[str, list[int]]:
    """Return the characters used to find anchors, and the place of each in `text`."""
    signs: list[str] = []
    places: list[int] = []
    at = 0
    for gone in [*_GONE.finditer(text), None]:
        end = len(text) if gone is None else gone.start()
        signs.append(text[at:end])
        places.extend(range(at, end))
        at = end if gone is None else gone.end()
    return "".join(signs).translate(_ALIKE), places


def _without_furniture(text: str) -> str:
    """Join pages without their numbers and the lines that begin or end many of them."""
    pages = [page.strip("\n").split("\n") for page in text.split("\f")]
    ends = Counter(_alike(line) for page in pages for line in {page[0], page[-1]})
    kept = [[line for place, line in enumerate(page) if not _is_furniture(line, place, page, ends)] for page in pages]
    return "\n".join("\n".join(page) for page in kept)


def _is_furniture(line: str, place: int, page: list[str], ends: Counter[str]) -> bool:
    if place not in (0, len(page) - 1) or not line.strip():
        return False
    return _PAGE_NUMBER.fullmatch(line) is not None or ends[_alike(line)] >= MOST_REPEATED


def _alike(line: str) -> str:
    return re.sub(r"\d+", "0", line.strip())

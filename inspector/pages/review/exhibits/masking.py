"""Texts with what a queue hides cut out, and the way back from what is shown to what is recorded.

A reviewer marks places in the text as shown. Its offsets must not be those of the record: the distance between two
words would show how long the hidden word between them is. So the page counts characters of the shown text, and
`ShownText` leads back. A range that begins or ends inside something hidden is cut back to its border.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchapp.record.visible import changes, visible

HIDDEN = "[hidden]"
MIN_TERM = 3  # characters: shorter names would be masked inside every second sentence

# Where a name may begin. A colour of a terminal, an escaped line break or an escaped byte of an address ends in a
# letter or a digit that is not a part of the word after it.
_START = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2})"
    r"|(?<=\[m)|(?<=\[\dm)|(?<=\[\d\dm)|(?<=;\dm)|(?<=;\d\dm)|(?<=;\d\d\dm))"
)

# Names of agent models and their makers, with the version after them. One list for all, so that masking never depends
# on the model.
_MODELS = (
    rf"(?=[a-z]){_START}(?:claude|anthropic|chatgpt|gpt|openai|codex|gemini|gemma|qwen|alibaba|kimi|moonshot|deepseek|glm"
    r"|z-?ai|zhipu|minimax|llama|mistral|codestral|devstral|grok|nemotron|o[134]-(?:mini|pro|preview)"
    r"|(?:sonnet|opus|haiku)[- ]?(?=\d))(?![a-z])"
    r"[\w\-/:@.]*(?<![.:/])(?:[ ](?:sonnet|opus|haiku|pro|flash|mini|code|cli|max|turbo|coder)(?![a-z]))*(?:[ ]\d+(?:\.\d+)*)?"  # noqa: E501
)
# Where skills live and what they are called on disk, wherever a text names it. Only tried where a word begins: from
# within a word of a million characters each try would read the rest of it.
_WORD = r"[^\s'\"`|;&()<>]"
SKILL_PATHS = rf"(?<!{_WORD}){_WORD}*(?:(?<![\w-])skills(?=/)|(?<=/)skills(?![\w-])|SKILL\.md){_WORD}*"


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where the shown text is not the recorded one: shown from `at` to `to`, recorded from `start` to `end`."""

    at: int
    to: int
    start: int
    end: int
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class ShownText:
    text: str
    cuts: tuple[Cut, ...] = ()

    def map_to_recorded(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the range of the recorded text for a range of the shown one; None if nothing that is shown
        remains."""
        first, last = self._map_to_recorded(start, is_end=False), self._map_to_recorded(end, is_end=True)
        return (first, last) if first < last else None

    def map_to_shown(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the shown text that contains a range of the recorded one."""
        return self._map_to_shown(start, is_end=False), self._map_to_shown(end, is_end=True)

    def _map_to_recorded(self, place: int, *, is_end: bool) -> int:
        found = bisect_right(self.cuts, place if not is_end else place - 1, key=lambda cut: cut.at) - 1
        if found < 0:
            return place
        cut = self.cuts[found]
        inside = cut.at < place <= cut.to if is_end else cut.at <= place < cut.to
        if inside and cut.is_hidden:
            return cut.start if is_end else cut.end
        if inside:
            return cut.end if is_end else cut.start
        return place - cut.to + cut.end

    def _map_to_shown(self, place: int, *, is_end: bool) -> int:
        found = bisect_right(self.cuts, place if not is_end else place - 1, key=lambda cut: cut.start) - 1
        if found < 0:
            return place
        cut = self.cuts[found]
        if place < cut.end or (is_end and place == cut.end):
            return cut.to if is_end else cut.at
        return place - cut.end + cut.to


@dataclass(frozen=True, slots=True)
class Mask:
    """What is cut out of texts; without a pattern nothing is."""

    pattern: re.Pattern[str] | None = None

    def hides(self, text: str) -> bool:
        return self.pattern is not None and self.pattern.search(text) is not None

    def text(self, text: str) -> str:
        """Return the text as it is shown: made visible, with what is hidden replaced."""
        return self.show(text).text if self.pattern else visible(text)

    def lines(self, text: str) -> str:
        """Return the text with what is hidden replaced and nothing else changed; its lines stay its lines."""
        return self.pattern.sub(HIDDEN, text) if self.pattern else text

    def show(self, text: str, *, without: Iterable[tuple[int, int]] = ()) -> ShownText:
        """Return the text as shown, with the way back to the recorded one. Ranges in `without` leave no trace."""
        pieces: list[str] = []
        cuts: list[Cut] = []
        at = length = 0
        for start, end, instead, is_hidden in self._places(text, sorted(without)):
            pieces += (text[at:start], instead)
            length += start - at
            cuts.append(Cut(length, length + len(instead), start, end, is_hidden))
            length += len(instead)
            at = end
        pieces.append(text[at:])
        return ShownText("".join(pieces), tuple(cuts))

    def _places(self, text: str, without: list[tuple[int, int]]) -> Iterator[tuple[int, int, str, bool]]:
        """Yield (start, end, what replaces it, is it hidden?) in order, without overlaps."""
        at = 0
        for start, end, instead in self._hidden(text, without):
            for changed in changes(text, at, start):
                yield *changed, False
            yield start, end, instead, True
            at = end
        for changed in changes(text, at, len(text)):
            yield *changed, False

    def _hidden(self, text: str, without: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
        at = 0
        for start, end in [*without, (len(text), len(text))]:
            if self.pattern:
                yield from ((*span, HIDDEN) for span in _join_spans(self.pattern, text, at, start))
            if start < end:
                yield start, end, ""
            at = end


def _join_spans(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return what the pattern finds.
    Neighbours with only a separator between them are one, so that a name of two words looks like a name of one."""
    open_span: tuple[int, int] | None = None
    for match in pattern.finditer(text, start, end):
        if open_span and not text[open_span[1] : match.start()].strip(" -_/:@"):
            open_span = (open_span[0], match.end())
            continue
        if open_span:
            yield open_span
        open_span = match.span()
    if open_span:
        yield open_span


def mask_of(
    *, names: Iterable[str] = (), skills: Iterable[str] = (), paths: bool = False, models: bool = False
) -> Mask:
    """Build a mask of these names and of these skills, of every path to a skill, and of every model that has a
    name."""
    found = [*skill_patterns(skills), *map(_name, sorted(_worth_hiding(names), key=lambda name: (-len(name), name)))]
    parts = [*([SKILL_PATHS] if paths else []), *([_MODELS] if models else []), *filter(None, found)]
    return Mask(re.compile("|".join(parts), re.IGNORECASE) if parts else None)


def skill_patterns(skills: Iterable[str]) -> list[str]:
    return [_name(skill) for skill in sorted(_worth_hiding(skills), key=lambda skill: (-len(skill), skill))]


def _worth_hiding(names: Iterable[str]) -> set[str]:
    return {name.strip() for name in names if len(name.strip()) >= MIN_TERM and name.strip("-_ ")}


def _name(name: str) -> str:
    """A name however its parts are joined. One plain word is a name only where it is used as one: quoted, in a path, or
    next to the word skill; else its mask would distinguish it from the same word in every sentence.

    Its first part is matched before anything around it: a page asks for dozens of names at every character.
    """
    parts = [re.escape(part) for part in re.split(r"[-_ ]+", name) if part]
    joined = r"[-_ ]+".join(parts)
    if len(parts) > 1 or re.search(r"\d|\W", name):
        return rf"(?={parts[0]}){_START}{joined}(?![A-Za-z0-9])"
    return rf"(?={joined})(?:(?<=[`'\"/]){joined}(?=[`'\"/])|(?<![A-Za-z0-9]){joined}(?=[ ]skill)|(?<=skill[ ]){joined}(?![A-Za-z0-9]))"  # noqa: E501

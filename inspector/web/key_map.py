"""The keys of all pages. A key means one thing: its words stand here once, and a page only says of what.

Single letters act on the page, or step to what lies beside it; g and a letter lead to another page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class KeyGroup(StrEnum):
    """In the order of the list under ?."""

    MOVE = "Move"
    SEE = "See"
    ACT = "Act"
    GO = "Go to"


@dataclass(frozen=True, slots=True)
class KeyMeaning:
    """`words` holds {} where a page says of what; without its word stands `usual`."""

    group: KeyGroup
    words: str
    usual: str = ""

    def say(self, noun: str = "") -> str:
        return self.words.replace("{}", noun or self.usual)


_M, _S, _A, _G = KeyGroup
KEYS = {
    "j": KeyMeaning(_M, "next {}", "row"),
    "k": KeyMeaning(_M, "previous {}", "row"),
    "d": KeyMeaning(_M, "next {}", "deciding step"),
    "D": KeyMeaning(_M, "previous {}", "deciding step"),
    "e": KeyMeaning(_M, "next {}", "error"),
    "E": KeyMeaning(_M, "previous {}", "error"),
    "s": KeyMeaning(_M, "next {}", "skill use"),
    "S": KeyMeaning(_M, "previous {}", "skill use"),
    "n": KeyMeaning(_M, "next {}", "change"),
    "p": KeyMeaning(_M, "previous {}", "change"),
    "[": KeyMeaning(_M, "{} before", "one"),
    "]": KeyMeaning(_M, "{} after", "one"),
    "<": KeyMeaning(_M, "previous {}", "page of the list"),
    ">": KeyMeaning(_M, "next {}", "page of the list"),
    ".": KeyMeaning(_M, "next {}", "mark"),
    ",": KeyMeaning(_M, "previous {}", "mark"),
    "g g": KeyMeaning(_M, "first {}", "line"),
    "G": KeyMeaning(_M, "last {}", "line"),
    "←": KeyMeaning(_M, "walk {}", "the points of a focused chart"),
    "↑": KeyMeaning(_M, "walk {}", "the points of a focused chart"),
    "↓": KeyMeaning(_M, "walk {}", "the points of a focused chart"),
    "→": KeyMeaning(_M, "walk {}", "the points of a focused chart"),
    "u": KeyMeaning(_M, "up to {}", "the page above"),
    "o": KeyMeaning(_S, "{}", "outline"),
    "r": KeyMeaning(_S, "reasoning"),
    "c": KeyMeaning(_S, "{}", "what the author did not see"),
    "x": KeyMeaning(_S, "unfold this step"),
    "X": KeyMeaning(_S, "unfold all"),
    "b": KeyMeaning(_S, "next to {}", "another one"),
    "l": KeyMeaning(_S, "the library {}", "of this run"),
    "i": KeyMeaning(_S, "all definitions"),
    "F": KeyMeaning(_S, "pause, or follow from the end"),
    "Enter": KeyMeaning(_A, "{}", "open what has the focus"),
    "y": KeyMeaning(_A, "copy a link to the step"),
    "m": KeyMeaning(_A, "{}", "comment on the step"),
    "M": KeyMeaning(_A, "mark the whole item"),
    "v": KeyMeaning(_A, "select text in this step"),
    "1–9": KeyMeaning(_A, "the code with that key; in a group its second key, or Enter"),
    "0": KeyMeaning(_A, "nothing wrong here"),
    "#": KeyMeaning(_A, "find a code by name"),
    "f": KeyMeaning(_A, "this mark is the first mistake"),
    "a": KeyMeaning(_A, "who or what failed: then the number on it"),
    "q": KeyMeaning(_A, "how sure: then 1 low, 2 medium, 3 high"),
    "t": KeyMeaning(_A, "why reviewers differ: then the number on it"),
    "=": KeyMeaning(_A, "start from all codes, shared codes, one review: then the number on it"),
    "w": KeyMeaning(_A, "memo; Esc leaves it"),
    "W": KeyMeaning(_A, "memo of the whole item"),
    "⌫": KeyMeaning(_A, "remove this mark"),
    "z": KeyMeaning(_A, "undo"),
    "Z": KeyMeaning(_A, "redo"),
    "K": KeyMeaning(_A, "on a conflict: keep yours"),
    "L": KeyMeaning(_A, "on a conflict: load theirs"),
    "-": KeyMeaning(_A, "skip with a reason"),
    "h": KeyMeaning(_A, "hand the item back"),
    "R": KeyMeaning(_A, "send again what this browser kept"),
    "Ctrl Enter": KeyMeaning(_A, "{}", "send, also while typing"),
    "Shift click": KeyMeaning(_A, "range to a patch of the strip"),
    "g a": KeyMeaning(_G, "what the author saw"),
    "g b": KeyMeaning(_G, "blame: who wrote each line"),
    "g f": KeyMeaning(_G, "findings of the rules"),
    "g u": KeyMeaning(_G, "skills in use"),
    "g x": KeyMeaning(_G, "a probe: run again without the lines"),
    "g t": KeyMeaning(_G, "the grid of trials"),
    "g o": KeyMeaning(_G, "jobs of this run: watch, pause, cancel"),
    "g q": KeyMeaning(_G, "a review queue of these trials"),
    "g n": KeyMeaning(_G, "launch an experiment"),
    "/": KeyMeaning(_G, "anything by its name, or search"),
    "Ctrl K": KeyMeaning(_G, "anything by its name, or search"),
    "g h": KeyMeaning(_G, "home: experiments"),
    "g c": KeyMeaning(_G, "compare"),
    "g r": KeyMeaning(_G, "review"),
    "g s": KeyMeaning(_G, "suites"),
    "g j": KeyMeaning(_G, "jobs"),
    "g i": KeyMeaning(_G, "imports"),
    "g p": KeyMeaning(_G, "published results"),
    "g d": KeyMeaning(_G, "help"),
    "T": KeyMeaning(_S, "light or dark"),
    "?": KeyMeaning(_S, "these keys"),
}


@dataclass(frozen=True, slots=True)
class KeyRow:
    """Keys that belong together, each as the strokes it takes, and what they do in words."""

    keys: tuple[tuple[str, ...], ...]
    words: str


def describe_keys(keys: Sequence[str], noun: str = "") -> tuple[KeyGroup, KeyRow]:
    """KeyError for a key that the map does not know: it has no meaning yet."""
    meanings = [KEYS[key] for key in keys]
    return meanings[0].group, KeyRow(tuple(tuple(key.split(" ")) for key in keys), _join_words(meanings, noun))


def group_rows(rows: Iterable[tuple[KeyGroup, KeyRow]]) -> list[tuple[str, list[KeyRow]]]:
    """For the list: groups in their order, those that have a key."""
    found = list(rows)
    grouped = [(group.value, [row for each, row in found if each is group]) for group in KeyGroup]
    return [(title, listed) for title, listed in grouped if listed]


def _join_words(meanings: Sequence[KeyMeaning], noun: str) -> str:
    """One phrase, as in "next, previous step", where the words differ in their beginning alone, else all of them."""
    heads = [meaning.words.removesuffix(" {}") for meaning in meanings]
    if len(meanings) > 1 and all(meaning.words.endswith(" {}") for meaning in meanings):
        return f"{', '.join(dict.fromkeys(heads))} {noun or meanings[0].usual}"
    return ", ".join(dict.fromkeys(meaning.say(noun) for meaning in meanings))

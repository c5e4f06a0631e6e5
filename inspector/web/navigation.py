"""The pages that every page links to, and what the keys do. Their names are here; a page adds only the noun. Single
letters act on the page or move to its neighbours; g and a letter lead to another page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from benchapp.models import User

ANYONE = User.Level.VIEWER


class Place(NamedTuple):
    words: str
    key: str = ""
    level: str = ANYONE  # who sees the link
    sections: str = ""


# By the name of the page's address, in the order of the bar and of the menu.
PLACES = {
    "index": Place(
        "Experiments",
        "g h",
        sections="experiment run library blame findings author skills judgements judged probe trial compare chart"
        " comparison comparisons launch imports publish",
    ),
    "review": Place(
        "Review",
        "g r",
        sections="review-item queue codebook codebooks agreement disagreements resolve results suggestions",
    ),
    "suites": Place("Suites", "g s", sections="suite drafts draft"),
    "jobs": Place("Jobs", "g j", sections="operate"),
    "published": Place("Papers", "g p"),
    "documents": Place("Help", "g d", sections="document"),
    "account": Place("Your account"),
    "comments": Place("Comments"),
    "activity": Place("Activity"),
    "people": Place("People", level=User.Level.ADMIN),
}
# What a person can start from any page.
ACTS = {
    "launch": Place("Launch an experiment", level=User.Level.OPERATOR),
    "imports": Place("Import runs", level=User.Level.OPERATOR),
    "compare": Place("Compare runs"),
    "publish": Place("Published files", level=User.Level.REVIEWER),
    "queue-new": Place("Start a review queue", level=User.Level.REVIEWER),
    "draft-new": Place("Draft a task", level=User.Level.OPERATOR),
}


# By group, in the order of the list under ?. In braces the usual noun, which a page may replace by its own.
MEANINGS = {
    "Move": {
        "j": "next {row}",
        "k": "previous {row}",
        "d": "next {deciding step}",
        "D": "previous {deciding step}",
        "e": "next {error}",
        "E": "previous {error}",
        "s": "next {skill use}",
        "S": "previous {skill use}",
        "n": "next {change}",
        "p": "previous {change}",
        "[": "{one} before",
        "]": "{one} after",
        "<": "previous {page of the list}",
        ">": "next {page of the list}",
        ".": "next {mark}",
        ",": "previous {mark}",
        "g g": "first {line}",
        "G": "last {line}",
        "←": "walk {the points of a focused chart}",
        "↑": "walk {the points of a focused chart}",
        "↓": "walk {the points of a focused chart}",
        "→": "walk {the points of a focused chart}",
        "u": "up to {the page above}",
    },
    "See": {
        "o": "{outline}",
        "r": "reasoning",
        "c": "{what the author did not see}",
        "x": "unfold this step",
        "X": "unfold all",
        "b": "next to {another one}",
        "l": "the library {of this run}",
        "i": "all definitions",
        "F": "pause, or follow from the end",
        "T": "light or dark",
        "?": "these keys",
    },
    "Act": {
        "Enter": "{open what has the focus}",
        "y": "copy a link to the step",
        "m": "{comment on the step}",
        "M": "mark the whole item",
        "v": "select text in this step",
        "1–9": "the code with that key; in a group its second key, or Enter",
        "0": "nothing wrong here",
        "#": "find a code by name",
        "f": "this mark is the first mistake",
        "a": "who or what failed: then the number on it",
        "q": "how sure: then 1 low, 2 medium, 3 high",
        "t": "why reviewers differ: then the number on it",
        "=": "start from all codes, shared codes, one review: then the number on it",
        "w": "memo; Esc leaves it",
        "W": "memo of the whole item",
        "⌫": "remove this mark",
        "z": "undo",
        "Z": "redo",
        "K": "on a conflict: keep yours",
        "L": "on a conflict: load theirs",
        "-": "skip with a reason",
        "h": "hand the item back",
        "R": "send again what this browser kept",
        "Ctrl Enter": "{send, also while typing}",
        "Shift click": "range to a patch of the strip",
    },
    "Go to": {
        "g a": "what the author saw",
        "g b": "blame: who wrote each line",
        "g f": "findings of the rules",
        "g u": "skills in use",
        "g x": "a probe: run again without the lines",
        "g t": "the grid of trials",
        "g o": "jobs of this run: watch, pause, cancel",
        "g q": "a review queue of these trials",
        "g n": "launch an experiment",
        "/": "anything by its name, or search",
        "Ctrl K": "anything by its name, or search",
        "g h": "home: experiments",
        "g c": "compare",
        "g r": "review",
        "g s": "suites",
        "g j": "jobs",
        "g i": "imports",
        "g p": "published results",
        "g d": "help",
    },
}
KEYS = {key: words for meanings in MEANINGS.values() for key, words in meanings.items()}
_NOUN = re.compile(r"(.*?) ?\{(.+)\}")


def describe_keys(keys: Sequence[str], noun: str = "") -> str:
    """Describe several keys in one phrase, as in "next, previous step", where only the first words differ; else list
    all. Raise KeyError for a key that the map does not know: it has no meaning yet."""
    meanings = [KEYS[key] for key in keys]
    parts = [match for words in meanings if (match := _NOUN.fullmatch(words)) and match[1]]
    if len(keys) > 1 and len(parts) == len(keys):
        return f"{', '.join(dict.fromkeys(part[1] for part in parts))} {noun or parts[0][2]}"
    return ", ".join(dict.fromkeys(re.sub(r"\{(.+)\}", noun or r"\1", words) for words in meanings))

"""Rules about what an author wrote: a decision's patch, or a whole library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchapp.analysis.failures.quotes import cut_quote
from benchapp.analysis.trial_rules.rule_finding import FindingPlace, Reason

SIMILAR = 0.6  # share of words that two skills' names and descriptions have in common
LONG_LINES = 500

_CONSTANT = re.compile(
    r"\b[\w-]{2,60}\.(?:csv|tsv|json|jsonl|xlsx?|pdf|docx?|pptx?|txt|md|py|sql|ya?ml|toml|db|parquet|stl|pcap|html?|log|xml)\b"
    r"|\b[A-Z][A-Z0-9]{1,9}-\d{2,8}\b"  # identifiers such as ABC-123
    r"|(?<![\w.])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w.])"
    r"|(?<![\w.])\d+\.\d{2,}(?![\w.])"
    r"|(?<![\w.,-])\d{4,}(?![\w.,-])"
)
_COMMON = frozenset(
    "SKILL.md README.md main.py run.py solve.py script.py test.py output.txt output.csv output.json result.json results.json"
    " input.csv data.csv config.json config.yaml package.json requirements.txt pyproject.toml 1000 1024 2048 4096 8000 8080"
    " 10000 100000 1000000 2023 2024 2025 2026".split()
)
_WORD = re.compile(r"[a-z]{3,}")
_STOP = frozenset("the and for with from that this when use skill into using your you are how".split())


@dataclass(frozen=True, slots=True)
class PatchFacts:
    """What was added, by path (whole texts of a library for a snapshot), and what the author had seen.

    shown: instructions of the tasks it was shown. others: instructions of the family's other tasks.
    skills: slug -> name and description, of the library after it; `new`: the slugs it brought.
    """

    added: Mapping[str, str]
    shown: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    skills: Mapping[str, str] | None = None
    new: frozenset[str] = frozenset()


def over_specific(facts: PatchFacts) -> Reason | None:
    """A skill contains a constant (file name, identifier, long number) from the instruction of a task that the author
    saw, and of no other task in the family.

    Cannot see: constants that occur only in a trajectory; narrow procedures without a constant; tasks without a
    recorded instruction.
    """
    seen = _collect_constants("\n".join(facts.shown)) - _collect_constants("\n".join(facts.others)) - _COMMON
    for path, text in facts.added.items():
        for line in text.splitlines():
            if found := sorted(_collect_constants(line) & seen):
                return Reason(
                    f"{path} contains {', '.join(found[:4])} from one task that the author saw, and from no other of its family.",
                    "author",
                    FindingPlace(None, cut_quote(line)),
                )
    return None


def skill_inflation(facts: PatchFacts) -> Reason | None:
    """A skill whose name and description share at least 60 % of their words with another one of the same library.

    Cannot see: skills with the same content and other names; two different skills with similar names.
    """
    skills = facts.skills or {}
    words = {slug: frozenset(_WORD.findall(text.lower())) - _STOP for slug, text in skills.items()}
    for slug in sorted(facts.new & set(words)):
        for other in sorted(words):
            if other == slug or (other in facts.new and other > slug):
                continue
            both, either = words[slug] & words[other], words[slug] | words[other]
            if len(both) >= 3 and len(both) / len(either) >= SIMILAR:
                return Reason(
                    f"{slug} and {other} share {len(both)} of {len(either)} words of their names and descriptions.",
                    "author",
                    FindingPlace(None, cut_quote(skills[slug])),
                )
    return None


def clutter(facts: PatchFacts) -> Reason | None:
    """A SKILL.md of more than 500 lines.

    Cannot see: a short text that says little; a long one whose every line is needed.
    """
    for path, text in facts.added.items():
        if path.endswith("SKILL.md") and (lines := text.count("\n")) > LONG_LINES:
            return Reason(f"{path} has {lines} lines.", "author")
    return None


def _collect_constants(text: str) -> set[str]:
    return {match.group() for match in _CONSTANT.finditer(text)}

"""How often the scripted model makes which error. Every rate is invented (docs/explanation/scripted-model.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScriptedProfile:
    """Probabilities. As agent: per attempt or per lesson. As author: per answer or per lesson."""

    skips_skills: float  # lists the library and opens nothing
    opens_wrong_first: float  # another skill before the fitting one
    opens_second: float  # the other family's skill, if a task needs two
    follows_references: float  # reads the files a skill cites
    misapplies: float  # has read a lesson and still does not act on it
    learns_from_trace: float  # takes a lesson out of an earlier trial's record
    stumbles: float  # finds a gap by looking at the data first
    checks_by_hand: float  # looks closer at its result unasked
    checks_when_asked: float  # the same if a text it read asks for it
    checks_after_failures: float  # the same if an earlier trial it was shown had failed
    sees_gap: float  # of a closer look
    sees_trap: float
    slips: float  # forgets part of what was asked for; half as often with a skill of the family at hand
    drafts_badly: float  # a first program that crashes
    blunders: float  # as author: one of the five bad answers
    overlooks: float  # as author: leaves out a lesson that the evidence shows
    leaks: float  # as teacher: copies the reference skills instead of advising
    shortcuts: float = 0.0  # as author: asks for tidying up in a first skill, without evidence
    tidies: float = 0.0  # as agent: does so if a skill asks for it
    prunes: float = 0.0  # as author: removes lines that the evidence contradicts


PROFILES = {
    "apprentice": ScriptedProfile(
        skips_skills=0.15,
        opens_wrong_first=0.10,
        opens_second=0.55,
        follows_references=0.80,
        misapplies=0.12,
        learns_from_trace=0.55,
        stumbles=0.10,
        checks_by_hand=0.30,
        checks_when_asked=0.85,
        checks_after_failures=0.60,
        sees_gap=0.30,
        sees_trap=0.55,
        slips=0.08,
        drafts_badly=0.25,
        blunders=1 / 6,
        overlooks=0.15,
        leaks=0.25,
    ),
    "careful": ScriptedProfile(
        skips_skills=0.04,
        opens_wrong_first=0.05,
        opens_second=0.80,
        follows_references=0.95,
        misapplies=0.05,
        learns_from_trace=0.75,
        stumbles=0.20,
        checks_by_hand=0.50,
        checks_when_asked=0.95,
        checks_after_failures=0.80,
        sees_gap=0.45,
        sees_trap=0.70,
        slips=0.03,
        drafts_badly=0.12,
        blunders=1 / 20,
        overlooks=0.05,
        leaks=0.05,
    ),
    "journeyman": ScriptedProfile(
        skips_skills=0.05,
        opens_wrong_first=0.05,
        opens_second=0.70,
        follows_references=0.90,
        misapplies=0.06,
        learns_from_trace=0.65,
        stumbles=0.25,
        checks_by_hand=0.70,
        checks_when_asked=0.90,
        checks_after_failures=0.80,
        sees_gap=0.60,
        sees_trap=0.65,
        slips=0.03,
        drafts_badly=0.15,
        blunders=1 / 6,
        overlooks=0.10,
        leaks=0.10,
        shortcuts=0.75,
        tidies=0.90,
        prunes=1.0,
    ),
}


@dataclass(frozen=True, slots=True)
class Dice:
    """Throws that depend on the seed and their purpose, never on earlier throws."""

    seed: int

    def share(self, purpose: str) -> float:
        digest = hashlib.sha256(f"{self.seed}:{purpose}".encode()).digest()
        return int.from_bytes(digest[:7], "big") / (1 << 56)

    def chance(self, purpose: str, probability: float) -> bool:
        return self.share(purpose) < probability

    def pick(self, purpose: str, options: Sequence[T]) -> T:
        return options[int(self.share(purpose) * len(options))]

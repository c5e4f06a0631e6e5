"""How two trials of one task ended beside each other: their checks and their skills, name by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inspector.pages.trials.trial import SkillUsage
from inspector.pages.trials.verdict import GROUP_WORDS, VerdictView
from inspector.web.text.visible import visible
from runner.base.types import CheckGroup


@dataclass(frozen=True, slots=True)
class CheckPair:
    """One check on both sides; None where that side's verdict does not name it."""

    name: str
    group: str
    left: str | None
    right: str | None

    @property
    def differs(self) -> bool:
        """Both sides name it, and it ended differently."""
        return None not in (self.left, self.right) and self.left != self.right

    @property
    def is_one_sided(self) -> bool:
        return None in (self.left, self.right)


@dataclass(frozen=True, slots=True)
class SkillPair:
    slug: str
    left: SkillUsage | None
    right: SkillUsage | None


def pair_checks(left: VerdictView | None, right: VerdictView | None) -> list[CheckPair]:
    """Those that ended differently first, then those that one side names; else in the verifier's order. A name used twice
    is held apart."""
    mine, theirs = _statuses(left), _statuses(right)
    pairs = [
        CheckPair(visible(key[1]), GROUP_WORDS[CheckGroup(key[0])], mine.get(key), theirs.get(key))
        for key in dict.fromkeys([*mine, *theirs])
    ]
    return sorted(pairs, key=lambda pair: (not pair.differs, not pair.is_one_sided))


def _statuses(view: VerdictView | None) -> dict[tuple[str, str, int], str]:
    found: dict[tuple[str, str, int], str] = {}
    for check in view.verdict.checks.all() if view else ():
        again = 0
        while (check.group, check.name, again) in found:
            again += 1
        found[check.group, check.name, again] = check.status
    return found


def pair_skills(left: Sequence[SkillUsage], right: Sequence[SkillUsage]) -> list[SkillPair]:
    """Those that were used on either side first."""
    mine, theirs = ({fact.slug: fact for fact in facts} for facts in (left, right))
    pairs = [SkillPair(slug, mine.get(slug), theirs.get(slug)) for slug in dict.fromkeys([*mine, *theirs])]
    return sorted(pairs, key=lambda pair: not any(fact and fact.kinds for fact in (pair.left, pair.right)))

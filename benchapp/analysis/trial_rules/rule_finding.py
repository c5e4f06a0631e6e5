"""A rule, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchapp.analysis.failures.failure_patterns import cut_quote


@dataclass(frozen=True, slots=True)
class FindingPlace:
    """Where something was seen: the step's number (None: in the verdict, not in a step) and the words themselves."""

    step: int | None
    quote: str


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """What one rule proposes for one item. `codes`: names it may go by, the first one ours.

    attribution: a value of Attribution, or "" if the facts do not show who failed.
    """

    rule: str
    codes: tuple[str, ...]
    reason: str
    attribution: str = ""
    step: int | None = None
    quote: str = ""


@dataclass(frozen=True, slots=True)
class TrialRule:
    """`judge` is a pure function of facts: why the rule matches and where, or None. Its docstring documents it."""

    key: str
    codes: tuple[str, ...]
    judge: Callable[..., Reason | None]

    @property
    def documentation(self) -> str:
        return " ".join((self.judge.__doc__ or "").split())

    @property
    def sees(self) -> str:
        """Return when it matches."""
        return self.documentation.partition(BLIND)[0].strip()

    @property
    def cannot_see(self) -> str:
        return self.documentation.partition(BLIND)[2].strip()

    def apply(self, facts: object) -> TrialFinding | None:
        reason = self.judge(facts)
        if reason is None:
            return None
        place = reason.place or FindingPlace(None, "")
        return TrialFinding(self.key, self.codes, reason.text, reason.attribution, place.step, cut_quote(place.quote))


BLIND = "Cannot see:"  # begins the blind spot in a rule's docstring


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a rule matches, who failed if the facts show it, and where to look."""

    text: str
    attribution: str = ""
    place: FindingPlace | None = None

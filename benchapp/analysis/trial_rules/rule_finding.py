"""A rule, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchapp.analysis.failures.failure_patterns import cut_quote

BLIND = "Cannot see:"  # begins the blind spot in a rule's docstring
Place = tuple[int | None, str]  # the step's number (None: in the verdict, not in a step) and the words seen there


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """Why a rule matches and where. attribution: a value of Attribution, or "" if the facts do not show who failed."""

    reason: str
    attribution: str = ""
    place: Place = (None, "")

    @property
    def quote(self) -> str:
        return cut_quote(self.place[1])


@dataclass(frozen=True, slots=True)
class TrialRule:
    """`judge` is a pure function of facts. Its docstring documents it. `codes`: names that a finding may go by, the
    first one ours."""

    key: str
    codes: tuple[str, ...]
    judge: Callable[..., TrialFinding | None]

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

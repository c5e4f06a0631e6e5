"""What stands in for the models that people work with: every page that shows such numbers says so."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from runner.models import is_small


class StandIn(StrEnum):
    """In the order in which pages name them."""

    SCRIPTED = "scripted"
    SMALL = "small"
    NO = "no"

    @property
    def says(self) -> str:
        """What a reader of the numbers must know."""
        return _SAYS[self]


_SAYS = {
    StandIn.SCRIPTED: "A scripted or recorded model took part: these numbers say nothing about any LLM.",
    StandIn.SMALL: "A very small model took part: these numbers say nothing about models that people work with.",
    StandIn.NO: "No model took part: the tasks' own solutions ran, or nothing at all.",
}


class MayStandIn(Protocol):
    """A run, a call, or what is made of several."""

    @property
    def stand_ins(self) -> frozenset[StandIn]: ...


def find_stand_ins(scripted: bool, *models: str) -> frozenset[StandIn]:
    """`scripted`: as recorded. A small model is known by its name."""
    small = {StandIn.SMALL} if any(map(is_small, models)) else set()
    return frozenset({StandIn.SCRIPTED} | small if scripted else small)


def join_stand_ins(parts: Iterable[MayStandIn]) -> frozenset[StandIn]:
    """Of the whole: whatever took part anywhere in it."""
    return frozenset[StandIn]().union(*(part.stand_ins for part in parts))

"""Substitutes for the models that people work with. Every page with such numbers names them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from runner.models import is_small


class StandIn(StrEnum):
    """In the order that pages name them."""

    SCRIPTED = "scripted"
    SMALL = "small"
    NO = "no"

    @property
    def sentence(self) -> str:
        """What a reader of the numbers must know."""
        return _SAYS[self]


_SAYS = {
    StandIn.SCRIPTED: "A scripted or recorded model took part: these numbers say nothing about any LLM.",
    StandIn.SMALL: "A very small model took part: these numbers say nothing about models that people work with.",
    StandIn.NO: "No model took part: the tasks' own solutions ran, or nothing at all.",
}


class MayStandIn(Protocol):
    """A run, a call, or something made of several."""

    @property
    def stand_ins(self) -> frozenset[StandIn]: ...


def find_stand_ins(scripted: bool, *models: str) -> frozenset[StandIn]:
    """Return the `StandIn`s of a run. `scripted` is as recorded; a small model is recognised by its name."""
    small = {StandIn.SMALL} if any(map(is_small, models)) else set()
    return frozenset({StandIn.SCRIPTED} | small if scripted else small)


def join_stand_ins(parts: Iterable[MayStandIn]) -> frozenset[StandIn]:
    """Return every `StandIn` that took part anywhere."""
    return frozenset[StandIn]().union(*(part.stand_ins for part in parts))

"""When an author is asked again, and when an occasion is over. The same for every protocol in which one works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.history import State
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import Ask
from runner.types import DecisionStatus

SETTLED = (DecisionStatus.APPLIED, DecisionStatus.NO_OP)  # these end an occasion; the others may be asked again


def asks(plan: EpisodePlan, state: State, first: Ask) -> Iterator[Ask]:
    """The next answer to the occasion of `first`, while it is unsettled and answers are left."""
    given = state.answers.get((first.family, first.after_trial), ())
    if len(given) < plan.answers and not any(decided.status in SETTLED for decided in given):
        yield replace(first, answer=len(given) + 1)

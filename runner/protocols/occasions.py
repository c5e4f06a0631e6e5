"""When an author is asked again, and when an occasion is over. The same for every protocol in which one works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.base.types import AuthorMode, DecisionStatus
from runner.protocols.history import EpisodeState
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import Ask

SETTLED = (DecisionStatus.APPLIED, DecisionStatus.NO_OP)  # these end an occasion; the others may be asked again


def asks(plan: EpisodePlan, state: EpisodeState, first: Ask) -> Iterator[Ask]:
    """The next answer to the occasion of `first`, while it is unsettled and answers are left."""
    given = state.answers.get((first.family, first.after_trial), ())
    if len(given) < plan.answers and not any(decided.status in SETTLED for decided in given):
        yield replace(first, answer=len(given) + 1)


def drafts(plan: EpisodePlan, state: EpisodeState, first: Ask) -> Iterator[Ask]:
    """The next round on an author's own draft: until the condition's rounds are used up, or one of them changes nothing.

    The occasion stays that of `first`, whose answers are numbered on. A round whose answer is rejected or cannot be read is
    a round all the same; the next one begins from the draft that stands.
    """
    given = state.answers.get((first.family, first.after_trial), ())
    refined = [decided for decided in given if decided.mode is AuthorMode.REFINE]
    settled = any(decided.status in SETTLED for decided in given)
    content = bool(refined) and refined[-1].status is DecisionStatus.NO_OP
    if settled and not content and len(refined) < plan.condition.rounds - 1:
        yield replace(first, mode=AuthorMode.REFINE, answer=len(given) + 1)

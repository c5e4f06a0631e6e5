"""Protocols of which an episode is one family, under the family's own key and name."""

from __future__ import annotations

from dataclasses import replace

from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Environment, Family
from runner.protocols.plan import EpisodePlan


def units(suite: Suite) -> tuple[Environment, ...]:
    """Each family by itself, in the suite's order.

    None of these protocols knows of a corpus: over a suite that has them its material stays unread and the practice tasks
    are left out, since every task of a family counts here.
    """
    return tuple(
        replace(environment, key=family.key, name=family.name, corpus=None, families=(_that_count(family),))
        for environment in suite.environments
        for family in environment.families
    )


def _that_count(family: Family) -> Family:
    return replace(family, tasks=tuple(task for task in family.tasks if not task.practice))


def require_one_family(plan: EpisodePlan, what: str) -> None:
    """`what`: what the protocol calls it. There is no replay in any of these protocols."""
    families = plan.environment.families
    if len(families) != 1:
        raise SetupError(f"{plan.protocol} runs one {what} at a time, not {len(families)} ({plan.environment.key})")
    if plan.placebo_replay:
        raise SetupError(f"{plan.protocol} has no replay")

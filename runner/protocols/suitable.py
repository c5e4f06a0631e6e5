"""The protocol that fits a suite, and the conditions to begin with: defaults for a form."""

from __future__ import annotations

from collections.abc import Iterable

from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import AuthorMode
from runner.protocols.conditions import Start, conditions_of, find_condition

LEARNER = "selfgen-always"  # the learning condition to begin with, if the protocol has it


def find_fitting_protocol(suite: Suite, format: str = "") -> str:
    """Choose by what the tasks have: a corpus to write from, roles, reference skills of their own, or none of these.
    `format`: of the folder, which distinguishes instances of one task from tasks in an order."""
    if any(environment.corpus for environment in suite.environments):
        return "skillgenbench"
    if suite.tasks and all(task.role for task in suite.tasks):
        return "skillevolbench"
    have_own = all(family.curated and len(family.tasks) == 1 for family in suite.families)
    return "skilllearnbench" if format == "skilllearnbench" or have_own else "skillflow"


def keep_known_conditions(names: Iterable[str], protocol: str) -> tuple[list[str], list[str]]:
    """Split into names that the protocol has, and the others."""
    known: list[str] = []
    unknown: list[str] = []
    for name in names:
        try:
            find_condition(name, protocol)
        except SetupError:
            unknown.append(name)
        else:
            known.append(name)
    return known, unknown


def first_conditions(protocol: str) -> list[str]:
    """The baseline and one condition that learns from its own trials. Neither needs a human's skill or a program."""
    conditions = conditions_of(protocol)
    outside = (Start.CURATED, Start.ZERO_SHOT)
    learners = [
        name
        for name, each in conditions.items()
        if each.has_author and each.start not in outside and each.mode_at_start is not AuthorMode.OUTSIDE
    ]
    learner = LEARNER if LEARNER in learners else learners[0]
    return ["no-skill", learner]

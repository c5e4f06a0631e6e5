"""SkillLearnBench: the next step in one task, given its history.

Source: SkillLearnBench section 3.3 (the methods), section 4 (K = 2 and K = 3), appendices A (several seeds) and M. One
task is one episode. Its first instance is the seed: skills are learned on it alone, or under one-shot from the texts of
the first few. Then the library is sealed, and the same solver works on every instance, seeds included, once per sample.
`docs/reference/protocols.md` names every choice the paper leaves open.

A library of K rounds is written K times, with a trial of the seed between two writings. A trial after the last writing
would teach nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.authoring.paper_prompts import LEARNING_PROMPT_VERSION
from runner.authoring.teaching import TEACHING_PROMPT_VERSION
from runner.base.errors import SetupError
from runner.base.types import AuthorMode, Family, Phase, Task, TrialSlot
from runner.prompts.roles import AUTHOR, STUDENT, TEACHER, Asked
from runner.protocols.conditions import Condition, Replay, Start, conditions_by_name
from runner.protocols.history import EpisodeState
from runner.protocols.plan import Ask, EpisodePlan, Freeze, NextStep, RunTrial
from runner.protocols.stages import (
    evaluation_slots,
    list_counted_tasks,
    next_answer,
    next_draft,
    open_evaluation,
    require_one_family,
    seed_curated,
    units,
)

__all__ = ["CONDITIONS", "PROMPT_VERSION", "check", "list_asked", "list_seeds", "open_steps", "slots", "units"]

PROMPT_VERSION = f"{LEARNING_PROMPT_VERSION}, {TEACHING_PROMPT_VERSION}"

CONDITIONS = conditions_by_name(
    Condition("no-skill", Start.NO_LIBRARY, replay=Replay.NEVER),
    Condition("human-authored", Start.CURATED, replay=Replay.NEVER),
    Condition("one-shot", Start.LEARNED, replay=Replay.NEVER, mode_at_start=AuthorMode.WRITE, parameter="seeds"),
    Condition(
        "self-feedback",
        Start.LEARNED,
        replay=Replay.NEVER,
        mode_at_start=AuthorMode.WRITE,
        rounds=2,
        feedback="none",
        parameter="rounds",
    ),
    Condition(
        "teacher-feedback",
        Start.LEARNED,
        replay=Replay.NEVER,
        mode_at_start=AuthorMode.WRITE,
        rounds=3,
        feedback="binary",
        parameter="rounds",
    ),
    Condition("skill-creator", Start.LEARNED, replay=Replay.NEVER, mode_at_start=AuthorMode.CRAFT, rounds=2),
)


def check(plan: EpisodePlan) -> None:
    """Check for one family with as many instances as the author is shown, and human skills if the agent or a teacher
    needs them."""
    require_one_family(plan, "task")
    (family,) = plan.environment.families
    if len(list_counted_tasks(family)) < plan.condition.seeds:
        raise SetupError(
            f"{plan.condition.name} learns from {plan.condition.seeds} instances; {family.key} has"
            f" {len(list_counted_tasks(family))} (expected a lower number, or environments without this one)"
        )
    needs_human = plan.condition.start is Start.CURATED or is_taught(plan.condition)
    if needs_human and not family.curated:
        raise SetupError(f"{plan.condition.name} needs human-authored skills; {family.key} has none")


def list_asked(condition: Condition) -> tuple[Asked, ...]:
    """The first writing, and the prompts of later rounds."""
    if condition.mode_at_start is None:
        return ()
    first = Asked(AUTHOR, condition.mode_at_start.value)
    if condition.rounds == 1:
        return (first,)
    if is_taught(condition):
        return (first, Asked(STUDENT, "questions"), Asked(TEACHER, "advice"), Asked(AUTHOR, AuthorMode.CORRECT.value))
    later = AuthorMode.REFINE if condition.mode_at_start is AuthorMode.CRAFT else AuthorMode.REFLECT
    return (first, Asked(AUTHOR, later.value))


def is_taught(condition: Condition) -> bool:
    """Does a teacher answer between two rounds?"""
    return condition.start is Start.LEARNED and condition.rounds > 1 and condition.feedback == "binary"


def slots(plan: EpisodePlan) -> tuple[TrialSlot, ...]:
    """Every trial that the plan may run. A teacher's rounds end with the first pass, so some may stay untried."""
    (family,) = plan.environment.families
    seed = list_seeds(plan, family)[0].key
    learning = [TrialSlot(Phase.ACQUISITION, seed, n) for n in range(_count_attempts(plan.condition))]
    return (*learning, *evaluation_slots(plan, family))


def list_seeds(plan: EpisodePlan, family: Family) -> list[Task]:
    """The instances that the author is shown, at least one. The first is the one that is tried while learning."""
    return list_counted_tasks(family)[: plan.condition.seeds]


def _count_attempts(condition: Condition) -> int:
    """Count trials of the seed, one between two writings. A program checks a skill-creator's drafts instead."""
    tried = condition.start is Start.LEARNED and condition.mode_at_start is AuthorMode.WRITE
    return condition.rounds - 1 if tried else 0


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order. Only the first is certain: later ones depend on its result."""
    (family,) = plan.environment.families
    if state.frozen is None:
        yield from _learn(plan, state, family)
        yield Freeze()
    yield from open_evaluation(plan, state, family)


def _learn(plan: EpisodePlan, state: EpisodeState, family: Family) -> Iterator[NextStep]:
    condition = plan.condition
    yield from seed_curated(plan, state, family)
    if condition.mode_at_start is None:
        return
    seed, *further = list_seeds(plan, family)
    shown = tuple(task.key for task in further)
    first = Ask(condition.mode_at_start, family.key, None, 1, task=seed.key, further=shown)
    yield from next_answer(plan, state, first)
    if condition.mode_at_start is AuthorMode.CRAFT and plan.author_agent is None:  # an agent checks by itself
        yield from next_draft(plan, state, first)
    for attempt in range(_count_attempts(condition)):
        slot = TrialSlot(Phase.ACQUISITION, seed.key, attempt)
        if not state.is_closed(slot):
            yield RunTrial(slot, family.key, seed.role, state.snapshot, library=True)
        done = state.trials.get(slot)
        if done is None or (is_taught(condition) and done.success is not False):
            return  # a teacher only answers a failure, not a pass, a skipped trial or a missing verdict
        mode = AuthorMode.CORRECT if is_taught(condition) else AuthorMode.REFLECT
        yield from next_answer(plan, state, Ask(mode, family.key, slot, 1, evidence=(slot,), task=seed.key))

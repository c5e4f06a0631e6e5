"""SkillGenBench, task-conditioned: the next step for one task, given its history.

Source: SkillGenBench section 3.2 (settings), section 3.4 (what a generator may see), appendix B (3 rounds, 16,384
tokens), appendix C (families of generators). The generator sees the corpus and the task and writes. Its library is
sealed and tried on that task, three times for pass@3 (`samples`). One task is one episode; the other tasks of a corpus
are held out. No step here can name tests, verifiers, reference outputs or held-out tasks.

`skillgenbench_agnostic` is the other setting, with the same generators as conditions and the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.authoring.paper_prompts import GENERATION_PROMPT_VERSION
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import AuthorMode, Environment, Family, Phase, Task, TrialSlot
from runner.prompts.roles import GENERATOR, Asked
from runner.protocols.conditions import Condition, Replay, Start, conditions_by_name
from runner.protocols.history import EpisodeState
from runner.protocols.plan import AUTHOR_LIMITS as ANY_AUTHOR_LIMITS
from runner.protocols.plan import Ask, EpisodePlan, Freeze, NextStep, RunTrial
from runner.protocols.stages import (
    list_counted_tasks,
    next_answer,
    next_draft,
    open_evaluation,
    require_one_family,
    seed_curated,
)

PROMPT_VERSION = GENERATION_PROMPT_VERSION
GENERATION_TOKENS = 16_384
AUTHOR_LIMITS = replace(ANY_AUTHOR_LIMITS, max_turns=45)  # appendix B


def _generator(name: str, mode: AuthorMode, rounds: int = 1, *, tries_first: bool = False) -> Condition:
    return Condition(
        name,
        Start.LEARNED,
        replay=Replay.NEVER,
        mode_at_start=mode,
        tries_first=tries_first,
        rounds=rounds,
        generation_tokens=GENERATION_TOKENS,
        feedback="none",  # a verdict would reveal the tests
        parameter="generation_tokens",
    )


CONDITIONS = conditions_by_name(
    Condition("no-skill", Start.NO_LIBRARY, replay=Replay.NEVER, feedback="none"),
    Condition("reference-skill", Start.CURATED, replay=Replay.NEVER, feedback="none"),
    _generator("naive-prompt", AuthorMode.DISTILL),
    _generator("iterative", AuthorMode.DISTILL, rounds=3),
    _generator("from-trajectories", AuthorMode.CONSOLIDATE, tries_first=True),
    _generator("plug-in", AuthorMode.OUTSIDE),
    _generator("plug-in-trajectories", AuthorMode.OUTSIDE, tries_first=True),
)


def units(suite: Suite) -> tuple[Environment, ...]:
    """An episode is a task that counts, with the corpus it belongs to."""
    return tuple(
        replace(environment, key=task.key, name=task.title, families=(replace(family, tasks=(task,)),))
        for environment in suite.environments
        if environment.corpus is not None
        for family in environment.families
        for task in list_counted_tasks(family)
    )


def check(plan: EpisodePlan) -> None:
    """Check for one corpus and family, a requested reference skill, and a program as author exactly for plug-in."""
    require_one_family(plan, "corpus")
    environment, condition, author = plan.environment, plan.condition, plan.author_model
    if environment.corpus is None:
        raise SetupError(f"{plan.protocol} generates skills from a corpus; {environment.key} has none")
    if condition.start is Start.CURATED and not environment.families[0].curated:
        raise SetupError(f"{condition.name} needs a reference skill; {environment.families[0].key} has none")
    if condition.suits(author):
        return
    if condition.mode_at_start is AuthorMode.OUTSIDE:
        raise SetupError(
            f"{condition.name} runs an outside program: expected an author model generator/<name>, not {author}"
        )
    raise SetupError(f"{author} is an outside program: expected the condition plug-in, not {condition.name}")


def list_asked(condition: Condition) -> tuple[Asked, ...]:
    """A draft and, in later rounds, its refinement. An outside program gets files instead of prompts."""
    if condition.mode_at_start in (None, AuthorMode.OUTSIDE):
        return ()
    modes = [condition.mode_at_start, AuthorMode.REFINE][: condition.rounds]
    return tuple(Asked(GENERATOR, mode.value) for mode in modes if mode is not None)


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order. Only the first is certain: later ones depend on its result."""
    (family,) = plan.environment.families
    tasks = list_counted_tasks(family)
    return iterate_steps(plan, state, task=tasks[0].key, tried=tasks)


# --- both settings ----------------------------------------------------------------------------------------------


def iterate_steps(plan: EpisodePlan, state: EpisodeState, *, task: str, tried: list[Task]) -> Iterator[NextStep]:
    """The open steps. `task`: the one that the generator sees, "" for none. `tried`: tasks run without skills
    before a generator that learns from trajectories."""
    (family,) = plan.environment.families
    if state.frozen is None:
        yield from seed_curated(plan, state, family)
        yield from _generate(plan, state, family, task, tried)
        yield Freeze()
    yield from open_evaluation(plan, state, family)


def _generate(
    plan: EpisodePlan, state: EpisodeState, family: Family, task: str, tried: list[Task]
) -> Iterator[NextStep]:
    if plan.condition.mode_at_start is None:
        return
    evidence = []
    for each in tried if plan.condition.tries_first else ():
        slot = TrialSlot(Phase.ACQUISITION, each.key)
        if not state.is_closed(slot):
            yield RunTrial(slot, family.key, each.role, EMPTY_LIBRARY)
        if slot in state.trials:
            evidence.append(slot)
    first = Ask(plan.condition.mode_at_start, family.key, None, 1, evidence=tuple(evidence), task=task)
    yield from next_answer(plan, state, first)
    yield from next_draft(plan, state, first)

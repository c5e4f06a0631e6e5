"""What both settings of SkillGenBench share: the generators as conditions, and how a library comes to be before its seal.

Source: SkillGenBench section 3.2 (settings), section 3.4 (what a generator may see), appendix B (3 rounds, 16,384 tokens), appendix C
(families of generators). Tests, verifiers, reference outputs and held-out tasks are nothing that a step here could name.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.types import AuthorMode, Family, Phase, Task, TrialSlot
from runner.protocols.conditions import Condition, Replay, Start
from runner.protocols.history import EpisodeState
from runner.protocols.occasions import asks, drafts
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import Ask, Freeze, NextStep, RunTrial, SeedSkill

GENERATION_TOKENS = 16_384


def _generator(name: str, mode: AuthorMode, rounds: int = 1) -> Condition:
    return Condition(
        name,
        Start.LEARNED,
        replay=Replay.NEVER,
        mode_at_start=mode,
        rounds=rounds,
        generation_tokens=GENERATION_TOKENS,
        feedback="none",  # a verdict would tell of the tests
        parameter="generation_tokens",
    )


_ALL = (
    Condition("no-skill", Start.NO_LIBRARY, replay=Replay.NEVER, feedback="none"),
    Condition("reference-skill", Start.CURATED, replay=Replay.NEVER, feedback="none"),
    _generator("naive-prompt", AuthorMode.DISTILL),
    _generator("iterative", AuthorMode.DISTILL, rounds=3),
    _generator("from-trajectories", AuthorMode.CONSOLIDATE),
    _generator("plug-in", AuthorMode.OUTSIDE),
)
CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _ALL}


def check_generator(plan: EpisodePlan) -> None:
    """One corpus and one family; the reference skill where it is asked for; a program as author for plug-in, and only there."""
    environment, condition = plan.environment, plan.condition
    if len(environment.families) != 1:
        raise SetupError(f"{plan.protocol} runs one corpus at a time, not {len(environment.families)}")
    if environment.corpus is None:
        raise SetupError(f"{plan.protocol} generates skills from a corpus; {environment.key} has none")
    if plan.placebo_replay:
        raise SetupError(f"{plan.protocol} has no replay")
    if condition.start is Start.CURATED and not environment.families[0].curated:
        raise SetupError(f"{condition.name} needs a reference skill; {environment.families[0].key} has none")
    _check_author(plan)


def _check_author(plan: EpisodePlan) -> None:
    condition, author = plan.condition, plan.author_model
    if condition.suits(author):
        return
    if condition.mode_at_start is AuthorMode.OUTSIDE:
        raise SetupError(
            f"{condition.name} runs an outside program: expected an author model generator/<name>, not {author}"
        )
    raise SetupError(f"{author} is an outside program: expected the condition plug-in, not {condition.name}")


def generating(
    plan: EpisodePlan, state: EpisodeState, family: Family, *, task: str, tried: list[Task]
) -> Iterator[NextStep]:
    """Everything up to the seal. `task`: the one that is revealed, "" where none is. `tried`: worked on without skills
    before a generator that learns from trajectories."""
    condition = plan.condition
    if condition.start is Start.CURATED and family.key not in state.equipped:
        yield SeedSkill(family.key)
    if condition.mode_at_start is not None:
        evidence = []
        for slot in trajectory_slots(plan, tried):
            if not state.is_closed(slot):
                yield RunTrial(slot, family.key, plan.task(slot.task).role, EMPTY_LIBRARY)
            if slot in state.trials:
                evidence.append(slot)
        first = Ask(condition.mode_at_start, family.key, None, 1, evidence=tuple(evidence), task=task)
        yield from asks(plan, state, first)
        yield from drafts(plan, state, first)
    yield Freeze()


def trajectory_slots(plan: EpisodePlan, tried: list[Task]) -> tuple[TrialSlot, ...]:
    learns = plan.condition.mode_at_start is AuthorMode.CONSOLIDATE
    return tuple(TrialSlot(Phase.ACQUISITION, task.key) for task in tried) if learns else ()

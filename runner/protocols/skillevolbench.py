"""SkillEvolBench: the next step in one environment, given its history.

Source: paper section 4 and appendix C. One environment is one episode with one library: acquisition family by
family (canonical, enriched, variant) with the author working between trials, freeze, deployment family by family
(context-shift, adversarial, composition), replay of acquisition.
`docs/reference/protocols.md` names every choice the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.authoring.author_prompts import PROMPT_VERSION
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import (
    ACQUISITION_ROLES,
    DEPLOYMENT_ROLES,
    AuthorMode,
    Environment,
    Family,
    Phase,
    Role,
    Task,
    TrialSlot,
)
from runner.prompts.roles import AUTHOR, Asked
from runner.protocols.conditions import CONDITIONS, Condition, Replay, Start, Trigger
from runner.protocols.history import EpisodeState
from runner.protocols.instruction import Notice
from runner.protocols.plan import Ask, EpisodePlan, Freeze, NextStep, RunTrial
from runner.protocols.stages import fires_after, next_answer, seed_curated

__all__ = ["CONDITIONS", "NOTICE", "PROMPT_VERSION", "check", "list_asked", "open_steps", "units"]

NOTICE: Notice = "released"  # the released code's; the paper prints none


def units(suite: Suite) -> tuple[Environment, ...]:
    """An episode is an environment with all its families."""
    return suite.environments


def check(plan: EpisodePlan) -> None:
    """Trials follow from roles, so every task needs one; a curated start needs a curated skill in every family."""
    nameless = [task.key for task in plan.environment.tasks if task.role is None]
    if nameless:
        raise SetupError(
            f"the protocol skillevolbench needs a role for every task; these have none: {', '.join(nameless[:5])}"
        )
    if plan.condition.start is Start.CURATED:
        without = [family.key for family in plan.environment.families if not family.curated]
        if without:
            raise SetupError(
                f"{plan.condition.name} needs a curated skill in every family; none in {', '.join(without)}"
            )


def list_asked(condition: Condition) -> tuple[Asked, ...]:
    """The first skill, if there is one before a trial, then the prompts after trials of each role."""
    roles = [role for role in ACQUISITION_ROLES if condition.trigger(role) is not Trigger.NEVER]
    modes = [AuthorMode.ZERO_SHOT] * (condition.start is Start.ZERO_SHOT) + [condition.mode(role) for role in roles]
    forced = {AuthorMode.REVISE: "-tier3"} if condition.tier3_required else {}
    return tuple(Asked(AUTHOR, f"{mode}{forced.get(mode, '')}") for mode in dict.fromkeys(modes))


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order. Only the first is certain: later ones depend on its result."""
    for family in plan.environment.families:
        yield from _acquisition(plan, state, family)
    if state.frozen is None:
        yield Freeze()
    for family in plan.environment.families:
        yield from _frozen_trials(plan, state, family, Phase.DEPLOYMENT, DEPLOYMENT_ROLES)
    if plan.condition.replay is Replay.YES or plan.placebo_replay:
        for family in plan.environment.families:
            yield from _frozen_trials(plan, state, family, Phase.REPLAY, ACQUISITION_ROLES)


def _acquisition(plan: EpisodePlan, state: EpisodeState, family: Family) -> Iterator[NextStep]:
    yield from _start(plan, state, family)
    for role, task in _tasks(family, ACQUISITION_ROLES):
        slot = TrialSlot(Phase.ACQUISITION, task.key)
        if not state.is_closed(slot):
            yield _trial(plan, state, family, role, slot)
        yield from _ask_after(plan, state, family, role, slot)


def _start(plan: EpisodePlan, state: EpisodeState, family: Family) -> Iterator[NextStep]:
    """The family's starting skill, introduced when its canonical task is reached (section 4.3)."""
    yield from seed_curated(plan, state, family)
    if plan.condition.start is Start.ZERO_SHOT:
        yield from next_answer(plan, state, Ask(AuthorMode.ZERO_SHOT, family.key, None, answer=1))


def _ask_after(plan: EpisodePlan, state: EpisodeState, family: Family, role: Role, slot: TrialSlot) -> Iterator[Ask]:
    """Ask the author after an eligible trial: one with a verdict that meets the condition's trigger."""
    if not fires_after(plan.condition.trigger(role), state, slot):
        return
    mode = plan.condition.mode(role)
    if mode is AuthorMode.REVISE and family.key not in state.equipped:
        return  # the induction left no skill, so there is nothing to revise
    tier3 = plan.condition.tier3_required and mode is AuthorMode.REVISE
    yield from next_answer(plan, state, Ask(mode, family.key, slot, 1, tier3, _evidence(state, family, role)))


def _evidence(state: EpisodeState, family: Family, until: Role) -> tuple[TrialSlot, ...]:
    """Equation 3: the family's acquisition trials up to this role, each a trace paired with a verdict."""
    upto = ACQUISITION_ROLES[: ACQUISITION_ROLES.index(until) + 1]
    past = (TrialSlot(Phase.ACQUISITION, task.key) for _, task in _tasks(family, upto))
    return tuple(slot for slot in past if slot in state.trials and state.trials[slot].success is not None)


def _frozen_trials(
    plan: EpisodePlan, state: EpisodeState, family: Family, phase: Phase, roles: tuple[Role, ...]
) -> Iterator[RunTrial]:
    for role, task in _tasks(family, roles):
        for sample in range(plan.samples):
            slot = TrialSlot(phase, task.key, sample)
            if not state.is_closed(slot):
                yield _trial(plan, state, family, role, slot)


def _trial(plan: EpisodePlan, state: EpisodeState, family: Family, role: Role, slot: TrialSlot) -> RunTrial:
    """Give an acquisition trial the library its family left, even if it runs after later families."""
    library = plan.condition.has_library
    present = state.left_by.get(family.key, state.snapshot) if slot.phase is Phase.ACQUISITION else state.snapshot
    snapshot = present if library else EMPTY_LIBRARY
    return RunTrial(slot, family.key, role, snapshot, _retrieve(plan, state, family, role), library)


def _retrieve(plan: EpisodePlan, state: EpisodeState, family: Family, role: Role) -> tuple[TrialSlot, ...]:
    """Appendix C.2: same family, acquisition only, chronological. A replayed task sees what its first run saw."""
    before = ACQUISITION_ROLES[: ACQUISITION_ROLES.index(role)] if role in ACQUISITION_ROLES else ACQUISITION_ROLES
    past = (TrialSlot(Phase.ACQUISITION, task.key) for _, task in _tasks(family, before))
    return tuple(slot for slot in past if slot in state.trials)[: plan.condition.retrieval_k]


def _tasks(family: Family, roles: tuple[Role, ...]) -> Iterator[tuple[Role, Task]]:
    """The family's tasks with one of these roles, in the order of the roles, then of their ordinals."""
    for role in roles:
        for task in sorted(family.tasks, key=lambda task: task.ordinal):
            if task.role is role:
                yield role, task

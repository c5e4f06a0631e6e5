"""SkillFlow: the next step in one family, given its history.

Source: SkillFlow section 2.4 (the sequential process, equations 3 and 4), appendix C.2 (the control with histories).
One family is one episode: its tasks in order of difficulty, the first without skills. The author works after every
task, also after failed ones and the last, and the library is carried on. The next family is another episode, so it
starts with nothing by construction. `docs/reference/protocols.md` names every choice the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.authoring.paper_prompts import EVOLUTION_PROMPT_VERSION
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.types import AuthorMode, CompactionKind, Family, Phase, Task, TrialSlot
from runner.prompts.roles import AUTHOR, Asked
from runner.protocols.conditions import EVERY_TRIAL, Condition, Replay, Start, Trigger, conditions_by_name
from runner.protocols.history import EpisodeState
from runner.protocols.plan import Ask, EpisodePlan, NextStep, RunTrial
from runner.protocols.stages import fires_after, next_answer, require_one_family, units

__all__ = ["CONDITIONS", "PROMPT_VERSION", "check", "list_asked", "open_steps", "slot_of", "units"]

PROMPT_VERSION = EVOLUTION_PROMPT_VERSION

CONDITIONS = conditions_by_name(
    # The paper's "vanilla"; this name is used in the other protocols and the published numbers.
    Condition("no-skill", Start.NO_LIBRARY, replay=Replay.NEVER),
    Condition("skill-evolution", Start.EMPTY, Trigger.EVERY, Trigger.EVERY, replay=Replay.NEVER),
    # The agent sees what skill-evolution's author would see: the same compactions, with as much of the verdict.
    Condition(
        "history-context",
        Start.NO_LIBRARY,
        replay=Replay.NEVER,
        retrieval_k=EVERY_TRIAL,
        retrieved_as=CompactionKind.RICH,
    ),
)


def check(plan: EpisodePlan) -> None:
    """One family, one trial per task, no replay."""
    require_one_family(plan, "family")
    if plan.samples != 1:
        raise SetupError(
            f"skillflow runs every task once, not {plan.samples} times: a second sample would meet another library. "
            "Ask for replicates instead"
        )


def list_asked(condition: Condition) -> tuple[Asked, ...]:
    """The same prompt after every trial."""
    return (Asked(AUTHOR, AuthorMode.EVOLVE.value),) if condition.has_author else ()


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order. Only the first is certain: later ones depend on its result."""
    (family,) = plan.environment.families
    tasks = sorted(family.tasks, key=lambda task: task.ordinal)
    for place, task in enumerate(tasks):
        slot = slot_of(task)
        if not state.is_closed(slot):
            yield _trial(plan, state, family, tasks[: place + 1])
        yield from _ask_after(plan, state, family, slot)


def slot_of(task: Task) -> TrialSlot:
    """The task's slot, in evaluation: its success is a result of the benchmark even if the author learns from it."""
    return TrialSlot(Phase.EVALUATION, task.key)


def _trial(plan: EpisodePlan, state: EpisodeState, family: Family, upto: list[Task]) -> RunTrial:
    """Run the last of these tasks. The first one runs as under no-skill, without a mention of a library."""
    *earlier, task = upto
    library = plan.condition.has_library and bool(earlier)
    snapshot = state.snapshot if plan.condition.has_library else EMPTY_LIBRARY
    past = [slot for slot in map(slot_of, earlier) if slot in state.trials]
    shown = tuple(past[-plan.condition.retrieval_k :]) if plan.condition.retrieval_k else ()
    return RunTrial(slot_of(task), family.key, task.role, snapshot, shown, library)


def _ask_after(plan: EpisodePlan, state: EpisodeState, family: Family, slot: TrialSlot) -> Iterator[Ask]:
    """Equations 3 and 4: the library, the latest trial, its verdict. A trial without a verdict teaches nothing."""
    if fires_after(plan.condition.later, state, slot):
        yield from next_answer(plan, state, Ask(AuthorMode.EVOLVE, family.key, slot, 1, evidence=(slot,)))

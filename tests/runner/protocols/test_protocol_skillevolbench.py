"""The protocol by itself: what comes next, for any outcome of what came before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import protocols
from runner.base.errors import RunnerError, SetupError
from runner.base.types import (
    ACQUISITION_ROLES,
    AuthorMode,
    DecisionStatus,
    Environment,
    Family,
    Phase,
    Role,
    Task,
    TrialSlot,
)
from runner.protocols.audit import answers, audit
from runner.protocols.conditions import CONDITIONS, Replay, Start, find_condition
from runner.protocols.history import fold
from runner.protocols.plan import Ask, EpisodePlan, Freeze, NextStep, RunTrial, SeedSkill
from runner.protocols.recorder import Decided, Entry, Event, Frozen, History, Seeded, Skipped, TrialDone
from tests.cases import every
from tests.runner.small_episode import small_plan

Outcome = bool | None | str  # passed, failed, no verdict, "skipped"
STATUSES = tuple(DecisionStatus)


def _bare_environment() -> Environment:
    def family(key: str) -> Family:
        tasks = tuple(
            Task(f"{key}-T{n}", "", "E1", key, role, n, "", "", Path("nowhere")) for n, role in enumerate(Role, start=1)
        )
        return Family(key, key.lower(), key, "", "E1", tasks, {f"{key.lower()}/SKILL.md": None})  # type: ignore[dict-item]

    return Environment("E1", "", (family("LS1"), family("LS2")))


BARE = _bare_environment()


def _bare_plan(condition: str, **changes: object) -> EpisodePlan:
    return small_plan(condition, BARE, **changes)


@dataclass
class World:
    """Answers every step with an event, the outcomes drawn by the caller."""

    outcome: Callable[[TrialSlot], Outcome]
    status: Callable[[Ask], DecisionStatus]

    def play(self, plan: EpisodePlan) -> tuple[History, list[NextStep]]:
        history: History = ()
        steps: list[NextStep] = []
        while (step := protocols.next_step(plan, history)) is not None:
            steps.append(step)
            history = (*history, Entry(len(history) + 1, self._event(step, history)))
            assert len(history) < 200, "the protocol does not end"
        return history, steps

    def _event(self, step: NextStep, history: History) -> Event:
        state = fold(history)
        match step:
            case SeedSkill():
                return Seeded(step.family, f"snapshot-{len(history)}")
            case Freeze():
                return Frozen(state.snapshot, state.snapshot, "", "")
            case RunTrial():
                outcome = self.outcome(step.slot)
                if isinstance(outcome, str):
                    return Skipped(step.slot, outcome)
                return TrialDone(step.slot, step.family, step.role, outcome, step.snapshot, step.retrieved)
            case Ask():
                return self._decided(step, history)

    def _decided(self, step: Ask, history: History) -> Decided:
        state, status = fold(history), self.status(step)
        applied = status is DecisionStatus.APPLIED
        snapshot = f"snapshot-{len(history)}" if applied else state.snapshot
        number, round_ = state.decisions + 1, state.rounds + applied
        return Decided(number, round_, step.family, step.mode, step.after_trial, step.answer, status, snapshot)


def _always(outcome: Outcome, status: DecisionStatus = DecisionStatus.APPLIED) -> World:
    return World(lambda slot: outcome, lambda ask: status)


def _asked_after(steps: list[NextStep]) -> list[tuple[str, str]]:
    return [
        (str(step.mode), step.after_trial.task if step.after_trial else "start")
        for step in steps
        if isinstance(step, Ask)
    ]


def test_it_runs_acquisition_by_family_then_freezes_then_deploys_then_replays() -> None:
    _, steps = _always(True, DecisionStatus.NO_OP).play(_bare_plan("selfgen-always"))
    told = [
        f"{step.slot.phase}/{step.slot.task}" if isinstance(step, RunTrial) else type(step).__name__
        for step in steps
        if not isinstance(step, Ask)
    ]
    tasks = {
        phase: [f"{family}-T{n}" for family in ("LS1", "LS2") for n in numbers]
        for phase, numbers in [("early", (1, 2, 3)), ("late", (4, 5, 6))]
    }
    assert told == [
        *(f"acquisition/{task}" for task in tasks["early"]),
        "Freeze",
        *(f"deployment/{task}" for task in tasks["late"]),
        *(f"replay/{task}" for task in tasks["early"]),
    ]


@every(
    ("no-skill", False, []),
    ("raw-trajectory", False, []),
    ("curated-static", False, []),
    ("curated-revision", True, []),
    ("curated-revision", False, [("revise", f"{f}-T{n}") for f in ("LS1", "LS2") for n in (1, 2, 3)]),
    ("curated-always", True, [("revise", f"{f}-T{n}") for f in ("LS1", "LS2") for n in (1, 2, 3)]),
    ("selfgen-zero-shot", False, [("zero-shot", "start"), ("zero-shot", "start")]),
    ("selfgen-revision", True, [("induce", "LS1-T1"), ("induce", "LS2-T1")]),
    (
        "selfgen-revision",
        False,
        [(m, f"{f}-T{n}") for f in ("LS1", "LS2") for m, n in (("induce", 1), ("revise", 2), ("revise", 3))],
    ),
    (
        "selfgen-always",
        True,
        [(m, f"{f}-T{n}") for f in ("LS1", "LS2") for m, n in (("induce", 1), ("revise", 2), ("revise", 3))],
    ),
)
def test_it_asks_the_author_when_the_condition_says_so(
    condition: str, success: bool, expected: list[tuple[str, str]]
) -> None:
    _, steps = _always(success).play(_bare_plan(condition))
    assert _asked_after(steps) == expected


def test_it_requires_tier_3_of_revisions_and_never_of_inductions() -> None:
    _, steps = _always(False).play(_bare_plan("selfgen-always-tier3"))
    assert {(step.mode, step.tier3_required) for step in steps if isinstance(step, Ask)} == {
        (AuthorMode.INDUCE, False),
        (AuthorMode.REVISE, True),
    }


def test_it_leaves_a_family_without_skill_when_its_induction_gave_none() -> None:
    world = World(
        lambda slot: False, lambda ask: DecisionStatus.REJECTED if ask.family == "LS1" else DecisionStatus.APPLIED
    )
    _, steps = world.play(_bare_plan("selfgen-always", answers=2))
    assert _asked_after(steps) == [
        ("induce", "LS1-T1"),
        ("induce", "LS1-T1"),
        ("induce", "LS2-T1"),
        ("revise", "LS2-T2"),
        ("revise", "LS2-T3"),
    ]


@pytest.mark.parametrize("status", STATUSES)
def test_it_asks_again_after_a_rejected_or_failed_answer_only(status: DecisionStatus) -> None:
    _, steps = _always(False, status).play(_bare_plan("curated-always", answers=3))
    first = [step.answer for step in steps if isinstance(step, Ask) and step.after_trial.task == "LS1-T1"]  # type: ignore[union-attr]
    settled = status in (DecisionStatus.APPLIED, DecisionStatus.NO_OP)
    assert first == ([1] if settled else [1, 2, 3])


def test_it_retrieves_only_earlier_acquisition_trials_of_the_family_and_never_the_replayed_one() -> None:
    _, steps = _always(True).play(_bare_plan("raw-trajectory"))
    shown = {f"{step.slot.phase}/{step.slot.task}": step.retrieved for step in steps if isinstance(step, RunTrial)}
    past = tuple(TrialSlot(Phase.ACQUISITION, f"LS2-T{n}") for n in (1, 2, 3))
    assert [shown[f"acquisition/LS2-T{n}"] for n in (1, 2, 3)] == [past[:0], past[:1], past[:2]]
    assert [shown[f"deployment/LS2-T{n}"] for n in (4, 5, 6)] == [past, past, past]
    assert [shown[f"replay/LS2-T{n}"] for n in (1, 2, 3)] == [past[:0], past[:1], past[:2]]


@pytest.mark.parametrize("condition", [name for name, c in CONDITIONS.items() if c.replay is Replay.PLACEBO])
def test_it_replays_a_condition_that_learns_nothing_only_as_a_placebo(condition: str) -> None:
    without = protocols.slots(_bare_plan(condition))
    placebo = protocols.slots(_bare_plan(condition, placebo_replay=True))
    assert {slot.phase for slot in without} == {Phase.ACQUISITION, Phase.DEPLOYMENT}
    assert [slot.task for slot in placebo if slot.phase is Phase.REPLAY] == [s.task for s in without[:6]]


def test_it_repeats_deployment_and_replay_but_never_acquisition() -> None:
    slots = protocols.slots(_bare_plan("selfgen-always", samples=3))
    assert {(slot.phase, slot.sample) for slot in slots} == {
        (Phase.ACQUISITION, 0),
        *((phase, sample) for phase in (Phase.DEPLOYMENT, Phase.REPLAY) for sample in range(3)),
    }


def test_a_trial_without_verdict_is_no_evidence_and_calls_no_author() -> None:
    world = World(lambda slot: None if slot.task.endswith("T2") else False, lambda ask: DecisionStatus.APPLIED)
    _, steps = world.play(_bare_plan("curated-always"))
    asked = {step.after_trial.task: step.evidence for step in steps if isinstance(step, Ask) and step.after_trial}
    assert "LS1-T2" not in asked
    assert [slot.task for slot in asked["LS1-T3"]] == ["LS1-T1", "LS1-T3"]


def test_a_skip_in_acquisition_taints_the_episode_and_one_in_deployment_does_not() -> None:
    for phase, tainted in [(Phase.ACQUISITION, True), (Phase.DEPLOYMENT, False)]:
        history = (Entry(1, Skipped(TrialSlot(phase, "LS1-T1"), "the provider was down")),)
        assert find_condition("selfgen-always").is_tainted_by(fold(history).skipped) is tainted


def test_it_refuses_a_history_with_a_hole() -> None:
    with pytest.raises(RunnerError, match="entry 1 carries sequence 2"):
        fold((Entry(2, Seeded("LS1", "x")),))


def test_a_curated_condition_needs_a_curated_skill_in_every_family() -> None:
    family = BARE.families[0]
    bare = Family(family.key, family.slug, "", "", "E1", family.tasks)
    with pytest.raises(SetupError, match="curated-always needs a curated skill in every family; none in LS1"):
        small_plan("curated-always", Environment("E1", "", (bare, BARE.families[1])))


def test_an_unknown_condition_names_the_known_ones() -> None:
    with pytest.raises(SetupError, match="known: no-skill, raw-trajectory"):
        find_condition("selfgen-sometimes")


# --- for any outcomes -------------------------------------------------------------------------------------------


@st.composite
def played(draw: st.DrawFn) -> tuple[EpisodePlan, History, list[NextStep]]:
    plan = _bare_plan(
        draw(st.sampled_from(list(CONDITIONS))),
        answers=draw(st.integers(1, 3)),
        samples=draw(st.integers(1, 2)),
        placebo_replay=draw(st.booleans()),
    )
    outcomes = st.sampled_from([True, False, None, "skipped"])
    world = World(lambda slot: draw(outcomes), lambda ask: draw(st.sampled_from(STATUSES)))
    return plan, *world.play(plan)


@settings(max_examples=60, deadline=None)
@given(played())
def test_any_history_it_leads_to_stands_up_to_the_audit(episode: tuple[EpisodePlan, History, list[NextStep]]) -> None:
    plan, history, _ = episode
    assert audit(plan, history) == []


@settings(max_examples=60, deadline=None)
@given(played())
def test_the_trials_are_the_plan_s_whatever_happens(episode: tuple[EpisodePlan, History, list[NextStep]]) -> None:
    plan, _, steps = episode
    assert tuple(step.slot for step in steps if isinstance(step, RunTrial)) == protocols.slots(plan)


@settings(max_examples=60, deadline=None)
@given(played())
def test_evidence_never_crosses_families_and_ends_with_the_trial_just_run(
    episode: tuple[EpisodePlan, History, list[NextStep]],
) -> None:
    plan, _, steps = episode
    for step in steps:
        if isinstance(step, Ask) and step.after_trial is not None:
            assert step.evidence[-1] == step.after_trial
            assert {plan.task(slot.task).family for slot in step.evidence} == {step.family}
            assert {plan.task(slot.task).role for slot in step.evidence} <= set(ACQUISITION_ROLES)
        if isinstance(step, RunTrial):
            assert {plan.task(slot.task).family for slot in step.retrieved} <= {step.family}
            assert step.slot not in step.retrieved


@settings(max_examples=60, deadline=None)
@given(played())
def test_nothing_writes_to_the_library_after_the_freeze(episode: tuple[EpisodePlan, History, list[NextStep]]) -> None:
    plan, history, steps = episode
    frozen = steps.index(Freeze())
    assert all(isinstance(step, RunTrial) for step in steps[frozen + 1 :])
    if plan.condition.start is not Start.NO_LIBRARY:
        final = fold(history).snapshot
        assert {step.snapshot for step in steps[frozen + 1 :] if isinstance(step, RunTrial)} == {final}


@settings(max_examples=40, deadline=None)
@given(played(), st.data())
def test_the_audit_names_an_entry_out_of_place(
    episode: tuple[EpisodePlan, History, list[NextStep]], data: st.DataObject
) -> None:
    plan, history, _ = episode
    place = data.draw(st.integers(0, len(history) - 2))
    events = [entry.event for entry in history]
    events[place], events[place + 1] = events[place + 1], events[place]
    swapped = tuple(Entry(number, event) for number, event in enumerate(events, start=1))
    due = list(protocols.possible_steps(plan, swapped[:place]))
    assert due
    may_stand_anywhere = isinstance(events[place], Skipped)
    if not may_stand_anywhere and not any(answers(step, events[place]) for step in due):
        assert audit(plan, swapped)[0].startswith(f"entry {place + 1}:")

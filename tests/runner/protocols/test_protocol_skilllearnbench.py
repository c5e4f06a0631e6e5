"""SkillLearnBench's protocol: what comes next under each condition, whatever trials and answers come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import protocols
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import AuthorMode, DecisionStatus, Environment, Phase, TrialSlot
from runner.protocols import next_step
from runner.protocols.audit import audit
from runner.protocols.conditions import conditions_of, count_seeds, find_condition
from runner.protocols.history import fold
from runner.protocols.plan import Ask, EpisodePlan, Freeze, NextStep, RunTrial, SeedSkill
from runner.protocols.recorder import Decided, Entry, Event, Frozen, History, Seeded, Skipped, TrialDone
from tests.cases import every
from tests.runner.small_episode import small_environment

PROTOCOL, FAMILY = "skilllearnbench", "E1-LS1"
SEED, INSTANCES = f"{FAMILY}-T1", [f"{FAMILY}-T{n}" for n in range(1, 7)]
CONDITIONS = conditions_of(PROTOCOL)
LEARNED = ("one-shot", "self-feedback", "teacher-feedback", "skill-creator")
APPLIED, NO_OP = DecisionStatus.APPLIED, DecisionStatus.NO_OP
REJECTED, FAILED = DecisionStatus.REJECTED, DecisionStatus.FAILED
EVALUATED = ["trial deployment/" + task + "/0" for task in INSTANCES]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return small_environment(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def unit(environment: Environment) -> Environment:
    suite = Suite("small", "Small", "1", "0" * 64, (environment,))
    return next(each for each in protocols.units(PROTOCOL, suite) if each.key == FAMILY)


def plan_for(condition: str, unit: Environment, **changes: Any) -> EpisodePlan:
    values: dict[str, Any] = {
        "episode": f"{unit.key}-{condition}",
        "environment": unit,
        "condition": find_condition(condition, PROTOCOL),
        "run_seed": 7,
        "setup_digest": "0" * 64,
        "agent": "fixed",
        "author_model": "fixed/author",
        "protocol": PROTOCOL,
        **changes,
    }
    return EpisodePlan(**values)


class Episode:
    """Answers each step that comes next: learning trials with `tried`, the author with `answers`, evaluation with a
    pass.

    What the lists do not say is a failed trial and an applied answer. "skip" is an operator's.
    """

    def __init__(self, plan: EpisodePlan, tried: list[Any] | None = None, answers: list[DecisionStatus] | None = None):
        self.plan, self.tried, self.answers = plan, list(tried or []), list(answers or [])
        self.history: History = ()
        self.steps: list[NextStep] = []
        while (step := next_step(plan, self.history)) is not None:
            assert len(self.steps) < 200, "it never ends"
            self.steps.append(step)
            self.history = (*self.history, Entry(len(self.history) + 1, self._event(step)))

    def _event(self, step: NextStep) -> Event:
        state = fold(self.history)
        match step:
            case SeedSkill():
                return Seeded(step.family, "human")
            case RunTrial():
                return self._trial(step)
            case Ask():
                status = self.answers.pop(0) if self.answers else APPLIED
                changed = status is APPLIED
                snapshot = f"library-{state.decisions + 1}" if changed else state.snapshot
                number, round_ = state.decisions + 1, state.rounds + changed
                return Decided(number, round_, step.family, step.mode, step.after_trial, step.answer, status, snapshot)
            case Freeze():
                return Frozen(state.snapshot, state.snapshot, "0" * 64, "seal")
            case _:
                raise AssertionError(f"not a step of this protocol: {step!r}")

    def _trial(self, step: RunTrial) -> Event:
        ended: Any = True
        if step.slot.phase is Phase.ACQUISITION:
            ended = self.tried.pop(0) if self.tried else False
        if ended == "skip":
            return Skipped(step.slot, "the image cannot be built")
        return TrialDone(step.slot, step.family, step.role, ended, step.snapshot, step.retrieved)

    @property
    def told(self) -> list[str]:
        return [_told(step) for step in self.steps]

    @property
    def learning(self) -> list[str]:
        """Up to the freeze."""
        return self.told[: self.told.index("freeze")]


def _told(step: NextStep) -> str:
    match step:
        case RunTrial():
            return f"trial {step.slot}"
        case Ask():
            return f"{step.mode} {step.answer}"
        case SeedSkill():
            return "seed"
        case _:
            return "freeze"


# --- every condition ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "learning"),
    [
        ("no-skill", []),
        ("human-authored", ["seed"]),
        ("one-shot", ["write 1"]),
        ("self-feedback", ["write 1", f"trial acquisition/{SEED}/0", "reflect 1"]),
        (
            "teacher-feedback",
            ["write 1", f"trial acquisition/{SEED}/0", "correct 1", f"trial acquisition/{SEED}/1", "correct 1"],
        ),
        ("skill-creator", ["craft 1", "refine 2"]),
    ],
)
def test_what_is_learned_on_the_seed_alone_is_sealed_and_tried_on_every_instance(
    unit: Environment, condition: str, learning: list[str]
) -> None:
    episode = Episode(plan_for(condition, unit))
    assert episode.learning == learning
    assert episode.told[len(learning) :] == ["freeze", *EVALUATED]
    assert audit(episode.plan, episode.history) == []


def test_there_is_no_condition_that_these_tests_leave_out() -> None:
    assert set(CONDITIONS) == {"no-skill", "human-authored", *LEARNED}


@pytest.mark.parametrize("condition", LEARNED)
def test_evaluation_reads_the_sealed_library_and_nothing_else(unit: Environment, condition: str) -> None:
    episode = Episode(plan_for(condition, unit, samples=2))
    after = [step for step in episode.steps if isinstance(step, RunTrial) and step.slot.phase is Phase.DEPLOYMENT]
    assert [step.slot for step in after] == [
        TrialSlot(Phase.DEPLOYMENT, task, sample) for task in INSTANCES for sample in (0, 1)
    ]
    assert {(step.snapshot, step.library, step.retrieved) for step in after} == {
        (fold(episode.history).snapshot, True, ())
    }


def test_without_a_library_the_solver_is_told_of_none(unit: Environment) -> None:
    trials = [step for step in Episode(plan_for("no-skill", unit)).steps if isinstance(step, RunTrial)]
    assert {(step.snapshot, step.library) for step in trials} == {(EMPTY_LIBRARY, False)}


@pytest.mark.parametrize("condition", LEARNED)
def test_the_author_is_shown_the_seed_task_and_at_most_the_trial_it_has_just_had(
    unit: Environment, condition: str
) -> None:
    for step in Episode(plan_for(condition, unit)).steps:
        if isinstance(step, Ask):
            assert step.task == SEED
            assert step.evidence == (() if step.after_trial is None else (step.after_trial,))


def test_each_round_of_the_seed_finds_the_library_that_was_written_last(unit: Environment) -> None:
    episode = Episode(plan_for("teacher-feedback@4", unit))
    tried = [step for step in episode.steps if isinstance(step, RunTrial) and step.slot.phase is Phase.ACQUISITION]
    assert [(step.slot.sample, step.snapshot) for step in tried] == [(n, f"library-{n + 1}") for n in range(3)]


# --- a teacher's rounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tried", [[True], [False, True]])
def test_a_teacher_s_rounds_end_with_the_first_pass(unit: Environment, tried: list[Any]) -> None:
    episode = Episode(plan_for("teacher-feedback", unit), tried)
    assert [told.split("/")[0] for told in episode.learning] == [
        "write 1", "trial acquisition", *["correct 1", "trial acquisition"][: 2 * (len(tried) - 1)],
    ]  # fmt: skip


def test_self_feedback_goes_on_after_a_pass_as_nobody_tells_it_of_one(unit: Environment) -> None:
    passed = Episode(plan_for("self-feedback@3", unit), [True, True])
    assert passed.learning == Episode(plan_for("self-feedback@3", unit), [False, False]).learning
    assert sum(told.startswith("reflect") for told in passed.learning) == 2


def test_without_a_verdict_the_author_reflects_and_no_teacher_speaks(unit: Environment) -> None:
    assert Episode(plan_for("self-feedback", unit), [None]).learning[-1] == "reflect 1"
    assert Episode(plan_for("teacher-feedback", unit), [None]).learning == ["write 1", f"trial acquisition/{SEED}/0"]


@pytest.mark.parametrize("condition", ["self-feedback@3", "teacher-feedback"])
def test_a_skipped_trial_ends_the_learning_and_taints_the_episode(unit: Environment, condition: str) -> None:
    episode = Episode(plan_for(condition, unit), ["skip"])
    assert episode.learning == ["write 1", f"trial acquisition/{SEED}/0"]
    assert episode.plan.condition.is_tainted_by(fold(episode.history).skipped)
    assert audit(episode.plan, episode.history) == []


@pytest.mark.parametrize(
    ("condition", "writings"),
    [("self-feedback@1", 1), ("self-feedback@2", 2), ("self-feedback@4", 4), ("teacher-feedback@10", 10)],
)
def test_a_library_of_k_rounds_is_written_k_times_with_a_trial_between_two(
    unit: Environment, condition: str, writings: int
) -> None:
    learning = Episode(plan_for(condition, unit)).learning
    assert [told.startswith("trial") for told in learning] == [False, *[True, False] * (writings - 1)]
    assert len(protocols.slots(plan_for(condition, unit))) == writings - 1 + len(INSTANCES)


# --- answers that are none ----------------------------------------------------------------------------------------


def test_an_answer_that_cannot_be_used_is_asked_for_again_and_then_left(unit: Environment) -> None:
    plan = plan_for("self-feedback", unit, answers=2)
    episode = Episode(plan, answers=[REJECTED, FAILED, REJECTED, APPLIED])
    assert episode.learning == ["write 1", "write 2", f"trial acquisition/{SEED}/0", "reflect 1", "reflect 2"]
    (tried,) = [step for step in episode.steps if isinstance(step, RunTrial) and step.slot.phase is Phase.ACQUISITION]
    assert (tried.snapshot, tried.library) == (EMPTY_LIBRARY, True)
    assert fold(episode.history).rounds == 1


def test_advice_that_changed_nothing_does_not_end_the_rounds(unit: Environment) -> None:
    episode = Episode(plan_for("teacher-feedback", unit), answers=[APPLIED, NO_OP])
    assert [told.split("/")[0] for told in episode.learning] == [
        "write 1", "trial acquisition", "correct 1", "trial acquisition", "correct 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "learning"),
    [
        ([FAILED, REJECTED], ["craft 1", "craft 2"]),
        ([REJECTED, APPLIED], ["craft 1", "craft 2", "refine 3"]),
        ([APPLIED, REJECTED], ["craft 1", "refine 2"]),
        ([NO_OP, APPLIED], ["craft 1", "refine 2"]),
    ],
)
def test_a_draft_is_refined_once_where_there_is_one(
    unit: Environment, answers: list[DecisionStatus], learning: list[str]
) -> None:
    assert Episode(plan_for("skill-creator", unit, answers=2), answers=answers).learning == learning


# --- whatever happens ---------------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(sorted(CONDITIONS)),
    st.builds("{}@{}".format, st.sampled_from(["self-feedback", "teacher-feedback"]), st.integers(1, 10)),
)


@settings(max_examples=60, deadline=None)
@given(
    NAMES,
    st.lists(st.sampled_from([True, False, None, "skip"]), max_size=9),
    st.lists(st.sampled_from(list(DecisionStatus)), max_size=20),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_every_episode_ends_and_its_history_answers_its_plan(
    unit: Environment, condition: str, tried: list[Any], answers: list[DecisionStatus], allowed: int, samples: int
) -> None:
    plan = plan_for(condition, unit, answers=allowed, samples=samples)
    episode = Episode(plan, tried, answers)
    assert audit(plan, episode.history) == []
    planned = protocols.slots(plan)
    ran = [step.slot for step in episode.steps if isinstance(step, RunTrial)]
    assert [slot for slot in planned if slot in ran] == ran  # in the order of the plan, and none twice
    assert [slot for slot in planned if slot.phase is Phase.DEPLOYMENT] == [
        slot for slot in ran if slot.phase is Phase.DEPLOYMENT
    ]
    assert sum(isinstance(entry.event, Frozen) for entry in episode.history) == 1
    assert sum(isinstance(step, Ask) for step in episode.steps) <= allowed * (plan.condition.rounds or 1)


# --- several seeds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "seeds"), [("one-shot", 1), ("one-shot@1", 1), ("one-shot@3", 3), ("one-shot@6", 6)]
)
def test_one_shot_is_shown_the_first_instances_and_tried_on_all(unit: Environment, condition: str, seeds: int) -> None:
    """The same trials whatever the number, so that conditions differ in what the author saw and in nothing else."""
    episode = Episode(plan_for(condition, unit))
    (ask,) = (step for step in episode.steps if isinstance(step, Ask))
    assert (ask.task, *ask.further) == tuple(INSTANCES[:seeds])
    assert ask.evidence == ()
    assert episode.told == ["write 1", "freeze", *EVALUATED]
    assert protocols.slots(episode.plan) == protocols.slots(plan_for("one-shot", unit))
    assert audit(episode.plan, episode.history) == []


def test_a_task_with_fewer_instances_than_seeds_is_refused_with_both_numbers(unit: Environment) -> None:
    with pytest.raises(
        SetupError, match=f"one-shot@7 learns from 7 instances; {FAMILY} has 6 .expected a lower number"
    ):
        plan_for("one-shot@7", unit)


@every(
    ("one-shot@3", 3),
    ("one-shot@3~paper", 3),
    ("one-shot", 1),
    ("one-shot@99", 1),
    ("one-shot@x", 1),
    ("self-feedback@4", 1),
    ("naive-prompt@8000", 1),
    ("somebody's@3", 1),
)
def test_how_many_seeds_a_condition_has_is_read_from_its_name(name: str, seeds: int) -> None:
    assert count_seeds(name) == seeds


# --- plans --------------------------------------------------------------------------------------------------------


def test_it_refuses_several_tasks_in_one_episode(environment: Environment) -> None:
    with pytest.raises(SetupError, match="one task at a time, not 2"):
        plan_for("no-skill", environment)


def test_it_has_no_replay(unit: Environment) -> None:
    with pytest.raises(SetupError, match="no replay"):
        plan_for("no-skill", unit, placebo_replay=True)


@pytest.mark.parametrize("condition", ["human-authored", "teacher-feedback", "teacher-feedback@2"])
def test_what_needs_human_skills_says_so_where_there_are_none(unit: Environment, condition: str) -> None:
    (family,) = unit.families
    with pytest.raises(SetupError, match=f"{condition} needs human-authored skills; {FAMILY} has none"):
        plan_for(condition, replace(unit, families=(replace(family, curated={}),)))


@every("one-shot@0", "one-shot@11", "no-skill@2", "skill-creator@3", "teacher-feedback@0", "self-feedback@11")
def test_a_parameter_that_a_method_does_not_have_is_refused(condition: str) -> None:
    with pytest.raises(SetupError, match=condition):
        find_condition(condition, PROTOCOL)


def test_levels_of_feedback_belong_to_the_methods(unit: Environment) -> None:
    shown = {name: plan_for(name, unit, feedback="process").shown for name in LEARNED}
    assert shown == {
        "one-shot": "process", "self-feedback": "none", "teacher-feedback": "binary", "skill-creator": "process",
    }  # fmt: skip
    assert AuthorMode.CORRECT.names_skills

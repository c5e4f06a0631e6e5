"""A qualification by itself: which trials each check has, when a task's runs end, and what stopping costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from runner import protocols
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.types import Corpus, CorpusKind, Environment, Phase, TrialSlot
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.protocols.audit import audit
from runner.protocols.conditions import unpooled_conditions
from runner.protocols.plan import CHECKS, EpisodePlan, Rule, RunTrial
from runner.protocols.qualification import (
    CONDITIONS,
    NO_SKILL,
    REFERENCE,
    SOLUTION,
    TRAP,
    UNTOUCHED,
    WITH_CORPUS,
    find_check,
    find_condition_of,
    units,
)
from runner.protocols.recorder import Entry, Frozen, Seeded, Skipped, TrialDone
from runner.protocols.registry import LAUNCHED, OFFERED
from runner.suites import load_suite
from tests.cases import every
from tests.runner.small_episode import FixedAgent, FixedAuthor, events_of, small_environment, small_plan, small_toolbox

RULES = {
    "solution": Rule(3, 3, 3),
    "untouched": Rule(2, 0, 0),
    "trap": Rule(2, 0, 0),
    "no_skill": Rule(3, 0, 1),
    "no_corpus": Rule(3, 0, 0),
    "with_corpus": Rule(3, 0, 1),
    "reference": Rule(3, 1, 3),
}


def family_of(folder: Path, place: int = 0) -> Environment:
    whole = small_environment(folder)
    family = whole.families[place]
    return replace(whole, key=family.key, families=(family,))


def plan_for(condition: str, unit: Environment, **changes: Any) -> EpisodePlan:
    values = {"protocol": "qualification", "condition": CONDITIONS[condition], "rules": RULES, "answers": 1}
    return replace(small_plan("no-skill", unit), **{**values, **changes})


def with_corpus(folder: Path, unit: Environment) -> Environment:
    (folder / "corpus").mkdir()
    (folder / "corpus" / "manual.md").write_text("Amounts are in cents.\n")
    return replace(unit, corpus=Corpus(CorpusKind.DOMAIN_DOCUMENT, folder / "corpus", "0" * 64))


def run(plan: EpisodePlan, agent: FixedAgent | None = None) -> ListRecorder:
    recorder = ListRecorder(plan)
    run_episode(plan, recorder, small_toolbox(agent or FixedAgent(), FixedAuthor()))
    assert audit(plan, recorder.history()) == []
    assert protocols.next_step(plan, recorder.history()) is None
    return recorder


def count(recorder: ListRecorder) -> dict[str, list[bool | None]]:
    found: dict[str, list[bool | None]] = {}
    for event in events_of(recorder, TrialDone):
        found.setdefault(event.slot.task, []).append(event.success)
    return found


# --- rules --------------------------------------------------------------------------------------------------------


@every(Rule(4, 4, 4), Rule(4, 0, 0), Rule(5, 0, 2), Rule(5, 2, 5), Rule(3, 0, 3), Rule(4, 1, 2))
def test_stopping_early_decides_as_all_runs_would(rule: Rule) -> None:
    for outcomes in product([True, False], repeat=rule.runs):
        answer = rule.least <= sum(outcomes) <= rule.most
        said = [rule.is_kept(sum(outcomes[:n]), n - sum(outcomes[:n])) for n in range(rule.runs + 1)]
        assert said[-1] is answer
        assert {each for each in said if each is not None} == {answer}


def test_a_run_without_a_verdict_counts_as_what_would_decide_otherwise() -> None:
    rule = Rule(3, 0, 1)
    assert rule.is_kept(1, 1) is None  # the third could have passed
    assert rule.is_kept(0, 2) is True
    assert rule.is_kept(2, 0) is False


def test_what_a_rule_admits_by_chance_is_the_binomial() -> None:
    rule = Rule(10, 0, 5)
    assert rule.chance(0.7) == pytest.approx(0.1503, abs=1e-4)
    assert rule.chance(0.3) == pytest.approx(0.9527, abs=1e-4)
    assert Rule(3, 3, 3).chance(0.9) == pytest.approx(0.729)
    assert Rule(2, 0, 0).chance(0.0) == 1.0
    simulated = sum(
        0.6 ** sum(runs) * 0.4 ** (4 - sum(runs)) for runs in product([1, 0], repeat=4) if 1 <= sum(runs) <= 3
    )
    assert Rule(4, 1, 3).chance(0.6) == pytest.approx(simulated)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule(3, 3, 3), "3 of 3"),
        (Rule(2, 0, 0), "0 of 2"),
        (Rule(10, 0, 5), "at most 5 of 10"),
        (Rule(3, 1, 3), "at least 1 of 3"),
    ],
)
def test_a_rule_says_what_it_expects(rule: Rule, words: str) -> None:
    assert str(rule) == words


# --- trials -------------------------------------------------------------------------------------------------------


def test_every_check_has_a_condition_that_is_never_pooled() -> None:
    assert {find_condition_of(check) for check in CHECKS} == set(CONDITIONS)
    assert find_check(NO_SKILL, has_corpus=False) == "no_skill"
    assert find_check(NO_SKILL, has_corpus=True) == "no_corpus"
    assert unpooled_conditions() == {*CONDITIONS, "library-probe"}
    assert "qualification" in LAUNCHED
    assert "qualification" not in OFFERED


def test_a_unit_is_a_family_with_the_tasks_that_count() -> None:
    suite = load_suite("starter-corpora")
    found = units(suite)
    assert [unit.key for unit in found] == [family.key for each in suite.environments for family in each.families]
    assert all(unit.corpus for unit in found)
    assert not any(task.practice for unit in found for task in unit.families[0].tasks)


def test_an_agent_without_skills_stops_once_a_task_is_settled(tmp_path: Path) -> None:
    """Tasks 1, 4, 5 of the family pass or fail as OUTCOMES says, in deployment: p, f, p by role."""
    plan = plan_for(NO_SKILL, family_of(tmp_path))
    recorder = run(plan)
    assert isinstance(recorder.history()[0].event, Frozen)
    for task, outcomes in count(recorder).items():
        assert outcomes == [outcomes[0]] * 2, task  # two passes are too many, two failures leave at most one pass
    assert len(protocols.slots(plan)) == 3 * 6
    assert {event.slot.phase for event in events_of(recorder, TrialDone)} == {Phase.DEPLOYMENT}


def test_what_needs_no_model_runs_to_its_end_so_that_a_wavering_verifier_shows(tmp_path: Path) -> None:
    recorder = run(plan_for(UNTOUCHED, family_of(tmp_path)))
    assert {len(outcomes) for outcomes in count(recorder).values()} == {2}
    assert [event.slot.sample for event in events_of(recorder, TrialDone)] == [0] * 6 + [1] * 6


def test_only_tasks_with_a_solution_are_tried_with_it(tmp_path: Path) -> None:
    unit = family_of(tmp_path)
    solved = unit.families[0].tasks[2]
    (solved.folder / "solution").mkdir()
    (solved.folder / "solution" / "solve.sh").write_text("true\n")
    assert {slot.task for slot in protocols.slots(plan_for(SOLUTION, unit))} == {solved.key}
    assert not protocols.slots(plan_for(TRAP, unit))
    (solved.folder / "trap").mkdir()
    (solved.folder / "trap" / "solve.sh").write_text("true\n")
    assert {slot.task for slot in protocols.slots(plan_for(TRAP, unit))} == {solved.key}


def test_the_reference_skill_comes_in_alone_and_sealed(tmp_path: Path) -> None:
    agent, unit = FixedAgent(), family_of(tmp_path, 1)
    recorder = run(plan_for(REFERENCE, unit), agent)
    assert [type(entry.event) for entry in recorder.history()[:2]] == [Seeded, Frozen]
    assert {frozenset(mounted) for mounted in agent.mounted} == {frozenset({"merge-logs/SKILL.md"})}
    assert all("The library is frozen" in job.instruction for job in agent.jobs)


def test_the_corpus_comes_in_as_material_to_read(tmp_path: Path) -> None:
    agent, unit = FixedAgent(), with_corpus(tmp_path, family_of(tmp_path))
    run(plan_for(WITH_CORPUS, unit), agent)
    assert set(agent.mounted[0]) == {"source-material/SKILL.md", "source-material/material/manual.md"}
    assert agent.mounted[0]["source-material/material/manual.md"].content == b"Amounts are in cents.\n"


def test_with_a_corpus_the_stricter_rule_holds_for_runs_without_skills(tmp_path: Path) -> None:
    recorder = run(plan_for(NO_SKILL, with_corpus(tmp_path, family_of(tmp_path))))
    assert {outcomes[0]: len(outcomes) for outcomes in count(recorder).values()} == {True: 1, False: 3}


@pytest.mark.parametrize("condition", [REFERENCE, WITH_CORPUS])
def test_what_is_not_there_plans_no_trial_and_ends_at_once(tmp_path: Path, condition: str) -> None:
    unit = family_of(tmp_path)
    bare = replace(unit, families=(replace(unit.families[0], curated={}),))
    plan = plan_for(condition, bare)
    assert protocols.slots(plan) == ()
    assert run(plan).history() == ()


def test_a_check_that_is_left_out_plans_no_trial(tmp_path: Path) -> None:
    plan = plan_for(NO_SKILL, family_of(tmp_path), rules={"reference": RULES["reference"]})
    assert protocols.slots(plan) == ()


def test_a_skipped_run_is_no_pass_and_no_failure(tmp_path: Path) -> None:
    plan = plan_for(NO_SKILL, family_of(tmp_path))
    key = plan.environment.families[0].tasks[0].key
    slots = [TrialSlot(Phase.DEPLOYMENT, key, sample) for sample in range(3)]
    history = (
        Entry(1, Frozen(EMPTY_LIBRARY, EMPTY_LIBRARY, "0" * 64, "s")),
        Entry(2, Skipped(slots[0], "broken")),
        Entry(3, TrialDone(slots[1], "E1-LS1", None, False, EMPTY_LIBRARY)),
    )
    steps = [step for step in protocols.possible_steps(plan, history) if isinstance(step, RunTrial)]
    assert [step.slot for step in steps if step.slot.task == key] == [slots[2]]


@pytest.mark.parametrize("changes", [{"rules": None}, {"samples": 2}, {"protocol": "skillflow"}])
def test_a_plan_that_contradicts_itself_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(SetupError):
        plan_for(NO_SKILL, family_of(tmp_path), **changes)

"""SkillLearnBench's methods: one task with three instances under each condition, worked on by the scripted model for
real.

The instances are tasks of the starter suite whose result needs more than the base procedure; the human-authored skill
teaches everything they need. UPDATE_GOLDEN=1 writes the files again; read the difference before committing it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from demo.playbooks import PLAYBOOKS
from demo.skill_text import new_skill
from runner import protocols
from runner.base.types import Environment, Family, File
from runner.engine.recorders import ListRecorder
from runner.protocols.conditions import conditions_of, find_condition
from runner.protocols.plan import EpisodePlan
from runner.suites.starter_suite import load_starter
from tests.cases import every
from tests.runner.playing import GOLDEN, check_history, player

HISTORIES = GOLDEN / "skilllearnbench"
CONDITIONS = (*conditions_of("skilllearnbench"), "one-shot@2")
FAMILY, RUN_SEED = "E1-LS1", 47  # a seed with a copying teacher


def learning_unit() -> Environment:
    """The seed needs two lessons, the other instances one of them each."""
    unit = next(unit for unit in protocols.units("skilllearnbench", load_starter()) if unit.key == FAMILY)
    (family,) = unit.families
    chosen = [next(task for task in family.tasks if file in task.instruction) for file in SEED_AND_OTHERS]
    tasks = tuple(replace(task, ordinal=place, role=None) for place, task in enumerate(chosen, start=1))
    return replace(unit, families=(replace(family, tasks=tasks, curated={PATH: File(human_skill(family).encode())}),))


SEED_AND_OTHERS = ("parcels.jsonl", "visits.csv", "sensors.csv")
PATH = "averages-by-group/SKILL.md"


def human_skill(family: Family) -> str:
    playbook = next(book for book in PLAYBOOKS if book.slug == family.slug)
    return new_skill("averages-by-group", playbook.title, family.description, playbook, playbook.lessons)


def learning_plan(condition: str, **changes: object) -> EpisodePlan:
    plan = EpisodePlan(
        episode=f"{FAMILY}-{condition}",
        environment=learning_unit(),
        condition=find_condition(condition, "skilllearnbench"),
        run_seed=RUN_SEED,
        setup_digest="0" * 64,
        agent="shell",
        agent_model="scripted/apprentice",
        author_model="scripted/apprentice",
        protocol="skilllearnbench",
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ListRecorder]:
    """condition -> the finished episode; each is run once."""
    return player(learning_plan, tmp_path_factory.mktemp)


@pytest.mark.slow
@every(*CONDITIONS)
def test_the_history_of_one_task_is_exactly_this(condition: str, played: Callable[[str], ListRecorder]) -> None:
    check_history(played(condition), HISTORIES / f"{condition}.txt")


def test_every_condition_has_its_golden_history_and_no_other_file_lies_there() -> None:
    assert {path.name for path in HISTORIES.iterdir()} == {f"{condition}.txt" for condition in CONDITIONS}


def test_the_teacher_copied_twice_after_the_first_failure_and_advised_after_the_second(
    played: Callable[[str], ListRecorder],
) -> None:
    recorder = played("teacher-feedback")
    purposes = [call.purpose for call in recorder.calls]
    assert purposes == ["author", "student", "teacher", "teacher", "author", "student", "teacher", "author"]
    leaks = [[found.rule for found in decision.findings] for decision in recorder.decisions]
    assert leaks == [[], ["teacher-leak", "teacher-leak"], []]
    withheld, advised = (str(call.request.messages[1]["content"]) for call in recorder.calls if "correct/" in call.key)
    assert "None could be passed on." in withheld
    assert "None could be passed on." not in advised

"""SkillFlow's tables: one family of the starter suite under each condition, worked on by the scripted model for real.

UPDATE_GOLDEN=1 writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runner import protocols
from runner.engine.recorders import ListRecorder
from runner.protocols.conditions import conditions_of, find_condition
from runner.protocols.plan import EpisodePlan
from runner.suites.starter_suite import load_starter
from tests.runner.playing import GOLDEN, check_history, player

HISTORIES = GOLDEN / "skillflow"
CONDITIONS = conditions_of("skillflow")
FAMILY, RUN_SEED = "E1-LS1", 10

Played = dict[str, ListRecorder]


def starter_plan(condition: str) -> EpisodePlan:
    unit = next(unit for unit in protocols.units("skillflow", load_starter()) if unit.key == FAMILY)
    return EpisodePlan(
        episode=f"{FAMILY}-{condition}",
        environment=unit,
        condition=find_condition(condition, "skillflow"),
        run_seed=RUN_SEED,
        setup_digest="0" * 64,
        agent="shell",
        agent_model="scripted/apprentice",
        author_model="scripted/apprentice",
        protocol="skillflow",
        answers=2,
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ListRecorder]:
    """condition -> the finished episode; each is run once."""
    return player(starter_plan, tmp_path_factory.mktemp)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_history_of_one_family_is_exactly_this(played: Callable[[str], ListRecorder], condition: str) -> None:
    check_history(played(condition), HISTORIES / f"{condition}.txt")


def test_every_condition_of_skillflow_has_its_golden_history_and_no_other_file_lies_there() -> None:
    assert {path.name for path in HISTORIES.iterdir()} == {f"{condition}.txt" for condition in CONDITIONS}

"""The protocol tables: the exact history of one environment under each condition, as text a person can read.

UPDATE_GOLDEN=1 writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import pytest

from runner.base.types import Environment
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.protocols.conditions import CONDITIONS
from tests.cases import every
from tests.runner.playing import GOLDEN, check_history
from tests.runner.small_episode import small_environment, small_plan, small_toolbox, ticking_clock

HISTORIES = GOLDEN / "skillevolbench"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return small_environment(tmp_path_factory.mktemp("tasks"))


@every(*CONDITIONS)
def test_the_history_of_one_environment_is_exactly_this(condition: str, environment: Environment) -> None:
    plan = small_plan(condition, environment)
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, small_toolbox())
    check_history(recorder, HISTORIES / f"{condition}.txt")


def test_every_condition_has_its_golden_history_and_no_other_file_lies_there() -> None:
    assert {path.name for path in HISTORIES.iterdir()} == {f"{condition}.txt" for condition in CONDITIONS}

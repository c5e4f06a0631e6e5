"""The protocol tables: the exact history of one environment under each condition, as text a person can read.

UPDATE_GOLDEN=1 writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.base.types import Environment
from runner.engine.chronicle import chronicle
from runner.engine.engine import run_episode
from runner.engine.list_recorder import ListRecorder
from runner.protocols.audit import audit
from runner.protocols.conditions import CONDITIONS
from tests.runner.small_episode import small_environment, small_plan, small_toolbox, ticking_clock

GOLDEN = Path(__file__).parents[2] / "golden" / "skillevolbench"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return small_environment(tmp_path_factory.mktemp("tasks"))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_history_of_one_environment_is_exactly_this(environment: Environment, condition: str) -> None:
    plan = small_plan(condition, environment)
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, small_toolbox())
    text = chronicle(plan, recorder.history(), recorder.library, tuple(recorder.decisions))
    path = GOLDEN / f"{condition}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()
    assert audit(plan, recorder.history()) == []


def test_every_condition_has_its_golden_history_and_no_other_file_lies_there() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{condition}.txt" for condition in CONDITIONS}

"""Four processes take items of one queue at once, with connections and transactions of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import IS_FULL

SCRIPT = Path(__file__).resolve().parents[3] / "lab" / "claims.py"
SCENES = () if IS_FULL else ("--scene", "rough")  # it has all that the plain one has


def race(*options: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "SKILLGLASS_VAR")}
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--items", "30", "--processes", "4", *SCENES, *options],
        env=outside,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_nobody_gets_what_another_holds_on_sqlite() -> None:
    done = race()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no item was held twice, none was lost" in done.stdout


@pytest.mark.slow
@pytest.mark.postgresql
def test_nobody_gets_what_another_holds_on_postgresql() -> None:
    done = race("--database", os.environ["TEST_POSTGRESQL_URL"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no item was held twice, none was lost" in done.stdout


# --- the check itself -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def claims() -> ModuleType:
    found = importlib.util.spec_from_file_location("claims_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def held(person: int, since: float, until: float, how: str = "finished") -> dict[str, object]:
    return {"slot": 1, "item": 9, "person": person, "since": since, "until": until, "gone": until, "how": how}


def test_the_check_sees_two_people_at_one_place(claims: ModuleType) -> None:
    assert list(claims.overlaps([held(1, 0, 5), held(2, 4, 6)]))
    assert not list(claims.overlaps([held(1, 0, 5), held(2, 5, 6), held(1, 2, 4)]))


def test_the_check_knows_that_two_tabs_are_one_person(claims: ModuleType) -> None:
    assert not list(claims.overlaps([held(1, 0, 2, "back"), held(1, 1, 5), held(2, 3, 6)]))


def test_the_check_sees_what_is_lost(claims: ModuleType) -> None:
    kept = {"slots": [[1, 9, 1, 7]], "reviews": [[9, 1]]}
    assert not list(claims.losses([held(1, 0, 1)], kept))
    assert list(claims.losses([held(2, 0, 1)], kept))
    assert list(claims.losses([], {"slots": [[1, 9, 1, None]], "reviews": []}))
    assert list(claims.losses([], {"slots": [[1, 9, 1, 7], [2, 9, 1, 8]], "reviews": []}))

"""Columns kept on disk: the same as read, never older than the record, and never needed."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.management.commands.sweep import sweep
from benchapp.models import Run, Trial
from benchapp.stats.comparing import columns
from benchapp.stats.comparing.columns import KEPT, outcomes_of
from benchapp.stats.metrics.outcomes import Outcomes
from tests.worlds.factories import make_attempt, make_learning_run, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "columns_folder", lambda: tmp_path / "columns")


def anew(run: Run) -> tuple[Outcomes, int]:
    """As a process that has just started gets it, and how many queries that took."""
    KEPT.clear()
    with CaptureQueriesContext(connection) as captured:
        found = outcomes_of([Run.objects.get(pk=run.pk)])[run.pk]
    return found, len(captured) - 1


def assert_equal(one: Outcomes, two: Outcomes) -> None:
    for field in fields(Outcomes):
        left, right = getattr(one, field.name), getattr(two, field.name)
        assert left.dtype == right.dtype, field.name
        np.testing.assert_array_equal(left, right, err_msg=field.name)


def test_a_new_process_gets_the_same_columns_without_a_query() -> None:
    run = make_learning_run(outcomes=(True, False, None, True, False, True, True, True, False))
    first, asked = anew(run)
    second, asked_again = anew(run)
    assert asked > 0
    assert asked_again == 0
    assert_equal(first, second)


def test_a_run_without_trials_is_kept_too() -> None:
    run = make_run()
    anew(run)
    found, asked = anew(run)
    assert (len(found), asked) == (0, 0)


def test_what_the_record_has_changed_is_read_anew_and_the_old_file_goes(tmp_path: Path) -> None:
    run = make_learning_run()
    anew(run)
    trial = Trial.objects.filter(episode__run=run, success=False).first()
    make_attempt(trial, success=True)
    found, asked = anew(run)
    assert asked > 0
    assert found.success[found.trial == trial.pk] == 1
    assert len(list((tmp_path / "columns").iterdir())) == 1


def test_a_run_at_work_is_not_kept(tmp_path: Path) -> None:
    anew(make_learning_run(status="running"))
    assert not (tmp_path / "columns").exists()


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x93NUMPY\x01\x00"])
def test_a_damaged_file_is_read_around(tmp_path: Path, damage: bytes) -> None:
    run = make_learning_run()
    first, _ = anew(run)
    (path,) = (tmp_path / "columns").iterdir()
    path.write_bytes(damage)
    second, asked = anew(run)
    assert asked > 0
    assert_equal(first, second)


def test_a_pickled_file_is_never_opened(tmp_path: Path) -> None:
    run = make_learning_run()
    anew(run)
    (path,) = (tmp_path / "columns").iterdir()
    with path.open("wb") as file:
        np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert anew(run)[1] > 0


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(columns, "columns_folder", lambda: tmp_path / "file" / "columns")
    run = make_learning_run()
    assert len(anew(run)[0]) == 18
    assert anew(run)[1] > 0


def test_a_deleted_experiment_leaves_no_file(tmp_path: Path) -> None:
    run, other = make_learning_run(), make_learning_run()
    anew(run)
    anew(other)
    run.experiment.entomb(actor=None, reason="a test")
    sweep()
    assert [path.name.startswith(str(other.public_id)) for path in (tmp_path / "columns").iterdir()] == [True]

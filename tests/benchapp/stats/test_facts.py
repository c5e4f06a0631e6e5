"""Facts kept on disk: found by the same key alone, never needed, gone with their experiment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchapp.management.commands.sweep import sweep
from benchapp.stats.learning import computed_runs
from benchapp.stats.learning.computed_runs import keep_fact, take_fact
from tests.worlds.factories import make_learning_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_runs, "facts_folder", lambda: tmp_path / "facts")


def test_a_fact_is_found_by_its_key_and_the_latest_is_kept(tmp_path: Path) -> None:
    experiment = make_learning_run().experiment
    keep_fact(experiment, "verdict", 1, {"episodes": np.int64(3)})
    assert take_fact(experiment, "verdict", 1) == {"episodes": 3}
    keep_fact(experiment, "verdict", 2, {"episodes": 4})
    assert take_fact(experiment, "verdict", 1) is None
    assert len(list((tmp_path / "facts").iterdir())) == 1


def test_a_broken_file_and_a_folder_that_cannot_be_written_cost_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = make_learning_run().experiment
    keep_fact(experiment, "verdict", 1, {"episodes": 3})
    next((tmp_path / "facts").iterdir()).write_text("{")
    assert take_fact(experiment, "verdict", 1) is None
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(computed_runs, "facts_folder", lambda: tmp_path / "file" / "facts")
    keep_fact(experiment, "verdict", 1, {"episodes": 3})
    assert take_fact(experiment, "verdict", 1) is None


def test_a_deleted_experiment_leaves_no_fact(tmp_path: Path) -> None:
    experiment = make_learning_run().experiment
    keep_fact(experiment, "verdict", 1, {"episodes": 3})
    experiment.entomb(actor=None, reason="a test")
    sweep()
    assert list((tmp_path / "facts").iterdir()) == []

"""Classed refusals on disk: the same as read, of runs at their end alone, by public ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.analysis.failures.failure_reading import KEPT, read_failures
from benchapp.models import Run, Trial
from benchapp.stats.learning import computed_runs
from runner.base.types import Check, CheckGroup, CheckStatus, Verdict
from tests.worlds.factories import make_episode, make_run, make_trial

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_runs, "facts_folder", lambda: tmp_path / "facts")
    KEPT.clear()


def make_refused(status: str) -> Run:
    run = make_run(status=status)
    check = Check(CheckGroup.HIDDEN, "sum", CheckStatus.FAILED, "expected 41, got 42")
    make_trial(make_episode(run), phase="deployment", verdict=Verdict(source="suite", success=False, checks=(check,)))
    return run


def test_a_run_at_its_end_is_read_once(tmp_path: Path) -> None:
    run = make_refused(Run.Status.DONE)
    read = read_failures([run])
    assert [sign.quote for sign in read[run.pk].refused[0].classified.signs]
    KEPT.clear()
    with CaptureQueriesContext(connection) as asked:
        assert read_failures([run]) == read
    assert len(asked) == 1
    Trial.objects.all().delete()
    KEPT.clear()
    assert read_failures([run])[run.pk].refused == ()


def test_a_run_at_work_is_read_anew(tmp_path: Path) -> None:
    read_failures([make_refused(Run.Status.RUNNING)])
    assert not (tmp_path / "facts").exists()

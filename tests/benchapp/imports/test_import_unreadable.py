"""Folders that may not be read, entered or searched are reported, and everything beside them comes in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from benchapp.imports.batch import find
from benchapp.imports.formats import format_names
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading import walking
from benchapp.imports.reading.walking import Root
from tests.benchapp.import_folders import bring_in, job, write

NOBODY = 65534
EXPECTED = ": a folder that can be read"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that another user reaches as well: tmp_path is closed to all but its owner."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        _load_what_loads_late(Path(folder, "first"))
        yield Path(folder, "runs")


def _load_what_loads_late(folder: Path) -> None:
    """Python itself may lie where nobody else reads."""
    for found in find(Root(job(folder), ProblemList())):
        for each in found.trials:
            each.read()


@contextmanager
def nobody_s_eyes(closed: Path, mode: int = 0) -> Iterator[None]:
    """The folder is closed, and we are no superuser, to whom every folder is open."""
    before = closed.stat().st_mode
    closed.chmod(mode)
    if is_superuser := os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_superuser:
            os.seteuid(0)
        closed.chmod(before)


def found_as_nobody(place: Path, closed: Path, mode: int = 0) -> tuple[list[str], ProblemList]:
    """(names of the trials that could be read, problems)."""
    problems = ProblemList()
    with nobody_s_eyes(closed, mode):
        trials = [trial for found in find(Root(place, problems)) for trial in found.trials]
        for each in trials:
            each.digest()
            each.read()
    return sorted(Path(each.path).name for each in trials), problems


def places_of(problems: ProblemList, folder: Path) -> list[str]:
    return [f"{problem.place}: {problem.expected}" for problem in problems if problem.path == str(folder)]


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_closed_trial_is_reported_and_its_siblings_come_in(place, mode):
    closed = job(place / "job") / "sum-csv__0000002"
    names, problems = found_as_nobody(place, closed, mode)
    assert names == ["sum-csv__0000001", "sum-csv__0000003"]
    assert places_of(problems, closed) == [EXPECTED]


@pytest.mark.parametrize("part", ["agent", "verifier"])
def test_a_closed_part_of_a_trial_is_reported_and_the_trial_comes_in(place, part):
    closed = job(place / "job") / "sum-csv__0000002" / part
    names, problems = found_as_nobody(place, closed)
    assert names == ["sum-csv__0000001", "sum-csv__0000002", "sum-csv__0000003"]
    assert places_of(problems, closed) == [EXPECTED]


@pytest.mark.parametrize("name", ["stores", "skills", "eval_keypoints", "evaluation_log", "shared_skills", "notes"])
def test_a_closed_folder_beside_a_job_never_ends_the_import(place, name):
    job(place / "job")
    closed = write(place / "other" / name / "config.json", {}).parent
    names, problems = found_as_nobody(place, closed)
    assert len(names) == 3
    assert places_of(problems, closed) == [EXPECTED]


@pytest.mark.parametrize("format", format_names())
def test_every_format_reports_a_closed_folder(place, format):
    closed = write(place / "run" / "config.json", {}).parent
    problems = ProblemList()
    with nobody_s_eyes(closed):
        assert [found for found in find(Root(place, problems), format) if found.trials] == []


def test_a_file_that_vanishes_while_its_folder_is_listed_costs_no_other(tmp_path, monkeypatch):
    """A job that still runs removes files of its own at any moment."""
    gone = write(tmp_path / "b.txt", "")
    write(tmp_path / "a.txt", "")
    write(tmp_path / "c.txt", "")
    sort = Root._add_entry

    def vanish_first(self, entry, folders, files):
        if entry.path == str(gone):
            gone.unlink()
        sort(self, entry, folders, files)

    monkeypatch.setattr(Root, "_add_entry", vanish_first)
    problems = ProblemList()
    _, files = Root(tmp_path, problems).listing(tmp_path)
    assert [file.name for file in files] == ["a.txt", "c.txt"]
    assert places_of(problems, gone) == [": a file that can be read"]


@pytest.mark.django_db
def test_a_path_in_a_closed_folder_is_reported(place, monkeypatch):
    monkeypatch.setattr("benchapp.imports.batch.follow", lambda: None)
    monkeypatch.setattr("benchapp.imports.batch.enqueue_reading", lambda episodes: None)
    monkeypatch.setattr("benchapp.imports.batch.turn", lambda waiting: nullcontext())  # its file is not nobody's
    closed = write(place / "inner" / "x.json", {}).parent.parent
    with nobody_s_eyes(closed):
        report = bring_in(closed / "inner")
    assert [problem.expected for problem in report.problems] == ["a folder that can be read"]
    assert "Permission denied" in next(iter(report.problems)).message


def test_limits_are_reported_once_and_only_where_something_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in "ab":
        for name in "12":
            write(tmp_path / folder / name, "x")
    monkeypatch.setattr(walking, "MAX_TREE_FILES", 4)
    problems = ProblemList()
    assert (len(Root(tmp_path, problems).tree(tmp_path)), list(problems)) == (4, [])
    monkeypatch.setattr(walking, "MAX_TREE_FILES", 3)
    assert len(Root(tmp_path, problems).tree(tmp_path)) == 3
    assert [problem.expected for problem in problems] == ["at most 3 files"]

    monkeypatch.setattr(walking, "MAX_ENTRIES", 3)
    problems = ProblemList()
    root = Root(tmp_path, problems)
    for folder in (tmp_path, tmp_path / "a", tmp_path / "b"):
        root.listing(folder)
    assert [problem.expected for problem in problems] == ["at most 3 files and folders"]

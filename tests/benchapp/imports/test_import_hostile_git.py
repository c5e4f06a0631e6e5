"""A library's git repository is somebody else's: nothing in it runs, nothing outside it is read,
what is broken is reported."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest

from benchapp import audit
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading import git_history
from benchapp.imports.reading.git_history import open_history
from benchapp.imports.reading.walking import Root
from benchapp.models import Blob, Decision, Seeding, Trial
from tests.benchapp.evolution_folders import FIRST, RUN, LibraryFolder, evolution_run, git
from tests.benchapp.import_folders import bring_in, write

pytestmark = pytest.mark.django_db

SECRET = "root:x:0:0:do not read me"


@pytest.fixture
def folder(tmp_path):
    return evolution_run(tmp_path / "workspace" / "runs" / RUN)


def library(folder: Path) -> Path:
    return folder / "library" / "E1"


def test_it_runs_nothing_that_the_repository_names(folder, tmp_path):
    ran = tmp_path / "ran"
    script = write(tmp_path / "script.sh", f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    config = library(folder) / ".git" / "config"
    config.write_text(
        config.read_text()
        + f"[core]\n\tfsmonitor = {script}\n\tpager = {script}\n\thooksPath = {tmp_path}\n"
        + f"[alias]\n\tlog = !{script}\n\tls-tree = !{script}\n[diff]\n\texternal = {script}\n"
        + f'[remote "origin"]\n\turl = ext::{script}\n\tpromisor = true\n[extensions]\n\tpartialClone = origin\n'
    )
    report = bring_in(folder)
    assert list(report.problems) == []
    assert Decision.objects.count() == 2
    assert not ran.exists()


def borrowed(folder: Path, outside: Path) -> None:
    write(library(folder) / ".git/objects/info/alternates", f"{outside}/.git/objects\n")


def elsewhere(folder: Path, outside: Path) -> None:
    (library(folder) / ".git").rename(outside / "taken")
    write(library(folder) / ".git", f"gitdir: {outside}/taken\n")


def linked(folder: Path, outside: Path) -> None:
    (library(folder) / ".git/objects/zz").symlink_to(outside)


def lost_head(folder: Path, outside: Path) -> None:
    write(library(folder) / ".git/HEAD", "ref: refs/../../../outside/HEAD\n")


def missing_object(folder: Path, outside: Path) -> None:
    blob = git(library(folder), "rev-parse", "HEAD:active/totals/SKILL.md")
    (library(folder) / ".git/objects" / blob[:2] / blob[2:]).unlink()


def cut_commit(folder: Path, outside: Path) -> None:
    head = git(library(folder), "rev-parse", "HEAD")
    path = library(folder) / ".git/objects" / head[:2] / head[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:20])


@pytest.mark.parametrize("spoil", [borrowed, elsewhere, linked, lost_head, missing_object, cut_commit])
def test_it_refuses_a_history_that_reaches_outside_or_is_broken_and_keeps_the_trials(folder, tmp_path, spoil):
    outside = tmp_path / "outside"
    LibraryFolder(outside)
    spoil(folder, outside)
    report = bring_in(folder)
    assert [problem.place for problem in report.problems] == [".git"]
    assert (Trial.objects.count(), Decision.objects.count()) == (4, 0)
    assert list(audit.flaws()) == []


def test_it_leaves_out_links_and_nested_repositories(folder, tmp_path):
    outside = write(tmp_path / "passwd", SECRET)
    (library(folder) / "active" / "totals" / "notes.md").symlink_to(outside)
    git(library(folder), "add", "-A")
    git(library(folder), "commit", "-q", "-m", "a link")
    report = bring_in(folder)
    assert [(problem.place, problem.expected) for problem in report.problems] == [("totals/notes.md", "a regular file")]
    assert not [blob for blob in Blob.objects.all() if SECRET.encode() in blob.content()]


def test_it_leaves_out_paths_that_lead_out_of_the_library(folder):
    """git itself writes no tree like this; whoever makes one by hand can."""
    at = library(folder)
    path = git(at, "ls-tree", "-r", "--name-only", "HEAD").splitlines()[0]
    blob = git(at, "rev-parse", f"HEAD:{path}")
    inner = tree(at, (b"100644", b"SKILL.md", blob))
    evil = tree(at, (b"40000", b"..", inner), (b"40000", b"fine", inner))
    with open_history(Root(folder, ProblemList()), at) as history:
        assert set(history.files(tree(at, (b"40000", b"active", evil)), "active")) == {"fine/SKILL.md"}
        assert [problem.expected for problem in history.root.problems] == ["a path inside the library"]


def tree(at: Path, *entries: tuple[bytes, bytes, str]) -> str:
    """A tree object with names as given, written past git's own checks."""
    body = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(ident) for mode, name, ident in entries)
    content = b"tree %d\0" % len(body) + body
    ident = hashlib.sha1(content).hexdigest()
    path = at / ".git" / "objects" / ident[:2] / ident[2:]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(zlib.compress(content))
    return ident


def test_it_reads_no_file_that_is_too_large(folder, monkeypatch):
    monkeypatch.setattr(git_history, "MAX_FILE_BYTES", len(FIRST))
    report = bring_in(folder)
    assert [problem.place for problem in report.problems][:1] == ["totals/SKILL.md"]


def test_it_reads_no_more_than_a_bounded_whole(folder, monkeypatch):
    monkeypatch.setattr(git_history, "MAX_READ_BYTES", 10)
    report = bring_in(folder)
    assert [problem.place for problem in report.problems] == [".git"]
    assert (Trial.objects.count(), Decision.objects.count()) == (4, 0)


def test_a_change_that_no_event_explains_is_kept_and_reported(folder):
    patches = folder / "stores/events/patches.jsonl"
    patches.write_text("".join(patches.read_text().splitlines(keepends=True)[1:]))
    report = bring_in(folder)
    assert [problem.place for problem in report.problems] == ["E1-LS1-T2"]
    assert (Seeding.objects.get().family.key, Decision.objects.get().number) == ("E1-LS1", 1)
    assert list(audit.flaws()) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"event_type": 5}\n', "\0\0\0", '{"event_type": "patch_applied"}\n'])
def test_broken_events_stop_no_trial(folder, content):
    write(folder / "stores/events/patches.jsonl", content)
    bring_in(folder)
    assert Trial.objects.count() == 4
    assert list(audit.flaws()) == []


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"task_id": 5, "outcome": []}', '{"outcome": {"reward": NaN}}'])
def test_a_broken_record_stops_no_other(folder, content):
    write(folder / "stores/replay/records/E1-LS1-T4.json", content)
    report = bring_in(folder)
    assert Trial.objects.filter(success__isnull=False).count() == 3
    assert report.exit_status == 3
    assert list(audit.flaws()) == []

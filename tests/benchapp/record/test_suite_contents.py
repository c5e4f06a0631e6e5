"""A loaded suite's files in the record: a machine without the folder writes them into its cache and runs the same
tasks."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchapp.experiments import plans, preparation
from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.management.commands.sweep import sweep
from benchapp.models import Blob, Episode, Suite, SuiteFile, Trial
from benchapp.record.sets import suite_files
from benchapp.record.sets.suite_files import CACHE_BYTES, UNUSED_SECONDS, find_suite
from runner import suites
from runner.base.errors import SetupError

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"
STARTER = Path(suites.__file__).parent / "starter"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "digests"))
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path / "var"))
    return tmp_path / "var" / "suites"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))


def load(folder: Path) -> str:
    out = StringIO()
    call_command("load_suite", str(folder), "--key", "ours", stdout=out)
    return out.getvalue()


def move_away(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def digests(key: str = "ours") -> dict[str, str]:
    families = [family for environment in find_suite(key).environments for family in environment.families]
    return {task.key: task.digest for family in families for task in family.tasks}


def list_refusals(folder: Path) -> list[str]:
    return [line for line in load(folder).splitlines() if "same path" in line]


def list_modes(folder: Path) -> dict[str, int]:
    return {str(each.relative_to(folder)): each.stat().st_mode for each in folder.rglob("*")}


def list_outside(folder: Path, cache: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if cache not in each.parents and "digests" not in each.parts)


def test_an_episode_runs_to_its_end_without_the_folder(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    for module in (preparation, plans):  # so that they may run in the local sandbox
        monkeypatch.setattr(module, "find_suite", lambda key: replace(find_suite(key), trusted=True))
    folder = Path(shutil.copytree(STARTER, tmp_path / "own"))
    load(folder)
    before = digests()
    spec: dict[str, Any] = {
        "name": "Away",
        "suite": "ours",
        "environments": ["E1"],
        "conditions": ["no-skill"],
        "replicates": 1,
        "agent_model": "scripted/apprentice",
        "sandbox": "local",
    }
    episode = Episode.objects.get(run__experiment=launch(spec))
    move_away(folder)
    for _ in range(Trial.objects.count()):
        advance.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert (episode.status, episode.blocked_reason) == ("done", "")
    assert set(Trial.objects.values_list("is_done", "success")) >= {(True, True)}
    assert digests() == before
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(
    "place",
    [
        *EXAMPLES.glob("harbor/*"),
        EXAMPLES / "harbor/first-steps" / "tasks",
        EXAMPLES / "skillevolbench",
        EXAMPLES / "skillflow",
        EXAMPLES / "skilllearnbench",
        STARTER.with_name("starter_corpora"),
        STARTER.with_name("starter_environments"),
    ],
    ids=lambda place: str(place.relative_to(place.parents[1])),
)
def test_every_format_reads_the_same_from_the_record(tmp_path: Path, place: Path) -> None:
    if not place.is_dir():
        place = place.parent
    folder = Path(shutil.copytree(place, tmp_path / "A set, v2" / place.name))
    assert "same path" not in load(folder)
    read, before = find_suite("ours"), digests()
    for each in [place, *place.rglob("*")]:
        (folder / each.relative_to(place)).chmod(0o755 if each.is_dir() or each.stat().st_mode & 0o100 else 0o644)
    modes = list_modes(folder)
    move_away(folder)
    assert (find_suite("ours").digest, digests()) == (read.digest, before)
    cached = Path(find_suite("ours").environments[0].families[0].tasks[0].folder)
    root = next(each for each in cached.parents if each.name == folder.name)
    assert list_modes(root).items() <= modes.items()
    assert find_suite("ours").environments[0].families[0].tasks[0].groups == (
        read.environments[0].families[0].tasks[0].groups
    )


def test_another_process_uses_what_is_in_the_cache(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(folder)
    move_away(folder)
    find_suite("ours")
    suite = Suite.objects.get()
    suite_files._write(suite, Path("flow"), cache / suite.files_digest)  # a process that began at the same time
    suites._REMEMBERED.clear()
    monkeypatch.setattr(suite_files, "_write", None)
    assert find_suite("ours").digest == suite.digest
    assert [each.name for each in cache.iterdir()] == [suite.files_digest]


def test_a_changed_file_gives_another_folder_and_the_files_go_with_the_suite(folder: Path, cache: Path) -> None:
    load(folder)
    away = folder.with_name("elsewhere")
    move_away(folder)
    before = find_suite("ours").digest
    away.rename(folder)
    task = next(folder.rglob("instruction.md"))
    task.write_text("Something else.\n")
    (folder / "Ledger-Reconciliation" / "ledger_cash_box" / "environment" / "empty").mkdir()
    load(folder)
    move_away(folder)
    assert find_suite("ours").digest not in ("", before)
    assert len(list(cache.iterdir())) == 2
    assert len(list(cache.glob("*/flow/*/*/environment/empty"))) == 1
    sweep()
    assert Blob.objects.filter(pk__in=SuiteFile.objects.values("blob")).count() == (
        SuiteFile.objects.values("blob").distinct().count()
    )
    Suite.objects.all().delete()
    assert not SuiteFile.objects.exists()
    sweep()
    assert not Blob.objects.exists()


@pytest.mark.parametrize(("name", "value"), [("MAX_FILES", 3), ("MAX_BYTES", 2_000), ("MAX_BLOB_BYTES", 200)])
def test_a_suite_beyond_the_bounds_stays_in_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    load(folder)
    monkeypatch.setattr(suite_files, name, value)
    (said,) = list_refusals(folder)
    assert said.startswith("Every worker needs the folder at the same path, because ")
    assert (SuiteFile.objects.count(), Suite.objects.get().files_digest) == (0, "")
    move_away(folder)
    with pytest.raises(SetupError, match="not on this machine.*not in the record.*same path"):
        find_suite("ours")


@pytest.mark.parametrize(
    ("target", "is_out"),
    [("instruction.md", False), ("nowhere", False), ("../../../../x", True), ("/etc/passwd", True)],
)
def test_a_link_is_kept_and_one_that_leads_out_keeps_the_suite_in_its_folder(
    folder: Path, cache: Path, target: str, is_out: bool
) -> None:
    task = folder / "Ledger-Reconciliation" / "ledger_cash_box"
    (task / "notes").symlink_to(target)
    refusals = list_refusals(folder)
    assert bool(refusals) == is_out
    if is_out:
        assert "ledger_cash_box/notes is a link that leads out of the folder" in refusals[0]
        return
    before = find_suite("ours").digest
    move_away(folder)
    assert find_suite("ours").digest == before
    (cached,) = cache.iterdir()
    assert str((cached / "flow/Ledger-Reconciliation/ledger_cash_box/notes").readlink()) == target


def test_a_root_behind_a_link_keeps_the_suite_in_its_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tasks").symlink_to(folder / "Ledger-Reconciliation")
    out = StringIO()
    call_command("load_suite", str(tmp_path / "other"), "--format", "harbor", stdout=out)
    assert "same path, because tasks/ledger" in out.getvalue()
    assert "is behind a link." in out.getvalue()


@pytest.mark.parametrize(
    "rows",
    [
        [("../out", "file", b"x")],
        [(".", "folder", b"")],
        [("a/../../../out", "file", b"x")],
        [("{out}", "file", b"x")],
        [("link", "link", b"{parent}"), ("link/out", "file", b"x")],
        [("link", "link", b"../..")],
        [("p/q/up", "link", b"../.."), ("far", "link", b"p/q/up/../z")],
        [("link", "link", b"a\0b")],
    ],
)
def test_a_hostile_row_writes_nothing_outside(
    folder: Path, cache: Path, tmp_path: Path, rows: list[tuple[str, str, bytes]]
) -> None:
    load(folder)
    move_away(folder)
    suite = Suite.objects.get()
    outside = tmp_path / "target"
    outside.mkdir()
    for path, kind, content in rows:
        blob = Blob.objects.put(content.replace(b"{parent}", os.fsencode(outside)))
        SuiteFile.objects.create(suite=suite, path=path.format(out=outside / "out"), kind=kind, blob_id=blob)
    with pytest.raises(SetupError, match="not those that were recorded"):
        find_suite("ours")
    suite.files_digest = suite_files._digest(suite, suite.files.values_list("path", "kind", "blob_id"))
    suite.save()
    cache.mkdir(parents=True)
    before = list_outside(tmp_path, cache)
    if rows[-1][0] == "link/out":  # the link gave way to a folder
        find_suite("ours")
        assert len(list(cache.glob("*/flow/link/out"))) == 1
    else:
        with pytest.raises(SetupError, match="cannot be written"):
            find_suite("ours")
        assert list(cache.iterdir()) == []
    assert list_outside(tmp_path, cache) == before


def test_a_hostile_digest_names_no_folder_outside(folder: Path) -> None:
    load(folder)
    move_away(folder)
    Suite.objects.update(files_digest="../../elsewhere")
    with pytest.raises(SetupError, match="cannot be written"):
        find_suite("ours")


def test_a_full_cache_loses_what_was_not_used_for_longest(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age, name in enumerate(["used", "older", "oldest", f"killed{suite_files.PART}"]):
        (cache / name).mkdir(parents=True)
        (cache / name / "file").write_bytes(b"x" * 1_000_000)
        at = (cache / "used").stat().st_mtime - age * (UNUSED_SECONDS + 60)
        os.utime(cache / name, (at, at))
    load(folder)
    move_away(folder)
    monkeypatch.setattr(suite_files, "CACHE_BYTES", 2_500_000)
    find_suite("ours")
    assert {each.name for each in cache.iterdir()} == {"used", "older", Suite.objects.get().files_digest}
    monkeypatch.setattr(suite_files, "CACHE_BYTES", 0)
    suite_files._prune(cache)
    assert {each.name for each in cache.iterdir()} == {"used", Suite.objects.get().files_digest}
    assert CACHE_BYTES == 5_000_000_000

"""manage.py load_suite: everything checked first, all problems at once, and suites that can then be launched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from benchapp.experiments.launch import launch
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.work import advance
from benchapp.models import Environment, Episode, Family, Suite, Task, TaskRevision, Trial
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import SetupError
from runner.suites import SUITES, read_suite_folder
from tests.runner.suites.test_account import two_sets, write_pointers

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / "skillevolbench", tmp_path / "our-family"))


def run(*arguments: str) -> tuple[int, str, str]:
    out, err, status = StringIO(), StringIO(), 0
    try:
        call_command("load_suite", *arguments, stdout=out, stderr=err)
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    return status, out.getvalue(), err.getvalue()


def test_it_records_environments_families_and_tasks(folder: Path) -> None:
    status, out, _ = run(str(folder))
    assert status == 0
    assert "Launch it as suite: our-family" in out
    assert "Composes with E3-LS5, which is not in this copy: E3-LS2-T6" in out
    suite = Suite.objects.get()
    assert (suite.key, suite.path, suite.format) == ("our-family", str(folder), "skillevolbench")
    assert suite.digest == find_suite("our-family").digest
    assert [each.key for each in Environment.objects.all()] == ["E3"]
    assert [each.slug for each in Family.objects.all()] == ["unit-aware-totals"]
    assert [(task.key, task.role) for task in Task.objects.order_by("ordinal")][4:] == [
        ("E3-LS2-T5", "adversarial"),
        ("E3-LS2-T6", "composition"),
    ]


def test_a_check_records_nothing(folder: Path) -> None:
    status, out, _ = run(str(folder), "--check")
    assert (status, "6 tasks can be loaded." in out, Suite.objects.count()) == (0, True, 0)


def test_it_tells_every_problem_at_once_and_loads_nothing(folder: Path) -> None:
    tasks = folder / "benchmark" / "tasks"
    (tasks / "parcels-by-depot" / "tests" / "test.sh").unlink()
    (tasks / "harvest-by-field" / "task.toml").write_text("version = ")
    (tasks / "cheese-by-dairy" / "instruction.md").write_text("")
    status, out, _ = run(str(folder), "--json")
    told = json.loads(out)
    found = {(Path(each["path"]).name, each["place"]) for each in told["problems"]}
    assert {("parcels-by-depot", "tests/test.sh"), ("task.toml", "file"), ("instruction.md", "file")} <= found
    assert (status, told["recorded"], Suite.objects.count()) == (1, False, 0)
    _, _, err = run(str(folder))
    assert "Nothing was loaded" in err
    assert "Read as skillevolbench; choose another format with --format." in err
    assert "tests/test.sh: there is none (expected the file)" in err


def test_a_bad_task_is_set_aside_unless_all_of_a_release_is_asked_for(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skilllearnbench", tmp_path / "release"))
    (folder / "tasks/log-level-counts/log-level-counts-2/tests/test.sh").unlink()
    status, out, err = run(str(folder), "--strict")
    assert (status, Suite.objects.count()) == (1, 0)
    assert "tests/test.sh: there is none (expected the file)" in err
    status, out, _ = run(str(folder))
    assert (status, Task.objects.count()) == (0, 3)
    assert out.startswith(
        "Found 4 tasks: 3 loaded, 1 set aside.\n"
        "      1  set aside: no tests/test.sh (tasks/log-level-counts/log-level-counts-2)\n"
    )
    assert "Loaded 3 tasks; 1 set aside. Launch it as suite: release" in out
    told = json.loads(run(str(folder), "--check", "--json")[1])
    assert [problem["place"] for problem in told["set_aside"]["task log-level-counts-2"]] == ["tests/test.sh"]


def test_the_account_of_every_task_is_printed_first_kept_and_in_the_json(tmp_path: Path) -> None:
    two_sets(tmp_path / "repo")
    _, out, _ = run(str(tmp_path / "repo"))
    first, *lines = out.splitlines()
    assert first == read_suite_folder(tmp_path / "repo").account.sentence()  # type: ignore[union-attr]
    assert lines[0].startswith("      3  set aside: files are Git LFS pointers; run `git lfs pull`, then load again (")
    assert "      2  left out: in another set; load pilot/ on its own (pilot/first, pilot/second)" in lines
    assert sum("LFS" in line for line in lines) == 1
    told = json.loads(run(str(tmp_path / "repo"), "--check", "--json")[1])["account"]
    assert told == Suite.objects.get().account
    counts = [line["count"] for name in ("set_aside", "left_out") for line in told[name]]
    assert told["found"] == told["loaded"] + sum(counts) == 16


def test_a_clone_without_its_large_files_is_refused_in_one_line(tmp_path: Path) -> None:
    for number in range(3):
        write_pointers(tmp_path / f"s/lfs-{number}", *(f"environment/{each}.bin" for each in range(61)))
    status, _, err = run(str(tmp_path / "s"))
    assert status == 1
    assert err.splitlines()[:2] == [
        "Found 3 tasks: 0 loaded, 3 set aside.",
        "      3  set aside: files are Git LFS pointers; run `git lfs pull`, then load again (lfs-0, lfs-1, lfs-2)",
    ]
    assert len(err.splitlines()) <= 5


def test_a_fresh_clone_sets_its_database_up(tmp_path: Path) -> None:
    place = {"SKILLGLASS_VAR": str(tmp_path / "var"), "SKILLGLASS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "manage.py", "load_suite", str(EXAMPLES / "harbor" / "first-steps"), "--check"],
        cwd=EXAMPLES.parents[1],
        env={**{name: value for name, value in os.environ.items() if name != "DATABASE_URL"}, **place},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Found ")


def test_loading_again_after_a_change_adds_a_revision(folder: Path) -> None:
    run(str(folder))
    with (folder / "benchmark" / "tasks" / "doses-by-ward" / "instruction.md").open("a") as file:
        file.write("\nOne more sentence.\n")
    assert run(str(folder))[0] == 0
    assert Suite.objects.count() == 1
    assert TaskRevision.objects.count() == 7
    assert TaskRevision.objects.filter(task__key="E3-LS2-T5").count() == 2


@pytest.mark.parametrize(
    ("key", "said"), [("starter", "bundled"), ("imported", "imported runs"), ("other", "loaded from"), (" ", "--key")]
)
def test_a_name_that_is_taken_is_refused(folder: Path, tmp_path: Path, key: str, said: str) -> None:
    Suite.objects.create(key="imported", name="imported")
    Suite.objects.create(key="other", name="other", path=str(tmp_path / "elsewhere"), digest="0" * 64)
    status, _, err = run(str(folder), "--key", key)
    assert status == 1
    assert said in err
    assert Task.objects.count() == 0


def test_a_folder_that_moved_keeps_its_name(folder: Path, tmp_path: Path) -> None:
    run(str(folder), "--key", "ours")
    moved = Path(shutil.move(folder, tmp_path / "moved"))
    assert run(str(moved), "--key", "ours")[0] == 0
    assert Suite.objects.get().path == str(moved)


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_a_folder_that_is_no_suite_is_named(tmp_path: Path, path: str) -> None:
    status, out, _ = run(str(tmp_path / path), "--json")
    assert status == 1
    assert str(tmp_path / path) in json.loads(out)["problems"][0]["message"]


def test_problems_with_names_of_broken_bytes_can_be_printed(folder: Path) -> None:
    os.mkfifo(folder / "benchmark" / "tasks" / "doses-by-ward" / os.fsdecode(b"pipe-\xff"))
    status, out, _ = run(str(folder), "--json")
    assert (status, json.loads(out.encode())["problems"][0]["message"]) == (1, "it is a special file")


def test_a_suite_whose_folder_and_files_are_gone_says_so(folder: Path) -> None:
    run(str(folder))
    shutil.rmtree(folder)
    Suite.objects.update(files_digest="")
    with pytest.raises(SetupError, match="not on this machine.*same path"):
        find_suite("our-family")


def test_an_unknown_suite_names_the_known_ones(folder: Path) -> None:
    run(str(folder))
    with pytest.raises(
        SetupError, match="starter, starter-corpora, starter-environments, starter-learning, our-family"
    ):
        find_suite("another")


def test_a_loaded_suite_is_launched_by_its_name_and_never_locally(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    run(str(folder), "--key", "ours")
    spec: dict[str, Any] = {
        "name": "Ours",
        "suite": "ours",
        "conditions": ["no-skill"],
        "replicates": 1,
        "agent": "oracle",
    }
    with pytest.raises(SetupError, match="not trusted"):
        launch({**spec, "sandbox": "local"})
    launch({**spec, "sandbox": "docker"})
    episode = Episode.objects.select_related("run__experiment").get()
    assert plan_of(episode, suite_of(episode)).environment.key == "E3"
    assert Trial.objects.count() == 6


def test_a_task_that_changed_since_the_launch_stops_the_episode(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    run(str(folder), "--key", "ours")
    launch(
        {
            "name": "Ours",
            "suite": "ours",
            "conditions": ["no-skill"],
            "replicates": 1,
            "agent": "oracle",
            "sandbox": "docker",
        }
    )
    (folder / "benchmark" / "tasks" / "doses-by-ward" / "tests" / "expected.json").write_text("{}")
    episode = Episode.objects.select_related("run__experiment").get()
    with pytest.raises(SetupError, match="suite.digest"):
        plan_of(episode, suite_of(episode))


def test_the_list_tells_bundled_and_loaded_suites_and_what_changed(folder: Path) -> None:
    run(str(folder), "--key", "ours")
    out = StringIO()
    call_command("suites", stdout=out)
    assert [line.split()[0] for line in out.getvalue().splitlines()] == [*SUITES, "ours"]
    assert out.getvalue().count("as loaded") == len(SUITES) + 1
    (folder / "benchmark" / "tasks" / "doses-by-ward" / "tests" / "expected.json").write_text("{}")
    out = StringIO()
    call_command("suites", "--json", stdout=out)
    assert [row["state"] for row in json.loads(out.getvalue())][-2:] == ["as loaded", "changed since it was loaded"]
    shutil.rmtree(folder)
    out = StringIO()
    call_command("suites", "--json", stdout=out)
    assert "not on this machine" in json.loads(out.getvalue())[-1]["state"]

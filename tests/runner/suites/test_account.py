"""The account of a suite: every task.toml below the path is loaded, set aside or left out, with one counted reason."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from benchapp.record.sets.suite_files import SuiteFolder
from runner.base.errors import Account, SetupError, SuiteProblems
from runner.suites import read_suite_folder
from runner.suites.starter_suite import STARTER, STARTER_CORPORA
from tests.cases import every
from tests.release_trees import POINTER
from tests.runner.suites.test_suite_readers import EXAMPLES, tasks_of, write_task

STEPS = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def account_of(path: Path, format: str | None = None) -> Account:
    account = read_suite_folder(path, format).account
    assert account is not None
    assert account.found == account.loaded + account.count_set_aside + account.count_left_out
    return account


def reasons(lines: tuple[tuple[str, tuple[str, ...]], ...]) -> list[tuple[str, int]]:
    return [(reason, len(tasks)) for reason, tasks in lines]


def count_task_files(path: Path) -> int:
    return sum("task.toml" in files for _, _, files in os.walk(path))


def write_pointers(folder: Path, *names: str) -> None:
    write_task(folder, **dict.fromkeys(names, POINTER))


# --- whole repositories -----------------------------------------------------------------------------------------


def two_sets(path: Path) -> None:
    """tasks/ with categories next to pilot/; multi-step and multi-service tasks, pointers, tasks in odd places."""
    for name in ("a", "b", "c"):
        write_task(path / "tasks/code" / name)
    write_task(path / "tasks/code/several", STEPS)
    write_task(path / "tasks/web/services")
    (path / "tasks/web/services/environment/docker-compose.yaml").write_text("services: {main: {}, db: {}}\n")
    for number in range(3):
        write_pointers(path / "tasks/data" / f"lfs-{number}", *(f"environment/rows{each}.csv" for each in range(61)))
    write_task(path / "tasks/web/tpu", "[environment]\ntpu = {type = 'v5'}\n")
    write_task(path / "tasks/_verify/parity")
    write_task(path / "tasks/.hidden/one")
    write_task(path / "tasks/code/a/environment/inner")
    write_task(path / "tasks/web/node_modules/package/fixture")
    write_task(path / "pilot/first")
    write_task(path / "pilot/second")
    write_task(path / "tasks/deep/er/and/deeper/task")


def test_a_repository_with_two_sets_is_accounted_for_to_the_last_task(tmp_path: Path) -> None:
    two_sets(tmp_path / "repo")
    account = account_of(tmp_path / "repo")
    assert account.found == count_task_files(tmp_path / "repo") == 16
    assert account.loaded >= 3
    assert reasons(account.set_aside)[0] == ("files are Git LFS pointers; run `git lfs pull`, then load again", 3)
    assert reasons(account.set_aside).count(("needs a TPU", 1)) == 1
    left = dict(account.left_out)
    assert left["in another set; load pilot/ on its own"] == ("pilot/first", "pilot/second")
    assert left["in a folder whose name begins with _"] == ("tasks/_verify/parity",)
    assert left["in a hidden folder"] == ("tasks/.hidden/one",)
    assert left["inside another task"] == ("tasks/code/a/environment/inner",)
    assert left["in a folder of installed packages"] == ("tasks/web/node_modules/package/fixture",)
    assert left["more than 2 folders below the set"] == ("tasks/deep/er/and/deeper/task",)
    numbers = f"{account.loaded} loaded, {account.count_set_aside} set aside, 7 left out."
    assert account.sentence() == f"Found 16 tasks: {numbers}"


def test_reasons_come_most_frequent_first(tmp_path: Path) -> None:
    two_sets(tmp_path / "repo")
    for lines in (account_of(tmp_path / "repo").set_aside, account_of(tmp_path / "repo").left_out):
        counts = [len(tasks) for _, tasks in lines]
        assert counts == sorted(counts, reverse=True)


def test_a_flat_repository_with_sets_side_by_side_and_a_stray_file_at_its_top(tmp_path: Path) -> None:
    for name in ("one", "two", "v1.2", "_draft"):
        write_task(tmp_path / "s" / name)
    write_task(tmp_path / "s/extra/tasks/three")
    (tmp_path / "s/task.toml").write_text("")
    account = account_of(tmp_path / "s")
    assert (account.found, account.loaded) == (count_task_files(tmp_path / "s"), 4)
    assert dict(account.left_out) == {
        "in a folder whose name begins with _": ("_draft",),
        "at the top of the set, in no task's folder": (".",),
    }


def test_names_that_repeat_two_folders_down_keep_their_tasks(tmp_path: Path) -> None:
    for category in ("x", "y"):
        write_task(tmp_path / "tasks" / category / "part" / "same")
    account = account_of(tmp_path)
    assert (account.found, account.loaded) == (2, 2)


def test_links_are_never_followed_out(tmp_path: Path) -> None:
    write_task(tmp_path / "outside/category/task")
    write_task(tmp_path / "s/tasks/code/mine")
    (tmp_path / "s/tasks/code/linked").symlink_to(tmp_path / "outside/category/task")
    (tmp_path / "s/tasks/category").symlink_to(tmp_path / "outside/category")
    (tmp_path / "s/tasks/loop").symlink_to(tmp_path / "s/tasks")
    account = account_of(tmp_path / "s")
    assert (account.found, account.loaded) == (2, 1)
    assert account.set_aside == (("a link", ("tasks/code/linked",)),)


@every(
    (POINTER.encode(), "files are Git LFS pointers; run `git lfs pull`, then load again"),
    ("version = '1.0'".encode("utf-16"), "task.toml is not UTF-8"),
    (b"version = ", "task.toml is not readable TOML"),
    (b"[agent]\ntimeout_sec = 'long'\n", "task.toml: agent.timeout_sec is not a number from 1 to 86,400"),
    (b"[environment]\ngpus = 3\n", "needs a GPU"),
    (b"[environment]\ntpu = {type = 'v5'}\n", "needs a TPU"),
)
def test_a_file_that_cannot_be_used_gives_one_reason(content: bytes, reason: str, tmp_path: Path) -> None:
    write_task(tmp_path / "s/good")
    for name in ("bad", "worse"):
        write_task(tmp_path / "s" / name)
        (tmp_path / "s" / name / "task.toml").write_bytes(content)
    assert reasons(account_of(tmp_path / "s").set_aside) == [(reason, 2)]


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        ("environment", "no environment folder"),
        ("tests", "no tests/test.sh"),
        ("instruction.md", "no instruction.md"),
        ("task.toml", "no task.toml"),
    ],
)
def test_what_is_missing_is_named_plainly(tmp_path: Path, gone: str, reason: str) -> None:
    write_task(tmp_path / "s/good")
    place = write_task(tmp_path / "s/bad") / gone
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    assert account_of(tmp_path / "s").set_aside == ((reason, ("bad",)),)


def test_names_of_broken_bytes_are_counted_and_printable(tmp_path: Path) -> None:
    write_task(tmp_path / "s/good")
    write_task(tmp_path / "s" / os.fsdecode(b"bad-\xff\xfe"))
    account = account_of(tmp_path / "s")
    assert (account.found, account.loaded, account.count_set_aside) == (2, 1, 1)
    account.set_aside[0][1][0].encode()


def test_a_folder_that_cannot_be_read_costs_no_other_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_task(tmp_path / "s/code/good")
    write_task(tmp_path / "s/closed/bad")
    real, scan = os.listdir, os.scandir

    def refuse(read):  # type: ignore[no-untyped-def]
        def guarded(place=".", *rest):  # type: ignore[no-untyped-def]
            if os.fspath(place) == str(tmp_path / "s/closed"):
                raise PermissionError(13, "Permission denied", place)
            return read(place, *rest)

        return guarded

    monkeypatch.setattr(os, "listdir", refuse(real))
    monkeypatch.setattr(os, "scandir", refuse(scan))
    suite = read_suite_folder(tmp_path / "s")
    assert suite.account is not None
    assert (suite.account.found, suite.account.loaded) == (1, 1)
    assert any("Cannot be read" in note and "closed" in note for note in suite.notes)


# --- every format -----------------------------------------------------------------------------------------------


@every(
    (EXAMPLES / "skillevolbench", "benchmark/tasks"),
    (EXAMPLES / "skillflow", "Ledger-Reconciliation"),
    (EXAMPLES / "skilllearnbench", "tasks/log-level-counts"),
    (STARTER_CORPORA, "corpora"),
    (STARTER, "tasks"),
    (EXAMPLES / "harbor/public-set", "."),
)
def test_every_format_accounts_for_tasks_next_to_its_own(source: Path, base: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(source, tmp_path / "s"))
    loaded = account_of(folder).loaded
    write_task(folder / base / "_kept")
    write_task(folder / base / ".cache/stale")
    account = account_of(folder)
    assert (account.found, account.loaded) == (count_task_files(folder), loaded)
    assert ("in a hidden folder", 1) in reasons(account.left_out)


def test_a_family_that_is_set_aside_counts_all_its_tasks(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "s"))
    shutil.copytree(folder / "Ledger-Reconciliation", folder / "Broken")
    (folder / "Broken/ALL_TASK_DIFFICULTY_RANKING.json").write_text("{}")
    account = account_of(folder)
    tasks = count_task_files(folder / "Broken")
    assert account.set_aside[0][0].startswith("the family is set aside: ALL_TASK_DIFFICULTY_RANKING.json is not")
    assert (len(account.set_aside[0][1]), account.loaded) == (tasks, tasks)


def test_a_skillevolbench_family_without_a_role_counts_the_tasks_that_are_there(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillevolbench", tmp_path / "s"))
    shutil.rmtree(folder / "benchmark/tasks/parcels-by-depot")
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(folder)
    account = caught.value.account
    assert account is not None
    assert (account.found, account.loaded, account.count_set_aside) == (5, 0, 5)
    (line,) = account.set_aside
    assert re.fullmatch(r"the family is set aside: it has no task for the role \w+", line.reason)


def test_where_nothing_loads_the_refusal_has_the_account(tmp_path: Path) -> None:
    for number in range(4):
        write_pointers(tmp_path / f"s/lfs-{number}", *(f"environment/{each}.bin" for each in range(50)))
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(tmp_path / "s")
    assert caught.value.account is not None
    assert caught.value.account.sentence() == "Found 4 tasks: 0 loaded, 4 set aside."
    assert len(caught.value.account.set_aside) == 1


def test_tasks_too_deep_for_any_format_are_named_with_the_folder_to_load(tmp_path: Path) -> None:
    for name in ("x", "y"):
        write_task(tmp_path / "data/sets/one/tasks" / name)
    with pytest.raises(SetupError, match=r"2 task.toml.*data/sets/one/tasks"):
        read_suite_folder(tmp_path)


# --- keys and families ------------------------------------------------------------------------------------------


def test_a_made_key_is_never_the_key_of_another_task(tmp_path: Path) -> None:
    names = ("x.same", "x/same", "y/same", "x/other", "y/other2")
    for name in names:
        write_task(tmp_path / "s" / name)
    suite = read_suite_folder(tmp_path / "s", strict=True)
    keys = {str(task.folder.relative_to(tmp_path / "s")): task.key for task in tasks_of(suite)}
    assert keys == dict(zip(names, ("x.same", "x.same.2", "y.same", "other", "other2"), strict=True))
    assert "Another task has the key made of its folders, so it ends in a number: x/same" in suite.notes


def test_two_made_keys_are_never_the_same(tmp_path: Path) -> None:
    for name in ("a.b/c", "z/c", "a/b.c", "z/b.c"):
        write_task(tmp_path / "s" / name)
    suite = read_suite_folder(tmp_path / "s", strict=True)
    assert sorted(task.key for task in tasks_of(suite)) == ["a.b.c", "a.b.c.2", "z.b.c", "z.c"]


def test_a_number_never_takes_the_key_that_another_task_has_anyway(tmp_path: Path) -> None:
    names = ("x.same", "x/same", "x/same.2", "y/same", "y/same.2")
    for name in names:
        write_task(tmp_path / "s" / name)
    suite = read_suite_folder(tmp_path / "s", strict=True)
    keys = [task.key for task in sorted(tasks_of(suite), key=lambda task: str(task.folder))]
    assert keys == ["x.same", "x.same.3", "x.same.2", "y.same", "y.same.2"]


def test_a_key_that_is_too_long_is_the_reason_of_every_task_of_its_family(tmp_path: Path) -> None:
    for name in ("x/" + "n" * 200, "y/" + "n" * 200, "x/other", "z/good"):
        write_task(tmp_path / "s" / name)
    account = account_of(tmp_path / "s")
    found = {task[:7]: reason for reason, tasks in account.set_aside for task in tasks}
    assert list(found) == ["x/nnnnn", "x/other", "y/nnnnn"]
    assert all("is longer than 200 characters" in reason for reason in found.values())


def test_a_family_of_suite_yaml_names_the_task_it_is_set_aside_for(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(STARTER, tmp_path / "s"))
    (folder / "tasks/alarm-night/task.toml").write_text("version = ")
    reason = "the family is set aside: alarm-night: task.toml is not readable TOML"
    assert (reason, 6) in reasons(account_of(folder).set_aside)


# --- reasons in words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("two words", "the folder's name has other characters than letters of a-z and A-Z, digits, '.', '_' and '-'"),
        ("-dash", "the folder's name begins with another character than a letter of a-z or A-Z or a digit"),
        ("n" * 201, "the folder's name is longer than 200 characters"),
    ],
)
def test_a_name_that_is_refused_gives_the_rule_it_breaks(tmp_path: Path, name: str, reason: str) -> None:
    write_task(tmp_path / "s/good")
    write_task(tmp_path / "s" / name)
    assert account_of(tmp_path / "s").set_aside == ((reason, (name,)),)


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("task.toml", "#" * (3 * 1024**2), "task.toml is larger than 1 MB"),
        ("tests/data.bin", "x" * (16 * 1024**2 + 1), "tests/data.bin is larger than 16 MB"),
        ("instruction.md", " ", "instruction.md is empty, not an instruction"),
        (
            "environment/compose.yaml",
            "services: " + "[" * 200,
            "environment/compose.yaml is nested deeper than 100 levels",
        ),
    ],
)
def test_a_file_over_a_limit_gives_the_limit(tmp_path: Path, file: str, content: str, reason: str) -> None:
    write_task(tmp_path / "s/good")
    write_task(tmp_path / "s/bad", **{file: content})
    assert reasons(account_of(tmp_path / "s").set_aside) == [(reason, 1)]


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("${VER:-7", "environment/compose.yaml has a variable whose braces are not closed"),
        ("$(ls)", "environment/compose.yaml has a dollar that is not a reference to a variable; write $$ for a dollar"),
        ("${VER}", "needs a variable that nothing sets"),
    ],
)
def test_a_reference_that_cannot_be_read_is_no_missing_variable(tmp_path: Path, image: str, reason: str) -> None:
    write_task(tmp_path / "s/good")
    write_task(tmp_path / "s/bad", **{"environment/compose.yaml": f"services: {{main: {{image: '{image}'}}}}\n"})
    assert account_of(tmp_path / "s").set_aside == ((reason, ("bad",)),)


def test_names_are_escaped_wherever_they_are_listed(tmp_path: Path) -> None:
    write_task(tmp_path / "s/good")
    for name in ("new\nline", "tab\tx"):
        write_task(tmp_path / "s" / name)
    (tmp_path / "s/no\ttask").mkdir()
    folder = SuiteFolder(read_suite_folder(tmp_path / "s"), tmp_path / "s", "harbor")
    account = folder.suite.account
    assert account is not None
    assert account.set_aside[0].tasks == ("new\\nline", "tab\\tx")
    assert folder.suite.notes == ("Left out, holds no task: no\\ttask",)
    assert list(folder.as_json()["set_aside"]) == ["task new\\nline", "task tab\\tx"]  # type: ignore[call-overload]
    assert re.findall(r"(?<!\\)\\[nt]", json.dumps(folder.as_json())) == []


def test_folders_of_steps_that_task_toml_does_not_list_are_one_note(tmp_path: Path) -> None:
    listed = {f"steps/{name}/{file}": "x\n" for name in ("one", "two") for file in ("instruction.md", "tests/test.sh")}
    write_task(tmp_path / "s/a", STEPS, **listed, **{"steps/ghost/instruction.md": "x\n", "steps/README.md": "x\n"})
    write_task(tmp_path / "s/b", **{"steps/ghost/tests/test.sh": "x\n"})
    write_task(tmp_path / "s/c", STEPS, **listed)
    notes = [note for note in read_suite_folder(tmp_path / "s", strict=True).notes if "[[steps]]" in note]
    text = "A folder of a step that [[steps]] of task.toml does not list, so it does not run"
    assert notes == [f"{text}: a/steps/ghost, b/steps/ghost"]

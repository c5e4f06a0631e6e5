"""Suites made to break their reader: refused by name of file and place, quickly, without leaving their folder."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from runner.base.errors import SuiteProblems
from runner.base.types import Task
from runner.suites import read_suite_folder
from tests.cases import every


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A plain Harbor task in a suite of its own."""
    folder = tmp_path / "suite" / "task-a"
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    (folder / "task.toml").write_text('version = "1.0"\n')
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (folder / "tests" / "test.sh").write_text("#!/bin/bash\n")
    (folder / "solution" / "solve.sh").write_text("#!/bin/bash\n")
    return folder


def read(task: Path) -> Task:
    (found,) = read_suite_folder(task.parent).environments[0].families[0].tasks
    return found


def refused(task: Path, format: str | None = None) -> tuple[str, str, str]:
    """(path below the suite, place, message) of the one problem."""
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(task.parent, format, strict=True)
    (problem,) = caught.value.problems
    return str(Path(problem.path).relative_to(task.parent)), problem.place, problem.message


@pytest.mark.parametrize(
    ("name", "content", "place", "said"),
    [
        ("task.toml", b"version = ", "file", "Invalid value"),
        ("task.toml", b"a = 1\na = 2\n", "file", "Cannot overwrite"),
        ("task.toml", b"a = 1\0", "line 1", "found a NUL"),
        ("task.toml", b"\xff\xfe\x00", "byte 0", "invalid start byte"),
        ("task.toml", b"a = " + b"[" * 100_000, "file", ""),
        ("task.toml", b"a = " + b"9" * 10_000, "file", ""),
        ("task.toml", b"#" * (1024 * 1024 + 1), "size", "it has more"),
        ("instruction.md", b"", "file", "it is empty"),
        ("instruction.md", b"\xef\xbb\xbf \n", "file", "it is empty"),
        ("instruction.md", b"one\ntwo\0\n", "line 2", "found a NUL"),
        ("instruction.md", b"caf\xe9", "byte 3", "unexpected end of data"),
        ("instruction.md", b"x" * (1024 * 1024 + 1), "size", "it has more"),
        ("tests/test.sh", b"#!/bin/bash\r\necho\r\n", "line 1", "carriage return"),
    ],
)
def test_a_broken_file_is_named_with_its_place(task: Path, name: str, content: bytes, place: str, said: str) -> None:
    (task / name).write_bytes(content)
    found = refused(task)
    assert found[:2] == (f"task-a/{name}", place)
    assert said in found[2]
    assert len(found[2]) < 400


def test_marks_and_line_ends_of_windows_are_taken_where_they_do_no_harm(task: Path) -> None:
    (task / "instruction.md").write_bytes(b"\xef\xbb\xbfFirst.\r\nSecond.\r\n")
    assert read(task).instruction == "First.\r\nSecond.\r\n"


@pytest.mark.parametrize("name", ["tests/data.txt", "solution/key.txt", "task.toml", "instruction.md"])
@pytest.mark.parametrize("target", ["/etc/passwd", "instruction.md"])
def test_links_among_what_is_read_are_refused(task: Path, name: str, target: str) -> None:
    (task / name).unlink(missing_ok=True)
    (task / name).symlink_to(target)
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(task.parent, strict=True)
    assert (str(task / name), "it is a link") in {(each.path, each.message) for each in caught.value.problems}


def test_a_link_that_nothing_reads_is_told_and_not_followed(task: Path) -> None:
    (task / "README.md").symlink_to("/etc/passwd")
    assert "A link, which is not followed: task-a/README.md" in read_suite_folder(task.parent, strict=True).notes


@pytest.mark.parametrize("target", ["/etc/passwd", "../tests/test.sh", "../../..", "sub/../../solution", "/"])
def test_links_out_of_a_build_context_are_refused(task: Path, target: str) -> None:
    (task / "environment" / "link").symlink_to(target)
    assert refused(task) == ("task-a/environment/link", "link", f"it points to {target!r}")


def test_links_inside_a_build_context_are_taken_and_counted(task: Path) -> None:
    before = read(task).digest
    (task / "environment" / "one").symlink_to("Dockerfile")
    first = read(task).digest
    (task / "environment" / "one").unlink()
    (task / "environment" / "one").symlink_to("./Dockerfile")
    assert len({before, first, read(task).digest}) == 3


def test_cycles_of_links_end(task: Path) -> None:
    (task / "environment" / "sub").mkdir()
    (task / "environment" / "sub" / "up").symlink_to("..")
    (task / "environment" / "me").symlink_to("me")
    assert read(task).key == "task-a"
    (task / "tests" / "again").symlink_to("..")
    assert refused(task)[0] == "task-a/tests/again"


def test_a_task_that_is_a_link_is_refused(task: Path, tmp_path: Path) -> None:
    (task.parent / "task-b").symlink_to(task)
    assert refused(task) == ("task-b", "folder", "it is a link")


def test_pipes_and_sockets_are_refused_without_being_opened(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(task / "environment" / "pipe")
    assert refused(task) == ("task-a/environment/pipe", "file", "it is a special file")
    (task / "environment" / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(task / "tests")  # its path may be too long for a socket
        listening.bind("sock")
        assert refused(task) == ("task-a/tests/sock", "file", "it is a special file")


@pytest.mark.parametrize("name", ["a b", "-rf", "a;id", "ünïcode", "a\nb", "a" * 201])
def test_names_that_do_not_fit_into_addresses_are_refused(task: Path, name: str) -> None:
    task.rename(task.parent / name)
    found = refused(task)
    assert found[1] == "folder"
    assert len(found[2]) < 200


def test_ten_thousand_files_and_a_large_one_are_read_in_pieces(task: Path) -> None:
    data = task / "environment" / "data"
    data.mkdir()
    for number in range(10_000):
        (data / str(number)).touch()
    with (task / "environment" / "large.bin").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    digest = read(task).digest
    (data / "5000").write_text("x")
    assert read(task).digest != digest


def test_tests_that_would_have_to_be_held_in_memory_are_capped(task: Path) -> None:
    with (task / "tests" / "large.bin").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    assert refused(task)[:2] == ("task-a/tests/large.bin", "size")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (json.dumps(["x" * 20] * 100_000), "size"),
        ("[" * 100_000, "file"),
        ("[1" + "0" * 10_000 + "]", "file"),
        ('["task-a\\u0000"]', None),
        ("not json", "file"),
    ],
)
def test_a_ranking_made_to_break_is_named(task: Path, content: str, place: str | None) -> None:
    ranking = task.parent / "ALL_TASK_DIFFICULTY_RANKING.json"
    ranking.write_text(content)
    if place is None:
        assert any("not there" in note for note in read_suite_folder(task.parent).notes)
    else:
        assert refused(task)[:2] == (ranking.name, place)


@every(
    "a: &a [x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nfamily_id: *c\n",
    "family_id: !!python/object/apply:os.system ['true']\n",
    "[" * 5_000,
    "[" * 200_000,  # the C loader crashes the process on this
    "- a list\n",
    "family_id: 2024-01-01\n",
    "1: 2\n",
)
def test_yaml_made_to_break_is_refused(content: str, tmp_path: Path) -> None:
    suite = tmp_path / "s"
    (suite / "tasks" / "t").mkdir(parents=True)
    (suite / "tasks" / "t" / "task-spec.yaml").write_text("task_id: E1-LS1-T1\n")
    (suite / "skills" / "k").mkdir(parents=True)
    (suite / "skills" / "k" / "SKILL.md").write_text("---\n")
    (suite / "skills" / "k" / "meta.yaml").write_text(content)
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(suite, strict=True)
    named = [each for each in caught.value.problems if each.path.endswith("meta.yaml")]
    assert named
    assert all(len(str(each)) < 1_000 for each in named)


def test_aliases_that_multiply_are_not_written_out(tmp_path: Path) -> None:
    """Ten levels of ten are a small file and ten thousand million values."""
    suite = tmp_path / "s"
    (suite / "tasks" / "t").mkdir(parents=True)
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]
    (suite / "tasks" / "t" / "task-spec.yaml").write_text("\n".join(lines) + "\ntask_id: *a10\n")
    (suite / "skills").mkdir()
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(suite, strict=True)
    assert ("task_id", "found a list") in [(each.place, each.message) for each in caught.value.problems]


@pytest.mark.parametrize("name", ["a\\u0000b", "\\u001b[2J", "\\u202Eevil"])
def test_names_that_escapes_spell_are_not_shown(task: Path, name: str) -> None:
    (task / "task.toml").write_text(f'[task]\nname = "{name}"\n')
    assert read(task).title == "task-a"
    assert "task.toml: task.name is not printable text: task-a" in read_suite_folder(task.parent).notes


def test_notes_hold_nothing_that_a_terminal_would_obey(task: Path) -> None:
    (task / "task.toml").write_text('"\\u001b[2J" = 1\n')
    (task.parent / os.fsdecode(b"stray-\xff")).mkdir()
    notes = read_suite_folder(task.parent).notes
    assert len(notes) == 2
    assert all(note.isprintable() for note in notes)


def test_the_own_format_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "format: skillglass-suite/1\nkey: k\nname: n\nversion: '1'\n"
        "environments: [{key: E1, name: e, families: ['../../elsewhere']}]\n"
    )
    with pytest.raises(SuiteProblems) as caught:
        read_suite_folder(tmp_path, strict=True)
    assert "found '../../elsewhere'" in caught.value.problems[0].message

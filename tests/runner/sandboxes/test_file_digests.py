"""Digests that are remembered: fast where nothing changed, and never wrong where something did."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runner.base import file_digests
from runner.base.file_digests import FileDigests, hash_file, is_settled, look_at
from runner.base.suite import Suite
from runner.sandboxes.docker.docker_contexts import read_context
from runner.suites import read_suite_folder


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that were read to be hashed."""
    paths: list[str] = []
    monkeypatch.setattr(file_digests, "hash_file", lambda path: paths.append(Path(path).name) or hash_file(path))
    return paths


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had been at rest for long: the time of an inode's change cannot be set back."""
    monkeypatch.setattr(file_digests, "RACY_NS", -10_000_000_000)


def suite_of(folder: Path, tasks: int = 1, files: int = 0) -> Path:
    for number in range(tasks):
        task = folder / "suite" / f"task-{number:03}"
        for name, content in {
            "task.toml": 'version = "1.0"\n[metadata]\ndifficulty = "hard"\n[environment]\ncpus = 1\n',
            "instruction.md": f"Do number {number}.\n",
            "environment/Dockerfile": "FROM scratch\n",
            "tests/test.sh": "#!/bin/bash\n",
            "solution/solve.sh": "#!/bin/bash\n",
            **{f"environment/data-{each}.csv": f"{each},{number}\n" * 50 for each in range(files)},
        }.items():
            (task / name).parent.mkdir(parents=True, exist_ok=True)
            (task / name).write_text(content)
    return folder / "suite"


def first_digest(suite: Suite) -> str:
    return suite.environments[0].families[0].tasks[0].digest


def test_a_file_that_just_changed_is_hashed_again(tmp_path: Path, hashed: list[str]) -> None:
    """The rule of git: a change within the same tick of the clock leaves size and times as they were."""
    path = suite_of(tmp_path)
    before = first_digest(read_suite_folder(path))
    data = path / "task-000" / "instruction.md"
    times = (data.stat().st_atime_ns, data.stat().st_mtime_ns)
    data.write_text("Do number 1.\n")  # of the same length
    os.utime(data, ns=times)
    assert first_digest(read_suite_folder(path)) != before
    assert hashed.count("instruction.md") == 2


@pytest.mark.usefixtures("old")
def test_an_unchanged_build_context_is_not_read_again_and_a_changed_one_is(tmp_path: Path, hashed: list[str]) -> None:
    folder = suite_of(tmp_path, files=2) / "task-000" / "environment"
    first = read_context(folder).digest(("base",))
    count = len(hashed)
    assert read_context(folder).digest(("base",)) == first
    assert len(hashed) == count == 3
    assert read_context(folder).digest(("other",)) != first
    (folder / "data-0.csv").write_text("0,1\n" * 50)  # of the same length
    assert read_context(folder).digest(("base",)) != first
    assert hashed[count:] == ["data-0.csv"]


@pytest.mark.usefixtures("old")
def test_an_unchanged_folder_is_not_read_again(tmp_path: Path, hashed: list[str]) -> None:
    path = suite_of(tmp_path)
    first = read_suite_folder(path)
    count = len(hashed)
    assert read_suite_folder(path) is first
    assert len(hashed) == count == 5


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("change", ["content", "mode", "new", "gone", "replaced"])
def test_any_change_is_noticed(tmp_path: Path, change: str) -> None:
    path = suite_of(tmp_path)
    before = first_digest(read_suite_folder(path))
    file = path / "task-000" / "tests" / "test.sh"
    time.sleep(0.02)  # two ticks of the clock: here nothing counts as too fresh
    if change == "content":
        file.write_text("#!/bin/dash\n")
    elif change == "mode":
        file.chmod(0o755)
    elif change == "new":
        (file.parent / "more.py").touch()
    elif change == "gone":
        (path / "task-000" / "solution" / "solve.sh").unlink()
    else:
        other = file.with_name("other")
        other.write_text("#!/bin/dash\n")
        os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
        other.replace(file)
    assert first_digest(read_suite_folder(path)) != before


@pytest.mark.usefixtures("old")
def test_digests_outlive_the_process(tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = suite_of(tmp_path)
    first = read_suite_folder(path)
    monkeypatch.setattr("runner.suites._REMEMBERED", {})  # another process
    hashed.clear()
    assert read_suite_folder(path).digest == first.digest
    assert hashed == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "file-digests/1", "files": {"a": 1}}', b"\xff"])
def test_a_broken_store_is_none(tmp_path: Path, store: Path, content: bytes) -> None:
    path = suite_of(tmp_path)
    digest = read_suite_folder(path).digest
    read_suite_folder(path)
    target = file_digests.store_for(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    assert read_suite_folder(path).digest == digest


def test_a_store_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(file_digests, "RACY_NS", -10_000_000_000)
    assert read_suite_folder(suite_of(tmp_path)).key == "suite"


def test_a_file_is_settled_two_seconds_after_its_last_change(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    look = look_at((tmp_path / "f").stat())
    changed = look[2]
    assert not is_settled(look, changed + 1_999_999_999)
    assert is_settled(look, changed + 2_000_000_001)
    digests = FileDigests()
    digests.digest(str(tmp_path / "f"), look)
    assert digests.known == {}


@pytest.mark.usefixtures("old")
def test_a_suite_of_a_benchmarks_size_is_read_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """180 tasks of 11 files. Processor time of this process, so that others on the machine do not count."""
    path = suite_of(tmp_path, tasks=180, files=6)
    first = read_suite_folder(path)
    began = time.process_time()
    assert read_suite_folder(path) is first
    assert time.process_time() - began < 0.2

"""The files of one task, in any suite format: what the agent finds, what judges it, what solves it.

Its checks by the names in its tests are for people who look at a suite, never for a trial.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from runner.base.errors import SuiteError
from runner.base.file_digests import IGNORED, is_plain, walk
from runner.base.text import replace_unprintable
from runner.base.types import File, Files, Task
from runner.suites.documents import read_text, read_yaml

MAX_FILE_BYTES = 16 * 1024 * 1024
TRAP = "trap/solve.sh"  # gives the task's declared wrong answer; run by the agent `trap`
_BASH_OR_SH = '"$(command -v bash || echo sh)"'
T = TypeVar("T")
MAX_FILES = 40
MAX_NAMES = 60  # of one file
MAX_LENGTH = 200
# A test function, or a check that gets its name as the first argument, as in our own verifiers.
_PYTHON = re.compile(r"^[ \t]*(?:async )?def (test_\w+)|^\w+\.(?:rows|check|expect)\(\s*\"([^\"\n]+)\"", re.MULTILINE)
_SCRIPT = re.compile(r"\bit\(\s*[\"'`]([^\"'`\n]+)|^func (Test\w+)|^@test \"([^\"\n]+)\"", re.MULTILINE)
_NAMES = {".py": _PYTHON, ".js": _SCRIPT, ".ts": _SCRIPT, ".go": _SCRIPT, ".bats": _SCRIPT}


def read_workspace_files(task: Task) -> Files:
    """Return the files for the agent's working directory; empty if the task's image brings them."""
    if task.machine.brings_files:
        return {}
    blank = tuple(f"{folder}/" for folder in task.machine.blank_folders)
    found = read_tree(task.folder / "environment")
    return {path: file for path, file in found.items() if not path.startswith(blank)}


def read_test_files(task: Task) -> Files:
    """The task's own tests on top of the shared ones."""
    found: dict[str, File] = {}
    for path in task.shared_tests:
        found.update(read_tree(path) if path.is_dir() else {path.name: File(path.read_bytes())})
    own = task.folder / "tests"
    return {**found, **(read_tree(own) if own.is_dir() or not found else {})}


def without_trap(files: Mapping[str, T]) -> Mapping[str, T]:
    """Select the files that the task's digest covers. The declared wrong answer does not affect trials, so a task
    keeps its digest when one is declared."""
    if TRAP not in files:
        return files
    return {path: value for path, value in files.items() if not path.startswith("trap/")}


def script_command(script: str, file: File) -> str:
    """Start a script with the interpreter in its first line, as the system would.

    Without one, bash reads it, as under Harbor and SkillLearnBench's runner, or sh if the image has no bash. `script`
    is its path in the sandbox. That way a script need not be executable, on any kind of file system.
    """
    first = file.content[:1_000].split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    if not first.startswith("#!") or not (words := first[2:].split(None, 1)):
        return f"{_BASH_OR_SH} {shlex.quote(script)}"
    # The system passes everything after the interpreter as one word.
    interpreter = "sh" if words[0] == "/bin/sh" else words[0]
    return " ".join(shlex.quote(word) for word in (interpreter, *words[1:], script))


def read_solution_files(task: Task) -> Files:
    return read_tree(task.folder / "solution")


def read_tree(folder: Path) -> Files:
    """Read every file below `folder`. Links and oversized files are refused: a suite consists of plain files."""
    if folder.is_symlink() or not folder.is_dir():
        raise SuiteError(str(folder), "folder", "a folder", "it is a link" if folder.is_symlink() else "there is none")
    found: dict[str, File] = {}
    for path in sorted(folder.rglob("*")):
        relative = PurePosixPath(path.relative_to(folder))
        if IGNORED & set(relative.parts) or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or not path.is_file():
            raise SuiteError(str(path), "file", "a plain file", "it is a link or a special file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SuiteError(str(path), "size", f"at most {MAX_FILE_BYTES} bytes", f"{path.stat().st_size} bytes")
        found[str(relative)] = File(path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
    return found


@dataclass(frozen=True, slots=True)
class TestsFile:
    """`path` is below tests/. `names`: its first names; `more`: how many follow."""

    path: str
    size: int
    names: tuple[str, ...] = ()
    more: int = 0


def outline_tests(folder: Path) -> list[TestsFile]:
    """Outline the tests of the task in that folder, files that name checks first. Empty if unreadable."""
    found: list[TestsFile] = []
    with suppress(OSError, SuiteError):
        found = [
            _outline(folder / "tests" / name, name, status.st_size)
            for name, status, entry in walk(folder / "tests")
            if is_plain(status) and not entry.is_symlink()
        ][: MAX_FILES * 10]
    return sorted(found, key=lambda each: (not each.names, each.path))[:MAX_FILES]


def _outline(path: Path, name: str, size: int) -> TestsFile:
    names: list[str] = []
    with suppress(SuiteError):  # a binary, or too large to be read for its names
        names = [replace_unprintable(each)[:MAX_LENGTH] for each in _find_names(path)]
    return TestsFile(replace_unprintable(name), size, tuple(names[:MAX_NAMES]), max(0, len(names) - MAX_NAMES))


def _find_names(path: Path) -> Iterator[str]:
    if path.name == "rubric.yaml":
        rubric = read_yaml(path)
        found = rubric.get("scoring", rubric.get("dimensions"))  # SkillEvolBench's word and ours
        for each in found if isinstance(found, list) else ():
            name = each.get("dimension", each.get("name")) if isinstance(each, dict) else None
            if isinstance(name, str):
                yield name
    elif pattern := _NAMES.get(path.suffix):
        for match in pattern.finditer(read_text(path)):
            yield next(group for group in match.groups() if group)

"""A task's checks by the names in its tests: for people who look at a suite, never for a trial."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import SuiteError
from runner.base.file_digests import is_plain, walk
from runner.base.text import replace_unprintable
from runner.suites.documents import read_text, read_yaml

MAX_FILES = 40
MAX_NAMES = 60  # of one file
MAX_LENGTH = 200
# A test function, or a check that gets its name as the first argument, as in our own verifiers.
_PYTHON = re.compile(r"^[ \t]*(?:async )?def (test_\w+)|^\w+\.(?:rows|check|expect)\(\s*\"([^\"\n]+)\"", re.MULTILINE)
_SCRIPT = re.compile(r"\bit\(\s*[\"'`]([^\"'`\n]+)|^func (Test\w+)|^@test \"([^\"\n]+)\"", re.MULTILINE)
_NAMES = {".py": _PYTHON, ".js": _SCRIPT, ".ts": _SCRIPT, ".go": _SCRIPT, ".bats": _SCRIPT}


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

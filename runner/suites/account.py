"""The account of a suite: each task below its path is loaded, set aside or left out, with one reason.

A task is a folder with a task.toml. A folder that the reader took for a task counts too, so that a missing file shows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runner.base.errors import Account, AccountLine, SuiteError
from runner.base.text import escape_unprintable
from runner.suites.compose import NOT_CLOSED, REFERENCE
from runner.suites.features import find_feature
from runner.suites.findings import NOT_DOWNLOADED, Findings
from runner.suites.tasks.task_folder import MAX_NAME, NAMED_FOLDER

PACKAGES = {"node_modules", "site-packages", "dist-packages", "__pycache__", "vendor"}
LFS = "files are Git LFS pointers; run `git lfs pull`, then load again"
# Why a format does not read a folder, if the folder's place alone does not explain it.
ELSEWHERE = {"harbor": "more than 2 folders below the set", "skillglass": "no family of suite.yaml lists it"}
NONE_FOR = "there is none for "  # roles of a family
NO_REFERENCE = "dollar that is not a reference to a variable; write $$ for a dollar"
_VALUE = re.compile(r"found |\d")  # of a message that differs from task to task


def find_task_folders(path: Path) -> tuple[list[Path], list[str]]:
    """(folders below `path` with a task.toml, folders that cannot be read). Links are not followed."""
    found, closed = [], []
    for folder, _, files in os.walk(path, onerror=lambda error: closed.append(str(error.filename))):
        if "task.toml" in files:
            found.append(Path(folder))
    return found, closed


def take_account(
    path: Path, format: str, loaded: Iterable[Path], findings: Findings, *, is_refused: bool = False
) -> Account:
    """`loaded`: folders of the tasks that are part of the suite; empty if the suite is refused as a whole."""
    folders, closed = find_task_folders(path)
    for each in closed:
        findings.note("Cannot be read, so what is in it is not counted", _relative(Path(each), path))
    kept, tried = set(loaded), findings.tasks
    tasks = {*folders, *kept, *tried, *(each for each in findings.members if each.is_dir())}
    read = [each.parent for each in (*kept, *tried)]
    base = Path(os.path.commonpath(read)) if read else path
    set_aside: dict[str, list[Path]] = {}
    left_out: dict[str, list[Path]] = {}
    own_reasons = {folder: find_reason(problems, folder) for folder, problems in tried.items() if problems}
    for folder in sorted(tasks - kept):
        family = next((each for each in folder.parents if findings.families.get(each)), None)
        if folder in own_reasons:
            set_aside.setdefault(own_reasons[folder], []).append(folder)
        elif findings.members.get(folder):
            reason = f"the family is set aside: {_family_reason(findings.members[folder], tasks)}"
            set_aside.setdefault(reason, []).append(folder)
        elif family is not None:
            reason = f"the family is set aside: {find_reason(findings.families[family], family)}"
            set_aside.setdefault(reason, []).append(folder)
        elif folder in tried:  # with nothing wrong in it
            reason = "the set is refused as a whole" if is_refused else "the family is set aside"
            set_aside.setdefault(reason, []).append(folder)
        else:
            left_out.setdefault(_place_of(folder, path, base, tasks, format), []).append(folder)
    return Account(len(tasks), len(kept), _lines(set_aside, path), _lines(left_out, path))


def find_reason(problems: Sequence[SuiteError], folder: Path) -> str:
    """The problem that counts, worded the same for every task: missing downloads first, then needs of the task, then
    errors in its files."""
    if any(problem.message == NOT_DOWNLOADED for problem in problems):
        return LFS
    return find_feature(problems) or _reason(problems[0], folder)


def _family_reason(problems: Sequence[SuiteError], tasks: set[Path]) -> str:
    """Name the task with the problem: the others of its family are set aside because of it."""
    source = Path(problems[0].path)
    task = next((each for each in (source, *source.parents) if each in tasks), None)
    reason = find_reason(problems, task or source)
    return reason if task is None else f"{escape_unprintable(task.name)}: {reason}"


def _reason(problem: SuiteError, folder: Path) -> str:
    if problem.place in ("family", "task"):
        return f"the key {problem.message}"
    if problem.message.startswith(NONE_FOR):
        return f"it has no task for the role {problem.message.removeprefix(NONE_FOR)}"
    where, message = _relative(Path(problem.path), folder), problem.message
    if problem.place == REFERENCE and not problem.expected:
        is_open = message.endswith(NOT_CLOSED)
        return f"{where} has a {'variable whose braces are not closed' if is_open else NO_REFERENCE}"
    if message.startswith("there is none") or message == "none":
        missing = where if problem.place in ("folder", "file") else problem.place
        return f"no {missing}{' folder' if problem.place == 'folder' else ''}"
    if where == ".":
        what = "the folder" if problem.place == "folder" else problem.place
    elif problem.place in ("folder", "file", "link", "size") or re.match(r"(byte|line) \d", problem.place):
        what = where if where.count("/") < 2 else f"a file in {where.partition('/')[0]}/"
    else:
        what = f"{where}: {problem.place}"
    if message.startswith("it is a link"):
        return "a link" if where == "." else f"{what} is a link"
    if problem.expected == NAMED_FOLDER:
        return _reason_of_name(Path(problem.path).name)
    if limit := re.fullmatch(r"at most ([\d,]+) (.+)", problem.expected):
        return f"{what} {_describe_excess(problem, int(limit[1].replace(',', '')), limit[2])}"
    if _VALUE.search(message) or not message.startswith(("it ", "expected")):
        return f"{what} is not {problem.expected}" if problem.expected else f"{what}: {message}"
    if message.startswith("it "):
        return f"{what} {message.removeprefix('it ')}" + (f", not {problem.expected}" if problem.expected else "")
    return f"{what}: {message}"


def _reason_of_name(name: str) -> str:
    """Name the broken rule. The account has the folder's name in the same line."""
    if len(name) > MAX_NAME:
        return f"the folder's name is longer than {MAX_NAME} characters"
    if re.fullmatch(r"[A-Za-z0-9._-]+", name):
        return "the folder's name begins with another character than a letter of a-z or A-Z or a digit"
    return "the folder's name has other characters than letters of a-z and A-Z, digits, '.', '_' and '-'"


def _describe_excess(problem: SuiteError, limit: int, unit: str) -> str:
    if unit == "bytes":
        return f"is larger than {limit / 1024**2:g} MB"
    return f"{'is nested deeper' if unit == 'levels' else 'has more'} than {limit:,} {unit}"


def _place_of(folder: Path, path: Path, base: Path, tasks: set[Path], format: str) -> str:
    """Why a reader does not look there."""
    parts = folder.relative_to(path).parts
    if not parts:
        return "at the top of the set, in no task's folder"
    if any(each in tasks and each != path for each in folder.parents) or base == path.parent:
        return "inside another task"
    if any(part.startswith(".") for part in parts):
        return "in a hidden folder"
    if PACKAGES & set(parts):
        return "in a folder of installed packages"
    if any(part.startswith("_") for part in parts):
        return "in a folder whose name begins with _"
    if base not in folder.parents and base != folder:
        shared = len(Path(os.path.commonpath([base, folder])).parts)
        other = Path(*folder.parts[: shared + 1]).relative_to(path)
        return f"in another set; load {escape_unprintable(other.as_posix())}/ on its own"
    return ELSEWHERE.get(format, f"in no place where {format} has tasks")


def _relative(place: Path, folder: Path) -> str:
    try:
        return escape_unprintable(place.relative_to(folder).as_posix())
    except ValueError:
        return escape_unprintable(place.name)


def _lines(reasons: dict[str, list[Path]], path: Path) -> tuple[AccountLine, ...]:
    """Sort the most frequent first."""

    def lines() -> Iterator[AccountLine]:
        for reason, folders in sorted(reasons.items(), key=lambda each: (-len(each[1]), each[0])):
            yield AccountLine(escape_unprintable(reason), tuple(_relative(each, path) for each in folders))

    return tuple(lines())

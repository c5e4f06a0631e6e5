"""Readers of task folders, and the bundled starter suites. FORMATS finds a reader by name.

Every suite has an account: each task below its path is loaded, set aside or left out, with one reason. A task is a
folder with a task.toml. A folder that the reader took for a task counts too, so that a missing file shows.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from runner.base.errors import Account, AccountLine, SetupError, SuiteError, SuiteProblems
from runner.base.file_digests import FileDigests, Look, is_settled, look_at, store_for, walk
from runner.base.suite import Suite
from runner.base.text import escape_unprintable
from runner.base.types import Environment, Family
from runner.suites.compose import NOT_CLOSED, REFERENCE
from runner.suites.documents import NOT_DOWNLOADED, Findings
from runner.suites.families import BESIDE, FamilyChoice, apply_mapping_beside, digest_suite, regroup
from runner.suites.features import find_feature
from runner.suites.tasks.task_folder import MAX_NAME, NAMED_FOLDER, TaskShelf
from runner.suites.tasks.task_groups import FAMILY

SUITES: dict[str, str] = {
    "starter": "runner.suites.starter_suite:load_starter",
    "starter-environments": "runner.suites.starter_suite:load_starter_environments",
    "starter-learning": "runner.suites.starter_suite:load_starter_learning",
    "starter-corpora": "runner.suites.starter_suite:load_starter_corpora",
}

# Modules (see `SuiteFormat`), tried in this order on a folder's shape: a plain folder of tasks comes last.
FORMATS: dict[str, str] = {
    "skillglass": "runner.suites.folder",
    "skillevolbench": "runner.suites.skillevolbench_suite",
    "skillflow": "runner.suites.skillflow_suite",
    "skilllearnbench": "runner.suites.skilllearnbench_suite",
    "skillgenbench": "runner.suites.skillgenbench_suite",
    "harbor": "runner.suites.harbor",
}
MAX_KEY = 200
_PLAIN_NAMES = {"tasks", "benchmark", "test_tasks", "corpora"}  # of folders inside a release, which do not name it

# (folder, format) -> the state of its files, and the suite read from them
_REMEMBERED: dict[tuple[str, str], tuple[dict[str, Look], Suite]] = {}
PACKAGES = {"node_modules", "site-packages", "dist-packages", "__pycache__", "vendor"}
LFS = "files are Git LFS pointers; run `git lfs pull`, then load again"
# Why a format does not read a folder, if the folder's place alone does not explain it.
ELSEWHERE = {"harbor": "more than 2 folders below the set", "skillglass": "no family of suite.yaml lists it"}
NONE_FOR = "there is none for "  # roles of a family
NO_REFERENCE = "dollar that is not a reference to a variable; write $$ for a dollar"
_VALUE = re.compile(r"found |\d")  # of a message that differs from task to task


class SuiteFormat(Protocol):
    """The attributes of a module in FORMATS."""

    def looks_like(self, path: Path) -> bool: ...

    def roots(self, path: Path) -> tuple[Path, ...]:
        """Return the folders that are read."""

    def read(self, path: Path, key: str, shelf: TaskShelf) -> tuple[Environment, ...]: ...


@runtime_checkable
class NamingFormat(SuiteFormat, Protocol):
    """A format whose files give the suite its key and name."""

    def complete(self, path: Path, suite: Suite) -> Suite: ...


def load_suite(name: str) -> Suite:
    """Read the bundled suite of that name. SetupError names the known ones; SuiteError says what is wrong in one."""
    if name not in SUITES:
        raise SetupError(f"unknown suite {name!r}; known: {', '.join(sorted(SUITES))}")
    module, _, function = SUITES[name].partition(":")
    return cast(Suite, getattr(importlib.import_module(module), function)())


def read_suite_folder(
    path: Path, format: str | None = None, *, strict: bool = False, families: FamilyChoice | None = None
) -> Suite:
    """Read the suite in a folder of this machine, never trusted. Its format is found by its shape if none is given.

    What cannot run here is set aside, and the suite lists why. SetupError if there is no such folder or format.
    SuiteProblems lists every problem if nothing is left, or if `strict` is set and there is any. An unchanged folder
    gives the suite that was read before. `families`: a person's choice instead of the folder's own.
    """
    path = path.expanduser().absolute()
    if not path.is_dir():
        raise SetupError(f"{path}: expected a folder with a suite; there is none")
    name = format or format_of(path)
    reader = _reader(name)
    suite = apply_mapping_beside(path, read_unless_known(path, name, reader.roots, lambda: _read(path, name, reader)))
    suite = regroup(suite, name, families or {"by": FAMILY})
    if strict and suite.set_aside:
        raise SuiteProblems([problem for mine in suite.set_aside.values() for problem in mine], name)
    return suite


def read_unless_known(
    path: Path, name: str, roots: Callable[[Path], tuple[Path, ...]], read: Callable[[], Suite]
) -> Suite:
    """Return the result of `read`, or the earlier one if no file in the `roots` of the path has changed since."""
    try:
        looks = dict(_looks(roots(path)))
    except SuiteError:
        looks = {}  # the reader reports it
    remembered = _REMEMBERED.get((str(path), name))
    if remembered is not None and looks and remembered[0] == looks:
        return remembered[1]
    began = time.time_ns()
    suite = read()
    if looks and all(is_settled(look, began) for look in looks.values()):
        _REMEMBERED[str(path), name] = (looks, suite)
    return suite


def format_of(path: Path) -> str:
    """Return the first format that fits the folder's shape. SetupError names them all."""
    for name in FORMATS:
        if _reader(name).looks_like(path):
            return name
    deeper, _ = find_task_folders(path)
    more = ""
    if deeper:
        parent, count = Counter(each.parent for each in deeper).most_common(1)[0]
        more = f"; {len(deeper):,} task.toml lie deeper, {count:,} in {parent}: load that folder"
    raise SetupError(f"{path}: no suite in any of the known formats: {', '.join(FORMATS)}{more}")


def key_of(path: Path) -> str:
    """Make a suite's key for a format without one: the name of its folder, or of the parent folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", find_naming_folder(path).name).strip("-._")[:MAX_KEY] or "suite"


def find_naming_folder(path: Path) -> Path:
    """Return the folder or the parent folder whose name is the suite's key in a format without one."""
    return next((each for each in (path, *path.parents) if each.name not in _PLAIN_NAMES), path)


def roots_of(path: Path, format: str) -> tuple[Path, ...]:
    """Return all that is read of the suite in this folder: folders, and its groups.yaml. Not all need to exist."""
    return (*_reader(format).roots(path), path / BESIDE)


def _reader(name: str) -> SuiteFormat:
    if name not in FORMATS:
        raise SetupError(f"unknown suite format {name!r}; known: {', '.join(FORMATS)}")
    return cast(SuiteFormat, importlib.import_module(FORMATS[name]))


def _read(path: Path, format: str, reader: SuiteFormat) -> Suite:
    digests = FileDigests(store_for(path))
    digests.load()
    findings = Findings()
    key = key_of(path)
    environments: tuple[Environment, ...] = ()
    with findings.keep_errors():
        read = reader.read(path, key, TaskShelf(findings, digests))
        environments = tuple(each for each in read if any(family.tasks for family in each.families))
    digests.save()
    environments = _distinct(path, environments, findings)
    is_refused = bool(findings.problems) or not environments
    loaded = [task.folder for each in environments for task in each.tasks] if not is_refused else []
    account = take_account(path, format, loaded, findings, is_refused=is_refused)
    if is_refused:
        raise SuiteProblems(findings.all_problems(), format, account)
    set_aside = {what: tuple(problems) for what, problems in findings.set_aside.items()}
    suite = Suite(
        key, key, "", digest_suite(format, environments), environments, False, findings.notes(), set_aside, account
    )
    return reader.complete(path, suite) if isinstance(reader, NamingFormat) else suite


def _looks(roots: tuple[Path, ...]) -> Iterator[tuple[str, Look]]:
    for root in roots:
        for _, status, entry in walk(root):
            yield entry.path, look_at(status)


def _distinct(path: Path, environments: tuple[Environment, ...], findings: Findings) -> tuple[Environment, ...]:
    """Drop families if their key, or the key of a task, is already used or too long for the record."""
    if not environments and not findings.all_problems():
        findings.problem(path, "folder", "at least one task", "there is none")
    seen: set[tuple[str, str]] = set()

    def check_keys(family: Family) -> Family:
        keys = [("family", family.key), *(("task", task.key) for task in family.tasks)]
        for place, key in keys:
            if (place, key) in seen or keys.count((place, key)) > 1:
                raise SuiteError(str(path), place, "every key once", f"{key!r} occurs more than once")
            if len(key) > MAX_KEY:
                expected = f"a key of at most {MAX_KEY} characters"
                raise SuiteError(str(path), place, expected, f"{key[:60]!r}... is longer than {MAX_KEY} characters")
        seen.update(keys)
        return family

    kept = []
    for environment in environments:
        read = [
            findings.apart(
                f"family {each.key}", partial(check_keys, each), members=[task.folder for task in each.tasks]
            )
            for each in environment.families
        ]
        if families := tuple(family for family in read if family is not None):
            kept.append(replace(environment, families=families))
    return tuple(kept)


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
        # Name the broken rule. The account has the folder's name in the same line.
        if len(Path(problem.path).name) > MAX_NAME:
            return f"the folder's name is longer than {MAX_NAME} characters"
        if re.fullmatch(r"[A-Za-z0-9._-]+", Path(problem.path).name):
            return "the folder's name begins with another character than a letter of a-z or A-Z or a digit"
        return "the folder's name has other characters than letters of a-z and A-Z, digits, '.', '_' and '-'"
    if limit := re.fullmatch(r"at most ([\d,]+) (.+)", problem.expected):
        return f"{what} {_describe_excess(problem, int(limit[1].replace(',', '')), limit[2])}"
    if _VALUE.search(message) or not message.startswith(("it ", "expected")):
        return f"{what} is not {problem.expected}" if problem.expected else f"{what}: {message}"
    if message.startswith("it "):
        return f"{what} {message.removeprefix('it ')}" + (f", not {problem.expected}" if problem.expected else "")
    return f"{what}: {message}"


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

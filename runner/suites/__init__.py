"""Readers of task folders, and the bundled starter suites. FORMATS finds a reader by name."""

from __future__ import annotations

import importlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from runner.base.errors import SetupError, SuiteError, SuiteProblems
from runner.base.file_digests import FileDigests, Look, is_settled, look_at, store_for, walk
from runner.base.suite import Suite
from runner.base.types import Environment, Family
from runner.suites.account import find_task_folders, take_account
from runner.suites.families import FamilyChoice, digest_suite, regroup
from runner.suites.findings import Findings
from runner.suites.group_mapping import BESIDE, apply_mapping_beside
from runner.suites.tasks.task_folder import TaskShelf
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
    families = [family for each in environments for family in each.families] if not is_refused else []
    loaded = [task.folder for family in families for task in family.tasks]
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

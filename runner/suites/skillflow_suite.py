"""SkillFlow's families: an environment each, its tasks from easy to hard.

<family>/ALL_TASK_DIFFICULTY_RANKING.json    names of task folders, easiest first
<family>/<task>/                             a Harbor task

Downloads nest the families in test_tasks/ once or twice. Source: the rules of SkillFlow's released runners for the
ranking (names stripped, blanks and repeats dropped, unranked tasks appended by name). Their warnings are notes here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner.base.errors import SuiteError
from runner.base.types import Environment, Family
from runner.suites.documents import read_json, shorten_suite_value
from runner.suites.harbor import holds_tasks, is_task
from runner.suites.tasks.task_folder import NAME, TaskFolder, TaskShelf, folders_in, mostly

RANKING = "ALL_TASK_DIFFICULTY_RANKING.json"
NESTED = "test_tasks"
MAX_KEY = 200
BLANK = ("skills",)  # skills shipped there are not part of the protocol, whose libraries are the agent's own


@dataclass(frozen=True, slots=True)
class RankedFolder:
    """A task with its place in the ranking, from 1; None: the ranking leaves it out."""

    folder: TaskFolder
    rank: int | None


def looks_like(path: Path) -> bool:
    return mostly(_families(path), lambda family: (family / RANKING).exists())


def roots(path: Path) -> tuple[Path, ...]:
    return tuple(_families(path)) or (path,)


def read(path: Path, key: str, shelf: TaskShelf) -> tuple[Environment, ...]:
    families = _families(path)
    if not families:
        shelf.findings.problem(path, "folder", f"folders of tasks with a {RANKING}", "there is none")
    found = [
        shelf.findings.apart(f"family {each.name}", partial(_family, each, shelf), family=each) for each in families
    ]
    read_ones = [family for family in found if family is not None and family[1]]
    names = Counter(each.folder.path.name for _, folders in read_ones for each in folders)
    return tuple(_environment(key, folders, names, shelf) for key, folders in read_ones)


def _family(path: Path, shelf: TaskShelf) -> tuple[str, list[RankedFolder]]:
    return _key(path, shelf), _order_tasks(path, shelf)


def _families(path: Path) -> list[Path]:
    """The path itself if it is a family, else the first known nesting that has any."""
    if _is_family(path):
        return [path]
    for base in (path, path / NESTED, path / NESTED / NESTED):
        found = [each for each in folders_in(base) if _is_family(each)] if base.is_dir() else []
        if found:
            return found
    return []


def _is_family(path: Path) -> bool:
    return (path / RANKING).exists() or holds_tasks(path)


def _key(family: Path, shelf: TaskShelf) -> str:
    """The family's key: its folder's name without characters unfit for addresses and prompts ("&" in a title)."""
    key = re.sub(r"[^A-Za-z0-9._]+", "-", family.name).strip("-._")[:MAX_KEY]
    if family.is_symlink() or not key:
        found = "it is a link" if family.is_symlink() else f"found {shorten_suite_value(family.name)}"
        raise SuiteError(str(family), "folder", "a folder named with letters and digits", found)
    if NAME.fullmatch(family.name):
        return family.name
    shelf.findings.note(f"Key of the family in folder {shorten_suite_value(family.name)}", key)
    return key


def _order_tasks(family: Path, shelf: TaskShelf) -> list[RankedFolder]:
    """The family's tasks, easiest first."""
    places = {each.name: each for each in folders_in(family) if is_task(each)}
    for each in folders_in(family):
        if each.name not in places:
            shelf.findings.note("Left out, not a task", f"{family.name}/{each.name}")
    ranked = _ranking(family, shelf)
    for name in ranked:
        if name not in places:
            shelf.findings.note(f"{RANKING} names a task that is not there", f"{family.name}/{name[:100]}")
    known = [name for name in ranked if name in places]
    unranked = sorted(places.keys() - set(known))
    if known and unranked:
        for name in unranked:
            shelf.findings.note(f"{RANKING} leaves it out, so it comes last", f"{family.name}/{name}")
    if not places:
        shelf.findings.problem(family, "folder", "at least one task", "there is none")
    ranks = {name: rank for rank, name in enumerate(ranked, start=1)}
    read = ((shelf.read(places[name], BLANK), ranks.get(name)) for name in (*known, *unranked))
    return [RankedFolder(folder, rank) for folder, rank in read if folder is not None]


def _ranking(family: Path, shelf: TaskShelf) -> list[str]:
    """Names in order; empty without a ranking."""
    source = family / RANKING
    value = read_json(source) if source.exists() or source.is_symlink() else []
    if not isinstance(value, list):
        raise SuiteError(str(source), "file", "a list of task names", f"found {shorten_suite_value(value)}")
    for place, name in enumerate(value):
        if not isinstance(name, str):
            raise SuiteError(str(source), f"[{place}]", "a task's name", f"found {shorten_suite_value(name)}")
    names = [name.strip() for name in value if name.strip()]
    if not names:
        shelf.findings.note(f"No {RANKING}, so tasks are ordered by name", family.name)
    if len(set(names)) < len(names):
        shelf.findings.note(f"{RANKING} names a task more than once; the first place counts", family.name)
    return list(dict.fromkeys(names))


def _environment(key: str, folders: list[RankedFolder], names: Counter[str], shelf: TaskShelf) -> Environment:
    tasks = []
    for ordinal, each in enumerate(folders, start=1):
        name = each.folder.path.name
        groups = {"rank": (str(each.rank),)} if each.rank else {}
        if names[name] > 1:
            shelf.findings.note(
                "Several families have a task of this name, so their keys begin with the family", f"{key}/{name}"
            )
            name = f"{key}.{name}"
        tasks.append(each.folder.task(environment=key, family=key, ordinal=ordinal, key=name, groups=groups))
    title = key.replace("-", " ").replace("_", " ")
    return Environment(key, title, (Family(key, key.lower(), title, title, key, tuple(tasks)),))

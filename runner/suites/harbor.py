"""A folder of Harbor tasks: an environment for each family. Tasks may be in subfolders, as in tasks/<category>/<task>.

A task's family is the one its metadata names, else its category, else the suite. A task that ships skills is a family
of its own, with these as its reference skills: such a set is for comparing its tasks with and without their skills.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from runner.base.errors import SuiteError
from runner.base.types import Environment, Family, File, Task, TaskGroups
from runner.suites.tasks.task_folder import TaskFolder, TaskShelf, add_skill, folders_in

MAX_DEPTH = 2  # folders between the suite and its tasks


def looks_like(path: Path) -> bool:
    return bool(_tasks(path))


def roots(path: Path) -> tuple[Path, ...]:
    """Return the folders that are read."""
    return tuple(_tasks(path)) or (path,)


def read(path: Path, key: str, shelf: TaskShelf) -> tuple[Environment, ...]:
    places = _tasks(path)
    for each in _strays(path):
        shelf.findings.note("Left out, holds no task", each.name)
    read = [folder for place in places if (folder := shelf.read(place)) is not None]
    keys = _choose_keys([folder.path for folder in read], path, Counter(place.name for place in places), shelf)
    families: dict[str, list[tuple[TaskFolder, Callable[..., Task]]]] = {}
    for folder in read:
        place, name = folder.path, keys[folder.path]
        category = "" if place.parent in (path, _base(path)) or place == path else place.parent.name
        family = folder.toml.metadata.label("family") or (name if folder.skills else category) or key
        groups: TaskGroups = {"category": (category,)} if category and folder.skills else {}
        task = partial(folder.task, key=name, title=folder.toml.task.label("name"), groups=groups)
        families.setdefault(family, []).append((folder, task))
        if folder.skills:
            shelf.findings.note("The skills that a task ships are its reference skills", place.name)
    if not places:
        shelf.findings.problem(path, "folder", "folders with a task.toml each", "there is none")
    return tuple(_environment(name, tasks, shelf) for name, tasks in sorted(families.items()))


def _choose_keys(places: Sequence[Path], path: Path, names: Counter[str], shelf: TaskShelf) -> dict[Path, str]:
    """Choose the key of each task that is read: the folder's name, or a made one if several folders have that name.

    A folder may be named like a made key ("x.same" next to x/same). It keeps its name, and the made key gets a number:
    two tasks with one key would cost a whole family.
    """
    parts = {place: place.relative_to(_base(path)).parts for place in places}
    keys = {place: place.name for place in places if names[place.name] == 1 or len(parts[place]) == 1}
    made_keys = {place: ".".join(parts[place]) for place in places if place not in keys}
    taken = set(keys.values())
    for place, made in made_keys.items():
        where = "/".join(parts[place])
        shelf.findings.note("Several folders hold a task of this name, so their keys begin with the folder", where)
        if made in taken:
            shelf.findings.note("Another task has the key made of its folders, so it ends in a number", where)
            others = taken.union(made_keys.values())
            made = next(each for number in count(2) if (each := f"{made}.{number}") not in others)
        taken.add(made)
        keys[place] = made
    return keys


def _environment(key: str, found: list[tuple[TaskFolder, Callable[..., Task]]], shelf: TaskShelf) -> Environment:
    tasks = tuple(
        task(environment=key, family=key, ordinal=ordinal) for ordinal, (_, task) in enumerate(found, start=1)
    )
    curated: dict[str, File] = {}
    for folder, _ in found:
        for slug in sorted({name.partition("/")[0] for name in folder.skills}):
            skill = {name: file for name, file in folder.skills.items() if name.startswith(f"{slug}/")}
            add_skill(curated, skill, f"{folder.path.name}/{slug}", shelf.findings)
    return Environment(key, key, (Family(key, key, key, key.replace("-", " "), key, tasks, curated),))


def is_task(path: Path) -> bool:
    """One of the two files is enough, so that a missing other one is reported."""
    return any((path / name).is_file() or (path / name).is_symlink() for name in ("task.toml", "instruction.md"))


def _is_alone(path: Path) -> bool:
    """Is the folder itself one task? Not if a stray task.toml is at the top of a set."""
    parts = ("instruction.md", "tests", "environment")
    return (path / "task.toml").is_file() and any((path / name).exists() for name in parts)


def holds_tasks(path: Path) -> bool:
    with suppress(SuiteError):
        return any(map(is_task, folders_in(path)))
    return False


def _base(path: Path) -> Path:
    """The parent folder of the tasks; a task's own folder is a suite of one."""
    if (path / "tasks").is_dir() and not _is_alone(path) and not holds_tasks(path):
        return path / "tasks"
    return path


def _tasks(path: Path) -> list[Path]:
    if _is_alone(path):
        return [path]
    return list(_below(_base(path), MAX_DEPTH))


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """Task folders, directly or in category folders. A folder that is a link, or unreadable, has none."""
    with suppress(SuiteError):
        for each in folders_in(folder):
            if is_task(each):
                yield each
            elif depth and not each.is_symlink():
                yield from _below(each, depth - 1)


def _strays(path: Path) -> list[Path]:
    if _is_alone(path):
        return []
    return [each for each in folders_in(_base(path)) if not is_task(each) and not any(_below(each, MAX_DEPTH - 1))]

"""A folder of Harbor tasks: one environment. Tasks share one family unless their metadata names others."""

from __future__ import annotations

from pathlib import Path

from runner.suites.task_folder import Shelf, TaskFolder, folders_in
from runner.types import Environment, Family


def looks_like(path: Path) -> bool:
    return bool(_tasks(path))


def roots(path: Path) -> tuple[Path, ...]:
    """What is read."""
    return tuple(_tasks(path)) or (path,)


def read(path: Path, key: str, shelf: Shelf) -> tuple[Environment, ...]:
    for each in _strays(path):
        shelf.findings.note("is no task and was left out", each.name)
    families: dict[str, list[TaskFolder]] = {}
    for place in _tasks(path):
        folder = shelf.read(place)
        if folder is not None:
            families.setdefault(folder.toml.metadata.text("family", key), []).append(folder)
    if not _tasks(path):
        shelf.findings.problem(path, "folder", "folders with a task.toml each", "there is none")
    return (Environment(key, key, tuple(_family(key, name, folders) for name, folders in sorted(families.items()))),)


def _family(environment: str, key: str, folders: list[TaskFolder]) -> Family:
    tasks = tuple(
        folder.task(environment=environment, family=key, ordinal=ordinal, title=folder.toml.task.text("name", ""))
        for ordinal, folder in enumerate(folders, start=1)
    )
    return Family(key, key, key, key.replace("-", " "), environment, tasks)


def is_task(path: Path) -> bool:
    """One of the two files makes it one, so that the other can be missed."""
    return any((path / name).is_file() or (path / name).is_symlink() for name in ("task.toml", "instruction.md"))


def _base(path: Path) -> Path:
    """The folder whose folders are the tasks; a task's own folder is a suite of one."""
    if (path / "tasks").is_dir() and not is_task(path) and not any(map(is_task, folders_in(path))):
        return path / "tasks"
    return path


def _tasks(path: Path) -> list[Path]:
    if (path / "task.toml").is_file():
        return [path]
    return [each for each in folders_in(_base(path)) if is_task(each)]


def _strays(path: Path) -> list[Path]:
    if (path / "task.toml").is_file():
        return []
    return [each for each in folders_in(_base(path)) if not is_task(each)]

"""SkillLearnBench's tasks: an environment with one family each, whose tasks are the instances, the seed instance first.

tasks/<task>/<task>-N/            a Harbor task; every instance is built from its own environment folder
skills/human_authored/<task>/     its curated skills, where the release lies here as a whole
eval_keypoints/<task>/<task>-N/   key points of an instance, likewise

Source: the release's layout. Its evaluator runs every instance in the image of the first; here each has its own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from runner.suites.findings import shown
from runner.suites.harbor import is_task
from runner.suites.key_points import FOLDER, read_key_points
from runner.suites.task_files import read_tree
from runner.suites.task_folder import NAME, Shelf, TaskFolder, folders_in
from runner.types import Environment, Family, Files

HUMAN = Path("skills") / "human_authored"
BLANK = ("skills",)  # the Dockerfiles copy it to every agent's skill folder; libraries are mounted there instead


def looks_like(path: Path) -> bool:
    return any(_is_task(each) for each in folders_in(_base(path)))


def roots(path: Path) -> tuple[Path, ...]:
    human, points = path / HUMAN, path / FOLDER
    found = [human] if human.is_dir() and not _leads_away(human) else []
    found += [points] if points.is_dir() and not points.is_symlink() else []
    return (_base(path), *found)


def read(path: Path, key: str, shelf: Shelf) -> tuple[Environment, ...]:
    found = []
    if _leads_away(path / HUMAN):
        shelf.findings.problem(path / HUMAN, "folder", "a folder of the release", "it is a link, or lies behind one")
        return ()
    for each in folders_in(_base(path)):
        if not any(map(is_task, folders_in(each))):
            shelf.findings.note("has no instance and was left out", each.name)
        elif _named(each, shelf) and (instances := _instances(each, shelf)):
            points = path / FOLDER / each.name
            found.append(_environment(each.name, instances, _curated(path / HUMAN / each.name, shelf), points, shelf))
    if not found and not shelf.findings.problems:
        shelf.findings.problem(path, "folder", "tasks/<task>/<task>-1 and so on", "there is none")
    return tuple(found)


def _base(path: Path) -> Path:
    return path / "tasks" if (path / "tasks").is_dir() else path


def _leads_away(human: Path) -> bool:
    """What is read as a library must be the release's own, and nothing else of this machine."""
    return human.is_symlink() or human.parent.is_symlink()


def _is_task(path: Path) -> bool:
    pattern = re.compile(re.escape(path.name) + r"-\d+")
    return any(pattern.fullmatch(each.name) and is_task(each) for each in folders_in(path))


def _named(task: Path, shelf: Shelf) -> bool:
    if NAME.fullmatch(task.name) and not task.is_symlink():
        return True
    found = "it is a link" if task.is_symlink() else f"found {shown(task.name)}"
    shelf.findings.problem(task, "folder", "a folder named with letters, digits, '.', '_' and '-'", found)
    return False


def _instances(task: Path, shelf: Shelf) -> list[TaskFolder]:
    """In the order of their numbers. Folders beside them that are no instances are told."""
    numbered: list[tuple[int, Path]] = []
    for each in folders_in(task):
        match = re.fullmatch(re.escape(task.name) + r"-(\d{1,9})", each.name)
        if match and is_task(each):
            numbered.append((int(match[1]), each))
        elif is_task(each):
            expected = f"an instance named {task.name}-1 and so on"
            shelf.findings.problem(each, "folder", expected, f"found {shown(each.name)}")
        else:
            shelf.findings.note("is no instance and was left out", f"{task.name}/{each.name}")
    numbers = [number for number, _ in numbered]
    if len(set(numbers)) < len(numbers):
        shelf.findings.problem(task, "folder", "every number once", "two instances have the same")
    if numbered and 1 not in numbers:
        shelf.findings.note("has no instance 1, so the one with the lowest number is its seed", task.name)
    folders = [shelf.read(each, BLANK) for _, each in sorted(numbered)]
    return [folder for folder in folders if folder is not None]


def _curated(folder: Path, shelf: Shelf) -> Files:
    found: Files = {}
    if folder.is_dir():
        with shelf.findings.kept():
            found = read_tree(folder)
    return {path: file for path, file in found.items() if "/" in path}  # a licence beside the skills is none


def _environment(key: str, instances: list[TaskFolder], curated: Files, points: Path, shelf: Shelf) -> Environment:
    """`points` is the folder of the task's key points, which need not be there."""
    title = key.replace("-", " ").replace("_", " ")
    tasks = tuple(
        replace(
            folder.task(environment=key, family=key, ordinal=ordinal),
            key_points=read_key_points(points / folder.path.name, shelf.findings),
        )
        for ordinal, folder in enumerate(instances, start=1)
    )
    return Environment(
        key, title, (Family(key, key.lower(), title, _description(title, instances[0]), key, tasks, curated),)
    )


def _description(title: str, seed: TaskFolder) -> str:
    """What the seed instance's metadata say of the kind of work; nothing of how it is verified."""
    metadata = seed.toml.metadata.values
    category, tags = metadata.get("category"), metadata.get("tags")
    words = [category, *(tags if isinstance(tags, list) else [])]
    told = ", ".join(dict.fromkeys(word.strip()[:100] for word in words[:20] if isinstance(word, str) and word.strip()))
    return f"{title} ({told})" if told else title

"""SkillLearnBench's tasks: an environment with one family each, whose tasks are the instances, the seed instance first.

    tasks/<task>/<task>-N/            a Harbor task; every instance is built from its own environment folder
    skills/human_authored/<task>/     its curated skills, if the whole release is here
    eval_keypoints/<task>/<task>-N/   key points of an instance, likewise

Source: the release's layout. Its evaluator runs every instance in the image of the first; here each has its own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.base.types import Environment, Family, Files
from runner.suites.documents import shorten_suite_value
from runner.suites.harbor import holds_tasks, is_task
from runner.suites.tasks.key_points import FOLDER, read_key_points
from runner.suites.tasks.task_files import read_tree
from runner.suites.tasks.task_folder import TaskFolder, TaskShelf, check_name, folders_in, mostly

HUMAN = Path("skills") / "human_authored"
BLANK = ("skills",)  # the Dockerfiles copy it to every agent's skill folder; libraries are mounted there instead


def looks_like(path: Path) -> bool:
    return mostly([each for each in folders_in(_base(path)) if is_task(each) or holds_tasks(each)], _is_task)


def roots(path: Path) -> tuple[Path, ...]:
    human, points = path / HUMAN, path / FOLDER
    found = [human] if human.is_dir() and not _leads_away(human) else []
    found += [points] if points.is_dir() and not points.is_symlink() else []
    return (_base(path), *found)


def read(path: Path, key: str, shelf: TaskShelf) -> tuple[Environment, ...]:
    found = []
    if _leads_away(path / HUMAN):
        shelf.findings.problem(path / HUMAN, "folder", "a folder of the release", "it is a link or behind a link")
        return ()
    for each in folders_in(_base(path)):
        if not holds_tasks(each):
            shelf.findings.note("Left out, contains no task instance", each.name)
        else:
            environment = shelf.findings.apart(
                f"family {each.name}", partial(_environment, path, each, shelf), family=each
            )
            found += [environment] if environment else []
    if not found and not shelf.findings.all_problems():
        shelf.findings.problem(path, "folder", "tasks/<task>/<task>-1 and so on", "there is none")
    return tuple(found)


def _base(path: Path) -> Path:
    return path / "tasks" if (path / "tasks").is_dir() else path


def _leads_away(human: Path) -> bool:
    """Does it lead outside? A library must be the release's own, and nothing else of this machine."""
    return human.is_symlink() or human.parent.is_symlink()


def _is_task(path: Path) -> bool:
    pattern = re.compile(re.escape(path.name) + r"-\d+")
    return any(pattern.fullmatch(each.name) and is_task(each) for each in folders_in(path))


def _instances(task: Path, shelf: TaskShelf) -> list[TaskFolder]:
    """Instances in the order of their numbers. Other folders are noted."""
    numbered: list[tuple[int, Path]] = []
    for each in folders_in(task):
        match = re.fullmatch(re.escape(task.name) + r"-(\d{1,9})", each.name)
        if match and is_task(each):
            numbered.append((int(match[1]), each))
        elif is_task(each):
            expected = f"an instance named {task.name}-1 and so on"
            shelf.findings.problem(each, "folder", expected, f"found {shorten_suite_value(each.name)}")
        else:
            shelf.findings.note("Left out, not an instance", f"{task.name}/{each.name}")
    numbers = [number for number, _ in numbered]
    if len(set(numbers)) < len(numbers):
        shelf.findings.problem(task, "folder", "every number once", "two instances have the same")
    read = [(number, folder) for number, each in sorted(numbered) if (folder := shelf.read(each, BLANK))]
    if read and read[0][0] != 1:
        shelf.findings.note("No instance 1 here, so the lowest number is the seed", task.name)
    return [folder for _, folder in read]


def _read_curated(folder: Path) -> Files:
    found = read_tree(folder) if folder.is_dir() else {}
    return {path: file for path, file in found.items() if "/" in path}  # a licence next to the skills does not count


def _environment(path: Path, task: Path, shelf: TaskShelf) -> Environment | None:
    """The family of a task's instances, with skills and key points of the release in `path` if it has them."""
    check_name(task)
    instances = _instances(task, shelf)
    if not instances:
        return None
    key, points, curated = task.name, path / FOLDER / task.name, _read_curated(path / HUMAN / task.name)
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
    """Describe the kind of work by the seed instance's metadata, without how it is verified."""
    metadata = seed.toml.metadata.values
    category, tags = metadata.get("category"), metadata.get("tags")
    words = [category, *(tags if isinstance(tags, list) else [])]
    named = ", ".join(
        dict.fromkeys(word.strip()[:100] for word in words[:20] if isinstance(word, str) and word.strip())
    )
    return f"{title} ({named})" if named else title

"""A suite's families: from its folder, or as people group the tasks of a Harbor set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from runner.base.digests import digest_json, manifest
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Corpus, Environment, Family, Task
from runner.suites.tasks.task_groups import FAMILY

DIGEST_FORMAT = "suite-folder/1"
# {"by": attribute of task groups} or {"tasks": {key of a task: family}}; tasks it does not name keep their family.
FamilyChoice: TypeAlias = "Mapping[Literal['by', 'tasks'], str | Mapping[str, str]]"


def regroup(suite: Suite, format: str, choice: FamilyChoice) -> Suite:
    """Put the suite's tasks into the chosen families, with an environment for each as in a Harbor set. Its digest is
    that of a folder with these families. SetupError for a format whose families are part of the release."""
    by, named = choice.get("by", ""), choice.get("tasks", {})
    tasks = [task for each in suite.environments for family in each.families for task in family.tasks]
    chosen: dict[str, str] = {}
    for task in tasks:
        family = named.get(task.key) if isinstance(named, Mapping) else None
        chosen[task.key] = family or next(iter(task.groups.get(str(by), ())), "")
    if not any(chosen.values()):
        return suite
    if format != "harbor":
        raise SetupError(
            f"families of a suite in the format {format} are the release's; only those of harbor can be chosen"
        )
    names = {task.key: chosen[task.key] or task.family for task in tasks}
    families: dict[str, tuple[str, list[Task]]] = {}
    for task in tasks:
        families.setdefault(_key(names[task.key]), (names[task.key], []))[1].append(task)
    environments = tuple(_environment(key, *families[key]) for key in sorted(families))
    return replace(suite, environments=environments, digest=digest_suite(format, environments))


def _key(name: str) -> str:
    """Make a key fit for addresses and prompts."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-._")[:200] or FAMILY


def _environment(key: str, name: str, tasks: list[Task]) -> Environment:
    placed = tuple(
        replace(
            task,
            environment=key,
            family=key,
            ordinal=ordinal,
            groups={name: values for name, values in task.groups.items() if name != FAMILY},
        )
        for ordinal, task in enumerate(tasks, start=1)
    )
    return Environment(key, name, (Family(key, key, name, name.replace("-", " "), key, placed),))


def digest_suite(format: str, environments: tuple[Environment, ...]) -> str:
    """Digest everything that an episode is made of: structure, order, words, tasks, curated skills, and of a corpus its
    material and which tasks are for practice."""
    return digest_json(
        [
            DIGEST_FORMAT,
            format,
            [
                [
                    family.environment,
                    [family.key, family.slug, family.name, family.description],
                    [[task.key, task.role, list(task.requires), task.digest] for task in family.tasks],
                    manifest(family.curated),
                    *(_of_corpus(environment.corpus, family) if environment.corpus else ()),
                ]
                for environment in environments
                for family in environment.families
            ],
        ]
    )


def _of_corpus(corpus: Corpus, family: Family) -> tuple[str, str, list[str]]:
    return corpus.kind, corpus.digest, [task.key for task in family.tasks if task.practice]

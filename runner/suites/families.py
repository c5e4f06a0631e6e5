"""A suite's families: from its folder, or as people group the tasks of a Harbor set.

People assign groups in a mapping file, to families and tasks by their keys:

    format: skillglass-groups/1
    families: {ledger: {domain: Finance, category: [accounting, tables]}}
    tasks: {ledger-fees: {difficulty: easy, family: fees}}

`family` moves a task of a Harbor set to another family.
A task's own entries win over its family's. The file `groups.yaml` in a suite's folder is read with the suite.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from runner.base.digests import digest_json, manifest
from runner.base.errors import SetupError, SuiteProblems
from runner.base.suite import Suite
from runner.base.text import list_first
from runner.base.types import Corpus, Environment, Family, Task, TaskGroups
from runner.suites.documents import FieldTable, Findings, read_yaml
from runner.suites.tasks.task_groups import ATTRIBUTE, FAMILY, MAX_LENGTH, MAX_VALUES, TAKEN, read_values

FORMAT = "skillglass-groups/1"
BESIDE = "groups.yaml"
NAMED = 3  # keys in one note
DIGEST_FORMAT = "suite-folder/1"
# {"by": attribute of task groups} or {"tasks": {key of a task: family}}; tasks it does not name keep their family.
FamilyChoice: TypeAlias = "Mapping[Literal['by', 'tasks'], str | Mapping[str, str]]"


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """Attributes by the key of a family or of a task."""

    source: Path
    families: Mapping[str, TaskGroups]
    tasks: Mapping[str, TaskGroups]

    def of(self, family: str, task: str) -> TaskGroups:
        return {**self.families.get(family, {}), **self.tasks.get(task, {})}

    def notes(self, families: Collection[str], tasks: Collection[str]) -> Iterator[str]:
        """Report names that a suite with these families and tasks lacks: a copy may hold a part of a release."""
        for what, named, known in (("families", self.families, families), ("tasks", self.tasks, tasks)):
            strange = [key for key in named if key not in known]
            if strange:
                yield f"{self.source.name} names {what} that are not here: {list_first(strange, NAMED)}"


def read_mapping(source: Path) -> GroupMapping:
    """Read the file. SuiteProblems lists every problem with its place and the expectation."""
    findings = Findings()
    found: dict[str, dict[str, TaskGroups]] = {"families": {}, "tasks": {}}
    with findings.keep_errors():
        head = FieldTable(read_yaml(source), source, findings)
        if head.raw("format") != FORMAT:
            head.problem("format", repr(FORMAT))
        found = {name: _read_part(head.table(name)) for name in found}
        for name in head.list_unasked():
            head.problem(name[:100], "format, families or tasks", "nobody knows this field")
        if not findings.problems and not any(found.values()):
            head.problem("tasks", "groups of at least one family or task", "there is none")
    if findings.problems:
        raise SuiteProblems(findings.problems)
    return GroupMapping(source, **found)


def _read_part(part: FieldTable) -> dict[str, TaskGroups]:
    for key, value in part.values.items():
        if value in (None, {}):
            part.problem(key, "a table of attributes and values", "it is empty")
    return {key: dict(_read_groups(part.table(key))) for key in part.values}


def _read_groups(table: FieldTable) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in table.values:
        values = read_values(table.raw(name))
        if not ATTRIBUTE.fullmatch(name):
            table.problem(name[:100], "a name of lower-case letters, digits and _", "it is another name")
        elif name in TAKEN:
            table.problem(name, "another name", f"the record has its own {name}")
        elif name == FAMILY and len(values or ()) > 1:
            table.problem(name, "one family", "there are several")
        elif not values:
            table.problem(name, f"a text, or 1 to {MAX_VALUES} of them, of at most {MAX_LENGTH} printable characters")
        else:
            yield name, values


def apply_mapping_beside(path: Path, suite: Suite) -> Suite:
    """Apply the groups.yaml in the suite's folder, if there is one."""
    source = path / BESIDE
    return apply_mapping(read_mapping(source), suite) if source.is_file() else suite


def apply_mapping(mapping: GroupMapping, suite: Suite) -> Suite:
    """Apply the mapping. Its value for an attribute wins over the release's."""
    environments = tuple(
        replace(
            environment,
            families=tuple(
                replace(
                    family,
                    tasks=tuple(
                        replace(task, groups={**task.groups, **mapping.of(family.key, task.key)})
                        for task in family.tasks
                    ),
                )
                for family in environment.families
            ),
        )
        for environment in suite.environments
    )
    notes = mapping.notes([each.key for each in suite.families], [task.key for task in suite.tasks])
    return replace(suite, environments=environments, notes=(*suite.notes, *notes))


def regroup(suite: Suite, format: str, choice: FamilyChoice) -> Suite:
    """Put the suite's tasks into the chosen families, with an environment for each as in a Harbor set. Its digest is
    that of a folder with these families. SetupError for a format whose families are part of the release."""
    by, named = choice.get("by", ""), choice.get("tasks", {})
    tasks = suite.tasks
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

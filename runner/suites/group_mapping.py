"""A mapping file: task groups that no release states, assigned by people to families and tasks by their keys.

    format: skillglass-groups/1
    families: {ledger: {domain: Finance, category: [accounting, tables]}}
    tasks: {ledger-fees: {difficulty: easy, family: fees}}

`family` moves a task of a Harbor set to another family.
A task's own entries win over its family's. The file `groups.yaml` in a suite's folder is read with the suite.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runner.base.errors import SuiteProblems
from runner.base.suite import Suite
from runner.base.types import TaskGroups
from runner.suites.documents import FieldTable, read_yaml
from runner.suites.findings import Findings
from runner.suites.tasks.task_groups import ATTRIBUTE, FAMILY, MAX_LENGTH, MAX_VALUES, TAKEN, read_values

FORMAT = "skillglass-groups/1"
BESIDE = "groups.yaml"
NAMED = 3  # keys in one note


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
            more = f" and {len(strange) - NAMED:,} more" if len(strange) > NAMED else ""
            if strange:
                yield f"{self.source.name} names {what} that are not here: {', '.join(strange[:NAMED])}{more}"


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
    families = [family for environment in environments for family in environment.families]
    notes = mapping.notes([each.key for each in families], [task.key for each in families for task in each.tasks])
    return replace(suite, environments=environments, notes=(*suite.notes, *notes))

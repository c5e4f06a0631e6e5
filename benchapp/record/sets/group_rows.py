"""Task groups as rows: those a suite declares, and those of a mapping file, which win."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from django.db import transaction

from benchapp.models import Run, Suite, TaskGroup
from benchapp.models.suites import TaskGroupQuerySet
from runner.base.types import TaskGroups
from runner.suites.group_mapping import GroupMapping
from runner.suites.tasks.task_groups import FAMILY

GroupCell: TypeAlias = "tuple[int, str, str]"  # key of the task's row, attribute, value


def record_stated(suite: Suite, groups: Mapping[int, TaskGroups]) -> None:
    """Record a suite's current groups, by its tasks' row keys. A mapping file's values for a task's attribute are
    kept."""
    of_suite = TaskGroup.objects.filter(task__suite=suite)
    mapped = set(of_suite.filter(is_mapped=True).values_list("task_id", "attribute"))
    wanted = [cell for cell in _cells(groups) if cell[:2] not in mapped]
    if _replace(of_suite.filter(is_mapped=False, task__in=list(groups)), wanted, is_mapped=False):
        renew_numbers(suite)


@transaction.atomic
def record_mapping(suite: Suite, mapping: GroupMapping) -> dict[str, int]:
    """Replace all groups of the suite from earlier mapping files. Return attribute -> how many tasks have it from this
    one."""
    tasks = suite.tasks.values_list("pk", "key", "family__key")
    wanted = _cells({pk: mapping.of(family or "", key) for pk, key, family in tasks})
    pairs = {(task, attribute) for task, attribute, _ in wanted}
    of_suite = TaskGroup.objects.filter(task__suite=suite)
    stated = of_suite.filter(is_mapped=False).values_list("pk", "task_id", "attribute")
    beaten = [pk for pk, *pair in stated if tuple(pair) in pairs]
    TaskGroup.objects.filter(pk__in=beaten).delete()
    if _replace(of_suite.filter(is_mapped=True), wanted, is_mapped=True):
        renew_numbers(suite)
    return dict(sorted(Counter(attribute for _, attribute in pairs).items()))


def _cells(groups: Mapping[int, TaskGroups]) -> list[GroupCell]:
    return [
        (pk, name, value)
        for pk, said in groups.items()
        for name, values in said.items()
        for value in values
        if name != FAMILY  # a task's family is not a group
    ]


def _replace(rows: TaskGroupQuerySet, wanted: list[GroupCell], *, is_mapped: bool) -> bool:
    """Turn the rows into the wanted ones. Did anything change?"""
    known = {
        (task, name, value): pk for pk, task, name, value in rows.values_list("pk", "task_id", "attribute", "value")
    }
    gone = [known[cell] for cell in known.keys() - set(wanted)]
    new = [
        TaskGroup(task_id=task, attribute=name, value=value, is_mapped=is_mapped)
        for task, name, value in wanted
        if (task, name, value) not in known
    ]
    TaskGroup.objects.filter(pk__in=gone).delete()
    TaskGroup.objects.bulk_create(new)
    return bool(gone or new)


def renew_numbers(suite: Suite) -> None:
    """Invalidate charts and timelines: they are cached by the revisions of their runs."""
    Run.objects.filter(episodes__trials__task__suite=suite).touch()

"""A suite from disk as rows: environments, families, tasks and their current revisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchapp import models
from benchapp.record.sets.group_rows import record_stated, renew_numbers
from runner.base.suite import Suite
from runner.base.types import Environment, Family, Task


@dataclass(frozen=True, slots=True)
class SuiteRows:
    """The rows of a recorded suite, by the keys of its environments and tasks."""

    suite: models.Suite
    environments: dict[str, models.Environment] = field(default_factory=dict)
    tasks: dict[str, models.Task] = field(default_factory=dict)
    revisions: dict[str, models.TaskRevision] = field(default_factory=dict)


def record_suite(suite: Suite) -> SuiteRows:
    """Record the current state of the suite. A changed task gets a new revision; the old one stays with its trials."""
    row, _ = models.Suite.objects.update_or_create(
        key=suite.key, defaults={"name": suite.name, "version": suite.version, "digest": suite.digest}
    )
    rows, before = SuiteRows(row), _read_names(row)
    for ordinal, environment in enumerate(suite.environments, start=1):
        rows.environments[environment.key] = _environment(rows, environment, ordinal)
    families = [family for environment in suite.environments for family in environment.families]
    record_stated(row, {rows.tasks[task.key].pk: task.groups for family in families for task in family.tasks})
    if before.items() - _read_names(row).items():
        renew_numbers(row)  # timelines of ended runs are cached with the names in them
    return rows


def _read_names(suite: models.Suite) -> dict[str, tuple[object, ...]]:
    """Return what pages show of each task, by its key."""
    shown = suite.tasks.values_list("key", "title", "role", "family__name", "family__slug", "family__environment__name")
    return {key: tuple(names) for key, *names in shown}


def _environment(rows: SuiteRows, environment: Environment, ordinal: int) -> models.Environment:
    kind = environment.corpus.kind if environment.corpus else ""
    row, _ = models.Environment.objects.update_or_create(
        suite=rows.suite, key=environment.key, defaults={"name": environment.name, "ordinal": ordinal, "kind": kind}
    )
    for place, family in enumerate(environment.families, start=1):
        _family(rows, row, family, place)
    return row


def _family(rows: SuiteRows, environment: models.Environment, family: Family, ordinal: int) -> None:
    row, _ = models.Family.objects.update_or_create(
        suite=rows.suite,
        key=family.key,
        defaults={
            "environment": environment,
            "slug": family.slug,
            "name": family.name,
            "description": family.description,
            "ordinal": ordinal,
        },
    )
    for task in family.tasks:
        _task(rows, row, task)


def _task(rows: SuiteRows, family: models.Family, task: Task) -> None:
    row, _ = models.Task.objects.update_or_create(
        suite=rows.suite,
        key=task.key,
        defaults={"family": family, "title": task.title, "role": task.role or "", "ordinal": task.ordinal},
    )
    instruction = models.Blob.objects.put(task.instruction.encode())
    revision, _ = models.TaskRevision.objects.get_or_create(
        task=row, digest=task.digest, defaults={"instruction_id": instruction}
    )
    rows.tasks[task.key], rows.revisions[task.key] = row, revision
    _key_points(row, task)


def _key_points(row: models.Task, task: Task) -> None:
    """Replace them by the suite's current ones. A suite without any leaves those of an import."""
    if not task.key_points:
        return
    points = [(each.kind, each.ordinal, each.text, each.reason, each.reference) for each in task.key_points]
    columns = ("kind", "ordinal", "text", "reason", "reference")
    if sorted(points) == sorted(row.key_points.values_list(*columns)):
        return
    row.key_points.all().delete()
    models.KeyPoint.objects.bulk_create(
        models.KeyPoint(task=row, **dict(zip(columns, values, strict=True))) for values in points
    )

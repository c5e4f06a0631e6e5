from __future__ import annotations

from benchapp.models import Environment, Family, Suite, Task, TaskRevision
from runner.base.digests import digest_json
from runner.base.types import ACQUISITION_ROLES, DEPLOYMENT_ROLES

ENVIRONMENTS, FAMILIES = 6, 5


def make_synthetic_suite() -> Suite:
    """Return a suite of the published benchmark's shape: 6 environments x 5 families x 6 roles. Created only once."""
    suite, created = Suite.objects.get_or_create(key="synthetic", defaults={"name": "Synthetic 180", "version": "1"})
    if created:
        for number in range(1, ENVIRONMENTS + 1):
            _create_environment(suite, number)
    return suite


def _create_environment(suite: Suite, number: int) -> None:
    environment = Environment.objects.create(suite=suite, key=f"E{number}", name=f"E{number} synthetic", ordinal=number)
    for place in range(1, FAMILIES + 1):
        key = f"E{number}-LS{place}"
        family = Family.objects.create(
            suite=suite,
            environment=environment,
            key=key,
            slug=f"skill-{number}-{place}",
            name=f"procedure {number}.{place}",
            ordinal=place,
        )
        tasks = Task.objects.bulk_create(
            Task(suite=suite, family=family, key=f"{key}-T{t}", title=f"{key}-T{t} {role}", role=role, ordinal=t)
            for t, role in enumerate((*ACQUISITION_ROLES, *DEPLOYMENT_ROLES), start=1)
        )
        TaskRevision.objects.bulk_create(
            TaskRevision(task=task, digest=digest_json(["synthetic", task.key])) for task in tasks
        )

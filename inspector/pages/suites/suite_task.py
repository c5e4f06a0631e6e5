"""One task of a suite: what an agent is asked, what is checked, where it runs, and how often it was passed."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from benchapp import models
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.shares import Rate
from inspector.pages.suites.suite import SuiteTask, SuiteView, count_by_condition, find_task
from inspector.web.text.markdown import split_frontmatter
from runner.base.errors import SuiteError
from runner.base.types import Files, Task
from runner.suites.documents import read_text
from runner.suites.tasks.tests_outline import TestsFile, outline_tests

MAX_SKILL = 20_000  # characters of one SKILL.md
_FROM = re.compile(r"^[^\S\n]*FROM\s+(?:--\S+\s+)*(\S+)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReferenceSkill(Shaped):
    """A skill that people wrote for the task's family: its SKILL.md, and the number of files next to it."""

    name: str
    text: str
    files: int

    json_shape = JsonShape("name", "files", "text")


@dataclass(frozen=True, slots=True)
class SuiteTaskView(Shaped):
    """`instruction` is the latest that is known. `environment`: what its folder asks of the machine, in words; empty
    where the folder is not here."""

    task: SuiteTask
    instruction: str
    tests: tuple[TestsFile, ...]
    verified: str
    environment: tuple[tuple[str, str], ...]
    skills: tuple[ReferenceSkill, ...]
    conditions: tuple[tuple[str, Rate], ...]

    json_shape = JsonShape(
        *("*task", "instruction", "verified", "tests", "reference_skills=skills"),
        ("environment", lambda row: dict(row.environment)),
        ("conditions", lambda row: dict(row.conditions)),
    )


def read_task_view(view: SuiteView, task: SuiteTask) -> SuiteTaskView:
    found = find_task(view.read, task.key)
    return SuiteTaskView(
        task,
        found.instruction if found else _recorded_instruction(view.row, task.key),
        tuple(outline_tests(found.folder)) if found else (),
        _describe_verifier(found) if found else "",
        tuple(_describe_machine(found)) if found else (),
        _reference_skills(view, found) if found else (),
        tuple(count_by_condition(view.row, task.key)),
    )


def _recorded_instruction(row: models.Suite | None, key: str) -> str:
    """Of the latest revision that has one; "" where an import brought none."""
    revisions = models.TaskRevision.objects.filter(task__suite=row, task__key=key).exclude(instruction=None)
    latest = revisions.select_related("instruction").order_by("-pk").first() if row else None
    return latest.instruction.text() if latest and latest.instruction else ""


def _describe_verifier(task: Task) -> str:
    if task.evaluation is not None:
        return "tests/evaluation.toml declares what outputs are compared with"
    shared = f", with {', '.join(path.name for path in task.shared_tests)} next to it" if task.shared_tests else ""
    return f"tests/test.sh decides{shared}"


def _describe_machine(task: Task) -> list[tuple[str, str]]:
    machine = task.machine
    image = machine.image or "the sandbox's own"
    if machine.context is not None:
        bases = []
        with suppress(SuiteError):
            bases = _FROM.findall(read_text(machine.context / "Dockerfile"))
        image = "built from its Dockerfile" + (f", on {', '.join(dict.fromkeys(bases))[:200]}" if bases else "")
    names = ", ".join(sorted({*machine.environment, *machine.host_variables}))
    return [
        ("Image", image),
        ("Network", "reaches the outside" if machine.network else "none"),
        ("Limits", f"{machine.cpus:g} CPU, {machine.memory_mb:,} MiB memory, {machine.storage_mb:,} MiB disk"),
        ("Time", f"agent {task.agent_timeout_seconds:,.0f} s, verifier {task.verifier_timeout_seconds:,.0f} s"),
        *([("Variables", names)] if names else []),
        *([("Composes", ", ".join(task.requires))] if task.requires else []),
    ]


def _reference_skills(view: SuiteView, task: Task) -> tuple[ReferenceSkill, ...]:
    environments = view.read.environments if view.read else ()
    curated: Files = next(
        (family.curated for part in environments for family in part.families if family.key == task.family), {}
    )
    slugs = dict.fromkeys(path.partition("/")[0] for path in sorted(curated))
    return tuple(
        ReferenceSkill(
            slug,
            _read_advice(curated, slug),
            sum(path.startswith(f"{slug}/") for path in curated),
        )
        for slug in slugs
    )


def _read_advice(curated: Files, slug: str) -> str:
    """SKILL.md below its frontmatter."""
    file = curated.get(f"{slug}/SKILL.md")
    return split_frontmatter(file.content.decode("utf-8", "replace"))[1][:MAX_SKILL] if file else ""

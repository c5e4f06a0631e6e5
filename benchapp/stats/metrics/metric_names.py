"""A metric as readers see it: a plain name, with the code of the papers in small type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchapp.stats.metrics.metric import MetricUnit, RunMetric, TrialMetric
from runner.base.types import Role


@dataclass(frozen=True, slots=True)
class MetricName:
    """`short` is for a tab or a tile. `tasks`: what the metric counts, "new tasks"; `did`: what a condition did to
    them; `done`: the same about the tasks."""

    code: str
    title: str
    short: str
    tasks: str = "tasks"
    did: str = "solved"
    done: str = "solved"

    def count(self, number: int) -> str:
        """Return what it counts, in the right number: "new task" for 1."""
        return self.tasks if number != 1 else re.sub(r"\b(task|instance)s\b", r"\1", self.tasks)


KNOWN = {
    name.code: name
    for name in (
        MetricName("LSR", "Acquisition success", "Acquisition", "acquisition tasks"),
        MetricName("RSR", "Replay success", "Replay", "repeated tasks"),
        MetricName("ESR", "Deployment success", "Deployment", "new tasks"),
        MetricName("CSSR", "New-context success", "New context", "tasks in a new setting"),
        MetricName("ARSR", "Trap success", "Traps", "trap tasks"),
        MetricName("CompSR", "Composition success", "Composition", "composition tasks"),
        MetricName("completion", "Tasks completed", "Completed"),
        MetricName("completion-past-first", "Completed, past the first task", "Past first"),
        MetricName("accuracy", "Instances passed", "All instances", "instances", "passed", "passed"),
        MetricName("accuracy-seed", "Seed instances passed", "Seed", "seed instances", "passed", "passed"),
        MetricName(
            "accuracy-held-out", "Held-out instances passed", "Held out", "held-out instances", "passed", "passed"
        ),
    )
}


UNTOLD = (MetricUnit.SHARE, MetricUnit.COUNT)


def note_metric(metric: TrialMetric | RunMetric) -> str:
    """Return the small note of a metric: its code and unit, each only where the name does not have it already."""
    said = name_metric(metric).title.lower()
    code = metric.key if metric.key.replace("-", " ").lower() != said else ""
    unit = "" if metric.unit in UNTOLD or metric.unit.value.lower() in said.split() else metric.unit.value
    return ", ".join(filter(None, (code, unit)))


ROLES: Mapping[str, str] = {
    Role.CONTEXT_SHIFT: "new context",
    Role.ADVERSARIAL: "trap",
    Role.COMPOSITION: "composition",
}


def name_role(role: str) -> str:
    """Return a role in the words of its metric; the code stays in addresses and files."""
    return ROLES.get(role, role)


def name_metric(metric: TrialMetric | RunMetric) -> MetricName:
    """Return the plain names of a metric; one without gets its own name, beginning with a capital."""
    if known := KNOWN.get(metric.key):
        return known
    plain = metric.name[:1].upper() + metric.name[1:]
    if isinstance(metric, TrialMetric) and metric.column == "used":
        return MetricName(metric.key, plain, plain, did="used a skill in", done="with a skill used")
    return MetricName(metric.key, plain, plain)

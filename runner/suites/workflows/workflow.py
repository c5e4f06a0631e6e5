"""A task's workflow: its steps, what each needs, and the rules that a workflow has to keep.

SkillFlow (section 2.2) calls the part that a family shares its domain-agnostic execution flow, DAEF. The labels are
those of its Table 4, the rules those of its appendix A.5, the kinds of variation those of its Table 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

LABELS = {
    "read": "open and look through the sources",
    "extract": "take the wanted fields or records out of a source",
    "retrieve": "find the state, range or place to work on",
    "normalize": "bring keys, units, formats or names into one form",
    "filter": "keep valid records, leave out the others",
    "align": "join or map sources by a shared key or layout",
    "compute": "work out numbers: formulas, sums, scores, plans",
    "compare": "hold values against a threshold, a reference or each other",
    "detect": "find anomalies, violations, gaps or changes",
    "update": "change, fill in or repair what exists",
    "validate": "check that a result keeps its rules",
    "output": "write the result in the form that is asked for",
}
VARIATIONS = {
    "entities": "what it is about",
    "format": "file format",
    "scale": "amount of data",
    "noise": "noise and quality of data",
    "constraints": "thresholds and rules",
    "instruction": "wording of the instruction",
    "difficulty": "difficulty",
}
LEAST, MOST = 5, 8  # steps
MAX_GROUNDING, MAX_WHY = 300, 500  # characters
STEP_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """`label`: its kind of operation. `grounding`: what it is in this task. `why`: one sentence for the label.
    `needs`: ids of earlier steps."""

    id: str
    label: str
    grounding: str = ""
    why: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workflow:
    """`varies`: kinds of variation that distinguish the task from others of its family. Ids only count in this
    workflow: labels and edges show what two workflows share."""

    steps: tuple[WorkflowStep, ...] = ()
    varies: tuple[str, ...] = ()

    @property
    def edges(self) -> frozenset[tuple[str, str]]:
        """(earlier, later). A need of a missing step makes no edge."""
        ids = {step.id for step in self.steps}
        return frozenset((need, step.id) for step in self.steps for need in step.needs if need in ids)

    @property
    def by_id(self) -> dict[str, WorkflowStep]:
        return {step.id: step for step in self.steps}

    def find_circle(self) -> list[str]:
        """Ids along a circle of needs, the first again at its end; empty without one."""
        try:
            TopologicalSorter({step.id: step.needs for step in self.steps}).prepare()
        except CycleError as error:
            return list(error.args[1])[::-1]
        return []

    def layers(self) -> list[list[WorkflowStep]]:
        """Put each step as early as its longest path from a start allows. Steps in a circle come last, together."""
        ids, places = set(self.by_id), dict[str, int]()
        waiting = list(self.steps)
        while ready := [step for step in waiting if all(need in places for need in step.needs if need in ids)]:
            for step in ready:
                before = [places[need] for need in step.needs if need in ids]
                places[step.id] = 1 + max(before, default=-1)
            waiting = [step for step in waiting if step.id not in places]
        found: list[list[WorkflowStep]] = [[] for _ in range(1 + max(places.values(), default=-1))]
        for step in self.steps:
            if step.id in places:
                found[places[step.id]].append(step)
        return [*found, *([waiting] if waiting else [])]

    def in_order(self) -> Workflow:
        """Sort each step after its needs, else keep the order. Steps in a circle come last."""
        ids, done, waiting = set(self.by_id), dict[str, WorkflowStep](), list(self.steps)
        while ready := next(
            (step for step in waiting if all(need in done for need in step.needs if need in ids)), None
        ):
            done[ready.id] = ready
            waiting.remove(ready)
        return Workflow((*done.values(), *waiting), self.varies)


@dataclass(frozen=True, slots=True)
class WorkflowRule:
    """One rule, and how a workflow breaks it; with an empty `problem` it holds."""

    name: str
    problem: str = ""


def check_workflow(workflow: Workflow) -> list[WorkflowRule]:
    """Check every rule in a fixed order. Messages name steps by their ids."""
    return [
        WorkflowRule(f"{LEAST} to {MOST} steps", _check_size(workflow)),
        WorkflowRule("each step has one of the twelve labels", _name(workflow, lambda step: step.label not in LABELS)),
        WorkflowRule("no circle", " needs ".join(workflow.find_circle())),
        WorkflowRule("all steps lead to one last step", _check_joined(workflow)),
        WorkflowRule(
            "each step says what it is in this task", _name(workflow, lambda step: not step.grounding.strip())
        ),
        WorkflowRule("each label has its reason", _name(workflow, lambda step: not step.why.strip())),
    ]


def list_problems(workflow: Workflow) -> list[str]:
    return [f"{rule.name}: {rule.problem}" for rule in check_workflow(workflow) if rule.problem]


def _check_size(workflow: Workflow) -> str:
    count = len(workflow.steps)
    return "" if LEAST <= count <= MOST else f"{count} now"


def _check_joined(workflow: Workflow) -> str:
    """Parallel steps meet again in a later one (the fourth rule), so a single step is last."""
    needed = {earlier for earlier, _ in workflow.edges}
    last = [step.id for step in workflow.steps if step.id not in needed]
    return "" if len(last) == 1 else f"{', '.join(last) or 'no step'} {'are' if last else 'is'} last"


def _name(workflow: Workflow, is_wrong: Callable[[WorkflowStep], bool]) -> str:
    named = ", ".join(step.id for step in workflow.steps if is_wrong(step))
    return f"not {named}" if named else ""


def to_plain(workflow: Workflow) -> dict[str, object]:
    """Convert to the form in JSON and files. Empty fields of a step are left out."""
    steps: list[dict[str, object]] = []
    for step in workflow.steps:
        payload = {"grounding": step.grounding, "why": step.why, "needs": list(step.needs)}
        steps.append({"id": step.id, "label": step.label, **{name: value for name, value in payload.items() if value}})
    return {**({"varies": list(workflow.varies)} if workflow.varies else {}), "steps": steps}


def from_plain(value: Mapping[str, object]) -> Workflow:
    """Read what `to_plain` wrote. For files, which may hold anything, there is `workflow_file`."""
    steps, varies = value.get("steps", ()), value.get("varies", ())
    assert isinstance(steps, list | tuple)
    assert isinstance(varies, list | tuple)
    found = (WorkflowStep(**{**step, "needs": tuple(step.get("needs", ()))}) for step in steps)
    return Workflow(tuple(found), tuple(varies))

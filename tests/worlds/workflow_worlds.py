"""Workflows in one line each, for tests."""

from __future__ import annotations

from runner.suites.workflows.workflow import Workflow, WorkflowStep


def draw(text: str) -> Workflow:
    """Steps by label; each needs the one before it, or those behind "<". "read:a" is a read called a, and needs
    nothing.

    draw("read:a read:b align<a,b output")
    """
    steps: list[WorkflowStep] = []
    for word in text.split():
        head, _, needs = word.partition("<")
        label, _, named = head.partition(":")
        before = (steps[-1].id,) if steps and not named else ()
        listed = tuple(needs.split(",")) if needs else before
        steps.append(WorkflowStep(named or label, label, f"the {label} of it", f"It is a {label}.", listed))
    return Workflow(tuple(steps))

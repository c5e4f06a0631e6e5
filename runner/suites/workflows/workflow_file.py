"""Workflows of a suite as a file that people read, keep in version control and bring into another installation.

format: skillglass-workflows/1
families:
  ledgers:
    ledger-fees:
      - by: person-abc123           # who drew it
        consistent: true            # optional: finds the other annotator's workflow consistent with this one
        varies: [format, scale]     # optional: kinds of variation, see VARIATIONS
        steps:
          - {id: s1, label: read, grounding: both ledgers, why: Everything starts from them.}
          - {id: s2, label: align, grounding: fees and accounts, why: They share a key., needs: [s1]}
      - by: person-def456
        settled: true               # the adjudicator's
        steps: [...]

`needs` are the edges: ids of earlier steps. Every workflow keeps the rules of `check_workflow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from runner.base.errors import SuiteProblems
from runner.suites.documents import FieldTable, Findings, decode_text, parse_yaml
from runner.suites.workflows.workflow import (
    LABELS,
    MAX_GROUNDING,
    MAX_WHY,
    MOST,
    STEP_ID,
    VARIATIONS,
    Workflow,
    WorkflowStep,
    list_problems,
    to_plain,
)

FORMAT = "skillglass-workflows/1"
MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class FiledWorkflow:
    """One workflow in a file. `by`: who drew it. `settled`: as adjudicator. `consistent`: `by`'s opinion of the other
    annotator's workflow; None: no opinion."""

    family: str
    task: str
    by: str
    workflow: Workflow
    settled: bool = False
    consistent: bool | None = None


def read_workflows(content: bytes, name: str) -> list[FiledWorkflow]:
    """Read them in the order of the file called `name`. SuiteProblems lists every problem: file, place, expectation."""
    findings, source = Findings(), Path(name)
    found: list[FiledWorkflow] = []
    with findings.keep_errors():
        text = decode_text(content, source)
        head = FieldTable(parse_yaml(text, source, aliases=False), source, findings)
        if head.raw("format") != FORMAT:
            head.problem("format", repr(FORMAT))
        found = list(_read_families(head.table("families")))
        for field in head.list_unasked():
            head.problem(field[:MAX_NAME], "format or families", "nobody knows this field")
        if not findings.problems and not found:
            head.problem("families", "a workflow of at least one task", "there is none")
        for each in _list_repeated(found):
            place = f"families.{each.family}.{each.task}"
            findings.problem(source, place, "one workflow of each person", f"{each.by} has several")
    if findings.problems:
        raise SuiteProblems(findings.problems)
    return found


def _read_families(families: FieldTable) -> Iterator[FiledWorkflow]:
    for family in families.values:
        tasks = families.table(family)
        for task in tasks.values:
            for table in _tables(tasks, task):
                yield _read_filed(family, task, table)


def _tables(table: FieldTable, name: str) -> Iterator[FieldTable]:
    """The tables of a list, with their numbers from 1 in their places."""
    listed = table.raw(name)
    if not isinstance(listed, list) or not listed:
        table.problem(name, "a list with at least one entry")
        return
    for number, value in enumerate(listed, start=1):
        place = f"{table.at(name)}[{number}]"
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            yield type(table)(value, table.source, table.findings, place)
        else:
            table.findings.problem(table.source, place, "a table", f"found {type(value).__name__}")


def _read_filed(family: str, task: str, table: FieldTable) -> FiledWorkflow:
    before = len(table.findings.problems)
    by = table.text("by", longest=MAX_NAME)
    settled, consistent = bool(table.flag("settled")), table.flag("consistent")
    steps = tuple(_read_step(step) for step in _tables(table, "steps"))
    workflow = Workflow(steps, _read_names(table, "varies", VARIATIONS))
    _refuse_unasked(table)
    if len(table.findings.problems) == before:
        loose = _list_loose(workflow) if len(steps) <= MOST else ()
        for problem in (*loose, *list_problems(workflow)):
            table.problem("steps", "a workflow that keeps the rules", problem)
    return FiledWorkflow(family, task, by, workflow, settled, consistent)


def _read_step(table: FieldTable) -> WorkflowStep:
    step_id, label = table.text("id", longest=40), table.text("label", longest=40)
    if step_id and not STEP_ID.fullmatch(step_id):
        table.problem("id", "lower-case letters, digits and -")
    if label and label not in LABELS:
        table.problem("label", f"one of {', '.join(LABELS)}")
    grounding, why = table.text("grounding", longest=MAX_GROUNDING), table.text("why", longest=MAX_WHY)
    needs = table.texts("needs")
    if len(needs) > MOST or len(set(needs)) < len(needs):
        table.problem("needs", f"at most {MOST} ids, each once")
    _refuse_unasked(table)
    return WorkflowStep(step_id, label, grounding, why, needs)


def _read_names(table: FieldTable, name: str, known: Mapping[str, str]) -> tuple[str, ...]:
    found = table.texts(name)
    if len(set(found)) < len(found) or not set(found) <= set(known):
        table.problem(name, f"some of {', '.join(known)}, each once")
    return found


def _refuse_unasked(table: FieldTable) -> None:
    for name in table.list_unasked():
        table.problem(name[:MAX_NAME], "a field of this format", "nobody knows this field")


def _list_loose(workflow: Workflow) -> Iterator[str]:
    ids = [step.id for step in workflow.steps]
    for step in workflow.steps:
        if ids.count(step.id) > 1:
            yield f"several steps are called {step.id}"
        for need in step.needs:
            if need not in ids:
                yield f"{step.id} needs {need[:MAX_NAME]}, and no step has this id"


def _list_repeated(found: Iterable[FiledWorkflow]) -> Iterator[FiledWorkflow]:
    seen: set[tuple[str, str, bool]] = set()
    for each in found:
        key = (each.task, "" if each.settled else each.by, each.settled)
        if key in seen:
            yield each
        seen.add(key)


def write_workflows(filed: Iterable[FiledWorkflow]) -> bytes:
    """Write a file for `read_workflows`, equal for equal workflows."""
    families: dict[str, dict[str, list[object]]] = {}
    for each in filed:
        payload = {"by": each.by, **({"settled": True} if each.settled else {})}
        judged = {} if each.consistent is None else {"consistent": each.consistent}
        plain = {**payload, **judged, **to_plain(each.workflow)}
        families.setdefault(each.family, {}).setdefault(each.task, []).append(plain)
    raw = {"format": FORMAT, "families": families}
    text: str = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=100)
    return text.encode()

"""A suite's qualification as its page shows it: verdicts, the runs behind them, how sure they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypedDict
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.experiments.qualifying.qualification import list_qualifications
from benchapp.experiments.qualifying.task_verdicts import (
    CHECK_WORDS,
    RATES,
    Admission,
    TaskCheck,
    TaskVerdict,
    count_admissions,
    read_verdicts,
    say_verdicts,
)
from benchapp.models import Experiment
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.web.responses import link_to
from runner.base.suite import Suite
from runner.suites import SUITES

SHIPPED = "qualification.json"  # in a bundled suite's folder: `qualification` of its page's twin, as it was when it was released
TONES = {Admission.ADMIT: "ok", Admission.REJECT: "bad", Admission.LOOK: "warn"}


@dataclass(frozen=True, slots=True)
class RuleChances(Shaped):
    """How probable it is that a task keeps a rule whose runs pass at one of RATES."""

    title: str
    rule: str
    chances: tuple[float, ...]

    json_shape = JsonShape(
        "check=title",
        "rule",
        (
            "chances",
            lambda row: [{"rate": rate, "kept": chance} for rate, chance in zip(RATES, row.chances, strict=True)],
        ),
    )

    @property
    def shown(self) -> list[str]:
        """Of 100 tasks; ends of the scale only where they are meant."""
        return [
            f"{100 * chance:.0f}"
            if 0.005 <= chance <= 0.995 or chance in (0.0, 1.0)
            else "<1"
            if chance < 0.5
            else ">99"
            for chance in self.chances
        ]


@dataclass(frozen=True, slots=True)
class SuiteQualification(Shaped):
    """`is_of_this_state`: the suite's folder is as it was when its tasks were tried. `asked`: agent and model."""

    experiment: Experiment
    digest: str
    is_of_this_state: bool
    asked: str
    stand_ins: frozenset[StandIn]
    tasks: tuple[TaskVerdict, ...]

    json_shape = JsonShape(
        *("id=experiment", "status=experiment.status", "digest", "is_of_this_state", "asked?", "measured_at"),
        *("counts", "chances", "tasks"),
        link_to("experiment-json", "experiment.public_id"),
    )

    @property
    def measured_at(self) -> datetime:
        return self.experiment.finished_at or self.experiment.created_at

    @property
    def counts(self) -> dict[str, int]:
        return count_admissions(self.tasks)

    @property
    def says(self) -> str:
        return say_verdicts(self.tasks)

    @property
    def checks(self) -> list[str]:
        """Names of the checks that some task has, in their order."""
        names = {check.name for each in self.tasks for check in each.checks}
        return [name for name in CHECK_WORDS if name in names]

    @property
    def heads(self) -> list[str]:
        return [CHECK_WORDS[name] for name in self.checks]

    @property
    def has_costs(self) -> bool:
        return any(each.cost_usd for each in self.tasks)

    @property
    def rows(self) -> list[tuple[TaskVerdict, str, list[TaskCheck | None]]]:
        """Each task, the tone of its verdict, and its checks below `heads`."""
        return [(each, TONES[each.admission], [_find(each, name) for name in self.checks]) for each in self.tasks]

    @property
    def chances(self) -> list[RuleChances]:
        rules = {check.name: check.rule for each in self.tasks for check in each.checks}
        return [
            RuleChances(CHECK_WORDS[name], str(rules[name]), tuple(map(rules[name].chance, RATES)))
            for name in self.checks
        ]


def _find(verdict: TaskVerdict, name: str) -> TaskCheck | None:
    return next((check for check in verdict.checks if check.name == name), None)


def read_qualification(key: str, digest: str) -> SuiteQualification | None:
    """Of the suite as it is now; where that state has none, of an earlier one."""
    found, then = list_qualifications({key: digest}).get(key, (None, ""))
    if found is None:
        return None
    runs = list(found.runs.all())
    asked = next((f"{run.harness} with {run.agent_model}" for run in runs if run.agent_model), "")
    stand_ins = join_stand_ins(run for run in runs if run.agent_model or not asked)
    tasks = tuple(_link(found, each) for each in read_verdicts(found))
    return SuiteQualification(found, then, then == digest, asked, stand_ins, tasks)


def _link(experiment: Experiment, verdict: TaskVerdict) -> TaskVerdict:
    """With an address for the trials of each check."""
    page = reverse("compare-trials")

    def address(condition: str) -> str:
        return f"{page}?{urlencode({'experiment': experiment.public_id, 'condition': condition, 'task': verdict.key})}"

    checks: Sequence[TaskCheck] = verdict.checks
    linked = tuple(replace(each, url=address(each.condition)) if each.trials else each for each in checks)
    return replace(verdict, checks=linked)


class ShippedCheck(TypedDict):
    check: str
    kept: bool | None


class ShippedVerdict(TypedDict):
    task: str
    verdict: str
    reasons: list[str]
    checks: list[ShippedCheck]


class ShippedVerdicts(TypedDict):
    """What is read of the file; a page shows all of it."""

    digest: str
    tasks: list[ShippedVerdict]


def read_shipped(read: Suite | None) -> ShippedVerdicts | None:
    """The verdicts that a bundled suite brings along; None where it has none, or its tasks are others by now."""
    if read is None or read.key not in SUITES:
        return None
    task = read.environments[0].families[0].tasks[0]
    path = task.folder.parent.parent / SHIPPED
    if not path.is_file():
        return None
    found: ShippedVerdicts = json.loads(path.read_text())
    return found if found["digest"] == read.digest else None

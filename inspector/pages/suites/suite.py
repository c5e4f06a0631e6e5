"""One suite: its families and tasks with their groups, from the record or, where nothing was recorded, from its folder.

Of one task also what an agent is asked, what is checked, where it runs, and how often it was passed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, QuerySet
from django.http import Http404
from django.urls import reverse

from benchapp import models
from benchapp.experiments.qualification import Fit, TaskFit
from benchapp.models.trials import TALLY
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.joined_suites import is_joined
from benchapp.record.sets.suite_files import find_suite
from benchapp.review.blinding import ReviewAccess
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.catalogue import name_role
from benchapp.stats.metrics.splits import name_attribute, order_value
from inspector.charts.drawing.places import name_value
from inspector.pages.suites.suites import BUNDLED, IMPORTED, experiments_of
from inspector.web.responses import PathLink
from inspector.web.text.markdown import split_frontmatter
from runner.base.errors import SetupError, SuiteError
from runner.base.suite import Suite
from runner.base.text import plural
from runner.base.trees import slugs
from runner.base.types import Files, Task, TaskGroups
from runner.suites import SUITES
from runner.suites.documents import read_text
from runner.suites.tasks.task_files import outline_tests
from runner.suites.tasks.task_groups import KNOWN

NO_FOLDER = "Created by an import; its task folder is not on this server."
NOT_STATED = "not stated"  # heads the tasks without a value of the attribute they are listed by
PLACES = ("environment", "family", "role")  # what tasks are listed by besides the attributes of their groups
FIT = "fit"
MAX_SKILL = 20_000  # characters of one SKILL.md
_FROM = re.compile(r"^[^\S\n]*FROM\s+(?:--\S+\s+)*(\S+)", re.MULTILINE | re.IGNORECASE)
HIDDEN = ("gap", "trap", "composition")  # attributes of a task that say what is hard about it


@dataclass(frozen=True, slots=True)
class SuiteTask(Shaped):
    """`rate`: over the recorded trials of experiments that were not deleted, without probes, qualifications and
    trials that the reader has yet to code; None: no trial."""

    key: str
    title: str
    environment: str
    family: str
    role: str
    groups: TaskGroups
    rate: Rate | None = None
    trials_url: str = ""
    fit: TaskFit = TaskFit()

    json_shape = JsonShape(
        "key title environment? family? role?",
        ("groups", lambda row: {name: list(values) for name, values in row.groups.items()}),
        ("passed", lambda row: row.rate and row.rate.passed),
        ("scored", lambda row: row.rate and row.rate.scored),
        ("planned", lambda row: row.rate and row.rate.planned),
        ("trials_url", lambda row: PathLink(row.trials_url) if row.trials_url else None),
        "fit=fit.fit fit_why=fit.why?",
    )

    @property
    def signals(self) -> list[tuple[str, str]]:
        """Return its groups in words, those the papers list first."""
        known = sorted(self.groups, key=lambda name: (KNOWN.index(name) if name in KNOWN else len(KNOWN), name))
        return [(name_attribute(name), ", ".join(self.groups[name]).replace("_", " ")) for name in known]

    @property
    def tests(self) -> str:
        """Return what it tests, in words: its role, and what its suite states as hard about it."""
        signals = dict(self.signals)
        hard = [(name, signals[name_attribute(name)]) for name in HIDDEN if name in self.groups]
        if self.role and len(hard) == 1 and name_role(self.role) == hard[0][0]:
            return f"{name_role(self.role)}: {hard[0][1]}"
        return " · ".join(filter(None, [name_role(self.role), *(f"{name}: {values}" for name, values in hard)]))

    def values_of(self, by: str) -> tuple[str, ...]:
        """Return those of a place or of an attribute; several where it has several, none where it has none."""
        if by in PLACES:
            value: str = getattr(self, by)
            return (value,) if value else ()
        if by == FIT:
            return (self.fit.fit.words,)
        return tuple(self.groups.get(by, ()))


@dataclass(frozen=True, slots=True)
class SuiteFamily(Shaped):
    """A family's row of the catalogue. `skills`: folders of the skills that people wrote for it."""

    key: str
    name: str
    environment: str
    description: str
    tasks: int
    skills: tuple[str, ...] = ()

    json_shape = JsonShape("key name environment? description tasks skills")


class SuiteView:
    """A suite by its key, or by its public id; Http404 where there is none. Counts leave out trials that this reader
    has yet to code.

    `format`: as in the list of suites. `read`: the suite as its folder has it; if None, `absent` says why.
    `folder_only`: why the record lacks its files; "" if it has them, or needs none. `attributes`: those that some task
    has.
    """

    def __init__(self, name: str, access: ReviewAccess) -> None:
        row = models.Suite.objects.filter(key=name).first()
        if row is None:
            with suppress(ValueError):
                row = models.Suite.objects.filter(public_id=UUID(name)).first()
        self.row, self.key = row, row.key if row else name
        if row is None and self.key not in SUITES:
            raise Http404(f"no suite {name[:80]!r}")
        self.read, self.absent = None, NO_FOLDER
        if self.key in SUITES or (row and row.path):
            try:
                self.read, self.absent = find_suite(self.key), ""
            except SetupError as error:
                self.absent = str(error).splitlines()[0]
        known = row or self.read
        self.name, self.version, self.digest = (known.name, known.version, known.digest) if known else ("", "", "")
        self.format = BUNDLED if self.key in SUITES else (row.format if row else "") or IMPORTED
        self.folder_only = _explain_missing_files(row, is_here=self.read is not None)
        self.families = list(_list_families(row, self.read) if row else _list_families_of_folder(self.read))
        self.tasks = list(_list_tasks(row, self.read, access) if row else _list_tasks_of_folder(self.read))
        self.experiments = list(experiments_of(row)) if row else []
        attributes = {attribute for task in self.tasks for attribute in task.groups}
        self.attributes = [*(each for each in KNOWN if each in attributes), *sorted(attributes - set(KNOWN))]

    @property
    def is_joined(self) -> bool:
        """Do trials of its tasks count in another suite?"""
        return self.row is not None and not self.row.path and is_joined(self.row)

    @property
    def splits(self) -> list[str]:
        """Return what its tasks can be listed by."""
        return [
            *(place for place in PLACES if any(task.values_of(place) for task in self.tasks)),
            *self.attributes,
            *([FIT] if any(task.fit.fit is not Fit.UNKNOWN for task in self.tasks) else []),
        ]

    def find_within(self, by: str) -> str:
        """Return the split inside `by` that says most: a source's domains, else a family's roles, else families."""
        if by == "source" and "domain" in self.attributes:
            return "domain"
        if by == "family":
            return "role" if any(task.role for task in self.tasks) else by
        return "family"

    def compose(self, by: str, within: str) -> list[dict[str, object]]:
        """Count tasks by two splits, in the order of both: the rings of a paper's figure as rows.
        One split where they are equal."""
        inner = [(value, {task.key for task in tasks}) for value, tasks in self.list_by(within)]
        if by == within:
            return [{"inner": value, "tasks": len(keys)} for value, keys in inner]
        outer = [(value, {task.key for task in tasks}) for value, tasks in self.list_by(by)]
        return [
            {"outer": name, "inner": value, "tasks": count}
            for name, mine in outer
            for value, keys in inner
            if (count := len(mine & keys))
        ]

    def list_by(self, by: str) -> list[tuple[str, list[SuiteTask]]]:
        """Return (value in words, its tasks), in the order of the values; last the tasks without one."""
        found: dict[str, list[SuiteTask]] = {}
        for task in self.tasks:
            for value in task.values_of(by) or ("",):
                found.setdefault(value, []).append(task)
        values = sorted(found, key=order_value) if by not in PLACES else list(found)
        if by == FIT:
            values = [each.words for each in Fit if each.words in found]
        named = [(value if by in (*PLACES, FIT) else name_value(by, value), found[value]) for value in values if value]
        return [*named, *([(NOT_STATED, found[""])] if "" in found else [])]


def _explain_missing_files(row: models.Suite | None, *, is_here: bool) -> str:
    if row is None or not row.path or row.files_digest:
        return ""
    if why := str(row.account.get("folder_only", "")):
        needs = " Every worker needs the folder at the same path." if is_here else ""
        return f"The record does not hold its files: {why}.{needs}"
    return "The record does not hold its files yet. Load the suite again to put them there." if is_here else ""


# --- from the folder --------------------------------------------------------------------------------------------------


def _iterate_tasks(suite: Suite | None) -> Iterator[tuple[Task, str, str]]:
    """Yield each task with the names of its environment and its family."""
    for environment in suite.environments if suite else ():
        for family in environment.families:
            yield from ((task, environment.name, family.name) for task in family.tasks)


def _list_families_of_folder(read: Suite | None) -> Iterator[SuiteFamily]:
    for environment in read.environments if read else ():
        for family in environment.families:
            skills = slugs(family.curated)
            place = environment.name
            yield SuiteFamily(family.key, family.name, place, family.description, len(family.tasks), skills)


def _list_tasks_of_folder(read: Suite | None) -> Iterator[SuiteTask]:
    for task, environment, family in _iterate_tasks(read):
        yield SuiteTask(task.key, task.title, environment, family, str(task.role or ""), task.groups)


# --- from the record --------------------------------------------------------------------------------------------------


def _list_families(row: models.Suite, read: Suite | None) -> Iterator[SuiteFamily]:
    """List the families with their skills, which only the folder has."""
    skills = {family.key: family.skills for family in _list_families_of_folder(read)}
    rows = row.families.annotate(total=Count("tasks")).filter(total__gt=0).select_related("environment")
    for each in rows.order_by("environment__ordinal", "environment__key", "ordinal", "key"):
        place = each.environment.name if each.environment else ""
        yield SuiteFamily(each.key, each.name, place, each.description, each.total, skills.get(each.key, ()))


def _list_tasks(row: models.Suite, read: Suite | None, access: ReviewAccess) -> Iterator[SuiteTask]:
    """List the tasks. A suite that was recorded before there were groups has those of its folder until it is loaded
    again."""
    stated = {task.key: task.groups for task, _, _ in _iterate_tasks(read)}
    groups: dict[int, dict[str, list[str]]] = {}
    rows = models.TaskGroup.objects.filter(task__suite=row).order_by("pk")
    for pk, attribute, value in rows.values_list("task", "attribute", "value"):
        groups.setdefault(pk, {}).setdefault(attribute, []).append(value)
    rates = dict(_count_trials(row.tasks.all(), "task", access))
    # The list of trials, narrowed to the experiments over this suite. Those that were imported name none.
    launched = models.Experiment.objects.not_deleted().filter(suite=row).exists()
    ids = [] if launched else experiments_of(row).values_list("public_id", flat=True)
    kept = [("suite", row.key)] if launched else [("experiment", str(each)) for each in ids]
    trials = f"{reverse('compare-trials')}?{urlencode(kept)}"
    places = (f"family__{name}" for name in ("environment__ordinal", "environment__key", "ordinal", "key"))
    for task in row.tasks.select_related("family__environment").order_by(*places, "ordinal", "key"):
        family = task.family
        yield SuiteTask(
            key=task.key,
            title=task.title,
            environment=family.environment.name if family and family.environment else "",
            family=family.name if family else "",
            role=task.role,
            groups={name: tuple(values) for name, values in groups.get(task.pk, {}).items()}
            or stated.get(task.key, {}),
            rate=rates.get(task.pk),
            trials_url=f"{trials}&{urlencode({'task': task.key})}" if task.pk in rates else "",
        )


def _count_trials(tasks: QuerySet[models.Task], by: str, access: ReviewAccess) -> Iterator[tuple[object, Rate]]:
    trials = models.Trial.objects.pooled().filter(task__in=tasks).exclude(pk__in=access.closed_trials()).order_by(by)
    for each in trials.values(by).annotate(**TALLY):
        yield each[by], Rate(each["passed"], each["scored"], each["planned"])


def summarise(view: SuiteView, by: str, groups: Mapping[str, int]) -> str:
    """Describe the suite in one sentence."""
    tasks, families = len(view.tasks), len(view.families)
    scored, passed = (
        sum(getattr(task.rate, name) for task in view.tasks if task.rate) for name in ("scored", "passed")
    )
    many = f"{plural(tasks, 'task')} in {plural(families, 'family', 'families')}"
    stated = len([value for value in groups if value != NOT_STATED])
    split = f", {stated:,} by {name_attribute(by)}" if stated > 1 and by != "family" else ""
    tried = f"{passed:,} of {scored:,} scored trials passed" if scored else "no trial of them is scored yet"
    if not scored and view.is_joined:
        tried = "their trials count in another suite"
    return f"{many}{split}; {tried}."


# --- one task ---------------------------------------------------------------------------------------------------------


class SuiteTaskView(Shaped):
    """`instruction` is the latest that is known. `environment`: what its folder asks of the machine, in words; empty
    where the folder is not here. `hides`: there are trials that this reader has yet to code."""

    json_shape = JsonShape(
        "*task instruction verified tests reference_skills=skills",
        ("environment", lambda row: dict(row.environment)),
        ("conditions", lambda row: dict(row.conditions)),
        "hides?",
    )

    def __init__(self, view: SuiteView, task: SuiteTask, access: ReviewAccess) -> None:
        self.task, self.instruction, self.verified = task, read_instruction(view, task.key), ""
        found = next((each for each, _, _ in _iterate_tasks(view.read) if each.key == task.key), None)
        if found and found.evaluation is not None:
            self.verified = "tests/evaluation.toml declares what outputs are compared with"
        elif found:
            shared = ", ".join(path.name for path in found.shared_tests)
            self.verified = "tests/test.sh decides" + (f", with {shared} next to it" if shared else "")
        self.tests = list(outline_tests(found.folder)) if found else []
        self.environment = _describe_machine(found) if found else []
        self.skills = _read_skills(view, found) if found else []
        rows = view.row.tasks.filter(key=task.key) if view.row else models.Task.objects.none()
        counted = ((str(code), rate) for code, rate in _count_trials(rows, "episode__run__condition", access))
        self.conditions = sorted(counted, key=lambda each: (name_condition(each[0]).order, each[0]))
        self.hides = access.closed_trials().filter(task__in=rows).exists()


def read_instruction(view: SuiteView, key: str) -> str:
    """Read that of the folder, else of the latest revision that has one; "" where an import brought none."""
    found = next((task for task, _, _ in _iterate_tasks(view.read) if task.key == key), None)
    if found:
        return found.instruction
    revisions = models.TaskRevision.objects.filter(task__suite=view.row, task__key=key).exclude(instruction=None)
    latest = revisions.select_related("instruction").order_by("-pk").first() if view.row else None
    return latest.instruction.text() if latest and latest.instruction else ""


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


def _read_skills(view: SuiteView, task: Task) -> list[dict[str, object]]:
    """Read the skills that people wrote for the task's family: of each its SKILL.md below the frontmatter, and the
    number of its files."""
    families = view.read.families if view.read else []
    curated: Files = next((family.curated for family in families if family.key == task.family), {})
    skills: list[dict[str, object]] = []
    for slug in dict.fromkeys(path.partition("/")[0] for path in sorted(curated)):
        file = curated.get(f"{slug}/SKILL.md")
        text = split_frontmatter(file.content.decode("utf-8", "replace"))[1][:MAX_SKILL] if file else ""
        skills.append({"name": slug, "files": sum(path.startswith(f"{slug}/") for path in curated), "text": text})
    return skills

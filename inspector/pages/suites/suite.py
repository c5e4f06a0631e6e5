"""One suite: its families and tasks with their groups, from the record or, where nothing was recorded, from its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, QuerySet
from django.http import Http404
from django.urls import reverse

from benchapp import models
from benchapp.experiments.qualifying.task_fit import Fit, TaskFit
from benchapp.models.trials import TALLY
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.joined_suites import is_joined
from benchapp.record.sets.suite_files import find_suite
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.catalogue import name_role
from benchapp.stats.metrics.splits import name_attribute, order_value
from inspector.charts.drawing.places import name_value
from inspector.pages.suites.suites import BUNDLED, IMPORTED, experiments_of
from inspector.web.responses import PathLink
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Task, TaskGroups
from runner.suites import SUITES
from runner.suites.tasks.task_groups import KNOWN

NO_FOLDER = "Created by an import; its task folder is not on this server."
UNTOLD = "not stated"  # heads the tasks without a value of the attribute they are listed by
PLACES = ("environment", "family", "role")  # what tasks are listed by besides the attributes of their groups
FIT = "fit"
HIDDEN = ("gap", "trap", "composition")  # attributes of a task that say what is hard about it


@dataclass(frozen=True, slots=True)
class SuiteTask(Shaped):
    """`rate`: over all recorded trials of experiments that were not deleted, without probes and qualifications; None: no trial."""

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
        *("key", "title", "environment?", "family?", "role?"),
        ("groups", lambda row: {name: list(values) for name, values in row.groups.items()}),
        ("passed", lambda row: row.rate and row.rate.passed),
        ("scored", lambda row: row.rate and row.rate.scored),
        ("planned", lambda row: row.rate and row.rate.planned),
        ("trials_url", lambda row: PathLink(row.trials_url) if row.trials_url else None),
        *("fit=fit.fit", "fit_why=fit.why?"),
    )

    @property
    def signals(self) -> list[tuple[str, str]]:
        """Its groups in words, those the papers list first."""
        known = sorted(self.groups, key=lambda name: (KNOWN.index(name) if name in KNOWN else len(KNOWN), name))
        return [(name_attribute(name), ", ".join(self.groups[name]).replace("_", " ")) for name in known]

    @property
    def tests(self) -> str:
        """What it tests, in words: its role, and what its suite states as hard about it."""
        said = dict(self.signals)
        hard = [(name, said[name_attribute(name)]) for name in HIDDEN if name in self.groups]
        if self.role and len(hard) == 1 and name_role(self.role) == hard[0][0]:
            return f"{name_role(self.role)}: {hard[0][1]}"
        return " · ".join(filter(None, [name_role(self.role), *(f"{name}: {values}" for name, values in hard)]))

    def values_of(self, by: str) -> tuple[str, ...]:
        """Of a place, or of an attribute; several where it has several, none where it has none."""
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

    json_shape = JsonShape("key", "name", "environment?", "description", "tasks", "skills")


@dataclass(frozen=True, slots=True)
class SuiteView:
    """`read`: the suite as its folder has it; if None, `absent` says why. `format` as in the list of suites."""

    key: str
    name: str
    version: str
    format: str
    digest: str
    row: models.Suite | None
    read: Suite | None
    absent: str
    families: tuple[SuiteFamily, ...]
    tasks: tuple[SuiteTask, ...]
    experiments: tuple[models.Experiment, ...] = field(default=())

    @property
    def is_joined(self) -> bool:
        """Do trials of its tasks count in another suite?"""
        return self.row is not None and not self.row.path and is_joined(self.row)

    @property
    def attributes(self) -> list[str]:
        """That some task has."""
        said = {attribute for task in self.tasks for attribute in task.groups}
        return [*(name for name in KNOWN if name in said), *sorted(said - set(KNOWN))]

    @property
    def splits(self) -> list[str]:
        """What its tasks can be listed by."""
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
        """Count tasks by two splits, in the order of both: the rings of a paper's figure as rows. One split where they are equal."""
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
        """(value in words, its tasks), in the order of the values; last the tasks without one."""
        found: dict[str, list[SuiteTask]] = {}
        for task in self.tasks:
            for value in task.values_of(by) or ("",):
                found.setdefault(value, []).append(task)
        values = sorted(found, key=order_value) if by not in PLACES else list(found)
        if by == FIT:
            values = [each.words for each in Fit if each.words in found]
        named = [(value if by in (*PLACES, FIT) else name_value(by, value), found[value]) for value in values if value]
        return [*named, *([(UNTOLD, found[""])] if "" in found else [])]


def read_suite_view(name: str) -> SuiteView:
    """By its key, or by its public id. Http404 where there is none."""
    row = _find_row(name)
    key = row.key if row else name
    if row is None and key not in SUITES:
        raise Http404(f"no suite {name[:80]!r}")
    read, absent = _read_folder(key, row)
    environments = [] if row or read is None else list(read.environments)
    families = _families_of(row, read) if row else tuple(_families_of_folder(read))
    tasks = (
        _tasks_of(row, read)
        if row
        else tuple(
            _task_of_folder(task, environment.name, family.name)
            for environment in environments
            for family in environment.families
            for task in family.tasks
        )
    )
    known = (
        (row.name, row.version, row.digest) if row else (read.name, read.version, read.digest) if read else ("",) * 3
    )
    format = BUNDLED if key in SUITES else (row.format if row else "") or IMPORTED
    experiments = tuple(experiments_of(row)) if row else ()
    return SuiteView(key, known[0], known[1], format, known[2], row, read, absent, families, tasks, experiments)


def _find_row(name: str) -> models.Suite | None:
    row = models.Suite.objects.filter(key=name).first()
    if row is None:
        try:
            return models.Suite.objects.filter(public_id=UUID(name)).first()
        except ValueError:
            return None
    return row


def _read_folder(key: str, row: models.Suite | None) -> tuple[Suite | None, str]:
    if key not in SUITES and not (row and row.path):
        return None, NO_FOLDER
    try:
        return find_suite(key), ""
    except SetupError as error:
        return None, str(error).splitlines()[0]


# --- from the folder ----------------------------------------------------------------------------------------------


def find_task(suite: Suite | None, key: str) -> Task | None:
    """Return the task as the folder has it."""
    return next((task for task in _iterate_tasks(suite) if task.key == key), None) if suite else None


def _iterate_tasks(suite: Suite) -> Iterator[Task]:
    return (task for environment in suite.environments for family in environment.families for task in family.tasks)


def _families_of_folder(read: Suite | None) -> Iterable[SuiteFamily]:
    for environment in read.environments if read else ():
        for family in environment.families:
            skills = tuple(sorted({path.partition("/")[0] for path in family.curated}))
            place = environment.name
            yield SuiteFamily(family.key, family.name, place, family.description, len(family.tasks), skills)


def _task_of_folder(task: Task, environment: str, family: str) -> SuiteTask:
    return SuiteTask(task.key, task.title, environment, family, str(task.role or ""), task.groups)


# --- from the record ----------------------------------------------------------------------------------------------


def _families_of(row: models.Suite, read: Suite | None) -> tuple[SuiteFamily, ...]:
    """Skills are in the folder alone."""
    skills = {family.key: family.skills for family in _families_of_folder(read)}
    rows = row.families.annotate(total=Count("tasks")).filter(total__gt=0).select_related("environment")
    return tuple(
        SuiteFamily(
            each.key,
            each.name,
            each.environment.name if each.environment else "",
            each.description,
            each.total,
            skills.get(each.key, ()),
        )
        for each in rows.order_by("environment__ordinal", "environment__key", "ordinal", "key")
    )


def _tasks_of(row: models.Suite, read: Suite | None) -> tuple[SuiteTask, ...]:
    """A suite that was recorded before there were groups has those of its folder until it is loaded again."""
    stated = {} if read is None else {task.key: task.groups for task in _iterate_tasks(read)}
    groups: dict[int, dict[str, list[str]]] = {}
    said = models.TaskGroup.objects.filter(task__suite=row).order_by("pk")
    for task, attribute, value in said.values_list("task", "attribute", "value"):
        groups.setdefault(task, {}).setdefault(attribute, []).append(value)
    rates, trials = _count_trials(row), _trials_of_suite(row)
    places = ("environment__ordinal", "environment__key", "ordinal", "key")
    tasks = row.tasks.select_related("family__environment").order_by(
        *(f"family__{each}" for each in places), "ordinal", "key"
    )
    return tuple(
        SuiteTask(
            task.key,
            task.title,
            task.family.environment.name if task.family and task.family.environment else "",
            task.family.name if task.family else "",
            task.role,
            {name: tuple(values) for name, values in groups.get(task.pk, {}).items()} or stated.get(task.key, {}),
            rates.get(task.pk),
            f"{trials}&{urlencode({'task': task.key})}" if task.pk in rates else "",
        )
        for task in tasks
    )


def _count_trials(row: models.Suite) -> dict[object, Rate]:
    """Key of a task's row -> its trials."""
    return dict(_rates(row.tasks.all(), "task"))


def count_by_condition(row: models.Suite | None, key: str) -> list[tuple[str, Rate]]:
    """Of one task: condition -> its trials."""
    found = _rates(row.tasks.filter(key=key), "episode__run__condition") if row else ()
    return sorted(
        ((str(code), rate) for code, rate in found), key=lambda each: (name_condition(each[0]).order, each[0])
    )


def _rates(tasks: QuerySet[models.Task], by: str) -> Iterator[tuple[object, Rate]]:
    trials = models.Trial.objects.pooled().filter(task__in=tasks).order_by(by)
    for each in trials.values(by).annotate(**TALLY):
        yield each[by], Rate(each["passed"], each["scored"], each["planned"])


def _trials_of_suite(row: models.Suite) -> str:
    """The list of trials, narrowed to the experiments over this suite. Those that were imported name none."""
    launched = models.Experiment.objects.standing().filter(suite=row).exists()
    ids = [] if launched else experiments_of(row).values_list("public_id", flat=True)
    kept = [("suite", row.key)] if launched else [("experiment", str(each)) for each in ids]
    return f"{reverse('compare-trials')}?{urlencode(kept)}"


def summarise(view: SuiteView, by: str, groups: Mapping[str, int]) -> str:
    """The suite in one sentence."""
    tasks, families = len(view.tasks), len(view.families)
    scored, passed = (
        sum(getattr(task.rate, name) for task in view.tasks if task.rate) for name in ("scored", "passed")
    )
    many = f"{tasks:,} task{'' if tasks == 1 else 's'} in {families:,} famil{'y' if families == 1 else 'ies'}"
    told = len([value for value in groups if value != UNTOLD])
    split = f", {told:,} by {name_attribute(by)}" if told > 1 and by != "family" else ""
    tried = f"{passed:,} of {scored:,} scored trials passed" if scored else "no trial of them is scored yet"
    if not scored and view.is_joined:
        tried = "their trials count in another suite"
    return f"{many}{split}; {tried}."

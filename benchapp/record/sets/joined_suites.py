"""A loaded suite and imported runs of the same tasks as one suite.

A joined task of an import points at the loaded one (`Task.same_as`). Its trials become trials of the loaded task, so
every list, chart and page counts them there. Each keeps its revision of the imported task, so they can be separated.
Tasks of equal content are joined automatically. Equal names are only a proposal, which a person confirms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet

from benchapp.models import (
    Activity,
    Episode,
    Experiment,
    KeyPoint,
    Run,
    SearchSource,
    Suite,
    Task,
    TaskRevision,
    Trial,
    User,
)
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.writing.human_acts import note_activity
from runner.base.errors import SetupError

HARBOR_PREFIX = "sha256:"
SEPARATED = "suite.separated"
EQUAL_CONTENT = "equal content"
EQUAL_NAMES = "equal names"
LEAST_SHARE = 2  # a proposal names at least 1 in 2 tasks of either suite


@dataclass(frozen=True, slots=True)
class Proposal(Shaped):
    """Tasks of an imported suite with the names of a loaded one's: (imported, loaded), by the imported key."""

    imported: Suite
    loaded: Suite
    pairs: tuple[tuple[Task, Task], ...]
    tasks: int  # of the imported suite that are not joined

    json_shape = JsonShape(
        "imported=imported.key loaded=loaded.key tasks",
        ("pairs", lambda row: [[theirs.key, ours.key] for theirs, ours in row.pairs]),
    )


def find_by_content(digests: Iterable[str]) -> dict[str, Task]:
    """Return the loaded task that each digest names, for digests that name exactly one."""
    if not (wanted := {digest: digest.removeprefix(HARBOR_PREFIX) for digest in digests}):
        return {}
    found: defaultdict[str, set[Task]] = defaultdict(set)
    for revision in TaskRevision.objects.exclude(task__suite__path="").select_related("task__suite", "task__family"):
        for digest in {revision.digest, *revision.foreign_digests}:
            found[digest].add(revision.task)
    return {digest: next(iter(found[bare])) for digest, bare in wanted.items() if len(found[bare]) == 1}


def was_separated(imported: Suite, loaded: Suite) -> bool:
    """Did a person separate these suites? Equal contents do not undo that."""
    return Activity.objects.filter(verb=SEPARATED, target_id=loaded.public_id, detail__from=imported.key).exists()


@transaction.atomic
def join_by_content(loaded: Suite) -> None:
    """Join imported tasks with those of a suite that have the same content."""
    revisions = TaskRevision.objects.filter(task__suite__path="", task__suite__digest="", task__same_as=None)
    rows = list(revisions.select_related("task__suite").order_by("pk"))
    same = find_by_content({row.digest for row in rows})
    pairs: defaultdict[Suite, dict[Task, Task]] = defaultdict(dict)
    for row in rows:
        if (task := same.get(row.digest)) and task.suite_id == loaded.pk:
            pairs[row.task.suite][row.task] = task
    for imported, found in pairs.items():
        if not was_separated(imported, loaded):
            _join(imported, loaded, found, None, EQUAL_CONTENT)


def propose_by_name(suite: Suite) -> list[Proposal]:
    """Propose joins with every suite of the other kind that has tasks of the same names, the most tasks first.

    A name is the last part of a key, in any case. Names that two tasks of a suite share are ignored.
    """
    is_imported = not (suite.path or suite.digest)
    if not (suite.path or is_imported):  # bundled: its tasks are written for it
        return []
    others = Q(suite__path__gt="") if is_imported else Q(suite__path="", suite__digest="")
    waiting: defaultdict[Suite, list[Task]] = defaultdict(list)
    for task in (
        Task.objects.filter(Q(suite=suite) | others, same_as=None).select_related("suite").order_by("suite", "key")
    ):
        waiting[task.suite].append(task)
    own = waiting.pop(suite, [])
    pairs = (
        (suite, other, own, tasks) if is_imported else (other, suite, tasks, own) for other, tasks in waiting.items()
    )
    found = [proposal for pair in pairs if (proposal := _propose(*pair))]
    return sorted(found, key=lambda each: (-len(each.pairs), each.imported.key, each.loaded.key))


def _propose(imported: Suite, loaded: Suite, theirs: Sequence[Task], ours: Sequence[Task]) -> Proposal | None:
    """Propose a join of tasks that are not joined yet."""
    here, there = _by_name(ours), _by_name(theirs)
    pairs = tuple((there[name], here[name]) for name in sorted(there.keys() & here.keys()))
    if not pairs or len(pairs) * LEAST_SHARE < min(len(there), len(here)):
        return None
    return Proposal(imported, loaded, pairs, len(theirs))


def _by_name(tasks: Iterable[Task]) -> dict[str, Task]:
    found: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        found[task.key.rpartition("/")[2].casefold()].append(task)
    return {name: named[0] for name, named in found.items() if len(named) == 1}


@transaction.atomic
def join_by_name(imported: Suite, loaded: Suite, by: User | None = None) -> int:
    """Join every task that has the name of a loaded one. Return how many. SetupError where none has."""
    proposal = next((each for each in propose_by_name(imported) if each.loaded == loaded), None)
    if proposal is None or proposal.imported != imported:
        raise SetupError(
            f"{imported.key}: too few of its tasks have names of tasks of {loaded.key}; nothing was joined"
        )
    _join(imported, loaded, dict(proposal.pairs), by, EQUAL_NAMES)
    return len(proposal.pairs)


@transaction.atomic
def separate(imported: Suite, by: User | None = None) -> int:
    """Give an imported suite its trials back, also in an archive's copy of a joined experiment. Return how many tasks
    were joined. From then on only a person joins the two suites. SetupError where none was joined."""
    joined = list(_joined_tasks(imported))
    if not joined:
        raise SetupError(f"{imported.key}: none of its tasks is joined with another suite's")
    moved = Trial.objects.filter(task_revision__task__in=joined).exclude(task__suite=imported)
    counting = Suite.objects.filter(Q(tasks__joined__in=joined) | Q(tasks__trials__in=moved))
    loaded = list(counting.distinct().order_by("key"))
    experiments = Experiment.objects.filter(runs__episodes__trials__task_revision__task__in=joined)
    mine = {row.pk for row in experiments.filter(suite__in=loaded, origin=Experiment.Origin.IMPORTED)}
    Task.objects.filter(pk__in=[task.pk for task in joined]).update(same_as=None)
    for task in joined:
        _move_trials(task, task)
    Experiment.objects.filter(pk__in=mine).update(suite=imported)
    for suite in loaded:
        note_activity(by, SEPARATED, suite, detail={"from": imported.key, "tasks": len(joined)})
    return len(joined)


def _joined_tasks(imported: Suite) -> QuerySet[Task]:
    """Return imported tasks whose trials count, or will count, in another suite."""
    elsewhere = Trial.objects.filter(task_revision__task=OuterRef("pk")).exclude(task=OuterRef("pk"))
    return imported.tasks.filter(Q(same_as__isnull=False) | Exists(elsewhere))


def is_joined(suite: Suite) -> bool:
    return _joined_tasks(suite).exists()


def _join(imported: Suite, loaded: Suite, pairs: Mapping[Task, Task], by: User | None, reason: str) -> None:
    for task, same in pairs.items():
        task.same_as = same
        task.save(update_fields=["same_as"])
        _copy_key_points(task, same)
        _move_trials(task, same)
    of_import = Experiment.objects.filter(suite=imported, origin=Experiment.Origin.IMPORTED)
    elsewhere = Trial.objects.filter(episode__run__experiment__in=of_import).exclude(task__suite=loaded)
    whole = set(of_import.values_list("pk", flat=True)) - set(
        elsewhere.values_list("episode__run__experiment", flat=True)
    )
    Experiment.objects.filter(pk__in=whole).update(suite=loaded)
    note_join(imported, loaded, len(pairs), by, reason)


def note_join(imported: Suite, loaded: Suite, tasks: int, by: User | None = None, reason: str = "") -> None:
    note_activity(by, "suite.joined", loaded, detail={"with": imported.key, "tasks": tasks}, reason=reason)


def _move_trials(task: Task, target: Task) -> None:
    """Count trials imported as `task` as those of `target`. Where its slots are taken, number the samples after them
    with the same distances, so that they start at 0 again when the trials go back."""
    moved = list(
        Trial.objects.filter(task_revision__task=task)
        .exclude(task=target)
        .only("episode", "phase", "sample", "task")
        .order_by("pk")
    )
    if not moved:
        return
    episodes = {trial.episode_id for trial in moved}
    slots = target.trials.filter(episode__in=episodes).order_by().values_list("episode", "phase")
    taken = {(episode, phase): last for episode, phase, last in slots.annotate(Max("sample"))}
    first: dict[tuple[int, str], int] = {}
    for trial in moved:
        slot = trial.episode_id, trial.phase
        first[slot] = min(trial.sample, first.get(slot, trial.sample))
    for trial in moved:
        slot = trial.episode_id, trial.phase
        if slot in taken:
            trial.sample += taken[slot] + 1
        elif target == task:
            trial.sample -= first[slot]
        trial.task = target
    Trial.objects.bulk_update(moved, ["task", "sample"], batch_size=500)
    runs = Run.objects.filter(pk__in=Episode.objects.filter(pk__in=episodes).values("run"))
    runs.touch()
    SearchSource.objects.forget(runs)


def _copy_key_points(task: Task, target: Task) -> None:
    """Copy key points that an import brought, where the folder has none: its judgements use them."""
    if target.key_points.exists():
        return
    columns = ("kind", "ordinal", "text", "reason", "reference")
    KeyPoint.objects.bulk_create(KeyPoint(task=target, **values) for values in task.key_points.values(*columns))


def joined_with(suite: Suite) -> list[Suite]:
    """List the suites that its tasks are joined with, or whose tasks are joined with its own, by key."""
    trials = Trial.objects.filter(Q(task__suite=suite) | Q(task_revision__task__suite=suite))
    pairs = trials.exclude(task=F("task_revision__task")).order_by()
    keys = {key for pair in pairs.values_list("task__suite", "task_revision__task__suite").distinct() for key in pair}
    tasks = Q(tasks__same_as__suite=suite) | Q(tasks__joined__suite=suite)
    return list(Suite.objects.filter(tasks | Q(pk__in=keys)).exclude(pk=suite.pk).distinct().order_by("key"))

"""Turn a draft into a suite. It is written as a suite under trial, then screened, drawn and qualified as any other. The
tasks that pass everything are admitted into a suite of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import mkdtemp

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from benchapp.analysis.suite_screening import screen_once, take_screening
from benchapp.drafting.draft_orders import record_step
from benchapp.experiments.qualification import Admission, find_qualification, has_tried_traps, read_verdicts
from benchapp.models import Draft, DraftStep, Experiment, Suite, TaskWorkflow, User
from benchapp.record.sets import suite_files
from benchapp.record.writing.human_acts import note_activity
from runner.base import suite as runner_suite
from runner.base.digests import library_digest
from runner.base.errors import SetupError
from runner.base.text import plural
from runner.base.trees import remove_tree, write_tree
from runner.base.types import File, Files
from runner.drafting import loops
from runner.screening.suite_findings import Weight
from runner.suites.workflows.workflow import list_problems
from runner.suites.workflows.workflow_file import read_workflows

WORKFLOW_FILE = "workflow.json"
MAX_SAYS = 300  # characters
MAX_NAME = 200
DIGITS = 16  # of a digest, in the name of a folder


class Readiness(StrEnum):
    """How far one check of a task has come."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """`says`: in a few words. `url`: where to see more, or to do what is open; "" if there is no such page yet."""

    state: Readiness
    says: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class TaskReadiness:
    """Screening, workflow and qualification of one task of the head."""

    key: str
    screening: ReadinessCheck
    workflow: ReadinessCheck
    qualification: ReadinessCheck

    @property
    def is_ready(self) -> bool:
        return not self.reasons

    @property
    def reasons(self) -> list[str]:
        """Return what keeps it out of a suite, a line each."""
        checks = {"screening": self.screening, "workflow": self.workflow, "qualification": self.qualification}
        return [
            f"{self.key}: {name}: {check.says}" for name, check in checks.items() if check.state is not Readiness.PASSED
        ]


class NotReady(SetupError):
    """Why a draft's tasks are not admitted, a line each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = list(reasons)


# --- under trial ----------------------------------------------------------------------------------------------------


def try_as_suite(draft: Draft, by: User | None) -> Suite:
    """Write the current files as a suite and screen it. Raise SetupError if they make none, or while an experiment runs
    over an earlier state."""
    draft.refresh_from_db()
    folder = _write_folder(draft, draft.head.read())
    if draft.suite is not None and draft.suite.path == str(folder):
        return draft.suite
    # Its open runs would stop, because their suite changed.
    tried = Experiment.objects.not_deleted().filter(suite=draft.suite) if draft.suite else ()
    if running := next((each for each in tried if each.is_open), None):
        raise SetupError(
            f"{running.name} still runs over an earlier state of this draft (expected: it ended, or you cancelled it)"
        )
    key = f"draft-{draft.brief['family']}-{draft.public_id.hex[:8]}"
    read = _read_folder(folder, key, f"{draft.name} (draft)", replaces=draft.suite)
    with transaction.atomic():
        row = suite_files.record_folder(read, by, replaces=draft.suite)
        Draft.objects.filter(pk=draft.pk).update(suite=row)
        draft.suite = row
        summary = f"Written as suite {key}: {plural(len(read.suite.tasks), 'task')}"
        set_aside = read.suite.set_aside.items()
        notes = [f"Set aside: {what}: {_say(error, read.path)}" for what, errors in set_aside for error in errors]
        _record(draft, DraftStep.Kind.TRIAL, by, summary, [*notes, *read.suite.notes])
        note_activity(by, "draft.tried", draft, detail={"suite": key, "tasks": len(read.suite.tasks)})
    return row


def _write_folder(draft: Draft, files: Files) -> Path:
    """Write the files as a suite, in a folder named by its content: an experiment never sees other files."""
    if not loops.tasks_in(files):
        raise SetupError("the draft has no task yet (expected at least one in tasks/)")
    tree = loops.suite_files(loops.brief_from_plain(draft.brief), files)
    base = Path(settings.VAR_DIR) / "drafts" / str(draft.public_id)
    folder = base / library_digest(tree)[:DIGITS]
    if not folder.exists():
        base.mkdir(parents=True, exist_ok=True)
        part = Path(mkdtemp(dir=base, suffix=".part"))
        write_tree(part, tree)
        try:
            part.rename(folder)
        except OSError:
            remove_tree(part)
            if not folder.exists():  # another process wrote the same
                raise
    return folder


def _read_folder(
    folder: Path, key: str, name: str, *, strict: bool = False, replaces: Suite | None = None
) -> suite_files.SuiteFolder:
    """Read and screen a folder. A SetupError names files as the suite does, not by their place on this machine."""
    try:
        read = suite_files.read_folder(folder, key=key, strict=strict, replaces=replaces)
    except SetupError as error:
        raise SetupError(_say(error, folder)) from error
    screen_once(read.suite)
    return replace(read, suite=replace(read.suite, name=name[:MAX_NAME]))


def _say(error: SetupError, folder: Path | str) -> str:
    return str(error).replace(f"{folder}/", "")


def _record(draft: Draft, kind: DraftStep.Kind, by: User | None, summary: str, findings: Sequence[str]) -> None:
    record_step(draft, kind, by=by, before=draft.head, after=draft.head, summary=summary, findings=findings)


# --- readiness ------------------------------------------------------------------------------------------------------


def read_readiness(draft: Draft) -> list[TaskReadiness]:
    """Return the readiness of each task of the head, in the order of the files. A fixed number of queries."""
    files = draft.head.read()
    keys = loops.tasks_in(files)
    try:
        evidence = _Evidence(draft, files)
    except SetupError as error:
        waits = ReadinessCheck(Readiness.OPEN, str(error)[:MAX_SAYS])
        return [TaskReadiness(key, waits, _check_workflow_file(files) or waits, waits) for key in keys]
    return [evidence.judge(key) for key in keys]


class _Evidence:
    """What is known about the suite under trial. Raises SetupError if the current files are not under trial."""

    def __init__(self, draft: Draft, files: Files) -> None:
        if draft.suite is None:
            raise SetupError("not tried as a suite")
        tree = loops.suite_files(loops.brief_from_plain(draft.brief), files)
        if Path(draft.suite.path).name != library_digest(tree)[:DIGITS]:
            raise SetupError("changed since it was tried as a suite")
        row, suite = draft.suite, suite_files.find_suite(draft.suite.key)
        self.suite, self.folder, self.page = suite, row.path, reverse("suite", args=[suite.key])
        self.screening = take_screening(suite)
        self.filed = _check_workflow_file(files)  # None without one
        current = TaskWorkflow.objects.current().filter(task__suite=row).select_related("task")
        self.drawn = {each.task.key: each for each in current.order_by("is_settled", "pk")}  # the settled one last
        tried = find_qualification(suite.key, suite.digest)
        self.verdicts = {each.key: each for each in read_verdicts(tried)} if tried else {}
        self.is_qualifying = bool(tried and tried.is_open)
        # the wrong answers that its tasks declare now
        self.has_tried_traps = bool(tried and has_tried_traps(tried, suite))

    def judge(self, key: str) -> TaskReadiness:
        if errors := self.suite.set_aside.get(f"task {key}"):
            reason = f"set aside: {_say(errors[0], self.folder)}"
            set_aside = ReadinessCheck(Readiness.FAILED, reason[:MAX_SAYS], self.page)
            return TaskReadiness(key, set_aside, set_aside, set_aside)
        return TaskReadiness(key, self._judge_screening(key), self._judge_workflow(key), self._judge_qualification(key))

    def _judge_screening(self, key: str) -> ReadinessCheck:
        """Judge the screening: a leak keeps a task out; a place to look at is left to people."""
        url = f"{self.page}#screening"
        if self.screening is None:
            return ReadinessCheck(Readiness.OPEN, "not screened", url)
        mine = [each for each in self.screening.findings if key in each.tasks]
        if leaks := [each.says for each in mine if each.weight is Weight.LEAK]:
            return ReadinessCheck(Readiness.FAILED, "; ".join(leaks)[:MAX_SAYS], url)
        if self.screening.more and not mine:
            return ReadinessCheck(Readiness.OPEN, "the list of findings is cut: fix those that it has first", url)
        looks = f"{plural(len(mine), 'place')} to look at" if mine else "nothing found"
        return ReadinessCheck(Readiness.PASSED, looks, url)

    def _judge_workflow(self, key: str) -> ReadinessCheck:
        url = reverse("suite-workflow", args=[self.suite.key, key])
        if (drawn := self.drawn.get(key)) is None:
            return self.filed or ReadinessCheck(Readiness.OPEN, "not drawn", url)
        if problems := list_problems(drawn.workflow):
            return ReadinessCheck(Readiness.FAILED, "; ".join(problems)[:MAX_SAYS], url)
        return ReadinessCheck(Readiness.PASSED, "settled" if drawn.is_settled else "handed in", url)

    def _judge_qualification(self, key: str) -> ReadinessCheck:
        url = f"{self.page}#qualification"
        if (verdict := self.verdicts.get(key)) is None:
            return ReadinessCheck(Readiness.OPEN, "not tried", f"{reverse('launch')}?qualify={self.suite.key}")
        reason = "; ".join(verdict.reasons)[:MAX_SAYS]
        if self.is_qualifying:
            return ReadinessCheck(Readiness.OPEN, "still running", url)
        if not self.has_tried_traps:
            return ReadinessCheck(Readiness.OPEN, "its wrong answer changed since", url)
        if verdict.admission is Admission.ADMIT:
            return ReadinessCheck(Readiness.PASSED, "admitted", url)
        rejects = verdict.admission is Admission.REJECT
        return ReadinessCheck(Readiness.FAILED if rejects else Readiness.OPEN, reason, url)


def _check_workflow_file(files: Files) -> ReadinessCheck | None:
    """Check the workflow that all tasks of the draft share; None if the draft has none."""
    file: File | None = files.get(WORKFLOW_FILE)
    if file is None:
        return None
    try:
        read_workflows(file.content, WORKFLOW_FILE)
    except SetupError as error:
        return ReadinessCheck(Readiness.FAILED, str(error)[:MAX_SAYS])
    return ReadinessCheck(Readiness.PASSED, f"the family's, in {WORKFLOW_FILE}")


# --- admission ------------------------------------------------------------------------------------------------------


def admit(draft: Draft, key: str, by: User | None, tasks: Sequence[str] | None = None) -> Suite:
    """Load these tasks of the draft, or all, as the suite `key`. Raise NotReady with what any of them lacks; another
    SetupError if the key is taken."""
    draft.refresh_from_db()
    ready = {each.key: each for each in read_readiness(draft)}
    chosen = list(ready) if tasks is None else list(dict.fromkeys(tasks))
    if unknown := [each for each in chosen if each not in ready]:
        raise SetupError(
            f"{', '.join(unknown)[:MAX_SAYS]}: no such task in this draft (expected some of {', '.join(ready)})"
        )
    if not chosen:
        raise SetupError("no task to admit (expected at least one)")
    if reasons := [line for each in chosen for line in ready[each].reasons]:
        raise NotReady(reasons)
    left_out = [each for each in ready if each not in chosen]
    files = dict(_without(draft.head.read(), left_out))
    if Draft.objects.filter(suite__key=key).exists():
        raise SetupError(f"{key} is the key of a draft under trial (expected another)")
    read = _read_folder(_write_folder(draft, files), key, draft.name, strict=True)
    if leaks := _list_leaks(read.suite):
        raise NotReady(leaks)
    with transaction.atomic():
        row = suite_files.record_folder(read, by)
        Draft.objects.filter(pk=draft.pk).update(admitted_as=row)
        draft.admitted_as = row
        notes = [f"Left out: {each}" for each in left_out]
        _record(
            draft,
            DraftStep.Kind.ADMISSION,
            by,
            f"Admitted as suite {key}: {plural(len(read.suite.tasks), 'task')}",
            notes,
        )
        note_activity(by, "draft.admitted", draft, detail={"suite": key, "tasks": len(read.suite.tasks)})
    return row


def _list_leaks(suite: runner_suite.Suite) -> list[str]:
    """List the leaks of the chosen tasks only: among all tasks a long list of findings may have hidden one."""
    found = take_screening(suite)
    findings = found.findings if found else ()
    return [f"{', '.join(each.tasks)}: screening: {each.says}" for each in findings if each.weight is Weight.LEAK]


def _without(files: Files, tasks: Sequence[str]) -> Iterator[tuple[str, File]]:
    folders = tuple(f"tasks/{each}/" for each in tasks)
    for path, file in files.items():
        if not path.startswith(folders):
            yield path, file

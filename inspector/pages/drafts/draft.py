"""One draft: what it is now, what it waits for, and what to do next; its tasks with how ready they are;
its steps and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from benchapp.drafting.draft_suites import Readiness, ReadinessCheck, TaskReadiness, read_readiness
from benchapp.experiments.work.progress import workforce
from benchapp.models import Draft, DraftStep
from benchapp.models.stand_ins import join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.drafts.drafted_steps import group_files, list_files, order_by_effect, read_steps
from inspector.web.responses import PathLink
from runner.base.text import plural
from runner.base.var_folder import MANAGE
from runner.drafting.draft import Loop

LOOP_WORDS = {
    Loop.CORPUS: (
        "From documents",
        "A reader takes units of knowledge from a corpus. A planner turns them into scenarios, and each becomes a "
        "task.",
    ),
    Loop.EXPANSION: (
        "Over one workflow",
        "An architect drafts tasks that share a workflow. A critic takes them, or returns them with reasons.",
    ),
    Loop.INSTANCES: ("Instances of a task", "More tasks with the same procedure and other data."),
    Loop.REFERENCE: (
        "A reference skill",
        "A skill for tasks that you have. It names what it leaves out, with the tasks that show each gap.",
    ),
}
MAX_CHARS = 200_000  # of a file that a form sends
MAX_PATH = 300
CHECKS = {"screening": "Screening", "workflow": "Workflow", "qualification": "Qualification"}
CHECK = JsonShape("state says", ("url", lambda check: PathLink(check.url) if check.url else None))


class DraftedTask(Shaped):
    """A task of the head. `instruction`: path of its instruction; "" where it has none. `checks`: of each its name,
    what it found, and the tone of its state."""

    json_shape = JsonShape(
        "key=ready.key files is_ready=ready.is_ready",
        *((name, lambda task, name=name: CHECK.read(getattr(task.ready, name))) for name in CHECKS),
    )

    def __init__(self, ready: TaskReadiness, paths: Sequence[str]) -> None:
        """`paths`: of its files."""
        instruction = f"tasks/{ready.key}/instruction.md"
        self.ready, self.files, self.instruction = ready, len(paths), instruction if instruction in paths else ""
        tones = {Readiness.PASSED: "ok", Readiness.FAILED: "bad", Readiness.OPEN: ""}
        found: list[tuple[str, ReadinessCheck]] = [(words, getattr(ready, name)) for name, words in CHECKS.items()]
        self.checks = [(words, check, tones[check.state]) for words, check in found]


@dataclass(frozen=True, slots=True)
class DraftAct(Shaped):
    """What somebody can do with it: a button that sends `act`, or a link."""

    words: str
    act: str = ""
    url: str = ""

    json_shape = JsonShape("words act?", ("url", lambda each: PathLink(each.url) if each.url else None))


CONTINUE, TRY, STOP = DraftAct("Continue", "go-on"), DraftAct("Try as suite", "try"), DraftAct("Stop", "stop")


@dataclass(frozen=True, slots=True)
class DraftState(Shaped):
    """`says`: its state. `waits`: who or what it waits for, or what comes next.
    `acts`: the first is the next to do. `why`: of one that stopped."""

    says: str
    waits: str = ""
    acts: tuple[DraftAct, ...] = ()
    may_admit: bool = False
    why: str = ""


class ShownDraft(Shaped):
    """All that its page shows of a draft, whose head, suites and people must be loaded.

    `spent`: the sums of what is known; None if nothing is. `is_tried`: its files are under trial as they are now; else
    no check leads anywhere yet. `is_edited`: a person changed files after the last answer, so that the loop may find
    something to ask again."""

    def __init__(self, row: Draft) -> None:
        self.row, self.loop = row, LOOP_WORDS[Loop(row.loop)]
        self.brief: Mapping[str, object] = row.brief if isinstance(row.brief, dict) else {}
        self.steps = read_steps(row)
        self.files = list_files(self.steps)
        self.groups = list(group_files(self.files).items())
        self.tasks = []
        for ready in read_readiness(row):
            mine = [file.path for file in self.files if file.path.startswith(f"tasks/{ready.key}/")]
            self.tasks.append(DraftedTask(ready, mine))
        self.answers = [step.row for step in self.steps if step.row.kind == DraftStep.Kind.ANSWER]
        self.stand_ins = join_stand_ins(self.answers)
        names = ("input_tokens", "output_tokens", "cost_usd")
        known = {name: [value for each in self.answers if (value := getattr(each, name)) is not None] for name in names}
        self.spent = {name: sum(found) if found else None for name, found in known.items()}
        self.ready = [task for task in self.tasks if task.ready.is_ready]
        self.is_tried = row.suite is not None and any(task.ready.screening.url for task in self.tasks)
        changed = [step for step in order_by_effect(self.steps) if step.changes]
        self.is_edited = bool(changed) and changed[-1].is_edit

    @property
    def state(self) -> DraftState:
        if self.row.status == Draft.Status.WAITING:
            return describe_waiting(self.row, self.steps[-1].row if self.steps else None)
        rest = _describe_rest(self)
        if self.row.status == Draft.Status.STOPPED:
            waits = f"Continue, or change its files first. {rest.says if self.tasks else ''}".strip()
            return DraftState("Stopped.", waits, (CONTINUE, *rest.acts), rest.may_admit, self.row.reason)
        return replace(rest, acts=(*rest.acts, CONTINUE)) if self.is_edited else rest


def describe_waiting(row: Draft, last: DraftStep | None) -> DraftState:
    """Describe a draft that a worker works on, or will. `last`: its last step."""
    is_held = bool(row.worker) and (row.lease_until is None or row.lease_until > timezone.now())
    if is_held and last and last.status == DraftStep.Status.STARTED:
        return DraftState(
            f"The {last.role.replace('-', ' ')} is asked.", f"Waiting for the reply of {row.model}.", (STOP,)
        )
    if is_held:
        return DraftState("A worker works on it.", "Waiting for its next step.", (STOP,))
    crew = workforce()
    if crew.workers is None:
        return DraftState("Waiting for a worker.", "The broker of the jobs does not answer.", (STOP,))
    hint = "One of them takes it next." if crew.workers else f"No worker runs. Start one: {MANAGE} work"
    return DraftState("Waiting for a worker.", hint, (STOP,))


def _describe_rest(draft: ShownDraft) -> DraftState:
    """Describe a draft that no worker works on: from its files to an admitted suite."""
    row, drafted = draft.row, f"{plural(len(draft.tasks), 'task')} drafted"
    if not draft.tasks:
        return DraftState("No task is drafted.", "Add one below, or start another draft.")
    admitted = [step.row.after_id for step in draft.steps if step.row.kind == DraftStep.Kind.ADMISSION]
    if row.admitted_as and admitted[-1:] == [row.head_id]:
        opens = DraftAct("Open the suite", url=reverse("suite", args=[row.admitted_as.key]))
        return DraftState(f"Admitted as {row.admitted_as.key}.", "Launch experiments over it.", (opens,))
    if row.suite is None:
        return DraftState(f"{drafted}.", "Try them as a suite: this screens them. Then qualify them.", (TRY,))
    if not draft.is_tried:
        return DraftState(f"{drafted}, and changed since they were tried.", "Try them again as they are now.", (TRY,))
    return _describe_tried(draft, row.suite.key)


def _describe_tried(draft: ShownDraft, suite: str) -> DraftState:
    ready, total = len(draft.ready), len(draft.tasks)
    ready_text = f"{ready} of {plural(total, 'task')} ready."
    if ready == total:
        return DraftState(ready_text, "Give their suite a key below, and admit them.", (), may_admit=True)
    acts = tuple(filter(None, (_find_act(draft, name, suite) for name in CHECKS)))[:1]
    failed = [task.ready.key for task in draft.tasks if any(tone == "bad" for *_, tone in task.checks)]
    sentence = (
        f"{plural(len(failed), 'task')} failed a check: change {'it' if len(failed) == 1 else 'them'}."
        if failed
        else ""
    )
    opens = f"Next: {acts[0].words.lower()}." if acts else ""
    return DraftState(ready_text, f"{sentence} {opens}".strip(), acts, may_admit=ready > 0)


def _find_act(draft: ShownDraft, check: str, suite: str) -> DraftAct | None:
    """Return the act that settles this check, if some task has it open."""
    if all(getattr(task.ready, check).state is not Readiness.OPEN for task in draft.tasks):
        return None
    if check == "screening":
        return DraftAct("Screen", url=f"{reverse('suite', args=[suite])}?screening=now#screening")
    if check == "workflow":
        return DraftAct("Draw workflows", url=reverse("suite-workflows", args=[suite]))
    return DraftAct("Qualify", url=f"{reverse('launch')}?{urlencode({'qualify': suite})}")

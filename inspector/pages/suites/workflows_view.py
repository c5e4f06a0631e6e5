"""`/suites/<key>/workflows/`: a suite's workflows by family, one task's to draw, and one to settle; out to a file,
in from one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from benchapp.models import Suite, Task, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.suite_files import record_suite
from benchapp.review.workflows import (
    PLACES,
    SeenWorkflows,
    WorkflowConflict,
    WorkflowRefused,
    discard_workflow,
    export_workflows,
    hand_in,
    import_workflows,
    read_seen,
    read_seen_task,
    save_workflow,
    screen,
    settle,
)
from inspector.pages.suites.suite import SuiteTask, SuiteView, read_instruction
from inspector.pages.suites.workflow_form import (
    WorkflowEditor,
    add_step,
    draw_workflow,
    drop_step,
    list_drawn,
    open_editor,
    read_posted,
    read_revision,
    renumber,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, PathLink, attach, read_htmx, render_page
from inspector.web.subject import review_access
from runner.base.errors import SuiteProblems
from runner.base.text import parse_id, plural
from runner.suites.documents import MAX_BYTES
from runner.suites.workflows.workflow import MOST, VARIATIONS, Workflow, to_plain
from runner.suites.workflows.workflow_comparison import (
    Membership,
    find_memberships,
    shared_workflow,
    take_step,
)

RULE = JsonShape("name", ("problem", lambda rule: rule.problem or None))
AGREEMENT = JsonShape("steps edges graph")


class WorkflowRow(Shaped):
    """A task. `membership`: how it compares with what its family shares; None without a settled workflow. `is_hidden`:
    it has something that this person does not see yet. `varies`: in what the tasks vary."""

    json_shape = JsonShape(
        "key=task.key title=task.title handed_in=seen.handed_in hidden=is_hidden may_draw may_settle",
        ("by", lambda row: [each.by for each in row.seen.annotations]),
        ("agreement", lambda row: row.agreement and AGREEMENT.read(row.agreement)),
        "screening=seen.screening settled varies membership",
        ("workflow", lambda row: row.seen.agreed and to_plain(row.seen.agreed)),
        ("url", lambda row: PathLink(row.url)),
    )

    def __init__(
        self, task: SuiteTask, seen: SeenWorkflows, url: str, user: User, membership: Membership | None
    ) -> None:
        self.task, self.seen, self.url, self.membership = task, seen, url, membership
        self.may_draw, self.may_settle = not seen.explain_closed(user), not seen.explain_barred(user)
        self.agreement, self.settled, agreed = seen.agreement, seen.settled is not None, seen.agreed
        self.is_hidden = seen.is_hidden and seen.handed_in > 0
        self.varies = [VARIATIONS[kind] for kind in agreed.varies] if agreed else []
        self.needs_settling = bool(seen.annotations) and agreed is None


class WorkflowFamily(Shaped):
    """The tasks of a family with their workflows. Tasks without a family share nothing; `name` is then empty.

    `shared`: what all settled workflows of its tasks have; `settled_total`: their number. `agreement`: the means over
    its tasks that two people drew; empty without any. `is_begun`: somebody handed in a workflow of one of its tasks."""

    json_shape = JsonShape(
        "environment? name?",
        ("standing", lambda family: family.settled_total),
        ("shared", lambda family: to_plain(family.shared)),
        ("agreement", lambda family: family.agreement),
        "tasks=rows",
    )

    def __init__(
        self, environment: str, name: str, rows: Sequence[WorkflowRow], shared: Workflow, settled_total: int
    ) -> None:
        self.environment, self.name, self.rows = environment, name, rows
        self.shared, self.settled_total = shared, settled_total
        self.has_shared = bool(name) and settled_total > 1
        self.is_begun = any(row.seen.handed_in for row in rows)
        found = [row.agreement for row in rows if row.agreement]
        names = ("steps", "edges", "graph") if found else ()
        self.agreement = {each: fmean(getattr(row, each) for row in found) for each in names}
        self.compared = len(found)
        self.screened = [row.seen.screening for row in rows if row.seen.screening is not None]
        self.members = sum(row.membership is not None and row.membership.holds for row in rows)

    @property
    def svg(self) -> SafeString:
        return draw_workflow(self.shared, f"What tasks of {self.name} share")


@never_cache
@needs(User.Level.REVIEWER, to_change=True)
def workflows(request: HttpRequest, name: str, *, as_json: bool = False) -> HttpResponse:
    """Show the workflows of a suite. POST imports a file."""
    view, problems = SuiteView(name, review_access(request)), list[str]()
    if request.method == "POST":
        problems = _take_file(request, view)
        if not problems:
            return HttpResponseRedirect(request.path)
    families = list_families(view, user_of(request))
    data = {"key": view.key, "name": view.name, "families": families, "problems": problems}
    context = {
        "section": "suites",
        "max_kib": MAX_BYTES // 1024,
        "settled_total": sum(family.settled_total for family in families),
        "tasks_total": sum(len(family.rows) for family in families),
        "begun": [family for family in families if family.is_begun],
        "untouched": [family for family in families if not family.is_begun],
        "next_row": _find_next(families),
        "places": PLACES,
    }
    status = 400 if problems else 200
    return render_page(request, "suites/workflows.html", data=data, context=context, as_json=as_json, status=status)


def _find_next(families: list[WorkflowFamily]) -> WorkflowRow | None:
    """Return a task that this person may draw, first one with a draft of theirs."""
    rows = [row for family in families for row in family.rows if row.may_draw]
    return min(rows, key=lambda row: row.seen.own is None, default=None)


def list_families(view: SuiteView, user: User) -> list[WorkflowFamily]:
    """List every family of the suite with all its tasks;
    a task that this person may still draw counts for nothing here."""
    seen = read_seen(view.row, user)
    families: dict[tuple[str, str], list[SuiteTask]] = {}
    for task in view.tasks:
        families.setdefault((task.environment, task.family), []).append(task)
    found = []
    for (environment, name), tasks in families.items():
        mine = {task.key: seen.get(task.key, SeenWorkflows()) for task in tasks}
        agreed = {key: each.agreed for key, each in mine.items() if each.agreed}
        drawn = list(agreed.values())
        shared = shared_workflow(drawn if name else [])
        members = dict(zip(agreed, find_memberships(shared, drawn), strict=True)) if name else {}
        rows = []
        for task in tasks:
            url = reverse("suite-workflow", args=[view.key, task.key])
            rows.append(WorkflowRow(task, mine[task.key], url, user, members.get(task.key)))
        found.append(WorkflowFamily(environment, name, rows, shared, len(agreed)))
    return found


@never_cache
def workflows_file(request: HttpRequest, name: str) -> HttpResponse:
    content = export_workflows(SuiteView(name, review_access(request)).row, user_of(request))
    return HttpResponse(content, "application/yaml; charset=utf-8", headers=attach("workflows.yaml"))


def _take_file(request: HttpRequest, view: SuiteView) -> list[str]:
    """Return what is wrong with it, line by line; then no part of it was stored."""
    file = request.FILES.get("file")
    if file is None:
        return ["Choose a file."]
    suite = _record(view)
    if suite is None:
        return [view.absent]
    try:
        content = file.read(MAX_BYTES + 1)
        brought = import_workflows(suite, content, (file.name or "workflows.yaml")[:200], user_of(request))
    except SuiteProblems as error:
        return [str(each) for each in error.problems]
    messages.success(request, brought.say())
    return []


@never_cache
@needs(User.Level.REVIEWER, to_change=True)
def workflow(request: HttpRequest, name: str, task: str, *, as_json: bool = False) -> HttpResponse:
    """Show the workflow of a task.
    POST takes what the form sends as annotator, or what an annotator says about the other's workflow."""
    return _answer(request, name, task, settles=False, as_json=as_json)


@never_cache
@needs(User.Level.REVIEWER, to_change=True)
def workflow_settle(request: HttpRequest, name: str, task: str, *, as_json: bool = False) -> HttpResponse:
    """Show the form of the adjudicator. POST takes what it sends."""
    return _answer(request, name, task, settles=True, as_json=as_json)


def _answer(request: HttpRequest, name: str, key: str, *, settles: bool, as_json: bool) -> HttpResponse:
    view = SuiteView(name, review_access(request))
    task = next((each for each in view.tasks if each.key == key), None)
    if task is None:
        raise Http404(f"no task {key[:80]!r} in this suite")
    if request.method != "POST":
        return _page(request, view, task, settles=settles, as_json=as_json)
    drawn = read_posted(request.POST)
    try:
        row = get_object_or_404(Task, suite=_record(view), key=key)
        editor, is_done = _act(request, row, drawn, settles=settles)
    except (WorkflowRefused, WorkflowConflict) as error:
        problems = error.problems if isinstance(error, WorkflowRefused) else [str(error)]
        editor = WorkflowEditor(drawn, read_revision(request.POST))
        return _page(request, view, task, settles=settles, editor=editor, problems=problems)
    if read_htmx(request):
        return _page(request, view, task, settles=settles, editor=editor)
    place = reverse("suite-workflow", args=[view.key, key]) if is_done else request.path
    return HttpResponseRedirect(f"{place}{'' if is_done else '#draw'}")


def _act(request: HttpRequest, task: Task, drawn: Workflow, *, settles: bool) -> tuple[WorkflowEditor | None, bool]:
    """Return (what the form shows now, whether that was the last of it)."""
    user, revision = user_of(request), read_revision(request.POST)
    act, _, what = request.POST.get("act", "").partition(":")
    if act == "screen":
        screen(task, user, is_consistent=what == "yes")
        return None, True
    if act == "discard":
        discard_workflow(task, user, settles=settles)
        return None, True
    if act == "finish":
        if settles:
            settle(task, user, drawn, revision=revision, seen=parse_id(request.POST.get("seen", "")))
        else:
            hand_in(task, user, drawn, revision=revision)
        messages.success(request, "The task is settled." if settles else "Handed in. It stays as it is.")
        return None, True
    if act == "add":
        drawn = renumber(add_step(drawn))
    elif act == "drop":
        drawn = renumber(drop_step(drawn, what))
    elif act == "take":
        drawn = renumber(_take(drawn, what, read_seen_task(task, user)))
    elif act == "save":
        drawn = renumber(drawn)
    row = save_workflow(task, user, drawn, revision=revision, settles=settles)
    return WorkflowEditor(row.workflow, row.revision), False


def _take(drawn: Workflow, what: str, seen: SeenWorkflows) -> Workflow:
    """Take a step of one of the two annotators: "0:s3"."""
    number, _, step_id = what.partition(":")
    source = {str(place): each.workflow for place, each in enumerate(seen.compared)}.get(number)
    if source is None or step_id not in source.by_id or len(drawn.steps) >= MOST:
        return drawn
    return take_step(drawn, source, step_id)


def _record(view: SuiteView) -> Suite | None:
    """Return the suite's row; a suite that nobody used yet is recorded first."""
    return view.row or (record_suite(view.read).suite if view.read else None)


def _page(
    request: HttpRequest,
    view: SuiteView,
    task: SuiteTask,
    *,
    settles: bool,
    editor: WorkflowEditor | None = None,
    problems: list[str] | None = None,
    as_json: bool = False,
) -> HttpResponse:
    user = user_of(request)
    row = Task.objects.filter(suite=view.row, key=task.key).first() if view.row else None
    seen = read_seen_task(row, user)
    barred = seen.explain_barred(user) if settles else seen.explain_closed(user)
    if settles and barred and not as_json:
        raise PermissionDenied(barred)
    if editor is None and not barred:
        editor = open_editor(seen, settles=settles)
    data = {
        "suite": view.key,
        "key": task.key,
        "title": task.title,
        "handed_in": seen.handed_in,
        "hidden": seen.is_hidden and seen.handed_in > 0,
        "barred": barred or None,
        "draft": to_plain(editor.workflow) if editor and editor.revision else None,
        "rules": RULE.read_all(editor.rules) if editor else [],
        "drawn": list_drawn(seen),
        "agreement": AGREEMENT.read(seen.agreement) if seen.agreement else None,
        "screening": seen.screening,
        "settled": to_plain(seen.settled.workflow) if seen.settled else None,
        "settled_by": seen.settled.by if seen.settled else None,
        "families_url": PageLink("suite-workflows-json", view.key),
    }
    context = {
        "section": "suites",
        "view": view,
        "instruction": read_instruction(view, task.key),
        "seen": seen,
        "editor": editor,
        "settles": settles,
        "faults": problems or [],
        "settled_svg": draw_workflow(seen.settled.workflow, "Settled workflow") if seen.settled else "",
        "difference": _say_difference(seen),
        "may_settle": not settles and not seen.explain_barred(user),
        "may_screen": seen.may_screen(user),
        "to_screen": seen.may_screen(user) and seen.own is not None and seen.own.finds_consistent is None,
        "next_row": _find_next(list_families(view, user)) if seen.own and barred and not settles else None,
    }
    status = 400 if problems and not read_htmx(request) else 200
    return render_page(request, "suites/workflow.html", data=data, context=context, as_json=as_json, status=status)


def _say_difference(seen: SeenWorkflows) -> str:
    """Say how far the two workflows differ; empty while there are fewer."""
    if seen.agreement is None:
        return ""
    one, other = (each.workflow for each in seen.compared)
    steps = max(len(one.steps), len(other.steps))
    if differing := steps - len(seen.agreement.pairs):
        return f"the two workflows differ in {differing} of {steps} steps"
    if seen.agreement.is_same:
        return f"both drew the same {steps} steps"
    edges = len(one.edges) + len(other.edges) - 2 * len(seen.agreement.shared)
    return f"the two workflows have the same {steps} steps and differ in {plural(edges, 'dependency', 'dependencies')}"

"""`/suites/<key>/workflows/`: a suite's workflows by family, one task's to draw, and one to settle; out to a file, in from one."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.models import Task, User
from benchapp.record.json_shape import JsonShape
from benchapp.record.sets.suite_rows import record_suite
from benchapp.review.workflows.drawn_workflows import (
    WorkflowConflict,
    WorkflowRefused,
    discard_workflow,
    hand_in,
    save_workflow,
    screen,
    settle,
)
from benchapp.review.workflows.seen_workflows import SeenWorkflows, read_seen_task
from benchapp.review.workflows.workflow_exchange import export_workflows, import_workflows
from inspector.pages.suites.suite import SuiteTask, SuiteView, read_suite_view
from inspector.pages.suites.suite_task import read_task_view
from inspector.pages.suites.workflow_form import (
    add_step,
    drop_step,
    read_posted,
    read_revision,
    read_standing_id,
    renumber,
)
from inspector.pages.suites.workflow_task import (
    WorkflowEditor,
    draw_settled,
    edit_own,
    edit_settling,
    list_drawn,
)
from inspector.pages.suites.workflows import AGREEMENT, list_families
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, read_htmx, render_page
from runner.base.errors import SuiteProblems
from runner.suites.documents import MAX_BYTES
from runner.suites.workflows.workflow import LABELS, Workflow, to_plain
from runner.suites.workflows.workflow_comparison import take_step

RULE = JsonShape("name", ("problem", lambda rule: rule.problem or None))
HEAD = {"Content-Disposition": 'attachment; filename="workflows.yaml"'}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER, to_change=True)
def workflows(request: HttpRequest, name: str, *, as_json: bool = False) -> HttpResponse:
    """POST: takes in a file."""
    view, problems = read_suite_view(name), list[str]()
    if request.method == "POST":
        problems = _take_file(request, view)
        if not problems:
            return HttpResponseRedirect(request.path)
    families = list_families(view, user_of(request))
    data = {"key": view.key, "name": view.name, "families": families, "problems": problems, "next": None}
    context = {"section": "suites", "max_kib": MAX_BYTES // 1024, "drawn": any(each.standing for each in families)}
    status = 400 if problems else 200
    return render_page(request, "suites/workflows.html", data=data, context=context, as_json=as_json, status=status)


@never_cache
@require_safe
def workflows_file(request: HttpRequest, name: str) -> HttpResponse:
    content = export_workflows(read_suite_view(name).row, user_of(request))
    return HttpResponse(content, "application/yaml; charset=utf-8", headers=HEAD)


def _take_file(request: HttpRequest, view: SuiteView) -> list[str]:
    """Return what is wrong with it, line by line; then no part of it was stored."""
    file = request.FILES.get("file")
    if file is None:
        return ["Choose a file."]
    suite = view.row or (record_suite(view.read).suite if view.read else None)
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
@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER, to_change=True)
def workflow(request: HttpRequest, name: str, task: str, *, as_json: bool = False) -> HttpResponse:
    """POST: what the form sends as annotator, or what an annotator says about the other's workflow."""
    return _answer(request, name, task, settles=False, as_json=as_json)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER, to_change=True)
def workflow_settle(request: HttpRequest, name: str, task: str, *, as_json: bool = False) -> HttpResponse:
    """POST: what the form sends as adjudicator."""
    return _answer(request, name, task, settles=True, as_json=as_json)


def _answer(request: HttpRequest, name: str, key: str, *, settles: bool, as_json: bool) -> HttpResponse:
    view = read_suite_view(name)
    task = next((each for each in view.tasks if each.key == key), None)
    if task is None:
        raise Http404(f"no task {key[:80]!r} in this suite")
    if request.method != "POST":
        return _page(request, view, task, settles=settles, as_json=as_json)
    drawn = read_posted(request.POST)
    try:
        editor, is_done = _act(request, _row_of(view, key), drawn, settles=settles)
    except (WorkflowRefused, WorkflowConflict) as error:
        problems = error.problems if isinstance(error, WorkflowRefused) else [str(error)]
        editor = WorkflowEditor(drawn, read_revision(request.POST))
        return _page(request, view, task, settles=settles, editor=editor, problems=problems)
    if read_htmx(request):
        return _page(request, view, task, settles=settles, editor=editor)
    place = reverse("suite-workflow", args=[view.key, key]) if is_done else request.path
    return HttpResponseRedirect(f"{place}{'' if is_done else '#draw'}")


def _act(request: HttpRequest, task: Task, drawn: Workflow, *, settles: bool) -> tuple[WorkflowEditor | None, bool]:
    """(what the form shows now, whether that was the last of it)"""
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
            settle(task, user, drawn, revision=revision, seen=read_standing_id(request.POST))
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
    """With a step of one of the two annotators: "0:s3"."""
    number, _, step_id = what.partition(":")
    sources = {str(place): each.workflow for place, each in enumerate(seen.compared)}
    source = sources.get(number)
    if source is None or step_id not in source.by_id or not WorkflowEditor(drawn, 0).may_add:
        return drawn
    return take_step(drawn, source, step_id)


def _row_of(view: SuiteView, key: str) -> Task:
    """The same for a suite that nobody used yet, after it is recorded."""
    suite = view.row or (record_suite(view.read).suite if view.read else None)
    found = Task.objects.filter(suite=suite, key=key).first() if suite else None
    if found is None:
        raise Http404(f"no task {key[:80]!r} in the record")
    return found


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
        editor = edit_settling(seen) if settles else edit_own(seen)
    drawn = list_drawn(seen)
    data = {
        **{"suite": view.key, "key": task.key, "title": task.title, "handed_in": seen.handed_in},
        **{"hidden": seen.is_hidden and seen.handed_in > 0, "barred": barred or None},
        "draft": to_plain(editor.workflow) if editor and editor.revision else None,
        "rules": RULE.read_all(editor.rules) if editor else [],
        "drawn": drawn,
        "agreement": AGREEMENT.read(seen.agreement) if seen.agreement else None,
        "screening": seen.screening,
        "settled": to_plain(seen.settled.workflow) if seen.settled else None,
        "settled_by": seen.settled.by if seen.settled else None,
        "families_url": PageLink("suite-workflows-json", view.key),
        "next": None,
    }
    context = {
        **{"section": "suites", "view": view, "task": read_task_view(view, task), "seen": seen, "editor": editor},
        **{"settles": settles, "faults": problems or [], "labels": LABELS.items(), "settled_svg": draw_settled(seen)},
        "may_settle": not settles and not seen.explain_barred(user),
        "may_screen": seen.may_screen(user),
    }
    status = 400 if problems and not read_htmx(request) else 200
    return render_page(request, "suites/workflow.html", data=data, context=context, as_json=as_json, status=status)

"""`/suites/` and `/suites/<key>/`: what can be tried, by group,
with what each task asks for and how often it was passed."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from benchapp.experiments.qualification import LEAST_TRIALS, RATES, name_check, summarise_fit
from benchapp.experiments.work.progress import at_work
from benchapp.models import Attempt, Draft, Experiment, Suite, User
from benchapp.models.stand_ins import find_stand_ins
from benchapp.record.json_shape import JsonShape
from benchapp.record.sets.joined_suites import join_by_name, joined_with, propose_by_name, separate
from benchapp.record.sets.suite_files import MAX_NAMED, StoredAccount, account_as_json, choose_families, problem_as_json
from benchapp.stats.metrics.splits import name_attribute
from inspector.pages.suites.suite import SuiteTaskView, SuiteView, summarise
from inspector.pages.suites.suite_fitness import (
    judge_tasks,
    list_answers,
    read_matrix,
    read_qualification,
    read_screening,
    read_shipped,
)
from inspector.pages.suites.suites import describe_account, list_suites
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, render_page
from inspector.web.subject import review_access, without_closed
from runner.base.errors import SetupError

EXPERIMENT = JsonShape("id=public_id name status created_at", link_to("experiment"))
SUITE = JsonShape(
    "key id=row.public_id name version? format digest? absent? folder_only? splits attributes families tasks",
    ("notes", lambda view: view.read.notes if view.read else ()),
    ("experiments", lambda view: EXPERIMENT.read_all(view.experiments)),
)
DRAFT = JsonShape("id=public_id name status", link_to("draft"))
USUAL_GROUPS = ("family", "role", "fit")  # the other ways to group tasks are behind "more"
EXPERIMENTS_OFFERED = 6  # above the tasks; all are listed below them
JOINED = JsonShape("key name", link_to("suite", "key"))


def suites(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    listed = list_suites(review_access(request))
    answers = list_answers({each.key: each.tasks for each in listed}, review_access(request))
    listed = [replace(each, answer=each.qualified or answers[each.key]) for each in listed]
    return render_page(request, "suites/suites.html", data={"suites": listed}, as_json=as_json)


def suite(request: HttpRequest, name: str, *, as_json: bool = False) -> HttpResponse:
    access = review_access(request)
    view = SuiteView(name, access)
    matrix, problems = read_matrix(view, request.GET.get("experiment", ""), access)
    row, read = view.row, view.read
    qualification = read_qualification(view.key, read.digest if read else view.digest)
    is_qualifying = qualification is not None and qualification.experiment.is_open
    shipped = read_shipped(read) if is_qualifying or not qualification else None
    judge_tasks(view, matrix, qualification, shipped)
    splits = view.splits
    by = request.GET.get("by", "family")
    if by not in ("family", *splits):
        problems.append(f"by: {by[:80]!r} is unknown, expected one of {', '.join(splits)}")
        by = "family"
    usual = view.find_within(by)
    within = request.GET.get("within", usual)
    if within not in (usual, *splits):
        problems.append(f"within: {within[:80]!r} is unknown, expected one of {', '.join(splits)}")
        within = usual
    wanted = request.GET.get("task")
    task = next((each for each in view.tasks if each.key == wanted), None)
    if wanted is not None and task is None:
        problems.append(f"task: {wanted[:80]!r} is not a task of this suite")
    listed, composed = view.list_by(by), view.compose(by, within)
    account: StoredAccount | None = row.account if row else None
    if read:
        account = account_as_json(read.account, MAX_NAMED)
    counts = {value: len(tasks) for value, tasks in listed}
    set_aside = read.set_aside if read else {}
    drafts = list(Draft.objects.of_suite(row)) if row else []
    skill = "a skill" if matrix.source == "trials" else "the reference skill"
    answer, evidence = summarise_fit([each.fit for each in view.tasks], skill)
    data = {
        **SUITE.read(view),
        "says": f"{describe_account(account)}{summarise(view, by, counts)}",
        "problems": problems,
        "by": by,
        "within": within,
        "groups": counts,
        "task": SuiteTaskView(view, task, access) if task else None,
        "account": account or None,
        "set_aside": {what: [problem_as_json(each) for each in mine] for what, mine in set_aside.items()},
        "screening": read_screening(view, asked=request.GET.get("screening") == "now"),
        "qualification": qualification,
        "composition": composed,
        "answer": answer or None,
        "matrix": matrix,
        **({"drafts": DRAFT.read_all(drafts)} if drafts else {}),
        **({"joined": JOINED.read_all(joined_with(row)), "proposals": propose_by_name(row)} if row else {}),
    }
    status = 400 if problems else 200
    if as_json:
        return render_page(request, "suites/suite.html", data=data, as_json=True, status=status)
    asked = {name: request.GET[name] for name in ("experiment", "within") if name in request.GET}
    parts: dict[object, list[dict[str, object]]] = {}
    for part in composed if "within" in asked and by != within else ():
        parts.setdefault(part["outer"], []).append(part)
    families = {each.name: each for each in view.families} if by == "family" else {}
    checked = qualification if qualification and qualification.is_of_this_state else None
    groups = [
        (
            value,
            family := families.get(value),
            family.description.removeprefix(value).strip(" ()") if family else "",  # some begin with the name
            parts.get(value),
            [(each, matrix.row_of(each), checked.row_of(each.key) if checked else ()) for each in tasks],
        )
        for value, tasks in listed
    ]
    has_tests = any(each.tests or (by != "family" and each.family) for each in view.tasks)
    has_fit = bool(answer) or bool(matrix.shown)
    running = another = None
    if qualification and is_qualifying:  # the trial that started last and still runs, if this reader may see it
        attempts = Attempt.objects.under_way().filter(trial__episode__run__experiment=qualification.experiment)
        running = next(iter(without_closed(access, at_work(attempts, 1))), None)
    elif qualification:
        others = Experiment.objects.not_deleted().qualifications().filter(suite__key=view.key)
        another = others.filter(status__in=(Experiment.Status.WAITING, Experiment.Status.RUNNING)).first()
    reasons: list[dict[str, object]] = []
    if account:
        reasons += [{**line, "is_aside": True} for line in account["set_aside"]]
        reasons += [{**line, "is_aside": False} for line in account["left_out"]]
    context = {
        "view": view,
        "evidence": evidence,
        "groups": groups,
        "choices": [(each, name_attribute(each), urlencode({**asked, "by": each})) for each in splits],
        "usual": USUAL_GROUPS,
        "has_more": any(each not in (*USUAL_GROUPS, by) for each in splits),
        "has_tests": has_tests,
        "has_fit": has_fit,
        "by_words": name_attribute(by),
        "attributes_named": [(name, name_attribute(name)) for name in view.attributes],
        "kept": urlencode({**asked, "by": by}),
        "by_query": urlencode({"by": by}),
        "shown_experiments": view.experiments[:EXPERIMENTS_OFFERED],
        "experiments": view.experiments,
        "drafts": drafts,
        "may_separate": view.is_joined,
        "reasons": reasons,
        "account_says": describe_account(account, only_partial=True),
        "may_launch": read is not None,
        "families_by": row.families_by.get("by", "") if row else "",
        "may_regroup": view.format == "harbor" and view.attributes,
        "checked": checked,
        "columns": len(matrix.shown) + 1 + has_tests + has_fit + (len(checked.checks) if checked else 0),
        "columns_of_results": len(matrix.shown) + has_fit,
        "running": running,
        "running_check": name_check(running.attempt.trial.episode.run.condition) if running else "",
        "rates": RATES,
        "another": another,
        "shipped": shipped,
        "shipped_stand_ins": find_stand_ins(bool(shipped and " scripted/" in shipped["asked"])),
        "least": LEAST_TRIALS,
    }
    return render_page(request, "suites/suite.html", data=data, context=context, status=status)


@needs(User.Level.OPERATOR)
def families(request: HttpRequest, name: str) -> HttpResponse:
    """Show the families by an attribute of the suite's tasks; `by` empty: those of its folder."""
    view, by = SuiteView(name, review_access(request)), request.POST.get("by", "")
    if by and by not in view.attributes:
        return HttpResponse("by: expected an attribute of its tasks.", "text/plain; charset=utf-8", status=400)
    try:
        choose_families(view.key, {"by": by} if by else {}, user_of(request))
    except SetupError as error:
        messages.error(request, f"The families stay as they are: {error}.")
    return redirect("suite", view.key)


@needs(User.Level.OPERATOR)
def join(request: HttpRequest, name: str) -> HttpResponse:
    """Join an imported suite with the loaded one named in `loaded`, by the names of their tasks; without one,
    separate it."""
    imported, loaded = get_object_or_404(Suite, key=name), request.POST.get("loaded", "")
    try:
        if loaded:
            join_by_name(imported, get_object_or_404(Suite, key=loaded), user_of(request))
        else:
            separate(imported, user_of(request))
    except SetupError as error:
        messages.error(request, f"{error}.")
    return redirect("suite", loaded or imported.key)

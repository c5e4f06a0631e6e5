"""`/drafts/` and `/drafts/new/`: the drafts there are, and the form that starts one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.drafting.draft_orders import start_draft
from benchapp.models import User
from inspector.pages.drafts.draft_form import MAX_FILES, BriefForm, DraftWish, read_start, read_wish
from inspector.pages.drafts.drafts import list_drafts, read_listed
from inspector.web.access import needs, user_of
from inspector.web.responses import next_url, paginate, render_page
from runner.base.errors import RunnerError


@require_safe
def drafts(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    page = paginate(request, list_drafts())
    data = {"drafts": list(map(read_listed, page)), "next": next_url(request, page)}
    return render_page(request, "drafts/drafts.html", data=data, context={"page": page}, as_json=as_json)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def draft_new(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """POST: starts a draft, or (`act` add, write) shows the form again as it follows from what was chosen."""
    if request.method != "POST":
        return _show_form(request, read_wish(request.GET), as_json=as_json)
    wish = read_wish(request.POST)
    if (act := request.POST.get("act", "start")) != "start":
        return _show_form(request, wish, adds=act == "add")
    form = BriefForm(wish.values)
    if not form.is_valid():
        return _show_form(request, wish, form=form)
    try:
        brief, given = form.build_brief(), form.cleaned_data
        limits = {name: given[name] for name in ("max_calls", "max_usd")}
        files = read_start(wish, brief.family)
        draft = start_draft(brief, files, given["model"], user_of(request), **limits)
    except RunnerError as error:
        return _show_form(request, wish, problem=str(error))
    messages.success(request, "The draft has started and is waiting for a worker.")
    return HttpResponseRedirect(reverse("draft", args=[draft.public_id]))


def _show_form(
    request: HttpRequest,
    wish: DraftWish,
    *,
    form: BriefForm | None = None,
    problem: str = "",
    adds: bool = False,
    as_json: bool = False,
) -> HttpResponse:
    faults = {name: [str(each) for each in found] for name, found in form.errors.items()} if form else {}
    data = {
        "values": wish.values,
        "loops": [{"loop": loop, "title": title, "says": says} for loop, title, says in wish.loops],
        "problems": {**faults, **({"start": [problem]} if problem else {})},
        "next": None,
    }
    typed = [*wish.typed, *([("", "")] if adds and len(wish.typed) < MAX_FILES else [])]
    context = {"wish": wish, "typed": typed, "faults": faults, "problem": problem, "may_add": len(typed) < MAX_FILES}
    status = 422 if data["problems"] else 200
    return render_page(request, "drafts/draft_new.html", data=data, context=context, as_json=as_json, status=status)

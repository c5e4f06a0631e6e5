"""`/drafts/` and `/drafts/new/`: the drafts there are, and the form that starts one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count, Q, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.drafting.draft_orders import start_draft
from benchapp.drafting.draft_starts import (
    list_corpora,
    list_families,
    read_corpus,
    read_start_family,
    read_start_task,
)
from benchapp.models import Draft, DraftStep, User
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.drafts.draft import LOOP_WORDS, MAX_CHARS, MAX_PATH
from inspector.pages.launch.launch_steps import Option, list_models, list_suite_options
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, next_url, paginate, render_page
from runner.base.errors import RunnerError, SetupError
from runner.base.trees import check_relative
from runner.base.types import File, Files
from runner.drafting import loops
from runner.drafting.draft import DraftBrief, Loop

MAX_FILES = 30  # typed into the form; more come from a folder by the command
SLUG = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
SPLIT = "\x1f"  # between the keys of a suite and of a part of it, which may hold any printable character


class BriefForm(forms.Form):
    """What a person asks for, and the limits of it."""

    loop = forms.ChoiceField(choices=[(each.value, LOOP_WORDS[each][0]) for each in LOOP_WORDS])
    family = forms.RegexField(
        SLUG,
        max_length=loops.MAX_FAMILY_CHARS,
        error_messages={
            "invalid": "Expected lower-case letters, digits and single hyphens, such as late-fees.",
            "required": "Name the family: its tasks' keys begin with it.",
        },
    )
    goal = forms.CharField(required=False, max_length=4_000)
    tasks = forms.IntegerField(min_value=1, max_value=loops.MAX_TASKS)
    image = forms.CharField(required=False, max_length=200)
    model = forms.CharField(max_length=200, error_messages={"required": "Choose a model."})
    max_revisions = forms.IntegerField(min_value=0, max_value=20)
    max_calls = forms.IntegerField(required=False, min_value=1, max_value=10_000)
    max_usd = forms.FloatField(required=False, min_value=0)

    def build_brief(self) -> DraftBrief:
        """Of valid fields."""
        given = self.cleaned_data
        names = ("family", "goal", "tasks", "max_revisions", "image")
        return DraftBrief(loop=Loop(given["loop"]), **{name: given[name] for name in names})


START = {
    "loop": Loop.CORPUS.value,
    "family": "",
    "goal": "",
    "tasks": "3",
    "image": "",
    "model": "scripted/apprentice",
    "max_revisions": "5",
    "max_calls": "60",
    "max_usd": "",
    "corpus": "",
    "suite": "",
    "begin": "",
}


@dataclass(frozen=True, slots=True)
class DraftWish:
    """The values in the form. `typed`: path and text of files that somebody typed."""

    values: Mapping[str, str]
    typed: tuple[tuple[str, str], ...] = ()

    @property
    def loop(self) -> Loop:
        with suppress(ValueError):
            return Loop(self.values["loop"])
        return Loop.CORPUS

    @property
    def loops(self) -> list[tuple[str, str, str]]:
        return [(each.value, *words) for each, words in LOOP_WORDS.items()]

    @property
    def takes_corpus(self) -> bool:
        return self.loop is Loop.CORPUS

    @property
    def takes_family(self) -> bool:
        """A reference skill is for all tasks of a family; other loops begin with one."""
        return self.loop is Loop.REFERENCE

    @property
    def models(self) -> list[tuple[str, list[Option]]]:
        """By whether their keys are here."""
        options = list_models()
        ready, waiting = ([each for each in options if bool(each.waits_for) is waits] for waits in (False, True))
        return [("ready", ready), *([("their key is not set here", waiting)] if waiting else [])]

    @property
    def corpora(self) -> list[Option]:
        return [
            Option(f"{each.suite}{SPLIT}{each.environment}", f"{each.name}, {each.suite}") for each in list_corpora()
        ]

    @property
    def suites(self) -> list[Option]:
        return list_suite_options()

    @property
    def begins(self) -> list[tuple[str, list[Option]]]:
        """What the chosen suite offers: (family, its tasks), or one group of its families."""
        try:
            families = list_families(self.values["suite"]) if self.values["suite"] else []
        except RunnerError:  # said when the form is sent
            return []
        if self.takes_family:
            return [("Families", [Option(each.key, f"{each.name}, {len(each.tasks)} tasks") for each in families])]
        return [(each.name, [Option(*task) for task in each.tasks]) for each in families]


def _read_wish(given: QueryDict) -> DraftWish:
    """As it was sent, or as an address asks for it; what is not given is as in an empty form."""
    values = {name: given.get(name, default).replace("\r\n", "\n").strip() for name, default in START.items()}
    pairs = zip(given.getlist("path"), given.getlist("text"), strict=False)
    typed = [(path.strip(), text.replace("\r\n", "\n")) for path, text in pairs]
    return DraftWish(values, tuple(typed[:MAX_FILES]))


def _read_start(wish: DraftWish, family: str) -> Files:
    """The files that it begins with. SetupError says what of them cannot be read."""
    return {**_read_chosen(wish, family), **dict(_read_typed(wish.typed))}


def _read_chosen(wish: DraftWish, family: str) -> Files:
    suite, begin = wish.values["suite"], wish.values["begin"]
    if wish.takes_corpus:
        source, _, part = wish.values["corpus"].partition(SPLIT)
        return read_corpus(source, part) if source else {}
    if not suite or not begin:
        return {}
    return read_start_family(suite, begin, family) if wish.takes_family else read_start_task(suite, begin, family)


def _read_typed(typed: Sequence[tuple[str, str]]) -> Iterator[tuple[str, File]]:
    for path, text in typed:
        if not path and not text.strip():
            continue
        try:
            check_relative(path)
        except ValueError as error:
            raise SetupError(f"a file of your own: {error}") from None
        if len(path) > MAX_PATH or len(text) > MAX_CHARS:
            raise SetupError(f"{path[:80]}: expected a text of at most {MAX_CHARS:,} characters, below a short path")
        yield path, File(text.encode("utf-8", "replace"))


STATUS_WORDS = {Draft.Status.WAITING: "running", Draft.Status.DONE: "drafted", Draft.Status.STOPPED: "stopped"}


@dataclass(frozen=True, slots=True)
class ListedDraft(Shaped):
    """A draft's row; its totals come with the query."""

    row: Draft
    steps: int
    edits: int
    cost_usd: float | None
    scripted: bool

    json_shape = JsonShape(
        *("id=row.public_id", "name=row.name", "loop=row.loop", "status=row.status", "model=row.model", "scripted"),
        *("steps", "edits", "cost_usd", "asked_at=row.asked_at", "admitted_as=row.admitted_as.key"),
        link_to("draft-json", "row.public_id"),
    )

    @property
    def loop(self) -> str:
        return LOOP_WORDS[Loop(self.row.loop)][0]

    @property
    def status(self) -> str:
        return "admitted" if self.row.admitted_as else STATUS_WORDS[Draft.Status(self.row.status)]

    @property
    def tone(self) -> str:
        return {"admitted": "ok", "stopped": "warn", "running": "acc"}.get(self.status, "")


@require_safe
def drafts(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    totals = {"steps_total": Q(), "edits_total": Q(steps__kind=DraftStep.Kind.EDIT), "scripts": Q(steps__scripted=True)}
    counts = {name: Count("steps", filter=which) for name, which in totals.items()}
    rows: Any = Draft.objects.select_related("admitted_as", "asked_by").order_by("-pk")
    page = paginate(request, rows.annotate(**counts, cost=Sum("steps__cost_usd")))
    listed = [
        ListedDraft(row, row.steps_total, row.edits_total, cost_usd=row.cost, scripted=row.scripts > 0) for row in page
    ]
    data = {"drafts": listed, "next": next_url(request, page)}
    return render_page(request, "drafts/drafts.html", data=data, context={"page": page}, as_json=as_json)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def draft_new(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """POST: starts a draft, or (`act` add, write) shows the form again as it follows from what was chosen."""
    if request.method != "POST":
        return _show_form(request, _read_wish(request.GET), as_json=as_json)
    wish = _read_wish(request.POST)
    if (act := request.POST.get("act", "start")) != "start":
        return _show_form(request, wish, adds=act == "add")
    form = BriefForm(wish.values)
    if not form.is_valid():
        return _show_form(request, wish, form=form)
    try:
        brief, given = form.build_brief(), form.cleaned_data
        limits = {name: given[name] for name in ("max_calls", "max_usd")}
        files = _read_start(wish, brief.family)
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

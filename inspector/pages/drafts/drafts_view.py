"""`/drafts/` and `/drafts/new/`: the drafts there are, and the form that starts one."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.cache import never_cache

from benchapp.drafting.draft_orders import DraftConflict, edit_file, go_on, start_draft, stop
from benchapp.drafting.draft_starts import list_corpora, read_corpus, read_start_family, read_start_task
from benchapp.drafting.draft_suites import admit, try_as_suite
from benchapp.models import Blob, Draft, DraftStep, User
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.record.sets.suite_files import find_suite
from benchapp.record.textual_change import is_binary
from inspector.pages.drafts.draft import CHECKS, LOOP_WORDS, MAX_CHARS, MAX_PATH, ShownDraft, describe_waiting
from inspector.pages.drafts.drafted_steps import read_steps
from inspector.pages.launch.launch_steps import Option, list_models, list_suite_options
from inspector.pages.library.author_call import MAX_SECTION, Prompt, Reply
from inspector.pages.library.changes import FileChange, ShownFile, Version, draw_changes
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, link_to, paginate, render_page, wants_fragment
from inspector.web.subject import find_neighbours
from runner.base.digests import digest_bytes
from runner.base.errors import RunnerError, SetupError
from runner.base.text import parse_count
from runner.base.trees import check_relative
from runner.base.types import File, Files
from runner.drafting import loops
from runner.drafting.draft import DraftBrief, Loop

JSON_CHARS = 400_000  # of one text in the twin
MAX_KEY = 200
DIFF = JsonShape(
    "path=diff.path status=diff.status added=diff.added removed=diff.removed note=diff.note",
    "lines_left_out=rows_left_out",
)
DRAFT = JsonShape(
    "id=row.public_id name=row.name loop=row.loop brief model=row.model status=row.status reason=row.reason? state",
    "head=row.head.digest spent max_calls=row.max_calls max_usd=row.max_usd asked_by=row.asked_by.username",
    ("suite", lambda draft: draft.row.suite and PageLink("suite-json", draft.row.suite.key)),
    ("admitted_as", lambda draft: draft.row.admitted_as and PageLink("suite-json", draft.row.admitted_as.key)),
    "tasks steps files",
)
MAX_FILES = 30  # typed into the form; more come from a folder by the command
SLUG = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
SPLIT = "\x1f"  # between the keys of a suite and of a part of it, which may hold any printable character
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
STATUS_WORDS = {Draft.Status.WAITING: "running", Draft.Status.DONE: "drafted", Draft.Status.STOPPED: "stopped"}
COUNTED = {"steps_total": Q(), "edits_total": Q(steps__kind=DraftStep.Kind.EDIT), "scripts": Q(steps__scripted=True)}
TOTALS_OF = attrgetter(*COUNTED, "cost")


class OpenedFile(Shaped):
    """A file, also at a path that the head lacks: somebody may add it. ValueError if no file can have this path.

    `text`: what the form shows; of a binary file or too large a one None. `exists`: the head has it. `steps`: those
    that changed it. `typed`: what somebody would have saved and could not, as a difference from the head."""

    json_shape = JsonShape(
        "path head exists bytes=size text", ("steps", lambda file: [step.row.number for step in file.steps])
    )

    def __init__(self, draft: Draft, path: str, typed: str | None = None) -> None:
        check_relative(path)
        if len(path) > MAX_PATH or not path.isprintable():
            raise ValueError(f"{path[:80]!r}: expected a printable path of at most {MAX_PATH} characters")
        self.path, self.head = path, draft.head.digest
        self.steps = [each for each in read_steps(draft) if any(change.path == path for change in each.changes)]
        row = draft.head.files.filter(path=path).select_related("blob").first()
        content = row.blob.content() if row else b""
        self.exists, self.size, self.typed = row is not None, len(content), list[ShownFile]()
        self.text = None if is_binary(content) or len(content) > MAX_CHARS else content.decode()
        if typed is not None:
            self.text, old = typed, _version_of(content) if row else None
            self.typed = draw_changes([FileChange(path, old, _version_of(typed.encode("utf-8", "replace")))])


def _find_draft(public_id: UUID) -> Draft:
    rows = Draft.objects.select_related("head", "suite", "admitted_as", "asked_by")
    return get_object_or_404(rows, public_id=public_id)


@never_cache
@needs(User.Level.OPERATOR, to_change=True)
def draft(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Show a draft. POST carries out an act: `act` stop, go-on, try, admit, or open with the path of a file."""
    row = _find_draft(public_id)
    if request.method != "POST":
        return _show(request, row, as_json=as_json)
    if request.POST.get("act") == "open":
        path = request.POST.get("path", "").strip()
        try:
            OpenedFile(row, path)
        except ValueError as error:
            return _show(request, row, problem=str(error))
        return HttpResponseRedirect(reverse("draft-file", args=[public_id, path]))
    try:
        done = _act(request, row)
    except RunnerError as error:
        return _show(request, _find_draft(public_id), problem=str(error))
    messages.success(request, done)
    return HttpResponseRedirect(reverse("draft", args=[public_id]))


def _act(request: HttpRequest, row: Draft) -> str:
    """Carry out an act and say what was done, in a sentence."""
    act, user = request.POST.get("act", ""), user_of(request)
    if act == "stop":
        stop(row, user)
        return "Stopped. If a call is under way, its answer will still be used."
    if act == "go-on":
        go_on(row, user)
        return "The draft will continue as soon as a worker is free."
    if act == "try":
        suite = try_as_suite(row, user)
        return f"Written as suite {suite.key} and screened. Check its workflow, then qualify it."
    if act == "admit":
        key = request.POST.get("key", "").strip()[:MAX_KEY]
        suite = admit(row, key, user, tasks=request.POST.getlist("task"))
        return f"Admitted as the suite {suite.key}."
    raise Http404("there is no such act")


def _show(request: HttpRequest, row: Draft, *, problem: str = "", as_json: bool = False) -> HttpResponse:
    is_live = row.status == Draft.Status.WAITING
    if (
        wants_fragment(request) and not problem
    ):  # the head alone, every few seconds: while a worker works no file is read
        steps = row.steps.order_by("number")
        total = steps.count()
        seen = parse_count(request.GET.get("seen", ""), total)
        known = total if seen is None else seen
        context = {
            "row": row,
            "state": describe_waiting(row, steps.last()) if is_live else ShownDraft(row).state,
            "is_live": is_live,
            "is_part": True,
            "total": known,
            "newer": total - known,
            "last": total,
        }
        return render_page(request, "drafts/_draft_now.html", context=context)
    shown = ShownDraft(row)
    data = DRAFT.read(shown)
    context = {
        "draft": shown,
        "row": row,
        "is_live": is_live,
        "total": len(shown.steps),
        "problem": problem,
        "checks": CHECKS,
        "key": request.POST.get("key", shown.brief.get("family", "")),
    }
    status = 422 if problem else 200
    return render_page(request, "drafts/draft.html", data=data, context=context, as_json=as_json, status=status)


def draft_step(request: HttpRequest, public_id: UUID, number: int, *, as_json: bool = False) -> HttpResponse:
    """Show one step: the differences of its files, and the prompt and reply behind it.
    `file`: the one that is shown whole."""
    row = _find_draft(public_id)
    steps = read_steps(row)
    place = next((place for place, each in enumerate(steps) if each.row.number == number), None)
    if place is None:
        raise Http404("the draft has no such step")
    step = steps[place]
    chosen = [each for each in step.changes if each.path == request.GET.get("file", "")]
    # Several steps may be open on one page: the places of their lines have names of their own.
    files = [
        replace(each, index=number * 1_000 + each.index)
        for each in draw_changes(chosen or step.changes, whole=bool(chosen))
    ]
    before, after = find_neighbours(steps, step)
    contents = Blob.objects.read_many([each for each in (step.row.request_id, step.row.reply_id) if each])
    asked, answered = (contents.get(each or "") for each in (step.row.request_id, step.row.reply_id))
    prompt, reply = Prompt(asked) if asked else None, Reply(answered) if answered else None

    if as_json:
        sent = [{"role": each.role, "text": each.text[:JSON_CHARS]} for each in prompt.messages] if prompt else None
        data = {
            "draft": PageLink("draft-json", public_id),
            "step": step,
            "diff": DIFF.read_all(files),
            "prompt": sent,
            "reply": reply.text[:JSON_CHARS] if reply else None,
        }
        return render_page(request, "drafts/draft_step.html", data=data, as_json=True)

    call = {
        "files": files,
        "chosen": chosen,
        "files_left_out": 0 if chosen else len(step.changes) - len(files),
        "prompt": prompt,
        "reply": reply,
        "before": before and before.row.number,
        "after": after and after.row.number,
    }
    context = {"row": row, "call": call, "step": step, "max_section": MAX_SECTION}
    return render_page(request, "drafts/draft_step.html", context=context)


@never_cache
@needs(User.Level.OPERATOR, to_change=True)
def draft_file(request: HttpRequest, public_id: UUID, path: str, *, as_json: bool = False) -> HttpResponse:
    """Show a file. POST saves the text that was sent, or (`act` remove) removes the file."""
    row, user = _find_draft(public_id), user_of(request)
    try:
        file = OpenedFile(row, path)
    except ValueError as error:
        raise Http404(str(error)) from None
    if request.method != "POST":
        if not file.exists and not (user.may(User.Level.OPERATOR) and not as_json):
            raise Http404("the draft has no such file")
        return _show_file(request, row, file, as_json=as_json)
    text = None if request.POST.get("act") == "remove" else request.POST.get("text", "").replace("\r\n", "\n")
    if text is not None and len(text) > MAX_CHARS:
        return _show_file(request, row, file, problem=f"Expected at most {MAX_CHARS:,} characters.", status=422)
    try:
        step = edit_file(row, path, text, user, request.POST.get("head", ""))
    except RunnerError as error:
        fresh = _find_draft(public_id)
        status = 409 if isinstance(error, DraftConflict) else 422
        return _show_file(request, fresh, OpenedFile(fresh, path, typed=text), problem=str(error), status=status)
    messages.success(request, f"{'Removed' if text is None else 'Saved'} {path}: step {step.number}.")
    return HttpResponseRedirect(f"{reverse('draft', args=[public_id])}#step-{step.number}")


def _show_file(
    request: HttpRequest, row: Draft, file: OpenedFile, *, problem: str = "", as_json: bool = False, status: int = 200
) -> HttpResponse:
    data = {"draft": PageLink("draft-json", row.public_id), **encode(file)} if as_json else {}
    context = {"row": row, "file": file, "problem": problem, "max_chars": MAX_CHARS}
    return render_page(request, "drafts/draft_file.html", data=data, context=context, as_json=as_json, status=status)


def _version_of(content: bytes) -> Version:
    return Version(digest_bytes(content), len(content), content.count(b"\n"), content=content)


class BriefForm(forms.Form):
    """What a person asks for, and its limits."""

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


class DraftWish:
    """The values in the form: what was sent, or what an address asks for; what is missing is as in an empty form.
    `typed`: path and text of files that somebody typed. `takes_family`: it drafts a reference skill for all tasks of a
    family; other loops begin with one task."""

    def __init__(self, given: QueryDict) -> None:
        self.values = {name: given.get(name, empty).replace("\r\n", "\n").strip() for name, empty in START.items()}
        pairs = zip(given.getlist("path"), given.getlist("text"), strict=False)
        self.typed = [(path.strip(), text.replace("\r\n", "\n")) for path, text in pairs][:MAX_FILES]
        self.loop = next((loop for loop in Loop if loop == self.values["loop"]), Loop.CORPUS)
        self.loops = [(each.value, *words) for each, words in LOOP_WORDS.items()]
        self.takes_corpus, self.takes_family = self.loop is Loop.CORPUS, self.loop is Loop.REFERENCE

    @property
    def models(self) -> list[tuple[str, list[Option]]]:
        """List the models, those whose keys are set first."""
        options = list_models()
        ready, waiting = ([each for each in options if bool(each.waits_for) is waits] for waits in (False, True))
        return [("ready", ready), *([("their key is not set here", waiting)] if waiting else [])]

    @property
    def corpora(self) -> list[Option]:
        return [Option(f"{suite}{SPLIT}{key}", f"{name}, {suite}") for suite, key, name in list_corpora()]

    @property
    def suites(self) -> list[Option]:
        return list_suite_options()

    @property
    def begins(self) -> list[tuple[str, list[Option]]]:
        """Return what the chosen suite offers: (family, its tasks), or one group of its families."""
        try:
            families = find_suite(self.values["suite"]).families if self.values["suite"] else []
        except RunnerError:  # the form reports it when it is sent
            return []
        if self.takes_family:
            return [("Families", [Option(each.key, f"{each.name}, {len(each.tasks)} tasks") for each in families])]
        return [(each.name, [Option(task.key, task.title) for task in each.tasks]) for each in families]


def _read_start(wish: DraftWish, family: str) -> Files:
    """Read the files that the draft begins with. SetupError names those that cannot be read."""
    suite, begin, files = wish.values["suite"], wish.values["begin"], dict[str, File]()
    source, _, part = wish.values["corpus"].partition(SPLIT)
    if wish.takes_corpus and source:
        files |= read_corpus(source, part)
    elif not wish.takes_corpus and suite and begin:
        read = read_start_family if wish.takes_family else read_start_task
        files |= read(suite, begin, family)
    for path, text in wish.typed:
        if not path and not text.strip():
            continue
        try:
            check_relative(path)
        except ValueError as error:
            raise SetupError(f"a file of your own: {error}") from None
        if len(path) > MAX_PATH or len(text) > MAX_CHARS:
            raise SetupError(f"{path[:80]}: expected a text of at most {MAX_CHARS:,} characters, below a short path")
        files[path] = File(text.encode("utf-8", "replace"))
    return files


class ListedDraft(Shaped):
    """A draft's row; its totals come with the query."""

    json_shape = JsonShape(
        "id=row.public_id name=row.name loop=row.loop status=row.status model=row.model scripted steps edits",
        "cost_usd asked_at=row.asked_at admitted_as=row.admitted_as.key",
        link_to("draft-json", "row.public_id"),
    )

    def __init__(self, row: Draft) -> None:
        self.row, self.loop = row, LOOP_WORDS[Loop(row.loop)][0]
        self.steps, self.edits, scripts, self.cost_usd = TOTALS_OF(row)
        self.scripted = scripts > 0
        self.status = "admitted" if row.admitted_as else STATUS_WORDS[Draft.Status(row.status)]
        self.tone = {"admitted": "ok", "stopped": "warn", "running": "acc"}.get(self.status, "")


def drafts(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    rows = Draft.objects.select_related("admitted_as", "asked_by").order_by("-pk")
    counts = {name: Count("steps", filter=which) for name, which in COUNTED.items()}
    page = paginate(request, rows.annotate(**counts, cost=Sum("steps__cost_usd")))
    data = {"drafts": [ListedDraft(row) for row in page]}
    return render_page(request, "drafts/drafts.html", data=data, page=page, as_json=as_json)


@needs(User.Level.OPERATOR, to_change=True)
def draft_new(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """Show the form of a new draft.
    POST starts it, or (`act` add, write) shows the form again as it follows from what was chosen."""
    if request.method != "POST":
        return _show_form(request, DraftWish(request.GET), as_json=as_json)
    wish = DraftWish(request.POST)
    if (act := request.POST.get("act", "start")) != "start":
        return _show_form(request, wish, adds=act == "add")
    form = BriefForm(wish.values)
    if not form.is_valid():
        return _show_form(request, wish, form=form)
    given = form.cleaned_data
    asked = {name: given[name] for name in ("family", "goal", "tasks", "max_revisions", "image")}
    limits = {name: given[name] for name in ("max_calls", "max_usd")}
    try:
        brief = DraftBrief(loop=Loop(given["loop"]), **asked)
        files = _read_start(wish, brief.family)
        draft = start_draft(brief, files, given["model"], user_of(request), **limits)
    except RunnerError as error:
        return _show_form(request, wish, problem=str(error))
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
        "loops": [{"loop": loop, "title": title, "says": about} for loop, title, about in wish.loops],
        "problems": {**faults, **({"start": [problem]} if problem else {})},
    }
    typed = [*wish.typed, *([("", "")] if adds and len(wish.typed) < MAX_FILES else [])]
    context = {"wish": wish, "typed": typed, "faults": faults, "problem": problem, "may_add": len(typed) < MAX_FILES}
    status = 422 if data["problems"] else 200
    return render_page(request, "drafts/draft_new.html", data=data, context=context, as_json=as_json, status=status)

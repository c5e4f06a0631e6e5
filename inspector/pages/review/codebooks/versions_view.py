"""`/review/versions/<id>/`: the codes of one version, changed while it is a draft; acts on it,
on its codes and on their examples; its file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from benchapp.models import (
    Code,
    Codebook,
    CodebookVersion,
    CodeExample,
    CodeOrigin,
    Decision,
    Label,
    Mark,
    Queue,
    Review,
    Trial,
    User,
)
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import answered_unseen, asked_elsewhere, hidden_in
from benchapp.review.codebooks import codes
from benchapp.review.codebooks.codebook_file import MAX_NAME, MAX_QUOTE, MAX_TEXT, write_codebook
from benchapp.review.codebooks.codebook_versions import CodebookRefused, clone, discard, freeze, text_of
from benchapp.review.codebooks.codes import Wording
from benchapp.review.codebooks.examples import (
    add_example,
    add_from_mark,
    hidden_examples,
    note_examples_seen,
    remove_example,
)
from benchapp.review.codebooks.hierarchy import in_order, keys_of
from benchapp.review.queues.passes import judging_skills
from inspector.pages.review.queues.queues import kept_filter
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, attach, render_page
from runner.base.text import parse_count

KIND_WORDS = {
    CodeOrigin.Kind.RENAMED: "renamed from",
    CodeOrigin.Kind.REDEFINED: "redefined from",
    CodeOrigin.Kind.MERGED: "merged from",
    CodeOrigin.Kind.SPLIT: "split from",
}
VERSION = JsonShape("id=public_id codebook=codebook.name number frozen_at digest? note")
ORIGIN = JsonShape("kind before=before.name")
CONTENT_TYPES = {"yaml": "application/yaml", "json": "application/json"}
MIN_PARTS, MAX_PARTS = 2, 6
TEXTS = {"definition": "Definition", "include": "Use it when", "exclude": "Not when, and what instead"}


def _name(label: str | None = None) -> forms.CharField:
    return forms.CharField(max_length=MAX_NAME, error_messages={"required": "Give it a name."}, label=label)


def _text(label: str, *, rows: int = 3) -> forms.CharField:
    return forms.CharField(required=False, max_length=MAX_TEXT, label=label, widget=forms.Textarea({"rows": rows}))


def _read_texts(code: Code) -> dict[str, object]:
    return {name: getattr(Wording.of(code), name) for name in ("name", *TEXTS)}


def _choose_code(codes: QuerySet[Code], label: str, nothing: str) -> forms.Field:
    """Build the field that chooses a code. `nothing`: what it means to choose none."""
    return forms.ModelChoiceField(codes, required=False, to_field_name="public_id", empty_label=nothing, label=label)


class CodeForm(forms.Form):
    """`title`: the act on its tab. `button`: what it does."""

    title = button = about = ""

    def __init__(
        self, code: Code | None, sent: QueryDict | None = None, *, initial: dict[str, object] | None = None
    ) -> None:
        super().__init__(sent, auto_id="code_%s", initial=initial)
        self.code = code

    def apply(self, user: User) -> str:
        """Carry the act out and say what was done. Raises CodebookRefused."""
        raise NotImplementedError

    def wording(self, ending: str = "") -> Wording:
        return Wording(*(self.cleaned_data[f"{name}{ending}"] for name in ("name", *TEXTS)))


class WordingForm(CodeForm):
    name = _name()
    definition = _text(TEXTS["definition"])
    include = _text(TEXTS["include"])
    exclude = _text(TEXTS["exclude"])


class AddForm(WordingForm):
    """The form that adds a code. Unlike the others it starts from a version, without a code."""

    title, button = "Add", "Add code"

    def __init__(self, version: CodebookVersion, sent: QueryDict | None = None) -> None:
        super().__init__(None, sent)
        self.version = version
        self.fields["parent"] = _choose_code(version.codes.all(), "Below", "at the top")

    def apply(self, user: User) -> str:
        self.code = codes.add(self.version, self.wording(), user, parent=self.cleaned_data["parent"])
        return f"“{self.code.name}” was added."


class EditForm(WordingForm):
    code: Code
    title, button = "Edit", "Save"
    about = "A new name keeps the labels. A new meaning asks for each label again when a queue is carried over."
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, code: Code, sent: QueryDict | None = None) -> None:
        initial = {**_read_texts(code), "seen": Wording.of(code).fingerprint}
        super().__init__(code, sent, initial=initial)

    def apply(self, user: User) -> str:
        code = codes.reword(self.code, self.wording(), user, seen=self.cleaned_data["seen"])
        return f"“{code.name}” was saved."


class MoveForm(CodeForm):
    code: Code
    title, button = "Move", "Move"

    def __init__(self, code: Code, sent: QueryDict | None = None) -> None:
        super().__init__(code, sent, initial={"parent": code.parent and code.parent.public_id})
        others = code.version.codes.exclude(pk=code.pk)
        self.fields["parent"] = _choose_code(others, "Below", "at the top")
        self.fields["before"] = _choose_code(others, "Before", "last")

    def apply(self, user: User) -> str:
        parent, before = self.cleaned_data["parent"], self.cleaned_data["before"]
        codes.move(self.code, user, parent=before.parent if before and not parent else parent, before=before)
        return f"“{self.code.name}” was moved."


class SplitForm(CodeForm):
    code: Code
    title, button = "Split", "Split"
    about = "The first part keeps the place, the examples and what is below. Every label is asked for again."

    def __init__(self, code: Code, sent: QueryDict | None = None, *, parts: int = MIN_PARTS) -> None:
        super().__init__(code, sent)
        if sent is not None:
            parts = sum(f"name_{part}" in sent for part in range(1, MAX_PARTS + 1))
        self.parts = max(MIN_PARTS, min(MAX_PARTS, parts))
        for part in range(1, self.parts + 1):
            self.fields[f"name_{part}"] = _name(label=f"Part {part}: name")
            for text, label in TEXTS.items():
                self.fields[f"{text}_{part}"] = _text(label, rows=2)
        self.more = self.parts + 1 if self.parts < MAX_PARTS else None  # how many it could have next

    def apply(self, user: User) -> str:
        was = self.code.name
        made = codes.split_code(self.code, [self.wording(f"_{part}") for part in range(1, self.parts + 1)], user)
        return f"“{was}” was split into {', '.join(f'“{code.name}”' for code in made)}."


class MergeForm(WordingForm):
    code: Code
    title, button = "Merge", "Merge"
    about = "All their labels follow automatically, even where the words change."

    def __init__(self, code: Code, sent: QueryDict | None = None) -> None:
        super().__init__(code, sent, initial=_read_texts(code))
        self.fields["others"] = forms.ModelMultipleChoiceField(
            code.version.codes.exclude(pk=code.pk),
            to_field_name="public_id",
            widget=forms.CheckboxSelectMultiple,
            label="Merge with",
            error_messages={"required": "Choose at least one other code."},
        )
        self.order_fields(("others", "name", *TEXTS))

    def apply(self, user: User) -> str:
        merged = [self.code, *self.cleaned_data["others"]]
        self.code = codes.merge(merged, self.wording(), user)
        return f"{', '.join(f'“{code.name}”' for code in merged)} became “{self.code.name}”."


class RetireForm(CodeForm):
    code: Code
    title, button = "Retire", "Retire"
    about = "The draft continues without it. Codes below it move up. Its labels are asked for again."
    reason = forms.CharField(required=False, max_length=1000, label="Why", widget=forms.Textarea({"rows": 2}))

    def apply(self, user: User) -> str:
        codes.retire(self.code, user, reason=self.cleaned_data["reason"])
        return f"“{self.code.name}” was retired."


class ExampleForm(CodeForm):
    code: Code
    title, button = "Example", "Add example"
    about = (
        "A place that shows what the code means. Marks of submitted reviews can be added from the coding screen too."
    )
    trial = forms.ModelChoiceField(
        Trial.objects.filter(episode__run__experiment__deleted_at=None),
        required=False,
        to_field_name="public_id",
        widget=forms.TextInput({"autocomplete": "off"}),
        label="Trial (the id in its address)",
        error_messages={"invalid_choice": "There is no such trial."},
    )
    decision = forms.ModelChoiceField(
        Decision.objects.filter(episode__run__experiment__deleted_at=None),
        required=False,
        to_field_name="public_id",
        widget=forms.TextInput({"autocomplete": "off"}),
        label="or decision (its id)",
        error_messages={"invalid_choice": "There is no such decision."},
    )
    step = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1, label="Step")
    quote = forms.CharField(required=False, max_length=MAX_QUOTE, widget=forms.Textarea({"rows": 2}), label="Quote")
    note = forms.CharField(required=False, max_length=MAX_TEXT, widget=forms.Textarea({"rows": 2}), label="Note")
    is_counter = forms.BooleanField(required=False, label="Shows what the code does not mean")

    def apply(self, user: User) -> str:
        add_example(self.code, user, **self.cleaned_data)
        return f"An example was added to “{self.code.name}”."


ACTS: dict[str, type[CodeForm]] = {
    "edit": EditForm,
    "example": ExampleForm,
    "move": MoveForm,
    "split": SplitForm,
    "merge": MergeForm,
    "retire": RetireForm,
}


class ExampleView(Shaped):
    """An example and the address of what it shows; "" where that is not in this record."""

    json_shape = JsonShape(
        "id=example.public_id trial=example.trial decision=example.decision step=example.step field=example.field",
        "quote=example.quote note=example.note is_counter=example.is_counter",
    )

    def __init__(self, example: CodeExample) -> None:
        self.example, step = example, f", step {example.step}" if example.step else ""
        self.url, self.place = "", f"not in this record{step}"
        if trial := example.trial:
            anchor = f"?step={example.step}#step-{example.step}" if step else ""
            self.url, self.place = reverse("trial", args=[trial.public_id]) + anchor, f"{trial.task.key}{step}"
        elif decision := example.decision:
            self.url, self.place = decision.get_absolute_url(), f"decision {decision.number}"


class CodeRow(Shaped):
    """A code as the tree shows it.

    `parent`: name of the code above it. `labels`: how many, None for a draft, which nothing can be labelled with.
    `key`: what one presses for it, "" where the signs ran out. `judges_skills`: nobody can judge it while a queue hides
    skills. `origins`: (how, name in the version before), only what differs. `is_new`: the version before had nothing
    it follows from."""

    json_shape = JsonShape(
        "id=code.public_id name=code.name parent definition=code.definition include=code.include",
        "exclude=code.exclude",
        ("origins", lambda row: ORIGIN.read_all(row.code.origins.all())),
        "labels examples examples_hidden keys=key judges_skills",
    )

    def __init__(self, code: Code, depth: int, labels: int | None, key: str, hidden: Collection[int]) -> None:
        """`hidden`: keys of the examples that the reader must not see yet."""
        examples, origins = list(code.examples.all()), list(code.origins.all())
        self.code, self.depth, self.labels, self.key = code, depth, labels, key
        named = [(KIND_WORDS.get(CodeOrigin.Kind(each.kind), ""), each.before.name) for each in origins]
        self.origins = [each for each in named if each[0]]
        self.is_new = code.version.previous_id is not None and not origins
        self.examples = [ExampleView(each) for each in examples if each.pk not in hidden]
        self.examples_hidden = len(examples) - len(self.examples)
        self.parent: str | None = None
        self.judges_skills = False


def version(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Show a version. `?code=ID&do=ACT` opens the form of an act on one code of a draft."""
    return version_page(request, load_version(public_id), as_json=as_json)


def load_version(public_id: UUID) -> CodebookVersion:
    versions = CodebookVersion.objects.select_related("codebook", "previous", "frozen_by", "created_by")
    return get_object_or_404(versions, public_id=public_id)


def version_page(
    request: HttpRequest,
    version: CodebookVersion,
    *,
    as_json: bool = False,
    form: CodeForm | None = None,
    refusal: str = "",
    note: str = "",
) -> HttpResponse:
    """Render a version. `form`, `refusal`, `note`: what somebody sent and why it was not done, so that nothing typed
    is lost."""
    queues = list(version.queues.all())
    rows, uncounted = list_codes(version, user_of(request), queues)
    data = {**VERSION.read(version), "codes": rows, "url": PageLink("codebook-version", version.public_id)}
    siblings = list(version.codebook.versions.order_by("number"))
    form = form or _form(request, version, [row.code for row in rows])
    context = {
        "section": "codebook",
        "version": version,
        "judging": sum(row.judges_skills for row in rows),
        "kept_queue": kept_filter(request),
        "has_frozen": version.is_frozen or any(each.is_frozen for each in siblings),
        "form": form,
        "act": next((key for key, kind in ACTS.items() if isinstance(form, kind)), "add"),
        "acts": [(key, kind.title) for key, kind in ACTS.items()],
        "refusal": refusal,
        "freeze_note": note,
        "siblings": siblings,
        "queues": queues,
        "uncounted": uncounted,
        "carriable": list_carriable(version),
        "hidden_total": sum(row.examples_hidden for row in rows),
        "labels_total": sum(row.labels or 0 for row in rows),
    }
    template, status = "review/codebook_version.html", 422 if refusal else 200
    return render_page(request, template, data=data, context=context, as_json=as_json, status=status)


def list_carriable(version: CodebookVersion) -> QuerySet[Queue]:
    """Return the queues of earlier versions that nobody carried over to this frozen one yet."""
    if not version.is_frozen:
        return Queue.objects.none()
    earlier = Queue.objects.filter(version__codebook=version.codebook_id, version__number__lt=version.number)
    return earlier.exclude(carried_to__version=version).select_related("version__codebook")


def list_codes(version: CodebookVersion, user: User, queues: Sequence[Queue]) -> tuple[list[CodeRow], list[Queue]]:
    """Return a version's codes in reading order with their labels, and those of its queues whose labels must not be
    counted yet, in a constant number of queries. Examples count as seen."""
    counted = _find_counted(version, user) if queues else set()
    codes = version.codes.prefetch_related(
        "origins__before", "examples__trial__task", "examples__decision__episode__run"
    )
    ordered = in_order(codes)
    hidden = hidden_examples(user, [example for code, _ in ordered for example in code.examples.all()])
    totals: dict[int, int] = {}
    if version.is_frozen:
        totals = dict(_labels_of(version, counted).values_list("code").annotate(Count("pk")))
    names = {code.pk: code.name for code, _ in ordered}
    keys, judging = keys_of(version), judging_skills(codes)
    rows = []
    for code, depth in ordered:
        row = CodeRow(code, depth, totals.get(code.pk, 0) if version.is_frozen else None, keys[code.pk], hidden)
        row.parent, row.judges_skills = names.get(code.parent_id or 0), code.pk in judging
        rows.append(row)
    note_examples_seen(user, [each.example for row in rows for each in row.examples])
    return rows, [queue for queue in queues if queue.pk not in counted]


def _form(request: HttpRequest, version: CodebookVersion, codes: list[Code]) -> CodeForm | None:
    """Return the form that `?code=&do=` asks for; the one that adds a code if they name none."""
    if version.is_frozen:
        return None
    wanted = request.GET.get("code", "")
    code = next((code for code in codes if str(code.public_id) == wanted), None)
    if code is None:
        return AddForm(version)
    kind = ACTS.get(request.GET.get("do", "edit"), ACTS["edit"])
    if kind is SplitForm:
        return SplitForm(code, parts=parse_count(request.GET.get("parts", "")) or MIN_PARTS)
    return kind(code)


def count_labels(version: CodebookVersion, user: User) -> tuple[dict[int, list[tuple[Queue, int]]], list[Queue]]:
    """Return key of code -> its labels in each queue that has some,
    and the queues whose labels must not be counted yet."""
    counted, queues = _find_counted(version, user), {queue.pk: queue for queue in version.queues.all()}
    found: dict[int, list[tuple[Queue, int]]] = {}
    rows = _labels_of(version, counted).values_list("code", "mark__review__item__queue").annotate(Count("pk"))
    for code, queue, total in rows:
        found.setdefault(code, []).append((queues[queue], total))
    return found, [queue for pk, queue in queues.items() if pk not in counted]


def _labels_of(version: CodebookVersion, queues: Collection[int]) -> QuerySet[Label]:
    """Select labels with codes of this version in submitted reviews of these queues."""
    labels = Label.objects.filter(code__version=version, mark__review__state=Review.State.SUBMITTED)
    return labels.filter(mark__review__item__queue__in=queues).order_by()


def _find_counted(version: CodebookVersion, user: User) -> set[int]:
    """Return keys of the queues whose labels may be counted. Left out: queues that somebody still codes blind,
    because a growing number would reveal single answers, and queues that another queue hides from this person."""
    queues = list(version.queues.exclude(pk__in=answered_unseen(version.queues.all())))
    return {queue.pk for queue in queues} - asked_elsewhere(queues, user)


# --- acts on the whole version --------------------------------------------------------------------------------------


@needs(User.Level.REVIEWER)
def version_freeze(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found, note = load_version(public_id), request.POST.get("note", "")
    try:
        freeze(found, user_of(request), note)
    except CodebookRefused as refusal:
        return version_page(request, found, refusal=str(refusal), note=note)
    messages.success(request, f"Version {found.number} is frozen. Queues can use it from now on.")
    return redirect(found)


@needs(User.Level.REVIEWER)
def version_discard(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found = load_version(public_id)
    try:
        discard(found, user_of(request))
    except CodebookRefused as refusal:
        return version_page(request, found, refusal=str(refusal))
    messages.success(request, f"The draft of version {found.number} was discarded.")
    codebook = Codebook.objects.filter(public_id=found.codebook.public_id).first()
    return redirect(codebook or "codebooks")


@needs(User.Level.REVIEWER)
def version_clone(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found = load_version(public_id)
    try:
        made = clone(found, user_of(request), name=request.POST.get("name", ""))
    except CodebookRefused as refusal:
        return version_page(request, found, refusal=str(refusal))
    messages.success(request, f"“{made.name}” starts with the codes of {found}.")
    return redirect(made.versions.get())


def version_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponse:
    """Export the file that a new codebook can be begun with, without examples that this person must not see yet."""
    if form not in CONTENT_TYPES:
        raise Http404(f"There are {', '.join(CONTENT_TYPES)}.")
    found = load_version(public_id)
    examples = CodeExample.objects.filter(code__version=found)
    hidden = hidden_examples(user_of(request), examples)
    note_examples_seen(user_of(request), [each for each in examples if each.pk not in hidden])
    text = text_of(found, without=hidden)
    name = f"codebook-{str(found.codebook.public_id)[:8]}-v{found.number}.{form}"
    return HttpResponse(write_codebook(text, form), CONTENT_TYPES[form], headers=attach(name))


# --- acts on single codes of a draft and their examples, sent by the forms of the page ------------------------------


@needs(User.Level.REVIEWER)
def code_add(request: HttpRequest, public_id: UUID) -> HttpResponse:
    version = load_version(public_id)
    return _done(request, AddForm(version, request.POST), version.public_id)


@needs(User.Level.REVIEWER)
def code_act(request: HttpRequest, public_id: UUID, act: str) -> HttpResponse:
    """Carry out an act on a code: edit, example, move, split, merge or retire."""
    if act not in ACTS:
        raise Http404(f"There are {', '.join(ACTS)}.")
    code = get_object_or_404(Code.objects.select_related("version__codebook", "parent"), public_id=public_id)
    return _done(request, ACTS[act](code, request.POST), code.version.public_id)


@needs(User.Level.REVIEWER)
def example_remove(request: HttpRequest, public_id: UUID) -> HttpResponse:
    example = get_object_or_404(CodeExample.objects.select_related("code__version__codebook"), public_id=public_id)
    version = example.code.version
    try:
        remove_example(example, user_of(request))
    except CodebookRefused as refusal:
        return version_page(request, version, refusal=str(refusal))
    return redirect(version)


@needs(User.Level.REVIEWER)
def mark_example(request: HttpRequest, review_id: UUID, mark_id: UUID, code_id: UUID) -> HttpResponse:
    """Make the place of a mark an example of a code; in the draft of the next version if the code's version is
    frozen."""
    marks = Mark.objects.select_related("review__item__queue__version", "review__item__trial", "review__item__decision")
    mark = get_object_or_404(marks, review__public_id=review_id, public_id=mark_id)
    code = get_object_or_404(Code.objects.select_related("version__codebook"), public_id=code_id)
    item = mark.review.item
    if hidden_in(item, user_of(request)).labels:
        raise Http404("There is no such mark.")  # for anyone who still has to code the item unseen by others
    try:
        made = add_from_mark(mark, code, user_of(request), note=request.POST.get("note", ""))
    except CodebookRefused as refusal:
        messages.error(request, str(refusal))
        return redirect(item)
    messages.success(request, f"Added as an example in the draft of {made[0].code.version}.")
    return redirect(made[0].code.version)


def _done(request: HttpRequest, form: CodeForm, version_id: UUID) -> HttpResponse:
    refusal = "Nothing was changed." if not form.is_valid() else ""
    if not refusal:
        try:
            messages.success(request, form.apply(user_of(request)))
        except CodebookRefused as error:
            refusal = str(error)
    if refusal:
        return version_page(request, load_version(version_id), form=form, refusal=refusal)
    address = reverse("codebook-version", args=[version_id])
    code_exists = form.code is not None and Code.objects.filter(pk=form.code.pk).exists()
    return redirect(f"{address}#code-{form.code.public_id}" if code_exists and form.code else address)

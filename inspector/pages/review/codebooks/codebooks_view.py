"""`/review/codebooks/`: the codebooks, starters to clone, and each one's versions with who did what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from benchapp.models import Activity, Codebook, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.codebooks.codebook_file import MAX_BYTES, CodebookFileError, read_codebook, starters
from benchapp.review.codebooks.codebook_versions import CodebookRefused, clone_starter, draft_of, start, start_from
from inspector.pages.review.codebooks.versions_view import list_carriable, list_codes
from inspector.pages.review.queues.queues import kept_filter
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, next_url, paginate, render_page

PER_PAGE = 50
ACTS_PER_PAGE = 50

Detail = dict[str, Any]  # of an act in the log, as JSON
CODEBOOK = JsonShape(
    *("id=public_id", "name"),
    ("versions", lambda codebook: JsonShape("number", "frozen_at", "id=public_id").read_all(codebook.versions.all())),
    *("queues=queues_total", link_to("codebook-json")),
)
VERSION = JsonShape(
    *("id=public_id", "number", "codes=codes_total", "queues=queues_total", "digest?", "note", "frozen_at"),
    *("frozen_by=frozen_by.username", link_to("codebook-version-json")),
)
STARTER = JsonShape("key", "name=text.name", "codes=codes_total", "source=text.source")
ACT = JsonShape("at", "by=actor_name", "verb", "detail", "reason")


class StartForm(forms.Form):
    """One of three: a starter, a file, or nothing but a name."""

    name = forms.CharField(required=False, max_length=200)
    about = forms.CharField(required=False, max_length=4000, widget=forms.Textarea({"rows": 2}))
    starter = forms.CharField(required=False, max_length=100)
    file = forms.FileField(required=False, max_length=300, allow_empty_file=True)

    def begin(self, user: User) -> Codebook:
        """Raises CodebookRefused, or CodebookFileError with every fault of the file."""
        given = self.cleaned_data
        if given["starter"]:
            return clone_starter(given["starter"], user, name=given["name"])
        if file := given["file"]:
            return start_from(read_codebook(file.read(MAX_BYTES + 1), name=file.name), user, name=given["name"])
        return start(given["name"], user, about=given["about"])


@require_safe
def codebooks(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    return _page(request, as_json=as_json)


@require_POST
@needs(User.Level.REVIEWER)
def codebook_new(request: HttpRequest) -> HttpResponse:
    form = StartForm(request.POST, request.FILES)
    faults = [str(error) for errors in form.errors.values() for error in errors]
    if form.is_valid():
        try:
            codebook = form.begin(user_of(request))
        except CodebookRefused as refusal:
            faults = [str(refusal)]
        except CodebookFileError as broken:
            faults = broken.faults
        else:
            messages.success(request, f"“{codebook.name}” is a draft now. Change what you need, then freeze it.")
            return redirect(codebook.versions.get())
    return _page(request, form=form, faults=faults, status=422)


@require_safe
def codebook(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(Codebook.objects.select_related("created_by"), public_id=public_id)
    versions = list(
        found.versions.select_related("frozen_by", "created_by")
        .annotate(codes_total=Count("codes", distinct=True), queues_total=Count("queues", distinct=True))
        .order_by("-number")  # said again because grouping drops the model's own order
    )
    current = next((version for version in versions if version.is_frozen), versions[0])  # what queues can use
    queues = list(current.queues.all())
    rows, uncounted = list_codes(current, user_of(request), queues)
    acts = Activity.objects.filter(target_kind="codebook", target_id=found.public_id).order_by("-at", "-id")
    page = paginate(request, acts, per_page=ACTS_PER_PAGE)
    history = [(act, _describe_act(act.verb, act.detail)) for act in page]
    data = {
        "id": found.public_id,
        "name": found.name,
        "about": found.about,
        "cloned_from": found.cloned_from or None,
        "versions": VERSION.read_all(versions),
        "history": ACT.read_all(act for act, _ in history),
        "next": next_url(request, page),
    }
    context = {
        "section": "codebook",
        "kept_queue": kept_filter(request),
        "has_frozen": any(version.is_frozen for version in versions),
        "codebook": found,
        "version_rows": versions,
        "version": current,
        "rows": rows,
        "uncounted": uncounted,
        "queues": queues,
        "carriable": list_carriable(current),
        "draft": next((version for version in versions if not version.is_frozen), None),
        "history_rows": history,
        "page": page,
    }
    return render_page(request, "review/codebook.html", data=data, context=context, as_json=as_json)


@require_POST
@needs(User.Level.REVIEWER)
def codebook_draft(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The draft of the next version, begun if there is none."""
    return redirect(draft_of(get_object_or_404(Codebook, public_id=public_id), user_of(request)))


def _page(
    request: HttpRequest,
    *,
    as_json: bool = False,
    form: StartForm | None = None,
    faults: list[str] | None = None,
    status: int = 200,
) -> HttpResponse:
    rows = Codebook.objects.prefetch_related("versions").select_related("created_by")
    page = paginate(
        request, rows.annotate(queues_total=Count("versions__queues")).order_by("name", "id"), per_page=PER_PAGE
    )
    data = {
        "codebooks": CODEBOOK.read_all(page),
        "starters": STARTER.read_all(starters().values()),
        "next": next_url(request, page),
    }
    context = {
        "section": "codebooks",
        "kept_queue": kept_filter(request),
        "has_frozen": any(version.is_frozen for codebook in page for version in codebook.versions.all()),
        "page": page,
        "starter_rows": list(starters().values()),
        "form": form or StartForm(),
        "faults": faults or [],
        "max_kib": MAX_BYTES // 1024,
    }
    return render_page(request, "review/codebooks.html", data=data, context=context, as_json=as_json, status=status)


# --- who did what ------------------------------------------------------------------------------------------------------


def _describe_act(verb: str, detail: Detail) -> str:
    """An act on a codebook as a sentence without its actor: "renamed “a” to “b” in v2"."""
    found = SENTENCES[verb](detail) if verb in SENTENCES else verb
    if "version" not in detail or verb in WITH_VERSION:
        return found
    return f"{found} in v{detail['version']}"


SENTENCES: dict[str, Callable[[Detail], str]] = {
    "codebook.started": lambda detail: "began the codebook",
    "codebook.cloned": lambda detail: f"began the codebook with {detail.get('codes', 0)} codes of a {_source(detail)}",
    "codebook.drafted": lambda detail: f"began the draft of {_version(detail)}",
    "codebook.discarded": lambda detail: f"discarded the draft of {_version(detail)}",
    "codebook.frozen": lambda detail: f"froze {_version(detail)} with {detail.get('codes', 0)} codes",
    "code.added": lambda detail: f"added {_code(detail)}",
    "code.renamed": lambda detail: f"renamed {_code(detail)} to “{detail.get('to', '')}”",
    "code.redefined": lambda detail: f"changed the {', '.join(detail.get('texts', {}))} of {_code(detail)}",
    "code.moved": lambda detail: f"moved {_code(detail)} {_below(detail.get('parent', ''))}",
    "code.split": lambda detail: f"split {_code(detail)} into {_names(detail.get('into', []))}",
    "code.merged": lambda detail: f"merged {_names(detail.get('codes', []))} into “{detail.get('into', '')}”",
    "code.retired": lambda detail: f"retired {_code(detail)}",
    "example.added": lambda detail: f"added an example of {_code(detail)}",
    "example.removed": lambda detail: f"removed an example of {_code(detail)}",
}


WITH_VERSION = frozenset({"codebook.drafted", "codebook.discarded", "codebook.frozen"})


def _version(detail: Detail) -> str:
    return f"v{detail.get('version', '?')}"


def _code(detail: Detail) -> str:
    return f"“{detail.get('code', '')}”"


def _source(detail: Detail) -> str:
    """ "starter skillflow", "file", or "version of another codebook"."""
    source = str(detail.get("from", "file"))
    return source if source == "file" or source.startswith("starter ") else "version of another codebook"


def _below(parent: str) -> str:
    return f"below “{parent}”" if parent else "to another place"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)

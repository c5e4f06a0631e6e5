"""`/review/codebooks/`: the codebooks, starters to clone, and each one's versions with who did what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from benchapp.models import Activity, Code, Codebook, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import asked_elsewhere, still_to_code
from benchapp.review.codebooks.carried_labels import CarryPlan, carry
from benchapp.review.codebooks.codebook_file import MAX_BYTES, CodebookFileError, read_codebook, starters
from benchapp.review.codebooks.codebook_versions import CodebookRefused, clone_starter, draft_of, start, start_from
from benchapp.review.codebooks.codes import MUST_LOOK, RETIRED, Change, VersionDiff
from benchapp.review.seeing import note_seen
from inspector.pages.review.codebooks.versions_view import count_labels, list_carriable, list_codes, load_version
from inspector.pages.review.queues.queues import kept_filter, load_queue, may_manage
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, paginate, render_page
from inspector.web.text.diff import FileDiff, diff_file

FIELD_TITLES = {"definition": "Definition", "include": "Use it when", "exclude": "Not when"}
CHANGES = {  # kind: (title, where the labels go)
    "split": ("Split", "For each label, a person chooses the part it belongs to."),
    "merged": ("Merged", "Their labels move to the merged code."),
    "redefined": ("Redefined", "Their labels were given under the old wording, so a person checks them."),
    "renamed": ("Renamed", "Their labels move to the new name."),
    "added": ("Added", "They have no labels yet."),
    "retired": ("Retired", "No code takes their place, so a person checks their labels."),
    "kept": ("Kept", "Their labels stay."),
}
CHECKED = {*MUST_LOOK, RETIRED}  # whose labels a reader must look at again
PER_PAGE = 50
ACTS_PER_PAGE = 50
WITH_VERSION = frozenset({"codebook.drafted", "codebook.discarded", "codebook.frozen"})


def version_diff(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Compare a version with the one that `?from=NUMBER` names, else with the one before."""
    found = load_version(public_id)
    earlier = list(found.codebook.versions.filter(number__lt=found.number).order_by("number"))
    wanted = request.GET.get("from", "")
    old = next((version for version in earlier if str(version.number) == wanted), found.previous)
    numbers, to_check = count(1), 0
    labels, uncounted = count_labels(old, user_of(request)) if old else ({}, [])
    twins: list[dict[str, object]] = []
    by_kind: dict[str, list[dict[str, object]]] = {kind: [] for kind in CHANGES}
    for change in VersionDiff(old, found).changes if old else ():
        checked = change.before if change.kind in CHECKED else ()
        queues = [row for code in checked for row in labels.get(code.pk, ())]  # labels to look at again, by queue
        total = sum(labels_total for _, labels_total in queues)
        to_check += total
        names = {side: [code.name for code in getattr(change, side)] for side in ("before", "after")}
        twins.append({"kind": change.kind, **names, "labels_to_check": total})
        comparisons = list(_compare_codes(change, numbers))
        by_kind[change.kind].append({"change": change, "comparisons": comparisons, "to_check": queues, "total": total})
    groups = []
    for kind, (title, about) in CHANGES.items():
        if of_kind := by_kind[kind]:
            if kind in CHECKED and not uncounted and not any(each["to_check"] for each in of_kind):
                about = "No review gave these codes, so there is nothing to check."
            groups.append({"kind": kind, "title": title, "says": about, "changes": of_kind})
    data = {
        "codebook": found.codebook.name,
        "from": old.number if old else None,
        "to": found.number,
        "changes": twins,
    }
    context = {
        "section": "codebook",
        "version": found,
        "old": old,
        "earlier": earlier,
        "groups": groups,
        "to_check": to_check,
        "uncounted": uncounted,
    }
    return render_page(request, "review/codebook_diff.html", data=data, context=context, as_json=as_json)


def _compare_codes(change: Change, numbers: Iterator[int]) -> Iterator[tuple[Code, Code, list[tuple[int, FileDiff]]]]:
    """Pair every old code with every new one it became, if their texts differ: with (number on the page, difference)
    of each."""
    for before in change.before:
        for after in change.after:
            diffs = []
            for name, title in FIELD_TITLES.items():
                if (old := getattr(before, name)) != (new := getattr(after, name)):
                    old_lines, new_lines = (f"{text}\n".encode() if text else b"" for text in (old, new))
                    diffs.append((next(numbers), diff_file(title, old_lines, new_lines)))
            if diffs:
                yield before, after, diffs


@needs(User.Level.REVIEWER, to_change=True)
def version_carry(request: HttpRequest, public_id: UUID, queue_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Show what carrying this queue over would do; POST does it. Open to the queue's maker and admins."""
    version, queue, user = load_version(public_id), load_queue(queue_id), user_of(request)
    may_carry = may_manage(queue, user)
    if request.method == "POST":
        if not may_carry:
            raise PermissionDenied(
                "Only the person who made the queue, or an admin, can carry it over: that closes the queue."
            )
        try:
            made = carry(queue, version, user)
        except CodebookRefused as refusal:
            messages.error(request, str(refusal))
            return redirect(queue)
        messages.success(request, f"“{queue.name}” was carried over to {version} and closed.")
        return redirect(made)
    try:
        plan = CarryPlan(queue, version)
    except CodebookRefused as refusal:
        raise Http404(str(refusal)) from refusal
    # No counts for anyone who still codes unseen by others: a draft that splits one code would show who gave that code.
    may_count = not still_to_code([queue], user) and not asked_elsewhere([queue], user)
    if may_count:
        note_seen(user, queue)
    rows = sorted(plan.by_code(), key=lambda row: (not row[1].must_look, row[1].kind == "kept"))  # to look at first
    by_code = [(code, fate, labels if may_count else None) for code, fate, labels in rows]
    data = {
        "queue": queue.public_id,
        "from": queue.version.number,
        "to": version.number,
        "counts": plan.counts if may_count else None,
        "codes": [
            {
                "code": code.name,
                "kind": fate.kind,
                "becomes": fate.code.name if fate.code else None,
                "must_look": fate.must_look,
                "labels": labels,
            }
            for code, fate, labels in by_code
        ],
    }
    context = {
        "section": "codebook",
        "plan": plan,
        "by_code": by_code,
        "carried": queue.carried_to.filter(version=version).first(),
        "may_carry": may_carry,
    }
    return render_page(request, "review/codebook_carry.html", data=data, context=context, as_json=as_json)


Detail = dict[str, Any]  # of an act in the log, as JSON
CODEBOOK_HEAD = JsonShape("id=public_id name about cloned_from?")
CODEBOOK = JsonShape(
    "id=public_id name",
    ("versions", lambda codebook: JsonShape("number frozen_at id=public_id").read_all(codebook.versions.all())),
    "queues=queues_total",
    link_to("codebook-json"),
)
VERSION = JsonShape(
    "id=public_id number codes=codes_total queues=queues_total digest? note frozen_at frozen_by=frozen_by.username",
    link_to("codebook-version-json"),
)
STARTER = JsonShape("key name=text.name codes=codes_total source=text.source")
ACT = JsonShape("at by=actor_name verb detail reason")


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


def codebooks(
    request: HttpRequest,
    *,
    as_json: bool = False,
    form: StartForm | None = None,
    faults: list[str] | None = None,
    status: int = 200,
) -> HttpResponse:
    """List the codebooks. `form`, `faults`: what somebody sent and why no codebook began with it."""
    rows = Codebook.objects.prefetch_related("versions").select_related("created_by")
    page = paginate(
        request, rows.annotate(queues_total=Count("versions__queues")).order_by("name", "id"), per_page=PER_PAGE
    )
    data = {
        "codebooks": CODEBOOK.read_all(page),
        "starters": STARTER.read_all(starters().values()),
    }
    context = {
        "section": "codebooks",
        "kept_queue": kept_filter(request),
        "has_frozen": any(version.is_frozen for codebook in page for version in codebook.versions.all()),
        "starter_rows": list(starters().values()),
        "form": form or StartForm(),
        "faults": faults or [],
        "max_kib": MAX_BYTES // 1024,
    }
    return render_page(
        request, "review/codebooks.html", data=data, context=context, page=page, as_json=as_json, status=status
    )


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
    return codebooks(request, form=form, faults=faults, status=422)


def codebook(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    codebook = get_object_or_404(Codebook.objects.select_related("created_by"), public_id=public_id)
    versions = list(
        codebook.versions.select_related("frozen_by", "created_by")
        .annotate(codes_total=Count("codes", distinct=True), queues_total=Count("queues", distinct=True))
        .order_by("-number")  # said again because grouping drops the model's own order
    )
    current = next((version for version in versions if version.is_frozen), versions[0])  # what queues can use
    queues = list(current.queues.all())
    rows, uncounted = list_codes(current, user_of(request), queues)
    acts = Activity.objects.filter(target_kind="codebook", target_id=codebook.public_id).order_by("-at", "-id")
    page = paginate(request, acts, per_page=ACTS_PER_PAGE)
    history = [(act, _describe_act(act.verb, act.detail)) for act in page]
    head = CODEBOOK_HEAD.read(codebook)
    data = {**head, "versions": VERSION.read_all(versions), "history": ACT.read_all(act for act, _ in history)}
    context = {
        "section": "codebook",
        "kept_queue": kept_filter(request),
        "has_frozen": any(version.is_frozen for version in versions),
        "codebook": codebook,
        "version_rows": versions,
        "version": current,
        "rows": rows,
        "uncounted": uncounted,
        "queues": queues,
        "carriable": list_carriable(current),
        "draft": next((version for version in versions if not version.is_frozen), None),
        "history_rows": history,
    }
    return render_page(request, "review/codebook.html", data=data, context=context, page=page, as_json=as_json)


@needs(User.Level.REVIEWER)
def codebook_draft(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Open the draft of the next version, or begin it."""
    return redirect(draft_of(get_object_or_404(Codebook, public_id=public_id), user_of(request)))


# --- who did what ---------------------------------------------------------------------------------------------------


def _describe_act(verb: str, detail: Detail) -> str:
    """Describe an act on a codebook as a sentence without its actor: "renamed “a” to “b” in v2"."""
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


def _version(detail: Detail) -> str:
    return f"v{detail.get('version', '?')}"


def _code(detail: Detail) -> str:
    return f"“{detail.get('code', '')}”"


def _source(detail: Detail) -> str:
    """Say where it comes from: "starter skillflow", "file", or "version of another codebook"."""
    source = str(detail.get("from", "file"))
    return source if source == "file" or source.startswith("starter ") else "version of another codebook"


def _below(parent: str) -> str:
    return f"below “{parent}”" if parent else "to another place"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)

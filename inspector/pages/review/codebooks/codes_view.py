"""Acts on single codes of a draft and on their examples: sent by the forms of the version's page."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from benchapp.models import Code, CodeExample, Mark, User
from benchapp.review.blinding import hidden_in
from benchapp.review.codebooks.codebook_versions import CodebookRefused
from benchapp.review.codebooks.examples import add_from_mark, remove_example
from inspector.pages.review.codebooks.code_forms import ACTS, AddForm, CodeForm
from inspector.pages.review.codebooks.versions_view import version_of, version_page
from inspector.web.access import needs, user_of


@require_POST
@needs(User.Level.REVIEWER)
def code_add(request: HttpRequest, public_id: UUID) -> HttpResponse:
    version = version_of(public_id)
    return _done(request, AddForm(version, request.POST), version.public_id)


@require_POST
@needs(User.Level.REVIEWER)
def code_act(request: HttpRequest, public_id: UUID, act: str) -> HttpResponse:
    """edit, example, move, split, merge or retire."""
    if act not in ACTS:
        raise Http404(f"There are {', '.join(ACTS)}.")
    code = get_object_or_404(Code.objects.select_related("version__codebook", "parent"), public_id=public_id)
    return _done(request, ACTS[act](code, request.POST), code.version.public_id)


@require_POST
@needs(User.Level.REVIEWER)
def example_remove(request: HttpRequest, public_id: UUID) -> HttpResponse:
    example = get_object_or_404(CodeExample.objects.select_related("code__version__codebook"), public_id=public_id)
    version = example.code.version
    try:
        remove_example(example, user_of(request))
    except CodebookRefused as refusal:
        return version_page(request, version, refusal=str(refusal), status=422)
    return redirect(version)


@require_POST
@needs(User.Level.REVIEWER)
def mark_example(request: HttpRequest, review_id: UUID, mark_id: UUID, code_id: UUID) -> HttpResponse:
    """The place of a mark as example of a code; in the draft of the next version where the code's is frozen."""
    marks = Mark.objects.select_related("review__item__queue__version", "review__item__trial", "review__item__decision")
    mark = get_object_or_404(marks, review__public_id=review_id, public_id=mark_id)
    code = get_object_or_404(Code.objects.select_related("version__codebook"), public_id=code_id)
    item = mark.review.item
    if hidden_in(item, user_of(request)).labels:
        raise Http404("There is no such mark.")  # for whoever still has to code the item unseen by others
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
        return version_page(request, version_of(version_id), form=form, refusal=refusal, status=422)
    address = reverse("codebook-version", args=[version_id])
    standing = form.code is not None and Code.objects.filter(pk=form.code.pk).exists()
    return redirect(f"{address}#code-{form.code.public_id}" if standing and form.code else address)

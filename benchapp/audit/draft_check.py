"""Drafts of tasks: does each accepted answer have its request and its reply, and do the files come from a step?"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Exists, OuterRef, Q

from benchapp.audit.check_finding import Flaw, flaw_each
from benchapp.models import Draft, DraftStep


def check_drafts() -> Iterator[Flaw]:
    answers = DraftStep.objects.filter(kind=DraftStep.Kind.ANSWER)
    taken = answers.filter(status=DraftStep.Status.TAKEN)
    without = Q(request=None) | Q(reply=None)
    yield from flaw_each(taken.filter(without), "draft step", "was taken, but its request or its reply is missing")
    gone = answers.filter(status=DraftStep.Status.UNUSABLE, reply=None)
    yield from flaw_each(gone, "draft step", "cannot be used, and the reply that says so is missing")
    made = DraftStep.objects.filter(draft=OuterRef("pk"), after=OuterRef("head"), status=DraftStep.Status.TAKEN)
    yield from flaw_each(Draft.objects.filter(~Exists(made)), "draft", "none of its steps left its present files")
    came = DraftStep.objects.filter(draft=OuterRef("draft"), after=OuterRef("before")).exclude(pk=OuterRef("pk"))
    later = DraftStep.objects.exclude(kind=DraftStep.Kind.GIVEN).filter(~Exists(came))
    yield from flaw_each(later, "draft step", "begins with files that no other step left")

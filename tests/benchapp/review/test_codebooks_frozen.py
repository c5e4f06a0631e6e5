"""A frozen version never changes, by whatever way somebody tries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction

from benchapp.models import Code, CodebookVersion, CodeExample, CodeOrigin
from benchapp.models.reviews import FrozenVersion
from tests.worlds.review_factories import make_code, make_example, make_version

pytestmark = pytest.mark.django_db


def frozen_parts() -> tuple[CodebookVersion, Code, CodeOrigin, CodeExample]:
    first = make_version()
    version = make_version(["a"], codebook=first.codebook)
    code = version.codes.get()
    origin = CodeOrigin(code=code, before=first.codes.first(), kind=CodeOrigin.Kind.KEPT)
    origin.save_base(force_insert=True)
    return version, code, origin, make_example(code, quote="here")


def _renamed(code: Code) -> None:
    code.name = "other"
    code.save()


CHANGES: dict[str, Callable[[CodebookVersion, Code, CodeOrigin, CodeExample], object]] = {
    "save a code": lambda version, code, origin, example: _renamed(code),
    "save an example": lambda version, code, origin, example: example.save(),
    "save an origin": lambda version, code, origin, example: origin.save(),
    "save the version": lambda version, code, origin, example: version.save(),
    "save it as a draft": lambda version, code, origin, example: CodebookVersion(
        pk=version.pk, codebook=version.codebook, number=version.number
    ).save(),
    "delete a code": lambda version, code, origin, example: code.delete(),
    "delete an example": lambda version, code, origin, example: example.delete(),
    "delete an origin": lambda version, code, origin, example: origin.delete(),
    "delete the version": lambda version, code, origin, example: version.delete(),
    "update codes": lambda version, code, origin, example: version.codes.update(name="other"),
    "update origins": lambda version, code, origin, example: CodeOrigin.objects.update(kind="split"),
    "update examples": lambda version, code, origin, example: CodeExample.objects.update(quote=""),
    "update versions": lambda version, code, origin, example: CodebookVersion.objects.update(frozen_at=None),
    "bulk update": lambda version, code, origin, example: Code.objects.bulk_update([code], ["definition"]),
    "delete many": lambda version, code, origin, example: CodeExample.objects.all().delete(),
    "delete many versions": lambda version, code, origin, example: CodebookVersion.objects.all().delete(),
    "add a code": lambda version, code, origin, example: Code.objects.create(version=version, name="new"),
    "add codes": lambda version, code, origin, example: Code.objects.bulk_create([Code(version=version, name="new")]),
    "add an example": lambda version, code, origin, example: code.examples.create(quote="x"),
}


def state() -> list[object]:
    return [
        list(CodebookVersion.objects.order_by("id").values()),
        list(Code.objects.order_by("id").values()),
        list(CodeOrigin.objects.order_by("id").values()),
        list(CodeExample.objects.order_by("id").values()),
    ]


@pytest.mark.parametrize("way", CHANGES)
def test_it_refuses_every_change_of_a_frozen_version(way: str) -> None:
    parts = frozen_parts()
    before = state()
    with pytest.raises(FrozenVersion, match="never changes"), transaction.atomic():
        CHANGES[way](*parts)
    assert state() == before


def test_it_lets_a_draft_change() -> None:
    draft = make_version(frozen=False)
    code = draft.codes.first()
    _renamed(code)
    draft.codes.update(definition="other")
    example = code.examples.create(quote="x")
    example.delete()
    code.delete()
    CodebookVersion.objects.drafts().filter(pk=draft.pk).update(note="changed")
    assert make_code(draft, "late").version == draft

"""Codebooks: is every frozen version what it was when it was frozen, and does it follow from the one before it?"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Exists, F, OuterRef

from benchapp.audit.check_finding import Flaw
from benchapp.models import CodebookVersion, CodeExample, CodeOrigin, Trajectory
from benchapp.review.codebooks.codebook_versions import digest_of


def check_codebooks() -> Iterator[Flaw]:
    for version in CodebookVersion.objects.select_related("codebook", "previous").order_by("pk").iterator(100):
        for message in _check_version(version):
            yield Flaw("codebook version", str(version.public_id), message)
    yield from _check_origins()
    yield from _check_examples()


def _check_version(version: CodebookVersion) -> Iterator[str]:
    parents = dict(version.codes.values_list("pk", "parent"))
    circling = sum(_is_circling(code, parents) for code in parents)
    if circling:
        yield f"{circling:,} of its codes lie below themselves or below a code of another version"
    elif version.is_frozen and (found := digest_of(version)) != version.digest:
        yield f"was frozen with digest {version.digest or 'none'}, its codes have {found}"
    before = version.previous
    if before is None:
        return
    if before.codebook_id != version.codebook_id or before.number >= version.number:
        yield f"follows {before}, which is no earlier version of its codebook"
    if not before.is_frozen:
        yield f"follows {before}, which was never frozen"


def _is_circling(code: int, parents: dict[int, int | None]) -> bool:
    """Whether the way up from the code never ends at the top of its version."""
    at: int | None = code
    for _ in parents:
        if at not in parents:
            return True
        if (at := parents[at]) is None:
            return False
    return True


def _check_origins() -> Iterator[Flaw]:
    strangers = CodeOrigin.objects.exclude(before__version=F("code__version__previous"))
    orphans = CodeOrigin.objects.filter(code__version__previous=None)
    for origin in (strangers | orphans).distinct().select_related("code", "before__version__codebook").order_by("pk"):
        came = f"{origin.before} of {origin.before.version}"
        yield Flaw("code", str(origin.code.public_id), f"is said to come from {came}, which is not the version before")


def _check_examples() -> Iterator[Flaw]:
    """Those in a step: some trajectory of their trial must have it, a superseded one included."""
    there = Trajectory.objects.filter(attempt__trial=OuterRef("trial"), steps_total__gte=OuterRef("step"))
    stepped = CodeExample.objects.exclude(step=None)
    for example in stepped.exclude(Exists(there)).order_by("pk").iterator():
        yield Flaw("code example", str(example.public_id), f"stands in step {example.step}, which its trial has not")

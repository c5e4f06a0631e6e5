"""Check the whole record and report what does not hold. Reads only; memory is bounded by one chunk or one episode."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.exceptions import ObjectDoesNotExist

from benchapp.audit.record_check import (
    Flaw,
    Unchecked,
    check_compactions,
    check_contents,
    check_drafts,
    check_episode,
    check_probes,
    check_protocol,
    check_trials,
)
from benchapp.audit.review_check import check_codebooks, check_reviews
from benchapp.models import Episode
from runner.base.suite import Suite

__all__ = ["Flaw", "Unchecked", "findings", "flaws"]


def findings() -> Iterator[Flaw | Unchecked]:
    """Yield everything wrong with the record, area by area, and what could not be checked."""
    yield from check_contents()
    yield from check_trials()
    yield from check_compactions()
    yield from check_codebooks()
    yield from check_reviews()
    yield from check_probes()
    yield from check_drafts()
    suites: dict[int, Suite | Exception] = {}
    for row in (
        Episode.objects.select_related("run__experiment", "run__forked_from", "environment")
        .order_by("id")
        .iterator(chunk_size=100)
    ):
        try:
            yield from check_episode(row)
            yield from check_protocol(row, suites)
        except ObjectDoesNotExist as error:  # named above, row by row
            yield Flaw("episode", str(row.public_id), f"cannot be followed: {error}")


def flaws() -> Iterator[Flaw]:
    return (found for found in findings() if isinstance(found, Flaw))

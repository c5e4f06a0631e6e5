"""Check the whole record and report what does not hold. Reads only; memory is bounded by one chunk or one episode."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import zstandard
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Count, Exists, F, OuterRef, Q, Sum

from benchapp import models
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
    flaw_each,
)
from benchapp.record.trajectory_store import read_whole_step
from benchapp.review.codebooks.codebook_versions import digest_of
from runner.base.suite import Suite
from runner.trajectories.fields import fields

__all__ = ["Flaw", "Unchecked", "findings", "flaws"]
NEAR = 1e-6  # relative: weights are sums of floats
State = models.Review.State


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
        models.Episode.objects.select_related("run__experiment", "run__forked_from", "environment")
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


def check_reviews() -> Iterator[Flaw]:
    yield from _check_queues()
    yield from _check_items()
    yield from _check_slots()
    yield from _check_reviews()
    yield from _check_marks()
    yield from _check_labels()
    yield from _check_beside()
    yield from _check_carried()


def _check_queues() -> Iterator[Flaw]:
    yield from flaw_each(
        models.Queue.objects.filter(version__frozen_at=None), "queue", "uses a version that was never frozen"
    )
    drawn = models.Queue.objects.annotate(
        weight=Sum(1.0 / F("items__inclusion"), filter=Q(items__is_control=False)), items_total=Count("items")
    )
    for queue in drawn.filter(items_total__gt=0).order_by("pk"):
        weight = queue.weight or 0.0
        if abs(weight - queue.population_total) > NEAR * max(queue.population_total, 1):
            message = f"its items stand for {weight:g} units, it was drawn from {queue.population_total:,}"
            yield Flaw("queue", str(queue.public_id), message)


def _check_items() -> Iterator[Flaw]:
    for unit in models.Queue.Unit.values:
        other = models.QueueItem.objects.filter(queue__unit=unit, **{unit: None})
        yield from flaw_each(other, "queue item", f"its queue reviews {unit}s, it points at none")
    stood = models.Decision.objects.filter(episode=OuterRef("episode"), after=OuterRef("snapshot"))
    seeded = models.Entry.objects.filter(episode=OuterRef("episode"), seeding__snapshot=OuterRef("snapshot"))
    held = Q(snapshot=F("episode__library")) | Q(Exists(stood)) | Q(Exists(seeded))
    lost = models.QueueItem.objects.exclude(snapshot=None).exclude(held)
    yield from flaw_each(lost, "queue item", "its episode never held that library")
    single = models.QueueItem.objects.filter(is_overlap=True, reviews_needed__lt=2)
    yield from flaw_each(single, "queue item", "is in the overlap, but needs one review alone")
    for ident, needed, places in (
        models.QueueItem.objects.annotate(places=Count("slots"))
        .exclude(places=F("reviews_needed"))
        .order_by("pk")
        .values_list("public_id", "reviews_needed", "places")
        .iterator()
    ):
        yield Flaw("queue item", str(ident), f"has {places} slots (expected {needed})")


def _check_slots() -> Iterator[Flaw]:
    filled = models.Slot.objects.exclude(review=None)
    ident = "item__public_id"
    elsewhere = filled.exclude(review__item=F("item"))
    yield from flaw_each(elsewhere, "queue item", "a slot of it is filled by a review of another item", ident)
    yield from flaw_each(filled.filter(review__state=State.DRAFT), "queue item", "a draft fills a slot of it", ident)
    others = filled.exclude(holder=F("review__reviewer"))
    yield from flaw_each(others, "queue item", "a slot of it is filled by somebody who does not hold it", ident)


def _check_reviews() -> Iterator[Flaw]:
    ended = models.Review.objects.exclude(state=State.DRAFT)
    yield from flaw_each(ended.filter(submitted_at=None), "review", "is final, but nobody knows since when")
    early = models.Review.objects.filter(state=State.DRAFT).exclude(submitted_at=None)
    yield from flaw_each(early, "review", "is a draft, but has a time of submission")
    silent = models.Review.objects.filter(state=State.SKIPPED, skip_reason="")
    yield from flaw_each(silent, "review", "is skipped without a reason")


def _check_marks() -> Iterator[Flaw]:
    placed = models.Mark.objects.exclude(trajectory=None)
    strange = placed.exclude(trajectory__attempt__trial=F("review__item__trial"))
    for mark in (strange | placed.filter(review__item__trial=None)).distinct().select_related("review").order_by("pk"):
        yield _flaw_mark(mark, "refers to a trajectory of another trial than its item's")
    beyond = placed.filter(Q(step=None) | Q(step=0) | Q(step__gt=F("trajectory__steps_total")))
    for mark in beyond.select_related("review", "trajectory").order_by("pk"):
        steps = mark.trajectory.steps_total if mark.trajectory else 0
        yield _flaw_mark(mark, f"refers to step {mark.step} of {steps:,}")
    halves = models.Mark.objects.filter(Q(start=None, end__isnull=False) | Q(start__isnull=False, end=None))
    for mark in (halves | models.Mark.objects.filter(start__gt=F("end"))).select_related("review").order_by("pk"):
        yield _flaw_mark(mark, f"has no range from {mark.start} to {mark.end}")
    ranged = placed.filter(step__gt=0, step__lte=F("trajectory__steps_total"), start__lte=F("end")).exclude(field="")
    for mark in ranged.select_related("review", "trajectory").order_by("trajectory", "step").iterator(chunk_size=100):
        yield from _check_range(mark)


def _check_range(mark: models.Mark) -> Iterator[Flaw]:
    """Skip an unreadable trajectory: the check of its chunks has reported it."""
    try:
        step = read_whole_step(mark.trajectory, mark.step)  # type: ignore[arg-type]
    except (zstandard.ZstdError, orjson.JSONDecodeError, KeyError):
        return
    text = dict(fields(step)).get(mark.field) if step else None
    if text is None:
        yield _flaw_mark(mark, f"refers to {mark.field} of step {mark.step}, which has none")
    elif (mark.end or 0) > len(text):
        yield _flaw_mark(mark, f"ends at character {mark.end:,} of {mark.field}, which has {len(text):,}")


def _flaw_mark(mark: models.Mark, message: str) -> Flaw:
    return Flaw("mark", str(mark.public_id), f"of review {mark.review.public_id} {message}")


def _check_labels() -> Iterator[Flaw]:
    """Check labels. A carried-over draft may hold codes of the earlier version until a person looks; no answer may."""
    ident = "mark__review__public_id"
    version = F("mark__review__item__queue__version")
    strange = models.Label.objects.exclude(code__version=version)
    final = strange.exclude(mark__review__state=State.DRAFT)
    yield from flaw_each(final, "review", "carries a code that its queue's version has not", ident)
    drafts = strange.filter(mark__review__state=State.DRAFT, carried_from=None)
    yield from flaw_each(drafts, "review", "drafts a code that its queue's version has not", ident)
    unseen = models.Label.objects.filter(needs_look=True).exclude(mark__review__state=State.DRAFT)
    yield from flaw_each(unseen, "review", "was submitted with a label that must be looked at", ident)


def _check_beside() -> Iterator[Flaw]:
    """Check resolutions, suggestions and questions to a judge."""
    used = models.Resolution.codes.through._default_manager.exclude(code__version=F("resolution__item__queue__version"))
    yield from flaw_each(used, "resolution", "uses a code that its queue's version has not", "resolution__public_id")
    coded = models.Suggestion.objects.exclude(code=None).exclude(code__version=F("item__queue__version"))
    yield from flaw_each(coded, "suggestion", "names a code that its queue's version has not")
    called = models.Suggestion.objects.exclude(call=None).exclude(call__item=F("item"))
    yield from flaw_each(called, "suggestion", "comes from a question about another item")
    yield from flaw_each(
        models.JudgeCall.objects.exclude(queue=F("item__queue")), "judge call", "its item is of another queue"
    )


def _check_carried() -> Iterator[Flaw]:
    """Check that every review and label of a carried queue matches one of the same person in the queue before."""
    queues = models.Queue.objects.exclude(carried_from=None)
    odd = queues.exclude(version__codebook=F("carried_from__version__codebook"))
    yield from flaw_each(odd, "queue", "was carried over from a queue of another codebook")
    carried = models.Review.objects.exclude(carried_from=None)
    strange = carried.exclude(carried_from__item__queue=F("item__queue__carried_from"))
    strange |= carried.exclude(carried_from__reviewer=F("reviewer"))
    yield from flaw_each(
        strange.distinct(), "review", "was carried over from another person's or another queue's review"
    )
    for unit in ("trial", "decision", "snapshot"):
        moved = carried.exclude(**{f"item__{unit}": None}).exclude(
            **{f"carried_from__item__{unit}": F(f"item__{unit}")}
        )
        yield from flaw_each(moved, "review", f"was carried over from a review of another {unit}")
    labels = models.Label.objects.exclude(carried_from=None).exclude(
        carried_from__mark__review=F("mark__review__carried_from")
    )
    yield from flaw_each(
        labels, "review", "has a label that was carried over from elsewhere", "mark__review__public_id"
    )
    yield from _check_uncarried()


def _check_uncarried() -> Iterator[Flaw]:
    """Check that every submitted review of a carried queue has its follower there."""
    for queue in models.Queue.objects.exclude(carried_from=None).order_by("pk"):
        old = models.Review.objects.filter(item__queue=queue.carried_from_id, state=State.SUBMITTED)
        followed = models.Review.objects.filter(item__queue=queue).exclude(carried_from=None).values("carried_from")
        late = old.exclude(pk__in=followed).count()
        if late:
            message = f"{late:,} submitted reviews of the queue before were not carried over to it"
            yield Flaw("queue", str(queue.public_id), message)


def check_codebooks() -> Iterator[Flaw]:
    for version in models.CodebookVersion.objects.select_related("codebook", "previous").order_by("pk").iterator(100):
        for message in _check_version(version):
            yield Flaw("codebook version", str(version.public_id), message)
    strangers = models.CodeOrigin.objects.exclude(before__version=F("code__version__previous"))
    orphans = models.CodeOrigin.objects.filter(code__version__previous=None)
    for origin in (strangers | orphans).distinct().select_related("code", "before__version__codebook").order_by("pk"):
        came = f"{origin.before} of {origin.before.version}"
        yield Flaw("code", str(origin.code.public_id), f"is said to come from {came}, which is not the version before")
    yield from _check_examples()


def _check_version(version: models.CodebookVersion) -> Iterator[str]:
    parents = dict(version.codes.values_list("pk", "parent"))
    circling = sum(_is_circling(code, parents) for code in parents)
    if circling:
        yield f"{circling:,} of its codes have themselves or a code of another version as parent"
    elif version.is_frozen and (found := digest_of(version)) != version.digest:
        yield f"was frozen with digest {version.digest or 'none'}, its codes have {found}"
    before = version.previous
    if before is None:
        return
    if before.codebook_id != version.codebook_id or before.number >= version.number:
        yield f"follows {before}, which is not an earlier version of its codebook"
    if not before.is_frozen:
        yield f"follows {before}, which was never frozen"


def _is_circling(code: int, parents: dict[int, int | None]) -> bool:
    """Return whether the parents of the code form a circle."""
    at: int | None = code
    for _ in parents:
        if at not in parents:
            return True
        if (at := parents[at]) is None:
            return False
    return True


def _check_examples() -> Iterator[Flaw]:
    """Check examples in a step: some trajectory of their trial must have it, a superseded one included."""
    there = models.Trajectory.objects.filter(attempt__trial=OuterRef("trial"), steps_total__gte=OuterRef("step"))
    stepped = models.CodeExample.objects.exclude(step=None)
    for example in stepped.exclude(Exists(there)).order_by("pk").iterator():
        yield Flaw(
            "code example", str(example.public_id), f"refers to step {example.step}, which its trial does not have"
        )

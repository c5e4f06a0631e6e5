"""The status of an item, read off its rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.models import Resolution, Review, Slot, User
from benchapp.review.queues.claims import claim
from benchapp.review.queues.review_progress import Answer, ItemStatus, item_status, statuses_of
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue, make_review

A, B, NONE = frozenset({1}), frozenset({2}), frozenset[int]()


@pytest.mark.parametrize(
    ("needed", "held", "filled", "answers", "status"),
    [
        (2, 0, 0, [], "waiting"),
        (2, 1, 0, [], "in progress"),
        (2, 0, 0, [("draft", NONE)], "in progress"),
        (2, 0, 1, [("submitted", A)], "in progress"),
        (3, 0, 2, [("submitted", A), ("submitted", A)], "in progress"),
        (3, 0, 2, [("submitted", A), ("submitted", B)], "awaiting resolution"),
        (1, 0, 1, [("submitted", A)], "reviewed"),
        (2, 0, 2, [("submitted", A), ("submitted", A)], "reviewed"),
        (2, 0, 2, [("submitted", A), ("submitted", B)], "awaiting resolution"),
        (2, 0, 2, [("submitted", A), ("submitted", NONE)], "awaiting resolution"),
        (1, 0, 1, [("submitted", A), ("submitted", B)], "awaiting resolution"),
        (2, 0, 2, [("submitted", A), ("skipped", NONE)], "reviewed"),
        (2, 0, 2, [("skipped", NONE), ("skipped", NONE)], "skipped"),
        (1, 0, 1, [("submitted", A), ("draft", B)], "reviewed"),
    ],
)
def test_it_follows_from_the_rows(needed: int, held: int, filled: int, answers: list[Answer], status: str) -> None:
    assert item_status(needed, held, filled, answers) == status
    assert item_status(needed, held, filled, answers, is_resolved=True) == "resolved"


@pytest.mark.django_db
def test_it_reads_rows_as_they_are() -> None:
    ann, ben = (make_user(level=User.Level.REVIEWER) for _ in range(2))
    queue = make_queue([make_trial(success=False) for _ in range(6)], reviewers=[ann, ben])
    waiting, held, differing, equal, resolved, skipped = queue.items.all()
    Slot.objects.filter(item=held, place=0).update(holder=ann, held_until=timezone.now() + timedelta(minutes=1))
    for item, theirs in ((differing, "misapplied"), (equal, "silent bypass"), (resolved, "misapplied")):
        make_review(item, ann, ["silent bypass"])
        make_review(item, ben, [theirs])
    Resolution.objects.create(item=resolved, adjudicator=ann, category="slip")
    for person in (ann, ben):
        make_review(skipped, person, state=Review.State.SKIPPED)
    found = statuses_of(queue)
    assert {item.ordinal: str(found[item.pk]) for item in queue.items.all()} == {
        0: "waiting",
        1: "in progress",
        2: "awaiting resolution",
        3: "reviewed",
        4: "resolved",
        5: "skipped",
    }


@pytest.mark.django_db
def test_a_hold_whose_time_ran_out_is_waiting_again() -> None:
    ann = make_user(level=User.Level.REVIEWER)
    queue = make_queue(reviewers=[ann], reservation_seconds=0)
    item = claim(queue, ann)
    assert statuses_of(queue)[item.pk] == ItemStatus.WAITING


@pytest.mark.django_db
def test_a_superseded_resolution_does_not_resolve() -> None:
    ann = make_user(level=User.Level.REVIEWER)
    queue = make_queue([make_trial(success=False)], reviews_per_item=1)
    item = queue.items.get()
    make_review(item, ann, ["misapplied"])
    Resolution.objects.create(item=item, adjudicator=ann, category="slip", superseded_at=timezone.now())
    assert statuses_of(queue)[item.pk] == ItemStatus.REVIEWED


@pytest.mark.django_db
def test_its_queries_do_not_grow_with_the_queue() -> None:
    counts = []
    ann = make_user(level=User.Level.REVIEWER)
    queue = make_queue([make_trial(success=False)], reviews_per_item=1)
    for total in (1, 8):
        for _ in range(total):
            make_review(make_item(queue, trial=make_trial(success=False)), ann, ["misapplied"])
        with CaptureQueriesContext(connection) as captured:
            statuses_of(queue)
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 5

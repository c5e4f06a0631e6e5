"""The status of an item, read off its rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.models import Resolution, Review, Slot, User
from benchapp.review.queues.claims import claim
from benchapp.review.queues.review_progress import ItemAnswer, ItemStanding, ItemStatus, item_status, statuses_of
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue, make_review

A, B = frozenset({1}), frozenset({2})


@pytest.mark.parametrize(
    ("standing", "status"),
    [
        (ItemStanding(needed=2), "waiting"),
        (ItemStanding(needed=2, held=1), "in progress"),
        (ItemStanding(needed=2, answers=(ItemAnswer("draft"),)), "in progress"),
        (ItemStanding(needed=2, filled=1, answers=(ItemAnswer("submitted", A),)), "in progress"),
        (
            ItemStanding(needed=3, filled=2, answers=(ItemAnswer("submitted", A), ItemAnswer("submitted", A))),
            "in progress",
        ),
        (
            ItemStanding(needed=3, filled=2, answers=(ItemAnswer("submitted", A), ItemAnswer("submitted", B))),
            "awaiting resolution",
        ),
        (ItemStanding(needed=1, filled=1, answers=(ItemAnswer("submitted", A),)), "reviewed"),
        (
            ItemStanding(needed=2, filled=2, answers=(ItemAnswer("submitted", A), ItemAnswer("submitted", A))),
            "reviewed",
        ),
        (
            ItemStanding(needed=2, filled=2, answers=(ItemAnswer("submitted", A), ItemAnswer("submitted", B))),
            "awaiting resolution",
        ),
        (
            ItemStanding(needed=2, filled=2, answers=(ItemAnswer("submitted", A), ItemAnswer("submitted"))),
            "awaiting resolution",
        ),
        (
            ItemStanding(needed=1, filled=1, answers=(ItemAnswer("submitted", A), ItemAnswer("submitted", B))),
            "awaiting resolution",
        ),
        (ItemStanding(needed=2, filled=2, answers=(ItemAnswer("submitted", A), ItemAnswer("skipped"))), "reviewed"),
        (ItemStanding(needed=2, filled=2, answers=(ItemAnswer("skipped"), ItemAnswer("skipped"))), "skipped"),
        (ItemStanding(needed=1, filled=1, answers=(ItemAnswer("submitted", A), ItemAnswer("draft", B))), "reviewed"),
        (ItemStanding(needed=2, filled=1, answers=(ItemAnswer("submitted", A),), is_resolved=True), "resolved"),
    ],
)
def test_it_follows_from_the_rows(standing: ItemStanding, status: str) -> None:
    assert item_status(standing) == status


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
    assert statuses_of(queue, [equal.pk, waiting.pk]) == {
        waiting.pk: ItemStatus.WAITING,
        equal.pk: ItemStatus.REVIEWED,
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

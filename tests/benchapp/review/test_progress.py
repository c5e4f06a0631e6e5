"""What queues tell of their progress on the overview."""

from __future__ import annotations

from itertools import product

import pytest

from benchapp.models import Resolution
from benchapp.review.queues.queue_making import seconds_per_item
from benchapp.review.queues.review_progress import ItemStatus, awaiting, people_of, statuses_of
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review

pytestmark = pytest.mark.django_db
ANSWERS = ((), ("over-specific",), ("misapplied",), ("over-specific", "misapplied"))


def test_it_counts_the_items_whose_status_says_so() -> None:
    """Against the pure status of each item: every pair of answers, one skipped, one missing, one resolved."""
    one, other = make_user(), make_user()
    pairs = [*product(ANSWERS, ANSWERS)]
    queue = make_queue([make_trial(success=False) for _ in range(len(pairs) + 3)])
    items = list(queue.items.all())
    for item, (first, second) in zip(items, pairs, strict=False):
        make_review(item, one, first)
        make_review(item, other, second)
    skipped, half, resolved = items[len(pairs) :]
    make_review(skipped, one, ("misapplied",))
    make_review(skipped, other, state="skipped")
    make_review(half, one, ("misapplied",))
    make_review(resolved, one, ("misapplied",))
    make_review(resolved, other, ("over-specific",))
    Resolution.objects.create(item=resolved, adjudicator=make_user(), category="slip")
    statuses = list(statuses_of(queue).values())
    assert statuses.count(ItemStatus.AWAITING) == 12
    assert awaiting([queue]) == {queue.pk: 12}


def test_it_asks_once_for_many_queues(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    people = make_user(), make_user()
    queues = [make_queue() for _ in range(3)]
    for queue in queues[:2]:
        for person, codes in zip(people, (("misapplied",), ()), strict=True):
            make_review(queue.items.first(), person, codes)
    with django_assert_num_queries(1):
        assert awaiting(queues) == {queues[0].pk: 1, queues[1].pk: 1}


def test_what_was_carried_over_took_its_time_elsewhere() -> None:
    old, new = make_queue([make_trial(success=False)]), make_queue()
    person = make_user()
    told = make_review(old.items.get(), person, seconds=600)
    first, second = new.items.all()
    make_review(first, person, seconds=600, carried_from=told)
    make_review(second, person, seconds=20)
    (one,) = people_of(new)
    assert (one.done, one.seconds) == (2, 20)
    assert seconds_per_item("trial") == 310  # of 600 and 20

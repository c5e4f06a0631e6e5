"""Holding, giving back and filling slots; races of many processes have their own module."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db.models import Q
from django.utils import timezone

from benchapp.audit import _check_items
from benchapp.models import Activity, Queue, QueueItem, Review, Slot, User
from benchapp.review.queues.claims import claim, fill, free_slots, give_back, hold, renew
from benchapp.review.queues.queue_making import QueueRefused, close, increase_reviews
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review

pytestmark = pytest.mark.django_db


def reviewer() -> User:
    return make_user(level=User.Level.REVIEWER)


def run_out(item: QueueItem) -> None:
    Slot.objects.filter(item=item, review=None).exclude(holder=None).update(
        held_until=timezone.now() - timedelta(seconds=1)
    )


def queue_of(total: int, *people: User, needed: int = 1) -> Queue:
    trials = [make_trial(success=False) for _ in range(total)]
    return make_queue(trials, reviewers=people, reviews_per_item=needed)


def finish(item: QueueItem, user: User) -> Review:
    review = Review.objects.create(item=item, reviewer=user, state=Review.State.SUBMITTED)
    fill(item, user, review)
    return review


def test_it_hands_out_items_in_the_queues_order() -> None:
    ann = reviewer()
    queue = queue_of(3, ann)
    places = []
    while item := claim(queue, ann):
        places.append(item.ordinal)
        finish(item, ann)
    assert places == [0, 1, 2]


def test_it_gives_the_same_item_until_it_is_finished() -> None:
    ann = reviewer()
    queue = queue_of(2, ann)
    assert claim(queue, ann) == claim(queue, ann)
    assert Slot.objects.filter(holder=ann).count() == 1


def test_two_people_never_hold_one_slot() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(2, ann, ben)
    first, second = claim(queue, ann), claim(queue, ben)
    assert first != second
    assert claim(queue, ann) == first


def test_an_item_of_the_overlap_goes_to_two_different_people() -> None:
    ann, ben, eve = reviewer(), reviewer(), reviewer()
    queue = queue_of(1, ann, ben, eve, needed=2)
    assert claim(queue, ann) == claim(queue, ben) == queue.items.get()
    assert claim(queue, eve) is None


def test_nobody_gets_an_item_they_reviewed_already() -> None:
    ann = reviewer()
    queue = queue_of(1, ann, needed=2)
    make_review(queue.items.get(), ann)
    assert claim(queue, ann) is None


def test_besides_claims_one_more_to_preload_and_only_one() -> None:
    ann = reviewer()
    queue = queue_of(4, ann)
    first = claim(queue, ann)
    second = claim(queue, ann, besides=1)
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert claim(queue, ann, besides=1) == second
    assert claim(queue, ann) == first
    finish(first, ann)
    assert claim(queue, ann) == second


def test_a_draft_comes_before_what_is_only_held() -> None:
    ann = reviewer()
    queue = queue_of(3, ann)
    claim(queue, ann)
    begun = claim(queue, ann, besides=1)
    make_review(begun, ann, state=Review.State.DRAFT)
    assert claim(queue, ann) == begun


def test_a_slot_whose_time_ran_out_is_claimed_again_and_the_draft_stays() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(1, ann, ben)
    item = claim(queue, ann)
    make_review(item, ann, state=Review.State.DRAFT, memo="half a sentence")
    assert claim(queue, ben) is None
    run_out(item)
    assert claim(queue, ben) == item
    assert claim(queue, ann) is None
    assert not renew(item, ann)
    assert Review.objects.get(item=item, reviewer=ann).memo == "half a sentence"


def test_whoever_comes_back_late_keeps_the_item_while_nobody_took_it() -> None:
    ann = reviewer()
    queue = queue_of(2, ann)
    item = claim(queue, ann)
    run_out(item)
    assert claim(queue, ann) == item
    assert item.slots.get().held_until > timezone.now()


def test_a_late_review_is_kept_beside_the_others() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(1, ann, ben)
    item = claim(queue, ann)
    run_out(item)
    claim(queue, ben)
    late, timely = finish(item, ann), finish(item, ben)
    assert item.slots.get().review == timely
    assert set(item.reviews.all()) == {late, timely}


def test_a_late_review_takes_another_open_slot() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(1, ann, ben, needed=2)
    item = claim(queue, ann)
    run_out(item)
    claim(queue, ben)
    late = finish(item, ann)
    assert item.slots.get(review=late).holder == ann
    assert item.slots.get(review=None).holder == ben


def test_filling_twice_takes_one_slot() -> None:
    ann = reviewer()
    queue = queue_of(1, ann, needed=2)
    item = claim(queue, ann)
    review = finish(item, ann)
    fill(item, ann, review)
    assert item.slots.filter(review=None, holder=None).count() == 1


def test_a_filled_slot_is_never_taken_again() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(1, ann, ben)
    item = claim(queue, ann)
    finish(item, ann)
    run_out(item)
    assert claim(queue, ben) is None
    assert not give_back(item, ann)
    assert not hold(item, ben)


def test_what_was_given_back_goes_to_others_and_comes_last_to_the_same_person() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(2, ann, ben)
    item = claim(queue, ann)
    make_review(item, ann, state=Review.State.DRAFT)
    assert give_back(item, ann)
    assert claim(queue, ann).ordinal == 1
    assert claim(queue, ann, besides=1) == item  # nobody else wanted it
    give_back(item, ann)
    assert claim(queue, ben) == item


def test_only_those_assigned_to_an_open_queue_get_anything() -> None:
    ann, outsider, viewer = reviewer(), reviewer(), make_user(level=User.Level.VIEWER)
    queue = queue_of(1, ann, viewer)
    assert claim(queue, outsider) is None
    assert claim(queue, viewer) is None
    assert not hold(queue.items.get(), outsider)
    queue.closed_at = timezone.now()
    queue.save()
    assert claim(queue, ann) is None
    assert not Slot.objects.exclude(holder=None).exists()


def test_it_holds_a_named_item() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(2, ann, ben)
    last = queue.items.last()
    assert hold(last, ann)
    assert hold(last, ann)
    assert not hold(last, ben)
    assert last.slots.get().holder == ann


def test_who_leaves_gives_back_what_they_hold_and_keeps_what_they_did() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(2, ann, ben)
    done = claim(queue, ann)
    finish(done, ann)
    held = claim(queue, ann)
    assert free_slots(queue, ann) == 1
    assert claim(queue, ben) == held
    assert done.slots.get().holder == ann


def test_a_lost_race_goes_on_to_the_next_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody takes the first slot after it was seen free and before it is taken."""
    from benchapp.review.queues import claims

    ann, ben = reviewer(), reviewer()
    queue = queue_of(2, ann, ben)
    look = claims._candidates

    def look_and_be_late(queue: Queue, user: User) -> list[Slot]:
        found = look(queue, user)
        Slot.objects.filter(pk=found[0].pk, holder=None).update(
            holder=ben, held_until=timezone.now() + timedelta(minutes=5)
        )
        return found

    monkeypatch.setattr(claims, "_candidates", look_and_be_late)
    assert claim(queue, ann).ordinal == 1


def test_the_same_person_in_two_tabs_never_holds_one_item_twice() -> None:
    from benchapp.review.queues.claims import _take

    ann = reviewer()
    queue = queue_of(1, ann, needed=2)
    first, second = queue.items.get().slots.all()
    assert _take(first, ann)
    assert not _take(second, ann)


def test_a_late_review_fills_the_slot_that_another_tab_took_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tab's save holds the item again after the first one saw that it holds nothing,
    and before it takes a slot."""
    from benchapp.review.queues import claims

    ann = reviewer()
    queue = queue_of(1, ann, needed=2)
    item = queue.items.get()
    review = make_review(item, ann, state=Review.State.DRAFT)
    free, other_tab = claims.free, iter([True])

    def free_and_late(now: datetime) -> Q:
        if next(other_tab, False):
            Slot.objects.filter(item=item, place=0).update(holder=ann, held_until=now + timedelta(minutes=5))
        return free(now)

    monkeypatch.setattr(claims, "free", free_and_late)
    fill(item, ann, review)
    assert [slot.review for slot in item.slots.order_by("place")] == [review, None]


def test_a_slot_that_a_tab_took_while_another_one_submitted_late_gets_that_review() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(1, ann, ben, needed=2)
    item = claim(queue, ann)
    away = timezone.now() + timedelta(hours=1)
    first, second = item.slots.order_by("place")
    for slot, other in ((first, ben), (second, reviewer())):  # all slots are somebody's as Ann submits in her first tab
        Slot.objects.filter(pk=slot.pk).update(holder=other, held_until=away)
    late = finish(item, ann)
    assert not item.slots.filter(review=late).exists()
    Slot.objects.filter(pk=second.pk).update(holder=ann)  # which her second tab took before it saw that
    assert claim(queue, ann) is None
    assert item.slots.get(review=late) == second


# --- asking for more reviews ------------------------------------------------------------------------------------------


def test_more_reviews_are_asked_for_and_none_is_lost() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(2, ann, ben)
    queue.items.update(is_overlap=False)
    first = finish(claim(queue, ann), ann)
    finish(claim(queue, ben), ben)
    assert claim(queue, ben) is None
    increase_reviews(queue, 2, user=ann)
    item = queue.items.first()
    assert (queue.reviews_per_item, item.reviews_needed, item.is_overlap) == (2, 2, True)
    assert [slot.review for slot in item.slots.all()] == [first, None]
    assert claim(queue, ben) == item
    act = Activity.objects.get(verb="queue.raised")
    assert act.detail == {"reviews_per_item": 2, "before": 1}
    assert not list(_check_items())


def test_more_reviews_are_asked_of_the_shared_items_alone() -> None:
    queue = queue_of(2, reviewer(), reviewer(), reviewer(), needed=2)
    queue.items.filter(ordinal=1).update(is_overlap=False, reviews_needed=1)
    Slot.objects.filter(item__ordinal=1, place=1).delete()
    increase_reviews(queue, 3, user=reviewer())
    assert [item.slots.count() for item in queue.items.all()] == [3, 1]


def test_a_review_that_came_late_fills_a_new_slot() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(1, ann, ben)
    item = queue.items.get()
    for person in (ann, ben):
        finish(item, person)
    assert item.slots.count() == 1
    increase_reviews(queue, 2, user=ann)
    assert {slot.review.reviewer for slot in item.slots.all()} == {ann, ben}


def test_reviews_are_never_lowered_nor_more_than_the_people_nor_of_a_closed_queue() -> None:
    ann, ben = reviewer(), reviewer()
    queue = queue_of(1, ann, ben, needed=2)
    for total, why in ((1, "can only go up"), (2, "can only go up"), (3, "this queue has 2")):
        with pytest.raises(QueueRefused, match=why):
            increase_reviews(queue, total, user=ann)
    queue.reviewers.add(*(reviewer() for _ in range(10)))
    with pytest.raises(QueueRefused, match="At most 9 reviews of one item, not 10"):
        increase_reviews(queue, 10, user=ann)
    close(queue, user=ann)
    with pytest.raises(QueueRefused, match="while the queue is open"):
        increase_reviews(queue, 3, user=ann)
    assert Slot.objects.count() == 2

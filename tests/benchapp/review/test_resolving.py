"""The adjudicator's answer: who may give it, what it must say, and what it leaves alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.forms.models import model_to_dict

from benchapp.models import Activity, Mark, QueueItem, Resolution, Review, User
from benchapp.review.coding.disagreements import (
    About,
    AdjudicatorVerdict,
    DisputeStatus,
    Superseded,
    Unresolvable,
    Wanted,
    after,
    compared_items,
    explain_barred,
    resolve,
)
from benchapp.review.coding.queue_agreement import Occasion, take_report
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def item() -> QueueItem:
    """Two people differ about it, and the disagreements were opened."""
    people = [make_user(level="reviewer") for _ in range(2)]
    queue = make_queue([make_trial(success=False)], reviewers=people)
    found = queue.items.get()
    make_review(found, people[0], ["misapplied", "silent bypass"])
    make_review(found, people[1], ["misapplied"])
    take_report(queue, Occasion.DISCUSSION, people[0])
    return found


@pytest.fixture
def judge() -> User:
    return make_user(level="reviewer")


def verdict(item: QueueItem, *codes: str, category: str = "slip", **fields: Any) -> AdjudicatorVerdict:
    known = dict(item.queue.version.codes.values_list("name", "public_id"))
    said = {"nothing_wrong": not codes, **fields}
    return AdjudicatorVerdict(frozenset(known[code] for code in codes), category, **said)


def test_it_stands_beside_the_reviews_and_changes_none(item: QueueItem, judge: User) -> None:
    before = [model_to_dict(row) for row in (*Review.objects.all(), *Mark.objects.all())]
    made = resolve(item, judge, verdict(item, "misapplied", attribution="skill", memo="Read it twice."), seen=None)
    assert [code.name for code in made.codes.all()] == ["misapplied"]
    assert (made.category, made.attribution, made.memo) == ("slip", "skill", "Read it twice.")
    assert [model_to_dict(row) for row in (*Review.objects.all(), *Mark.objects.all())] == before
    act = Activity.objects.get(verb="item.resolved")
    assert (act.actor, act.target_id, act.detail["codes"]) == (judge, item.public_id, ["misapplied"])


def test_a_later_one_supersedes_and_both_stay(item: QueueItem, judge: User) -> None:
    first = resolve(item, judge, verdict(item, "misapplied"), seen=None)
    second = resolve(item, judge, verdict(item), seen=first.public_id)
    first.refresh_from_db()
    assert first.superseded_at is not None
    assert second.superseded_at is None
    assert second.codes.count() == 0
    assert item.resolutions.count() == 2


@pytest.mark.parametrize("seen", [None, uuid4()])
def test_who_saw_another_state_overwrites_nothing(item: QueueItem, judge: User, seen: UUID | None) -> None:
    resolution = resolve(item, judge, verdict(item, "misapplied"), seen=None)
    with pytest.raises(Superseded) as caught:
        resolve(item, make_user(level="admin"), verdict(item), seen=seen)
    assert caught.value.resolution == resolution
    assert Resolution.objects.get() == resolution


def test_nobody_judges_their_own_review_but_an_admin(item: QueueItem, judge: User) -> None:
    reviewer = item.reviews.first().reviewer
    assert explain_barred(item, judge) == ""
    assert "You reviewed this item" in explain_barred(item, reviewer)
    with pytest.raises(PermissionDenied, match="You reviewed this item"):
        resolve(item, reviewer, verdict(item), seen=None)
    reviewer.level = User.Level.ADMIN
    assert explain_barred(item, reviewer) == ""
    assert "Only reviewers settle disagreements" in explain_barred(item, make_user(level="viewer"))


def test_who_still_has_items_to_review_blind_may_not(item: QueueItem, judge: User) -> None:
    make_item(item.queue, trial=make_trial(success=False))
    item.queue.reviewers.add(judge)
    assert "still have 1 item" in explain_barred(item, judge)
    judge.level = User.Level.ADMIN
    assert "still have 1 item" in explain_barred(item, judge)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"category": ""}, "Choose why they differ"),
        ({"category": "agreed"}, "disagreed here"),
        ({"attribution": "moon"}, "Unknown attribution"),
        ({"memo": "x" * 20_001}, "longer than 20,000"),
        ({"nothing_wrong": False}, "Press 0, or tick “Nothing wrong”"),
    ],
)
def test_it_refuses_an_answer_that_cannot_stand(
    item: QueueItem, judge: User, fields: dict[str, str], problem: str
) -> None:
    with pytest.raises(Unresolvable, match=problem):
        resolve(item, judge, verdict(item, **fields), seen=None)
    assert not Resolution.objects.exists()


def test_nothing_wrong_excludes_codes(item: QueueItem, judge: User) -> None:
    with pytest.raises(Unresolvable, match="nothing is wrong, and set codes"):
        resolve(item, judge, verdict(item, "misapplied", nothing_wrong=True), seen=None)


def test_it_refuses_codes_of_another_version(item: QueueItem, judge: User) -> None:
    other = make_version().codes.first()
    with pytest.raises(Unresolvable, match="not of this queue"):
        resolve(item, judge, AdjudicatorVerdict(frozenset({other.public_id}), "slip"), seen=None)


def test_it_refuses_where_fewer_than_two_answered_or_nobody_opened_them(judge: User) -> None:
    queue = make_queue([make_trial(success=False)])
    lone = queue.items.get()
    make_review(lone, make_user(), ["misapplied"])
    with pytest.raises(Unresolvable) as caught:
        resolve(lone, judge, verdict(lone), seen=None)
    assert ["disagreements first" in text or "Fewer than two" in text for text in caught.value.problems] == [True, True]


def test_what_they_agreed_on_can_be_confirmed(judge: User) -> None:
    queue = make_queue([make_trial(success=False)])
    item = queue.items.get()
    for _ in range(2):
        make_review(item, make_user(), ["misapplied"])
    take_report(queue, Occasion.DISCUSSION, judge)
    assert resolve(item, judge, verdict(item, "misapplied", category="agreed"), seen=None).category == "agreed"


# --- where they differ ------------------------------------------------------------------------------------------------


def listed(queue: Any, wanted: Wanted) -> list[int]:
    return [each.item.ordinal for each in compared_items(queue) if wanted.takes(each)]


def test_items_are_found_by_what_they_differ_in() -> None:
    people = [make_user(), make_user()]
    queue = make_queue([make_trial(success=False) for _ in range(4)])
    first, second, third, fourth = queue.items.all()
    for place, person in enumerate(people):
        make_review(first, person, [["misapplied"], ["silent bypass"]][place])
        make_review(second, person, ["misapplied"], mark={"attribution": ["agent", "skill"][place]})
        make_review(third, person, ["misapplied"], mark={"step": place, "is_first_failure": True})
        make_review(fourth, person, [["misapplied", "over-specific"], ["misapplied"]][place])
    code = dict(queue.version.codes.values_list("name", "pk"))
    assert listed(queue, Wanted()) == [0, 3]
    assert listed(queue, Wanted(About.ATTRIBUTION)) == [1]
    assert listed(queue, Wanted(About.STEP)) == [2]
    assert listed(queue, Wanted(None)) == [0, 1, 2, 3]
    assert listed(queue, Wanted(cell=(code["silent bypass"], code["misapplied"]))) == [0]
    assert listed(queue, Wanted(cell=(None, code["over-specific"]))) == [3]
    assert listed(queue, Wanted(cell=(code["misapplied"], code["misapplied"]))) == [1, 2, 3]


def test_the_next_one_is_the_next_that_is_open(judge: User) -> None:
    queue = make_queue([make_trial(success=False) for _ in range(3)])
    for item in queue.items.all():
        for code in ("misapplied", "silent bypass"):
            make_review(item, make_user(), [code])
    take_report(queue, Occasion.DISCUSSION, judge)
    middle = queue.items.all()[1]
    resolve(middle, judge, verdict(middle), seen=None)
    rows = compared_items(queue)
    assert listed(queue, Wanted(status=DisputeStatus.RESOLVED)) == [1]
    assert after(rows, 0).item.ordinal == 2
    assert after(rows, 2).item.ordinal == 0
    assert after(rows[1:2], 0) is None

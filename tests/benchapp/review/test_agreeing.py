"""Which answers count for agreement, and when it is kept."""

from __future__ import annotations

import pytest
from django.utils import timezone

from benchapp.models import Activity, AgreementReport, Attribution, Mark, Queue, Review, Trial
from benchapp.review.coding.queue_agreement import (
    Agreement,
    Occasion,
    note_submitted,
    report_to_publish,
    still_to_review,
    take_report,
    was_discussed,
)
from benchapp.stats.agreement import alpha, masi_distance
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_code, make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

SAID = [
    ("over-specific", "over-specific"),
    ("misapplied", "silent bypass"),
    ("misapplied", "misapplied"),
    ("", "misapplied"),
]


def reviewed(said: list[tuple[str, str]] = SAID, **fields: object) -> tuple[Queue, list[object]]:
    """A queue in which ann and bob said that, item by item; "" is a review without codes."""
    people = [make_user(level="reviewer") for _ in range(2)]
    queue = make_queue([make_trial(success=False) for _ in said], reviewers=people, **fields)
    for item, answers in zip(queue.items.all(), said, strict=True):
        for person, codes in zip(people, answers, strict=True):
            make_review(item, person, [codes] if codes else [])
    return queue, people


def test_it_compares_the_code_sets_of_submitted_reviews() -> None:
    queue, _ = reviewed()
    found = Agreement(queue)
    units = [{1: frozenset({a} - {""}), 2: frozenset({b} - {""})} for a, b in SAID]
    assert found.codes.estimate.value == pytest.approx(alpha(units, masi_distance))
    assert (found.codes.equal.k, found.codes.equal.n) == (2, 4)
    assert (found.items, found.complete, found.double, found.reviewers) == (4, 4, 4, 2)


def test_a_set_is_made_of_all_marks_of_a_review() -> None:
    queue, (ann, bob) = reviewed([("misapplied", "misapplied")])
    item = make_item(queue, trial=make_trial(success=False))
    both = make_review(item, ann, ["misapplied"], state="draft")
    mark = Mark.objects.create(review=both, step=7)
    mark.labels.create(code=queue.version.codes.get(name="silent bypass"))
    Review.objects.filter(pk=both.pk).update(state="submitted")
    make_review(item, bob, ["silent bypass", "misapplied"])
    assert Agreement(queue).codes.equal.k == 2


def test_drafts_and_skipped_reviews_are_missing_not_empty() -> None:
    queue, (ann, bob) = reviewed()
    for state in ("draft", "skipped"):
        item = make_item(queue, trial=make_trial(success=False))
        make_review(item, ann, ["misapplied"])
        make_review(item, bob, [], state=state)
    found = Agreement(queue)
    assert (found.items, found.complete, found.double, found.skipped) == (6, 5, 4, 1)


def test_items_outside_the_overlap_do_not_count() -> None:
    queue, (ann, bob) = reviewed()
    item = make_item(queue, trial=make_trial(success=False), is_overlap=False, reviews_needed=1)
    for person in (ann, bob):
        make_review(item, person, ["misapplied"])
    assert Agreement(queue).double == 4


def test_carried_reviews_are_told_apart() -> None:
    queue, people = reviewed()
    carried = make_queue([make_trial(success=False)], version=queue.version, reviewers=people)
    for old, person in zip(queue.items.first().reviews.all(), people, strict=True):
        make_review(carried.items.get(), person, ["misapplied"], carried_from=old)
    new = make_item(carried, trial=make_trial(success=False))
    for person, code in zip(people, ["misapplied", "silent bypass"], strict=True):
        make_review(new, person, [code])
    found = Agreement(carried)
    assert found.double == 1
    assert found.carried is not None
    assert found.carried.answers == 2
    assert found.carried.codes.estimate.units == 2


def test_labels_of_another_version_never_count() -> None:
    queue, (ann, bob) = reviewed([("misapplied", "misapplied")])
    other = make_version()
    item = make_item(queue, trial=make_trial(success=False))
    for person in (ann, bob):
        make_review(item, person, [other.codes.get(name="misapplied")])
    assert Agreement(queue).by_code[2][1].used.k == 2


def test_a_task_is_drawn_with_all_its_items() -> None:
    first = make_trial(success=False)
    second = make_trial(success=False, task=first.task)
    ann, bob = make_user(), make_user()
    queue = make_queue([first, second, make_trial(success=False)])
    for item, code in zip(queue.items.all(), ["misapplied", "misapplied", "silent bypass"], strict=True):
        for person in (ann, bob):
            make_review(item, person, [code])
    found = Agreement(queue)
    assert (found.codes.estimate.units, found.codes.estimate.clusters) == (3, 2)


def test_attribution_is_that_of_the_first_failure_and_missing_where_marks_differ() -> None:
    queue, people = reviewed([])
    told = [
        [{"attribution": Attribution.SKILL, "is_first_failure": True}],
        [{"attribution": Attribution.AGENT}, {"attribution": Attribution.HARNESS}],
    ]
    item = make_item(queue, trial=make_trial(success=False))
    for person, marks in zip(people, told, strict=True):
        review = make_review(item, person, [], state="draft")
        for fields in marks:
            Mark.objects.create(review=review, **fields)
        Review.objects.filter(pk=review.pk).update(state="submitted")
    other = make_item(queue, trial=make_trial(success=False))
    for person in people:
        make_review(other, person, ["misapplied"], mark={"attribution": Attribution.TASK})
    found = Agreement(queue)
    assert found.attribution.estimate.units == 1
    assert (found.attribution.equal.k, found.attribution.equal.n) == (1, 1)


def test_first_failures_are_compared_by_step() -> None:
    queue, people = reviewed([])
    for steps in ((4, 4), (4, 5), (4, 9), (4, None)):
        item = make_item(queue, trial=make_trial(success=False))
        for person, step in zip(people, steps, strict=True):
            make_review(item, person, ["misapplied"], mark={"step": step or 1, "is_first_failure": step is not None})
    found = Agreement(queue).first_failure
    assert (found.same.k, found.near.k, found.same.n) == (1, 2, 3)
    assert (found.one_only.k, found.one_only.n) == (1, 4)


def test_codes_are_folded_into_their_top_ones() -> None:
    version = make_version(["reading", "writing"])
    below = [make_code(version, name, parent=version.codes.get(name="reading")) for name in ("late", "never")]
    people = [make_user(), make_user()]
    queue = make_queue([make_trial(success=False) for _ in range(2)], version=version)
    first, second = queue.items.all()
    for person, code in zip(people, below, strict=True):
        make_review(first, person, [code])
        make_review(second, person, ["writing"])
    found = Agreement(queue)
    assert found.codes.equal.k == 1
    assert found.top is not None
    assert found.top.equal.k == 2
    assert found.top.estimate.value == pytest.approx(1.0)
    by_name = {code.name: each for code, each in found.by_code}
    assert (by_name["reading"].both.k, by_name["late"].both.k, by_name["late"].used.k) == (1, 0, 1)


def test_its_queries_do_not_grow_with_the_items(django_assert_num_queries: object) -> None:
    queue, _ = reviewed(SAID * 3)
    fresh = Queue.objects.select_related("version").get(pk=queue.pk)
    with django_assert_num_queries(6):  # type: ignore[operator]
        Agreement(fresh)


# --- reports ----------------------------------------------------------------------------------------------------------


def test_the_last_review_of_the_overlap_takes_a_report() -> None:
    queue, (ann, bob) = reviewed()
    item = make_item(queue, trial=make_trial(success=False))
    assert note_submitted(make_review(item, ann, ["misapplied"])) is None
    report = note_submitted(make_review(item, bob, [], state="skipped"))
    assert report is not None
    assert (report.occasion, report.is_before_discussion, report.items_total) == (Occasion.COMPLETE, True, 4)
    assert report.values["codes"]["items"] == 4
    assert report.version == queue.version
    assert Activity.objects.get(verb="agreement.completed").actor == bob


def test_it_is_taken_once_however_often_it_is_noted() -> None:
    queue, _ = reviewed()
    last = Review.objects.filter(item__queue=queue).last()
    assert note_submitted(last) == note_submitted(last)
    assert AgreementReport.objects.count() == 1


def test_nothing_is_taken_where_no_item_has_two_reviewers() -> None:
    ann = make_user()
    queue = make_queue(reviews_per_item=1)
    reviews = [make_review(item, ann, ["misapplied"]) for item in queue.items.all()]
    assert [note_submitted(review) for review in reviews] == [None, None]


def test_after_the_disagreements_were_opened_nothing_is_before_discussion() -> None:
    queue, (ann, _) = reviewed()
    opened = take_report(queue, Occasion.DISCUSSION, ann)
    assert opened.is_before_discussion
    assert was_discussed(queue)
    late = note_submitted(Review.objects.filter(item__queue=queue).last())
    assert late is not None
    assert not late.is_before_discussion
    assert not take_report(queue, Occasion.ASKED, ann).is_before_discussion
    assert report_to_publish(queue) == opened
    assert take_report(queue, Occasion.DISCUSSION, ann) == opened


def test_asking_keeps_a_new_report_every_time() -> None:
    queue, (ann, _) = reviewed()
    assert take_report(queue, Occasion.ASKED, ann) != take_report(queue, Occasion.ASKED, ann)


# --- who may see it ---------------------------------------------------------------------------------------------------


def test_who_has_items_of_the_overlap_left_sees_nothing_yet() -> None:
    queue, (ann, bob) = reviewed()
    outsider = make_user(level="admin")
    item = make_item(queue, trial=make_trial(success=False))
    assert [still_to_review(queue, user) for user in (ann, bob, outsider)] == [1, 1, 0]
    make_review(item, ann, ["misapplied"])
    assert [still_to_review(queue, user) for user in (ann, bob)] == [0, 1]


def test_an_item_whose_places_are_taken_comes_to_nobody_else() -> None:
    queue, _ = reviewed()
    third = make_user(level="reviewer")
    queue.reviewers.add(third)
    assert still_to_review(queue, third) == 0


@pytest.mark.parametrize("opening", [{"hides_labels": False}, {"closed_at": timezone.now()}])
def test_a_queue_that_hides_nothing_or_is_closed_is_open_to_all(opening: dict[str, object]) -> None:
    ann = make_user(level="reviewer")
    queue = make_queue(reviewers=[ann], **opening)
    assert Trial.objects.count() == 2
    assert still_to_review(queue, ann) == 0

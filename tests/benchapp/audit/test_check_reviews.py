"""Whatever is wrong with reviews is found and named. Each case spoils one thing in reviews that held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Model, QuerySet
from django.utils import timezone

from benchapp.audit import check_codebooks, check_reviews, findings
from benchapp.audit.record_check import Flaw
from benchapp.models import (
    Code,
    CodebookVersion,
    CodeOrigin,
    JudgeCall,
    Label,
    Mark,
    Queue,
    QueueItem,
    Resolution,
    Review,
    Slot,
    Suggestion,
)
from benchapp.models.blobs import Blob
from benchapp.review.codebooks.carried_labels import carry
from benchapp.review.codebooks.codebook_versions import digest_of, draft_of, freeze
from runner.base.types import Source, Step
from tests.benchapp.review.rewording import redefine
from tests.worlds.factories import make_snapshot, make_trial, make_user, record_steps
from tests.worlds.review_factories import make_example, make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

STEPS = [Step(1, Source.USER, message="Sum the column."), Step(2, Source.AGENT, message="Done.")]


def change(rows: QuerySet[Any], **fields: Any) -> None:
    """Past the guards of final reviews and frozen versions, as a restored dump or a hand in the database would."""
    assert QuerySet.update(rows, **fields)


def row(model: type[Model], **fields: Any) -> QuerySet[Any]:
    found = model._default_manager.filter(**fields).order_by("pk")
    return model._default_manager.filter(pk=found[0].pk)


@pytest.fixture
def queue() -> Queue:
    """Two items with two reviews each and a resolution, carried over to a version whose first code was redefined."""
    version = make_version()
    change(CodebookVersion.objects.filter(pk=version.pk), digest=digest_of(version))
    people = [make_user(level="reviewer") for _ in range(2)]
    trials = [make_trial(success=False) for _ in range(2)]
    queue = make_queue(trials, version=version, reviewers=people)
    codes = (("over-specific", "silent bypass"), ("misapplied", "silent bypass"))
    for item, said in zip(queue.items.all(), codes, strict=True):
        trajectory = record_steps(item.trial.counting_attempt(), STEPS)
        for person, code in zip(people, said, strict=True):
            make_review(item, person, [code], mark={"trajectory": trajectory, "start": 0, "end": 3, "quote": "Sum"})
    resolve(queue)
    propose(queue)
    draft = draft_of(version.codebook, None)
    redefine(draft.codes.get(name="over-specific"), None, definition="Narrower than it was.", include="", exclude="")
    carry(queue, freeze(draft, None), None)
    return Queue.objects.get(pk=queue.pk)


def resolve(queue: Queue) -> None:
    made = Resolution.objects.create(item=queue.items.get(ordinal=1), adjudicator=make_user(), category="slip")
    made.codes.set(queue.version.codes.filter(name="misapplied"))


def propose(queue: Queue) -> None:
    item, blob = queue.items.get(ordinal=0), Blob.objects.put(b"{}")
    call = JudgeCall.objects.create(
        queue=queue, item=item, model="m", prompt_version="1", status="answered", request_id=blob
    )
    code = queue.version.codes.get(name="misapplied")
    Suggestion.objects.create(
        item=item, source="judge m", source_version="1", code=code, code_name=code.name, call=call
    )


def flaws() -> list[Flaw]:
    return [*check_codebooks(), *check_reviews()]


def test_it_passes_reviews_that_hold(queue: Queue) -> None:
    assert queue.carried_to.get().items.filter(reviews__state="draft").count() == 1
    assert Label.objects.filter(needs_look=True).count() == 1
    assert flaws() == []


def test_the_whole_check_looks_at_reviews(queue: Queue) -> None:
    skip_without_reason(queue)
    assert any("skipped without a reason" in str(found) for found in findings())


# --- one thing wrong -------------------------------------------------------------------------------------------------


def other_codes(queue: Queue) -> int:
    return make_version(("elsewhere",)).codes.get().pk


def changed_after_freezing(queue: Queue) -> None:
    change(row(Code, version=queue.version), definition="Something else.")


def below_itself(queue: Queue) -> None:
    code = queue.version.codes.first()
    change(row(Code, pk=code.pk), parent=code)


def follows_another_codebook(queue: Queue) -> None:
    change(queue.version.followers.all(), previous=make_version())


def comes_from_elsewhere(queue: Queue) -> None:
    change(row(CodeOrigin, code__version__previous=queue.version), before=other_codes(queue))


def example_beyond_the_end(queue: Queue) -> None:
    change(CodebookVersion.objects.filter(pk=queue.version_id), digest="")
    make_example(queue.version.codes.first(), trial=queue.items.first().trial, step=3)
    change(CodebookVersion.objects.filter(pk=queue.version_id), digest=digest_of(queue.version))


def thawed(queue: Queue) -> None:
    change(CodebookVersion.objects.filter(pk=queue.version_id), frozen_at=None)


def drawn_from_more(queue: Queue) -> None:
    change(row(QueueItem, queue=queue), inclusion=0.5)


def of_another_unit(queue: Queue) -> None:
    change(Queue.objects.filter(pk=queue.pk), unit="decision")


def library_of_nobody(queue: Queue) -> None:
    other = make_queue([], version=queue.version, unit="snapshot", population_total=1)
    make_item(other, snapshot=make_snapshot({"SKILL.md": "x"}), episode=queue.items.first().trial.episode)


def slot_lost(queue: Queue) -> None:
    row(Slot, item__queue=queue).get().delete()


def filled_by_another_item(queue: Queue) -> None:
    first, second = queue.items.all()
    mine = row(Slot, item=first)
    other = row(Slot, item=second, holder=mine.get().holder)
    review = other.get().review
    change(other, review=None)
    change(mine, review=review)


def filled_by_a_draft(queue: Queue) -> None:
    draft = Review.objects.get(state="draft")
    change(Slot.objects.filter(item=draft.item, holder=draft.reviewer), review=draft)


def filled_by_nobody(queue: Queue) -> None:
    change(row(Slot, item__queue=queue), holder=None)


def submitted_at_no_time(queue: Queue) -> None:
    change(row(Review, state="submitted"), submitted_at=None)


def drafted_at_a_time(queue: Queue) -> None:
    change(row(Review, state="draft"), submitted_at=timezone.now())


def skip_without_reason(queue: Queue) -> None:
    change(row(Review, item__queue=queue.carried_to.get(), state="submitted"), state="skipped")


def marked_elsewhere(queue: Queue) -> None:
    first, second = queue.items.all()
    change(row(Mark, review__item=first), trajectory=second.trial.counting_attempt().trajectories.get())


def marked_beyond_the_end(queue: Queue) -> None:
    change(row(Mark), step=3)


def half_a_range(queue: Queue) -> None:
    change(row(Mark), end=None)


def range_backwards(queue: Queue) -> None:
    change(row(Mark), start=3, end=1)


def range_beyond_the_end(queue: Queue) -> None:
    change(row(Mark), end=16)


def no_such_field(queue: Queue) -> None:
    change(row(Mark), field="observations/7")


def label_of_another_version(queue: Queue) -> None:
    change(row(Label, mark__review__state="submitted"), code=other_codes(queue))


def drafted_with_another_version(queue: Queue) -> None:
    change(row(Label, mark__review__state="draft"), code=other_codes(queue), carried_from=None)


def never_looked_at(queue: Queue) -> None:
    change(row(Label, mark__review__state="submitted"), needs_look=True)


def resolved_with_another_version(queue: Queue) -> None:
    Resolution.objects.first().codes.add(other_codes(queue))


def suggested_of_another_version(queue: Queue) -> None:
    change(row(Suggestion), code=other_codes(queue))


def suggested_of_another_item(queue: Queue) -> None:
    change(row(Suggestion), item=queue.items.get(ordinal=1))


def judged_in_another_queue(queue: Queue) -> None:
    change(row(JudgeCall), queue=queue.carried_to.get())


def carried_from_another_codebook(queue: Queue) -> None:
    change(queue.carried_to.all(), carried_from=make_queue([]))


def carried_from_another_person(queue: Queue) -> None:
    follower = row(Review, carried_from__item__queue=queue)
    old = follower.get().carried_from
    change(follower, carried_from=old.item.reviews.exclude(pk=old.pk).get())


def carried_from_another_item(queue: Queue) -> None:
    follower = row(Review, carried_from__item__queue=queue)
    old = follower.get().carried_from
    same = Review.objects.filter(item__queue=queue, reviewer=old.reviewer).exclude(pk=old.pk)
    change(follower, carried_from=same.get())


def label_carried_from_elsewhere(queue: Queue) -> None:
    follower = row(Label, carried_from__mark__review__item__queue=queue)
    change(follower, carried_from=Label.objects.exclude(pk=follower.get().carried_from_id).first())


def left_behind(queue: Queue) -> None:
    change(row(Review, carried_from__item__queue=queue), carried_from=None)


SPOILED: dict[Callable[[Queue], None], str] = {
    changed_after_freezing: "was frozen with digest",
    below_itself: "have themselves or a code",
    follows_another_codebook: "not an earlier version of its codebook",
    comes_from_elsewhere: "which is not the version before",
    example_beyond_the_end: "refers to step 3, which its trial does not have",
    thawed: "uses a version that was never frozen",
    drawn_from_more: "its items stand for 3 units, it was drawn from 2",
    of_another_unit: "its queue reviews decisions, it points at none",
    library_of_nobody: "its episode never held that library",
    slot_lost: "has 1 slots (expected 2)",
    filled_by_another_item: "filled by a review of another item",
    filled_by_a_draft: "a draft fills a slot",
    filled_by_nobody: "filled by somebody who does not hold it",
    submitted_at_no_time: "is final, but nobody knows since when",
    drafted_at_a_time: "is a draft, but has a time of submission",
    skip_without_reason: "is skipped without a reason",
    marked_elsewhere: "refers to a trajectory of another trial",
    marked_beyond_the_end: "refers to step 3 of 2",
    half_a_range: "has no range from 0 to None",
    range_backwards: "has no range from 3 to 1",
    range_beyond_the_end: "ends at character 16 of message, which has 15",
    no_such_field: "refers to observations/7 of step 1, which has none",
    label_of_another_version: "carries a code that its queue's version has not",
    drafted_with_another_version: "drafts a code that its queue's version has not",
    never_looked_at: "was submitted with a label that must be looked at",
    resolved_with_another_version: "uses a code that its queue's version has not",
    suggested_of_another_version: "names a code that its queue's version has not",
    suggested_of_another_item: "comes from a question about another item",
    judged_in_another_queue: "its item is of another queue",
    carried_from_another_codebook: "was carried over from a queue of another codebook",
    carried_from_another_person: "another person's or another queue's review",
    carried_from_another_item: "was carried over from a review of another trial",
    label_carried_from_elsewhere: "has a label that was carried over from elsewhere",
    left_behind: "submitted reviews of the queue before were not carried over to it",
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_it_names_what_is_wrong(queue: Queue, spoil: Callable[[Queue], None]) -> None:
    spoil(queue)
    assert any(SPOILED[spoil] in found.message for found in flaws()), flaws()

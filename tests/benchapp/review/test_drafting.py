"""Drafts: checked at the edge, written whole, never over a newer one; final ones never change."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from pydantic import ValidationError

from benchapp.models import Activity, Attribution, Blob, Label, Mark, Queue, QueueItem, Review, Slot, Trial, User
from benchapp.models.reviews import FinalReview
from benchapp.review.coding import drafts
from benchapp.review.coding.anchors import MAX_QUOTE, ItemEvidence
from benchapp.review.coding.drafts import (
    MAX_MARKS,
    MAX_MEMO,
    Conflict,
    Draft,
    DraftRefused,
    Finished,
    MarkDraft,
    Unfinished,
    draft_of,
)
from runner.base.types import Observation, Source, Step, ToolCall
from tests.worlds.factories import make_learning_run, make_snapshot, make_trial, make_user, record_steps
from tests.worlds.review_factories import make_code, make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

TEXT = "First the table was read.\nThen the wrong column was summed: café 🧮 total.\n"


def steps() -> list[Step]:
    call = ToolCall("c", "shell", {"command": "cat data.csv"})
    return [
        Step(1, Source.USER, message="Sum the column."),
        Step(2, Source.AGENT, message=TEXT, tool_calls=(call,), observations=(Observation("a,b\n1,2\n", "c"),)),
        Step(3, Source.AGENT, message="Done."),
    ]


def make_read_trial(**fields: Any) -> Trial:
    """A failed trial whose three steps can be read."""
    trial = make_trial(success=False, attempt={"steps": None}, **fields)
    record_steps(trial.counting_attempt(), steps())
    return trial


@pytest.fixture
def user() -> User:
    return make_user(level=User.Level.REVIEWER)


@pytest.fixture
def item(user: User) -> QueueItem:
    return make_queue([make_read_trial()], reviewers=[user]).items.get()


def code_id(item: QueueItem, place: int = 0) -> UUID:
    return item.queue.version.codes.order_by("ordinal")[place].public_id


def mark(item: QueueItem | None = None, **fields: Any) -> dict[str, Any]:
    labels = [{"code": code_id(item)}] if item else []
    return {"id": uuid4(), "step": 2, "labels": labels, **fields}


def draft(*marks: dict[str, Any], **fields: Any) -> Draft:
    return Draft.model_validate({"marks": marks, **fields})


# --- what a draft may say ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"memo": "x" * (MAX_MEMO + 1)},
        {"confidence": 4},
        {"seconds": -1},
        {"seconds": float("nan")},
        {"unheard_of": 1},
        {"marks": [mark(quote="x" * (MAX_QUOTE + 1))]},
        {"marks": [mark(attribution="nobody")]},
        {"marks": [mark(step=-1)]},
        {"marks": [mark(first=True), mark(first=True)]},
        {"marks": [mark()] * 2},
        {"marks": [mark(labels=[{"code": UUID(int=1)}] * 2)]},
        {"marks": [mark() for _ in range(MAX_MARKS + 1)]},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_draft_that_says_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Draft.model_validate(wrong)


def test_a_draft_knows_the_attributions_of_the_record() -> None:
    for attribution in ["", *Attribution.values]:
        assert MarkDraft.model_validate(mark(attribution=attribution)).attribution == attribution


def test_what_a_database_cannot_store_does_not_reach_it(item: QueueItem, user: User) -> None:
    given = draft(mark(item, memo="a\x00b \ud83e c"), memo="\x00")
    review = drafts.save_draft(item, user, given, revision=0)
    assert review.marks.get().memo == "ab ? c"
    assert review.memo == ""


# --- saving --------------------------------------------------------------------------------------------------------


def test_saving_keeps_every_word(item: QueueItem, user: User) -> None:
    start = TEXT.index("café")
    first = mark(
        item, field="message", start=start, end=start + 6, quote="café 🧮", attribution="agent", first=True, memo="here"
    )
    whole = mark(item, step=None, memo="of the whole item")
    review = drafts.save_draft(
        item, user, draft(first, whole, memo="all in all", confidence=2, seconds=12.5), revision=0
    )
    assert (review.revision, review.state, review.confidence, review.seconds) == (1, "draft", 2, 12.5)
    kept = draft_of(review, ItemEvidence(item))
    assert Draft.model_validate(kept) == draft(
        {**first, "labels": [{"code": code_id(item)}]}, whole, memo="all in all", confidence=2, seconds=12.5
    )
    stored = review.marks.get(public_id=first["id"])
    assert stored.trajectory == item.trial.counting_attempt().trajectories.get()
    assert TEXT[stored.start : stored.end] == stored.quote == "café 🧮"


def test_saving_twice_makes_one_mark_and_the_next_revision(item: QueueItem, user: User) -> None:
    given = draft(mark(item))
    drafts.save_draft(item, user, given, revision=0)
    review = drafts.save_draft(item, user, given, revision=1)
    assert review.revision == 2
    assert Mark.objects.count() == Label.objects.count() == 1


def test_a_save_from_an_old_revision_overwrites_nothing(item: QueueItem, user: User) -> None:
    drafts.save_draft(item, user, draft(memo="one tab"), revision=0)
    with pytest.raises(Conflict) as conflict:
        drafts.save_draft(item, user, draft(memo="other tab"), revision=0)
    assert conflict.value.review.memo == "one tab"
    assert Review.objects.get().memo == "one tab"


def test_time_at_work_never_shrinks(item: QueueItem, user: User) -> None:
    drafts.save_draft(item, user, draft(seconds=40), revision=0)
    assert drafts.save_draft(item, user, draft(seconds=9), revision=1).seconds == 40


def test_two_people_code_one_item_apart(item: QueueItem, user: User) -> None:
    other = make_user(level=User.Level.REVIEWER)
    item.queue.reviewers.add(other)
    drafts.save_draft(item, user, draft(memo="mine"), revision=0)
    drafts.save_draft(item, other, draft(memo="yours"), revision=0)
    assert set(Review.objects.values_list("reviewer", "memo")) == {(user.pk, "mine"), (other.pk, "yours")}


@pytest.mark.parametrize("level", [User.Level.REVIEWER, User.Level.ADMIN])
def test_only_those_whom_the_queue_names_write(item: QueueItem, level: str) -> None:
    with pytest.raises(PermissionDenied):
        drafts.save_draft(item, make_user(level=level), draft(), revision=0)


def test_a_viewer_writes_nothing_even_where_a_queue_names_them(item: QueueItem) -> None:
    viewer = make_user(level=User.Level.VIEWER)
    item.queue.reviewers.add(viewer)
    with pytest.raises(PermissionDenied):
        drafts.submit(item, viewer, draft(), revision=0, nothing_wrong=True)


def test_no_answer_slips_in_behind_a_queue_that_was_closed_meanwhile(item: QueueItem, user: User) -> None:
    """Carrying a queue over closes it and copies what was submitted: a later answer would be left behind."""
    assert item.queue.is_open  # as this request read it
    Queue.objects.filter(pk=item.queue_id).update(closed_at=timezone.now())
    with pytest.raises(Unfinished, match="closed"):
        drafts.submit(item, user, draft(mark(item)), revision=0)
    with pytest.raises(Unfinished, match="closed"):
        drafts.skip(item, user, draft(), revision=0, reason="Too long.")
    assert not item.reviews.exists()


def test_a_closed_queue_keeps_a_draft_and_takes_no_answer(item: QueueItem, user: User) -> None:
    item.queue.closed_at = item.queue.created_at
    item.queue.save()
    drafts.save_draft(item, user, draft(memo="late"), revision=0)
    with pytest.raises(Unfinished, match="closed"):
        drafts.submit(item, user, draft(memo="late"), revision=1, nothing_wrong=True)
    with pytest.raises(Unfinished, match="closed"):
        drafts.skip(item, user, draft(memo="late"), revision=1, reason="late")


@pytest.mark.django_db(transaction=True)
def test_of_two_saves_at_once_one_wins(item: QueueItem, user: User) -> None:
    outcomes: list[str] = []
    ready = threading.Barrier(4)

    def save(word: str) -> None:
        ready.wait()
        try:
            while True:
                try:
                    drafts.save_draft(item, user, draft(mark(item), memo=word), revision=0)
                    return outcomes.append(word)
                except Conflict:
                    return outcomes.append("conflict")
                except OperationalError:  # SQLite in memory does not wait for a lock
                    continue
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=(f"tab {place}",)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("conflict") == 3
    review = Review.objects.get()
    assert review.memo in outcomes
    assert review.revision == 1
    assert review.marks.count() == 1


# --- places --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"step": 9}, "no step 9; the last one is 3"),
        ({"step": 0}, "no step 0"),
        ({"field": "observations/7"}, "no field 'observations/7'"),
        ({"field": "password"}, "no field 'password'"),
        ({"step": 2, "trajectory": 4}, "no trajectory 4"),
        ({"field": "message", "start": 9, "end": 9, "quote": "x"}, "is empty"),
        ({"step": None, "field": "message"}, "needs a step"),
        ({"step": None, "path": "a/SKILL.md"}, "no files"),
    ],
)
def test_a_place_that_the_item_does_not_have_is_refused(
    item: QueueItem, user: User, place: dict[str, Any], words: str
) -> None:
    with pytest.raises(DraftRefused, match=words):
        drafts.save_draft(item, user, draft(mark(item, **place)), revision=0)
    assert not Review.objects.exists()


@pytest.mark.parametrize("start", [0, 3, 10**6])
def test_a_quote_that_does_not_stand_there_is_kept_without_a_range(item: QueueItem, user: User, start: int) -> None:
    given = mark(item, field="message", start=start, end=start + 9, quote="my words!")
    stored = drafts.save_draft(item, user, draft(given), revision=0).marks.get()
    assert (stored.quote, stored.start, stored.end, stored.field) == ("my words!", None, None, "message")


def test_a_long_range_keeps_its_end(item: QueueItem, user: User) -> None:
    long = "abc " * 1000
    trial = make_trial(success=False, attempt={"steps": None})
    record_steps(trial.counting_attempt(), [Step(1, Source.AGENT, message=long)])
    other = make_item(item.queue, trial=trial)
    given = mark(item, step=1, field="message", start=4, end=3600, quote=long[4 : 4 + MAX_QUOTE])
    stored = drafts.save_draft(other, user, draft(given), revision=0).marks.get()
    assert (stored.start, stored.end, len(stored.quote)) == (4, 3600, MAX_QUOTE)


def test_a_mark_that_did_not_move_is_not_checked_again(item: QueueItem, user: User) -> None:
    """Its trajectory may have been read anew since: the mark stays on the one it was made on."""
    given = mark(item, field="message", start=0, end=5, quote="First")
    drafts.save_draft(item, user, draft(given), revision=0)
    trajectory = item.trial.counting_attempt().trajectories.get()
    trajectory.is_superseded = True
    trajectory.save()
    record_steps(item.trial.counting_attempt(), steps()[:1], name="read anew")
    fresh = QueueItem.objects.get(pk=item.pk)
    kept = draft_of(fresh.reviews.get(), ItemEvidence(fresh))
    review = drafts.save_draft(fresh, user, Draft.model_validate(kept), revision=1)
    assert review.marks.get().trajectory == trajectory


def test_marks_on_a_decision_name_a_side_a_file_and_lines(user: User) -> None:
    run = make_learning_run(families=1, environments=1)
    decision = run.episodes.get().decisions.filter(status="applied").last()
    queue = make_queue([], unit="decision", reviewers=[user], population_total=1)
    item = make_item(queue, decision=decision)
    path = decision.after.files.first().path
    lines = decision.after.read()[path].content.decode().split("\n")
    given = mark(item, step=None, field="after", path=path, start=2, end=3, quote="\n".join(lines[1:3]))
    stored = drafts.save_draft(item, user, draft(given), revision=0).marks.get()
    assert (stored.path, stored.start, stored.end, stored.field) == (path, 2, 3, "after")
    for wrong in ({"path": "nowhere"}, {"field": "aside"}, {"start": 0}, {"end": 10**6}):
        with pytest.raises(DraftRefused):
            drafts.save_draft(item, user, draft({**given, "id": uuid4(), **wrong}), revision=1)


def test_marks_on_a_refused_decision_stand_in_what_was_proposed(user: User) -> None:
    run = make_learning_run(families=1, environments=1)
    decision = run.episodes.get().decisions.filter(status="rejected").last()
    decision.patch_id = Blob.objects.put(rb'{"summary": "s", "upsert_files": {"new/SKILL.md": "one\ntwo"}}')
    decision.save()
    queue = make_queue([], unit="decision", reviewers=[user], population_total=1)
    item = make_item(queue, decision=decision)
    given = mark(item, step=None, field="after", path="new/SKILL.md", start=2, end=2, quote="two")
    assert drafts.save_draft(item, user, draft(given), revision=0).marks.get().start == 2
    with pytest.raises(DraftRefused, match="has 2 lines"):
        drafts.save_draft(item, user, draft({**given, "id": uuid4(), "end": 3}), revision=1)
    with pytest.raises(DraftRefused, match="no file"):
        drafts.save_draft(item, user, draft({**given, "id": uuid4(), "field": "before"}), revision=1)


def test_marks_on_a_library_name_a_file(user: User) -> None:
    queue = make_queue([], unit="snapshot", reviewers=[user], population_total=1)
    item = make_item(queue, snapshot=make_snapshot())
    given = mark(item, step=None, path="tidy-tables/SKILL.md", start=5, end=5, quote="# Tidy tables")
    assert drafts.save_draft(item, user, draft(given), revision=0).marks.get().start == 5


# --- codes ---------------------------------------------------------------------------------------------------------


def test_a_code_of_another_codebook_is_refused(item: QueueItem, user: User) -> None:
    stranger = make_version().codes.first()
    with pytest.raises(DraftRefused, match="no code"):
        drafts.save_draft(item, user, draft(mark(labels=[{"code": stranger.public_id}])), revision=0)


def test_a_carried_label_waits_for_a_look(item: QueueItem, user: User) -> None:
    review = make_review(item, user, ["misapplied"], state=Review.State.DRAFT, mark={"step": 2, "field": ""})
    origin = make_review(make_item(item.queue, trial=make_trial(success=False)), user, ["misapplied"])
    label = Label.objects.get(mark__review=review)
    Label.objects.filter(pk=label.pk).update(needs_look=True, carried_from=Label.objects.get(mark__review=origin))
    stored = draft_of(review, ItemEvidence(item))
    with pytest.raises(Unfinished, match="looked at again"):
        drafts.submit(item, user, Draft.model_validate(stored), revision=1)
    stored["marks"][0]["labels"][0]["needs_look"] = False  # type: ignore[index]
    final = drafts.submit(item, user, Draft.model_validate(stored), revision=1)
    kept = Label.objects.get(mark__review=final)
    assert not kept.needs_look
    assert kept.carried_from.mark.review == origin


def test_a_page_cannot_ask_for_a_look(item: QueueItem, user: User) -> None:
    given = mark(labels=[{"code": code_id(item), "needs_look": True}])
    drafts.save_draft(item, user, draft(given), revision=0)
    assert not Label.objects.get().needs_look


def test_a_code_of_another_version_stays_in_the_draft_and_is_never_submitted(item: QueueItem, user: User) -> None:
    retired = make_code(make_version(["retired"]), "long gone")
    review = make_review(item, user, [retired], state=Review.State.DRAFT, mark={"step": 2, "field": ""})
    kept = Draft.model_validate(draft_of(review, ItemEvidence(item)))
    drafts.save_draft(item, user, kept, revision=1)
    with pytest.raises(Unfinished, match="another version"):
        drafts.submit(item, user, kept, revision=2)


# --- final answers -------------------------------------------------------------------------------------------------


def test_a_submitted_review_fills_the_slot_and_is_written_down(item: QueueItem, user: User) -> None:
    Slot.objects.filter(item=item, place=0).update(holder=user)
    review = drafts.submit(item, user, draft(mark(item), confidence=3, seconds=31), revision=0)
    assert (review.state, review.confidence) == ("submitted", 3)
    assert review.submitted_at
    assert Slot.objects.get(review=review).holder == user
    act = Activity.objects.get(verb="review.submitted")
    assert (act.actor, act.detail["labels"], act.detail["seconds"]) == (user, 1, 31)


def test_empty_answers_are_meant(item: QueueItem, user: User) -> None:
    with pytest.raises(Unfinished, match="No code is set"):
        drafts.submit(item, user, draft(mark(memo="odd, but no code")), revision=0)
    with pytest.raises(Unfinished, match="You said that nothing is wrong, and set codes"):
        drafts.submit(item, user, draft(mark(item)), revision=0, nothing_wrong=True)
    review = drafts.submit(item, user, draft(mark(memo="odd, but no code")), revision=0, nothing_wrong=True)
    assert review.state == "submitted"
    assert not Label.objects.exists()


def test_every_reason_is_given_at_once(item: QueueItem, user: User) -> None:
    with pytest.raises(Unfinished) as unfinished:
        drafts.submit(item, user, draft(mark(), mark(memo=" ")), revision=0)
    assert len(unfinished.value.problems) == 3
    assert not Review.objects.exists()


def test_a_skip_says_why_and_keeps_what_was_written(item: QueueItem, user: User) -> None:
    with pytest.raises(Unfinished):
        drafts.skip(item, user, draft(), revision=0, reason="  ")
    review = drafts.skip(item, user, draft(memo="no log"), revision=0, reason="cannot  be\nread")
    assert (review.state, review.skip_reason, review.memo) == ("skipped", "cannot be read", "no log")
    assert Activity.objects.get(verb="review.skipped").reason == "cannot be read"


@pytest.mark.parametrize("state", [Review.State.SUBMITTED, Review.State.SKIPPED])
def test_what_was_answered_takes_no_further_word(item: QueueItem, user: User, state: str) -> None:
    make_review(item, user, ["misapplied"], state=state)
    for act in (
        lambda: drafts.save_draft(item, user, draft(), revision=1),
        lambda: drafts.submit(item, user, draft(), revision=1, nothing_wrong=True),
        lambda: drafts.skip(item, user, draft(), revision=1, reason="again"),
    ):
        with pytest.raises(Finished):
            act()
    assert Label.objects.count() == 1


@pytest.mark.parametrize("state", [Review.State.SUBMITTED, Review.State.SKIPPED])
def test_the_record_itself_guards_a_final_review(item: QueueItem, user: User, state: str) -> None:
    review = make_review(item, user, ["misapplied"], state=state)
    mark, label = review.marks.get(), Label.objects.get()
    review.memo = "rewritten"
    for act in (
        review.save,
        review.delete,
        mark.save,
        mark.delete,
        label.save,
        label.delete,
        review.marks.all().delete,
        Label.objects.all().delete,
        lambda: Review.objects.all().update(memo="rewritten"),
        lambda: Mark.objects.update(memo="rewritten"),
        lambda: Review.objects.bulk_update([review], ["memo"]),
        lambda: Review.objects.all().delete(),
    ):
        with pytest.raises(FinalReview), transaction.atomic():
            act()
    review.refresh_from_db()
    assert review.memo == ""
    assert Label.objects.count() == 1


# --- guessing ------------------------------------------------------------------------------------------------------


def make_two_conditions(user: User, **fields: Any) -> QueueItem:
    runs = [make_learning_run(families=1, environments=1, condition=name) for name in ("no-skill", "curated")]
    trials = [run.episodes.get().trials.filter(success=False).first() for run in runs]
    return make_queue(trials, reviewers=[user], **fields).items.first()


def test_a_condition_is_guessed_once_and_after_submitting(user: User) -> None:
    item = make_two_conditions(user)
    assert drafts.guess_options(item) == ["curated", "no-skill"]
    with pytest.raises(DraftRefused):
        drafts.guess(item, user, "curated")
    review = drafts.submit(item, user, draft(), revision=0, nothing_wrong=True)
    assert drafts.asks_guess(item, review)
    with pytest.raises(DraftRefused, match="does not have that condition"):
        drafts.guess(item, user, "raw-trajectory")
    review = drafts.guess(item, user, "curated")
    assert review.guess == "curated"
    assert not drafts.asks_guess(item, review)
    with pytest.raises(DraftRefused):
        drafts.guess(item, user, "no-skill")


def test_who_does_not_know_says_so(user: User) -> None:
    item = make_two_conditions(user)
    drafts.submit(item, user, draft(), revision=0, nothing_wrong=True)
    review = drafts.guess(item, user, "")
    assert review.guess == ""
    assert review.guessed_at


def test_nobody_is_asked_what_was_shown_or_cannot_be_wrong(item: QueueItem, user: User) -> None:
    shown = make_two_conditions(user, hides_conditions=False)
    for each in (shown, item):
        review = drafts.submit(each, user, draft(), revision=0, nothing_wrong=True)
        assert not drafts.asks_guess(each, review)


def test_nobody_begins_an_answer_once_all_places_are_taken(item: QueueItem, user: User) -> None:
    """Nothing is hidden from them by then, so what they said would not be said alone."""
    for _ in range(2):
        make_review(item, make_user(level=User.Level.REVIEWER))
    for act in (drafts.save_draft, drafts.submit):
        with pytest.raises(DraftRefused, match="Others took every place of this item"):
            act(item, user, draft(mark(item)), revision=0)
    assert not item.reviews.filter(reviewer=user).exists()


def test_a_draft_goes_on_though_all_places_are_taken_meanwhile(item: QueueItem, user: User) -> None:
    drafts.save_draft(item, user, draft(memo="begun"), revision=0)
    for _ in range(2):
        make_review(item, make_user(level=User.Level.REVIEWER))
    assert drafts.submit(item, user, draft(mark(item)), revision=1).is_final

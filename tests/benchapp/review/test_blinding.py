"""Who is blind to what, and which pages are closed meanwhile."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.models import Queue, Review, Run, Trial
from benchapp.review.blinding import Hidden, ReviewAccess, hidden_in, still_to_code
from benchapp.review.coding.queue_agreement import still_to_review
from benchapp.review.suggestions.suggestion_matches import still_blind
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_family,
    make_run,
    make_snapshot,
    make_trial,
    make_unordered_episode,
    make_user,
)
from tests.worlds.review_factories import make_item, make_queue, make_review

pytestmark = pytest.mark.django_db


def blind_queue(trial: Trial, **fields: object) -> tuple[Queue, object]:
    user = make_user(level="reviewer")
    return make_queue([trial], reviewers=[user], **fields), user


def test_an_assigned_reviewer_is_blind_by_the_queues_switches() -> None:
    queue, user = blind_queue(make_trial(), hides_models=False, hides_suggestions=False)
    assert hidden_in(queue.items.get(), user) == Hidden(conditions=True, labels=True)


@pytest.mark.parametrize("state", [Review.State.SUBMITTED, Review.State.SKIPPED])
def test_nothing_is_hidden_from_who_answered(state: str) -> None:
    queue, user = blind_queue(make_trial())
    make_review(queue.items.get(), user, state=state)
    assert hidden_in(queue.items.get(), user) == Hidden()


def test_nothing_is_hidden_from_who_is_not_assigned_or_when_the_queue_is_closed() -> None:
    queue, user = blind_queue(make_trial())
    assert hidden_in(queue.items.get(), make_user(level="admin")) == Hidden()
    Queue.objects.filter(pk=queue.pk).update(closed_at=timezone.now())
    queue.refresh_from_db()
    assert hidden_in(queue.items.get(), user) == Hidden()


def test_an_answer_to_another_item_or_by_another_person_opens_nothing() -> None:
    first, second = make_trial(), make_trial()
    user = make_user(level="reviewer")
    queue = make_queue([first, second], reviewers=[user])
    make_review(queue.items.get(trial=second), user)
    make_review(queue.items.get(trial=first), make_user(level="reviewer"))
    assert ReviewAccess(user).closing(trial=first)
    assert not ReviewAccess(user).closing(trial=second)


def test_one_queue_may_close_what_another_opened() -> None:
    trial = make_trial()
    queue, user = blind_queue(trial)
    make_review(queue.items.get(), user)
    assert not ReviewAccess(user).closing(trial=trial)
    later = make_queue([trial], reviewers=[user])
    assert ReviewAccess(user).closing(trial=trial) == later


def test_a_queue_that_hides_no_facts_closes_nothing() -> None:
    trial = make_trial()
    _, user = blind_queue(trial, hides_conditions=False, hides_models=False)
    assert not ReviewAccess(user).closing(trial=trial, run=trial.episode.run)


def test_every_trial_of_the_task_and_every_library_of_the_episode_is_closed() -> None:
    trial = make_trial(make_episode(key="E1"))
    _, user = blind_queue(trial)
    same = make_trial(make_episode(make_run(), key="E1"), trial.task)
    other = make_trial(make_episode(make_run(), key="E2"))
    assert ReviewAccess(user).closing(trial=same)
    assert ReviewAccess(user).closing(run=same.episode.run)
    assert not ReviewAccess(user).closing(trial=other)
    assert not ReviewAccess(user).closing(run=other.episode.run)
    assert set(ReviewAccess(user).closed_trials()) == {trial, same}
    assert set(ReviewAccess(user).closed_runs()) == {trial.episode.run, same.episode.run}


@pytest.mark.parametrize("unit", ["decision", "snapshot"])
def test_a_decision_or_a_library_closes_the_trials_of_its_episode(unit: str) -> None:
    family = make_family()
    episode = make_episode(environment=family.environment)
    trial = make_trial(episode, family.tasks.first())
    twin = make_episode(make_run(), key=episode.key)
    user = make_user(level="reviewer")
    queue = make_queue([], reviewers=[user], unit=unit)
    decision = make_decision(episode, family, after_trial=trial)
    if unit == "decision":
        make_item(queue, decision=decision)
    else:
        make_item(queue, snapshot=make_snapshot(), episode=episode)
    assert ReviewAccess(user).closing(trial=trial)
    assert ReviewAccess(user).closing(decision=decision)
    assert ReviewAccess(user).closing(run=episode.run)
    assert ReviewAccess(user).closing(run=twin.run)
    assert list(ReviewAccess(user).closed_trials()) == [trial]
    assert set(ReviewAccess(user).closed_runs()) == {episode.run, twin.run}


def test_lists_and_single_answers_agree() -> None:
    trials = [make_trial(make_episode(key=f"E{place}")) for place in range(4)]
    user = make_user(level="reviewer")
    make_queue(trials[:2], reviewers=[user])
    closed = {trial.pk for trial in Trial.objects.all() if ReviewAccess(user).closing(trial=trial)}
    assert (
        closed
        == set(ReviewAccess(user).closed_trials().values_list("pk", flat=True))
        == {trial.pk for trial in trials[:2]}
    )
    runs = {run.pk for run in Run.objects.all() if ReviewAccess(user).closing(run=run)}
    assert runs == set(ReviewAccess(user).closed_runs().values_list("pk", flat=True))


def test_whoever_reviews_nothing_blind_costs_one_short_query() -> None:
    trial = make_trial()
    with CaptureQueriesContext(connection) as asked:
        assert ReviewAccess(make_user()).closing(trial=trial) is None
    assert len([query for query in asked if "queueitem" in query["sql"]]) == 0


def test_a_library_outside_a_protocol_is_closed_as_well() -> None:
    episode = make_unordered_episode(key="words")
    user = make_user(level="reviewer")
    make_item(make_queue([], reviewers=[user], unit="snapshot"), snapshot=make_snapshot(), episode=episode)
    twin = make_unordered_episode(key="words")
    for found in (episode, twin):
        assert ReviewAccess(user).closing(run=found.run)
    assert set(ReviewAccess(user).closed_runs()) == {episode.run, twin.run}


def test_what_is_closed_is_read_once() -> None:
    trial = make_trial()
    queue, user = blind_queue(trial)
    item = queue.items.select_related("queue").get()
    trial = Trial.objects.select_related("episode__run").get(pk=trial.pk)
    with CaptureQueriesContext(connection) as asked:
        hidden_in(item, user)
        access = ReviewAccess(user)
        access.closing(trial=trial)
        access.closing(trial=trial)
        access.closing(run=trial.episode.run)
    assert len(asked) == 1 + 2 + 1


def test_whoever_has_no_place_left_is_not_kept_out() -> None:
    trial, third = make_trial(), make_user(level="reviewer")
    queue = make_queue([trial], reviewers=[third], reviews_per_item=2)
    item = queue.items.get()
    make_review(item, make_user(level="reviewer"))
    assert hidden_in(item, third).labels
    assert ReviewAccess(third).closing(trial=trial)
    make_review(item, make_user(level="reviewer"))
    assert hidden_in(item, third) == Hidden()
    assert not ReviewAccess(third).closing(trial=trial)


def test_a_draft_may_be_handed_in_though_all_places_are_taken_so_its_author_stays_blind() -> None:
    trial, late = make_trial(), make_user(level="reviewer")
    queue = make_queue([trial], reviewers=[late], reviews_per_item=1)
    item = queue.items.get()
    make_review(item, late, state=Review.State.DRAFT)
    make_review(item, make_user(level="reviewer"))
    assert hidden_in(item, late).labels
    assert [still_to_review(queue, late), still_to_code([queue], late), still_blind(queue, late)] == [0, 1, 1]
    make_review(make_item(queue, trial=make_trial(), is_overlap=True), late, state=Review.State.DRAFT)
    assert still_to_review(queue, late) == 1

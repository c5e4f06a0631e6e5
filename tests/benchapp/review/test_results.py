"""Which answers count for an item, and what is read of it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.models import Code, Queue, Resolution, Review, Trial
from benchapp.review.results.queue_results import Basis, NotTogether, QueueCoding, drop_undecided
from tests.worlds.factories import make_trial
from tests.worlds.review_factories import make_item, make_queue, make_review, make_version
from tests.worlds.review_worlds import World, make_reviewed_world, say

pytestmark = pytest.mark.django_db


def coded(world: World) -> QueueCoding:
    return QueueCoding([Queue.objects.get(pk=world.queue.pk)])


def key(world: World, name: str) -> int:
    return Code.objects.get(version=world.queue.version, name=name).pk


def resolve(world: World, place: int, *names: str, attribution: str = "") -> Resolution:
    Resolution.objects.filter(item=world.items[place], superseded_at=None).update(superseded_at=timezone.now())
    found = Resolution.objects.create(
        item=world.items[place],
        adjudicator=world.people[0],
        category=Resolution.Category.SLIP,
        attribution=attribution,
    )
    found.codes.set(key(world, name) for name in names)
    return found


def test_it_knows_where_the_codes_of_each_item_come_from() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"], ["stale"])
    say(world, 1, ["stale"], ["tool"])
    say(world, 2, ["tool"])
    say(world, 3, ["stale"], ["tool"])
    resolve(world, 3, "misapplied")
    make_review(world.items[4], world.people[0], state=Review.State.SKIPPED, skip_reason="no trajectory")
    make_review(world.items[5], world.people[0], ["tool"], state=Review.State.DRAFT)
    found = coded(world)
    bases = [item.basis for item in found.items[:6]]
    assert bases == [Basis.AGREED, Basis.SPLIT, Basis.SINGLE, Basis.RESOLVED, Basis.SKIPPED, Basis.OPEN]
    assert found.count_by_basis() == {
        Basis.RESOLVED: 1,
        Basis.AGREED: 1,
        Basis.SINGLE: 1,
        Basis.SPLIT: 1,
        Basis.SKIPPED: 1,
        Basis.OPEN: 4,
    }
    assert found.overlap == 3


def test_it_counts_an_unresolved_item_by_the_share_of_its_reviewers() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale", "tool"], ["tool"])
    (item, *_) = coded(world).items
    assert item.share(frozenset([key(world, "stale")])) == 0.5
    assert item.share(frozenset([key(world, "tool")])) == 1.0


def test_it_takes_the_standing_resolution_alone() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"], ["stale"])
    resolve(world, 0, "tool")
    resolve(world, 0)  # supersedes: nothing is wrong here
    (item, *_) = coded(world).items
    assert [voice.codes for voice in item.voices] == [frozenset()]
    assert item.reviews == 2


def test_it_counts_a_review_without_marks_as_an_answer() -> None:
    world = make_reviewed_world()
    say(world, 0, [])
    (item, *_) = coded(world).items
    assert item.is_coded
    assert item.basis is Basis.SINGLE


def test_it_counts_a_parent_where_any_child_is() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"], ["misapplied"])
    found = coded(world)
    top = next(code for code in found.codes if code.name == "skill")
    assert found.items[0].share(found.within(top)) == 1.0  # both saw the skill fail, each in another way


def test_it_leaves_unresolved_items_out_when_asked_and_keeps_them_drawn() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"], ["tool"])
    found = drop_undecided(coded(world))
    assert not found.items[0].is_coded
    assert len(found.drawn) == 9


def test_it_never_uses_a_code_of_another_version() -> None:
    world = make_reviewed_world()
    other = make_version(("stale",))
    make_review(world.items[0], world.people[0], [other.codes.get()])
    make_review(world.items[0], world.people[1], ["stale"])
    (item, *_) = coded(world).items
    assert {voice.codes for voice in item.voices} == {frozenset(), frozenset([key(world, "stale")])}


def test_it_refuses_queues_of_different_versions_units_or_the_same_items() -> None:
    world = make_reviewed_world()
    with pytest.raises(NotTogether, match="different codebook versions"):
        QueueCoding([world.queue, make_queue()])
    twice = make_queue([world.items[0].trial], version=world.queue.version)
    with pytest.raises(NotTogether, match="more than one of these queues"):
        QueueCoding([world.queue, twice])
    with pytest.raises(NotTogether, match="different things"):
        QueueCoding([world.queue, make_queue([], version=world.queue.version, unit=Queue.Unit.DECISION)])


def test_it_refuses_queues_whose_populations_overlap_though_no_item_is_in_both() -> None:
    """A trial that either queue could have drawn would stand for itself twice."""
    world = make_reviewed_world()
    left = world.items[0].trial.episode.trials.filter(success=True)
    other = make_queue(left[:1], version=world.queue.version, population=world.queue.population)
    with pytest.raises(NotTogether, match="has 12 trials in common"):
        QueueCoding([world.queue, other])


def only(trial: Trial) -> str:
    """The population of the failures of its experiment."""
    return f"experiment={trial.episode.run.experiment.public_id}&preset=failed"


def test_it_adds_up_queues_of_one_version() -> None:
    world = make_reviewed_world()
    trial = make_trial(success=False)
    other = make_queue([trial], version=world.queue.version, population=only(trial))
    found = QueueCoding([world.queue, other])
    assert len(found.items) == 10
    assert len({item.stratum for item in found.items}) == 3  # each queue's strata are its own


def test_it_reads_what_the_record_says_of_a_trial() -> None:
    world = make_reviewed_world()
    facts = coded(world).items[0].facts
    suite = world.experiment.suite.key
    assert (facts.condition, facts.agent_model, facts.phase, facts.source) == (
        "memory",
        "model-memory",
        "evaluation",
        "import",
    )
    assert facts.family == f"F1 ({suite})"
    assert facts.failed is True
    assert facts.cluster == ("task", world.items[0].trial.task_id)  # a plain import's episode is only a folder


def test_it_takes_the_episode_as_the_cluster_where_trials_share_a_library() -> None:
    trial = make_trial(success=False)
    queue = make_queue([trial])
    assert QueueCoding([queue]).items[0].facts.cluster == ("episode", trial.episode_id)


def test_it_keeps_controls_out_of_the_population() -> None:
    world = make_reviewed_world()
    make_item(world.queue, trial=make_trial(success=True), is_control=True, inclusion=0.1)
    found = coded(world)
    assert len(found.items) == 10
    assert len(found.drawn) == 9


def test_it_asks_as_much_of_the_database_for_many_items_as_for_few() -> None:
    counts = []
    for size in (2, 9):
        world = make_reviewed_world()
        for place in range(size):
            say(world, place, ["stale"], ["tool"])
        with CaptureQueriesContext(connection) as captured:
            QueueCoding([Queue.objects.select_related("version").get(pk=world.queue.pk)])
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 10

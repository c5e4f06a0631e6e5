"""Frequencies of the small world, by hand and against a slow count of the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.models import Queue, Trial
from benchapp.review.queues.populations import extent_of
from benchapp.review.results.code_counts import count_together, guesses_of, saturation_of
from benchapp.review.results.queue_results import Per, QueueCoding, Taxonomy, TaxonomyRow, blame, uncoded_strata
from tests.worlds.factories import make_trial
from tests.worlds.review_factories import make_item, make_queue, make_review
from tests.worlds.review_worlds import World, make_reviewed_world, say


def taxonomy(world: World, **chosen: str) -> Taxonomy:
    queue = Queue.objects.get(pk=world.queue.pk)
    picked = {name: frozenset([value]) for name, value in chosen.items()}
    return Taxonomy(QueueCoding([queue]), extent_of([queue]), picked)


def rows(found: Taxonomy) -> dict[str, TaxonomyRow]:
    return {row.code.name: row for row in found.rows}


def all_coded() -> World:
    """memory: stale in 3 of 6, tool in 1; no-skill: tool in 2 of the 3 drawn of 6, misapplied in 1."""
    world = make_reviewed_world()
    answers = [["stale"], ["stale"], ["stale"], ["tool"], [], [], ["tool"], ["tool"], ["misapplied"]]
    for place, codes in enumerate(answers):
        say(world, place, codes, codes)
    return world


@pytest.mark.django_db
def test_it_weights_by_the_probability_with_which_an_item_was_drawn() -> None:
    found = rows(taxonomy(all_coded()))
    shares = {name: row.shares[Per.POPULATION] for name, row in found.items()}
    assert shares["stale"].value == pytest.approx(3 / 12)
    assert shares["tool"].value == pytest.approx((1 + 2 + 2) / 12)
    assert shares["misapplied"].value == pytest.approx(2 / 12)
    assert shares["skill"].value == pytest.approx(5 / 12)  # stale and misapplied
    assert (shares["tool"].k, shares["tool"].n) == (3, 9)
    assert found["tool"].estimated == pytest.approx(5)
    assert [found[name].depth for name in ("skill", "stale", "tool")] == [0, 1, 0]


@pytest.mark.django_db
def test_it_counts_per_failed_and_per_attempted_against_the_whole_selection() -> None:
    found = rows(taxonomy(all_coded()))["tool"]
    assert found.shares[Per.FAILED].value == pytest.approx(5 / 12)  # the population is all that failed
    assert found.shares[Per.ATTEMPTED].value == pytest.approx(5 / 24)  # of 24 that ran


@pytest.mark.django_db
def test_it_counts_what_ran_once_where_two_queues_share_it_out() -> None:
    """The failures of a selection in one queue, its passes in another: 24 trials ran, not 48."""
    world = all_coded()
    passes = make_queue(
        _passed(world),
        version=world.queue.version,
        population=f"experiment={world.experiment.public_id}&unit=trial&preset=passed",
    )
    for item in passes.items.all():
        for person in world.people:
            make_review(item, person, ["stale"] if item.ordinal < 3 else [])
    queues = list(Queue.objects.filter(pk__in=[world.queue.pk, passes.pk]).order_by("pk"))
    found = Taxonomy(QueueCoding(queues), extent_of(queues), {})
    assert found.counts is not None
    assert (found.counts.attempted, found.counts.failed, found.counts.population) == (24, 12, 24)
    stale = rows(found)["stale"]
    assert stale.shares[Per.FAILED].value == pytest.approx(3 / 12)
    assert stale.shares[Per.ATTEMPTED].value == pytest.approx((3 + 3) / 24)


@pytest.mark.django_db
def test_it_counts_the_failed_of_a_population_that_holds_passes_too() -> None:
    world = all_coded()
    Queue.objects.filter(pk=world.queue.pk).update(
        population=f"experiment={world.experiment.public_id}&unit=trial&preset=all", population_total=24
    )
    passed = [make_item(world.queue, trial=trial, stratum="passed", inclusion=0.25) for trial in _passed(world)[:3]]
    for item, codes in zip(passed, (["stale"], [], []), strict=True):
        for person in world.people:
            make_review(item, person, codes)
    found = rows(taxonomy(world))["stale"]
    assert found.shares[Per.FAILED].value == pytest.approx(3 / 12)
    assert found.shares[Per.FAILED].n == 9
    assert found.shares[Per.ATTEMPTED].value == pytest.approx((3 + 4) / 24)


def _passed(world: World) -> list[Trial]:
    return list(Trial.objects.filter(episode__run__experiment=world.experiment, success=True).order_by("pk"))


@pytest.mark.django_db
def test_it_counts_within_a_part_of_the_population() -> None:
    found = rows(taxonomy(all_coded(), condition="no-skill"))["tool"]
    assert found.shares[Per.POPULATION].value == pytest.approx(2 / 3)
    assert found.shares[Per.ATTEMPTED].value == pytest.approx(2 / 3 * 6 / 12)
    assert (found.shares[Per.POPULATION].k, found.shares[Per.POPULATION].n) == (2, 3)
    assert found.shares[Per.POPULATION].interval is None
    assert found.estimated == pytest.approx(4)


@pytest.mark.django_db
def test_it_lets_the_coded_of_a_stratum_stand_for_those_that_are_missing() -> None:
    world = make_reviewed_world()
    for place in (0, 1, 2):
        say(world, place, ["stale"] if place == 0 else [])
    for place in (6, 7, 8):
        say(world, place, ["stale"])
    found = taxonomy(world)
    # a third of the six of memory, and all six of no-skill
    assert rows(found)["stale"].shares[Per.POPULATION].value == pytest.approx((2 + 6) / 12)
    assert rows(found)["stale"].estimated == pytest.approx(8)


@pytest.mark.django_db
def test_it_names_a_stratum_of_which_nothing_is_coded() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"])
    assert uncoded_strata(taxonomy(world).coding.drawn) == ["no-skill"]


@pytest.mark.django_db
def test_it_has_rows_without_shares_before_anything_is_coded() -> None:
    found = rows(taxonomy(make_reviewed_world()))
    assert {row.shares[Per.POPULATION].value for row in found.values()} == {None}
    assert {row.shares[Per.POPULATION].note for row in found.values()} == {"nothing coded"}
    assert not any(row.is_used for row in found.values())


@pytest.mark.django_db
def test_it_groups_by_any_facet() -> None:
    found = taxonomy(all_coded())
    place = [code.name for code, _ in found.tree].index("tool")
    groups = found.groups("condition", Per.POPULATION)
    assert {name: (shares[place].k, shares[place].n) for name, shares in groups.items()} == {
        "memory": (1, 6),
        "no-skill": (2, 3),
    }
    assert list(groups) == ["memory", "no-skill"]  # the larger first
    assert list(found.groups("role", Per.ATTEMPTED)) == sorted(found.groups("role", Per.ATTEMPTED), key=_size(found))


def _size(found: Taxonomy) -> object:
    return lambda role: (-sum(item.facts.role == role for item in found.sampled), role)


@pytest.mark.django_db
def test_it_shows_controls_beside_the_population_and_not_in_it() -> None:
    world = all_coded()
    before = rows(taxonomy(world))["stale"].shares[Per.POPULATION]
    control = make_item(world.queue, trial=make_trial(success=True), is_control=True, inclusion=0.1)
    make_review(control, world.people[0], ["stale"])
    after = rows(taxonomy(world))["stale"]
    assert after.shares[Per.POPULATION] == before
    assert after.controls == (1, 1)
    assert rows(taxonomy(world))["tool"].controls == (0, 1)


@pytest.mark.django_db
def test_it_says_who_was_blamed() -> None:
    world = make_reviewed_world()
    make_review(world.items[0], world.people[0], ["stale"], mark={"attribution": "skill"})
    make_review(world.items[0], world.people[1], ["stale"], mark={"attribution": "agent"})
    make_review(world.items[1], world.people[0], ["stale"])
    found = taxonomy(world)
    stale = next(code for code in found.coding.codes if code.name == "stale")
    assert blame(found.sampled, found.coding.within(stale)) == {"skill": 0.5, "agent": 0.5, "": 1.0}


@pytest.mark.django_db
def test_it_counts_items_with_both_of_two_codes() -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale", "tool"], ["stale"])
    say(world, 1, ["tool"])
    say(world, 2, ["misapplied"])
    found = taxonomy(world)
    sets = [found.coding.within(code) for code in found.coding.codes if code.name in ("skill", "tool")]
    pair = count_together(found.sampled, sets)[0, 1]
    assert (pair.both, pair.either) == (0.5, 3.0)
    assert pair.share == pytest.approx(1 / 6)
    assert count_together(found.sampled, sets)[0, 0].both == 2  # the diagonal: how many carry it


# --- pure ------------------------------------------------------------------------------------------------------------

CODES = st.lists(st.frozensets(st.integers(0, 8), max_size=3), max_size=60)


@given(CODES)
def test_it_counts_new_codes_as_a_slow_count_does(items: list[frozenset[int]]) -> None:
    found = saturation_of(items)
    assert list(found.found) == [len(set().union(*items[: place + 1])) for place in range(len(items))]


@given(CODES)
def test_a_surprise_is_an_item_that_would_have_brought_a_new_code_had_it_come_last(items: list[frozenset[int]]) -> None:
    surprises = [bool(each - set().union(*items[:at], *items[at + 1 :])) for at, each in enumerate(items)]
    found = saturation_of(items)
    assert found.lone == sum(surprises)
    assert found.chance == (sum(surprises) / len(items) if items else None)


def test_it_says_how_often_more_coding_would_bring_more() -> None:
    one, two = frozenset([1]), frozenset([2])
    assert (
        saturation_of([one] * 15).sentence()
        == "1 cause in 15 items, each more than once. Of 100 more, 20 at most bring a new one."
    )
    assert (
        saturation_of([one, two, one, one, one]).sentence()
        == "2 causes in 5 items. Of 100 more, about 20 bring a new one, 62 at most."
    )
    assert saturation_of([]).sentence() == "Nothing is coded yet."
    assert saturation_of([frozenset()] * 3).sentence() == "No cause was used in 3 items."


def test_it_holds_guesses_against_naming_the_most_frequent() -> None:
    found = guesses_of([("a", "a")] * 5 + [("a", "b")] + [("b", "b")] * 4 + [("", "a")])
    assert (found.right, found.named, found.unsure, found.chance) == (9, 10, 1, 0.5)
    assert found.p == pytest.approx(11 / 1024)  # nine or ten heads of ten


def test_it_tests_no_guesses_where_there_is_nothing_to_tell() -> None:
    assert guesses_of([]).p is None
    assert guesses_of([("a", "a"), ("b", "a")]).p is None
    assert guesses_of([("", "a")]).unsure == 1

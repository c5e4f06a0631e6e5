"""inspector.pages.library.rail: an episode's spine as states of its library."""

from __future__ import annotations

import pytest

from benchapp.analysis.lineage.library_states import read_history
from benchapp.models import Entry, Episode, Refusal, Seeding
from inspector.evolution.decision_words import describe_seeding
from inspector.pages.library.rail import Rail, find_stops_beside, select
from tests.worlds.factories import (
    add_entry,
    freeze,
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db


def rail_of(episode: Episode):
    return Rail(read_history(episode))


def choose(rail, **query):
    return select(rail, **{"decision": None, "start": None, "end": None, **query})


@pytest.fixture
def rail():
    """Created, revised, rejected."""
    return rail_of(make_learning_run(families=1).episodes.get())


def test_it_names_every_state_and_says_what_each_decision_did(rail):
    assert [state.key for state in rail.states] == ["R0", "R1", "R2"]
    assert [(stop.word, stop.before.key, stop.after.key) for stop in rail.stops] == [
        ("Empty library", "R0", "R0"),
        ("Created", "R0", "R1"),
        ("Revised", "R1", "R2"),
        ("Rejected", "R2", "R2"),
        ("Frozen", "R2", "R2"),
    ]


@pytest.mark.parametrize(
    ("status", "word"), [("no-op", "No change"), ("rejected", "Rejected"), ("failed", "Failed"), ("applied", "Created")]
)
def test_it_has_a_word_for_every_outcome(status, word):
    episode = make_episode()
    after = make_snapshot() if status == "applied" else None
    make_decision(episode, make_family(), status=status, after=after, before=make_snapshot({}))
    assert [stop.word for stop in rail_of(episode).stops][1:] == [word]


def test_it_counts_seeded_skills_apart_from_rounds():
    episode, family = make_episode(), make_family()
    seeded = make_snapshot({"a/SKILL.md": "a\n"})
    add_entry(episode, "seed", seeding=Seeding.objects.create(family=family, snapshot=seeded))
    episode.library = seeded
    episode.save()
    make_decision(episode, family, after=make_snapshot({"a/SKILL.md": "b\n"}), operation_type="revise")
    freeze(episode)
    rail = rail_of(episode)
    assert [state.key for state in rail.states] == ["R0", "S1", "R1"]
    assert rail.seal.after.key == "R1"


def test_it_shows_an_import_without_decisions_as_one_state():
    episode = make_unordered_episode(library=make_snapshot())
    rail = rail_of(episode)
    assert [state.key for state in rail.states] == ["R0"]
    assert rail.states[0].snapshot == episode.library
    assert choose(rail).is_one_state


def test_it_selects_by_decision_by_states_and_by_digest(rail):
    assert choose(rail, decision="3").stop.word == "Rejected"
    by_states = choose(rail, start="R0", end="R2")
    assert (by_states.before.key, by_states.after.key, by_states.stop) == ("R0", "R2", None)
    assert choose(rail, end="R2").stop.word == "Revised"
    assert choose(rail, end=rail.states[1].digest).after.key == "R1"


@pytest.mark.parametrize("nonsense", ["", "R99", "-1", "<script>", "0", "1e9"])
def test_it_falls_back_to_the_last_change(rail, nonsense):
    selection = choose(rail, decision=nonsense, start=nonsense, end=nonsense)
    assert (selection.before.key, selection.after.key) == ("R1", "R2")


def test_it_walks_from_change_to_change(rail):
    words = []
    selection = choose(rail, decision="1")
    while True:
        words.append(selection.stop.word)
        following = find_stops_beside(rail, selection)[1]
        if following is None:
            break
        selection = choose(rail, decision=str(following.decision.number))
    assert words == ["Created", "Revised", "Rejected"]
    assert find_stops_beside(rail, selection)[0].word == "Revised"


@pytest.mark.parametrize(
    ("origin", "condition", "word"),
    [
        ("run", "selfgen-always", "Curated skill"),
        ("imported", "curated-static", "Curated skill"),
        ("imported", "selfgen-always", "Came without an author"),
    ],
)
def test_only_a_curated_skill_is_called_so(origin, condition, word):
    episode = make_episode(make_run(make_experiment(origin=origin), condition=condition))
    assert describe_seeding(episode.run, episode) == word


def test_a_difference_that_no_trial_made_is_no_refused_write():
    episode = make_episode()
    add_entry(episode, Entry.Kind.REFUSAL, refusal=Refusal.objects.create(paths=["a/SKILL.md"], reason="differs"))
    assert [stop.word for stop in rail_of(episode).stops][1:] == ["Source differs"]

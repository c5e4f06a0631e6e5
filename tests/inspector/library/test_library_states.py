"""Every page of a library names its states alike, whatever its spine is like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode
from benchapp.models import Entry, Episode, LibraryDiagnosis, Refusal, Seeding, Snapshot
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

REFUSED = ("rejected", "no-op", "failed")


def library(*rules: str) -> Snapshot:
    return make_snapshot({"a/SKILL.md": "".join(f"- {rule}\n" for rule in rules)} if rules else {})


def seed(episode: Episode, snapshot: Snapshot) -> None:
    seeding = Seeding.objects.create(family=make_family(), snapshot=snapshot)
    add_entry(episode, Entry.Kind.SEED, seeding=seeding)
    Episode.objects.filter(pk=episode.pk).update(library=snapshot)
    episode.refresh_from_db()


def twin(client: Client, episode: Episode, page: str, **query: str) -> dict[str, Any]:
    response = client.get(f"/runs/{episode.run.public_id}/{page}.json", {"episode": str(episode.public_id), **query})
    assert response.status_code == 200
    return response.json()


# --- worlds ------------------------------------------------------------------------------------------------------


def outcomes() -> Episode:
    """An author that creates, is refused in every way, and revises; then the freeze."""
    episode, family = make_episode(), make_family()
    make_decision(episode, family, after=library("one"))
    for status in REFUSED:
        make_decision(episode, family, status=status)
    add_entry(episode, Entry.Kind.REFUSAL, refusal=Refusal.objects.create(paths=["a/SKILL.md"], reason="frozen"))
    make_decision(episode, family, after=library("one", "two"))
    freeze(episode)
    return episode


def repeated_rounds() -> Episode:
    """An import that counts its rounds from one again."""
    episode, family = make_unordered_episode(make_run(make_experiment(origin="imported"))), make_family()
    for round_number, rules in ((1, ["one"]), (2, ["two"]), (1, ["three"]), (2, ["four"])):
        make_decision(episode, family, after=library(*rules), round=round_number)
    make_decision(episode, family, status="rejected", round=2)
    return episode


def seeded() -> Episode:
    """Skills that came without an author before, between and after rounds."""
    episode, family = make_episode(), make_family()
    seed(episode, library("one"))
    seed(episode, library("one", "two"))
    make_decision(episode, family, after=library("three"))
    seed(episode, library("three", "four"))
    return episode


def standalone() -> Episode:
    return make_unordered_episode(make_run(make_experiment(origin="imported")), library=library("one"))


def frozen_only() -> Episode:
    episode = make_episode(library=library("one"))
    freeze(episode)
    return episode


def started_with_a_library() -> Episode:
    episode = make_episode(library=library("zero"))
    make_decision(episode, make_family(), after=library("zero", "one"))
    return episode


def back_and_forth() -> Episode:
    """A library that comes back to what it was: each time is a state of its own."""
    episode, family = make_episode(), make_family()
    for rules in (["one"], ["two"], ["one"], []):
        make_decision(episode, family, after=library(*rules))
    return episode


def applied_without_a_change() -> Episode:
    episode, family = make_unordered_episode(make_run(make_experiment(origin="imported"))), make_family()
    make_decision(episode, family, after=library("one"))
    make_decision(episode, family, after=library("one"))
    make_decision(episode, family, after=library("two"))
    return episode


def moved_unseen() -> Episode:
    """An import whose library differs between its decisions, at its seal and at its end."""
    episode, family = make_unordered_episode(make_run(make_experiment(origin="imported"))), make_family()
    make_decision(episode, family, after=library("one"))
    make_decision(episode, family, before=library("elsewhere"), after=library("two"))
    episode.library = library("sealed")
    freeze(episode)
    episode.library = library("end")
    episode.save()
    return episode


# What the pages have to say of each world: the states by key and first rule, and what rules read in which order.
WORLDS: dict[Callable[[], Episode], tuple[list[str], list[str]]] = {
    outcomes: (["R0:", "R1:- one", "R2:- one- two"], ["- one", "- one- two"]),
    repeated_rounds: (
        ["R0:", "R1:- one", "R2:- two", "R1.3:- three", "R2.4:- four"],
        ["- one", "- two", "- three", "- four"],
    ),
    seeded: (
        ["R0:", "S1:- one", "S2:- one- two", "R1:- three", "S3:- three- four"],
        ["- one", "- one- two", "- three", "- three- four"],
    ),
    standalone: (["R0:- one"], ["- one"]),
    frozen_only: (["R0:- one"], ["- one"]),
    started_with_a_library: (["R0:- zero", "R1:- zero- one"], ["- zero", "- zero- one"]),
    back_and_forth: (["R0:", "R1:- one", "R2:- two", "R3:- one", "R4:"], ["- one", "- two"]),
    applied_without_a_change: (["R0:", "R1:- one", "R3:- two"], ["- one", "- two"]),
    moved_unseen: (["R0:", "R1:- one", "R2:- two"], ["- one", "- elsewhere", "- two", "- sealed", "- end"]),
}
worlds = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.__name__)


def text(snapshot: Snapshot | None) -> str:
    files = snapshot.read() if snapshot else {}
    return "".join(file.content.decode().replace("\n", "") for file in files.values())


def named(states: list[dict[str, Any]]) -> list[str]:
    found = Snapshot.objects.in_bulk([state["digest"] for state in states if state["digest"]], field_name="digest")
    return [f"{state['key']}:{text(found.get(state['digest']))}" for state in states]


@worlds
def test_the_time_machine_blame_and_findings_name_the_same_states(client: Client, world: Callable[[], Episode]) -> None:
    episode, expected = world(), WORLDS[world][0]
    keys = [state.partition(":")[0] for state in expected]
    found = twin(client, episode, "library")
    assert named(found["states"]) == expected
    blamed = twin(client, episode, "library/blame")
    assert blamed["states"] == keys
    assert blamed["at"] == keys[-1]
    filled = [state.partition(":")[0] for state in expected if not state.endswith(":")]
    findings = twin(client, episode, "library/findings")
    assert [column["round"] for column in findings["trend"]] == filled
    assert findings["round"] == keys[-1]


@worlds
def test_every_state_can_be_asked_for_by_its_key(client: Client, world: Callable[[], Episode]) -> None:
    episode = world()
    for state in WORLDS[world][0]:
        key = state.partition(":")[0]
        found = twin(client, episode, "library", **{"from": key, "to": key})
        assert (found["from"], found["to"]) == (key, key)
        assert twin(client, episode, "library/blame", at=key)["at"] == key
        assert twin(client, episode, "library/blame", at=key.removeprefix("R"))["at"] == key
        assert twin(client, episode, "library/findings", round=key.removeprefix("R"))["round"] == key


@worlds
def test_rules_read_every_library_that_the_spine_names(client: Client, world: Callable[[], Episode]) -> None:
    episode = world()
    diagnose_episode(episode)
    rows = LibraryDiagnosis.objects.filter(episode=episode).select_related("snapshot").order_by("pk")
    assert [text(row.snapshot) for row in rows] == WORLDS[world][1]


def test_a_decision_leads_from_one_state_to_the_next_or_stays(client: Client) -> None:
    steps = [
        (one["number"], one["status"], one["from"], one["to"])
        for one in twin(client, outcomes(), "library")["decisions"]
    ]
    assert steps == [
        (1, "applied", "R0", "R1"),
        (2, "rejected", "R1", "R1"),
        (3, "no-op", "R1", "R1"),
        (4, "failed", "R1", "R1"),
        (5, "applied", "R1", "R2"),
    ]
    steps = [(one["round"], one["from"], one["to"]) for one in twin(client, repeated_rounds(), "library")["decisions"]]
    assert steps == [
        (1, "R0", "R1"),
        (2, "R1", "R2"),
        (1, "R2", "R1.3"),
        (2, "R1.3", "R2.4"),
        (2, "R2.4", "R2.4"),
    ]


def test_each_episode_has_its_own_states(client: Client) -> None:
    run = make_learning_run(environments=2, families=1)
    first, second = run.episodes.order_by("ordinal")
    make_decision(second, make_family(), after=library("more"))
    assert [state["key"] for state in twin(client, first, "library")["states"]] == ["R0", "R1", "R2"]
    assert [state["key"] for state in twin(client, second, "library")["states"]] == ["R0", "R1", "R2", "R3"]


@worlds
def test_a_probe_offers_the_same_states(client: Client, world: Callable[[], Episode]) -> None:
    """Where the library has only one, there is nothing to choose from, and the page says so."""
    keys = [state.partition(":")[0] for state in WORLDS[world][0]]
    found = twin(client, world(), "library/probe")
    assert found["states"] == (keys if len(keys) > 1 else [])
    assert found["state"] == (keys[-1] if len(keys) > 1 else None)
    assert bool(found["problem"]) == (len(keys) == 1)


def test_a_probe_takes_a_round_back_that_an_import_counted_twice(client: Client) -> None:
    found = twin(client, repeated_rounds(), "library/probe", decision="3")
    assert (found["state"], found["decision"]) == ("R1.3", 3)
    assert [hunk["path"] for hunk in found["hunks"]] == ["a/SKILL.md"]

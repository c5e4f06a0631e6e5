from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Episode, Run
from tests.queries import assert_queries_flat
from tests.reading_trials import skill, trial_of
from tests.worlds.factories import (
    make_episode,
    make_learning_run,
    make_run,
    make_snapshot,
    make_trial,
    make_unordered_episode,
    make_user,
)
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db


def url(run: Run, query: str = "") -> str:
    return reverse("skills", args=[run.public_id]) + query


def twin(client: Client, run: Run, query: str = "") -> dict:
    return client.get(reverse("skills-json", args=[run.public_id]) + query).json()


def test_it_answers_first_with_counts_and_calls_them_association(client: Client) -> None:
    run = make_learning_run(environments=1, families=1)
    text = client.get(url(run)).text
    # of a family's nine trials eight have the skill mounted, and every other one of them reads it
    assert "<b>4/8</b> read" in text
    assert "Association only" in text
    assert "heuristic" in text


def test_its_twin_says_the_same(client: Client) -> None:
    run = make_learning_run(environments=1, families=1)
    found = twin(client, run)
    assert (found["funnel"]["available"]["total"], found["funnel"]["read"]["total"]) == (8, 4)
    (skill,) = found["skills"]
    assert len(found["silent_bypass"]) == skill["silent_bypass"] == 4
    assert len(found["read_and_failed"]) == skill["read_and_failed"]
    assert twin(client, run, "?phase=deployment")["funnel"]["available"]["total"] == 3


@pytest.mark.parametrize("query", ["?phase=x&whose=y&share=999&episode=z", "?skill=none", "?phase=evaluation"])
def test_nonsense_in_the_address_gives_a_page(client: Client, query: str) -> None:
    run = make_learning_run(environments=1, families=1)
    assert client.get(url(run, query)).status_code == 200


def test_a_run_without_skills_says_so(client: Client) -> None:
    run = make_run(condition="no-skill")
    make_trial(make_episode(run))
    assert "was given a skill" in client.get(url(run)).text


def test_names_from_trials_are_escaped(client: Client) -> None:
    run = make_run()
    name = "<b>bold</b>\u202e"
    make_trial(make_episode(run), snapshot=make_snapshot({f"{name}/SKILL.md": "x"}), success=False)
    text = client.get(url(run)).text
    assert "<b>bold" not in text
    assert "\u202e" not in text


def test_a_library_closed_to_a_blind_reviewer_closes_it(client: Client, settings: pytest.FixtureRequest) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    person = make_user(level="reviewer")
    run = make_learning_run(environments=1, families=1)
    make_queue([run.episodes.get().trials.first()], reviewers=[person])
    client.force_login(person)
    assert client.get(url(run)).status_code == 403


def test_trials_closed_to_a_blind_reviewer_are_left_out(client: Client, settings: pytest.FixtureRequest) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    person = make_user(level="reviewer")
    episode = make_unordered_episode(make_run())
    closed, told = (make_trial(episode, snapshot=make_snapshot(), success=False) for _ in range(2))
    make_queue([closed], reviewers=[person])
    client.force_login(person)
    found = twin(client, episode.run)
    assert found["silent_bypass"] == [str(told.public_id)]
    assert found["funnel"]["available"]["total"] == 1
    assert str(closed.public_id) not in client.get(url(episode.run)).text


def test_its_queries_do_not_grow(client: Client) -> None:
    episode: Episode = make_episode(make_run())

    def make(count: int) -> None:
        for number in range(count):
            files = skill(f"skill-{number}", f"Use tool_{number}.")
            trial_of(episode, snapshot=make_snapshot(files), read=[f"skill-{number}"], success=False)

    assert_queries_flat(client, url(episode.run), make)


def test_a_skill_leads_to_its_lines_and_its_findings(client: Client) -> None:
    run = make_learning_run(environments=1, families=1)
    text = client.get(url(run)).text
    (slug,) = {skill["skill"] for skill in twin(client, run)["skills"]}
    blame = reverse("blame", args=[run.public_id])
    assert f"{blame}?episode={run.episodes.get().public_id}&amp;skill={slug}" in text
    assert reverse("findings", args=[run.public_id]) in text


def test_a_skill_that_the_library_lost_leads_to_no_line(client: Client) -> None:
    run = make_learning_run(environments=1, families=1)
    run.episodes.update(library=make_snapshot({"other/SKILL.md": "o\n"}))
    assert reverse("blame", args=[run.public_id]) not in client.get(url(run)).text

"""The palette: what a few letters find, what nobody finds, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import Experiment, User
from inspector.web.access import local_user
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import make_episode, make_experiment, make_run, make_snapshot, make_suite
from tests.worlds.review_factories import make_queue
from tests.worlds.search_worlds import make_search_world

pytestmark = pytest.mark.django_db


def ask(client: Client, query: str) -> dict[str, list[dict[str, str]]]:
    """Kind -> rows."""
    response = client.get("/palette/", {"q": query})
    assert response.status_code == 200
    return {group["title"]: group["rows"] for group in response.json()["groups"]}


def titles(client: Client, query: str, kind: str) -> list[str]:
    return [row["title"] for row in ask(client, query).get(kind, [])]


def test_it_finds_every_kind_by_its_name_and_each_row_opens(client: Client) -> None:
    world = make_search_world()
    for query, kind, title in (
        ("search here", "Experiments", "Search <b>here</b>"),
        ("here always 1", "Runs", "Self-written, always revised, replicate 1"),
        ("csv", "Skills", "csv-handling"),
        (world.failed.task.title, "Tasks", world.failed.task.title),
        ("metrics", "Pages", "Metrics"),
        ("revi", "Pages", "Review"),
        ("launch", "Do", "Launch an experiment"),
    ):
        rows = [row for row in ask(client, query)[kind] if row["title"] == title]
        assert rows, (query, kind)
        assert client.get(rows[0]["url"]).status_code == 200


def test_the_name_that_begins_with_the_letters_leads(client: Client) -> None:
    for name in ("Tables again", "More tables", "Newest tables"):
        make_experiment(name=name)
    assert titles(client, "tab", "Experiments") == ["Tables again", "Newest tables", "More tables"]


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("own feedback", True),
        ("self-feedback", True),
        ("feedback replicate 7", True),
        ("feedback 8", False),
        ("gpt-9", True),
        ("one shot", False),
    ],
)
def test_a_run_is_found_by_condition_model_and_replicate(client: Client, query: str, is_found: bool) -> None:
    make_run(make_experiment(name="Rounds"), condition="self-feedback@4", replicate=7, agent_model="x/gpt-9")
    assert bool(titles(client, query, "Runs")) is is_found


def test_a_skill_leads_to_its_newest_library_and_counts_them_all(client: Client) -> None:
    runs = [make_run(make_experiment(name=f"Part {place}")) for place in range(3)]
    episodes = [make_episode(run, library=make_snapshot()) for run in runs]
    (row,) = ask(client, "tidy")["Skills"]
    assert row["about"] == "3 libraries, the newest in Part 2"
    assert f"episode={episodes[2].public_id}" in row["url"]


def test_nobody_finds_what_was_deleted(client: Client) -> None:
    make_episode(make_run(make_experiment(name="Tidy things")), library=make_snapshot())
    assert set(ask(client, "tidy")) == {"Experiments", "Runs", "Skills"}
    Experiment.objects.update(deleted_at=timezone.now())
    assert ask(client, "tidy") == {}


def test_a_closed_library_names_no_skill(client: Client) -> None:
    world = make_search_world()
    assert titles(client, "csv", "Skills")
    make_queue([world.failed], reviewers=[local_user()])
    assert not titles(client, "csv", "Skills")


def test_acts_are_those_the_person_may_do(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    assert client.get("/palette/?q=a", headers={"Accept": "application/json"}).status_code == 401
    expected = {"viewer": 1, "reviewer": 3, "operator": 6, "admin": 6}
    for level, acts in expected.items():
        client.force_login(User.objects.create_user(level, level=level))
        assert len(titles(client, ">", "Do")) == acts
        pages = [row["url"] for row in ask(client, "people")["Pages"]]
        assert ("/people/" in pages) is (level == "admin")


def test_after_the_sign_come_acts_alone_and_without_letters_nothing_else(client: Client) -> None:
    make_experiment(name="Compare these")
    assert list(ask(client, "compare")) == ["Experiments", "Do"]
    assert list(ask(client, "> compare")) == ["Do"]
    assert list(ask(client, "")) == ["Do"]


def test_the_queries_are_few_and_the_rows_bounded(client: Client) -> None:
    suite = make_suite(environments=1)

    def make(number: int) -> None:
        for _ in range(number):
            run = make_run(make_experiment(name="Canonical tidy", suite=suite))
            make_episode(run, library=make_snapshot())

    assert assert_queries_flat(client, "/palette/?q=tidy", make) <= 8
    make_queue(reviewers=[local_user()])
    assert count_queries(client, "/palette/?q=tidy") <= 8
    assert all(len(rows) <= 3 for rows in ask(client, "a").values())


@pytest.mark.parametrize("query", ["%", "_", "'\"\\", "²", "9" * 100, "a " * 60, "(", "\u202e", ">>"])
def test_odd_letters_break_nothing(client: Client, query: str) -> None:
    make_run()
    ask(client, query)

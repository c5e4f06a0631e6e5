from __future__ import annotations

import pytest
from django.test import Client

from inspector.pages.compare import compared_libraries_view
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_episode, make_experiment, make_learning_run, make_run, make_suite, make_trial

pytestmark = pytest.mark.django_db


def twin(client: Client, query: str = "") -> list[dict[str, object]]:
    return client.get(f"/compare/libraries.json{query}").json()["groups"]


def test_it_adds_up_what_became_of_the_libraries_of_a_group(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    for number in (1, 2):
        make_learning_run(experiment, replicate=number)
    (group,) = twin(client)
    # two runs of two environments of two families; per family two applied answers and one rejected
    assert (group["libraries"], group["skills"], group["files"]) == (4, 8, {"SKILL.md": 8})
    assert group["decisions"] == {"applied": 16, "rejected": 8}
    assert (group["skills_created"], group["skills_deleted"]) == (8, 0)
    assert (group["lines_added"], group["lines_removed"]) == (8 * (5 + 6), 8 * (0 + 1))
    later = group["later_trials"]
    # of a family's six later trials (places 3 to 8) all have its skill mounted and every other one reads it
    assert (later["trials"], later["mounted"], later["read_own"]) == (48, 48, 24)
    assert group["never_read"] == []


def test_a_group_without_a_library_has_no_row_and_is_counted(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1))
    make_learning_run(experiment)
    make_trial(make_episode(make_run(experiment, condition="no-skill", author_model="")), phase="deployment")
    text = client.get("/compare/libraries/").text
    assert "1 group has no library." in text
    assert "2 librar" not in text


def test_a_page_of_groups_without_a_library_leads_to_the_next(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_libraries_view, "GROUPS_PER_PAGE", 1)
    experiment = make_experiment(suite=make_suite(environments=1))
    make_trial(make_episode(make_run(experiment, condition="no-skill", author_model="")), phase="deployment")
    make_learning_run(experiment)
    pages = [client.get(f"/compare/libraries/?page={number}").text for number in (1, 2)]
    assert "No group on this page has a library." not in pages[0]
    empty = pages[1]
    assert "No group on this page has a library." in empty
    assert 'aria-label="Pages of groups"' in empty


def test_its_queries_do_not_grow(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))

    def make(count: int) -> None:
        for _ in range(count):
            make_learning_run(experiment, condition=f"c{experiment.runs.count()}")

    assert_queries_flat(client, "/compare/libraries/", make)

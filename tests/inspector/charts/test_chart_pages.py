"""The page of every chart and its twins: what they say, what a permalink keeps, what cannot be smuggled in."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from benchapp.models import Run
from inspector.charts import CHARTS
from tests.pages import make_world
from tests.worlds.factories import make_experiment, make_learning_run, make_run, make_suite

pytestmark = pytest.mark.django_db

HOSTILE = '<img src=x onerror="alert(1)">&lt;=1+1'


@pytest.mark.parametrize("published", ["", "?published=skillevolbench&published=skillflow&published=skilllearnbench"])
def test_it_answers_for_every_chart_in_three_forms(client: Client, published: str) -> None:
    make_world()
    for key in CHARTS:
        _answers(client, key, published)


def _answers(client: Client, key: str, published: str) -> None:
    page = client.get(f"/compare/charts/{key}/{published}")
    assert page.status_code == 200
    assert escape(CHARTS[key].question) in page.content.decode()
    answer = client.get(f"/compare/charts/{key}.json{published}").json()
    assert (answer["key"], answer["question"], answer["notes"] is not None) == (key, CHARTS[key].question, True)
    assert bool(answer["figure"]) != bool(answer["absent"])
    assert answer["dark"]["#ffffff"] == "#0d1117"
    titles = [column["key"] for column in answer["table"]["columns"]]
    assert all(set(row) == {*titles, "url"} for row in answer["table"]["rows"])
    rows = list(csv.reader(StringIO(client.get(f"/compare/charts/{key}.csv{published}").content.decode())))
    assert len(rows) == 1 + len(answer["table"]["rows"])
    assert all(len(row) == len(rows[0]) for row in rows)


def test_it_leads_from_a_mark_to_trials_that_are_there(client: Client) -> None:
    make_world()
    for key in CHARTS:
        urls = {row["url"] for row in client.get(f"/compare/charts/{key}.json").json()["table"]["rows"]} - {None}
        for url in sorted(urls)[:3]:
            assert client.get(url).status_code == 200, url


def test_it_knows_no_other_chart(client: Client) -> None:
    assert client.get("/compare/charts/nothing/").status_code == 404
    assert client.get("/compare/charts/nothing.csv").status_code == 404


def test_it_lets_no_name_become_markup(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2), name=HOSTILE)
    for condition in ("no-skill", "raw-trajectory", HOSTILE):
        make_learning_run(experiment, condition=condition, agent_model=HOSTILE, scripted=True)
    for key in CHARTS:
        assert "<img src=x" not in client.get(f"/compare/charts/{key}/").content.decode(), key
        figure = client.get(f"/compare/charts/{key}.json").content.decode().partition('"dark"')[0]
        assert "\\u003cimg" not in figure, key
        assert "<img" not in figure, key
        table = client.get(f"/compare/charts/{key}.csv").content.decode()
        assert not any(cell.startswith(("=", "@")) for row in csv.reader(StringIO(table)) for cell in row), key


def _drawn(answer: dict[str, Any]) -> list[Any]:
    """All of the figure but where its points lead: those addresses carry the time of the link."""
    traces = [{key: value for key, value in trace.items() if key != "customdata"} for trace in answer["figure"]["data"]]
    return [traces, answer["figure"]["layout"]]


def test_a_permalink_restores_every_choice_and_announces_what_came_later(client: Client) -> None:
    make_world()
    asked_for = "?metric=CSSR&option=metrics:all&published=skillevolbench&baseline=no-skill"
    first = client.get(f"/compare/charts/forest.json{asked_for}").json()
    assert client.get(f"/compare/charts/forest.json{asked_for}").json()["pin"]["runs_added_since"] == 0
    page = first["permalink"].partition("testserver")[2]
    assert page.startswith("/compare/charts/forest/?")
    suite = Run.objects.get(condition="no-skill").experiment.suite
    make_learning_run(make_experiment(suite=suite, name="later"), condition="later")
    again = client.get(page.replace("/?", ".json?")).json()
    assert _drawn(again) == _drawn(first)
    assert again["table"]["rows"] != []
    assert again["pin"]["runs_added_since"] == 1
    assert not again["pin"]["numbers_differ"]
    shown = client.get(page).content.decode()
    assert "<b>1 run</b>" in shown
    assert "later" not in again["figure"]["layout"].get("yaxis", {}).get("ticktext", [])
    assert '<option value="metrics:all" selected>' in shown
    assert '<option value="CSSR" selected>' in shown


def test_it_says_what_of_an_address_it_ignored(client: Client) -> None:
    make_run()
    query = "?metric=nonsense&option=metrics:everything&published=nobody&table=none&replicate=x"
    problems = client.get(f"/compare/charts/forest.json{query}").json()["problems"]
    assert [problem.split(":")[0] for problem in problems] == ["replicate", "table", "metric", "published", "option"]
    assert all(
        escape(problem) in client.get(f"/compare/charts/forest/{query}").content.decode() for problem in problems
    )


def test_it_gives_the_table_alone_to_the_page_that_unfolds_it(client: Client) -> None:
    make_world()
    part = client.get("/compare/charts/forest/", headers={"HX-Request": "true"})
    assert "<html" not in part.content.decode()
    assert "2 episodes with one replicate show too little of chance" in part.content.decode()
    assert "HX-Request" in part["Vary"]


def test_a_picture_says_what_it_measures_what_it_compares_and_who_stood_in_for_a_model(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2), name="Two ways")
    for condition in ("no-skill", "selfgen-always"):
        make_learning_run(experiment, condition=condition, scripted=True)
    caption = client.get("/compare/charts/forest.json?metric=ESR").json()["caption"]
    assert caption["title"] == "Deployment success: differences to the baseline"
    assert caption["lines"][0] == "Two ways"
    assert "A scripted or recorded model took part: these numbers say nothing about any LLM." in caption["lines"]
    every = client.get("/compare/charts/forest.json?option=metrics:all").json()["caption"]
    assert every["title"] == "Differences to the baseline"


def test_a_table_on_a_page_has_names_and_points_and_its_files_keep_keys(client: Client) -> None:
    make_world()
    page = client.get("/compare/charts/forest/?metric=ESR").content.decode().partition('id="table"')[2]
    assert "Self, always" in page
    assert "Deployment success" in page
    assert '<span class="unit light">points</span>' in page
    assert "selfgen-always</" not in page
    assert ">pp<" not in page
    (row, *_) = client.get("/compare/charts/forest.json?metric=ESR").json()["table"]["rows"]
    assert (row["metric"], row["against"].partition(" ")[0]) == ("ESR", "no-skill")
    assert "difference (pp)" in client.get("/compare/charts/forest.csv").content.decode()


def test_a_chart_without_numbers_is_one_sentence(client: Client) -> None:
    page = client.get("/compare/charts/forest/?condition=none-such").content.decode()
    assert "No run matches these choices." in page
    assert "<table" not in page.partition("<main")[2].partition("</main>")[0]
    assert "CSV" not in page


def test_a_chart_of_an_experiment_leads_back_to_it(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2), name="Two ways")
    make_learning_run(experiment, condition="no-skill")
    page = client.get(f"/compare/charts/forest/?experiment={experiment.public_id}").content.decode()
    assert f'<a href="{experiment.get_absolute_url()}" data-key="u">Two ways</a>' in page
    assert 'data-key="u">Comparison</a>' in client.get("/compare/charts/forest/").content.decode()

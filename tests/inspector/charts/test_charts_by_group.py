"""Charts split by what is said of tasks: the numbers counted by hand, and nothing changed where nobody asks for it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import QueryDict
from django.test import Client

from benchapp.models import Suite, Task, TaskGroup
from benchapp.stats.comparing.choices import Choices, parse_choices
from benchapp.stats.comparing.comparison import comparison_of
from inspector.charts import CHARTS
from inspector.charts.chart_request import build_sheet
from tests.worlds.charted import drawn
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
LEVELS = {"adversarial": "hard", "context-shift": "easy"}  # of two of the three deployed tasks of a family


def say(suite: Suite, attribute: str, by_role: dict[str, str]) -> None:
    tasks = Task.objects.filter(suite=suite, role__in=by_role)
    TaskGroup.objects.bulk_create(TaskGroup(task=task, attribute=attribute, value=by_role[task.role]) for task in tasks)


@pytest.fixture
def suite() -> Suite:
    """Two families. Deployment of each: no-skill passes context-shift;
    selfgen-always passes it and the adversarial task."""
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(F, F, F, T, F, F, F, F, F))
    make_learning_run(experiment, condition="selfgen-always", outcomes=(F, F, F, T, T, F, F, F, F))
    return suite


def records(key: str, query: str) -> list[dict[str, Any]]:
    return drawn(CHARTS[key], query).table.records()


def test_gains_are_the_mean_of_the_families_differences_in_each_group(suite: Suite) -> None:
    say(suite, "difficulty", LEVELS)
    rows = records("gains", "option=by:difficulty&metric=ESR")
    assert [(row["place"], row["difference"], row["families"], row["tasks"]) for row in rows] == [
        ("easy", 0.0, 2, 2),  # in the order of difficulty, not of the alphabet
        ("hard", 100.0, 2, 2),
    ]


def test_categories_count_the_tasks_of_each_group_and_lead_to_their_trials(suite: Suite, client: Client) -> None:
    say(suite, "difficulty", LEVELS)
    chart = drawn(CHARTS["categories"], "option=by:difficulty&metric=ESR")
    found = {(row["category"], row["group"]): (row["passed"], row["scored"]) for row in chart.table.records()}
    assert found == {
        ("easy", "no-skill"): (2, 2),
        ("easy", "selfgen-always"): (2, 2),
        ("hard", "no-skill"): (0, 2),
        ("hard", "selfgen-always"): (2, 2),
    }
    url = next(row.url for row in chart.table.rows if row.values[:2] == ("hard", "selfgen-always"))
    assert parse_qs(urlsplit(url).query)["group"] == ["difficulty:hard"]
    page = client.get(url)
    assert "2 trials, 2 of 2 scored passed." in page.text
    assert "difficulty hard" in page.text


def test_environments_take_a_group_as_their_columns(suite: Suite) -> None:
    say(suite, "difficulty", LEVELS)
    rows = [row for row in records("environments", "option=by:difficulty") if row["metric"] == "ESR"]
    assert {(row["condition"], row["difficulty"], row["passed"], row["scored"]) for row in rows} == {
        ("no-skill", "easy", 2, 2),
        ("no-skill", "hard", 0, 2),
        ("selfgen-always", "easy", 2, 2),
        ("selfgen-always", "hard", 2, 2),
    }


def test_a_task_with_several_values_counts_in_each_and_the_chart_says_so(suite: Suite) -> None:
    say(suite, "trap", {"adversarial": "shortcut"})
    say(suite, "trap", {"adversarial": "generic"})
    chart = drawn(CHARTS["categories"], "option=by:trap&metric=ESR")
    assert {row["category"] for row in chart.table.records()} == {"shortcut", "generic"}
    assert {row["scored"] for row in chart.table.records()} == {2}
    assert any("counts in each of them" in note for note in chart.notes)


def test_ranks_stand_by_their_size_and_say_what_they_are(suite: Suite) -> None:
    say(suite, "rank", {"context-shift": "10", "adversarial": "9"})
    rows = records("categories", "option=by:rank&metric=ESR")
    assert list(dict.fromkeys(row["category"] for row in rows)) == ["difficulty rank 9", "difficulty rank 10"]


def test_only_attributes_of_the_compared_suites_are_offered(suite: Suite, client: Client) -> None:
    say(suite, "domain", {"adversarial": "Finance"})
    say(make_suite(environments=1, families=1), "augmentation", {"adversarial": "rephrased"})
    page = client.get("/compare/charts/gains/")
    assert 'value="by:domain"' in page.text
    assert "by:augmentation" not in page.text
    choices, _ = parse_choices(QueryDict("option=by:augmentation"))
    sheet = build_sheet(choices, CHARTS["gains"])
    assert sheet.problems == ("option: 'by:augmentation' ignored, expected by: environment, family, domain",)


def test_groups_change_no_fingerprint_and_no_default_chart(suite: Suite) -> None:
    before = comparison_of(Choices()).fingerprint, [records(key, "") for key in ("gains", "categories", "environments")]
    say(suite, "difficulty", LEVELS)
    after = comparison_of(Choices()).fingerprint, [records(key, "") for key in ("gains", "categories", "environments")]
    assert after == before


def test_an_unknown_group_of_the_address_shows_no_trials(client: Client, suite: Suite) -> None:
    response = client.get("/compare/trials.json?group=hard")
    assert response.status_code == 400
    assert response.json()["problems"] == [
        "group: expected an attribute and a value, such as difficulty:easy; found 'hard'"
    ]
    assert client.get("/compare/trials.json?group=difficulty:hard").json()["planned"] == 0

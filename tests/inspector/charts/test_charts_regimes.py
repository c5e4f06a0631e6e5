"""One method in two settings: pairs by hand, and what no pair is made of."""

from __future__ import annotations

import pytest
from django.test import Client

from benchapp.models import Run, Suite
from benchapp.stats.comparing.choices import Choices
from inspector.charts.chart_request import build_sheet
from inspector.charts.figures.regimes import CHART
from tests.inspector.charts.test_charts_honest import HOSTILE, texts_of
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
PROTOCOLS = ("skillgenbench", "skillgenbench-agnostic")
DEPLOYED = {"skillgenbench": (T, T, F), "skillgenbench-agnostic": (T, F, F)}


def make_world(conditions: tuple[str, ...] = ("no-skill", "naive-prompt"), author: str = "a") -> Suite:
    """Without skills a third passes in both settings; with them two thirds or a third."""
    suite = make_suite(environments=1, families=2)
    for protocol in PROTOCOLS:
        add_setting(suite, protocol, conditions, author)
    return suite


def add_setting(suite: Suite, protocol: str, conditions: tuple[str, ...], author: str = "a") -> None:
    experiment = make_experiment(suite=suite, spec={"protocol": protocol})
    for condition in conditions:
        passed = (T, F, F) if condition == "no-skill" else DEPLOYED[protocol]
        make_learning_run(
            experiment,
            condition=condition,
            author_model="" if condition == "no-skill" else author,
            outcomes=(F, F, F, *passed, F, F, F),
            setup={"protocol": protocol},
        )


def test_it_pairs_each_method_with_itself_in_the_other_setting() -> None:
    make_world()
    drawing = drawn(CHART, "metric=ESR")
    told = {row["condition"]: row for row in drawing.table.records()}
    assert set(told) == {"no-skill", "naive-prompt"}
    naive = told["naive-prompt"]
    assert (naive["conditioned"], naive["agnostic"]) == (pytest.approx(200 / 3), pytest.approx(100 / 3))
    assert (naive["difference"], naive["tasks"], naive["low"]) == (pytest.approx(100 / 3), 6, None)
    assert told["no-skill"]["difference"] == 0.0
    marks = [trace for trace in drawing.figure.data if trace.name in ("task-conditioned", "task-agnostic")]  # type: ignore[union-attr]
    shown = {x for trace in marks for x in trace.x}
    assert shown == {row[side] for row in told.values() for side in ("conditioned", "agnostic")}


def test_it_takes_no_pair_from_one_setting_or_from_several_experiments() -> None:
    suite = make_world(("no-skill", "naive-prompt"))
    add_setting(suite, PROTOCOLS[0], ("iterative",))
    add_setting(suite, PROTOCOLS[1], ("naive-prompt",))
    assert [row["condition"] for row in drawn(CHART, "metric=ESR").table.records()] == ["no-skill"]


def test_it_waits_for_both_settings() -> None:
    add_setting(make_suite(environments=1, families=2), PROTOCOLS[0], ("no-skill", "naive-prompt"))
    assert CHART.lacks(build_sheet(Choices())) == "Needs runs of a corpus task by task, and for the whole corpus."
    assert "both settings" in drawn(CHART, "metric=ESR").absent


def test_the_page_says_what_is_compared_and_warns_of_nothing(client: Client) -> None:
    make_world()
    page = client.get("/compare/?metric=ESR").text
    assert "Compares two settings: task-conditioned and task-agnostic. Nothing else differs in the setups." in page
    assert "Not comparable" not in page
    assert client.get("/compare.json?metric=ESR").json()["setup"]["settings"] == [*PROTOCOLS]
    for run in Run.objects.filter(setup__protocol=PROTOCOLS[0]):
        Run.objects.filter(pk=run.pk).update(setup={**run.setup, "samples": 3}, revision=run.revision + 1)
    page = client.get("/compare/?metric=ESR").text
    assert "Not comparable:</b> setups differ in samples" in page


def test_hostile_names_are_text_and_queries_do_not_grow() -> None:
    suite = make_world((HOSTILE,), HOSTILE)
    few = queries_of(CHART, "metric=ESR")
    texts = texts_of(drawn(CHART, "metric=ESR").figure.to_plotly_json())  # type: ignore[union-attr]
    assert not [text for text in texts if "<a" in text]
    assert any("&lt;a" in text for text in texts)
    for protocol in PROTOCOLS:
        add_setting(suite, protocol, ("iterative", "naive-prompt"))
    assert queries_of(CHART, "metric=ESR") <= few

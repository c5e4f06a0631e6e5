"""The charts of a tab: drawn by the server where they are bars or cells, one sentence where there is nothing to see."""

from __future__ import annotations

import pytest
from django.test import Client

from benchapp.stats.comparing.choices import Choices
from inspector.charts import OF_PAGES
from inspector.charts.chart_request import Gallery, build_sheet
from tests.pages import make_world
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
HOSTILE = "<b onmouseover=alert(1)>"


def test_each_chart_is_drawn_or_has_its_sentence() -> None:
    make_world()
    sheet = build_sheet(Choices())
    for charts in OF_PAGES.values():
        gallery = Gallery(charts, sheet)
        listed = [*gallery.sentences, *gallery.waiting]
        assert len(gallery.cards) + len(listed) == len(charts)
        assert all(sentence.endswith(".") for _, sentence in listed)
        assert all(card.drawing for card in gallery.cards)


def make_alike() -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    for condition in ("one-shot", HOSTILE):
        make_learning_run(experiment, condition=condition, outcomes=(T, F, F, T, T, F, F, F, F))


def test_a_chart_without_a_contrast_is_a_sentence_with_a_link(client: Client) -> None:
    make_alike()
    page = client.get("/compare/libraries/").content.decode()
    assert 'id="chart-file-kinds"' not in page
    assert "What libraries consist of</a>: The same in all 2 conditions: " in page
    assert "/compare/charts/file-kinds/" in page


def test_the_title_is_the_finding_and_the_question_stays(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    make_learning_run(experiment, condition="no-skill", outcomes=(F,) * 9)
    make_learning_run(experiment, condition="selfgen-always", outcomes=(T,) * 9)
    for address in ("/compare/where/", "/compare/charts/instances/"):
        page = client.get(address).content.decode()
        assert "Families passed whole: Self, always 2 of 2; No skill 0 of 2" in page
        assert "Do skills solve whole families?" in page


def test_bars_and_cells_need_no_script_and_hold_no_markup_of_others(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="no-skill", outcomes=(F,) * 9)
    make_learning_run(experiment, condition=HOSTILE, outcomes=(T, F, F, T, T, F, F, F, F))
    page = client.get("/compare/where/").content.decode()
    assert 'class="lanes bars chart-bars"' in page
    assert 'class="heat"' in page
    assert "chart-plot" not in page
    assert '<script src="/static/vendor/plotly' not in page
    assert "<b onmouseover" not in page
    assert "&lt;b onmouseover" in page

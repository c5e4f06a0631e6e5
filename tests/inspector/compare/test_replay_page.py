"""`/compare/replay/`: what replay fixed and broke, in a sentence and as bars, beside luck."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from inspector.pages.compare.lanes import draw_share
from inspector.pages.compare.tabs_view import draw_two_sided
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db
T, F = True, False


def page(client: Client) -> str:
    return " ".join(re.sub("<[^>]+>", " ", client.get("/compare/replay/").text).split())


def test_it_answers_with_counts_over_all_that_learned(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    # per family: three learning tasks, three new ones, the learning tasks again
    make_learning_run(experiment, condition="selfgen-always", outcomes=(T, F, F, F, F, F, F, T, T))
    assert "Replay fixed 2 of 2 failures and broke 1 of 1 passes." in page(client)


def test_a_second_try_without_skills_is_told_beside_it(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="selfgen-always", outcomes=(T, F, F, F, F, F, T, T, T))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(F, F, F, F, F, F, T, F, F))
    said = page(client)
    assert "Replay fixed 2 of 2 failures and broke 0 of 1 passes." in said
    assert "A second try without skills fixed 1 of 3 failures and broke 0 of 0 passes." in said
    assert "Beyond a second try" in said


def test_an_empty_record_says_so(client: Client) -> None:
    assert "No run replayed a task of acquisition." in page(client)


def test_bars_share_an_axis_and_begin_at_its_zero() -> None:
    drawn = draw_two_sided((0.25, 0.75), "selfgen-always", (0.25, 0.75), (0.0, 0.1), 'a "quote"')
    assert 'class="zero-line" x1="25.00%"' in drawn
    assert drawn.count('class="bar') == 2
    assert drawn.count('class="luck"') == 2
    assert 'aria-label="a &quot;quote&quot;"' in drawn


def test_a_share_shows_its_interval_only_where_it_has_one() -> None:
    assert "whisker" not in draw_share("no-skill", 0.5, None, "")
    assert 'x1="25.00%" x2="75.00%"' in draw_share("no-skill", 0.5, (0.25, 0.75), "")


def test_the_legend_has_the_colours_of_the_bars(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="selfgen-always", outcomes=(T, F, F, F, F, F, F, T, T))
    text = client.get("/compare/replay/").text
    assert text.count('<svg class="mark c-own-3"') >= 2
    assert 'class="bar soft c-own-3"' in text
    assert "full colour: share of pairs that replay fixed" in page(client)

"""One rule for every chart: the sentence where conditions are alike, and the title where they differ."""

from __future__ import annotations

import pytest

from inspector.charts import CHARTS
from inspector.charts.chart import Answer
from inspector.charts.chart_request import say_alike, write_finding

GROWN = (
    Answer("curated-static", 3, "3", "skills a library"),
    Answer("selfgen-always", 12, "12", "skills a library"),
)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((4, 4), "The same in all 2 conditions: 4 files."),
        ((4, 3.75), "About the same in all 2 conditions: 3.75 to 4 files."),
        ((0, 0), "The same in all 2 conditions: 0 files."),
        ((4, 3), ""),  # more than a tenth apart
        ((4,), ""),  # nothing to be like
    ],
)
def test_it_says_that_conditions_are_alike(values: tuple[float, ...], sentence: str) -> None:
    answers = [
        Answer(who, value, f"{value:g}", "files") for who, value in zip(("no-skill", "one-shot"), values, strict=False)
    ]
    assert say_alike(answers) == sentence


def test_one_place_that_differs_is_enough_for_a_chart() -> None:
    alike = [Answer(who, 2, "2", "scripts") for who in ("no-skill", "one-shot")]
    assert say_alike(alike)
    assert not say_alike([*alike, *GROWN])
    assert "4 groups: " in say_alike([Answer(f"no-skill · m{number}", 1, "1") for number in range(4)])


def test_a_title_is_the_largest_contrast_in_amounts() -> None:
    template = "{high} ends with {most} {what}; {low} with {least}"
    small = [Answer(who, value, str(value), "files") for who, value in (("no-skill", 1), ("one-shot", 2))]
    title = "Self, always ends with 12 skills a library; Human, as is with 3"
    assert write_finding(template, [*small, *GROWN]) == title
    assert write_finding("{low} {least}", [*GROWN, Answer("one-shot", 3, "3", "skills a library")]) == (
        "Human, as is and Self, one shot 3"
    )


def test_without_a_contrast_the_title_stays_neutral() -> None:
    assert write_finding("{high}", [Answer("no-skill", 1, "1"), Answer("one-shot", 1, "1")]) == ""
    assert write_finding("", GROWN) == ""
    assert write_finding("{high}", GROWN[:1]) == ""


def test_every_template_can_be_filled_and_judges_nothing() -> None:
    for chart in CHARTS.values():
        title = write_finding(chart.finding, GROWN)
        assert not chart.finding or "12" in title
        assert not {"better", "worse", "helps", "hurts"} & set(chart.finding.split())

"""Names beside marks: none covers a mark or another name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.charts.drawing.chart_pairs import AWAY, HIGH, LETTER, MARK, MarkLabel, labels_of, spread

SPOTS = st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), min_size=1, max_size=12)


def corner(spot: tuple[float, float], label: MarkLabel) -> tuple[float, float, float, float]:
    """Left, low, right, high of what plotly writes there."""
    (x, y), wide = spot, LETTER * len(label.text)
    left = {"left": x - AWAY - wide, "right": x + AWAY, "center": x - wide / 2}[label.place.split()[1]]
    low = {"top": y + AWAY, "bottom": y - AWAY - HIGH, "middle": y - HIGH / 2}[label.place.split()[0]]
    return left, low, left + wide, low + HIGH


def apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@given(SPOTS)
def test_it_covers_neither_marks_nor_names(spots: list[tuple[float, float]]) -> None:
    labels = labels_of(spots, [f"model {place}" for place in range(len(spots))], 300)
    boxes = [corner(spot, label) for spot, label in zip(spots, labels, strict=True) if label.text]
    marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in spots]
    for place, box in enumerate(boxes):
        assert all(apart(box, mark) for mark in marks)
        assert all(apart(box, other) for other in boxes[:place])


def test_it_prefers_the_place_above_and_takes_the_next_free_one() -> None:
    alone = labels_of([(50, 50), (200, 150)], ["one", "two"], 300)
    assert [(label.text, label.place) for label in alone] == [("one", "top center"), ("two", "top center")]
    below_another = labels_of([(50, 50), (50, 66)], ["one", "two"], 300)
    assert [label.place for label in below_another] == ["bottom center", "top center"]
    assert labels_of([(50, 50)], [""], 300) == [MarkLabel()]


def test_it_leaves_a_name_out_where_every_place_is_taken() -> None:
    around = [(50, 50), (50, 64), (50, 36), (66, 50), (34, 50)]
    assert labels_of(around, ["name", "", "", "", ""], 300)[0].text == ""


def test_it_keeps_names_inside_the_panel() -> None:
    assert labels_of([(295, 100)], ["a long name"], 300)[0].place == "middle left"
    assert labels_of([(50, 100)], ["a name wider than its panel"], 60)[0].text == ""


def test_it_spreads_values_over_the_panel() -> None:
    assert spread([1, 2], 100, [1, 2, 3]) == pytest.approx([6, 50])
    assert spread([5], 100, [5]) == pytest.approx([6])

"""The palette by computation: contrast in both themes, apart for every eye, never colour alone."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchapp.stats.comparing.condition_names import KNOWN
from inspector.charts.drawing import palette

Vector = NDArray[np.float64]
TOKENS = Path(__file__).resolve().parents[3] / "static" / "css" / "tokens.css"
# Machado, Oliveira and Fernandes 2009: what an eye without one kind of cone sees, on linear RGB.
EYES = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> Vector:
    channels = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2's ratio."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Vector) -> Vector:
    x, y, z = np.cbrt(XYZ @ np.clip(rgb, 0, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(("theme", "background"), [(0, "#ffffff"), (1, "#0d1117")])
def test_it_keeps_every_series_visible_on_the_page(theme: int, background: str) -> None:
    for pair in palette.SERIES:
        assert contrast(pair[theme], background) >= 3, pair
    for light in (palette.INK, palette.MUTED):
        text = light if theme == 0 else palette.SURFACES[light]
        assert contrast(text, background) >= 4.5


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", [0, 1])
def test_it_keeps_any_two_series_apart_for_every_eye(theme: int, eye: str) -> None:
    seen = {pair: lab(np.asarray(EYES[eye]) @ linear(pair[theme])) for pair in palette.SERIES}
    for one, other in combinations(palette.SERIES, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 20, (one, other)


def test_it_never_tells_series_apart_by_colour_alone() -> None:
    styles = [palette.series(place) for place in range(40)]
    assert len({(style.colour, style.symbol) for style in styles}) == 40
    for one, other in combinations(styles[:8], 2):
        assert one.symbol != other.symbol
    assert styles[0].open.symbol == "circle-open"


@pytest.mark.parametrize("scale", [palette.DIVERGING, palette.SEQUENTIAL])
def test_it_lets_a_number_be_read_on_every_step_of_a_scale(scale: palette.Scale) -> None:
    for (_, low), (_, high) in zip(scale, scale[1:], strict=False):
        for twin, ink in (
            (lambda colour: colour, palette.INK),
            (palette.twins().__getitem__, palette.twins()[palette.INK]),
        ):
            ends = [np.array([int(twin(colour)[at : at + 2], 16) for at in (1, 3, 5)]) for colour in (low, high)]
            for share in np.linspace(0, 1, 9):
                mixed = np.rint(ends[0] * (1 - share) + ends[1] * share).astype(int)
                assert contrast(ink, "#{:02x}{:02x}{:02x}".format(*mixed)) >= 4.5


def test_it_has_a_neutral_middle_and_a_twin_for_every_colour() -> None:
    twins = palette.twins()
    middle = dict(palette.DIVERGING)[0.5]
    for colour in (middle, twins[middle]):
        red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
        assert max(red, green, blue) - min(red, green, blue) <= 20
    used = {colour for scale in (palette.DIVERGING, palette.SEQUENTIAL) for _, colour in scale}
    used |= set(re.findall(r"#[0-9a-f]{6}", str(palette.layout())))
    assert used <= set(twins)
    sources = (palette.SURFACES, palette.SERIES, palette.PARTS, palette.DARK_SCALES, palette.CONDITIONS)
    assert len(set(twins)) == sum(len(source) for source in sources)


def test_it_has_the_surfaces_of_the_pages() -> None:
    css = TOKENS.read_text()
    pairs = {
        name: tuple(found) for name, *found in re.findall(r"--(bg|fg|fg-muted): light-dark\((#\w+), (#\w+)\)", css)
    }
    for name, light in (("bg", palette.BACKGROUND), ("fg", palette.INK), ("fg-muted", palette.MUTED)):
        assert pairs[name] == (light, palette.SURFACES[light])


def test_it_gives_names_their_style_in_order_and_no_skill_its_own() -> None:
    styles = palette.by_name(["no-skill", "b", "a", "b"])
    assert styles["b"] == palette.series(0)
    assert styles["a"] == palette.series(1)
    assert styles["no-skill"].colour == palette.CONDITIONS["none"][0]
    assert palette.veil("#1c308d", 0.2) == "rgba(28,48,141,0.2)"


@pytest.mark.parametrize(("theme", "background"), [(0, "#ffffff"), (1, "#0d1117")])
def test_conditions_look_the_same_in_charts_and_on_pages(theme: int, background: str) -> None:
    in_css = dict(re.findall(r"--c-([\w-]+): light-dark\((#\w+, #\w+)\)", TOKENS.read_text()))
    assert in_css == {name: ", ".join(pair) for name, pair in palette.CONDITIONS.items()}
    for pair in palette.CONDITIONS.values():
        assert contrast(pair[theme], background) >= 3, pair


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", [0, 1])
def test_conditions_of_one_shape_stay_apart_for_every_eye(theme: int, eye: str) -> None:
    drawn = [(palette.CONDITIONS[name.colour], name.shape) for name in {n.colour: n for n in KNOWN.values()}.values()]
    for (one, shape), (other, other_shape) in combinations(drawn, 2):
        seen = [lab(np.asarray(EYES[eye]) @ linear(pair[theme])) for pair in (one, other)]
        assert shape != other_shape or np.linalg.norm(seen[0] - seen[1]) > 12, (one, other)

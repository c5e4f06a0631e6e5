"""What a call costs by a preset's own prices."""

from __future__ import annotations

import pytest

from runner.base.types import Usage
from runner.models import make_model
from runner.models.call_prices import call_cost, prices_of
from runner.models.preset import Prices
from runner.models.presets import read_preset_named


def test_cached_input_is_part_of_the_input_and_paid_for_once() -> None:
    prices = Prices(input=2.0, output=10.0, cached=0.5)
    cost = prices.cost(Usage(1_000_000, 400_000, 100_000))
    assert cost == pytest.approx(0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 10.0)


def test_cached_input_without_a_price_of_its_own_costs_what_other_input_costs() -> None:
    assert Prices(input=2.0, output=10.0).cost(Usage(1_000_000, 400_000, 0)) == pytest.approx(2.0)


@pytest.mark.parametrize("usage", [Usage(), Usage(input_tokens=5), Usage(output_tokens=5)])
def test_unknown_tokens_have_no_price(usage: Usage) -> None:
    assert Prices(1.0, 1.0).cost(usage) is None


def test_a_price_of_zero_is_a_price() -> None:
    assert Prices(0.0, 0.0).cost(Usage(5, 0, 5)) == 0.0


def test_the_prices_of_a_preset_are_those_its_calls_are_billed_by() -> None:
    usage, preset = Usage(20_000, 12_000, 900), read_preset_named("claude-opus-4.6")
    prices = prices_of(make_model(preset.name))
    assert prices is not None
    assert prices.cost(usage) == pytest.approx(call_cost(preset, usage))
    assert prices == prices_of(make_model(f"litellm/{preset.host_model}"))


@pytest.mark.parametrize("name", ["scripted/apprentice", "litellm/openai/no-such-model", "kimi-k2.5"])
def test_without_a_price_nothing_is_guessed(name: str) -> None:
    assert prices_of(make_model(name)) is None

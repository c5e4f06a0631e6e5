"""What calls used together: unknown stays unknown, and what is known is kept beside it."""

from __future__ import annotations

from itertools import permutations

import pytest

from runner.base.types import Usage
from runner.models import price_table_of
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset, Prices
from tests.cases import every

PRICED, MORE, UNPRICED = Usage(10, 4, 1, 0.5), Usage(20, None, 2, 0.25), Usage(5, None, 1)


def test_parts_that_all_tell_their_cost_add_up() -> None:
    assert Usage(30, 4, 3, 0.75) == PRICED + MORE


@every(*((parts,) for parts in permutations((PRICED, UNPRICED, MORE, Usage()))))
def test_a_part_with_tokens_and_no_cost_makes_the_cost_unknown_and_keeps_what_the_others_cost(
    parts: tuple[Usage, ...],
) -> None:
    total = sum(parts, Usage())
    assert total == Usage(35, 4, 4, None, priced_usd=0.75)
    assert total + total == Usage(70, 8, 8, None, priced_usd=1.5)
    assert (total.is_unpriced, total.known_usd) == (True, 0.75)


@pytest.mark.parametrize("nothing", [Usage(), Usage(0, 0, 0)])
def test_what_used_nothing_changes_no_cost(nothing: Usage) -> None:
    assert (PRICED + nothing).cost_usd == (nothing + PRICED).cost_usd == 0.5
    assert not (PRICED + nothing).is_unpriced


def test_where_nothing_tells_a_cost_no_part_of_it_is_known() -> None:
    assert Usage(10, None, 2) == UNPRICED + UNPRICED
    assert Usage(5, None, 1, 0.0) + UNPRICED == Usage(10, None, 2, None, priced_usd=0.0)


@every(*((parts,) for parts in permutations((PRICED, Usage(5), MORE, Usage()))))
def test_a_part_that_says_what_it_read_and_not_what_it_wrote_leaves_a_lower_bound(parts: tuple[Usage, ...]) -> None:
    total = sum(parts, Usage())
    assert (total.input_tokens, total.output_tokens, total.output_at_least) == (35, None, 3)
    assert (total + total).output_at_least == 6
    assert (total.known_tokens, total.input_at_least) == (38, None)


def test_a_part_that_says_what_it_wrote_and_not_what_it_read_leaves_a_lower_bound() -> None:
    total = PRICED + Usage(output_tokens=2, cost_usd=0.1)
    assert (total.input_tokens, total.input_at_least, total.output_tokens) == (None, 10, 3)


def test_a_call_without_usage_data_makes_every_sum_a_lower_bound() -> None:
    total = PRICED.in_part()
    assert total == Usage(cached_tokens=4, priced_usd=0.5, input_at_least=10, output_at_least=1)
    assert total.in_part() == total
    assert (total + MORE).known_tokens == 33
    assert total.is_unpriced
    assert Usage().in_part() == Usage()


def test_the_price_list_behind_a_part_of_a_cost_is_named() -> None:
    model = LiteLLM.of_preset(Preset("house", "house", "shell", "m", "openai/m", prices=Prices(1.0, 1.0)))
    assert price_table_of(model, PRICED + UNPRICED) == "preset house"
    assert price_table_of(model, UNPRICED) == ""

"""What calls cost that were not made here: those of a program in a sandbox, and those to come."""

from __future__ import annotations

from runner.base.types import Usage
from runner.models import Model
from runner.models.litellm.litellm_package import load_litellm
from runner.models.preset import MILLION, Preset, Prices


def call_cost(preset: Preset, usage: Usage, cache_written: int = 0) -> float | None:
    """US dollars for the tokens of one call, by the same prices as calls made on this side; None where it has none.

    cache_written: of the input, what the provider put into its cache, where it charges for that.
    """
    if preset.prices is not None:
        return preset.prices.cost(usage, cache_written)
    if preset.api_base or preset.api_base_variable or usage.input_tokens is None or usage.output_tokens is None:
        return None
    litellm = load_litellm()
    try:
        parts = litellm.cost_per_token(
            model=preset.host_model,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cache_read_input_tokens=usage.cached_tokens or 0,
            cache_creation_input_tokens=cache_written,
        )
    except Exception:  # litellm raises a bare Exception for a model without a price
        return None
    return float(sum(parts)) or None


def prices_of(model: Model) -> Prices | None:
    """What its tokens cost in sum, for estimates: the preset's prices, else the price list's for prompts of usual length.

    None where nobody states any: scripted models, addresses of one's own, models that the list does not have.
    """
    preset = model.preset
    if preset is not None and preset.prices is not None:
        return preset.prices
    if not model.priced:
        return None
    name = model.name.partition("/")[2] if preset is None else preset.host_model
    found = load_litellm().get_model_info(name)
    cached, written = found.get("cache_read_input_token_cost"), found.get("cache_creation_input_token_cost")
    return Prices(
        found["input_cost_per_token"] * MILLION,
        found["output_cost_per_token"] * MILLION,
        None if cached is None else cached * MILLION,
        None if written is None else written * MILLION,
    )

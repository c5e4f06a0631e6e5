"""What a call costs that a program in a sandbox made itself."""

from __future__ import annotations

import importlib
import os

from runner.models.presets import Preset
from runner.types import Usage


def call_cost(preset: Preset, usage: Usage, cache_written: int = 0) -> float | None:
    """US dollars for the tokens of one call, by the same prices as calls made on this side; None where it has none.

    cache_written: of the input, what the provider put into its cache, where it charges for that.
    """
    if preset.prices is not None:
        return preset.prices.cost(usage)
    if preset.api_base or preset.api_base_variable or usage.input_tokens is None or usage.output_tokens is None:
        return None
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = importlib.import_module("litellm")
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

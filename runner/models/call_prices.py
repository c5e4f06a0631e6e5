"""Costs of calls that were not made here: those of a program in a sandbox, those in a log, and future ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import orjson

from runner.base.types import Usage
from runner.models import Model
from runner.models.litellm.litellm_package import load_litellm
from runner.models.preset import MILLION, Preset, Prices


def call_cost(preset: Preset, usage: Usage, cache_written: int = 0) -> float | None:
    """Return US dollars for the tokens of one call, at the same prices as our own calls. None without a price.
    cache_written: input that the provider wrote to its cache, if it charges for that."""
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
    """Return summed prices for estimates: the preset's, else the price list's for prompts of usual length. None for
    scripted models, for private addresses without stated prices, and for models that the list does not have."""
    preset = model.preset
    if preset is not None and preset.prices is not None:
        return preset.prices
    if not model.priced:
        return None
    name = model.name.partition("/")[2] if preset is None else preset.host_model
    found = load_litellm().get_model_info(name)
    return _make_prices(found["input_cost_per_token"], found["output_cost_per_token"], found)


def _make_prices(sent: float, made: float, listed: Mapping[str, float | None]) -> Prices:
    """Build prices from a row of the price list, which counts by the token."""
    cached, written = listed.get("cache_read_input_token_cost"), listed.get("cache_creation_input_token_cost")
    return Prices(
        sent * MILLION,
        made * MILLION,
        None if cached is None else cached * MILLION,
        None if written is None else written * MILLION,
    )


_PROVIDERS = ("anthropic/", "openai/", "google/", "gemini/", "vertex_ai/", "vertex/", "models/")
_DATED = re.compile(r"[-@](?:\d{8}|latest)\Z")


def estimate_cost(model: str, usage: Usage) -> float | None:
    """Return US dollars for tokens of a model named in a log, by the price list for prompts of usual length, cache
    reads and writes included. None if the list does not have the model, or the tokens are not fully known."""
    prices = _find_list_prices(model)
    return None if prices is None else prices.cost(usage, usage.cache_written or 0)


def name_price_list() -> str:
    """Name the list with its version, as our own calls record it."""
    return f"litellm {metadata.version('litellm')}"


@cache
def _find_list_prices(model: str) -> Prices | None:
    listed = next((row for name in _list_names(model) if (row := _read_price_list().get(name))), None) or {}
    sent, made = listed.get("input_cost_per_token"), listed.get("output_cost_per_token")
    if not (sent and made):  # 0: free with a subscription, or a model that its users host themselves
        return None
    return _make_prices(sent, made, listed)


def _list_names(model: str) -> Iterator[str]:
    """List possible names of the model in the list: unchanged, without its provider, without its date."""
    provider = next((each for each in _PROVIDERS if model.lower().startswith(each)), "")
    bare = model[len(provider) :].lower()
    google = (f"gemini/{bare}",) if provider == "google/" else ()
    yield from (model, *google, bare, bare.replace("@", "-"))
    yield _DATED.sub("", bare)


@cache
def _read_price_list() -> Mapping[str, Mapping[str, float | None]]:
    """Read the list that is part of litellm as a file: importing the package takes seconds.
    Empty if it is not installed."""
    found = find_spec("litellm")
    if not found or not found.origin:
        return {}
    file = Path(found.origin).with_name("model_prices_and_context_window_backup.json")
    if not file.is_file():
        return {}
    prices: Mapping[str, Mapping[str, float | None]] = orjson.loads(file.read_bytes())
    return prices

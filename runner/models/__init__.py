"""The models. One file per alternative; MODELS finds it by the part of the name before the first slash."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from runner.base.errors import SetupError
from runner.base.types import ModelReply, ModelRequest, Usage
from runner.models.preset import Preset
from runner.models.presets import read_preset_named


class Model(Protocol):
    """One alternative. Copy `recorded.py` to add one."""

    name: str
    version: str  # raised when equal requests may get other replies; "unknown" if the provider gives none
    scripted: bool  # its numbers mean nothing about language models; every page says so

    @property
    def preset(self) -> Preset | None:
        """Return the preset it was made from. A program in a sandbox reads its own name and key from it."""
        ...

    @property
    def price_table(self) -> str:
        """Name of the price list behind its costs, with its version; "" if none is used."""
        ...

    @property
    def priced(self) -> bool:
        """Is the cost of its calls known? A budget in money needs that."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Complete one request. ModelUnavailable: worth another try. ModelRefused: final."""
        ...


@runtime_checkable
class Waits(Protocol):
    """A model whose provider may be unreachable for minutes. `sleep` makes its pauses, and may raise to end them."""

    sleep: Callable[[float], None]

    def load(self) -> object:
        """Import what the first call needs. That can take minutes, which must not count as the agent's time."""
        ...


MODELS: dict[str, str] = {
    "scripted": "demo.scripted:Scripted",
    "litellm": "runner.models.litellm.client:LiteLLM",
    "recorded": "runner.models.recording:Recorded",
    "generator": "runner.generators.generator_model:GeneratorModel",
}

SCRIPTED_PROVIDERS = frozenset({"scripted", "recorded"})
SMALL_PREFIX = "small-"


def is_scripted(name: str) -> bool:
    """Is this a scripted model, whose numbers mean nothing about language models?"""
    return name.partition("/")[0] in SCRIPTED_PROVIDERS


def is_small(name: str) -> bool:
    """Is this a preset of a model so small that its numbers say nothing about commonly used ones?"""
    return name.startswith(SMALL_PREFIX)


def price_table_of(model: Model | None, usage: Usage) -> str:
    """Return the price list behind this usage's cost; "" if there is none."""
    return "" if model is None or usage.known_usd is None else model.price_table


def is_generator(name: str) -> bool:
    """Is this an outside program that writes skills, not a model?"""
    return name.partition("/")[0] == "generator"


def make_model(name: str) -> Model:
    """Make a model from its full name, e.g. "scripted/careful", or the name of a preset, which has no slash.

    SetupError names the known providers or presets.
    """
    preset = None if "/" in name else read_preset_named(name)
    provider = name.partition("/")[0] if preset is None else "litellm"
    if provider not in MODELS:
        raise SetupError(f"unknown model provider {provider!r} in {name!r}; known: {', '.join(sorted(MODELS))}")
    module, _, attribute = MODELS[provider].partition(":")
    make = getattr(importlib.import_module(module), attribute)
    model: Model = make(name) if preset is None else make.of_preset(preset)
    return model

"""A generator as author model: "generator/<name>", or "generator/<name>+<preset>" if it calls a model.

It is run, never asked for a completion.
"""

from __future__ import annotations

from runner.base.errors import ModelRefused, SetupError
from runner.base.types import ModelReply, ModelRequest
from runner.generators import PROVIDER, find_generator
from runner.generators.manifest import require_reachable
from runner.models import Model, make_model


class GeneratorModel:
    """`version` has the digest of its folder: a changed file is another author. The gateway knows its use of a
    model; its use of anything outside is unknown."""

    scripted = False

    def __init__(self, name: str) -> None:
        provider, _, rest = name.partition("/")
        generator, _, preset = rest.partition("+")
        if provider != PROVIDER:
            raise SetupError(f"model {name!r}: expected {PROVIDER}/<name of a generator>")
        self.name = name
        self.generator = find_generator(generator)
        self.version = f"{self.generator.version}+{self.generator.digest[:16]}"
        self.called = self._model_called(preset)
        self.preset = None if self.called is None else self.called.preset
        self.price_table = "" if self.called is None else self.called.price_table
        # Without a way out, nothing costs money.
        self.priced = not self.generator.network if self.called is None else self.called.priced

    @property
    def container_reason(self) -> str:
        """Why it needs a container, not the local sandbox; "" if it does not."""
        if not self.generator.bundled:
            return "it does not come along with the project, so it needs a sandbox that confines it"
        if self.called is not None:
            return "it calls a model through a gateway"
        return "it has an image of its own" if self.generator.image else ""

    def _model_called(self, preset: str) -> Model | None:
        named = f"{PROVIDER}/{self.generator.name}"
        wire = self.generator.wire
        if not wire:
            if "+" in self.name:
                raise SetupError(f"{self.name}: the generator calls no model (expected {named})")
            return None
        if not preset or "/" in preset:
            raise SetupError(f"{self.name}: the generator calls a model (expected {named}+<name of a preset>)")
        model = make_model(preset)
        if model.preset is not None:
            require_reachable(model.preset, wire, self.name)
        return model

    def complete(self, request: ModelRequest) -> ModelReply:
        raise ModelRefused(f"{self.name} is a program that writes skills from a corpus; it answers no completion")

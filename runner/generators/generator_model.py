"""A generator in the place of an author model: "generator/<name>". It is run, never asked for a completion."""

from __future__ import annotations

from runner.base.errors import ModelRefused, SetupError
from runner.base.types import ModelReply, ModelRequest
from runner.generators import PROVIDER, find_generator

UNCONFINED = (
    "it does not come along with the project, so it needs a sandbox that confines it (expected 'docker', not 'local')"
)


class GeneratorModel:
    """`version` holds the digest of its folder: a changed file is another author. What it uses outside is not known."""

    scripted = False
    preset = None
    price_table = ""

    def __init__(self, name: str) -> None:
        provider, _, generator = name.partition("/")
        if provider != PROVIDER:
            raise SetupError(f"model {name!r}: expected {PROVIDER}/<name of a generator>")
        self.name = name
        self.generator = find_generator(generator)
        self.version = f"{self.generator.version}+{self.generator.digest[:16]}"
        self.priced = not self.generator.network  # without a way out there is nobody to pay

    def complete(self, request: ModelRequest) -> ModelReply:
        raise ModelRefused(f"{self.name} is a program that writes skills from a corpus; it answers no completion")

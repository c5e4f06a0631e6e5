"""The model that a generator may call: which one, where, and what the program learns about it, but not its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.base.errors import SetupError
from runner.models.preset import Preset
from runner.sandboxes.needs import DUMMY_KEY, Provider


@dataclass(frozen=True, slots=True)
class Maker:
    """The vendor of a format. `prefix`: of the models that litellm looks up there."""

    prefix: str
    address: str
    url_variable: str  # where the vendor's client library looks for an address, and for a key
    key_variable: str


_OPENAI = Maker("openai", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY")
WIRES: Mapping[str, Maker] = {
    "chat/completions": _OPENAI,
    "responses": _OPENAI,
    "messages": Maker("anthropic", "https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "generateContent": Maker(
        "gemini", "https://generativelanguage.googleapis.com", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"
    ),
}


def require_reachable(preset: Preset, wire: str, name: str) -> None:
    """Raise SetupError if the calls of generator `name` would send the preset's key to anyone it is not meant for."""
    has_address = preset.api_base is not None or preset.api_base_variable is not None
    maker = WIRES[wire]
    if not has_address and preset.host_model.partition("/")[0] != maker.prefix:
        raise SetupError(
            f"{name}: the generator calls {wire}, as {maker.prefix} has it, and preset {preset.name} is of"
            f" {preset.provider} (expected a preset of {maker.prefix}, or one with an address that takes such calls)"
        )


def provider_of(preset: Preset, wire: str) -> Provider:
    """Raises NotOnThisMachine with the name of a variable of the preset that is not set."""
    preset.require_key()
    address = preset.base_url() or WIRES[wire].address
    models = frozenset({preset.agent_model})
    return Provider(address, preset.key_variable, preset.key_header, wire, models, preset.endpoint())


def variables_for(wire: str, url: str) -> dict[str, str]:
    """Variables that point the vendor's own client library to the gateway."""
    return {WIRES[wire].url_variable: url, WIRES[wire].key_variable: DUMMY_KEY}

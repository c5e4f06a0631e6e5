"""Reading a generator's folder: its manifest, checked field by field, and all other files. And the model that a
generator may call: which one, where, and what the program learns about it, but not its key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from runner.base.digests import digest_json, manifest
from runner.base.errors import SetupError, SuiteError
from runner.models.preset import Preset
from runner.sandboxes.needs import DUMMY_KEY, Provider
from runner.suites.tasks.task_files import read_tree


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


MANIFEST = "generator.toml"
DIGEST_FORMAT = "generator/1"
MAX_SECONDS = 1_800
MAX_FILES, MAX_BYTES = 2_000, 64 * 1024 * 1024
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,49}")
REQUIRED = ("name", "version", "command", "timeout_seconds")
KNOWN = (*REQUIRED, "image", "network", "model")
Read = TypeVar("Read")


class Generator:
    """A generator as it is on disk now. The digested files are those that run: `files`, its whole folder, is put into
    the sandbox. `command`: words, from the folder that holds program/, input/ and output/. `bundled`: part of the
    project, and may run in the local sandbox. `image`: to run in; None: the sandbox's own base image. `network`: may it
    reach the outside? `wire`: the format of its calls to a model, as in `runner.sandboxes.needs.Provider`; "": it makes
    none."""

    def __init__(self, folder: Path, *, bundled: bool) -> None:
        """Raises SuiteError with the file, the field and the expectation."""
        path = folder / MANIFEST
        table = _table(path)
        self.bundled = bundled
        self.name = _field(path, table, "name", "the name of its folder, in lower case", _text(1_000))
        if self.name != folder.name:
            expected = "the name of its folder, in lower case"
            raise SuiteError(str(path), "name", expected, f"found {self.name!r:.100}")
        if not NAME.fullmatch(self.name):
            expected = "lower-case letters, digits, '.', '_' and '-'"
            raise SuiteError(str(path), "name", expected, f"found {self.name[:80]!r}")
        self.files = read_tree(folder)
        size = sum(len(file.content) for file in self.files.values())
        if len(self.files) > MAX_FILES or size > MAX_BYTES:
            expected = f"at most {MAX_FILES:,} files and {MAX_BYTES:,} bytes (an `image` can hold what is larger)"
            raise SuiteError(str(folder), "folder", expected, f"{len(self.files):,} files, {size:,} bytes")
        self.digest = digest_json([DIGEST_FORMAT, manifest(self.files)])
        self.network, self.image, self.wire = False, None, ""
        if "network" in table:
            self.network = _field(
                path, table, "network", "true or false", lambda raw: raw if isinstance(raw, bool) else None
            )
        if self.network and "model" in table:
            raise SuiteError(str(path), "network", "false", "a generator that calls a model reaches this model alone")
        self.version = _field(path, table, "version", "a text of 1 to 50 characters", _text(50))
        self.command = _field(path, table, "command", "a list of words", _words)
        self.timeout_seconds = _field(path, table, "timeout_seconds", f"1 to {MAX_SECONDS} seconds", _seconds)
        if "image" in table:
            self.image = _field(path, table, "image", "the name of an image", _text(300))
        if "model" in table:
            expected = f"one of {', '.join(WIRES)}"
            self.wire = _field(
                path, table, "model", expected, lambda raw: next((wire for wire in WIRES if wire == raw), None)
            )


def _table(path: Path) -> dict[str, object]:
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SuiteError(str(path), "file", "a TOML file in UTF-8", str(error)) from error
    for name in table:
        if name not in KNOWN:
            raise SuiteError(str(path), name, f"one of {', '.join(KNOWN)}", "there is no such field")
    return table


def _field(
    path: Path, table: dict[str, object], name: str, expected: str, read: Callable[[object], Read | None]
) -> Read:
    """Return the result of `read` for the field. SuiteError if it is missing, or `read` gives None for it."""
    if name not in table:
        raise SuiteError(str(path), name, expected, "it is missing")
    value = read(table[name])
    if value is None:
        raise SuiteError(str(path), name, expected, f"found {table[name]!r:.100}")
    return value


def _text(longest: int) -> Callable[[object], str | None]:
    return lambda raw: raw if isinstance(raw, str) and 0 < len(raw) <= longest and raw.isprintable() else None


def _words(raw: object) -> tuple[str, ...] | None:
    words = [_text(1_000)(word) for word in raw] if isinstance(raw, list) and len(raw) <= 100 else []
    return tuple(word for word in words if word) if words and all(words) else None


def _seconds(raw: object) -> float | None:
    seconds = raw if isinstance(raw, int | float) and not isinstance(raw, bool) else 0
    return float(seconds) if 1 <= seconds <= MAX_SECONDS else None

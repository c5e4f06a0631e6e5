"""Presets: what one line of an experiment file stands for. One file per preset; host side and agent side read the same.

The fields are those by which SkillEvolBench routes its calls (paper, appendix C.1, table 7). A preset never holds a key:
it names the environment variables that do. A file is YAML, named
`<preset>.yaml`; docs/reference/models.md has its fields.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from runner.digests import digest_json
from runner.encoding import encode
from runner.errors import NotOnThisMachine, SetupError
from runner.models.prices import Prices

FILES = Path(__file__).parent / "preset_files"
SUFFIX = ".yaml"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,49}")


@dataclass(frozen=True, slots=True)
class Preset:
    name: str  # "claude-opus-4.6"
    provider: str  # "anthropic"
    harness: str  # the agent it was published with: "claude-code", "codex", ..., "shell"
    agent_model: str  # as the harness takes it
    host_model: str  # as litellm takes it, for calls made on this side: shell agent, author, judge
    api_base: str | None = None  # None: the provider's own address
    key_variable: str | None = None  # NAME of the variable that holds the key
    key_header: str = "authorization"  # how the provider takes it (runner.sandboxes.Provider)
    agent_environment: Mapping[str, str] = field(default_factory=dict)  # variable in the sandbox -> NAME of ours
    options: Mapping[str, object] = field(default_factory=dict)  # sampling and the like, part of the setup
    api_base_variable: str | None = None  # NAME of the variable that holds the address, where that is private
    prices: Prices | None = None  # of an address of one's own; None: litellm's list
    timeout_seconds: float | None = None  # of a provider's silence; None: runner.models.litellm.TIMEOUT_SECONDS
    max_tokens: int | None = None  # the longest reply that is asked for; None: what the runner asks for
    context_window: int | None = None  # tokens; None: litellm's list

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the environment variables it reads."""
        named = (self.key_variable, self.api_base_variable, *self.agent_environment.values())
        return tuple(sorted({name for name in named if name}))

    @property
    def digest(self) -> str:
        """Of everything in the file but how long a silent provider is waited for; what the variables hold is no part
        of it. A limit that a file does not state leaves the digest as it was before there was one."""
        stated = encode(self)
        unstated = [name for name in ("max_tokens", "context_window") if stated[name] is None]
        return digest_json(
            {name: value for name, value in stated.items() if name not in ("timeout_seconds", *unstated)}
        )

    def base_url(self) -> str | None:
        """The address of one's own, from the file or its variable. NotOnThisMachine names a variable that is not set."""
        if self.api_base_variable is None:
            return self.api_base
        address = os.environ.get(self.api_base_variable, "").strip()
        if not address:
            raise NotOnThisMachine(f"preset {self.name}: the environment variable {self.api_base_variable} is not set")
        return address


def preset_named(name: str) -> Preset:
    """SetupError names the known presets, or the file, field and expectation where its file is not as it should be."""
    from runner.models.preset_file import read_preset  # it reads with pydantic, which only who uses presets pays for

    files = preset_files()
    if name not in files:
        raise SetupError(f"unknown preset {name!r}; known: {', '.join(sorted(files)) or 'none'}")
    return read_preset(files[name])


def preset_files() -> dict[str, Path]:
    """Name -> file, of the presets that come along and of those in $SKILLGLASS_PRESETS.

    SetupError for a name that both have: which one was meant must not depend on where it runs.
    """
    found = {_name(path): path for path in sorted(FILES.glob(f"*{SUFFIX}"))}
    own = os.environ.get("SKILLGLASS_PRESETS", "").strip()
    if not own:
        return found
    if not Path(own).is_dir():
        raise SetupError(f"SKILLGLASS_PRESETS={own!r}: expected a folder with one .yaml file per preset")
    for path in sorted(Path(own).glob(f"*{SUFFIX}")):
        if (name := _name(path)) in found:
            raise SetupError(f"{path}: the preset {name!r} is there already, in {found[name]}; give it another name")
        found[name] = path
    return found


def named_variables() -> frozenset[str]:
    """Names of all environment variables that some preset reads a key or a private address from.

    A file that cannot be read names none: nobody can use it either.
    """
    from runner.models.preset_file import read_preset

    found: set[str] = set()
    for path in preset_files().values():
        with suppress(SetupError):
            found.update(read_preset(path).variables)
    return frozenset(found)


def _name(path: Path) -> str:
    name = path.name.removesuffix(SUFFIX)
    if not NAME.fullmatch(name):
        raise SetupError(f"{path}: file name: expected a preset's name in a-z, 0-9, '.', '_' and '-', then {SUFFIX}")
    return name

"""Presets: the models that an experiment file names in one line. One file per preset, the same for host and agent.

The fields are those that SkillEvolBench uses to route its calls (paper, appendix C.1, table 7). A preset never holds a
key: it names its environment variables. A file is YAML, named `<preset>.yaml`; docs/reference/models.md has its fields.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from runner.base.digests import digest_json
from runner.base.encoding import encode
from runner.base.errors import NotOnThisMachine
from runner.base.types import Usage
from runner.models.wire.call_slots import Endpoint

MILLION = 1_000_000
TOOLS, JSON = "tools", "json"


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens. `cached`: input read from the provider's cache, `written`: input written to it;
    None: priced as any other input."""

    input: float
    output: float
    cached: float | None = None
    written: float | None = None

    def cost(self, usage: Usage, written: int = 0) -> float | None:
        """Return US dollars, or None if the tokens are unknown. Input that was read from or written to the cache
        (`written`) is part of the input and paid for once."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        written = min(written, usage.input_tokens - cached)
        cached_price = self.input if self.cached is None else self.cached
        written_price = self.input if self.written is None else self.written
        fresh = (usage.input_tokens - cached - written) * self.input
        made = usage.output_tokens * self.output
        return (fresh + cached * cached_price + written * written_price + made) / MILLION


SUFFIX = ".yaml"
# The characters of names at Hugging Face, Ollama, Vertex, of ARNs and fine-tunes: "ft:gpt-4.1-mini:my-org::BTz2QzXa",
# "claude-sonnet-4@20250514". None of them ends a host or a path in an address.
_PLAIN_NAME = re.compile(r"[\w.:/@+~=,()\[\] -]+")


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset after reading and checking its file."""

    name: str  # "claude-opus-4.6"
    provider: str  # "anthropic"
    harness: str  # the agent it was published with: "claude-code", "codex", ..., "shell"
    agent_model: str  # in the harness's notation
    host_model: str  # in litellm's notation, for calls made on the host: shell agent, author, judge
    api_base: str | None = None  # None: the provider's own address
    key_variable: str | None = None  # NAME of the variable that holds the key
    key_header: str = "authorization"  # how the provider takes it (runner.sandboxes.needs.Provider)
    agent_environment: Mapping[str, str] = field(default_factory=dict)  # variable in the sandbox -> NAME of ours
    options: Mapping[str, object] = field(default_factory=dict)  # sampling and the like, part of the setup
    api_base_variable: str | None = None  # NAME of the variable that holds the address, if that is private
    prices: Prices | None = None  # of a private address; None: litellm's list
    timeout_seconds: float | None = None  # of a provider's silence; None: runner.models.litellm.client.TIMEOUT_SECONDS
    max_tokens: int | None = None  # the longest reply to ask for; None: the runner's limit
    context_window: int | None = None  # tokens; None: litellm's list
    lacks: tuple[str, ...] = ()  # of TOOLS and JSON, what its test did not find; not part of the setup
    max_parallel: int | None = None  # calls at a time; None: see `endpoint`

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the environment variables it reads."""
        named = (self.key_variable, self.api_base_variable, *self.agent_environment.values())
        return tuple(sorted({name for name in named if name}))

    @property
    def digest(self) -> str:
        """Digest the file without the silence limit, the number of parallel calls and the results of a test. The
        variables' values are not part of it. Unstated limits are omitted, so that older presets keep their digest."""
        stated = encode(self)
        unstated = [name for name in ("max_tokens", "context_window") if stated[name] is None]
        left_out = ("timeout_seconds", "max_parallel", "lacks", *unstated)
        return digest_json({name: value for name, value in stated.items() if name not in left_out})

    def require_key(self) -> None:
        """Raise NotOnThisMachine with the name of the key's variable if it is not set."""
        if self.key_variable and not os.environ.get(self.key_variable, "").strip():
            raise NotOnThisMachine(f"preset {self.name}: the environment variable {self.key_variable} is not set")

    def base_url(self) -> str | None:
        """Return the preset's own address, from the file or its variable.
        NotOnThisMachine names an unset variable."""
        if self.api_base_variable is None:
            return self.api_base
        address = os.environ.get(self.api_base_variable, "").strip()
        if not address:
            raise NotOnThisMachine(f"preset {self.name}: the environment variable {self.api_base_variable} is not set")
        return address

    def endpoint(self) -> Endpoint:
        """Return where its calls go. A server in a private network gets one call at a time unless the file states
        more; others have no limit. NotOnThisMachine as for `base_url`."""
        address = self.base_url()
        if address is None:
            return Endpoint(self.name, self.host_model, self.max_parallel)
        host = urlsplit(address).hostname or ""
        server = f"{urlsplit(address).netloc} {socket.gethostname() if _is_loopback(host) else ''}".strip()
        return Endpoint(self.name, server, self.max_parallel or (1 if _is_private(host) else None))


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or host == "::1" or host.startswith("127.")


def _is_private(host: str) -> bool:
    """Is it a host of a private network, as far as its name or number shows?"""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))


def has_address(model: str) -> bool:
    """Would litellm find a server's address in this name? It then sends some requests there, with the key."""
    return "//" in model or not _PLAIN_NAME.fullmatch(model)

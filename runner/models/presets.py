"""Presets: what one line of an experiment file stands for. One file per preset; host side and agent side read the same.

A preset never holds a key: it names the environment variables that do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.errors import SetupError


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


def preset_named(name: str) -> Preset:
    """SetupError names the known presets."""
    raise SetupError(f"unknown preset {name!r}; known: none")

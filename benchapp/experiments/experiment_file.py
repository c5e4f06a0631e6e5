"""Read and write experiment files: YAML or JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from runner.base.errors import SetupError

MAX_BYTES = 200_000
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# The order for readers; the rest follows as the spec lists it.
FIRST = ("name", "suite", "protocol", "conditions", "agents", "agent_models", "author_models", "replicates")


class PlainYaml(yaml.SafeLoader):
    """Reject aliases, because a few lines can unfold beyond memory, and duplicate names, because one would be lost."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "aliases are not taken here", self.peek_event().start_mark)  # type: ignore[no-untyped-call]  # of the stubs
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if twice := _find_repeated(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            raise ConstructorError(None, None, f"{', '.join(twice)}: named twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _find_repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _build_mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if twice := _find_repeated(name for name, _ in pairs):
        raise ValueError(f"{', '.join(twice)}: named twice")
    return dict(pairs)


def read_file(path: Path) -> dict[str, object]:
    """Read a file. SetupError names the file and what was expected."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SetupError(f"{path}: too long (expected at most {MAX_BYTES:,} bytes)")
        return read_text(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: {error} (expected YAML or JSON)") from error
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from error


def read_text(text: str) -> dict[str, object]:
    """Read a mapping of fields, before validation (`benchapp.experiments.preparation`), or raise SetupError."""
    if len(text) > MAX_BYTES:
        raise SetupError(f"{len(text):,} characters (expected at most {MAX_BYTES:,})")
    try:
        value = _parse(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SetupError(f"{error} (expected YAML or JSON)") from error
    if not isinstance(value, dict):
        raise SetupError("expected a mapping of fields such as name, suite, conditions")
    _require_storable(value)
    return {str(name): item for name, item in value.items()}


def _parse(text: str) -> object:
    """Parse JSON as JSON: YAML refuses its tabs and takes an escaped pair of surrogates for two half characters."""
    if text.lstrip().startswith("{"):
        with suppress(json.JSONDecodeError):
            return json.loads(text, object_pairs_hook=_build_mapping)
    return yaml.load(text, PlainYaml)  # noqa: S506 - a SafeLoader


def _require_storable(value: object) -> None:
    """Raise SetupError for YAML values that no database or page can hold: NUL, half characters, huge numbers."""
    if isinstance(value, str) and UNSTORABLE.search(value):
        raise SetupError(f"{value!r:.100}: expected text without NUL and without halves of characters")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise SetupError(f"a number of {value.bit_length():,} bits (expected at most 63)")
    items = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list | set) else ()
    for item in items:
        _require_storable(item)

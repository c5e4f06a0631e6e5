"""Experiment files as text: YAML or JSON in, YAML out."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from benchapp.launch_spec import LaunchSpec
from runner.errors import SetupError

MAX_BYTES = 200_000
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# In the order in which a person reads it; the rest follows as the spec lists it.
FIRST = ("name", "suite", "protocol", "conditions", "agents", "agent_models", "author_models", "replicates")


class _Reader(yaml.SafeLoader):
    """No aliases: a few lines of them unfold into more than a machine holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken here")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := sorted(name for name, times in names.items() if times > 1):
            raise yaml.YAMLError(f"{', '.join(twice)}: named twice")
        return super().construct_mapping(node, deep)


def read_file(path: Path) -> dict[str, Any]:
    """SetupError names the file and what was expected."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SetupError(f"{path}: too long (expected at most {MAX_BYTES:,} bytes)")
        return read_text(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: {error} (expected YAML or JSON)") from error
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from error


def read_text(text: str) -> dict[str, Any]:
    """A mapping of fields, not looked at yet (`benchapp.preparing`). SetupError where it is none."""
    if len(text) > MAX_BYTES:
        raise SetupError(f"{len(text):,} characters (expected at most {MAX_BYTES:,})")
    try:
        value = yaml.load(text, _Reader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SetupError(f"{error} (expected YAML or JSON)") from error
    if not isinstance(value, dict):
        raise SetupError("expected a mapping of fields such as name, suite, conditions")
    _require_storable(value)
    return {str(name): item for name, item in value.items()}


def _require_storable(value: Any) -> None:
    """SetupError for what YAML can say and neither a database nor a page can hold: NUL, half characters, huge numbers."""
    if isinstance(value, str) and UNSTORABLE.search(value):
        raise SetupError(f"{value!r:.100}: expected text without NUL and without halves of characters")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise SetupError(f"a number of {value.bit_length():,} bits (expected at most 63)")
    items = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list | set) else ()
    for item in items:
        _require_storable(item)


def write_text(spec: LaunchSpec) -> str:
    """The file that launches this again: what differs from the defaults, and what no reader should have to guess."""
    whole = spec.file
    changed = {name: whole[name] for name in LaunchSpec.model_fields if _tells(spec, name)}
    ordered = {name: changed[name] for name in (*FIRST, *changed) if name in changed}
    return yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None)


def _tells(spec: LaunchSpec, name: str) -> bool:
    field = LaunchSpec.model_fields[name]
    return name in FIRST or field.is_required() or getattr(spec, name) != field.default

"""The step an agent is at, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_SAID = 200  # characters


def in_a_line(step: Mapping[str, Any] | None) -> str:
    """`step` as live.latest gives it, an ATIF step: "step 6 · shell · python merge.py ..."; "" where none is told."""
    if step is None:
        return ""
    calls = step.get("tool_calls") or [{}]
    arguments = calls[0].get("arguments")
    texts = list(arguments.values()) if isinstance(arguments, dict) else []
    said = next((text for text in [*texts, step.get("message")] if isinstance(text, str) and text.strip()), "")
    place = f"step {step.get('step_id', '?')}"
    parts = [place, calls[0].get("function_name") or "", " ".join(said.split())[:MAX_SAID]]
    return " · ".join(part for part in parts if part)

"""Documents that break off: what stood behind the break and is therefore not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchapp.imports.reading.walking import Root
from runner.trajectories.problems import Problems

_BROKEN_OFF = "one whole JSON value"  # what line_streams.walk expects then


def report_lost(
    root: Root, path: Path, problems: Problems, told: Mapping[str, Any], wanted: Iterable[str], *, place: str = ""
) -> None:
    """One line where the document ends before all of `wanted`. What was wrong is told by who reads its steps."""
    lost = ", ".join(key for key in wanted if key not in told)
    if lost and any(problem.expected == _BROKEN_OFF for problem in problems):
        root.report(path, place, "a document with an end", f"it breaks off before {lost}: not known")

"""What the runs that lie together in a benchmark's workspace have in common, and what is left over in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchapp.imports.reading.found_sources import ExperimentSource
from benchapp.imports.reading.walking import Root, name_of

NAMED = 5  # folders that a line names


def experiment_around(root: Root, folder: Path, *, source: str, title: str) -> ExperimentSource:
    """Of a run's folder, named by the two folders above it (workspace/runs): runs that lie together are compared together."""
    around = [part for part in folder.parts[-3:-1] if part != "/"]
    name = "/".join(around) or name_of(folder)
    return ExperimentSource(
        key=f"{source}:{name}",
        name=f"{title} {name}",
        path=root.label(folder.parent) if folder.parent.is_relative_to(root.base) else root.label(root.base),
        spec={"format": source},
        suite=source,
    )


def report_left(root: Root, folder: Path, left: Sequence[Path], expected: str) -> None:
    """Names folders that were passed over, in one line."""
    if left:
        names = ", ".join(name_of(path) for path in left[:NAMED])
        more = f" and {len(left) - NAMED:,} more" if len(left) > NAMED else ""
        root.report(folder, "", expected, f"{names}{more} {'is' if len(left) == 1 else 'are'} none; left out")

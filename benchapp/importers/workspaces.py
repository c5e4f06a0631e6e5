"""What the runs that lie together in a benchmark's workspace have in common."""

from __future__ import annotations

from pathlib import Path

from benchapp.importers.sources import ExperimentSource
from benchapp.importers.walking import Root, name_of


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

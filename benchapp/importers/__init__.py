"""Importers: one module per format, found by name here, or by what lies in a folder.

A format has `claims(root, folder) -> bool` (is the folder itself one?) and `find(root, folder) -> experiments`, which
reads only as much as is needed to list them; see sources.py for what it hands over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchapp.importers import harbor, skilllearnbench
from benchapp.importers.problems import ProblemList
from benchapp.importers.sources import FoundExperiment
from benchapp.importers.walking import Root

AUTO = "auto"
FORMATS = {module.NAME: module for module in (harbor, skilllearnbench)}
RELEASE_DEPTH = 4  # how deep below the folder given a SkillLearnBench release is looked for


def find(root: Root, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Every experiment below the folder, in the format named or in each one's own."""
    if format != AUTO:
        yield from FORMATS[format].find(root, root.base)
        return
    if harbor.claims(root, root.base):
        yield from harbor.find(root, root.base)
        return
    releases = list(_releases(Root(root.given, ProblemList()), root.base, RELEASE_DEPTH))
    for release in releases:
        yield from skilllearnbench.find(root, release)
    if root.base not in releases:
        yield from harbor.find(root, root.base, skip=releases)


def _releases(quiet: Root, folder: Path, depth: int) -> Iterator[Path]:
    if skilllearnbench.claims(quiet, folder):
        yield folder
    elif depth and not harbor.claims(quiet, folder):
        for sub in quiet.listing(folder)[0]:
            yield from _releases(quiet, sub, depth - 1)

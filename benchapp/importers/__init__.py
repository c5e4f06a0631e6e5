"""Importers: one module per format, found by name here, or by what lies in a folder.

A format of folders has `claims(root, folder) -> bool` (is the folder itself one?) and `find(root, folder) ->
experiments`, which reads only as much as is needed to list them; see sources.py for what it hands over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from benchapp.importers import harbor, skillevolbench, skillflow, skilllearnbench
from benchapp.importers.problems import ProblemList
from benchapp.importers.sources import FoundExperiment
from benchapp.importers.walking import Root

AUTO = "auto"
WHOLE_FOLDERS = (skillevolbench, skillflow, skilllearnbench)  # whatever lies in a folder they claim is theirs
FORMATS: dict[str, ModuleType] = {module.NAME: module for module in (harbor, *WHOLE_FOLDERS)}
CLAIMED_DEPTH = 4  # how deep below the folder given a folder of these formats is looked for
_NOT_ENTERED = frozenset({".git", "node_modules", "__pycache__"})


def find(root: Root, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Every experiment below the folder, in the format named or in each one's own."""
    quiet = Root(root.given, ProblemList())
    if format == AUTO:
        yield from _find_all(root, quiet)
    elif FORMATS[format] in WHOLE_FOLDERS:
        module = FORMATS[format]
        claimed = [folder for folder, _ in _claimed(quiet, root.base, CLAIMED_DEPTH, (module,))]
        for folder in claimed or [root.base]:
            yield from module.find(root, folder)
    else:
        yield from FORMATS[format].find(root, root.base)


def _find_all(root: Root, quiet: Root) -> Iterator[FoundExperiment]:
    if harbor.claims(quiet, root.base) and not any(module.claims(quiet, root.base) for module in WHOLE_FOLDERS):
        yield from harbor.find(root, root.base)
        return
    claimed = dict(_claimed(quiet, root.base, CLAIMED_DEPTH, WHOLE_FOLDERS))
    for folder, module in claimed.items():
        yield from module.find(root, folder)
    if root.base not in claimed:
        yield from harbor.find(root, root.base, skip=claimed)


def _claimed(
    quiet: Root, folder: Path, depth: int, modules: tuple[ModuleType, ...]
) -> Iterator[tuple[Path, ModuleType]]:
    """Folders that a format claims as a whole, with that format."""
    module = next((module for module in modules if module.claims(quiet, folder)), None)
    if module is not None:
        yield folder, module
    elif depth and not harbor.claims(quiet, folder):
        for sub in quiet.listing(folder)[0]:
            if sub.name not in _NOT_ENTERED:
                yield from _claimed(quiet, sub, depth - 1, modules)

"""Importers: one module per format, found by name here, or by what lies in a folder.

A format of folders has `claims(root, folder) -> bool` (is the folder itself one?) and `find(root, folder) ->
experiments`, which reads only as much as is needed to list them; see sources.py for what it hands over. A format of
files has `SUFFIXES`, `claims_file(root, entry) -> bool` and `find_files(root, entries) -> experiments`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from benchapp.importers import (
    harbor,
    inspect_log,
    sessions,
    skillevolbench,
    skillflow,
    skilllearnbench,
    skilllearnbench_output,
    swe_agent,
)
from benchapp.importers.problems import ProblemList
from benchapp.importers.sources import FoundExperiment
from benchapp.importers.walking import MAX_DEPTH, Entry, Root

AUTO = "auto"
WHOLE_FOLDERS = (
    skillevolbench,
    skillflow,
    skilllearnbench_output,
    skilllearnbench,
)  # whatever lies in a folder they claim is theirs
LOOSE_FILES = (inspect_log, swe_agent, sessions)
FORMATS: dict[str, ModuleType] = {module.NAME: module for module in (harbor, *WHOLE_FOLDERS, *LOOSE_FILES)}
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
    elif FORMATS[format] in LOOSE_FILES:
        yield from _find_loose(root, _loose(quiet, root.base, frozenset(), 0), (FORMATS[format],))
    else:
        yield from FORMATS[format].find(root, root.base)


def find_file(root: Root, path: Path, format: str = AUTO) -> Iterator[FoundExperiment]:
    """What one file holds; nothing where it is no log that stands alone. `root` is the folder it lies in."""
    modules = LOOSE_FILES if format == AUTO else tuple(m for m in LOOSE_FILES if format == m.NAME)
    entries = [entry for entry in root.listing(root.base)[1] if entry.path.name == path.name]
    yield from _find_loose(root, entries, modules)


def _find_all(root: Root, quiet: Root) -> Iterator[FoundExperiment]:
    claimed = dict(_claimed(quiet, root.base, CLAIMED_DEPTH, WHOLE_FOLDERS))
    for folder, module in claimed.items():
        yield from module.find(root, folder)
    if root.base in claimed:
        return
    yield from harbor.find(root, root.base, skip=claimed)
    yield from _find_loose(root, _loose(quiet, root.base, frozenset(claimed), 0), LOOSE_FILES)


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


def _loose(quiet: Root, folder: Path, skip: frozenset[Path], depth: int) -> Iterator[Entry]:
    """Files that stand alone: in no folder that is a job, a trial, or claimed by another format."""
    if depth > MAX_DEPTH or folder in skip or harbor.claims(quiet, folder):
        return
    folders, files = quiet.listing(folder)
    yield from files
    for sub in folders:
        if sub.name not in _NOT_ENTERED:
            yield from _loose(quiet, sub, skip, depth + 1)


def _find_loose(root: Root, entries: Iterable[Entry], modules: tuple[ModuleType, ...]) -> Iterator[FoundExperiment]:
    found: dict[ModuleType, list[Entry]] = {module: [] for module in modules}
    for entry in entries:
        module = next((m for m in modules if entry.path.suffix in m.SUFFIXES and _is_one(root, entry, m)), None)
        if module is not None:
            found[module].append(entry)
    for module, mine in found.items():
        if mine:
            yield from module.find_files(root, mine)


def _is_one(root: Root, entry: Entry, module: ModuleType) -> bool:
    try:
        return bool(module.claims_file(root, entry))
    except OSError as error:
        root.report(entry.path, "", "a file that can be read", error.strerror or str(error))
        return False

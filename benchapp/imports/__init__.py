"""Importers: finding formats in what is given, by name or by what lies there. A format is a module, listed below.

A format of **whole folders** (`releases`, `harbor`) has

    NAME, TITLE                      as `--format` names it, and as its suite is called on pages
    SUITE                            optional: key of its suite, where it shares one with another format; else NAME
    claims(root, folder)             is the folder itself one?
    find(root, folder)               its experiments (values of `reading.found_sources`); reads only what lists them
    OWN                              optional: names of its own folders; other formats are looked for beside these
    others(root, folder)             optional: folders inside that are none of its parts; all formats are tried there

A format of **single files** (`logs`) has

    NAME, TITLE, SUFFIXES            as above; the endings its files may have
    claims_file(root, entry)         is this file one?
    find_files(root, entries)        experiments of all files that it claimed
    is_companion(entries)            gives entry -> bool: is this a by-product of the program that wrote those logs?
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from benchapp.imports.harbor import harbor_folders
from benchapp.imports.logs import inspect_log, session_logs, swe_agent_logs
from benchapp.imports.reading.found_sources import FoundExperiment
from benchapp.imports.reading.unread import ARCHIVES, MARKDOWN, is_history, report_files
from benchapp.imports.reading.walking import NOT_ENTERED, FolderEntry, Root
from benchapp.imports.releases import (
    skillevolbench_runs,
    skillflow_runs,
    skilllearnbench_output,
    skilllearnbench_release,
)

AUTO = "auto"
# Whatever lies in a folder that one of these claims belongs to it.
WHOLE_FOLDERS = (skillevolbench_runs, skillflow_runs, skilllearnbench_output, skilllearnbench_release)
LOOSE_FILES = (inspect_log, swe_agent_logs, session_logs)
FORMATS: dict[str, ModuleType] = {module.NAME: module for module in (harbor_folders, *WHOLE_FOLDERS, *LOOSE_FILES)}
CLAIMED_DEPTH = 4  # how deep below the folder given a folder of these formats is looked for


def find(root: Root, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Every experiment below the folder, in the format named or in each one's own."""
    quiet = root.mute()
    if format == AUTO:
        yield from _find_all(root, quiet, root.base)
    elif FORMATS[format] in WHOLE_FOLDERS:
        module = FORMATS[format]
        claimed = [folder for folder, _ in _find_claimed(quiet, root.base, CLAIMED_DEPTH, (module,))]
        for folder in claimed or [root.base]:
            yield from module.find(root, folder)
    elif FORMATS[format] in LOOSE_FILES:
        yield from _find_loose(root, _walk_loose(root, quiet, root.base, frozenset(), 0), (FORMATS[format],))
    else:
        yield from FORMATS[format].find(root, root.base)


def find_file(root: Root, path: Path, format: str = AUTO) -> Iterator[FoundExperiment]:
    """What one file holds; nothing where it is no log that stands alone. `root` is the folder it lies in."""
    modules = LOOSE_FILES if format == AUTO else tuple(m for m in LOOSE_FILES if format == m.NAME)
    entries = [entry for entry in root.listing(root.base)[1] if entry.path.name == path.name]
    yield from _find_loose(root, entries, modules)


def _find_all(root: Root, quiet: Root, top: Path) -> Iterator[FoundExperiment]:
    claimed = dict(_find_claimed(quiet, top, CLAIMED_DEPTH, WHOLE_FOLDERS))
    for folder, module in claimed.items():
        yield from module.find(root, folder)
        for other in module.others(quiet, folder) if hasattr(module, "others") else ():
            yield from _find_all(root, quiet, other)
    if top in claimed:
        return
    yield from harbor_folders.find(root, top, skip=claimed)
    entries = _walk_loose(quiet, quiet, top, frozenset(claimed), 0)  # Harbor's walk reports what it cannot enter
    yield from _find_loose(root, entries, LOOSE_FILES, reported=harbor_folders.FILES)


def _find_claimed(
    quiet: Root, folder: Path, depth: int, modules: tuple[ModuleType, ...]
) -> Iterator[tuple[Path, ModuleType]]:
    """Folders that a format claims as a whole, with that format."""
    module = next((module for module in modules if module.claims(quiet, folder)), None)
    if module is not None:
        yield folder, module
    own = getattr(module, "OWN", None)
    if depth and (own or (module is None and not harbor_folders.claims(quiet, folder))):
        for sub in quiet.listing(folder)[0]:
            if sub.name not in (own or ()) and sub.name not in NOT_ENTERED:
                yield from _find_claimed(quiet, sub, depth - 1, modules)


def _walk_loose(root: Root, quiet: Root, folder: Path, skip: frozenset[Path], depth: int) -> Iterator[FolderEntry]:
    """Files that stand alone: in no folder that is a job, a trial, or claimed by another format."""
    if folder in skip or harbor_folders.claims(quiet, folder) or root.is_too_deep(folder, depth):
        return
    folders, files = root.listing(folder)
    yield from files
    for sub in folders:
        if sub.name not in NOT_ENTERED:
            yield from _walk_loose(root, quiet, sub, skip, depth + 1)


def _find_loose(
    root: Root,
    entries: Iterable[FolderEntry],
    modules: tuple[ModuleType, ...],
    *,
    reported: frozenset[str] = frozenset(),
) -> Iterator[FoundExperiment]:
    """`reported`: names of files that are reported elsewhere when no format takes them."""
    found: dict[ModuleType, list[FolderEntry]] = {module: [] for module in modules}
    left: list[FolderEntry] = []
    for entry in entries:
        able = [module for module in modules if entry.path.suffix.lower() in module.SUFFIXES]
        module = next((module for module in able if _is_one(root, entry, module)), None)
        if module is not None:
            found[module].append(entry)
        elif entry.path.name in reported and entry.path.suffix.lower() not in MARKDOWN:
            continue
        elif able or entry.path.suffix.lower() in ARCHIVES or is_history(root, entry):
            left.append(entry)
    for module, mine in found.items():
        if mine:
            yield from module.find_files(root, mine)
    companions = [module.is_companion(mine) for module, mine in found.items() if mine]
    report_files(root, (entry for entry in left if not any(belongs(entry) for belongs in companions)))


def _is_one(root: Root, entry: FolderEntry, module: ModuleType) -> bool:
    try:
        return bool(module.claims_file(root, entry))
    except OSError as error:
        root.report_unreadable(entry.path, error)
        return False

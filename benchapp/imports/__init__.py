"""Importers: recognise the formats below a path and find the experiments in them. Each format is a module listed below.

A format of **whole folders** (`releases`, `harbor`) has

    NAME, TITLE                      the name for `--format`, and the title of its suite on pages
    SUITE                            optional: key of the suite it shares with another format; default NAME
    claims(root, folder)             is the folder itself in this format?
    find(root, folder)               its experiments (`reading.found_sources`); reads only the files that list them
    OWN                              optional: names of its own folders; other formats are searched for next to these
    others(root, folder)             optional: folders inside that belong to other formats; all formats are tried there

A format of **single files** (`logs`) has

    NAME, TITLE, SUFFIXES            as above; the suffixes its files may have
    claims_file(root, entry)         is this file in this format?
    find_files(root, entries)        the experiments in all files that it claimed
    is_companion(entries)            entry -> bool: is this a by-product of the program that wrote those logs?
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
from benchapp.imports.releases import skillevolbench_runs, skillflow, skilllearnbench_output, skilllearnbench_release

AUTO = "auto"
# A folder that one of these formats claims belongs to it with all its contents.
WHOLE_FOLDERS = (skillevolbench_runs, skillflow, skilllearnbench_output, skilllearnbench_release)
LOOSE_FILES = (inspect_log, swe_agent_logs, session_logs)
FORMATS: dict[str, ModuleType] = {module.NAME: module for module in (harbor_folders, *WHOLE_FOLDERS, *LOOSE_FILES)}
CLAIMED_DEPTH = 4  # how deep below the given folder to search for folders of these formats


def find(root: Root, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Find every experiment below the folder, in the given format or in any."""
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
    """Find what one file holds; nothing unless it is a single log. `root` is its folder."""
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
    """Yield the folders that a format claims as a whole, with that format."""
    module = next((module for module in modules if module.claims(quiet, folder)), None)
    if module is not None:
        yield folder, module
    own = getattr(module, "OWN", None)
    if depth and (own or (module is None and not harbor_folders.claims(quiet, folder))):
        for sub in quiet.listing(folder)[0]:
            if sub.name not in (own or ()) and sub.name not in NOT_ENTERED:
                yield from _find_claimed(quiet, sub, depth - 1, modules)


def _walk_loose(root: Root, quiet: Root, folder: Path, skip: frozenset[Path], depth: int) -> Iterator[FolderEntry]:
    """Yield the files outside every folder that is a job, a trial, or claimed by another format."""
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
    """Find experiments in single files. `reported`: names of files that are reported elsewhere if unrecognised."""
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

"""Find the experiments below a path: ask every format, in turn, what it claims. A reader that fails costs no other one
its folders; the failure is reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from benchapp.imports.formats import AUTO, HARBOR, load_formats, loose_files, whole_folders
from benchapp.imports.harbor import harbor_folders
from benchapp.imports.reading.found_sources import FoundExperiment
from benchapp.imports.reading.unread import ARCHIVES, MARKDOWN, is_history, report_files
from benchapp.imports.reading.walking import NOT_ENTERED, FolderEntry, Root
from benchapp.record.error_text import is_of_machine

logger = logging.getLogger(__name__)
REST_LEFT_OUT, NOT_CLAIMED = "the rest of it is left out", "not read as such"
CLAIMED_DEPTH = 6  # how deep below the given folder to search for folders of these formats


def find(root: Root, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Find every experiment below the folder, in the given format or in any."""
    quiet = root.mute()
    if format == AUTO:
        for point, wrong in load_formats()[1].items():
            root.report(root.base, point, "a format that can be loaded", f"{wrong}; what it would read is left out")
        yield from _find_all(root, quiet, root.base)
        return
    module = load_formats()[0][format]
    if module in loose_files():
        yield from _find_loose(root, _walk_loose(root, quiet, root.base, frozenset(), 0), (module,))
    elif format == HARBOR:
        yield from module.find(root, root.base)
    else:
        claimed = [folder for folder, _ in _find_claimed(quiet, root.base, CLAIMED_DEPTH, (module,))]
        for folder in claimed or [root.base]:
            yield from _find_in(root, folder, module)


def find_file(root: Root, path: Path, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Find what one file holds; nothing unless it is a single log. `root` is its folder."""
    modules = tuple(module for module in loose_files() if format in (AUTO, module.NAME))
    entries = [entry for entry in root.listing(root.base)[1] if entry.path.name == path.name]
    yield from _find_loose(root, entries, modules)


def _find_all(root: Root, quiet: Root, top: Path) -> Iterator[FoundExperiment]:
    claimed = dict(_find_claimed(quiet, top, CLAIMED_DEPTH, whole_folders(), root))
    for folder, module in claimed.items():
        yield from _find_in(root, folder, module)
        for other in module.others(quiet, folder) if hasattr(module, "others") else ():
            yield from _find_all(root, quiet, other)
    if top in claimed:
        return
    for folder, module in _find_claimed(quiet, top, CLAIMED_DEPTH, whole_folders(shared=True), root):
        if not any(folder.is_relative_to(owned) for owned in claimed):
            yield from _find_in(root, folder, module)
    yield from harbor_folders.find(root, top, skip=claimed)
    entries = _walk_loose(quiet, quiet, top, frozenset(claimed), 0)  # Harbor's walk reports what it cannot enter
    yield from _find_loose(root, entries, loose_files(), reported=harbor_folders.FILES)


@contextmanager
def _reporting(root: Root, path: Path, module: ModuleType, outcome: str) -> Iterator[None]:
    """Report what a format raises, and what comes of it (`outcome`): it ends only that format's own reading."""
    try:
        yield
    except Exception as error:
        if is_of_machine(error):
            raise
        logger.exception("the format %s failed at %s", module.NAME, path)
        message = f"its reader failed: {type(error).__name__}: {error}; {outcome}"
        root.report(path, "", f"what {module.TITLE} writes", message)


def _find_in(root: Root, folder: Path, module: ModuleType) -> Iterator[FoundExperiment]:
    with _reporting(root, folder, module, REST_LEFT_OUT):
        yield from module.find(root, folder)


def _find_claimed(
    quiet: Root, folder: Path, depth: int, modules: tuple[ModuleType, ...], root: Root | None = None
) -> Iterator[tuple[Path, ModuleType]]:
    """Yield the folders that a format claims as a whole, with that format. `root`: where a failure is reported."""
    module = next((each for each in modules if _is_claimed(root or quiet, quiet, folder, each)), None)
    if module is not None:
        yield folder, module
    own = getattr(module, "OWN", None)
    if depth and (own or (module is None and not harbor_folders.claims(quiet, folder))):
        for sub in quiet.listing(folder)[0]:
            if sub.name not in (own or ()) and sub.name not in NOT_ENTERED:
                yield from _find_claimed(quiet, sub, depth - 1, modules, root)


def _is_claimed(root: Root, quiet: Root, folder: Path, module: ModuleType) -> bool:
    with _reporting(root, folder, module, NOT_CLAIMED):
        return bool(module.claims(quiet, folder))
    return False


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
            with _reporting(root, mine[0].path.parent, module, REST_LEFT_OUT):
                yield from module.find_files(root, mine)
    named = [(module, mine) for module, mine in found.items() if mine and hasattr(module, "is_companion")]
    companions = [module.is_companion(mine) for module, mine in named]
    report_files(root, (entry for entry in left if not any(belongs(entry) for belongs in companions)))


def _is_one(root: Root, entry: FolderEntry, module: ModuleType) -> bool:
    with _reporting(root, entry.path, module, NOT_CLAIMED):
        try:
            return bool(module.claims_file(root, entry))
        except OSError as error:
            root.report_unreadable(entry.path, error)
    return False

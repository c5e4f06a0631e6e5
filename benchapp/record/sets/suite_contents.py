"""The files of a loaded suite as contents of the record, for machines without the folder it was loaded from.

Such a machine writes them into a cache in the var folder, one folder for each list of files, named by its digest.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from benchapp import models
from benchapp.models.blobs import MAX_BLOB_BYTES
from runner.base.digests import digest_json
from runner.base.errors import SetupError
from runner.base.file_digests import IGNORED
from runner.base.text import escape_unprintable
from runner.base.trees import check_relative, links_below, make_room, measure, remove_tree
from runner.base.var_folder import var_folder
from runner.suites import find_naming_folder, roots_of

Kind = models.SuiteFile.Kind
FoundFile = tuple[str, str, Path]  # path below the suite's folder, kind, place

LONGEST_PATH = 1_000
MAX_FILES = 20_000
MAX_BYTES = 256 * 1024**2  # of all files of a suite
CACHE_BYTES = 5 * 1000**3
UNUSED_SECONDS = 24 * 60 * 60  # a trial may still read files of a folder that was used since
PART = ".part"


# --- into the record --------------------------------------------------------------------------------------------------


def list_files(folder: Path, format: str) -> list[FoundFile]:
    """List what a reader of this format looks at. ValueError has the reason why the record cannot hold it."""
    _name_in_cache(folder)
    found: dict[str, FoundFile] = {}
    size = 0
    for place in _walk(folder, roots_of(folder, format)):
        path, status = place.relative_to(folder).as_posix(), place.lstat()
        if path in found:  # one root may be below another
            continue
        shown = escape_unprintable(path)[:200]
        if len(path) > LONGEST_PATH or not path.isprintable():
            raise ValueError(f"the name of {shown} cannot be recorded")
        check_relative(path)
        kind = _kind_of(status.st_mode)
        if kind is None:
            raise ValueError(f"{shown} is neither a file nor a link")
        if kind == Kind.LINK and _leads_out(place, folder):
            raise ValueError(f"{shown} is a link that leads out of the folder")
        found[path] = (path, kind, place)
        size += status.st_size if stat.S_ISREG(status.st_mode) else 0
        if status.st_size > MAX_BLOB_BYTES:
            raise ValueError(f"{shown} is larger than {MAX_BLOB_BYTES // 1024**2} MB")
        if len(found) > MAX_FILES or size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_FILES:,} files or {MAX_BYTES // 1024**2} MB")
    return sorted(found.values())


def _walk(folder: Path, roots: Iterable[Path]) -> Iterator[Path]:
    """Yield every file, link and empty folder in the roots. No link is followed."""
    real, waiting = Path(os.path.realpath(folder)), list(roots)
    for root in waiting:
        if not root.is_relative_to(folder):
            raise ValueError(f"{escape_unprintable(str(root))[:200]}, which is read too, is outside the folder")
        if root != folder and os.path.realpath(root.parent) != str(real / root.parent.relative_to(folder)):
            raise ValueError(f"{escape_unprintable(str(root.relative_to(folder)))[:200]} is behind a link")
    while waiting:
        place = waiting.pop()
        is_folder = place.is_dir() and (place == folder or not place.is_symlink())
        if is_folder and (below := [each for each in place.iterdir() if each.name not in IGNORED]):
            waiting += below
        elif os.path.lexists(place):
            yield place


def _kind_of(mode: int) -> Kind | None:
    if stat.S_ISREG(mode):
        return Kind.EXECUTABLE if mode & stat.S_IXUSR else Kind.FILE
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.FOLDER if stat.S_ISDIR(mode) else None


def _leads_out(link: Path, folder: Path) -> bool:
    """An absolute link does too: the folder has another place elsewhere."""
    return link.readlink().is_absolute() or not Path(os.path.realpath(link)).is_relative_to(os.path.realpath(folder))


def record_files(suite: models.Suite, found: Sequence[FoundFile]) -> None:
    """Replace the suite's files in the record by these. Call it in a transaction."""
    suite.files.all().delete()
    rows: list[tuple[str, str, str]] = []
    for start in range(0, len(found), 100):
        some = found[start : start + 100]
        contents = models.Blob.objects.put_many(_read(kind, place) for _, kind, place in some)
        rows += [(path, kind, blob) for (path, kind, _), blob in zip(some, contents, strict=True)]
    models.SuiteFile.objects.bulk_create(
        (models.SuiteFile(suite=suite, path=path, kind=kind, blob_id=blob) for path, kind, blob in rows),
        batch_size=500,
    )
    suite.files_digest = _digest(suite, rows) if rows else ""
    suite.save(update_fields=["files_digest"])


def _read(kind: str, place: Path) -> bytes:
    try:
        if kind in (Kind.LINK, Kind.FOLDER):
            return os.fsencode(place.readlink()) if kind == Kind.LINK else b""
        return place.read_bytes()
    except OSError as error:
        raise SetupError(f"{place}: cannot be read ({error.strerror})") from error


def _digest(suite: models.Suite, rows: Iterable[tuple[str, str, str]]) -> str:
    return digest_json([str(_name_in_cache(Path(suite.path))), *map(list, sorted(rows))])


def _name_in_cache(folder: Path) -> Path:
    """Return the end of the folder's path that names the suite, since readers make keys of it. ValueError: none does."""
    naming = find_naming_folder(folder)
    if not naming.name:
        raise ValueError("no part of its path names the suite")
    return Path(check_relative(folder.relative_to(naming.parent).as_posix()))


# --- out of the record ------------------------------------------------------------------------------------------------


def fetch_folder(suite: models.Suite) -> Path:
    """Return a folder of this machine with the suite's files in the record, written now if it is not in the cache.
    SetupError if they cannot be written."""
    cache = var_folder() / "suites"
    try:
        name = _name_in_cache(Path(suite.path))
        folder = cache / check_relative(suite.files_digest)
        try:
            os.utime(folder)  # says that it is in use
        except FileNotFoundError:
            _write(suite, name, folder)
            with suppress(OSError):  # another process may remove the same
                _prune(cache)
        return folder / name
    except (OSError, ValueError) as error:
        raise SetupError(f"suite {suite.key}: its files in the record cannot be written to {cache}: {error}") from error


def _write(suite: models.Suite, name: Path, folder: Path) -> None:
    """Write the files to `name` below a folder that appears when it is complete."""
    rows = suite.files.values_list("path", "kind", "blob_id")
    if _digest(suite, rows) != suite.files_digest:
        raise ValueError("they are not those that were recorded")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(mkdtemp(dir=folder.parent, suffix=PART))
    try:
        root = part / name
        root.mkdir(parents=True)
        for row in suite.files.select_related("blob").iterator(chunk_size=50):
            _write_file(row, make_room(root, row.path))
        if out := [link for link in links_below(root) if _leads_out(Path(link), root)]:
            raise ValueError(f"{out[0]} is a link that leads out")
        for place, _, _ in os.walk(root):
            Path(place).chmod(0o755)  # an image that copies them keeps the mode, and its user must read them
        part.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process wrote the same
            raise
    finally:
        remove_tree(part)


def _write_file(row: models.SuiteFile, target: Path) -> None:
    match row.kind:
        case Kind.FOLDER:
            target.mkdir()
        case Kind.LINK:
            target.symlink_to(os.fsdecode(row.blob.content()))
        case _:
            target.write_bytes(row.blob.content())
            target.chmod(0o755 if row.kind == Kind.EXECUTABLE else 0o644)


def _prune(cache: Path) -> None:
    """Remove the folders that were not used for longest until the rest fits, and what killed processes left."""
    used = sorted(((each.stat().st_mtime, each) for each in cache.iterdir()), reverse=True)
    size = 0
    for at, folder in used:
        size += measure(folder, CACHE_BYTES, 10 * MAX_FILES)[0]
        if at < time.time() - UNUSED_SECONDS and (size > CACHE_BYTES or folder.suffix == PART):
            remove_tree(folder)

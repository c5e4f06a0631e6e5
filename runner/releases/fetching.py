"""Fetching a public release into a folder of this machine, whole or not at all.

    <place>                  the release's files, without a history
    <place>.fetched.json     where they are from: source, commit, digest, when, files and bytes
    .<place>.fetching/       while it is fetched; an interrupted fetch from a hub continues there

The digest is over every file below the folder: path, content and executable bit, or a link's target.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from runner.base.digests import digest_json
from runner.base.errors import SetupError, SuiteError
from runner.base.file_digests import FileDigests, is_plain, look_at, store_for, walk
from runner.base.var_folder import MANAGE
from runner.releases import UNKNOWN, PublicRelease
from runner.releases.git_source import fill_from_git, is_repository
from runner.releases.hub_source import fill_from_hub

FORMAT = "release-tree/1"
LATEST = "main"  # of a data set without a pin
_LICENCES = ("license", "licence", "copying", "notice")


@dataclass(frozen=True, slots=True)
class FetchedRelease:
    """The content of <place>.fetched.json. `asked` is the requested source and commit."""

    name: str
    asked: tuple[str, str]
    commit: str
    digest: str
    files: int
    bytes: int
    licences: tuple[str, ...]  # files of the tree whose names say so
    fetched_at: str


def fetch_release(
    release: PublicRelease, place: Path, copy: Path | None = None, tell: Callable[[str], None] = lambda line: None
) -> FetchedRelease:
    """Fetch the release into the folder `place`, if it is missing. `copy`: a folder or repository to take it from.

    SetupError if it cannot be fetched or differs from the table, and if something else is at the place.
    """
    source = release.url if copy is None else str(copy.expanduser().absolute())
    asked = (source, release.commit)
    with _alone(place):
        if place.exists() or place.is_symlink():
            return _find_there(place, asked, tell)
        scratch = place.with_name(f".{place.name}.fetching")
        commit = _fill(release, scratch / "tree", None if copy is None else Path(source), tell)
        fetched = _describe(release, asked, commit, scratch / "tree", FileDigests())
        if release.digest not in (UNKNOWN, fetched.digest):
            raise SetupError(f"{source}: expected a tree with the digest {release.digest}; found {fetched.digest}")
        _write(_receipt(place), fetched)
        (scratch / "tree").rename(place)
        shutil.rmtree(scratch)
        return fetched


def _fill(release: PublicRelease, tree: Path, copy: Path | None, tell: Callable[[str], None]) -> str:
    """Put the files of the release into `tree`. Return its commit, as far as it is known."""
    if copy is not None and (release.is_data_set or not is_repository(copy)):
        tell(f"copying {copy}")
        _copy(copy, tree)
        return UNKNOWN
    source = release.url if copy is None else str(copy)
    tell(f"fetching {source} at {release.commit if release.commit != UNKNOWN else 'its latest commit'}")
    if release.is_data_set:
        return fill_from_hub(tree, source, LATEST if release.commit == UNKNOWN else release.commit, tell)
    fill_from_git(tree, source, release.commit, tell)
    return release.commit


def _copy(folder: Path, tree: Path) -> None:
    if not folder.is_dir():
        raise SetupError(f"{folder}: expected a folder with the release; there is none")
    shutil.rmtree(tree, ignore_errors=True)
    try:
        shutil.copytree(folder, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    except (OSError, shutil.Error) as error:
        raise SetupError(f"{folder}: cannot be copied: {str(error)[:500]}") from error


def _find_there(place: Path, asked: tuple[str, str], tell: Callable[[str], None]) -> FetchedRelease:
    """Return what was fetched to the place before. SetupError if that was something else, or the files have changed."""
    fetched = _read(_receipt(place))
    if fetched is None:
        raise SetupError(f"{place}: was not put there by fetch_suite; load it with {MANAGE} load_suite, or move it")
    if fetched.asked != asked:
        was, wanted = (f"{source} at {commit}" for source, commit in (fetched.asked, asked))
        raise SetupError(f"{place}: holds {was}; move it to fetch {wanted}, or give another folder with --to")
    digests = FileDigests(store_for(place))
    digests.load()
    found, _, _ = _digest(place, digests)
    digests.save()
    if found != fetched.digest:
        raise SetupError(f"{place}: its files have changed since {fetched.fetched_at}; move it to fetch it again")
    tell(f"{place} is here already, as it was fetched at {fetched.fetched_at}")
    return fetched


def _describe(
    release: PublicRelease, asked: tuple[str, str], commit: str, tree: Path, digests: FileDigests
) -> FetchedRelease:
    digest, files, size = _digest(tree, digests)
    names = sorted(each.name for each in tree.iterdir() if each.name.lower().startswith(_LICENCES))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return FetchedRelease(release.name, asked, commit, digest, files, size, tuple(names), now)


def _digest(tree: Path, digests: FileDigests) -> tuple[str, int, int]:
    """Digest, number of files, bytes."""
    found: dict[str, list[object]] = {}
    size = 0
    try:
        for name, status, entry in walk(tree):
            if entry.is_symlink():
                found[name] = [None, os.readlink(entry.path)]  # noqa: PTH115 - the text as it is
            elif not is_plain(status):
                raise SetupError(f"{entry.path}: expected a file; it is a special one")
            else:
                found[name] = [digests.digest(entry.path, look_at(status)), bool(status.st_mode & 0o100)]
                size += status.st_size
    except SuiteError as error:
        raise SetupError(str(error)) from error
    return digest_json([FORMAT, found]), len(found), size


# --- next to the place --------------------------------------------------------------------------------------------


def _receipt(place: Path) -> Path:
    return place.with_name(f"{place.name}.fetched.json")


def _read(receipt: Path) -> FetchedRelease | None:
    try:
        value = json.loads(receipt.read_bytes())
        source, commit = map(str, value.pop("asked"))
        return FetchedRelease(asked=(source, commit), licences=tuple(map(str, value.pop("licences"))), **value)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(receipt: Path, fetched: FetchedRelease) -> None:
    scratch = receipt.with_name(f".{receipt.name}")
    scratch.write_text(json.dumps(asdict(fetched), indent=2) + "\n")
    scratch.replace(receipt)


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Allow one fetch to a place at a time. SetupError if another runs, or the folder around it cannot be written."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(place.with_name(f".{place.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SetupError(f"{place}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise SetupError(f"{place}: another fetch_suite is fetching it") from error
    finally:
        os.close(lock)

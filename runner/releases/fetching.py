"""Fetching a public release into a folder of this machine, whole or not at all.

    <place>                  the release's files, without a history
    <place>.fetched.json     where they are from: source, commit, digest, when, files and bytes
    .<place>.fetching/       while it is fetched; an interrupted fetch from a hub continues there

The digest is over every file below the folder: path, content and executable bit, or a link's target.

A git repository gives the files of one commit, byte for byte as they are recorded there. A hub of data sets gives the
list of its files at one revision, then each file by plain HTTP. Wire format of Hugging Face's hub
(api/datasets/<owner>/<name>):
    revision/<revision>                     {"sha": the commit}
    tree/<commit>?recursive=true            [{"type": "file", "path", "size", "oid", "lfs": {"oid"}}]; further pages
                                            by the header Link: <...>; rel="next"
    /datasets/<owner>/<name>/resolve/<commit>/<path>    a file; Range is understood

`oid` is git's id of a file's content; of large files `lfs.oid` is the SHA-256. So every byte is checked.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import quote, urljoin, urlsplit

from runner.base.digests import digest_json
from runner.base.errors import SetupError, SuiteError
from runner.base.file_digests import FileDigests, is_plain, look_at, store_for, walk
from runner.base.var_folder import MANAGE
from runner.releases import UNKNOWN, PublicRelease

Got = TypeVar("Got")
SILENCE_SECONDS = 60.0  # of silence
TRIES = 4  # of one request or file; what arrived is kept in between
PAUSE = 2.0
MAX_ANSWER_BYTES = 64 * 1024**2
MAX_FILES = 200_000
PIECE = 1024**2
REPORTED_EVERY = 100  # files
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PASSING = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a revision. `sha256` if the hub stores it outside git, else `blob`, git's id."""

    path: str
    size: int
    blob: str
    sha256: str


def fill_from_hub(tree: Path, url: str, revision: str, tell: Callable[[str], None]) -> str:
    """Fill the folder `tree` with the files of the data set's revision, and return its commit. Files of an earlier
    fetch are checked and kept, partial ones are continued. SetupError if it cannot be fetched."""
    answer, _ = _ask(f"{_api(url)}/revision/{quote(revision, safe='')}")
    commit = answer.get("sha") if isinstance(answer, dict) else None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise SetupError(f"{url}: revision {revision}: expected the hub to name a commit")
    files = list(_list_files(url, commit))
    total = sum(file.size for file in files)
    tell(f"commit {commit}: {len(files):,} files, {total / 1e6:,.1f} MB")
    parts = tree.with_name("parts")
    for folder in (tree, parts):
        folder.mkdir(parents=True, exist_ok=True)
    _remove_others(tree, files)
    present = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    if shutil.disk_usage(tree).free < total - present:
        raise SetupError(f"{tree}: too little room on this disk for {total / 1e6:,.1f} MB")
    for number, file in enumerate(files, start=1):
        _fetch(tree / file.path, parts, f"{url}/resolve/{commit}/{quote(file.path)}", file)
        if number % REPORTED_EVERY == 0:
            tell(f"{number:,} of {len(files):,} files")
    shutil.rmtree(parts)
    return commit


def _list_files(url: str, commit: str) -> Iterator[HubFile]:
    address, count = f"{_api(url)}/tree/{commit}?recursive=true", 0
    seen = {address}
    while address:
        rows, link = _ask(address)
        if not isinstance(rows, list):
            raise SetupError(f"{address}: expected a list of files")
        for row in rows:
            if isinstance(row, dict) and row.get("type") == "file":
                count += 1
                yield _hub_file(row, address)
        if count > MAX_FILES:
            raise SetupError(f"{url}: expected at most {MAX_FILES:,} files")
        following = _NEXT.search(link)
        address = urljoin(address, following[1]) if following else ""
        if address in seen or (address and urlsplit(address).netloc != urlsplit(url).netloc):
            raise SetupError(f"{url}: its list of files does not end, or continues at {urlsplit(address).netloc}")
        seen.add(address)


def _hub_file(row: dict[str, object], address: str) -> HubFile:
    path, size, blob, lfs = row.get("path"), row.get("size"), row.get("oid"), row.get("lfs")
    sha256 = lfs.get("oid") if isinstance(lfs, dict) else ""
    if isinstance(lfs, dict):
        size = lfs.get("size", size)
    if not (isinstance(path, str) and isinstance(blob, str) and isinstance(sha256, str)) or not isinstance(size, int):
        raise SetupError(f"{address}: expected path, size and oid of each file")
    parts = path.split("/")
    if not path.isprintable() or "\\" in path or any(part in ("", ".", "..", ".git") for part in parts):
        raise SetupError(f"{address}: {path[:200]!r} is not a path inside of the data set")
    return HubFile(path, size, blob, sha256.removeprefix("sha256:"))


def _remove_others(tree: Path, files: list[HubFile]) -> None:
    """Remove files of another revision that an earlier fetch left."""
    wanted = {file.path for file in files}
    for path in sorted(tree.rglob("*"), reverse=True):
        if path.is_symlink() or path.is_file():
            if str(PurePosixPath(path.relative_to(tree))) not in wanted:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()


def _fetch(place: Path, parts: Path, address: str, file: HubFile) -> None:
    """Put the file at its place. Its received part is in `parts`, under a name of its own."""
    part = parts / hashlib.sha256(file.path.encode()).hexdigest()
    try:
        if place.is_file() and _is_right(place, file):
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        _retry(lambda: _download(address, part, file.size))
        if not _is_right(part, file):
            part.unlink()
            raise SetupError(f"{address}: its content is not what the list of files says; fetch again")
        part.replace(place)
    except OSError as error:
        raise SetupError(f"{place}: {error.strerror or error}") from error


def _download(address: str, part: Path, size: int) -> None:
    """Continue where an earlier try ended, if the server supports that."""
    start = part.stat().st_size if part.exists() else 0
    if start == size and part.exists():
        return
    headers = {"Range": f"bytes={start}-"} if 0 < start < size else {}
    with _open(address, headers) as answer, part.open("ab" if answer.status == 206 else "wb", buffering=0) as out:
        while piece := answer.read1(PIECE):  # write each piece, so that a killed fetch keeps it
            out.write(piece)
            if out.tell() > size:
                raise SetupError(f"{address}: expected {size:,} bytes; the server sends more")
    if part.stat().st_size < size:
        raise http.client.IncompleteRead(b"", size - part.stat().st_size)


def _is_right(path: Path, file: HubFile) -> bool:
    if path.stat().st_size != file.size:
        return False
    with path.open("rb") as content:
        if file.sha256:
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
        blob = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
        while piece := content.read(PIECE):
            blob.update(piece)
    return blob.hexdigest() == file.blob


# --- requests -----------------------------------------------------------------------------------------------------


def _api(url: str) -> str:
    hub, _, name = url.partition("/datasets/")
    return f"{hub}/api/datasets/{name}"


def _ask(address: str) -> tuple[object, str]:
    """Return the JSON at the address and its header Link."""

    def read() -> tuple[bytes, str]:
        with _open(address, {"Accept": "application/json"}) as answer:
            return answer.read(MAX_ANSWER_BYTES + 1), answer.headers.get("Link") or ""

    content, link = _retry(read)
    try:
        if len(content) > MAX_ANSWER_BYTES:
            raise ValueError(f"more than {MAX_ANSWER_BYTES:,} bytes")
        return json.loads(content), link
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{address}: expected JSON: {str(error)[:200]}") from error


def _open(address: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    request = urllib.request.Request(address, headers={"User-Agent": "skillglass", **headers})
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=SILENCE_SECONDS)
    return answer


def _retry(get: Callable[[], Got]) -> Got:
    """SetupError when the server refuses, or cannot be reached TRIES times."""
    for pause in (*(PAUSE * 2**number for number in range(TRIES - 1)), None):
        try:
            return get()
        except urllib.error.HTTPError as error:
            if pause is None or error.code not in _PASSING:
                raise SetupError(f"{error.url}: the server answers {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            if pause is None:
                raise SetupError(f"the download broke off: {error}; the same command continues it") from error
        time.sleep(pause)
    raise AssertionError("the last try returns or raises")


GIT_SECONDS = 6 * 3600.0
# Output of git or Git LFS -> its meaning. Their own text is never shown: it has addresses, and help for other tasks.
MEANINGS = (
    (r"no space left", "the disk is full"),
    (
        r"smudge|git-lfs|\blfs\b",
        "Git LFS could not download a large file; try again, or set GIT_LFS_SKIP_SMUDGE=1 to fetch without large files",
    ),
    (r"resolve host|name or service", "the server's name is unknown: check the address and the network"),
    (r"authentication|could not read username|permission denied|\b40[13]\b", "the server asks for a login"),
    (r"not found|does not exist|not appear to be a git repository|\b404\b", "there is no such repository"),
    (r"not our ref|unadvertised object|remote ref", "the server does not give single commits"),
    (r"connect|timed out|unable to access|hung up|early eof|operation too slow", "the server cannot be reached"),
)
SLOW = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=120")  # a server that stopped sending ends the fetch
# No line ends, keywords or encodings are changed, even if the release's own attributes say so.
AS_RECORDED = "* -text -ident -working-tree-encoding\n"


def fill_from_git(tree: Path, url: str, commit: str, tell: Callable[[str], None]) -> None:
    """Fill the folder `tree` with the files of the commit, without git's own. SetupError if that fails.

    Asks for this commit alone. A server that does not give single commits is asked for all branches and tags.
    """
    store = tree.with_name("git")
    for folder in (store, tree):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    _git("init", "--quiet", "--bare", "--template=", str(store))
    here = (f"--git-dir={store}", *SLOW)
    _git(*here, "config", "remote.origin.url", url)  # where Git LFS, if it is installed, asks for large files
    try:
        _git(*here, "fetch", "--quiet", "--no-tags", "--depth=1", "--", url, commit)
    except SetupError as error:
        tell(f"this commit alone cannot be fetched ({error}); fetching the whole history")
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        _git(*here, "fetch", "--quiet", "--no-tags", "--", url, *refs)
    found = ""
    with suppress(SetupError):
        found = _git(f"--git-dir={store}", "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    if found != commit:
        raise SetupError(f"{url} has no commit {commit}")
    (store / "info").mkdir(exist_ok=True)
    (store / "info" / "attributes").write_text(AS_RECORDED)
    out = ("-c", "core.autocrlf=false", "-c", "core.symlinks=true", "-c", "core.hooksPath=/dev/null")
    _git(f"--git-dir={store}", f"--work-tree={tree}", *out, "checkout", "--quiet", "--force", "--detach", commit)
    shutil.rmtree(store)


def is_repository(path: Path) -> bool:
    """Is the folder a clone, or a bare repository?"""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
    except FileNotFoundError as error:
        raise SetupError("git is not installed; it fetches this release") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"git: {type(error).__name__}: {error}") from error
    if done.returncode:
        errors = done.stderr.decode(errors="replace").lower()
        unknown = "it gave no reason that is known here"
        meaning = next((meaning for pattern, meaning in MEANINGS if re.search(pattern, errors)), unknown)
        raise SetupError(f"git ended with exit code {done.returncode}: {meaning}")
    return done.stdout.decode(errors="replace")


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
        digest, files, size = _digest(scratch / "tree", FileDigests())
        names = (each.name for each in (scratch / "tree").iterdir() if each.name.lower().startswith(_LICENCES))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        fetched = FetchedRelease(release.name, asked, commit, digest, files, size, tuple(sorted(names)), now)
        if release.digest not in (UNKNOWN, fetched.digest):
            raise SetupError(f"{source}: expected a tree with the digest {release.digest}; found {fetched.digest}")
        written = scratch / "receipt.json"
        written.write_text(json.dumps(asdict(fetched), indent=2) + "\n")
        written.replace(_receipt(place))
        (scratch / "tree").rename(place)
        shutil.rmtree(scratch)
        return fetched


def _fill(release: PublicRelease, tree: Path, copy: Path | None, tell: Callable[[str], None]) -> str:
    """Put the files of the release into `tree`. Return its commit, as far as it is known."""
    if copy is not None and (release.is_data_set or not is_repository(copy)):
        tell(f"copying {copy}")
        if not copy.is_dir():
            raise SetupError(f"{copy}: expected a folder with the release; there is none")
        shutil.rmtree(tree, ignore_errors=True)
        try:
            shutil.copytree(copy, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        except (OSError, shutil.Error) as error:
            raise SetupError(f"{copy}: cannot be copied: {str(error)[:500]}") from error
        return UNKNOWN
    source = release.url if copy is None else str(copy)
    tell(f"fetching {source} at {release.commit if release.commit != UNKNOWN else 'its latest commit'}")
    if release.is_data_set:
        return fill_from_hub(tree, source, LATEST if release.commit == UNKNOWN else release.commit, tell)
    fill_from_git(tree, source, release.commit, tell)
    return release.commit


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

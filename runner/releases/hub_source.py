"""A release from a hub of data sets: the list of its files at one revision, then each file by plain HTTP.

Wire format of Hugging Face's hub (api/datasets/<owner>/<name>):
    revision/<revision>                     {"sha": the commit}
    tree/<commit>?recursive=true            [{"type": "file", "path", "size", "oid", "lfs": {"oid"}}]; further pages
                                            by the header Link: <...>; rel="next"
    /datasets/<owner>/<name>/resolve/<commit>/<path>    a file; Range is understood

`oid` is git's id of a file's content; of large files `lfs.oid` is the SHA-256. So every byte is checked.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import quote, urljoin, urlsplit

from runner.base.errors import SetupError

Got = TypeVar("Got")
SECONDS = 60.0  # of silence
TRIES = 4  # of one request or file; what arrived is kept in between
PAUSE = 2.0
MAX_ANSWER_BYTES = 64 * 1024**2
MAX_FILES = 200_000
PIECE = 1024**2
TOLD_EVERY = 100  # files
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
    commit = _commit(url, revision)
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
        if number % TOLD_EVERY == 0:
            tell(f"{number:,} of {len(files):,} files")
    shutil.rmtree(parts)
    return commit


def _commit(url: str, revision: str) -> str:
    answer, _ = _ask(f"{_api(url)}/revision/{quote(revision, safe='')}")
    found = answer.get("sha") if isinstance(answer, dict) else None
    if not isinstance(found, str) or not _COMMIT.fullmatch(found):
        raise SetupError(f"{url}: revision {revision}: expected the hub to name a commit")
    return found


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
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=SECONDS)
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

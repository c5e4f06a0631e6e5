"""Take files that a browser or a program sends in pieces, and keep them until an import has read them.

A sender first announces its files, then sends pieces, each at its offset. The recorded number of received bytes counts
(`UploadFile.received`). It is written after the bytes, so a cut connection, a full disk or a killed process leaves no
half-counted piece. Pieces are streamed to the disk, and one process at a time writes to an upload.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeGuard

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone

from benchapp.archive import ENDINGS
from benchapp.imports.reading.walking import UPLOADED
from benchapp.models import Upload, UploadFile, User
from runner.base.text import plural

MAX_DEPTH = 32
MAX_NAME_BYTES = 255  # what file systems take
ZIPS = (".zip", ".skill")  # a skill that skill-creator packed is a zip
ARCHIVE_ENDINGS = (*ENDINGS, ".tar", *ZIPS)
ARCHIVES = PurePosixPath("archives")
# An experiment without an id is identified by the end of its path (`walking.tail_of`). A browser does not send the
# folders above the chosen one, so these two replace them. They never change: uploading a folder again finds its rows.
TREE = PurePosixPath(UPLOADED)
LOOSE = "files"  # the folder of files that were chosen without one

_DRIVE = re.compile(r"[A-Za-z]:")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class UploadRefused(ValueError):
    """The upload is not acceptable; the message says why. No part of it is kept."""


class TooMuch(UploadRefused):
    """More than the limits allow."""


def check_path(path: object) -> str:
    """Return the path. Raise UploadRefused if it is not plainly relative, or too long or deep."""
    if not isinstance(path, str) or not path:
        raise UploadRefused("A file has no path.")
    shown = ascii(path[:120])
    if len(path) > settings.UPLOAD_PATH_LENGTH:
        most = f"at most {settings.UPLOAD_PATH_LENGTH:,} are taken"
        raise TooMuch(f"The path {shown} has {len(path):,} characters; {most}.")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        raise UploadRefused(f"The path {shown} has a control character.")
    if path.startswith("/") or "\\" in path or _DRIVE.match(path):
        raise UploadRefused(f"The path {shown} must be relative, with / between folders.")
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise UploadRefused(f"The path {shown} has an empty part, or one that leads out.")
    if len(parts) > MAX_DEPTH:
        raise TooMuch(f"The path {shown} is {len(parts)} folders deep; at most {MAX_DEPTH} are taken.")
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise TooMuch(f"A name in the path {shown} is longer than {MAX_NAME_BYTES} bytes.")
    return path


class Names:
    """Paths that are taken. A new one must not equal another in other letters, or be its parent."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: dict[str, str] = {}

    def add(self, path: str) -> None:
        """Raise UploadRefused if the path, or a folder of it, equals another one except for case or normalisation."""
        folded = _fold(path)
        if folded in self._files or folded in self._folders:
            raise UploadRefused(f"{ascii(path[:120])} comes twice, as one name differs only by case or accents.")
        self._files.add(folded)
        for folder in map(str, PurePosixPath(path).parents):
            folded = _fold(folder)
            if folded in self._files or self._folders.setdefault(folded, folder) != folder:
                raise UploadRefused(f"{ascii(folder[:120])} comes twice, as one name differs only by case or accents.")


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def place_of(folder: Path, path: str) -> Path:
    """Return the path of an uploaded file below the upload's folder."""
    if "/" in path:
        return folder / TREE / path
    return folder / (ARCHIVES / path if path.endswith(ARCHIVE_ENDINGS) else TREE / LOOSE / path)


PIECE_BYTES = 4 * 1024 * 1024  # contents of one request: below the largest body that the web process takes
MAX_PARTS = 1_000  # of files in one request
MAX_HEAD = 128 * 1024  # the line that says which
FREE_BYTES = 256 * 1024 * 1024  # of the disk, reserved for the record
READ_BYTES = 64 * 1024
LATEST = 4_102_444_800_000  # milliseconds: the year 2100
NAMED = 3  # files that a refusal lists

FOLDER: Path = settings.VAR_DIR / "uploads"


class OutOfStep(UploadRefused):
    """The sender and the server disagree on what has arrived. The sender should ask for the current state."""


class NoSpace(UploadRefused):
    """The disk is full."""


class Part(NamedTuple):
    """A stretch of one file, in the order of the request's body."""

    number: int
    offset: int
    length: int


def folder_of(upload: Upload) -> Path:
    return FOLDER / str(upload.public_id)


# --- beginning ------------------------------------------------------------------------------------------------------


def begin_upload(user: User, entries: object) -> tuple[Upload, list[UploadFile], bool]:
    """Return the upload, its files in the order of `entries`, and whether it is new. The same paths and sizes continue
    an unfinished upload. UploadRefused names the path or the limit."""
    sweep_uploads()
    files = _read_entries(entries)
    digest = hashlib.sha256(json.dumps(sorted((file.path, file.size) for file in files)).encode()).hexdigest()
    if upload := Upload.objects.unfinished().filter(by=user, whole_at=None, digest=digest).first():
        by_path = {file.path: file for file in upload.files.all()}
        return upload, [by_path[file.path] for file in files], False
    _check_open(user)
    total = sum(file.size for file in files)
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (free := shutil.disk_usage(FOLDER).free - FREE_BYTES) < total:
        raise NoSpace(f"The server's disk has room for {max(0, free):,} bytes; these files have {total:,}.")
    title = _name_chosen({file.path.partition("/")[0]: "/" in file.path for file in files})
    with transaction.atomic():
        upload = Upload.objects.create(by=user, digest=digest, title=title, files_total=len(files), bytes_total=total)
        for number, file in enumerate(files):
            file.upload, file.number = upload, number
        UploadFile.objects.bulk_create(files, batch_size=1_000)
    return upload, files, True


def _name_chosen(tops: Mapping[str, bool]) -> str:
    """Return the one name that was chosen, else how many folders and files. `tops`: by name, whether it is a folder."""
    if len(tops) == 1:
        return next(iter(tops))[:300]
    folders = sum(tops.values())
    counted = ((folders, "folder"), (len(tops) - folders, "file"))
    return " and ".join(plural(number, noun) for number, noun in counted if number)


def _check_open(user: User) -> None:
    if Upload.objects.unfinished().announced().filter(by=user).count() >= settings.UPLOADS_OPEN:
        advice = "Wait for one, or discard it."
        raise TooMuch(f"At most {settings.UPLOADS_OPEN} imports of yours may be under way. {advice}")


def _read_entries(entries: object) -> list[UploadFile]:
    """Return unsaved rows of the files announced: objects with path, size, and perhaps modified."""
    if not isinstance(entries, list) or not entries:
        raise UploadRefused("Expected a list of files, each with path and size.")
    if len(entries) > settings.UPLOAD_FILES:
        raise TooMuch(f"{len(entries):,} files; at most {settings.UPLOAD_FILES:,} are taken. Pack them as a .zip.")
    names, files, total = Names(), list[UploadFile](), 0
    for entry in entries:
        if not isinstance(entry, dict):
            raise UploadRefused("Expected each file as an object with path and size.")
        path, size, modified = check_path(entry.get("path")), entry.get("size"), entry.get("modified")
        if not is_count(size) or not (modified is None or is_count(modified, most=LATEST)):
            expected = "expected size, and modified if it is given, as whole numbers from 0"
            raise UploadRefused(f"{ascii(path[:120])}: {expected}.")
        total += size
        if total > settings.UPLOAD_BYTES:
            advice = "Upload fewer files at once, or import by command."
            raise TooMuch(f"More than {settings.UPLOAD_BYTES:,} bytes. {advice}")
        names.add(str(place_of(Path(), path)))
        files.append(UploadFile(path=path, size=size, modified=modified))
    return files


def is_count(value: object, most: int = 2**62) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


# --- pieces ---------------------------------------------------------------------------------------------------------


def receive(upload: Upload, stream: HttpRequest, length: int) -> dict[int, int]:
    """Take one request's body: a line of JSON, [[file, offset, length], ...], then those bytes. Return number of the
    file -> bytes received so far. Bytes already here are skipped, so a request may be sent twice."""
    head = stream.readline(MAX_HEAD)
    parts = _read_head(head)
    if len(head) + sum(part.length for part in parts) != length:
        raise UploadRefused("The body is longer or shorter than its first line says.")
    with _hold(upload):
        if upload.whole_at is not None:
            raise OutOfStep("This upload is finished: it takes no more pieces.")
        files = {file.number: file for file in upload.files.filter(number__in={part.number for part in parts})}
        for part in parts:
            file = files.get(part.number)
            if file is None:
                raise UploadRefused(f"This upload has no file {part.number}.")
            if part.offset + part.length > file.size:
                raise TooMuch(f"{ascii(file.path)} was declared with {file.size:,} bytes; this piece goes beyond.")
        try:
            for part in parts:
                _write(upload, files[part.number], part, stream)
        finally:
            UploadFile.objects.bulk_update(files.values(), ["received"])
            upload.save(update_fields=["changed_at"])
    return {number: file.received for number, file in files.items()}


def _read_head(head: bytes) -> list[Part]:
    expected = "Expected a first line of JSON: a list of [file, offset, length], and a line feed."
    start = parse_line(head)
    if not isinstance(start, list) or not start:
        raise UploadRefused(expected)
    if len(start) > MAX_PARTS:
        raise TooMuch(f"{len(start):,} parts in one request; at most {MAX_PARTS:,} are taken.")
    if not all(isinstance(each, list) and len(each) == 3 and all(map(is_count, each)) and each[2] for each in start):
        raise UploadRefused(expected)
    parts = [Part(*each) for each in start]
    if sum(part.length for part in parts) > PIECE_BYTES:
        raise TooMuch(f"One request takes at most {PIECE_BYTES:,} bytes.")
    return parts


def parse_line(line: bytes) -> object:
    """Return the JSON of a whole line; None for anything else."""
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None


def _write(upload: Upload, file: UploadFile, part: Part, stream: HttpRequest) -> None:
    """Write the new bytes of the part after those already here."""
    if part.offset > file.received:
        raise OutOfStep(f"{ascii(file.path)}: {file.received:,} bytes are here. Send on from there.")
    known = min(part.length, file.received - part.offset)
    for _ in take_pieces(stream, known):
        pass
    if known == part.length:
        return
    with explain_full_disk(), os.fdopen(open_to_write(place_of(folder_of(upload), file.path)), "r+b") as target:
        target.seek(file.received)
        for piece in take_pieces(stream, part.length - known):
            target.write(piece)
    file.received = part.offset + part.length


def take_pieces(stream: HttpRequest, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(length, READ_BYTES))
        if not piece:
            raise UploadRefused("The request ended early.")
        length -= len(piece)
        yield piece


def open_to_write(path: Path) -> int:
    """Open for writing. Missing folders are made, and links are not followed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_folders(path.parent)
        return os.open(path, flags, 0o600)


def make_folders(folder: Path) -> None:
    """Make private folders: `Path.mkdir` gives the mode to the last one only."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def explain_full_disk() -> Iterator[None]:
    """Raise NoSpace if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            advice = "What came in before counts; free some space, then continue."
            raise NoSpace(f"The server's disk is full. {advice}") from error
        raise


@contextmanager
def _hold(upload: Upload) -> Iterator[None]:
    """Lock the upload for writing and reload it."""
    with hold_folder(folder_of(upload)):
        try:
            upload.refresh_from_db()
            yield
        except Upload.DoesNotExist:
            raise OutOfStep("This upload was discarded.") from None


@contextmanager
def hold_folder(folder: Path) -> Iterator[Path]:
    """Make the folder and lock it for writing."""
    with explain_full_disk():
        make_folders(folder)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)


# --- the end --------------------------------------------------------------------------------------------------------


def finish_upload(upload: Upload) -> None:
    """Give the files to the importer. OutOfStep names files that are incomplete. A stopped import is tried again."""
    with _hold(upload):
        if upload.whole_at is None:
            _check_whole(upload)
            upload.whole_at = timezone.now()
        elif upload.status == Upload.Status.STOPPED:
            upload.status, upload.failures, upload.reason = Upload.Status.WAITING, 0, ""
        upload.save(update_fields=["whole_at", "status", "failures", "reason", "changed_at"])


def _check_whole(upload: Upload) -> None:
    missing = upload.files.exclude(received=F("size"))
    if names := [ascii(path) for path in missing.values_list("path", flat=True)[:NAMED]]:
        raise OutOfStep(f"{missing.count():,} files are not here whole: {', '.join(names)}.")
    for file in upload.files.iterator():
        path = place_of(folder_of(upload), file.path)
        with explain_full_disk():
            descriptor = open_to_write(path)  # creates empty files
        try:
            if os.fstat(descriptor).st_size != file.size:
                upload.files.filter(pk=file.pk).update(received=0)
                raise OutOfStep(f"{ascii(file.path)} is not on the disk as it was sent. Send it again.")
            if file.modified is not None:  # some readers use it as a fallback
                os.utime(descriptor, (file.modified / 1000, file.modified / 1000))
        finally:
            os.close(descriptor)


def discard_upload(upload: Upload) -> None:
    """Remove the upload and its files. A worker that reads them stops, and takes back what it imported. Raise OutOfStep
    for a log while a worker reads it: what earlier readings imported stays."""
    with _hold(upload):
        if upload.worker and upload.is_log:
            raise OutOfStep("A worker reads this log now. Discard it when it has ended.")
        if not upload.worker:
            remove_files(upload)
        upload.delete()


def remove_files(upload: Upload) -> None:
    shutil.rmtree(folder_of(upload), ignore_errors=True)


def sweep_uploads() -> int:
    """Remove uploads that nobody continued for UPLOAD_HOURS, and folders that belong to none. Return how many."""
    old = Upload.objects.idle_since(timezone.now() - timedelta(hours=settings.UPLOAD_HOURS))
    for upload in old:
        remove_files(upload)
    removed = len(old)
    Upload.objects.filter(pk__in=[upload.pk for upload in old]).delete()
    folders = {folder.name: folder for folder in FOLDER.iterdir()} if FOLDER.is_dir() else {}
    known = set(map(str, Upload.objects.unfinished().values_list("public_id", flat=True)))
    for name in folders.keys() - known:
        if _ID.fullmatch(name):
            shutil.rmtree(folders[name], ignore_errors=True)
            removed += 1
    return removed


# --- a path on the server -------------------------------------------------------------------------------------------


def ask_for_path(user: User, text: str, roots: Sequence[Path]) -> Upload:
    """Import a file or folder of the server. Raise UploadRefused if it is not below these roots, links resolved."""
    roots = [root.resolve() for root in roots]
    if not roots:
        raise UploadRefused("This server imports from no path: IMPORT_ROOTS names no folder.")
    try:
        path = Path(text.strip())
        resolved = path.resolve()
    except (OSError, RuntimeError, ValueError):
        raise UploadRefused("This is not a path.") from None
    if not path.is_absolute() or not any(resolved.is_relative_to(root) for root in roots):
        advice = "This server imports from no other folder."
        raise UploadRefused(f"Give a path below {', '.join(map(str, roots))}. {advice}")
    if not resolved.exists():
        raise UploadRefused(f"There is nothing at {resolved}.")
    if waiting := Upload.objects.unfinished().filter(by=user, server_path=str(resolved)).first():
        return waiting
    _check_open(user)
    return Upload.objects.create(by=user, title=str(path)[:300], server_path=str(resolved), whole_at=timezone.now())

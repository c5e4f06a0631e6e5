"""Run logs that programs send while they write them (`skillglass.start`): their folders, and the imports that follow.

The bytes on the disk are what has arrived. A sender asks for their number and continues from there, so nothing is
lost or doubled by a cut connection, a killed process or a restart. Each log has one row of `Upload`, which waits for
a worker again whenever more has arrived.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone

from benchapp.imports import uploads
from benchapp.models import Upload, User
from skillglass.run_log import NAME
from skillglass.sending import BLOBS, EVENTS, MESSAGES

FOLDER: Path = settings.VAR_DIR / "run_logs"
_PATH = re.compile(rf"{re.escape(EVENTS)}|{BLOBS}/[0-9a-f]{{64}}|{MESSAGES}/{NAME.pattern}\.jsonl")


def folder_of(user: User, log: UUID) -> Path:
    return FOLDER / str(user.pk) / str(log)


def list_received(user: User, log: UUID) -> dict[str, int]:
    """Return how many bytes of each file are here."""
    folder = folder_of(user, log)
    found = {}
    for part in (folder, folder / BLOBS, folder / MESSAGES):
        for entry in os.scandir(part) if part.is_dir() else ():
            path = str(Path(entry.path).relative_to(folder))
            if entry.is_file(follow_symlinks=False) and _PATH.fullmatch(path):
                found[path] = entry.stat(follow_symlinks=False).st_size
    return found


def receive(user: User, log: UUID, stream: HttpRequest, length: int) -> dict[str, int]:
    """Take one request's body: a line of JSON, [[path, offset, length], ...], then those bytes. Return how many bytes
    of these files are here. What is here already is skipped, so a request may be sent twice."""
    head = stream.readline(uploads.MAX_HEAD)
    parts = _read_head(head)
    total = sum(size for _, _, size in parts)
    if len(head) + total != length:
        raise uploads.UploadRefused("The body is longer or shorter than its first line says.")
    body = b"".join(uploads.take_pieces(stream, total))  # before the lock: a slow sender holds up nobody
    with uploads.hold_folder(folder_of(user, log)) as folder:
        if shutil.disk_usage(folder).free - uploads.FREE_BYTES < total:
            raise uploads.NoSpace("The server's disk is full. What came in before counts.")
        row = _find_row(user, log)
        if row.bytes_total + total > settings.UPLOAD_BYTES:
            raise uploads.TooMuch(f"A run log may have {settings.UPLOAD_BYTES:,} bytes.")
        if row.files_total >= settings.UPLOAD_FILES:
            raise uploads.TooMuch(f"A run log may have {settings.UPLOAD_FILES:,} files.")
        have, new, files, start = dict[str, int](), 0, 0, 0
        try:
            for path, offset, size in parts:
                with uploads.explain_full_disk(), os.fdopen(uploads.open_to_write(folder / path), "r+b") as file:
                    here = file.seek(0, os.SEEK_END)
                    if offset > here:
                        raise uploads.OutOfStep(f"{path}: {here:,} bytes are here. Send on from there.")
                    files += here == 0
                    new += file.write(body[start + here - offset : start + size])
                    have[path] = max(here, offset + size)
                    start += size
        finally:
            _note_arrival(row, new, files, has_events=EVENTS in have)
    return have


def _read_head(head: bytes) -> list[tuple[str, int, int]]:
    start = uploads.parse_line(head)
    parts = start if isinstance(start, list) and len(start) <= uploads.MAX_PARTS else []
    if not parts or not all(isinstance(each, list) and len(each) == 3 for each in parts):
        raise uploads.UploadRefused(
            f"Expected a first line of JSON: a list of at most {uploads.MAX_PARTS:,} [path, offset, length]."
        )
    for path, offset, size in parts:
        if not (
            isinstance(path, str)
            and _PATH.fullmatch(path)
            and uploads.is_count(offset)
            and uploads.is_count(size)
            and size
        ):
            wanted = f"Expected {EVENTS}, blobs/SHA-256 or messages/TRIAL.jsonl, then an offset and a length"
            raise uploads.UploadRefused(f"{wanted}; found {ascii(path)[:120]}.")
    if sum(size for _, _, size in parts) > uploads.PIECE_BYTES:
        raise uploads.TooMuch(f"One request takes at most {uploads.PIECE_BYTES:,} bytes.")
    return [(path, offset, size) for path, offset, size in parts]


def _find_row(user: User, log: UUID) -> Upload:
    path = str(folder_of(user, log))
    fields = {"by": user, "server_path": path, "title": f"Run log {str(log)[:8]}"}
    return Upload.objects.get_or_create(digest=f"{Upload.LOG}{log}", by=user, defaults=fields)[0]


def _note_arrival(row: Upload, new: int, files: int, *, has_events: bool) -> None:
    """Have a worker read what has arrived. Only the events name what the other files are."""
    rows = Upload.objects.filter(pk=row.pk)
    added = {"bytes_total": F("bytes_total") + new, "files_total": F("files_total") + files}
    rows.update(**added, changed_at=timezone.now())
    if has_events:
        rows.filter(whole_at=None).update(whole_at=timezone.now(), title=_name(Path(row.server_path)) or row.title)
        rows.filter(status=Upload.Status.DONE).update(status=Upload.Status.WAITING)


def _name(folder: Path) -> str:
    """Name the log by its experiment and its own name."""
    try:
        with (folder / EVENTS).open("rb") as file:
            head = json.loads(file.readline(uploads.PIECE_BYTES))
        return ascii(f"{head['experiment']}, {head['name']}")[1:-1][:300]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""


def requeue_changed() -> None:
    """Have logs read again that grew while they were read."""
    since = timezone.now() - timedelta(hours=1)
    ended = Upload.objects.filter(digest__startswith=Upload.LOG, status=Upload.Status.DONE, changed_at__gte=since)
    late = [row.pk for row in ended if row.progress.get("bytes") != row.bytes_total]
    Upload.objects.filter(pk__in=late).update(status=Upload.Status.WAITING)


def sweep_logs() -> None:
    """Remove the folders of logs that were read and did not grow for UPLOAD_HOURS. A sender that comes back sends all
    again, which changes nothing."""
    old = timezone.now() - timedelta(hours=settings.UPLOAD_HOURS)
    for row in Upload.objects.filter(digest__startswith=Upload.LOG, status=Upload.Status.DONE, changed_at__lt=old):
        shutil.rmtree(row.server_path, ignore_errors=True)
        row.delete()

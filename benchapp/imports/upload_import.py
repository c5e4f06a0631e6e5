"""Import uploads in the background: one job reads one upload, by the same importer as the command."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from django.conf import settings

from benchapp.imports import uploads
from benchapp.imports.audited_edits import EditRefused, undo_import
from benchapp.imports.batch import import_paths
from benchapp.imports.sent_logs import requeue_changed, sweep_logs
from benchapp.models import ImportBatch, Upload
from benchapp.record.slices import SlicedWork, SliceEnd, SliceOver
from runner.base.errors import SetupError
from skillglass.envelope import MANIFEST

UNPACKED = "unpacked"
PROGRESS_SECONDS = 1.0  # between two updates of the progress

WORK = SlicedWork(Upload.objects.whole, "importing", f"{__name__}.import_upload")


def enqueue_due() -> int:
    return WORK.enqueue_due()


def tend_uploads() -> None:
    """Do the work between jobs."""
    uploads.sweep_uploads()
    sweep_logs()
    requeue_changed()
    enqueue_due()


def import_upload(upload_id: str) -> None:
    """Run the job. An imported upload keeps no file; a stopped one can be tried again."""
    WORK.run(upload_id, _import)


def _import(upload: Upload) -> SliceEnd:
    try:
        paths = dict(_list_paths(upload))
    except uploads.UploadRefused as refusal:
        shutil.rmtree(uploads.folder_of(upload) / UNPACKED, ignore_errors=True)
        return SliceEnd(Upload.Status.STOPPED, str(refusal))
    written_at, read, size = 0.0, 0, upload.bytes_total
    place, files, files_before = "", 0, 0  # of the experiment being read, its files, and those of the ones before it
    batch: ImportBatch | None = None

    def keep_batch(made: ImportBatch) -> None:
        nonlocal batch
        batch = made
        WORK.hold(upload, batch=batch, progress={})

    def keep_progress(name: str, done: int, total: int, path: str) -> None:
        nonlocal written_at, read, place, files, files_before
        read += 1
        if path != place:
            below = f"{path.removeprefix(f'{uploads.TREE.name}/')}/"
            place, files_before, files = path, files_before + files, upload.files.filter(path__startswith=below).count()
        if time.monotonic() - written_at > PROGRESS_SECONDS:
            written_at = time.monotonic()
            progress = {"name": name, "done": done, "total": total, "read": read}
            if 0 < files < upload.files_total:  # other experiments follow: their trials are not counted yet
                progress["files"] = min(upload.files_total, files_before + files * done // total)
            WORK.hold(upload, progress=progress)

    try:
        import_paths(
            paths,
            names=paths,
            user=upload.by,
            continued=upload.batch if upload.is_log else None,
            begun=keep_batch,
            waiting=lambda line: WORK.hold(upload, progress={"waiting": line}),
            progress=keep_progress,
        )
        WORK.hold(upload)
    except SliceOver:  # a person discarded it, or another worker took it
        if not Upload.objects.filter(pk=upload.pk).exists():
            # what people already work with stays, with its batch
            uploads.remove_files(upload)
            if batch is not None and upload.by is not None:
                with suppress(EditRefused):
                    undo_import(batch, user=upload.by, reason="Discarded while it was read.")
        return SliceEnd(Upload.Status.WAITING)
    uploads.remove_files(upload)
    upload.files.all().delete()
    return SliceEnd(Upload.Status.DONE, fields={"progress": {"bytes": size}})


def _list_paths(upload: Upload) -> Iterator[tuple[Path, str]]:
    """Return what the importer reads, and its name in the record: the same for every upload of the same folder."""
    if upload.server_path:
        path = Path(upload.server_path)
        if path.resolve() != path:
            raise uploads.UploadRefused(f"{path} leads elsewhere by now.")
        yield path, upload.title if upload.is_log else str(path)
        return
    folder = uploads.folder_of(upload)
    if not folder.is_dir():
        advice = "Pages and workers need the same folder SKILLGLASS_VAR."
        raise SetupError(f"The files of this upload are not here. {advice}")
    yield from _list_tops(folder)
    unpacked = folder / UNPACKED
    shutil.rmtree(unpacked, ignore_errors=True)  # of an earlier try
    for number, path in enumerate(
        sorted((folder / uploads.ARCHIVES).iterdir()) if (folder / uploads.ARCHIVES).is_dir() else ()
    ):
        if is_ours(path):
            yield path, f"{uploads.TREE.name}/{path.name}"
            continue
        target = unpacked / str(number)
        uploads.make_folders(target / uploads.TREE)
        unpack(path, target / uploads.TREE)
        yield from _list_tops(target)


def _list_tops(folder: Path) -> Iterator[tuple[Path, str]]:
    if (folder / uploads.TREE).is_dir():
        for path in sorted((folder / uploads.TREE).iterdir()):
            yield path, f"{uploads.TREE.name}/{path.name}"


MAX_RATIO = 100  # bytes of contents for one of the archive
FREE_OF_RATIO = 64 * 1024 * 1024  # bytes that any archive may unpack to
MAX_EXTENSION = 64 * 1024  # of a tar: a long name, or a header of pax
MAX_DIRECTORY = 64 * 1024 * 1024  # of a zip: the list of its members
PIECE = 1024 * 1024
MAC_EXTRAS = "__MACOSX/"  # what the Finder adds to a zip


def is_ours(path: Path) -> bool:
    """Is it an archive that `export_experiment` wrote, which the importer reads itself?"""
    if path.name.endswith((*uploads.ZIPS, ".tar")):
        return False
    if path.name.endswith(".tar.zst"):
        return True
    try:
        with tarfile.open(path, "r|gz", tarinfo=BoundedInfo) as archive:
            first = archive.next()
    except (OSError, EOFError, tarfile.TarError):
        return False
    return first is not None and first.name == MANIFEST


def unpack(path: Path, folder: Path) -> None:
    """Write the members below `folder`; if they have no common folder, in one named after the archive."""
    staging = folder.with_name(f"{folder.name}-staging")
    uploads.make_folders(folder)
    uploads.make_folders(staging)
    try:
        with uploads.explain_full_disk():
            _write_all(path, staging)
        tops = list(staging.iterdir())
        if len(tops) == 1 and tops[0].is_dir():
            tops[0].rename(folder / tops[0].name)
        else:
            stem = next(
                path.name.removesuffix(ending) for ending in uploads.ARCHIVE_ENDINGS if path.name.endswith(ending)
            )
            staging.rename(folder / uploads.check_path(stem or "archive"))
    except (tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise uploads.UploadRefused(f"{path.name} cannot be unpacked: {error or type(error).__name__}.") from error
    except uploads.UploadRefused as refusal:
        raise type(refusal)(f"{path.name} cannot be unpacked: {refusal}") from refusal


def _write_all(path: Path, folder: Path) -> None:
    names, written = uploads.Names(), 0
    most = min(settings.UPLOAD_BYTES, max(FREE_OF_RATIO, MAX_RATIO * path.stat().st_size))
    for name, content in _members(path):
        names.add(uploads.check_path(name))
        target = folder / name
        uploads.make_folders(target.parent)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            while piece := content.read(PIECE):
                written += len(piece)
                if written > most:
                    raise uploads.TooMuch(f"It holds more than {most:,} bytes.")
                file.write(piece)


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and content of each regular file, in order. Folders and links are skipped."""
    too_many = uploads.TooMuch(f"It holds more than {settings.UPLOAD_FILES:,} files.")
    if path.name.endswith(uploads.ZIPS):
        with BoundedFile(path) as file, zipfile.ZipFile(file) as archive:
            if len(archive.infolist()) > settings.UPLOAD_FILES:
                raise too_many
            for member in archive.infolist():
                is_link = stat.S_ISLNK(member.external_attr >> 16)
                if not (member.is_dir() or is_link or member.filename.startswith(MAC_EXTRAS)):
                    with archive.open(member) as content:
                        yield member.filename, content
        return
    with tarfile.open(path, "r|*", tarinfo=BoundedInfo) as tar:
        for count, info in enumerate(tar, start=1):
            if count > settings.UPLOAD_FILES:
                raise too_many
            if info.isfile() and not info.issparse():
                opened = tar.extractfile(info)
                assert opened is not None  # it is a regular file
                yield info.name.removeprefix("./"), opened
            elif not (info.isdir() or info.issym()):
                raise uploads.UploadRefused(f"{ascii(info.name[:120])} is a hard link, a device or a sparse file.")
            vars(tar)["members"] = []  # else it keeps every header


class BoundedFile(io.FileIO):
    """Refuse a zip with a huge member list: Python reads the whole list at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = os.fstat(self.fileno()).st_size - self.tell()
        if size > MAX_DIRECTORY:
            raise uploads.TooMuch("It has too many members.")
        return super().read(size) or b""


class BoundedInfo(tarfile.TarInfo):
    """Refuse long extensions of a tar header (long names, pax): Python reads them into memory without a limit."""

    LONG_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
    EXTENSIONS = (*LONG_NAMES, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in cls.EXTENSIONS and found.size > MAX_EXTENSION:
            raise tarfile.ReadError("one of its headers is too long")
        return found

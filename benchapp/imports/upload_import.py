"""Import uploads in the background: one job reads one upload, by the same importer as the command."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchapp.imports.batch import import_paths
from benchapp.imports.unpacking import is_ours, unpack
from benchapp.imports.upload_paths import ARCHIVES, TREE, UploadRefused
from benchapp.imports.uploads import folder_of, make_folders, remove_files, sweep_uploads
from benchapp.models import Upload
from benchapp.record.call_budget import SliceOver
from benchapp.record.slices import SlicedWork, SliceEnd
from runner.base.errors import SetupError

UNPACKED = "unpacked"
PROGRESS_SECONDS = 1.0  # between two updates of the progress

WORK = SlicedWork(Upload.objects.whole, "importing", f"{__name__}.import_upload")


def enqueue_due() -> int:
    return WORK.enqueue_due()


def tend_uploads() -> None:
    """Do the work between jobs."""
    sweep_uploads()
    enqueue_due()


def import_upload(upload_id: str) -> None:
    """Run the job. An imported upload keeps no file; a stopped one can be tried again."""
    WORK.run(upload_id, _import)


def _import(upload: Upload) -> SliceEnd:
    try:
        paths = dict(_list_paths(upload))
    except UploadRefused as refusal:
        shutil.rmtree(folder_of(upload) / UNPACKED, ignore_errors=True)
        return SliceEnd(Upload.Status.STOPPED, str(refusal))
    try:
        import_paths(
            paths,
            names=paths,
            user=upload.by,
            begun=lambda batch: WORK.hold(upload, batch=batch, progress={}),
            waiting=lambda line: WORK.hold(upload, progress={"waiting": line}),
            progress=_keep_progress(upload),
        )
    except SliceOver:  # a person stopped it, or another worker took it
        return SliceEnd(Upload.Status.WAITING)
    remove_files(upload)
    upload.files.all().delete()
    return SliceEnd(Upload.Status.DONE)


def _keep_progress(upload: Upload) -> Callable[[str, int, int], None]:
    written_at = 0.0

    def keep(name: str, done: int, total: int) -> None:
        nonlocal written_at
        if time.monotonic() - written_at > PROGRESS_SECONDS:
            written_at = time.monotonic()
            WORK.hold(upload, progress={"name": name, "done": done, "total": total})

    return keep


def _list_paths(upload: Upload) -> Iterator[tuple[Path, str]]:
    """Return what the importer reads, and its name in the record: the same for every upload of the same folder."""
    if upload.server_path:
        path = Path(upload.server_path)
        if path.resolve() != path:
            raise UploadRefused(f"{path} leads elsewhere by now.")
        yield path, str(path)
        return
    folder = folder_of(upload)
    if not folder.is_dir():
        raise SetupError(
            "The files of this upload are not here. Pages and workers need the same folder SKILLGLASS_VAR."
        )
    yield from _list_tops(folder)
    unpacked = folder / UNPACKED
    shutil.rmtree(unpacked, ignore_errors=True)  # of an earlier try
    for number, path in enumerate(sorted((folder / ARCHIVES).iterdir()) if (folder / ARCHIVES).is_dir() else ()):
        if is_ours(path):
            yield path, f"{TREE.name}/{path.name}"
            continue
        target = unpacked / str(number)
        make_folders(target / TREE)
        unpack(path, target / TREE)
        yield from _list_tops(target)


def _list_tops(folder: Path) -> Iterator[tuple[Path, str]]:
    if (folder / TREE).is_dir():
        for path in sorted((folder / TREE).iterdir()):
            yield path, f"{TREE.name}/{path.name}"

"""`/imports/uploads/`: files come in, from a browser or a program, piece by piece, and are imported by a worker.

All answers are JSON, errors as `{"error": ...}`; forms of the page are answered by the page. docs/how-to/importing.md
describes it for programs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse

from benchapp.archive import ENDINGS
from benchapp.experiments.work.progress import workforce
from benchapp.imports import sent_logs, uploads
from benchapp.imports.upload_import import enqueue_due
from benchapp.imports.uploads import TooMuch, UploadRefused
from benchapp.models import Upload, User
from inspector.web.access import is_local, needs, takes_runs, user_of, wants_page
from inspector.web.responses import absolute
from runner.base.text import plural
from runner.base.var_folder import MANAGE
from skillglass.sending import EVENTS

BINARY = "application/octet-stream"


class NoSuchUpload(UploadRefused):
    """The upload was discarded, or belongs to somebody else."""


STATUS = {NoSuchUpload: 404, TooMuch: 413, uploads.OutOfStep: 409, uploads.NoSpace: 507}


def _for_programs(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let operators and their programs call the view. What it refuses is JSON, or the page with the refusal."""

    @wraps(view)
    def answered(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except UploadRefused as refusal:
            if wants_page(request):
                messages.error(request, str(refusal))
                typed = urlencode({"path": path}) if (path := request.POST.get("path")) else ""
                return redirect(f"{reverse('imports')}{'?' if typed else ''}{typed}")
            return JsonResponse({"error": str(refusal)}, status=STATUS.get(type(refusal), 422))

    return takes_runs(needs(User.Level.OPERATOR)(answered))


@_for_programs
def begin(request: HttpRequest) -> HttpResponse:
    """Begin an upload from its list of files, or continue the unfinished one with the same list. `files`: of each, in
    the order of the request, its number and how many bytes are here."""
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise UploadRefused("Expected JSON: an object with files.")
    upload, files, is_new = uploads.begin_upload(user_of(request), body.get("files"))
    have = [[file.number, file.received] for file in files]
    more = {"files": have, "piece_bytes": uploads.PIECE_BYTES, "piece_files": uploads.MAX_PARTS}
    return JsonResponse({**describe_upload(request, upload), **more}, status=201 if is_new else 200)


@_for_programs
def upload(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Return how far the upload is, in facts and in a sentence."""
    return JsonResponse(describe_upload(request, _find(request, public_id)))


@_for_programs
def pieces(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Take a line that names stretches of files, and their bytes behind it.
    The body is streamed, never held as a whole."""
    found = _find(request, public_id)
    if request.content_type != BINARY:
        return JsonResponse({"error": f"Expected Content-Type: {BINARY}."}, status=415)
    have = uploads.receive(found, request, int(request.headers.get("Content-Length") or 0))
    return JsonResponse({"files": list(have.items())})


@_for_programs
def finish(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Queue the upload for its import, or again where the import stopped."""
    found = _find(request, public_id)
    uploads.finish_upload(found)
    return _accept(request, found)


@_for_programs
def discard(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Remove an upload before it is imported, also while it is read."""
    found = _find(request, public_id)
    uploads.discard_upload(found)
    if wants_page(request):
        messages.success(request, f"Discarded: {found.title}.")
        return redirect("imports")
    return JsonResponse({"id": str(public_id), "state": "discarded"})


@_for_programs
def run_log(request: HttpRequest, log: UUID) -> HttpResponse:
    """GET: how many bytes of each file of a run log are here.
    POST: take a line that names stretches of them, and their bytes."""
    user = user_of(request)
    if request.method == "GET":
        return JsonResponse({"files": sent_logs.list_received(user, log)})
    if request.content_type != BINARY:
        return JsonResponse({"error": f"Expected Content-Type: {BINARY}."}, status=415)
    have = sent_logs.receive(user, log, request, int(request.headers.get("Content-Length") or 0))
    if EVENTS in have:
        enqueue_due()
    return JsonResponse({"files": have})


@_for_programs
def read_path(request: HttpRequest) -> HttpResponse:
    """Import a path on the server."""
    return _accept(request, uploads.ask_for_path(user_of(request), request.POST.get("path", ""), list_roots(request)))


def list_roots(request: HttpRequest) -> list[Path]:
    """List the folders of the server that the reader may import from.
    A token does not count as the person at the machine."""
    at_machine = is_local(request.user) and not hasattr(request, "token")
    return settings.IMPORT_ROOTS or ([Path.home()] if settings.IMPORTS_FROM_HOME and at_machine else [])


def _find(request: HttpRequest, public_id: UUID) -> Upload:
    """Find an upload of the user who asks. Others cannot see it before it is imported."""
    upload = Upload.objects.select_related("batch").filter(public_id=public_id, by=user_of(request)).first()
    if upload is None:
        raise NoSuchUpload("There is no such upload of yours.")
    return upload


def _accept(request: HttpRequest, upload: Upload) -> HttpResponse:
    enqueue_due()
    if wants_page(request):
        return redirect("imports")
    return JsonResponse(describe_upload(request, upload), status=202)


def describe_upload(request: HttpRequest, upload: Upload) -> dict[str, object]:
    """Return the facts for programs, and the sentence that pages show."""
    files, received = upload.count_received() if upload.whole_at is None else (upload.files_total, upload.bytes_total)
    batch = f"{absolute(request, 'imports')}?batch={upload.batch.public_id}" if upload.batch else None
    return {
        "id": str(upload.public_id),
        "url": absolute(request, "upload", upload.public_id),
        "title": upload.title,
        "state": upload.state,
        "files_received": files,
        "files_total": upload.files_total,
        "bytes_received": received,
        "bytes_total": upload.bytes_total,
        "progress": {
            name: upload.progress[name] for name in ("done", "total", "read", "files") if name in upload.progress
        },
        "sentence": write_sentence(upload, received),
        "imported": batch if upload.status == Upload.Status.DONE else None,
    }


def write_sentence(upload: Upload, received: int) -> str:
    match upload.state:
        case "receiving":
            here = f"{received / 1e6:,.1f} of {upload.bytes_total / 1e6:,.1f} MB"
            return f"{upload.title}: {here} arrived. Choose the same again to continue."
        case "waiting":
            return f"{upload.title}: waiting for a worker.{_explain_no_worker()}"
        case "importing":
            return f"{upload.title}: {_write_progress(upload)}"
        case "done":
            return f"{upload.title} was imported."
        case _:
            return f"{upload.title}: the import stopped. {upload.reason}"


def _write_progress(upload: Upload) -> str:
    progress: Mapping[str, object] = upload.progress
    if "waiting" in progress:
        return str(progress["waiting"])
    if "total" in progress:
        here = f", {progress['done']:,} of {progress['total']:,}" if progress["total"] != 1 else ""
        files = f", {progress['files']:,} of {upload.files_total:,} files" if "files" in progress else ""
        return f"{progress['read']:,} trials and libraries read so far{files}. Now {progress['name']}{here}."
    if upload.title.endswith(ENDINGS):
        return "reading the archive. It comes in as a whole, at the end."
    if upload.files_total:
        return f"looking for runs in {plural(upload.files_total, 'file')}."
    return "looking for runs."


def _explain_no_worker() -> str:
    workers = workforce().workers
    if workers is None:
        return " The broker of the jobs does not answer."
    if workers:
        return (
            f" It starts when one of {len(workers)} workers is free."
            if workers[1:]
            else " It starts when the worker is free."
        )
    return f" No worker is running. Start one: {MANAGE} work"

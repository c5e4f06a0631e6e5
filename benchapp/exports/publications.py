"""Publications in the background: ordered on a page, made by a worker, kept as a zip in the data folder until deleted.
The job itself draws pages, so it is defined next to them."""

from __future__ import annotations

import shutil
import time

from django.db import transaction

from benchapp.models import Publication, User
from benchapp.models.experiments import publications_folder
from benchapp.record.slices import SlicedWork
from benchapp.record.writing.human_acts import note_activity

LEFT_SECONDS = 24 * 3600  # longer than any job: an older folder belongs to none
WORK = SlicedWork(Publication.objects.all, "publication", "inspector.publishing.publication_job.publish_now")


def enqueue_due() -> int:
    return WORK.enqueue_due()


def order_publication(by: User, **columns: object) -> Publication:
    """Keep the order and hint at it. `columns`: of a Publication."""
    with transaction.atomic():
        made = Publication.objects.create(made_by=by, **columns)
        note_activity(by, "published", made, detail={"name": made.title, "form": made.form})
        transaction.on_commit(enqueue_due)
    return made


def delete_publication(publication: Publication, by: User) -> None:
    """Delete the row, then its file. If the file stays, the next publication sweeps it."""
    with transaction.atomic():
        note_activity(
            by, "publication.deleted", publication, detail={"name": publication.title, "form": publication.form}
        )
        path = publication.path
        publication.delete()
    path.unlink(missing_ok=True)


def sweep_files() -> None:
    """Remove files whose publication or experiment is gone,
    and folders that a killed worker left a day ago or earlier."""
    known = {f"{each}.zip" for each in Publication.objects.values_list("public_id", flat=True)}
    for path in publications_folder().iterdir():
        if path.is_dir():
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        elif path.name not in known:
            path.unlink(missing_ok=True)

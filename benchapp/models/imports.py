from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Count, F, Q, Sum

from benchapp.models.base import PublicModel, SlicedModel, SlicedQuerySet


class ImportBatch(PublicModel):
    """One call of the importer: its input, what came in, and what it could not read."""

    class Status(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        INTERRUPTED = "interrupted"

    paths = models.JSONField()
    format = models.CharField(max_length=32)
    status = models.CharField(max_length=16, choices=Status, default=Status.RUNNING)
    counts = models.JSONField(default=dict)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    actor = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    undone_at = models.DateTimeField(null=True)
    undone_by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    undo_reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]


class ImportedExperiment(models.Model):
    """An experiment that an import read. `is_new`: this import created it, or restored it after it was deleted."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="arrivals")
    experiment = models.ForeignKey("benchapp.Experiment", on_delete=models.CASCADE, related_name="arrivals")
    is_new = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "experiment"], name="arrival_once")]


class ImportProblem(models.Model):
    """Something that could not be read as it was: where, what was expected, what was found."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="problems")
    path = models.CharField(max_length=1000)
    place = models.CharField(max_length=300, blank=True)
    expected = models.CharField(max_length=500)
    message = models.TextField()

    class Meta:
        ordering = ["id"]


class UploadQuerySet(SlicedQuerySet["Upload"]):
    def whole(self) -> UploadQuerySet:
        """Uploads that an import may take."""
        return self.exclude(whole_at=None)

    def unfinished(self) -> UploadQuerySet:
        """Uploads that still hold files on the disk, or a path to be read."""
        return self.exclude(status=SlicedModel.Status.DONE)

    def announced(self) -> UploadQuerySet:
        """Uploads that a person chose; no logs that programs send."""
        return self.exclude(digest__startswith=Upload.LOG)

    def idle_since(self, moment: datetime) -> UploadQuerySet:
        """Uploads that have waited for their sender since then. One that waits for a worker may wait."""
        is_with_sender = Q(whole_at=None) | Q(status=SlicedModel.Status.STOPPED)
        return self.unfinished().filter(is_with_sender, changed_at__lt=moment, worker="")


class Upload(SlicedModel):
    """What one person sends to be imported. When it is complete (`whole_at`), it waits for a worker.

    `server_path` names a file or folder of the server instead; then nothing is sent. The folder can be that of a run
    log which a program sends: it is read again whenever more has arrived.
    """

    LOG = "log:"  # begins the digest of a run log's row

    by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True, db_index=True)
    whole_at = models.DateTimeField(null=True)
    title = models.CharField(max_length=300)  # the folders and files as chosen
    server_path = models.CharField(max_length=4096, blank=True)
    # of paths and sizes: the same files continue it
    digest = models.CharField(max_length=64, blank=True, db_index=True)
    files_total = models.PositiveIntegerField(default=0)
    bytes_total = models.PositiveBigIntegerField(default=0)
    progress = models.JSONField(default=dict)  # of the import: name of the experiment, trials done and in total
    batch = models.ForeignKey(ImportBatch, null=True, on_delete=models.SET_NULL, related_name="uploads")

    objects = UploadQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]

    @property
    def state(self) -> str:
        """receiving, waiting or importing; done; or stopped, for the reason that `reason` gives."""
        if self.status != SlicedModel.Status.WAITING:
            return self.status
        if self.whole_at is None:
            return "receiving"
        return "importing" if self.worker else "waiting"

    @property
    def is_log(self) -> bool:
        return self.digest.startswith(self.LOG)

    def count_received(self) -> tuple[int, int]:
        """Return how many files have arrived completely, and how many bytes of all."""
        whole = Count("pk", filter=Q(received=F("size")))
        found = self.files.aggregate(files=whole, bytes=Sum("received"))
        return found["files"], found["bytes"] or 0


class UploadFile(models.Model):
    """One file of an upload: its name, its size, and how many bytes have arrived."""

    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="files")
    number = models.PositiveIntegerField()  # pieces name it by this
    path = models.TextField()  # relative, with slashes
    size = models.PositiveBigIntegerField()
    received = models.PositiveBigIntegerField(default=0)
    modified = models.BigIntegerField(null=True)  # milliseconds since 1970, where the sender knows

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["upload", "number"], name="upload_file_number")]

from __future__ import annotations

import orjson
from django.db import models, transaction
from django.urls import reverse

from benchapp.models.base import PublicModel
from benchapp.models.blobs import Blob
from benchapp.models.suites import Family
from runner.base.digests import EMPTY_LIBRARY, digest_bytes, library_digest
from runner.base.types import AuthorMode, DecisionStatus, File, Files, Patch


class SnapshotQuerySet(models.QuerySet["Snapshot"]):
    """Snapshots by the digest of their files."""

    def put(self, files: Files) -> Snapshot:
        """Return the snapshot of these files, stored once. Contents are stored before the rows that point at them."""
        digest = library_digest(files)
        if found := self.filter(digest=digest).first():
            return found
        Blob.objects.put_many(file.content for file in files.values())
        skills = {path.split("/", 1)[0] for path in files if path.endswith("/SKILL.md")}
        with transaction.atomic():  # a snapshot is never seen without its files, even after a crash
            snapshot, created = self.get_or_create(
                digest=digest,
                defaults={
                    "files_total": len(files),
                    "skills_total": len(skills),
                    "bytes_total": sum(len(file.content) for file in files.values()),
                },
            )
            if created:
                SnapshotFile.objects.bulk_create(SnapshotFile.of(snapshot, path, file) for path, file in files.items())
        return snapshot

    def standing_for(self, digest: str) -> Snapshot:
        """Return the recorded snapshot of that digest. The empty library is recorded at its first use."""
        return self.put({}) if digest == EMPTY_LIBRARY else self.get(digest=digest)


class Snapshot(models.Model):
    """One state of a library: a manifest path -> (digest, mode), under its own digest. Immutable."""

    digest = models.CharField(max_length=64, unique=True)
    files_total = models.PositiveIntegerField()
    skills_total = models.PositiveIntegerField()  # folders with a SKILL.md
    bytes_total = models.PositiveBigIntegerField()

    objects = SnapshotQuerySet.as_manager()

    def __str__(self) -> str:
        return self.digest[:12]

    def read(self) -> dict[str, File]:
        """Return every file with its content, by path."""
        files = self.files.select_related("blob")
        return {file.path: File(file.blob.content(), file.mode) for file in files}

    def read_texts(self, *, files: int, file_bytes: int) -> dict[str, str]:
        """Return path -> text of the first files within the size limit. Invalid UTF-8 is replaced."""
        rows = self.files.filter(size__lte=file_bytes).select_related("blob").order_by("path")
        return {file.path: file.blob.text() for file in rows[:files]}

    def manifest(self) -> dict[str, str]:
        """Return path -> content digest, without loading a blob."""
        return dict(self.files.values_list("path", "blob_id"))


class SnapshotFile(models.Model):
    """One file of a snapshot: its path, mode and the digest of its content."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=1000)
    skill = models.CharField(max_length=200, db_index=True)  # first part of the path
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="snapshot_files")
    mode = models.PositiveIntegerField(default=0o644)
    size = models.PositiveBigIntegerField()
    lines = models.PositiveIntegerField()

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["snapshot", "path"], name="snapshot_path")]

    @classmethod
    def of(cls, snapshot: Snapshot, path: str, file: File) -> SnapshotFile:
        return cls(
            snapshot=snapshot,
            path=path,
            skill=path.split("/", 1)[0],
            blob_id=digest_bytes(file.content),
            mode=file.mode,
            size=len(file.content),
            lines=file.content.count(b"\n") + (not file.content.endswith(b"\n") and bool(file.content)),
        )


def _choices(enum: type) -> list[tuple[str, str]]:
    return [(member.value, member.value) for member in enum]  # type: ignore[attr-defined]


class Decision(PublicModel):
    """One answer of the author. All outcomes are kept and numbered in order."""

    episode = models.ForeignKey("benchapp.Episode", on_delete=models.CASCADE, related_name="decisions")
    number = models.PositiveIntegerField()
    round = models.PositiveIntegerField()  # rounds completed, this one included
    family = models.ForeignKey(Family, on_delete=models.PROTECT, related_name="+")
    mode = models.CharField(max_length=16, choices=_choices(AuthorMode))
    after_trial = models.ForeignKey("benchapp.Trial", null=True, on_delete=models.CASCADE, related_name="decisions")
    answer = models.PositiveIntegerField(default=1)  # which answer to this occasion
    status = models.CharField(max_length=16, choices=_choices(DecisionStatus), db_index=True)
    operation_type = models.CharField(max_length=32, blank=True)
    summary = models.TextField(blank=True)
    findings = models.JSONField(default=list)  # [{rule, path, message, severity}]
    error = models.TextField(blank=True)
    patch = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # JSON as parsed
    call = models.ForeignKey("benchapp.ModelCall", null=True, on_delete=models.RESTRICT, related_name="decisions")
    before = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    after = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    lines_added = models.PositiveIntegerField(default=0)
    lines_removed = models.PositiveIntegerField(default=0)
    files_changed = models.PositiveIntegerField(default=0)
    decided_at = models.DateTimeField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["episode", "number"], name="decision_number")]

    def __str__(self) -> str:
        return f"decision {self.number} ({self.status})"

    @property
    def changed_library(self) -> bool:
        return self.before_id != self.after_id

    @property
    def is_refused(self) -> bool:
        """Did it break a rule or fail? The library never had what its patch asked for."""
        return self.status in (DecisionStatus.REJECTED, DecisionStatus.FAILED)

    def read_patch(self) -> Patch | None:
        """Return the patch as parsed, None where the reply contained none."""
        if self.patch_id is None:
            return None
        raw = orjson.loads(Blob.objects.read(self.patch_id))
        return Patch(
            summary=str(raw.get("summary", "")),
            operation_type=str(raw.get("operation_type", "")),
            upsert_files={str(path): str(text) for path, text in raw.get("upsert_files", {}).items()},
            delete_paths=tuple(map(str, raw.get("delete_paths", ()))),
        )

    def read_proposal(self) -> Patch | None:
        """Return what a refused decision asked for, None where it was accepted or asked for no file."""
        patch = self.read_patch() if self.is_refused else None
        return patch if patch and (patch.upsert_files or patch.delete_paths) else None

    def read_reply(self) -> str:
        """Return the author's answer verbatim, empty where none is recorded."""
        if self.call is None or self.call.reply_id is None:
            return ""
        return str(orjson.loads(Blob.objects.read(self.call.reply_id)).get("text", ""))

    def get_absolute_url(self) -> str:
        query = f"?episode={self.episode.public_id}&decision={self.number}"
        return reverse("library", args=[self.episode.run.public_id]) + query


class DecisionEvidence(models.Model):
    """A trial shown to the author, with the compaction it saw, in order."""

    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="evidence")
    ordinal = models.PositiveIntegerField()
    trial = models.ForeignKey("benchapp.Trial", on_delete=models.CASCADE, related_name="shown_in")
    compaction = models.ForeignKey("benchapp.Compaction", null=True, on_delete=models.RESTRICT, related_name="+")

    class Meta:
        ordering = ["ordinal"]
        constraints = [models.UniqueConstraint(fields=["decision", "ordinal"], name="evidence_place")]


class LibraryDiagnosis(models.Model):
    """What the rules of one version found in one state of an episode's library. Derived: it can be recomputed.

    It belongs to the episode as well as to the snapshot, because a leak is text that *this* episode's trials showed.
    """

    episode = models.ForeignKey("benchapp.Episode", on_delete=models.CASCADE, related_name="diagnoses")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="diagnoses")
    rules_version = models.CharField(max_length=64)
    sources_digest = models.CharField(max_length=64)  # of everything the library was compared with
    alarms = models.PositiveIntegerField()
    warnings = models.PositiveIntegerField()
    notes = models.PositiveIntegerField()
    skills = models.JSONField(default=list)  # [{skill, pattern, files, words, cues: {group: {cue: bool}}}]
    left_out = models.JSONField(default=dict)  # rule -> findings beyond those kept
    cut = models.JSONField(default=list)  # files that were read only at the beginning
    tasks_seen = models.PositiveIntegerField()
    trials_read = models.PositiveIntegerField()
    trials_left_out = models.PositiveIntegerField()
    references = models.PositiveIntegerField()  # texts of reference skills that were available
    diagnosed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "library diagnoses"
        constraints = [models.UniqueConstraint(fields=["episode", "snapshot"], name="diagnosis_of_state")]

    def __str__(self) -> str:
        return f"{self.alarms} alarms, {self.warnings} warnings, {self.notes} notes"


class LibraryFinding(models.Model):
    """One hit of one rule. start and end count characters of the file; equal, and line 0, for the whole file."""

    diagnosis = models.ForeignKey(LibraryDiagnosis, on_delete=models.CASCADE, related_name="findings")
    ordinal = models.PositiveIntegerField()
    rule = models.CharField(max_length=64)
    group = models.CharField(max_length=16)
    severity = models.CharField(max_length=8)  # alarm, warning, note
    path = models.CharField(max_length=1000)
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    line = models.PositiveIntegerField()
    quote = models.TextField(blank=True)
    says = models.TextField()
    # where it was seen
    trial = models.ForeignKey("benchapp.Trial", null=True, on_delete=models.SET_NULL, related_name="+")
    step = models.PositiveIntegerField(null=True)
    field = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ["ordinal"]
        constraints = [models.UniqueConstraint(fields=["diagnosis", "ordinal"], name="finding_place")]

    @property
    def skill(self) -> str:
        return self.path.partition("/")[0]

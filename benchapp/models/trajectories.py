from __future__ import annotations

from django.db import models
from django.db.models import Q

from benchapp.models.base import PublicModel
from benchapp.models.blobs import Blob
from benchapp.models.calls import ModelCall
from benchapp.models.trials import Attempt
from runner.base.types import CompactionKind, TrajectoryKind, UseKind
from runner.trajectories.readers import EVIDENCE


class Trajectory(PublicModel):
    """What an agent did, parsed once into ATIF steps. Immutable; a better reader makes another row.

    It belongs to an attempt at a trial, or to a call that an agent worked on as author.
    """

    attempt = models.ForeignKey(Attempt, null=True, on_delete=models.CASCADE, related_name="trajectories")
    call = models.ForeignKey(ModelCall, null=True, on_delete=models.CASCADE, related_name="trajectories")
    name = models.CharField(max_length=300)  # unique within the attempt or call
    kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in TrajectoryKind])
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="children")
    ordinal = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=64)  # over the chunks' digests
    source_format = models.CharField(max_length=64)
    source_path = models.CharField(max_length=1000, blank=True)
    source = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # redacted; null if too big
    reader_version = models.CharField(max_length=64)
    is_superseded = models.BooleanField(default=False)
    steps_total = models.PositiveIntegerField()
    copied_steps = models.PositiveIntegerField(default=0)  # of these, repeated from another session: not counted
    agent_name = models.CharField(max_length=100, blank=True)
    agent_version = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=200, blank=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    extra = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "trajectories"
        ordering = ["ordinal", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "name"], condition=Q(is_superseded=False), name="trajectory_name"
            ),
            models.UniqueConstraint(fields=["call", "name"], name="trajectory_name_in_call"),
            models.CheckConstraint(
                condition=Q(attempt=None, call__isnull=False) | Q(attempt__isnull=False, call=None),
                name="trajectory_of_attempt_or_call",
            ),
        ]
        indexes = [models.Index(fields=["id"], condition=Q(is_superseded=True), name="trajectory_superseded")]

    @property
    def own_steps(self) -> int:
        """Return the number of steps without those copied from another session."""
        return self.steps_total - self.copied_steps

    @property
    def provider_delay(self) -> tuple[int, float] | None:
        """Return the failed tries of its model before an answer, and their seconds. Only for runs of our own agent."""
        match self.extra.get("provider_delay"):
            case {"failed_tries": int(tries), "seconds": int() | float() as seconds}:
                return tries, float(seconds)
        return None

    @property
    def evidence(self) -> str:
        """Return what its source was recognised by."""
        return EVIDENCE.get(self.source_format, "")

    def __str__(self) -> str:
        return f"{self.name} ({self.steps_total} steps)"


class Chunk(models.Model):
    """Up to 1,000 steps or 1 MiB: a blob with ATIF steps as JSON lines, and one with their outline."""

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="chunks")
    ordinal = models.PositiveIntegerField()
    first_step = models.PositiveIntegerField()
    steps_total = models.PositiveIntegerField()
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    outline = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    pieces = models.ManyToManyField(Blob, related_name="+")  # of the long texts its steps refer to
    summary = models.JSONField(default=dict)  # small: tools, errors, skills, tokens of this chunk

    class Meta:
        ordering = ["ordinal"]
        constraints = [models.UniqueConstraint(fields=["trajectory", "ordinal"], name="chunk_place")]
        indexes = [models.Index(fields=["trajectory", "first_step"])]


class Compaction(models.Model):
    """A bounded rendering of a trajectory, as its reader received it."""

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="compactions")
    kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in CompactionKind])
    version = models.CharField(max_length=64)
    text = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    spans = models.ForeignKey(
        Blob, on_delete=models.PROTECT, related_name="+"
    )  # JSON [[step, field, start, end, length, reason]]
    tokens = models.PositiveIntegerField()
    steps_total = models.PositiveIntegerField()
    steps_kept = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trajectory", "kind", "version"], name="compaction_version")]


class SkillUse(models.Model):
    """A skill was mounted, read, invoked or executed; with the step where the trajectory shows it."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="skill_uses")
    trajectory = models.ForeignKey(Trajectory, null=True, on_delete=models.CASCADE, related_name="skill_uses")
    step = models.PositiveIntegerField(null=True)
    skill = models.CharField(max_length=200, db_index=True)
    kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in UseKind])
    path = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering = ["step", "id"]
        indexes = [models.Index(fields=["attempt", "kind"])]

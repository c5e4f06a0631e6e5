from __future__ import annotations

from collections.abc import Iterable

from django.db import models
from django.db.models import Q
from django.utils import timezone

from benchapp.models.base import PublicModel
from benchapp.models.blobs import Blob
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.models.trials import Attempt, Trial
from runner.base.types import CompactionKind, TrajectoryKind, UseKind
from runner.protocols.recorder import AGENT_CALLS, AUTHORING
from runner.trajectories.readers import EVIDENCE


class ModelCallQuerySet(models.QuerySet["ModelCall"]):
    """Calls by how they are billed and whether they have ended."""

    def beside_attempts(self) -> ModelCallQuerySet:
        """Calls that are billed on their own. An agent's calls are in the sum of their attempt; a copy is billed to the
        run it was forked from."""
        return self.filter(is_copy=False).exclude(purpose=AGENT_CALLS)

    def of_authors_at_work(self) -> ModelCallQuerySet:
        """Open calls of authors, teachers and generators, newest first, with all that names them. Calls of an episode
        without a holder are left out: their worker vanished."""
        held = self.exclude(episode__lease_owner="").filter(episode__run__experiment__deleted_at=None)
        asked = held.filter(status=ModelCall.Status.STARTED, purpose__in=AUTHORING)
        named = asked.select_related("episode__run__experiment").defer("episode__run__setup")
        return named.order_by("-started_at", "-id")

    def end_started(self, reason: str) -> int:
        """Mark calls as failed when their answer will no longer be taken. Their cost stays unknown."""
        started = self.filter(status=ModelCall.Status.STARTED)
        return started.update(status=ModelCall.Status.FAILED, error=reason, finished_at=timezone.now())


class ModelCall(PublicModel):
    """One host-side call: prompt, reply, usage, cost. The reply is committed before anything acts on it."""

    class Status(models.TextChoices):
        STARTED = "started"
        ANSWERED = "answered"
        FAILED = "failed"

    episode = models.ForeignKey("benchapp.Episode", on_delete=models.CASCADE, related_name="calls")
    key = models.CharField(max_length=300)  # the occasion; an answered key is never asked again
    purpose = models.CharField(max_length=32)  # author, agent, judge, ...
    model = models.CharField(max_length=200)
    scripted = models.BooleanField(default=False)
    is_copy = models.BooleanField(default=False)  # of a run that was forked: evidence here, billed there
    status = models.CharField(max_length=16, choices=Status, default=Status.STARTED)
    request = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelRequest
    reply = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelReply
    error = models.TextField(blank=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    # The known part of numbers that are unknown as a whole: an agent or a generator is one call here and many at its
    # provider.
    priced_usd = models.FloatField(null=True)
    input_at_least = models.PositiveBigIntegerField(null=True)
    output_at_least = models.PositiveBigIntegerField(null=True)
    price_table = models.CharField(max_length=64, blank=True)  # the price list behind cost_usd, with its version
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    objects = ModelCallQuerySet.as_manager()

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)

    @property
    def mode(self) -> str:
        """Return what the author is asked for, the first part of its key: "induce" of "induce/E1-LS1/acquisition/"."""
        return self.key.partition("/")[0]

    @property
    def family(self) -> str:
        """Return the key of the family that the author is asked about."""
        return self.key.partition("/")[2].partition("/")[0]

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["episode", "key"], condition=models.Q(status="answered"), name="one_answer_per_key"
            )
        ]


class TrajectoryQuerySet(models.QuerySet["Trajectory"]):
    """Which trajectories of an attempt count, in their order there, and which is the main one."""

    def current(self) -> TrajectoryQuerySet:
        """Without those that were read again since."""
        return self.filter(is_superseded=False)

    def of_counting_attempt(self, trial: Trial) -> TrajectoryQuerySet:
        return self.current().filter(attempt__trial=trial, attempt__counts=True)

    def main(self) -> Trajectory | None:
        """Return the current main one of an attempt; None where it has only stages, or nothing."""
        return self.current().filter(kind=TrajectoryKind.MAIN).first()


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

    objects = TrajectoryQuerySet.as_manager()

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
    def is_main(self) -> bool:
        return self.kind == TrajectoryKind.MAIN

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


def main_first(found: Iterable[Trajectory]) -> list[Trajectory]:
    """Sort the trajectories of one attempt as pages and documents show them."""
    return sorted(found, key=lambda each: (not each.is_main, each.ordinal, each.pk))


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
    # JSON [[step, field, start, end, length, reason]]
    spans = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
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

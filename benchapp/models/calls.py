from __future__ import annotations

from django.db import models
from django.utils import timezone

from benchapp.models.base import PublicModel
from benchapp.models.blobs import Blob
from benchapp.models.stand_ins import StandIn, find_stand_ins
from runner.engine.model_calls import PURPOSE as AGENT_CALLS
from runner.engine.model_calls import PURPOSES


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
        asked = held.filter(status=ModelCall.Status.STARTED, purpose__in=PURPOSES)
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

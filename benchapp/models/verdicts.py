from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db import models
from django.db.models import Q

from benchapp.models.blobs import Blob
from benchapp.models.trials import Attempt
from runner.base.types import CheckGroup, CheckStatus
from runner.base.types import Verdict as VerdictValue

MAX_MESSAGE = 20_000  # characters of a check's message; a blob has the verifier's whole output


class VerdictQuerySet(models.QuerySet["Verdict"]):
    """Writes verdicts."""

    def record(self, attempt: Attempt, value: VerdictValue, *, is_primary: bool = True) -> Verdict:
        """Record the verdict with its checks and dimensions. Call inside the transaction that records the attempt."""
        return self.record_all([(attempt, value)], is_primary=is_primary)[0]

    def record_all(self, told: Iterable[tuple[Attempt, VerdictValue]], *, is_primary: bool = True) -> list[Verdict]:
        """Record one verdict for each attempt, in five statements. Those of one attempt have different sources."""
        given = list(told)
        outputs = iter(Blob.objects.put_many(value.output.encode() for _, value in given if value.output))
        pairs = [
            (Verdict.of(attempt, value, is_primary, next(outputs) if value.output else None), value)
            for attempt, value in given
        ]
        verdicts = self.bulk_create(verdict for verdict, _ in pairs)
        Check.objects.bulk_create(check for verdict, value in pairs for check in Check.all_of(verdict, value))
        Dimension.objects.bulk_create(
            dimension for verdict, value in pairs for dimension in Dimension.all_of(verdict, value)
        )
        return verdicts


class Verdict(models.Model):
    """A verifier's verdict on an attempt. An attempt may have several; one is primary."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="verdicts")
    source = models.CharField(max_length=100)
    verifier_digest = models.CharField(max_length=64, blank=True)
    is_primary = models.BooleanField(default=False)
    success = models.BooleanField(null=True)
    reward = models.FloatField(null=True)
    outcome = models.FloatField(null=True)
    process = models.FloatField(null=True)
    overall = models.FloatField(null=True)
    rewards = models.JSONField(default=dict)
    output = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")
    duration_seconds = models.FloatField(null=True)
    notes = models.JSONField(default=list)  # what could not be read of reports other than the reward

    objects = VerdictQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "source", "verifier_digest"], name="verdict_source"),
            models.UniqueConstraint(fields=["attempt"], condition=Q(is_primary=True), name="one_primary_verdict"),
        ]

    def decide_by(self, scorer: str) -> None:
        """Let this one of its rewards decide, and save that."""
        told = VerdictValue(self.source, self.success, rewards=self.rewards).decided_by(scorer)
        self.reward, self.success = told.reward, told.success
        self.save(update_fields=["reward", "success"])

    @classmethod
    def of(cls, attempt: Attempt, value: VerdictValue, is_primary: bool, output: str | None) -> Verdict:
        return cls(
            attempt=attempt,
            source=value.source,
            verifier_digest=value.verifier_digest,
            is_primary=is_primary,
            success=value.success,
            reward=value.reward,
            outcome=value.outcome,
            process=value.process,
            overall=value.overall,
            rewards=dict(value.rewards),
            output_id=output,
            duration_seconds=value.duration_seconds,
            notes=list(value.notes),
        )


class Check(models.Model):
    """One check of a verifier: its group, outcome and message."""

    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="checks")
    ordinal = models.PositiveIntegerField()
    group = models.CharField(max_length=16, choices=[(group.value, group.value) for group in CheckGroup])
    name = models.CharField(max_length=500)
    status = models.CharField(max_length=16, choices=[(status.value, status.value) for status in CheckStatus])
    message = models.TextField(blank=True)
    duration_seconds = models.FloatField(null=True)

    class Meta:
        ordering = ["ordinal"]
        constraints = [models.UniqueConstraint(fields=["verdict", "ordinal"], name="check_place")]

    @staticmethod
    def all_of(verdict: Verdict, value: VerdictValue) -> Iterator[Check]:
        for ordinal, check in enumerate(value.checks):
            yield Check(
                verdict=verdict,
                ordinal=ordinal,
                group=check.group,
                name=check.name[:500],
                status=check.status,
                message=check.message[:MAX_MESSAGE],
                duration_seconds=check.duration_seconds,
            )


class Dimension(models.Model):
    """A rubric dimension: score out of max_score, weight in the whole."""

    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="dimensions")
    ordinal = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    score = models.FloatField()
    max_score = models.FloatField(default=1.0)
    weight = models.FloatField(default=1.0)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["ordinal"]
        constraints = [models.UniqueConstraint(fields=["verdict", "ordinal"], name="dimension_place")]

    @staticmethod
    def all_of(verdict: Verdict, value: VerdictValue) -> Iterator[Dimension]:
        for ordinal, dimension in enumerate(value.dimensions):
            yield Dimension(
                verdict=verdict,
                ordinal=ordinal,
                name=dimension.name[:200],
                score=dimension.score,
                max_score=dimension.max_score,
                weight=dimension.weight,
                reason=dimension.reason,
            )

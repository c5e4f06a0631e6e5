from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.db import models
from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone

from benchapp.models.base import PublicModel
from benchapp.models.blobs import Blob
from benchapp.models.experiments import Run
from benchapp.models.libraries import Snapshot
from benchapp.models.suites import Task, TaskRevision
from benchapp.record.error_text import render_error
from runner.base.types import CheckGroup, CheckStatus, Phase, UseKind
from runner.base.types import Verdict as VerdictValue
from runner.protocols.conditions import unpooled_conditions
from runner.trajectories.readers import PLAIN_TEXT

if TYPE_CHECKING:
    from benchapp.models.trajectories import Trajectory


class Square(NamedTuple):
    """A trial in the grid of its run: the columns that `TrialQuerySet.for_grid` selects of it, its episode, its task
    and the task's family. Models would take five instances."""

    pk: int
    public_id: UUID
    phase: str
    sample: int
    status: str
    success: bool | None
    skills_mounted: int | None
    skills_read: int | None
    snapshot_id: int | None
    episode_id: int
    is_tainted: bool
    task_id: int
    title: str
    role: str
    family_id: int | None
    family: str | None  # its name
    slug: str | None  # of the family


SELECTED = (
    *("pk", "public_id", "phase", "sample", "status", "success", "skills_mounted", "skills_read", "snapshot_id"),
    *("episode_id", "episode__is_tainted", "task_id", "task__title", "task__role"),
    *("task__family_id", "task__family__name", "task__family__slug"),
)


# columns of attempts, calls, trajectories, trials
USAGE = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
AT_LEAST = ("input_at_least", "output_at_least")  # columns of attempts, calls and trials: tokens known in part
SCORES = ("success", "reward", "outcome", "process", "overall")  # columns of verdicts and trials
COPIED = ("turns", *USAGE, "estimated_usd", *AT_LEAST, "finished_at")  # columns of attempts and trials
# A trial's columns that come from the attempt that counts.
NUMBERS = (
    *(*SCORES, *COPIED, "checks_passed", "checks_total", "steps"),
    *("duration_seconds", "skills_mounted", "skills_read"),
)

# What is counted of trials. A missing verdict counts as planned only.
TALLY = {
    "passed": Count("pk", filter=Q(success=True)),
    "scored": Count("pk", filter=Q(success__isnull=False)),
    "planned": Count("pk"),
}


class TrialQuerySet(models.QuerySet["Trial"]):
    """Trials as grids, pages and workers ask for them."""

    def for_grid(self) -> list[Square]:
        """List everything a grid needs, in the order of the plan."""
        planned = self.order_by("episode__ordinal", "task__family__ordinal", "phase", "task__ordinal", "sample")
        return [Square._make(row) for row in planned.values_list(*SELECTED)]

    def not_deleted(self) -> TrialQuerySet:
        return self.filter(episode__run__experiment__deleted_at=None)

    def pooled(self) -> TrialQuerySet:
        """Trials that comparisons count: nothing deleted, no probes and no qualifications."""
        return self.not_deleted().exclude(episode__run__condition__in=unpooled_conditions())

    def for_detail(self) -> TrialQuerySet:
        return self.not_deleted().select_related(
            "episode__run__experiment", "task__family__environment", "task_revision", "snapshot"
        )

    def blocked(self) -> TrialQuerySet:
        """Trials that were set aside while the others continue, in the order of the plan."""
        return self.filter(status=Trial.Status.BLOCKED).order_by("pk")

    def explain_blocked(self) -> list[tuple[Trial, str]]:
        """Return the blocked trials, each with why its latest attempt failed: two queries."""
        trials = list(self.blocked().select_related("task"))
        if not trials:
            return []
        tried = Attempt.objects.filter(trial__in=self.blocked()).order_by("number")
        latest = {trial: error for trial, *error in tried.values_list("trial", "exception_type", "exception_message")}
        return [(trial, render_error(*latest.get(trial.pk, ("", ""))) or "no attempt records why") for trial in trials]

    def scored(self) -> TrialQuerySet:
        return self.exclude(success=None)

    def untried(self) -> TrialQuerySet:
        """Planned and never started. In a completed episode an earlier trial settled their task's answer."""
        return self.filter(status=Trial.Status.WAITING, attempts=None)

    def unneeded(self) -> TrialQuerySet:
        """Planned for learning and never started. After the library is sealed they stay so: a method that stops at the
        first pass had planned for the worst."""
        return self.untried().filter(phase=Phase.ACQUISITION)


class Trial(PublicModel):
    """A planned slot, unique by (episode, phase, task, sample).

    The numbers are those of the counting attempt and its primary verdict. They are copied here so that no list, chart
    or filter needs more than this row. None means unknown.
    """

    class Status(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        PASSED = "passed"
        FAILED = "failed"
        UNSCORED = "unscored"  # it ran, but without a verdict
        BLOCKED = "blocked"  # its latest attempt failed as any other would; the others continue without it
        SKIPPED = "skipped"

    episode = models.ForeignKey("benchapp.Episode", on_delete=models.CASCADE, related_name="trials")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="trials")
    task_revision = models.ForeignKey(TaskRevision, null=True, on_delete=models.PROTECT, related_name="trials")
    phase = models.CharField(max_length=16, choices=[(phase.value, phase.value) for phase in Phase])
    sample = models.PositiveIntegerField(default=0)
    snapshot = models.ForeignKey(Snapshot, null=True, on_delete=models.PROTECT, related_name="trials")  # library given
    retrieved = models.ManyToManyField("self", symmetrical=False, related_name="retrieved_by")

    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING, db_index=True)
    is_done = models.BooleanField(default=False, db_index=True)
    success = models.BooleanField(null=True)
    reward = models.FloatField(null=True)
    outcome = models.FloatField(null=True)
    process = models.FloatField(null=True)
    overall = models.FloatField(null=True)
    checks_passed = models.PositiveIntegerField(null=True)
    checks_total = models.PositiveIntegerField(null=True)
    steps = models.PositiveIntegerField(null=True)  # own steps of the main trajectory; without one, of all stages
    turns = models.PositiveIntegerField(null=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    input_at_least = models.PositiveBigIntegerField(null=True)
    output_at_least = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    estimated_usd = models.FloatField(null=True)  # where the source reports no cost; never a part of it
    duration_seconds = models.FloatField(null=True)
    exception_type = models.CharField(max_length=200, blank=True)
    skills_mounted = models.PositiveIntegerField(null=True)  # null: unknown
    skills_read = models.PositiveIntegerField(null=True)  # read, invoked or executed
    attempts_total = models.PositiveIntegerField(default=0)
    finished_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)  # when this record received the numbers; imports finished long before

    objects = TrialQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["episode", "phase", "task", "sample"], name="trial_slot")]
        indexes = [models.Index(fields=["episode", "status"])]

    def __str__(self) -> str:
        return f"{self.task} ({self.phase})"

    def get_absolute_url(self) -> str:
        return reverse("trial", args=[self.public_id])

    def counting_attempt(self) -> Attempt | None:
        return self.attempts.filter(counts=True).first()

    def remember_retrieved(self, trials: Sequence[Trial]) -> None:
        """Save the earlier trials whose compactions the agent is shown, in order. Replaces what a lost attempt left."""
        links = Trial.retrieved.through.objects
        links.filter(from_trial=self).delete()
        for trial in trials:  # one by one, because the order of their ids is the order shown
            links.create(from_trial=self, to_trial=trial)

    def settle(self, attempt: Attempt) -> None:
        """Make this recorded attempt count and copy its numbers here. Call inside the transaction that records it."""
        self.attempts.filter(counts=True).exclude(pk=attempt.pk).update(counts=False)
        attempt.counts = True
        attempt.save(update_fields=["counts"])
        verdict = attempt.verdicts.filter(is_primary=True).first()
        self.take_numbers(
            attempt,
            verdict,
            checks=list(verdict.checks.values_list("status", flat=True)) if verdict else (),
            own=[(found.own_steps, found.source_format) for found in attempt.own_trajectories()],
            uses=list(attempt.skill_uses.values_list("skill", "kind")),
        )
        self.attempts_total = self.attempts.count()
        self.settled_at = timezone.now()
        self.save()
        Run.objects.filter(episodes=self.episode_id).touch()

    def take_numbers(
        self,
        attempt: Attempt,
        verdict: Verdict | VerdictValue | None,
        *,
        checks: Sequence[str],
        own: Sequence[tuple[int, str]],
        uses: Collection[tuple[str, str]],
    ) -> None:
        """Copy the numbers of the attempt that counts. Saves nothing and reads no row, so neither need be saved yet.

        verdict: the primary one. checks: their statuses. own: (steps without copied ones, format) of each of
        `Attempt.own_trajectories`. uses: (skill, kind) of each use.
        """
        for name in (*COPIED, "duration_seconds", "exception_type"):
            setattr(self, name, getattr(attempt, name))
        for name in SCORES:
            setattr(self, name, getattr(verdict, name, None))
        self.status = {None: self.Status.UNSCORED, True: self.Status.PASSED, False: self.Status.FAILED}[self.success]
        done = [status for status in checks if status != CheckStatus.SKIPPED]
        self.checks_total = len(done) or None
        self.checks_passed = done.count(CheckStatus.PASSED) if done else None
        self.steps = sum(steps for steps, _ in own) if own else None
        mounted = {skill for skill, kind in uses if kind == UseKind.MOUNTED}
        read = {skill for skill, kind in uses if kind != UseKind.MOUNTED}
        self.skills_mounted = len(mounted) if mounted or self.snapshot_id else None
        tells_calls = any(source_format != PLAIN_TEXT for _, source_format in own)
        self.skills_read = len(read) if tells_calls else None
        self.is_done = True

    def drop_numbers(self) -> None:
        """Set the values of a row without a counting attempt. Saves nothing."""
        for name in NUMBERS:
            setattr(self, name, None)
        self.status, self.is_done, self.exception_type = self.Status.UNSCORED, False, ""


class AttemptQuerySet(models.QuerySet["Attempt"]):
    """Attempts that are running, billed or never scored."""

    def under_way(self) -> AttemptQuerySet:
        """Running attempts of existing experiments, newest first, with all that names them."""
        return (
            self.filter(status=Attempt.Status.RUNNING, trial__episode__run__experiment__deleted_at=None)
            .select_related("trial__task__family", "trial__episode__run__experiment")
            .order_by("-started_at", "-id")
        )

    def billed(self) -> AttemptQuerySet:
        """Count every execution once. A superseded row is the same execution read again after its source changed; a
        copy belongs to the run it was forked from."""
        return self.filter(is_copy=False).exclude(status=Attempt.Status.SUPERSEDED)

    def without_score(self) -> AttemptQuerySet:
        """Attempts that were billed and never counted: interrupted, or failed by the machine."""
        return self.filter(status__in=[Attempt.Status.INTERRUPTED, Attempt.Status.INFRASTRUCTURE])


class Attempt(PublicModel):
    """One execution of a trial. At most one counts; all are kept and billed."""

    class Status(models.TextChoices):
        RUNNING = "running"
        FINISHED = "finished"
        INTERRUPTED = "interrupted"  # its worker vanished; found by the worker that took over
        INFRASTRUCTURE = "infrastructure"  # the machine failed; never scored
        SUPERSEDED = "superseded"  # its source changed after the import, or a better reader read it

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    counts = models.BooleanField(default=False)
    is_copy = models.BooleanField(default=False)  # of a run that was forked: evidence here, billed there
    status = models.CharField(max_length=16, choices=Status, default=Status.RUNNING)
    worker = models.CharField(max_length=200, blank=True)
    sandbox = models.JSONField(default=dict)  # where its processes live, to end them after a crash
    lease_epoch = models.PositiveBigIntegerField(default=0)  # the lease it was started under
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    started_text = models.CharField(max_length=64, blank=True)  # verbatim where the source names no zone
    finished_text = models.CharField(max_length=64, blank=True)
    agent_seconds = models.FloatField(null=True)
    verifier_seconds = models.FloatField(null=True)
    queued_seconds = models.FloatField(default=0.0)  # for models whose servers had no free slot; part of no other time
    files_digest = models.CharField(max_length=64, blank=True)  # of what a script left, before the verifier ran
    turns = models.PositiveIntegerField(null=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)  # null where any of its calls has none
    priced_usd = models.FloatField(null=True)  # then the cost of the others
    input_at_least = models.PositiveBigIntegerField(null=True)  # the known part of tokens that are unknown as a whole
    output_at_least = models.PositiveBigIntegerField(null=True)
    estimated_usd = models.FloatField(null=True)  # by the price list, where the source reports no cost
    price_table = models.CharField(max_length=64, blank=True)  # the price list behind either, with its version
    source_tokens = models.JSONField(default=dict)  # the source's own totals, where ours are recomputed
    exception_type = models.CharField(max_length=200, blank=True)
    exception_message = models.TextField(blank=True)  # capped; the blob has all of it
    exception = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")
    source_key = models.CharField(max_length=1000, blank=True, db_index=True)  # identity at the source
    # of everything read from the source, and the version of its readers
    source_digest = models.CharField(max_length=64, blank=True)
    source_config = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # redacted
    # Of an imported session: what it shares with all sessions that may hold copies of each other, and whose copy it is
    # (kind, of, copied_lines, own_from, by) with the scorer that decides. Empty: no copy, and a single scorer.
    session_root = models.CharField(max_length=64, blank=True, db_index=True)
    lineage = models.JSONField(default=dict)

    objects = AttemptQuerySet.as_manager()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["trial", "number"], name="attempt_number"),
            models.UniqueConstraint(fields=["trial"], condition=Q(counts=True), name="one_counting_attempt"),
        ]
        # Workers and pages ask every few seconds what is running: a handful of rows among very many.
        indexes = [
            models.Index(fields=["started_at"], condition=Q(status="running"), name="attempt_running"),
            models.Index(fields=["id"], condition=Q(status="superseded"), name="attempt_superseded"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.trial}"

    @property
    def has_spent(self) -> bool:
        """Is any billed amount known? An attempt whose image was never built asked no model."""
        counts = (self.input_tokens, self.output_tokens, self.input_at_least, self.output_at_least)
        return any((*counts, self.cost_usd, self.priced_usd))

    @property
    def duration_seconds(self) -> float | None:
        """Return the time from start to end, without the wait for free slots. None where one of the two is unknown."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max((self.finished_at - self.started_at).total_seconds() - self.queued_seconds, 0.0)

    def own_trajectories(self) -> list[Trajectory]:
        """Return the agent's own trajectories: the main one, or the stages of a trial that has only stages."""
        main = self.trajectories.main()
        return [main] if main else list(self.trajectories.current().filter(kind="stage"))


MAX_MESSAGE = 20_000  # characters of a check's message; a blob has the verifier's whole output


class VerdictQuerySet(models.QuerySet["Verdict"]):
    """Writes verdicts."""

    def record(self, attempt: Attempt, value: VerdictValue, *, is_primary: bool = True) -> Verdict:
        """Record the verdict with its checks and dimensions. Call inside the transaction that records the attempt."""
        return self.record_all([(attempt, value)], is_primary=is_primary)[0]

    def record_all(self, values: Iterable[tuple[Attempt, VerdictValue]], *, is_primary: bool = True) -> list[Verdict]:
        """Record one verdict for each attempt, in five statements. Those of one attempt have different sources."""
        given = list(values)
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
        value = VerdictValue(self.source, self.success, rewards=self.rewards).decided_by(scorer)
        self.reward, self.success = value.reward, value.success
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

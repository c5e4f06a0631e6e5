from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from django.db import models
from django.db.models import Count, F, Max, Q, Value
from django.db.models.functions import Coalesce, Now, NullIf

from benchapp.models.base import PublicModel, match_words, rank_beginning
from benchapp.models.experiments import Experiment, Progress, Run
from benchapp.models.libraries import Decision, Snapshot
from benchapp.models.suites import Environment, Family
from runner.base.text import plural
from runner.sandboxes.processes import ProcessName

if TYPE_CHECKING:
    from benchapp.models.trials import Attempt

# Why an episode is blocked, or its last failure. A traceback may follow the first line.
REASON = Coalesce(NullIf("blocked_reason", Value("")), "last_failure")
# It continues although the machine failed it: it is tried again.
FAILING = Q(status__in=[Progress.WAITING, Progress.RUNNING], failures__gt=0)


class EpisodeQuerySet(models.QuerySet["Episode"]):
    """Episodes, and every change of their lease and status that workers and operators make.

    A lease ends by the clock of the database, the only one that all workers share: with its own, a worker five minutes
    ahead would find every lease of the others at its end.
    """

    def count_libraries(self, words: Sequence[str]) -> models.QuerySet[Episode, tuple[str, int, int]]:
        """Count libraries by skill whose name has every word: (skill, libraries that hold it, newest episode)."""
        skill = "library__files__skill"
        held = Q(match_words(words, skill), library__files__path__endswith="/SKILL.md")
        found = self.filter(held, run__experiment__deleted_at=None).values_list(skill)
        counted = found.annotate(libraries=Count("pk", distinct=True), newest=Max("pk"))
        return counted.order_by(rank_beginning(skill, words), skill)

    def open(self) -> EpisodeQuerySet:
        """Episodes with work left that nobody stopped."""
        return self.filter(status__in=[Episode.Status.WAITING, Episode.Status.RUNNING])

    def free(self) -> EpisodeQuerySet:
        """Open episodes that nobody holds, or whose holder stopped renewing."""
        return self.open().filter(Q(lease_until=None) | Q(lease_until__lt=Now()))

    def take(self, pk: int, *, owner: str, seconds: float) -> int | None:
        """Take the lease of a free episode. Return the new epoch, or None when somebody else holds it.

        The epoch is a fence: what the previous holder still writes finds another epoch and rolls back.
        """
        taken = (
            self.free()
            .filter(pk=pk)
            .update(
                lease_owner=owner,
                lease_until=Now() + timedelta(seconds=seconds),
                lease_epoch=F("lease_epoch") + 1,
                status=Episode.Status.RUNNING,
            )
        )
        # Check that it is still ours: a cancellation since then raised the epoch, and that one was never ours.
        ours = self.filter(pk=pk, lease_owner=owner).values_list("lease_epoch", flat=True)
        return ours.first() if taken else None

    def renew(self, pk: int, *, epoch: int, seconds: float) -> bool:
        """Renew the lease. False when it was lost or given back. Inside a transaction this is also the fence."""
        return self._change_held(pk, epoch, lease_until=Now() + timedelta(seconds=seconds))

    def release(self, pk: int, *, epoch: int) -> bool:
        """Give the lease back after progress. Like everything a holder writes, False when the lease was lost."""
        return self._change_held(pk, epoch, lease_owner="", lease_until=None, failures=0, last_failure="")

    def postpone(self, pk: int, *, epoch: int, seconds: float = 0, reason: str = "", counts: bool = True) -> bool:
        """Release the episode after a machine failure and let nobody take it for `seconds`. `counts`: the failure
        counts towards those in a row that block the episode."""
        until = Now() + timedelta(seconds=seconds) if seconds else None
        failed = {"failures": F("failures") + int(counts), "last_failure": reason}
        return self._change_held(pk, epoch, lease_owner="", lease_until=until, **failed)

    def count_vanished(self, pk: int, *, epoch: int, reason: str) -> int | None:
        """Count one more failure in a row because the worker vanished. Return the length of the row, or None when the
        lease was lost. A more precise `last_failure` (how the process ended) is kept."""
        held = self._lock_held(pk, epoch)
        if not held.update(failures=F("failures") + 1):
            return None
        held.filter(last_failure="").update(last_failure=reason)
        return self.filter(pk=pk).values_list("failures", flat=True).get()

    def finish(self, pk: int, *, epoch: int) -> bool:
        done = {"status": Episode.Status.DONE, "blocked_reason": "", "failures": 0, "last_failure": ""}
        return self._change_held(pk, epoch, lease_owner="", lease_until=None, wish="", **done)

    def block(self, pk: int, *, epoch: int, reason: str) -> bool:
        """Stop the episode until an operator acts."""
        blocked = {"status": Episode.Status.BLOCKED, "blocked_reason": reason}
        return self._change_held(pk, epoch, lease_owner="", lease_until=None, **blocked)

    def _change_held(self, pk: int, epoch: int, **columns: object) -> bool:
        return self._lock_held(pk, epoch).update(**columns) == 1

    def _lock_held(self, pk: int, epoch: int) -> EpisodeQuerySet:
        """Lock the episode while it is held under this epoch. A holder that gave it back or lost it matches no row."""
        return self.filter(pk=pk, lease_epoch=epoch).exclude(lease_owner="")

    def own(self) -> EpisodeQuerySet:
        """Episodes that our workers advance: launched here, not deleted."""
        return self.filter(run__experiment__origin=Experiment.Origin.RUN, run__experiment__deleted_at=None)

    def held_by_the_dead(self) -> list[Episode]:
        """Open episodes whose holder certainly ended: its process on this machine is gone."""
        held = self.open().exclude(lease_owner="")
        return [episode for episode in held if (name := ProcessName.parse(episode.lease_owner)) and name.is_gone]

    def retry(self, pk: int) -> bool:
        """Resume a blocked episode at its current point, for an operator. Scored trials do not run again."""
        blocked = self.filter(pk=pk, status=Episode.Status.BLOCKED)
        return blocked.update(status=Episode.Status.WAITING, blocked_reason="", failures=0, last_failure="") == 1

    def unfinished(self) -> EpisodeQuerySet:
        """Neither done nor cancelled: open, blocked or paused."""
        return self.exclude(status__in=[Episode.Status.DONE, Episode.Status.CANCELLED])

    def troubled(self) -> EpisodeQuerySet:
        """Blocked or paused until an operator acts, or failing and tried again after a pause."""
        return self.filter(Q(status__in=[Episode.Status.BLOCKED, Episode.Status.PAUSED]) | FAILING)

    def cancel(self) -> int:
        """Stop unfinished episodes for good. The new epoch fences off their workers."""
        return self.unfinished().update(
            status=Episode.Status.CANCELLED, wish="", lease_owner="", lease_until=None, lease_epoch=F("lease_epoch") + 1
        )

    def wish(self, wish: Episode.Wish) -> int:
        """Ask for a pause or a cancellation after the current trial; at once where nobody works. Return how many.

        The wish is written before the check for a holder, and a holder checks for wishes after it gives its lease back:
        the later of the two grants it.
        """
        wanted = self.open() if wish == Episode.Wish.PAUSE else self.unfinished()
        affected = wanted.exclude(wish=wish).update(wish=wish)
        self.grant()
        return affected

    def grant(self) -> int:
        """Fulfil the wishes for episodes that nobody holds. Return how many."""
        free = self.filter(lease_owner="").exclude(wish="")
        cancelled = free.filter(wish=Episode.Wish.CANCEL).cancel()
        paused = free.open().filter(wish=Episode.Wish.PAUSE)
        return cancelled + paused.update(status=Episode.Status.PAUSED, wish="", lease_until=None)

    def resume(self) -> int:
        """Resume paused episodes and those about to pause. Return how many."""
        about_to = self.open().filter(wish=Episode.Wish.PAUSE).update(wish="")
        return about_to + self.filter(status=Episode.Status.PAUSED).update(status=Episode.Status.WAITING, wish="")


class Episode(PublicModel):
    """The sequential unit inside a run that owns one library. Unordered ones come from imports without a protocol."""

    Status = Progress

    class Wish(models.TextChoices):
        PAUSE = "pause"
        CANCEL = "cancel"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="episodes")
    environment = models.ForeignKey(Environment, null=True, on_delete=models.PROTECT, related_name="episodes")
    family = models.ForeignKey(Family, null=True, on_delete=models.PROTECT, related_name="episodes")
    key = models.CharField(max_length=300)
    title = models.CharField(max_length=300)
    ordinal = models.PositiveIntegerField(default=0)
    protocol = models.CharField(max_length=64, blank=True)  # empty: imported without one
    is_ordered = models.BooleanField(default=True)
    is_tainted = models.BooleanField(default=False)  # an operator skipped a trial or an answer it was to learn from
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING, db_index=True)
    blocked_reason = models.TextField(blank=True)
    failures = models.PositiveIntegerField(default=0)  # infrastructure failures in a row, for the backoff
    last_failure = models.TextField(blank=True)  # traceback of the latest of them, kept until the next success
    wish = models.CharField(max_length=16, choices=Wish, blank=True)  # what to do after its current trial
    copied_entries = models.PositiveIntegerField(default=0)  # of a fork: how many entries of its spine it copied
    library = models.ForeignKey(Snapshot, null=True, on_delete=models.PROTECT, related_name="+")  # its current state

    lease_owner = models.CharField(max_length=200, blank=True)
    lease_until = models.DateTimeField(null=True)
    lease_epoch = models.PositiveBigIntegerField(default=0)

    objects = EpisodeQuerySet.as_manager()

    class Meta:
        ordering = ["ordinal", "id"]
        constraints = [models.UniqueConstraint(fields=["run", "key"], name="episode_key")]

    def __str__(self) -> str:
        return self.title

    # What `let_go_on` changes.
    GOING_ON = ("status", "blocked_reason", "failures", "last_failure", "lease_owner", "lease_until", "lease_epoch")

    def let_go_on(self) -> None:
        """Continue at the current point, at once and with a new count of failures. A paused episode stays paused. The
        new epoch fences off its worker. Save GOING_ON, with the row locked."""
        if self.status != self.Status.PAUSED:
            self.status = self.Status.WAITING
        self.blocked_reason, self.failures, self.last_failure = "", 0, ""
        self.lease_owner, self.lease_until, self.lease_epoch = "", None, self.lease_epoch + 1

    def next_sequence(self) -> int:
        """Return the next place on the spine. Safe only inside a fenced transaction."""
        return (self.entries.aggregate(last=Max("sequence"))["last"] or 0) + 1


class Seeding(models.Model):
    """A skill entered the library without an author: the family's curated one."""

    family = models.ForeignKey(Family, on_delete=models.PROTECT, related_name="+")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")


class Seal(PublicModel):
    """The freeze: what the library held, and the setup it was learned under."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    library_digest = models.CharField(max_length=64)
    setup_digest = models.CharField(max_length=64)
    seal = models.CharField(max_length=64)
    sealed_at = models.DateTimeField()


class Refusal(models.Model):
    """A rejected write to the library."""

    trial = models.ForeignKey("benchapp.Trial", null=True, on_delete=models.CASCADE, related_name="refusals")
    paths = models.JSONField()
    reason = models.TextField()


class Skip(models.Model):
    """An operator's decision to leave out an open trial."""

    trial = models.ForeignKey("benchapp.Trial", on_delete=models.CASCADE, related_name="skips")
    reason = models.TextField()
    actor = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")


Target: TypeAlias = "Attempt | Decision | Seeding | Seal | Refusal | Skip"  # of an entry

_TARGETS_OF_LIBRARY = (
    *("decision__family", "decision__before", "decision__after", "decision__after_trial__task"),
    *("seeding__family", "seeding__snapshot", "seal__snapshot"),
)


class EntryQuerySet(models.QuerySet["Entry"]):
    """Places on a spine with the rows they point at."""

    def in_order(self) -> EntryQuerySet:
        """Select every target, in one query."""
        of_trials = ("attempt__trial__task__family", "attempt__trial__snapshot", "refusal__trial__task")
        return self.select_related(*of_trials, "skip__trial__task", *_TARGETS_OF_LIBRARY).order_by("sequence")

    def of_library(self) -> EntryQuerySet:
        """Select the history of a library: all but trials and skips, with every target, in one query."""
        Kind = Entry.Kind
        of_library = self.filter(kind__in=[Kind.DECISION, Kind.SEED, Kind.FREEZE, Kind.REFUSAL])
        return of_library.select_related(*_TARGETS_OF_LIBRARY, "refusal").order_by("sequence")


class Entry(models.Model):
    """One place on an episode's spine, written in the same transaction as the row it points at."""

    class Kind(models.TextChoices):
        TRIAL = "trial"
        DECISION = "decision"
        SEED = "seed"
        FREEZE = "freeze"
        REFUSAL = "refusal"
        SKIP = "skip"

    TARGETS = {
        Kind.TRIAL: "attempt",
        Kind.DECISION: "decision",
        Kind.SEED: "seeding",
        Kind.FREEZE: "seal",
        Kind.REFUSAL: "refusal",
        Kind.SKIP: "skip",
    }

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="entries")
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind)
    recorded_at = models.DateTimeField()
    attempt = models.OneToOneField("benchapp.Attempt", null=True, on_delete=models.CASCADE, related_name="entry")
    decision = models.OneToOneField(Decision, null=True, on_delete=models.CASCADE, related_name="entry")
    seeding = models.OneToOneField(Seeding, null=True, on_delete=models.CASCADE, related_name="entry")
    seal = models.OneToOneField(Seal, null=True, on_delete=models.CASCADE, related_name="entry")
    refusal = models.OneToOneField(Refusal, null=True, on_delete=models.CASCADE, related_name="entry")
    skip = models.OneToOneField(Skip, null=True, on_delete=models.CASCADE, related_name="entry")

    objects = EntryQuerySet.as_manager()

    class Meta:
        ordering = ["sequence"]
        constraints = [models.UniqueConstraint(fields=["episode", "sequence"], name="entry_sequence")]

    @property
    def target(self) -> Target | None:
        """Return the row it points at. None only where the record is broken."""
        target: Target | None = getattr(self, self.TARGETS[self.Kind(self.kind)])
        return target


class ProbeQuerySet(models.QuerySet["Probe"]):
    """Probes by the runs they come from."""

    def not_deleted(self) -> ProbeQuerySet:
        """Probes whose experiment was not deleted, newest first, with the rows a page needs."""
        kept = self.filter(run__experiment__deleted_at=None)
        return kept.select_related(
            "run__experiment", "origin__run__experiment", "decision", "frozen", "library", "actor"
        ).order_by("-created_at", "-id")


class Probe(PublicModel):
    """An extra run with one library frozen from the start: a round of `origin`, whole or without some hunks.

    The run is an experiment of its own and never pooled with what learned. `frozen` is the round as it was; `library`
    is what was mounted, the same where nothing was reverted. A probe without reverts is the control of those with
    reverts at the same round.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="probe")
    origin = models.ForeignKey(Episode, null=True, on_delete=models.SET_NULL, related_name="probes")
    decision = models.ForeignKey(Decision, null=True, on_delete=models.SET_NULL, related_name="probes")
    state = models.CharField(max_length=20)  # the round as the time machine names it: R0, R3, S1
    frozen = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    library = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    reverted = models.JSONField(default=list)  # [{id, path, place, did}] of the reverted hunks of `decision`
    reverted_digest = models.CharField(max_length=64, blank=True)  # over their ids, in order; empty: none
    # the folder of a skill left out whole: then `reverted` are its files
    skill = models.CharField(max_length=200, blank=True)
    times = models.PositiveIntegerField()  # trials of each task
    reason = models.TextField()
    actor = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    actor_name = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProbeQuerySet.as_manager()

    def __str__(self) -> str:
        changes = len(self.reverted)
        if self.skill:
            return f"{self.state} without {self.skill}"
        return f"{self.state} without {plural(changes, 'change')}" if changes else f"{self.state} as it was"

    @property
    def is_control(self) -> bool:
        return not self.reverted

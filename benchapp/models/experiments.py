from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When
from django.urls import reverse
from django.utils import timezone

from benchapp.models.base import PublicModel, SlicedModel, SlicedQuerySet, match_words, rank_beginning
from benchapp.models.imports import ImportBatch, ImportedExperiment
from benchapp.models.people import Activity, User
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.models.suites import Suite
from runner.agents import agent_title
from runner.protocols.conditions import unpooled_conditions
from runner.protocols.probe import CONDITION as PROBE
from runner.protocols.qualification import CONDITIONS as QUALIFYING

FOLLOWED = timedelta(minutes=10)  # since an import was read again: it may grow further

TRIAL, DECISION = "trial__episode__run__experiment", "decision__episode__run__experiment"
# What people wrote about an experiment, which keeps it from being deleted.
# (model, paths to the experiment, one in words, several in words). Models by name: they import experiments themselves.
POINTING: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("QueueItem", (TRIAL, DECISION, "episode__run__experiment"), "item of a review queue", "items of review queues"),
    ("CodeExample", (TRIAL, DECISION), "example in a codebook", "examples in codebooks"),
    ("Mark", ("trajectory__attempt__" + TRIAL,), "mark of a review", "marks of reviews"),
    ("Comment", (TRIAL, "run__experiment"), "comment", "comments"),
)


def describe_pointers(experiment: Experiment) -> str:
    """Return what points at it in words, like "40 items of review queues, 1 comment". Empty where nothing does."""
    found = []
    for model, paths, one, several in POINTING:
        wanted = Q()
        for path in paths:
            wanted |= Q(**{path: experiment.pk})
        if total := apps.get_model("benchapp", model)._default_manager.filter(wanted).count():
            found.append(f"{total} {one if total == 1 else several}")
    return ", ".join(found)


def filter_pointed_at(experiments: QuerySet[Experiment]) -> list[Experiment]:
    """Return the experiments that something points at."""
    return [experiment for experiment in experiments if describe_pointers(experiment)]


class Progress(models.TextChoices):
    """The status of an experiment, a run or an episode."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    BLOCKED = "blocked"
    PAUSED = "paused"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """There is work left that nobody stopped."""
        return self in (Progress.WAITING, Progress.RUNNING)

    @classmethod
    def of_parts(cls, parts: Iterable[str]) -> Progress:
        """Return the status of a whole from those of its parts: open while any part is open, then its worst part."""
        found = set(parts)
        if found == {cls.WAITING}:
            return cls.WAITING
        if found & {cls.WAITING, cls.RUNNING}:
            return cls.RUNNING
        return next((status for status in (cls.BLOCKED, cls.PAUSED, cls.CANCELLED) if status in found), cls.DONE)


class StillRunning(Exception):
    """The action needs the work to have ended."""


class StillReviewed(Exception):
    """People wrote something about it that would lose its subject."""


class ExperimentQuerySet(models.QuerySet["Experiment"]):
    """Experiments that pages may list."""

    def not_deleted(self) -> ExperimentQuerySet:
        """Everything that was not deleted."""
        return self.filter(deleted_at=None)

    def brought_by(self, batch: ImportBatch) -> ExperimentQuerySet:
        """Experiments that an import read, even if another read them first, and those they were joined into."""
        return self._with_joined(ImportedExperiment.objects.filter(batch=batch))

    def made_by(self, batch: ImportBatch) -> ExperimentQuerySet:
        """Experiments that did not exist before an import."""
        return self._with_joined(ImportedExperiment.objects.filter(batch=batch, is_new=True))

    def _with_joined(self, arrivals: QuerySet[ImportedExperiment]) -> ExperimentQuerySet:
        read = arrivals.values("experiment")
        return self.filter(Q(pk__in=read) | Q(pk__in=Run.objects.filter(joined_from__in=read).values("experiment")))

    def probes(self) -> ExperimentQuerySet:
        """Experiments that rerun tasks with another run's library, and compare no conditions."""
        return self.filter(Exists(Run.objects.filter(experiment=OuterRef("pk"), condition=PROBE)))

    def qualifications(self) -> ExperimentQuerySet:
        """Experiments that try out the tasks of a suite."""
        return self.filter(Exists(Run.objects.filter(experiment=OuterRef("pk"), condition__in=QUALIFYING)))

    def comparing(self) -> ExperimentQuerySet:
        """The others: neither probes nor qualifications."""
        extra = unpooled_conditions()
        return self.exclude(Exists(Run.objects.filter(experiment=OuterRef("pk"), condition__in=extra)))

    def count_extra(self) -> Counter[tuple[bool, str]]:
        """Count probes and qualifications by (is it a probe, status), in one query."""
        extra = Run.objects.filter(condition__in=unpooled_conditions(), experiment__in=self).order_by()
        rows = extra.values_list("experiment", "condition", "experiment__status").distinct()
        found = {(pk, condition == PROBE, status) for pk, condition, status in rows}
        return Counter((is_probe, status) for _, is_probe, status in found)

    def for_list(self) -> ExperimentQuerySet:
        """Order newest first. Counts of trials come from `metrics.tally`: a count per join here would multiply rows."""
        return self.not_deleted().select_related("suite").order_by("-created_at", "-id")

    def named(self, words: Sequence[str]) -> ExperimentQuerySet:
        """Experiments whose name has every word. Names that begin with the first one lead."""
        found = self.for_list().filter(match_words(words, "name"))
        return found.order_by(rank_beginning("name", words), "-created_at", "-id")


class Experiment(PublicModel):
    """What a person launches or imports together and compares."""

    Status = Progress

    class Origin(models.TextChoices):
        RUN = "run"
        IMPORTED = "imported"
        SYNTHETIC = "synthetic"

    name = models.CharField(max_length=300)
    origin = models.CharField(max_length=16, choices=Origin, default=Origin.RUN)
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    suite = models.ForeignKey(Suite, null=True, on_delete=models.PROTECT, related_name="experiments")
    spec = models.JSONField(default=dict)  # the experiment file it was launched from, or the redacted source config
    # what it was thought to take when it was launched (benchapp.experiments.foresight)
    estimate = models.JSONField(default=dict)
    source = models.CharField(max_length=1000, blank=True)  # where an import came from, as the person named it
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    created_by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)  # tombstone; the sweep removes it later

    objects = ExperimentQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @property
    def seconds(self) -> float | None:
        """From its first trial to its end, by the clock on the wall."""
        return (self.finished_at - self.started_at).total_seconds() if self.started_at and self.finished_at else None

    @property
    def is_open(self) -> bool:
        return Progress(self.status).is_open

    @property
    def is_live(self) -> bool:
        """Can more come while somebody looks?
        Of an import: it was read again, as its files grew, and that was just now."""
        if self.origin == Experiment.Origin.RUN:
            return self.is_open
        since = timezone.now() - FOLLOWED
        return self.arrivals.filter(batch__counts__readings__gt=1, batch__finished_at__gte=since).exists()

    def follow(self) -> None:
        """Take status and times from the runs. Call inside a transaction."""
        experiment = Experiment.objects.select_for_update().get(pk=self.pk)
        status = Progress.of_parts(experiment.runs.values_list("status", flat=True))
        if status is not Progress.WAITING and experiment.started_at is None:
            experiment.started_at = timezone.now()
        ended = status not in (Progress.WAITING, Progress.RUNNING)
        experiment.finished_at = (experiment.finished_at or timezone.now()) if ended else None
        experiment.status = status
        experiment.save(update_fields=["status", "started_at", "finished_at"])

    def entomb(self, *, actor: User | None, reason: str) -> None:
        """Mark it deleted: no page shows it from now on. The sweep removes it later.

        StillRunning while it has work left; StillReviewed while a review, an example of a codebook or a comment is
        about something in it.
        """
        if self.is_open:
            raise StillRunning(f"{self.name} is {self.status}: cancel it first")
        if pointers := describe_pointers(self):
            raise StillReviewed(f"{self.name} is kept, because people's work is about it: {pointers}")
        with transaction.atomic():
            self.deleted_at = timezone.now()
            self.save(update_fields=["deleted_at"])
            Activity.objects.create(
                actor=actor,
                actor_name=actor.get_username() if actor else "command line",
                verb="delete",
                target_kind="experiment",
                target_id=self.public_id,
                detail={"name": self.name},
                reason=reason,
            )

    def get_absolute_url(self) -> str:
        return reverse("experiment", args=[self.public_id])


def new_revision() -> int:
    return secrets.randbits(62)


class RunQuerySet(models.QuerySet["Run"]):
    """Runs that are not deleted, and bulk changes to them."""

    def not_deleted(self) -> RunQuerySet:
        return self.filter(experiment__deleted_at=None)

    def for_detail(self) -> RunQuerySet:
        return self.not_deleted().select_related("experiment", "experiment__suite")

    def named(self, words: Mapping[str, Sequence[str]]) -> RunQuerySet:
        """Runs with every word in the experiment, the model, the condition or the replicate, newest first. Those with a
        word outside the experiment lead. `words`: each with the conditions whose plain name has it."""
        found, ranks = self.not_deleted().select_related("experiment"), []
        for word, conditions in words.items():
            own = match_words([word], "agent_model", "condition")
            if conditions:  # with any parameter: "self-feedback@4"
                own |= Q(condition__regex=f"^({'|'.join(conditions)})([@~]|$)")
            if word.isdecimal():
                own |= Q(replicate=int(word[:6]))
            elif word == "replicate":
                own |= Q(replicate__isnull=False)
            found = found.filter(own | Q(experiment__name__icontains=word))
            ranks.append(Case(When(own, then=0), default=1))
        return found.order_by(*ranks, "-pk")

    def ended_unsaid(self) -> RunQuerySet:
        """Own runs that are still marked open though none of their episodes is: the worker that ended the last one
        vanished before the run could follow."""
        still_open = (Progress.WAITING, Progress.RUNNING)
        own = self.not_deleted().filter(experiment__origin=Experiment.Origin.RUN, status__in=still_open)
        return own.exclude(episodes__status__in=still_open)

    def touch(self) -> None:
        """Record that numbers of these runs have changed: everything computed from them is out of date.

        The revision is random, not counted. A record restored from a backup must never reach, on another course, a
        revision that an earlier result was cached under.
        """
        self.update(revision=new_revision())


class Run(PublicModel):
    """One cell of an experiment: one agent model, author model, harness, condition and replicate."""

    Status = Progress

    UNKNOWN = "unknown"
    SESSIONS, GIT_SKILLS = "sessions", "git-skills"  # formats, as `setup` names the source of an import
    # Databases differ in where they sort an unknown one.
    BY_REPLICATE = F("replicate").asc(nulls_last=True)

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="runs")
    condition = models.CharField(max_length=100, default=UNKNOWN, db_index=True)
    replicate = models.PositiveIntegerField(null=True)  # from 1; null: unknown in the source
    harness = models.CharField(max_length=100, default=UNKNOWN)
    harness_version = models.CharField(max_length=100, blank=True)
    agent_model = models.CharField(max_length=200, default=UNKNOWN)
    author_model = models.CharField(max_length=200, default=UNKNOWN)  # "" where the condition has no author
    author_agent = models.CharField(max_length=100, blank=True)  # works for the author; "": its model is asked once
    scripted = models.BooleanField(default=False)  # a scripted or recorded model took part
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    seed = models.BigIntegerField(null=True)
    setup = models.JSONField(default=dict)  # what the setup digest covers, by name
    setup_digest = models.CharField(max_length=64, blank=True)  # empty: unknown, never equal to anything
    budget_usd = models.FloatField(null=True)  # null: no limit
    budget_tokens = models.PositiveBigIntegerField(null=True)  # input and output together
    forked_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="forks")
    # The imported experiment it came with, where a person made one experiment of several.
    joined_from = models.ForeignKey(Experiment, null=True, on_delete=models.SET_NULL, related_name="joined_runs")
    source_key = models.CharField(max_length=1000, blank=True)  # distinguishes the runs of one import
    # another one whenever a number a comparison reads has changed
    revision = models.PositiveBigIntegerField(default=new_revision)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.label

    @property
    def author(self) -> str:
        """Return the model that writes and the agent that works for it, for people."""
        return f"{agent_title(self.author_agent)} with {self.author_model}" if self.author_agent else self.author_model

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        without = {StandIn.NO} if self.works_without_model else frozenset()
        return find_stand_ins(self.scripted, self.agent_model, self.author_model) | without

    @property
    def was_launched(self) -> bool:
        """Was it launched by Skillglass, here or elsewhere? Then its setup is known and its tasks may run again."""
        return self.experiment.origin == Experiment.Origin.RUN or bool(self.setup_digest)

    @property
    def is_of_sessions(self) -> bool:
        """Are its trials logs of sessions? Nothing judges those, so a verdict cannot be missing."""
        return bool(self.setup.get("source") == self.SESSIONS)

    @property
    def is_of_git(self) -> bool:
        """Are its episodes the skills of a git repository, with a commit as each decision?"""
        return bool(self.setup.get("source") == self.GIT_SKILLS)

    @property
    def notice(self) -> str:
        """Return the notice on the library that its agents read (`runner.protocols.instruction`), "" if unknown."""
        return str(self.setup.get("notice", "ours")) if self.setup_digest else ""

    @property
    def works_without_model(self) -> bool:
        """Is its agent one without a model (oracle, nop, trap)? Nobody can know that about runs of other tools."""
        return not self.agent_model and bool(self.setup_digest)

    @property
    def is_open(self) -> bool:
        return Progress(self.status).is_open

    @property
    def is_live(self) -> bool:
        return self.is_open or (self.experiment.origin != Experiment.Origin.RUN and self.experiment.is_live)

    def follow(self) -> None:
        """Take the status from the episodes and let the experiment follow. Workers may end episodes at once, so each
        locks the row before it reads: always the run first, then the experiment."""
        with transaction.atomic():
            run = Run.objects.select_for_update(of=("self",)).select_related("experiment").get(pk=self.pk)
            status = Progress.of_parts(run.episodes.values_list("status", flat=True))
            if status != run.status:
                run.status = status
                run.save(update_fields=["status"])
                run.experiment.follow()

    @property
    def is_probe(self) -> bool:
        """Did it learn nothing, with a frozen library? Also true of a probe's fork and of one from an archive."""
        return self.condition == PROBE

    @property
    def is_qualification(self) -> bool:
        return self.condition in QUALIFYING

    @property
    def has_page(self) -> bool:
        """False where its experiment was deleted and waits for the sweep. Reads the experiment."""
        return self.experiment.deleted_at is None

    @property
    def label(self) -> str:
        """Return what distinguishes it on a page: condition, then replicate."""
        return self.condition if self.replicate is None else f"{self.condition} · rep {self.replicate}"

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.public_id])


class Alert(models.Model):
    """An event of an experiment to notify people of. `key` distinguishes one occasion from the next."""

    class Kind(models.TextChoices):
        ENDED = "ended"
        BLOCKED = "blocked"  # episodes wait for an operator
        BUDGET = "budget"  # a run has spent its limit

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="alerts")
    kind = models.CharField(max_length=16, choices=Kind)
    key = models.CharField(max_length=64)
    words = models.CharField(max_length=500)
    at = models.DateTimeField(auto_now_add=True)
    # When it was sent, or sending started; null: not yet, or nothing is configured.
    posted_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["experiment", "kind", "key"], name="one_notice_per_occasion")]


class Comparison(PublicModel):
    """A saved comparison: its subject, its moment, and which differences are corrected together.

    Appended, never edited: another question is another comparison, so nobody can shrink the set of hypotheses after
    seeing the results.
    """

    name = models.CharField(max_length=200)
    query = models.TextField()  # the choices, as a query string with `as_of`
    metrics = models.JSONField(default=list)  # keys of the metrics that are corrected together, every group of each
    fingerprint = models.CharField(max_length=64)  # of the numbers it was saved with
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("comparison", args=[self.public_id])


class Publication(SlicedModel):
    """One zip file for readers without an account, made in the background. `facts`: what is in it and what is not."""

    class Form(models.TextChoices):
        SITE = "site"  # the pages of an experiment
        REPORT = "report"  # of a comparison
        DATA = "data"  # of a comparison: rows, values, differences, and what each column means
        TAXONOMY = "taxonomy"  # the results of a queue

    form = models.CharField(max_length=16, choices=Form)
    title = models.CharField(max_length=300)
    experiment = models.ForeignKey("benchapp.Experiment", null=True, on_delete=models.CASCADE, related_name="+")
    queue = models.ForeignKey("benchapp.Queue", null=True, on_delete=models.CASCADE, related_name="+")
    query = models.TextField(blank=True)  # the choices of the comparison, pinned
    trials = models.CharField(max_length=8, default="failed")  # which get a page in a site: all, failed, none
    origin = models.CharField(max_length=300, blank=True)  # scheme and host of the installation, for the way back
    made_by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    pages_drawn = models.PositiveIntegerField(default=0)
    pages_known = models.PositiveIntegerField(default=0)
    facts = models.JSONField(default=dict)

    objects = SlicedQuerySet["Publication"].as_manager()

    class Meta:
        ordering = ["-made_at", "-id"]

    @property
    def path(self) -> Path:
        return publications_folder() / f"{self.public_id}.zip"


def publications_folder() -> Path:
    return Path(settings.VAR_DIR) / "publications"

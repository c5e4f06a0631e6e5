"""What full text search knows about the record. All derived: `manage.py index_search --all` recreates it."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import models
from django.db.models import Q

from benchapp.models.episodes import Episode, Seeding
from benchapp.models.experiments import Run
from benchapp.models.libraries import Decision
from benchapp.models.reviews import Comment
from benchapp.models.trajectories import Chunk, Trajectory
from benchapp.models.trials import Trial, Verdict

OWNERS = ("trajectory", "verdict", "decision", "seeding", "episode", "comment")


def _one_owner() -> Q:
    found = Q()
    for name in OWNERS:
        found |= Q(**{f"{each}__isnull": each != name for each in OWNERS})
    return found


class SearchSourceQuerySet(models.QuerySet["SearchSource"]):
    def forget(self, runs: Iterable[Run]) -> None:
        """Queue everything indexed of these runs again: the documents hold what changed, such as a phase."""
        self.filter(pk__in=SearchDocument.objects.filter(run__in=runs).values("source")).delete()


class SearchSource(models.Model):
    """Something that was indexed completely. Everything without such a row waits: the record itself is the queue.

    `episode` means the library of an episode without a history (an import); `library` is the digest it had.
    """

    trajectory = models.OneToOneField(Trajectory, null=True, on_delete=models.CASCADE, related_name="search_source")
    verdict = models.OneToOneField(Verdict, null=True, on_delete=models.CASCADE, related_name="search_source")
    decision = models.OneToOneField(Decision, null=True, on_delete=models.CASCADE, related_name="search_source")
    seeding = models.OneToOneField(Seeding, null=True, on_delete=models.CASCADE, related_name="search_source")
    episode = models.OneToOneField(Episode, null=True, on_delete=models.CASCADE, related_name="search_source")
    comment = models.OneToOneField(Comment, null=True, on_delete=models.CASCADE, related_name="search_source")
    library = models.CharField(max_length=64, blank=True)
    cut = models.PositiveIntegerField(default=0)  # texts that were indexed only at the beginning
    problem = models.CharField(max_length=500, blank=True)  # why it could not be indexed at all

    objects = SearchSourceQuerySet.as_manager()

    class Meta:
        constraints = [models.CheckConstraint(condition=_one_owner(), name="search_source_owner")]
        indexes = [
            models.Index(fields=["id"], condition=~Q(problem=""), name="search_unread"),
            models.Index(fields=["id"], condition=Q(cut__gt=0), name="search_cut"),
        ]


class SearchDocument(models.Model):
    """One hit: a passage of steps, a skill file, a decision, the checks of a verdict, or a note.

    The row holds what hits are filtered by and where they open. Its words are in the index under the same number
    (benchapp.search.search_index). A passage is steps `first_step` to `last_step`. `start` and `end` are set for a part
    of one long step: characters of its joined texts (benchapp.search.sections).
    """

    class Kind(models.TextChoices):
        STEP = "step"
        FILE = "file"
        DECISION = "decision"
        CHECK = "check"
        NOTE = "note"

    source = models.ForeignKey(SearchSource, on_delete=models.CASCADE, related_name="documents")
    kind = models.CharField(max_length=16, choices=Kind)
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="+")
    episode = models.ForeignKey(Episode, null=True, on_delete=models.CASCADE, related_name="+")
    trial = models.ForeignKey(Trial, null=True, on_delete=models.CASCADE, related_name="+")
    chunk = models.ForeignKey(Chunk, null=True, on_delete=models.CASCADE, related_name="+")  # that has the passage
    first_step = models.PositiveIntegerField(null=True)
    last_step = models.PositiveIntegerField(null=True)
    start = models.PositiveIntegerField(null=True)
    end = models.PositiveIntegerField(null=True)
    skill = models.CharField(max_length=200, blank=True)  # of a file: the first part of its path
    path = models.CharField(max_length=1000, blank=True)
    digest = models.CharField(max_length=64, blank=True)  # of a file: its content

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["skill", "source"], condition=~Q(skill=""), name="search_skill")]

"""What a queue hides from somebody right now, and which other pages would give it away.

A person is blind to an item while its queue is open, they are assigned to it, and they have neither submitted nor
skipped that item. Nobody else is blind to anything: an admin who reviews nothing sees everything.

Which pages are closed follows one rule: the answer must not tell the item from those it could be. If only the item's
own trial answered 403, trying the trials of its task one after the other would name it, and with it its condition. So
an open item closes every trial of its task and every library of its episode, in every run; an open decision or
library closes the trials of its episode as well, because their pages name the decision and the condition.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from benchapp.models import Decision, Episode, Queue, QueueItem, Review, Run, Trial, User


@dataclass(frozen=True, slots=True)
class Hidden:
    """What one person does not see of one item. Nothing, unless they are blind to it."""

    conditions: bool = False
    models: bool = False
    labels: bool = False  # of others
    suggestions: bool = False

    @property
    def facts(self) -> bool:
        """True where the item shows less than the record knows about the trial, decision or library itself."""
        return self.conditions or self.models


NOTHING = Hidden()


def hidden_in(item: QueueItem, user: User) -> Hidden:
    """One query. `item` with its queue loaded."""
    queue = item.queue
    if not queue.is_open or not queue.reviewers.filter(pk=user.pk).exclude(_finished(item, user)).exists():
        return NOTHING
    return Hidden(queue.hides_conditions, queue.hides_models, queue.hides_labels, queue.hides_suggestions)


def _finished(item: QueueItem, user: User) -> Exists:
    return Exists(Review.objects.filter(item=item.pk, reviewer=user.pk).exclude(state=Review.State.DRAFT))


def is_closed_to(
    user: User, *, trial: Trial | None = None, run: Run | None = None, decision: Decision | None = None
) -> bool:
    """Would the page of this trial, the library pages of this run, or this decision give away an item to this person?"""
    return closing_queue(user, trial=trial, run=run, decision=decision) is not None


def closing_queue(
    user: User, *, trial: Trial | None = None, run: Run | None = None, decision: Decision | None = None
) -> Queue | None:
    """A queue because of which that page is closed to this person, None where it is open. One query."""
    reasons = Q(pk__in=[])
    if trial is not None:
        reasons |= Q(trial__task=trial.task_id) | _of_episodes(trial.episode.key, besides_trials=True)
    if decision is not None:
        reasons |= _of_episodes(decision.episode.key)
    if run is not None:
        keys = Episode.objects.filter(run=run.pk, is_ordered=True).values("key")
        reasons |= Q(trial__episode__key__in=keys) | Q(decision__episode__key__in=keys) | Q(episode__key__in=keys)
    item = _open_to(user).filter(reasons).select_related("queue").first()
    return item.queue if item else None


def closed_trials(user: User) -> QuerySet[Trial]:
    """The trials whose pages are closed to this person, for lists that leave them out: no query of its own."""
    items = _open_to(user).order_by()
    keys = Q(episode__key__in=items.exclude(decision=None).values("decision__episode__key"))
    keys |= Q(episode__key__in=items.exclude(episode=None).values("episode__key"))
    return Trial.objects.filter(Q(task__in=items.exclude(trial=None).values("trial__task")) | keys)


def closed_runs(user: User) -> QuerySet[Run]:
    """The runs whose library pages are closed to this person; no query of its own."""
    items = _open_to(user).order_by()
    keys = Q()
    for path in ("trial__episode__key", "decision__episode__key", "episode__key"):
        keys |= Q(key__in=items.exclude(**{path: None}).values(path))
    return Run.objects.filter(episodes__in=Episode.objects.filter(keys, is_ordered=True)).distinct()


def _open_to(user: User) -> QuerySet[QueueItem]:
    """Items of open, blind queues that this person is assigned to and has not finished."""
    finished = Review.objects.filter(item=OuterRef("pk"), reviewer=user.pk).exclude(state=Review.State.DRAFT)
    return QueueItem.objects.filter(
        Q(queue__hides_conditions=True) | Q(queue__hides_models=True),
        ~Exists(finished),
        queue__closed_at=None,
        queue__reviewers=user.pk,
    )


def _of_episodes(key: str, *, besides_trials: bool = False) -> Q:
    """Items of the episodes of that key."""
    found = Q(decision__episode__key=key) | Q(episode__key=key)
    return found if besides_trials else found | Q(trial__episode__key=key)

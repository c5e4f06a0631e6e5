"""What a queue hides from somebody right now, and which other pages would give it away.

A person is blind to an item while they may still answer it (`open_to`): its queue is open, they are assigned to it,
they have neither submitted nor skipped it, and a place is left for their answer. Nobody else is blind to anything: an
admin who reviews nothing sees everything, and a third reviewer of an item that two have answered sees that item.

Which pages are closed follows one rule: the answer must not tell the item from those it could be. If only the item's
own trial answered 403, trying the trials of its task one after the other would name it, and with it its condition. So
an open item closes every trial of its task and every library of its episode, in every run; an open decision or
library closes the trials of its episode as well, because their pages name the decision and the condition.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from benchapp.models import Decision, Episode, Queue, QueueItem, Review, Run, Slot, Trial, User
from benchapp.review.queues.claims import is_unfilled


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
SWITCHES = ("queue__hides_conditions", "queue__hides_models", "queue__hides_labels", "queue__hides_suggestions")


def open_to(user: User) -> QuerySet[QueueItem]:
    """The items that this person may still answer, in open queues that name them; no query of its own.

    Whoever may answer an item is kept from what others said of it and from what its queue hides; nobody else is. All
    pages ask here, so that none tells what another one hides. An item whose places are all taken comes to nobody any
    more, except to whom has a draft of it: what was written may be handed in, beside the others.
    """
    own = Review.objects.filter(item=OuterRef("pk"), reviewer=user.pk)
    left = Exists(Slot.objects.filter(is_unfilled(), item=OuterRef("pk")))
    return QueueItem.objects.filter(
        ~Exists(own.exclude(state=Review.State.DRAFT)),
        left | Exists(own.filter(state=Review.State.DRAFT)),
        queue__closed_at=None,
        queue__reviewers=user.pk,
    )


def hidden_in(item: QueueItem, user: User) -> Hidden:
    """What is hidden while they may still answer this item, or another queue's item of the same unit: a queue that was
    closed or carried over, or that is none of theirs, must not tell what theirs hides. One query."""
    same = same_unit(QueueItem.objects.filter(pk=item.pk))
    rows = open_to(user).filter(same).order_by().values_list(*SWITCHES)
    return Hidden(*(any(switch) for switch in zip(*rows, strict=True)))


def unsaid_by(user: User) -> QuerySet[QueueItem]:
    """The items about which this person has still to say what they think without knowing what others said.

    One short query: whoever reviews nothing in this way costs no more.
    """
    if not Queue.objects.filter(hides_labels=True, closed_at=None, reviewers=user.pk).exists():
        return QueueItem.objects.none()
    return open_to(user).filter(queue__hides_labels=True).order_by()


def same_unit(items: QuerySet[QueueItem]) -> Q:
    """Of items in whatever queue: those about the same trial, decision or library as one of these."""
    library = items.filter(snapshot=OuterRef("snapshot"), episode=OuterRef("episode"))
    found = Q(trial__in=items.exclude(trial=None).values("trial")) | Q(Exists(library))
    return found | Q(decision__in=items.exclude(decision=None).values("decision"))


def closing_item(item: QueueItem, user: User) -> Queue | None:
    """A queue because of which the page of this item is closed to them, as that of its trial or library would be.

    Never an item they may answer or have answered: what they were given in this very queue stays theirs to read.
    """
    if item.reviews.filter(reviewer=user).exists() or open_to(user).filter(pk=item.pk).exists():
        return None
    run = item.episode.run if item.episode else item.decision.episode.run if item.decision else None
    return closing_queue(user, trial=item.trial, run=run, decision=item.decision)


def is_closed_to(
    user: User, *, trial: Trial | None = None, run: Run | None = None, decision: Decision | None = None
) -> bool:
    """Would the page of this trial, the library pages of this run, or this decision give away an item to this person?"""
    return closing_queue(user, trial=trial, run=run, decision=decision) is not None


def closing_queue(
    user: User, *, trial: Trial | None = None, run: Run | None = None, decision: Decision | None = None
) -> Queue | None:
    """A queue because of which that page is closed to this person, None where it is open.

    One short query for whoever reviews nothing blind, a second one for others.
    """
    if not _blind_queues(user).exists():
        return None
    reasons = Q(pk__in=[])
    if trial is not None:
        reasons |= Q(trial__task=trial.task_id) | _of_episodes(trial.episode.key, besides_trials=True)
    if decision is not None:
        reasons |= _of_episodes(decision.episode.key)
    if run is not None:
        keys = Episode.objects.filter(run=run.pk, is_ordered=True).values("key")
        reasons |= Q(trial__episode__key__in=keys) | Q(decision__episode__key__in=keys) | Q(episode__key__in=keys)
    item = _blind_to(user).filter(reasons).select_related("queue").first()
    return item.queue if item else None


def closed_trials(user: User) -> QuerySet[Trial]:
    """The trials whose pages are closed to this person, for lists that leave them out.

    One short query for whoever reviews nothing blind, so that their lists need not look for what is closed.
    """
    if not _blind_queues(user).exists():
        return Trial.objects.none()
    items = _blind_to(user).order_by()
    keys = Q(episode__key__in=items.exclude(decision=None).values("decision__episode__key"))
    keys |= Q(episode__key__in=items.exclude(episode=None).values("episode__key"))
    return Trial.objects.filter(Q(task__in=items.exclude(trial=None).values("trial__task")) | keys)


def closed_runs(user: User) -> QuerySet[Run]:
    """The runs whose library pages are closed to this person; no query of its own."""
    items = _blind_to(user).order_by()
    keys = Q()
    for path in ("trial__episode__key", "decision__episode__key", "episode__key"):
        keys |= Q(key__in=items.exclude(**{path: None}).values(path))
    return Run.objects.filter(episodes__in=Episode.objects.filter(keys, is_ordered=True)).distinct()


def _blind_queues(user: User) -> QuerySet[Queue]:
    """Open queues that name this person and hide something of the record itself."""
    return Queue.objects.filter(Q(hides_conditions=True) | Q(hides_models=True), closed_at=None, reviewers=user.pk)


def _blind_to(user: User) -> QuerySet[QueueItem]:
    """Items of which something of the record itself is hidden from this person."""
    return open_to(user).filter(Q(queue__hides_conditions=True) | Q(queue__hides_models=True))


def _of_episodes(key: str, *, besides_trials: bool = False) -> Q:
    """Items of the episodes of that key."""
    found = Q(decision__episode__key=key) | Q(episode__key=key)
    return found if besides_trials else found | Q(trial__episode__key=key)

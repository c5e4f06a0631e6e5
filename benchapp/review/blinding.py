"""What a queue hides from somebody right now, and which other pages would give it away.

A person is blind to an item while they may still answer it (`open_to`): its queue is open, they are assigned to it,
they have neither submitted nor skipped it, and a place is left for their answer. Nobody else is blind to anything. An
admin who reviews nothing sees everything, and a third reviewer of an item that two have answered sees that item.

What is closed follows one rule: the answer must not distinguish the item from those it could be. If only the item's own
trial answered 403, trying the trials of its task one after the other would name it, and with it its condition. So an
open item closes every trial of its task and every library of its episode, in every run. An open decision or library
also closes the trials of its episode, because their pages name the decision and the condition. Pages about one of these
answer 403; all others show "hidden" in place of its words. Both ask `ReviewAccess`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from benchapp.models import Decision, Episode, Queue, QueueItem, Review, Run, Slot, Trial, User
from benchapp.review.queues.claims import is_unfilled


@dataclass(frozen=True, slots=True)
class Hidden:
    """What is hidden from one person about one item. Nothing, unless they are blind to it."""

    conditions: bool = False
    models: bool = False
    labels: bool = False  # of others
    suggestions: bool = False

    @property
    def facts(self) -> bool:
        """Does the item show less than the record knows about the trial, decision or library itself?"""
        return self.conditions or self.models


HIDDEN = "hidden"  # in place of a name
SWITCHES = ("queue__hides_conditions", "queue__hides_models", "queue__hides_labels", "queue__hides_suggestions")


def open_to(user: User) -> QuerySet[QueueItem]:
    """The items that this person may still answer, in open queues that name them; no query of its own.

    Until they answer, other people's opinions of an item and what its queue hides are kept from them, and from nobody
    else. All pages use this, so that none reveals what another hides. An item without free places is open only to those
    with a draft of it: they may still hand it in.
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
    """Return what is hidden while they may still answer this item, or another queue's item of the same unit. A closed,
    carried over or foreign queue must not reveal what their own hides. One query."""
    same = same_unit(QueueItem.objects.filter(pk=item.pk))
    rows = open_to(user).filter(same).order_by().values_list(*SWITCHES)
    return Hidden(*(any(switch) for switch in zip(*rows, strict=True)))


def unsaid_by(user: User) -> QuerySet[QueueItem]:
    """The items that this person must still judge without knowing other people's opinions.

    One short query: it costs no more for a person who reviews nothing in this way.
    """
    if not Queue.objects.filter(hides_labels=True, closed_at=None, reviewers=user.pk).exists():
        return QueueItem.objects.none()
    return open_to(user).filter(queue__hides_labels=True).order_by()


def same_unit(items: QuerySet[QueueItem]) -> Q:
    """Match items of any queue about the same trial, decision or library as one of these."""
    library = items.filter(snapshot=OuterRef("snapshot"), episode=OuterRef("episode"))
    found = Q(trial__in=items.exclude(trial=None).values("trial")) | Q(Exists(library))
    return found | Q(decision__in=items.exclude(decision=None).values("decision"))


class ReviewAccess:
    """What one person may read now: which trials, decisions and libraries blind review closes to them.

    Ask it before showing a text of any of them; all pages do. It reads what is closed once, so make one for each
    request (`inspector.web.subject.review_access`). It takes one short query for anyone who reviews nothing blind, a
    second one for others, and none before the first question.
    """

    def __init__(self, user: User) -> None:
        self._user = user

    @cached_property
    def _closed(self) -> _Closed:
        closed = _Closed()
        if not self._user.pk:
            return closed
        blind = Queue.objects.filter(Q(hides_conditions=True) | Q(hides_models=True), closed_at=None)
        queues = {queue.pk: queue for queue in blind.filter(reviewers=self._user.pk)}
        if queues:
            items = open_to(self._user).filter(queue__in=list(queues))
            keys = ("decision__episode__key", "episode__key")
            for pk, task, given, *reviewed in items.values_list("queue", "trial__task", "trial__episode__key", *keys):
                if task is not None:
                    closed.tasks.setdefault(task, queues[pk])
                    closed.given.setdefault(given, queues[pk])
                for key in reviewed:
                    if key is not None:
                        closed.reviewed.setdefault(key, queues[pk])
        return closed

    @property
    def hides_nothing(self) -> bool:
        return not self._closed.tasks and not self._closed.reviewed

    def closing_trial(self, task: int, key: str) -> Queue | None:
        """Return the queue that closes the trials of this task in episodes of this key; None where they are open."""
        return self._closed.tasks.get(task) or self._closed.reviewed.get(key)

    def closing_library(self, episode: Episode) -> Queue | None:
        """Return the queue that closes the decisions and libraries of this episode; None where they are open."""
        given = self._closed.given.get(episode.key) if episode.is_ordered else None
        return self._closed.reviewed.get(episode.key) or given

    def closing(
        self, *, trial: Trial | None = None, run: Run | None = None, decision: Decision | None = None
    ) -> Queue | None:
        """Return the queue that closes the page of this trial, the library pages of this run, or this decision. One
        query for a run, if anything is closed at all."""
        if self.hides_nothing:
            return None
        found = self.closing_trial(trial.task_id, trial.episode.key) if trial else None
        if decision and not found:
            found = self.closing_library(decision.episode)
        if run and not found:
            found = next(filter(None, map(self.closing_library, run.episodes.all())), None)
        return found

    def closed_trials(self) -> QuerySet[Trial]:
        """Select the trials that lists leave out."""
        if self.hides_nothing:
            return Trial.objects.none()
        return Trial.objects.filter(Q(task__in=self._closed.tasks) | Q(episode__key__in=self._closed.reviewed))

    def hidden_results(self) -> QuerySet[Trial]:
        """Select closed trials with a verdict: a sum that counts them would reveal it."""
        return self.closed_trials().filter(success__isnull=False)

    def closed_episodes(self) -> QuerySet[Episode]:
        """Select episodes with closed decisions and libraries."""
        if self.hides_nothing:
            return Episode.objects.none()
        given = Q(key__in=self._closed.given, is_ordered=True)
        return Episode.objects.filter(Q(key__in=self._closed.reviewed) | given)

    def closed_runs(self) -> QuerySet[Run]:
        """Select runs with closed library pages."""
        return Run.objects.filter(pk__in=self.closed_episodes().values("run"))

    def closing_item(self, item: QueueItem) -> Queue | None:
        """Return the queue that closes the page of this item, as it closes that of its trial or library.

        Never an item they may answer or have answered: what they were given in this very queue stays theirs to read.
        """
        if item.reviews.filter(reviewer=self._user).exists() or open_to(self._user).filter(pk=item.pk).exists():
            return None
        run = item.episode.run if item.episode else item.decision.episode.run if item.decision else None
        return self.closing(trial=item.trial, run=run, decision=item.decision)


@dataclass(frozen=True, slots=True)
class _Closed:
    """What open items close, and the queue of each. tasks: of trials under review, by pk; given: keys of the episodes
    whose libraries these trials received; reviewed: keys of the episodes of decisions and libraries under review."""

    tasks: dict[int, Queue] = field(default_factory=dict)
    given: dict[str, Queue] = field(default_factory=dict)
    reviewed: dict[str, Queue] = field(default_factory=dict)


def hidden_until(queue: Queue) -> str:
    """Return the words shown instead of those that this queue closes."""
    return f"hidden until you finish “{queue.name}”"


# --- other people's answers ------------------------------------------------------------------------------------------


def still_to_code(queues: Sequence[Queue], user: User) -> int:
    """Count items of blind queues among these that this person may still answer. One query."""
    blind = [queue.pk for queue in queues if queue.is_open and (queue.hides_labels or queue.is_blind)]
    return open_to(user).filter(queue__in=blind).count() if blind else 0


def answered_unseen(queues: QuerySet[Queue]) -> QuerySet[Queue]:
    """Select queues where somebody may still answer without knowing other people's answers: a place is left, or an
    assigned reviewer has a draft. No query of its own."""
    left = Slot.objects.filter(is_unfilled(), item__queue=OuterRef("pk"))
    drafts = Review.objects.filter(item__queue=OuterRef("pk"), state=Review.State.DRAFT)
    drafts = drafts.filter(reviewer__queues=F("item__queue"))
    return queues.filter(Exists(left) | Exists(drafts), closed_at=None, hides_labels=True)


def reviews_alone(queue: Queue, user: User) -> bool:
    """Is nobody else asked in this queue, and has nobody else answered? Up to two queries."""
    others = queue.reviewers.exclude(pk=user.pk).exists()
    return not others and not Review.objects.filter(item__queue=queue).exclude(reviewer=user.pk).exists()


def asked_elsewhere(queues: Collection[Queue], user: User) -> frozenset[int]:
    """Return keys of queues that reveal other people's answers on a unit that another queue still asks this person.

    If that other queue also hides conditions or models, a queue counts as soon as it has a unit of the same task (of
    the same episode, for decisions and libraries). Otherwise the refusal itself would reveal the item's trial, and its
    place in the selection of this queue. Two short queries.
    """
    unsaid = unsaid_by(user)
    return _asked_by(unsaid, queues, unsaid)


def _asked_by(asking: QuerySet[QueueItem], queues: Collection[Queue], unsaid: QuerySet[QueueItem]) -> frozenset[int]:
    """Return what `asked_elsewhere` does for some of a person's unsaid items."""
    alike = _could_be(asking.filter(Q(queue__hides_conditions=True) | Q(queue__hides_models=True)))
    alike &= ~Q(queue__in=unsaid.values("queue"))  # in their own queue everybody knows which tasks there are
    items = QueueItem.objects.filter(same_unit(asking) | alike, queue__in=[queue.pk for queue in queues])
    return frozenset(items.exclude(pk__in=unsaid.values("pk")).order_by().values_list("queue", flat=True).distinct())


def asking_queue(queues: Collection[Queue], user: User) -> tuple[Queue, int] | None:
    """Return a queue that makes `asked_elsewhere` name one of these, and how many items it still asks this person."""
    unsaid = unsaid_by(user)
    shown = QueueItem.objects.filter(queue__in=[queue.pk for queue in queues]).exclude(pk__in=unsaid.values("pk"))
    alike = _could_be(shown) & (Q(queue__hides_conditions=True) | Q(queue__hides_models=True))
    found = unsaid.filter(same_unit(shown) | alike).select_related("queue").first()
    return (found.queue, unsaid.filter(queue=found.queue).count()) if found else None


class AskedElsewhere(PermissionDenied):
    """Refuses other people's answers to a person whom `queue` still asks about the same unit; `items`: how many it
    asks."""

    def __init__(self, queues: Collection[Queue], user: User) -> None:
        found: tuple[Queue | None, int] = asking_queue(queues, user) or (None, 0)
        self.queue, self.items = found
        name = f"The queue “{self.queue.name}”" if self.queue else "Another queue"
        super().__init__(f"{name} still asks you about this. Other people's answers open when you have answered there.")


def too_early(queues: Collection[Queue], user: User) -> frozenset[int]:
    """Return keys of queues where any number made of labels would reveal too much to this person. Four queries."""
    if not queues:
        return frozenset()
    own = unsaid_by(user).filter(queue__in=[queue.pk for queue in queues])
    return asked_elsewhere(queues, user) | set(own.values_list("queue", flat=True).distinct())


def hiding_queues(queues: Collection[Queue], user: User) -> dict[int, tuple[Queue, int]]:
    """Return key of each of these that is `too_early` -> the queue that this person must code first, itself or
    another, and how many items it still asks of them."""
    unsaid = unsaid_by(user)
    left = Counter(unsaid.values_list("queue", flat=True))
    if not left:
        return {}
    found = {queue.pk: queue.pk for queue in queues if queue.pk in left}
    elsewhere = asked_elsewhere(queues, user) - found.keys()
    for pk in left if elsewhere else ():
        hidden = _asked_by(unsaid.filter(queue=pk), queues, unsaid) & elsewhere
        found |= dict.fromkeys(hidden, pk)
    asking = Queue.objects.in_bulk(set(found.values()))
    return {queue: (asking[pk], left[pk]) for queue, pk in found.items()}


def drawn_elsewhere(unit: str, ids: Collection[UUID], *, is_blind: bool) -> Q:
    """Match items of any queue that a new queue of these trials, decisions or libraries would hide from its reviewers
    until they have answered; `is_blind`: it also hides conditions or models."""
    name = {Queue.Unit.TRIAL: "trial", Queue.Unit.DECISION: "decision"}.get(Queue.Unit(unit), "episode")
    if not is_blind:
        return Q(**{f"{name}__public_id__in": ids})
    if name == "trial":
        return Q(trial__task__in=Trial.objects.filter(public_id__in=ids).values("task"))
    decided = {"episode__decisions__public_id__in" if name == "decision" else "public_id__in": ids}
    keys = Episode.objects.filter(**decided).values("key")
    return Q(decision__episode__key__in=keys) | Q(episode__key__in=keys)


def _could_be(items: QuerySet[QueueItem]) -> Q:
    """Match items of any queue that could be one of these, for all its reader may know."""
    found = Q(trial__task__in=items.exclude(trial=None).values("trial__task"))
    for path in ("decision__episode__key", "episode__key"):
        found |= Q(**{f"{path}__in": items.exclude(**{path: None}).values(path)})
    return found

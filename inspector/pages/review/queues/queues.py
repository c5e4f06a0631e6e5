"""What several pages of a review ask about a queue: the queue itself, who may open or manage it, and its facts in a list."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from benchapp.models import Queue, QueueItem, User
from benchapp.people.accounts import LOCAL_USER
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import AskedElsewhere, asked_elsewhere
from benchapp.review.coding.disagreements import closed_sentence
from benchapp.review.coding.queue_agreement import still_to_review
from benchapp.review.queues.review_progress import awaiting
from benchapp.review.seeing import note_seen
from inspector.web.access import user_of
from inspector.web.responses import link_to

RELATED = ("trial__task__family", "decision__family", "episode__family")
UNITS = {Queue.Unit.TRIAL: "trial", Queue.Unit.DECISION: "decision", Queue.Unit.SNAPSHOT: "library"}
FACETS = {
    "condition": "condition",
    "agent_model": "agent model",
    "author_model": "author model",
    "environment": "environment",
    "family": "family",
    "role": "role",
    "phase": "phase",
    "status": "the decision's outcome",
}
QUEUE = JsonShape(
    *("id=queue.public_id", "name=queue.name", link_to("queue-json", "queue.public_id")),
    ("codebook", JsonShape("name=queue.version.codebook.name", "version=queue.version.number").read),
    *("unit=queue.unit", "open=queue.is_open", "items"),
    ("reviews", JsonShape("submitted=filled", "needed=slots", "held").read),
    ("own", JsonShape("left=own_left", "done=own_done").read),
)
"""Of a QueueProgress."""


def load_queue(public_id: UUID) -> Queue:
    """The queue with what every page of it names; 404 where there is none."""
    return get_object_or_404(Queue.objects.select_related("version__codebook", "created_by"), public_id=public_id)


def load_open_queue(request: HttpRequest, public_id: UUID) -> Queue:
    """The queue; 403 for anyone who still has items of its overlap to review blind, here or in another queue."""
    queue, user = load_queue(public_id), user_of(request)
    if left := still_to_review(queue, user):
        raise PermissionDenied(closed_sentence(left))
    if asked_elsewhere([queue], user):
        raise AskedElsewhere([queue], user)
    return queue


def open_queue(request: HttpRequest, public_id: UUID) -> Queue:
    """Return the queue for a page that shows the answers of others, and note that this person has read them."""
    queue = load_open_queue(request, public_id)
    note_seen(user_of(request), queue)
    return queue


def may_manage(queue: Queue, user: User) -> bool:
    """Admins, and the person who made it while they may review."""
    return user.may(User.Level.ADMIN) or (queue.created_by_id == user.pk and user.may(User.Level.REVIEWER))


def count_settleable(queues: Collection[Queue], user: User) -> dict[int, int]:
    """Return key of queue -> open disagreements that this person may settle: as in `explain_barred`, nobody but an admin
    settles what they answered themselves. One query."""
    if not user.may(User.Level.REVIEWER):
        return {}
    return awaiting(queues, unanswered_by=None if user.may(User.Level.ADMIN) else user)


def may_review() -> QuerySet[User]:
    """Those who can code here: nobody logs in as the one person of single-user mode."""
    levels = User.Level.values[User.Level.values.index(User.Level.REVIEWER) :]
    people = User.objects.filter(is_active=True, level__in=levels).order_by("username")
    return people if settings.SINGLE_USER else people.exclude(username=LOCAL_USER)


def name_unit(item: QueueItem) -> tuple[str, str]:
    """(title, family) of what the item is about; no query after `select_related(*RELATED)`."""
    if item.trial:
        task = item.trial.task
        return task.title, task.family.name if task.family else ""
    if item.decision:
        return f"decision {item.decision.number}", item.decision.family.name
    return (item.episode.title if item.episode else "library"), ""

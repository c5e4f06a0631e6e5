"""Remarks on steps, lines and charts: written once, answered, retracted by their author. Mentions notify people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from benchapp.models import Comment, Mention, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import Words, unsaid_by
from benchapp.review.comment_places import CommentPlace

MAX_CHARS = 10_000
MAX_MENTIONS = 50
THREAD_COMMENTS, THREAD_CHARS = 200, 100_000  # of one place that are shown together, the newest
# A name as accounts may have it, not the tail of an e-mail address; a full stop after it ends the sentence.
_MENTION = re.compile(r"(?<![\w@.+-])@([\w@+-](?:[\w@.+-]*[\w@+-])?)")


class CommentRefused(Exception):
    """Nothing was written, or too much, or it is somebody else's to retract; the message says which."""


def write_comment(place: CommentPlace, author: User, text: str, *, parent: Comment | None = None) -> Comment:
    """Save the comment and notify the people it mentions. An answer to an answer joins the same thread."""
    text = text.strip()
    if not text:
        raise CommentRefused("There is nothing in it yet.")
    if len(text) > MAX_CHARS:
        raise CommentRefused(f"At most {MAX_CHARS:,} characters; this has {len(text):,}.")
    if parent is not None and parent.place != place.name:
        raise CommentRefused("The comment it answers belongs to another place.")
    with transaction.atomic():
        comment = Comment.objects.create(
            on=place.on,
            place=place.name,
            address=place.address,
            trial=place.trial,
            run=place.run,
            parent=(parent.parent or parent) if parent else None,
            author=author,
            text=text,
        )
        Mention.objects.bulk_create(
            Mention(comment=comment, user=user) for user in _select_mentioned(text, besides=author)
        )
        note_activity(author, "comment.written", comment, detail={"on": place.on})
    return comment


def mentions_in(text: str) -> list[str]:
    """Return the names after an @, each once, in order. Does not check that they exist."""
    return list(dict.fromkeys(_MENTION.findall(text)))[:MAX_MENTIONS]


def _select_mentioned(text: str, *, besides: User) -> Iterable[User]:
    named = Q()
    for name in mentions_in(text):
        named |= Q(username__iexact=name)
    return User.objects.filter(named, is_active=True).exclude(pk=besides.pk) if named else ()


def retract_comment(comment: Comment, by: User) -> bool:
    """Retract the comment: its text is hidden, its existence stays visible. False where it was retracted before."""
    if comment.author_id != by.pk:
        raise CommentRefused("Only its author can remove a comment.")
    with transaction.atomic():
        standing = Comment.objects.filter(pk=comment.pk, retracted_at=None)
        if standing.update(retracted_at=timezone.now()) != 1:
            return False
        note_activity(by, "comment.retracted", comment, detail={"on": comment.on})
    return True


def comments_for(user: User) -> QuerySet[Comment]:
    """Comments this person may read. Not of deleted experiments, not on pages that a blind review closes to them, and
    not on units they must still code without knowing other people's opinions."""
    standing = Q(trial=None) | Q(trial__episode__run__experiment__deleted_at=None)
    standing &= Q(run=None) | Q(run__experiment__deleted_at=None)
    words = Words(user)
    readable = Comment.objects.filter(standing)
    readable = readable.exclude(trial__in=words.closed_trials()).exclude(run__in=words.closed_runs())
    unsaid = unsaid_by(user)
    early = Q(trial__in=unsaid.exclude(trial=None).values("trial"))
    early |= Q(run__in=unsaid.exclude(decision=None).values("decision__episode__run"), on=Comment.On.LINE)
    early |= Q(run__in=unsaid.exclude(episode=None).values("episode__run"), on=Comment.On.LINE)
    return readable.exclude(early, ~Q(author=user)).select_related("author")


def thread_at(place: CommentPlace, reader: User) -> tuple[list[tuple[Comment, list[Comment]]], int]:
    """Return the newest readable remarks, each with its answers, oldest first, and the number of comments at the place.
    An answer to an older remark is listed alone."""
    readable = comments_for(reader).filter(place=place.name)
    newest = list(readable.order_by("-written_at", "-id")[: THREAD_COMMENTS + 1])
    sizes = accumulate(len(comment.text) for comment in newest)
    shown = [comment for comment, size in zip(newest, sizes, strict=True) if size <= THREAD_CHARS][:THREAD_COMMENTS]
    is_cut = len(shown) < len(newest)
    total = readable.filter(retracted_at=None).count() if is_cut else sum(not each.retracted_at for each in shown)
    thread: dict[int, tuple[Comment, list[Comment]]] = {}
    for comment in reversed(shown):
        if comment.parent_id in thread:
            thread[comment.parent_id][1].append(comment)
        else:
            thread[comment.pk] = comment, []
    return list(thread.values()), total


def mentions_of(user: User) -> QuerySet[Mention]:
    """Mentions of this person in current comments: unread first, then newest first."""
    readable = comments_for(user).filter(retracted_at=None).values("pk")
    mentions = Mention.objects.filter(user=user, comment__in=readable).select_related("comment__author")
    return mentions.order_by(F("read_at").desc(nulls_first=True), "-comment__written_at", "-pk")


def unread_mentions(user: User) -> int:
    """Count unread mentions, in one query for the frame of every page."""
    return mentions_of(user).filter(read_at=None).order_by().count()


def read_mentions(user: User, *, place: str = "") -> int:
    """Mark mentions read: all, or those at one place. Return how many were unread. What a blind review still hides from
    them stays unread."""
    unread = Mention.objects.filter(user=user, read_at=None, comment__in=comments_for(user).values("pk"))
    if place:
        unread = unread.filter(comment__place=place)
    return unread.update(read_at=timezone.now())

"""Comments on steps, lines and charts: written once, answered, retracted by their author. Mentions notify people.

Every place has one canonical name, so equal places are equal texts and one query finds the comments there:

step   "trial <uuid> <trajectory uuid> step <n>"
line   "run <uuid> file <sha256 of the file> <path> line <n>"
chart  "chart <key>?<query of the choices, without the moment>"

A line is named by the content of its file, not by the state of the library: the comment appears wherever the run shows
this very text again, and also in a patch that was refused and never became a state. A chart is named without the
moment; the address leads to the numbers at the time of the comment.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import accumulate
from urllib.parse import urlencode
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Comment, Mention, Run, Trajectory, Trial, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import ReviewAccess, unsaid_by
from benchapp.stats.comparing.choices import Choices, parse_choices
from runner.base.text import parse_count

MAX_NAME = 1000
MAX_ADDRESS = 2000
MAX_LINE = 10_000_000
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_KEY = re.compile(r"[-\w]{1,80}\Z", re.ASCII)
_STATE = re.compile(r"[-\w.]{0,80}\Z", re.ASCII)


class NoSuchPlace(Exception):
    """The query names no place; the message says which part and what was expected."""


@dataclass(frozen=True, slots=True)
class CommentPlace:
    """`name` is canonical, `address` the page that shows it, `title` the place in words."""

    on: str
    name: str
    address: str
    title: str
    trial: Trial | None = None
    run: Run | None = None

    def is_closed_to(self, user: User) -> bool:
        """Would its page show this person what a blind review hides from them?"""
        if self.trial is None and self.run is None:
            return False
        return ReviewAccess(user).closing(trial=self.trial, run=self.run) is not None


def place_of(query: QueryDict) -> CommentPlace:
    """Return the place a query string names. NoSuchPlace where it names none."""
    readers = {Comment.On.STEP: _step, Comment.On.LINE: _line, Comment.On.CHART: _chart}
    on = query.get("on", "")
    if on not in readers:
        raise NoSuchPlace(f"on: {on[:40]!r} is not one of {', '.join(readers)}")
    place = readers[Comment.On(on)](query)
    if len(place.name) > MAX_NAME or len(place.address) > MAX_ADDRESS:
        raise NoSuchPlace("the address of this place is too long to keep")
    return place


def _step(query: QueryDict) -> CommentPlace:
    found = Trajectory.objects.filter(public_id=_uuid(query, "trajectory")).select_related(
        "attempt__trial__episode__run__experiment", "attempt__trial__task"
    )
    trajectory = found.filter(attempt__trial__episode__run__experiment__deleted_at=None).first()
    if trajectory is None or trajectory.attempt is None:
        raise NoSuchPlace("trajectory: there is none of this id")
    number, trial = _number(query, "step", trajectory.steps_total), trajectory.attempt.trial
    query_string = urlencode({"attempt": trajectory.attempt.number, "trajectory": trajectory.public_id, "step": number})
    return CommentPlace(
        Comment.On.STEP,
        f"{step_prefix(trial, trajectory)}{number}",
        f"{trial.get_absolute_url()}?{query_string}#step-{number}",
        f"Step {number} of {trial.task.title}",
        trial=trial,
    )


def step_prefix(trial: Trial, trajectory: Trajectory) -> str:
    return f"trial {trial.public_id} {trajectory.public_id} step "


def _line(query: QueryDict) -> CommentPlace:
    run = Run.objects.filter(public_id=_uuid(query, "run"), experiment__deleted_at=None).first()
    if run is None:
        raise NoSuchPlace("run: there is none of this id")
    episode = run.episodes.filter(public_id=_uuid(query, "episode")).first()
    if episode is None:
        raise NoSuchPlace("episode: the run has none of this id")
    digest, path, number = query.get("digest", ""), query.get("file", ""), _number(query, "line", MAX_LINE)
    if not _DIGEST.match(digest):
        raise NoSuchPlace("digest: expected the SHA-256 of a file")
    if not path or "\x00" in path:
        raise NoSuchPlace("file: expected its path in the library")
    side = "L" if query.get("side") == "old" else "R"
    view = "source" if query.get("view") in {"source", "rendered"} else "unified"
    shown = {name: query.get(name, "") for name in ("from", "to", "decision") if query.get(name)}
    if not all(_STATE.match(text) for text in shown.values()):
        raise NoSuchPlace("from, to, decision: expected states of the library and the number of a decision")
    query_string = urlencode({"episode": episode.public_id, **shown, "file": path, "view": view})
    return CommentPlace(
        Comment.On.LINE,
        f"{line_prefix(run)}{digest} {path} line {number}",
        f"{reverse('library', args=[run.public_id])}?{query_string}#f0-{side}{number}",
        f"Line {number} of {path}",
        run=run,
    )


def line_prefix(run: Run) -> str:
    return f"run {run.public_id} file "


def _chart(query: QueryDict) -> CommentPlace:
    key = query.get("key", "")
    if not _KEY.match(key):
        raise NoSuchPlace("key: expected the key of a chart")
    choices, _ = parse_choices(query)
    moment = choices.as_of or timezone.now()
    address = f"{reverse('chart', args=[key])}?{choices.but(as_of=moment, seen='').query()}"
    return CommentPlace(Comment.On.CHART, chart_name(key, choices), address, f"Chart “{key}”")


def chart_name(key: str, choices: Choices) -> str:
    """Return the same name for every moment. Queries too long for a name are replaced by their digest."""
    query = choices.but(as_of=None, seen="").query()
    if len(query) > MAX_NAME // 2:
        query = f"sha256:{hashlib.sha256(query.encode()).hexdigest()}"
    return f"chart {key}?{query}"


def place_in_words(on: str, name: str) -> str:
    """Return a canonical name without its ids."""
    if on == Comment.On.STEP:
        return name[name.rindex("step ") :]
    if on == Comment.On.LINE:
        return name.split(" ", 4)[4]
    return name.partition("?")[0]


def counts_below(prefix: str) -> dict[str, int]:
    """Return the rest of the place's name -> its comments, for every place below `prefix`. One query."""
    current = Comment.objects.filter(place__startswith=prefix, retracted_at=None).order_by()
    rows = current.values_list("place").annotate(total=Count("pk"))
    return {place.removeprefix(prefix): total for place, total in rows}


def _uuid(query: QueryDict, name: str) -> UUID:
    try:
        return UUID(query.get(name, ""))
    except ValueError:
        raise NoSuchPlace(f"{name}: expected an id") from None


def _number(query: QueryDict, name: str, most: int) -> int:
    number = parse_count(query.get(name, ""), most)
    if not number:
        raise NoSuchPlace(f"{name}: expected a whole number from 1 to {most}")
    return number


# --- comments --------------------------------------------------------------------------------------------------------

MAX_CHARS = 10_000
MAX_MENTIONS = 50
THREAD_COMMENTS, THREAD_CHARS = 200, 100_000  # of one place that are shown together, the newest
# A name as accounts may have it, not the tail of an e-mail address; a full stop after it ends the sentence.
_MENTION = re.compile(r"(?<![\w@.+-])@([\w@+-](?:[\w@.+-]*[\w@+-])?)")


class CommentRefused(Exception):
    """The comment is empty or too long, or belongs to somebody else; the message says which."""


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
        named = Q()
        for name in mentions_in(text):
            named |= Q(username__iexact=name)
        people = User.objects.filter(named, is_active=True).exclude(pk=author.pk) if named else ()
        Mention.objects.bulk_create(Mention(comment=comment, user=user) for user in people)
        note_activity(author, "comment.written", comment, detail={"on": place.on})
    return comment


def mentions_in(text: str) -> list[str]:
    """Return the names after an @, each once, in order. Does not check that they exist."""
    return list(dict.fromkeys(_MENTION.findall(text)))[:MAX_MENTIONS]


def retract_comment(comment: Comment, by: User) -> bool:
    """Retract the comment: its text is hidden, its existence stays visible. False where it was retracted before."""
    if comment.author_id != by.pk:
        raise CommentRefused("Only its author can remove a comment.")
    with transaction.atomic():
        current = Comment.objects.filter(pk=comment.pk, retracted_at=None)
        if current.update(retracted_at=timezone.now()) != 1:
            return False
        note_activity(by, "comment.retracted", comment, detail={"on": comment.on})
    return True


def comments_for(user: User) -> QuerySet[Comment]:
    """Select the comments that this person may read: not of deleted experiments, not on pages that a blind review
    closes to them, and not on units they must still code without knowing other people's opinions."""
    not_deleted = Q(trial=None) | Q(trial__episode__run__experiment__deleted_at=None)
    not_deleted &= Q(run=None) | Q(run__experiment__deleted_at=None)
    access = ReviewAccess(user)
    readable = Comment.objects.filter(not_deleted)
    readable = readable.exclude(trial__in=access.closed_trials()).exclude(run__in=access.closed_runs())
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
    """Select the mentions of this person in current comments: unread first, then newest first."""
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

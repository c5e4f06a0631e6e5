"""The place of a comment: a step of a trajectory, a line of a file in a diff, a chart with its choices.

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
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Comment, Run, Trajectory, Trial, User
from benchapp.review.blinding import Words
from benchapp.stats.comparing.choices import Choices, parse_choices

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
    """`name` is canonical, `address` the page that shows it, `said` the place in words."""

    on: str
    name: str
    address: str
    said: str
    trial: Trial | None = None
    run: Run | None = None

    def is_closed_to(self, user: User) -> bool:
        """Would its page show this person what a blind review hides from them?"""
        if self.trial is None and self.run is None:
            return False
        return Words(user).closing(trial=self.trial, run=self.run) is not None


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
    found = Run.objects.filter(public_id=_uuid(query, "run"), experiment__deleted_at=None).first()
    if found is None:
        raise NoSuchPlace("run: there is none of this id")
    episode = found.episodes.filter(public_id=_uuid(query, "episode")).first()
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
        f"{line_prefix(found)}{digest} {path} line {number}",
        f"{reverse('library', args=[found.public_id])}?{query_string}#f0-{side}{number}",
        f"Line {number} of {path}",
        run=found,
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
    standing = Comment.objects.filter(place__startswith=prefix, retracted_at=None).order_by()
    rows = standing.values_list("place").annotate(total=Count("pk"))
    return {place.removeprefix(prefix): total for place, total in rows}


def _uuid(query: QueryDict, name: str) -> UUID:
    try:
        return UUID(query.get(name, ""))
    except ValueError:
        raise NoSuchPlace(f"{name}: expected an id") from None


def _number(query: QueryDict, name: str, most: int) -> int:
    text = query.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= most):
        raise NoSuchPlace(f"{name}: expected a whole number from 1 to {most}")
    return int(text)

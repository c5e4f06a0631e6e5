"""The comments on a page so far, and the addresses of the threads: one query for any page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.models import Comment, Run, Trajectory, Trial
from benchapp.review.comments import chart_name, counts_below, line_prefix, step_prefix
from benchapp.stats.comparing.choices import Choices


@dataclass(frozen=True, slots=True)
class CommentedSteps:
    """`address` lacks the step. `counts`: step number -> number of comments there."""

    address: str
    counts: Mapping[int, int]

    def url(self, step: int) -> str:
        return f"{self.address}&step={step}"


@dataclass(frozen=True, slots=True)
class CommentedChart:
    url: str
    count: int


def count_step_comments(trial: Trial, trajectory: Trajectory | None) -> CommentedSteps | None:
    if trajectory is None:
        return None
    found = counts_below(step_prefix(trial, trajectory))
    query = urlencode({"on": "step", "trajectory": trajectory.public_id})
    return CommentedSteps(f"{reverse('comments-about')}?{query}", {int(step): count for step, count in found.items()})


def count_line_comments(run: Run, state: Mapping[str, str]) -> dict[str, object]:
    """Count the comments on each line.
    `state`: what of the library the page shows (episode, from, to, decision, view)."""
    query = urlencode({"on": "line", "run": run.public_id, **{name: text for name, text in state.items() if text}})
    return {"url": f"{reverse('comments-about')}?{query}", "counts": counts_below(line_prefix(run))}


def count_chart_comments(key: str, choices: Choices) -> CommentedChart:
    query = "&".join(filter(None, [urlencode({"on": "chart", "key": key}), choices.query(seen="")]))
    current = Comment.objects.filter(place=chart_name(key, choices), retracted_at=None)
    return CommentedChart(f"{reverse('comments-about')}?{query}", current.count())

"""A running trial: the steps its agent has published so far, and those since the page last asked.

What is shown comes from the broker's stream: shortened, capped, gone an hour after its end. After the attempt has
ended, the record has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from benchapp.models import Attempt, Trial
from benchapp.record import live
from benchapp.record.trajectory_store import StoredStep
from inspector.reader.cards import StepCard, draw_cards
from inspector.reader.steps import draw_steps
from inspector.web.responses import read_htmx
from inspector.web.subject import of_trial
from runner.trajectories.atif_values import step_from_json
from runner.trajectories.readers.skill_use import step_uses

FIRST_STEPS = 60  # drawn at first; earlier ones are in the record when the attempt has ended
MORE_STEPS = 60  # in one answer; the next one brings what is left
START = "0-0"
_PLACE = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")

Published = tuple[str, Mapping[str, object]]  # id in the stream, ATIF step


@dataclass(frozen=True, slots=True)
class LiveSteps:
    """`after`: the id to ask from next. `is_over`: the attempt has ended. `is_away`: the broker is, so nothing is known."""

    attempt: Attempt
    steps: tuple[StepCard, ...]
    published: tuple[Published, ...]
    after: str
    last_number: int | None
    last_at: datetime | None
    is_over: bool = False
    is_away: bool = False

    @property
    def earlier(self) -> int:
        """Steps before the first one drawn."""
        return max(0, self.steps[0].number - 1) if self.steps else 0


@require_safe
@of_trial
def live_trial(request: HttpRequest, found: Trial) -> HttpResponse:
    """A fragment for htmx; anybody else is sent to the page it belongs to."""
    if not read_htmx(request):
        return redirect(found)
    number = request.GET.get("attempt", "")
    attempt = get_object_or_404(found.attempts, number=int(number) if number.isdecimal() and len(number) < 6 else 0)
    context = {"live": read_steps_since(attempt, request.GET.get("after", "")), "this_trial": found, "is_more": True}
    return render(request, "trials/_live_more.html", context)


def read_live_steps(attempt: Attempt | None) -> LiveSteps | None:
    """The last steps of a running attempt; None for any other."""
    if attempt is None or attempt.status != Attempt.Status.RUNNING:
        return None
    found = live.tail(str(attempt.public_id), FIRST_STEPS)
    return _draw(attempt, found or (), START, is_away=found is None)


def read_steps_since(attempt: Attempt, after: str) -> LiveSteps:
    """What came after the step with the id `after`; nonsense is the beginning."""
    after = after if _PLACE.fullmatch(after) else START
    found = live.read(str(attempt.public_id), after=after, count=MORE_STEPS)
    return _draw(attempt, found, after, is_over=attempt.status != Attempt.Status.RUNNING)


def _draw(
    attempt: Attempt, found: Sequence[Published], after: str, *, is_over: bool = False, is_away: bool = False
) -> LiveSteps:
    steps = [step_from_json(raw) for _, raw in found]
    numbered = [StoredStep(step, {}) for step in steps]
    skills = {step.number: [(use.skill, use.kind.value) for use in step_uses(step, mounted=None)] for step in steps}
    place = found[-1][0] if found else after
    return LiveSteps(
        attempt=attempt,
        steps=tuple(draw_cards(draw_steps(numbered, skills=skills), numbered)),
        published=tuple(found),
        after=place,
        last_number=steps[-1].number if steps else None,
        last_at=live.published_at(place) if place != START else None,
        is_over=is_over,
        is_away=is_away,
    )

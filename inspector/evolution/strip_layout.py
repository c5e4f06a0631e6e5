"""Where everything of a strip stands. The same trial has the same x on every page, and every trial of acquisition keeps
room for an answer of the author behind it, so that two conditions of one plan lie
task under task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from inspector.evolution.timeline import Timeline, TimelineFreeze, TimelinePatch, TimelineTrial
from runner.base.types import Phase

Place = tuple[str, int, int]  # phase, task, sample: the same trial in another run

SIDE = 17  # of a square, pixels
SLOT = 22  # of a patch
LAST_HEAD = 150  # of the words above the last phase
BETWEEN_TRIALS, BETWEEN_FAMILIES, BETWEEN_PHASES, AROUND_FREEZE = 2, 5, 14, 36


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring trials of one phase, or of one family in it: from its left to its right edge."""

    name: str
    left: float
    right: float


@dataclass(slots=True)
class StripLayout:
    """x of the left edge of each square, of the middle of each patch and of the freeze; the strip's width."""

    trials: dict[str, float] = field(default_factory=dict)
    patches: dict[int, float] = field(default_factory=dict)  # by the id of their spine entry
    freeze: float | None = None
    phases: list[Stretch] = field(default_factory=list)
    families: list[Stretch] = field(default_factory=list)
    width: float = 0

    def of_patch(self, patch: TimelinePatch) -> float:
        return self.patches[patch.step.entry.pk]


def count_patches(timeline: Timeline) -> Counter[Place]:
    """How many patches stand behind each trial. The larger of two counts is the `rooms` that keeps two strips aligned."""
    found: Counter[Place] = Counter()
    last: Place | None = None
    for event in timeline.events:
        if isinstance(event, TimelineTrial):
            last = _place(event)
        elif isinstance(event, TimelinePatch) and last:
            found[last] += 1
    return found


def _place(trial: TimelineTrial) -> Place:
    return trial.square.phase, trial.square.task_id, trial.square.sample


def lay_out(timeline: Timeline, rooms: Mapping[Place, int] | None = None) -> StripLayout:
    """One pass along the events. There is room for a patch before the first trial, and behind every trial of acquisition,
    or for as many as `rooms` says; a patch beyond these makes its own."""
    layout = StripLayout()
    x, room = 2.0 + SLOT, float(SLOT)
    last: TimelineTrial | None = None
    for event in timeline.events:
        if isinstance(event, TimelinePatch):
            if not room:
                x, room = x + SLOT, SLOT
            layout.patches[event.step.entry.pk] = x - room + SLOT / 2
            room -= SLOT
        elif isinstance(event, TimelineFreeze):
            layout.freeze = x + AROUND_FREEZE / 2 - 6
            x, room, last = x + AROUND_FREEZE, 0.0, None
        else:
            x += _space_between(last, event)
            _stretch(layout, last, event, x)
            layout.trials[event.key] = x
            slots = max(event.square.phase == Phase.ACQUISITION, (rooms or {}).get(_place(event), 0))
            room = float(SLOT * slots)
            x, last = x + SIDE + (room or BETWEEN_TRIALS), event
    layout.width = max(x + 2, layout.phases[-1].left + LAST_HEAD) if layout.phases else x + 2
    return layout


def _space_between(last: TimelineTrial | None, trial: TimelineTrial) -> float:
    if last is None:
        return 0
    if last.square.phase != trial.square.phase:
        return BETWEEN_PHASES
    return BETWEEN_FAMILIES if last.square.family_id != trial.square.family_id else 0


def _stretch(layout: StripLayout, last: TimelineTrial | None, trial: TimelineTrial, x: float) -> None:
    """Begins or lengthens the stretches that the trial at x belongs to."""
    new, old = trial.square, last.square if last else None
    is_same = old is not None and old.phase == new.phase
    parts = (
        (layout.phases, new.phase, is_same),
        (layout.families, new.family or "", old is not None and is_same and old.family_id == new.family_id),
    )
    for stretches, name, goes_on in parts:
        left = stretches[-1].left if goes_on else x
        if goes_on:
            stretches.pop()
        stretches.append(Stretch(name, left, x + SIDE))

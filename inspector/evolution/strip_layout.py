"""Where everything is on a strip: one geometry for all pages and episodes, over the whole width.

Every trial of acquisition keeps room for an answer of the author after it, and the first trial after acquisition keeps room
for the freeze, so that two conditions of one plan have the same task at the same x.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from inspector.evolution.timeline import Timeline, TimelineFreeze, TimelinePatch, TimelineTrial
from runner.base.types import Phase

Place = tuple[str, int, int]  # phase, task, sample: the same trial in another run

SIDE = 17  # of a square, pixels
SLOT = 22  # of a patch
WIDTH = 1_280  # of a strip at least: a shorter one is spread over it
LETTER = 5.6  # of a family's name
LAST_HEAD = 150  # of the words above the last phase
BETWEEN_TRIALS, BETWEEN_FAMILIES, BETWEEN_PHASES, AROUND_FREEZE = 2, 8, 14, 44


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
    """How many patches come after each trial. The larger of two counts is the `rooms` that keeps two strips aligned."""
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
    """One pass along the events. There is room for a patch before the first trial, and after every trial of acquisition,
    or for as many as `rooms` says; a patch beyond these makes its own. A family is as wide as its name in two lines."""
    layout = StripLayout()
    x, room, is_freezing = 2.0 + SLOT, float(SLOT), False
    last: TimelineTrial | None = None
    for event in timeline.events:
        if isinstance(event, TimelineFreeze):
            x, room, is_freezing = _end_family(layout, x), 0.0, True
            layout.freeze = x + AROUND_FREEZE / 2 - 4
        elif isinstance(event, TimelinePatch):
            if not room:
                x, room, is_freezing = x + SLOT + AROUND_FREEZE * is_freezing, SLOT, False
            layout.patches[event.step.entry.pk] = x - room + SLOT / 2
            room -= SLOT
        else:
            x = _space(layout, last, event, x, is_freezing=is_freezing)
            _stretch(layout, last, event, x)
            layout.trials[event.key] = x
            slots = max(event.square.phase == Phase.ACQUISITION, (rooms or {}).get(_place(event), 0))
            room = float(SLOT * slots)
            x, last, is_freezing = x + SIDE + (room or BETWEEN_TRIALS), event, False
    layout.width = max(_end_family(layout, x) + 2, layout.phases[-1].left + LAST_HEAD if layout.phases else 0)
    return _spread(layout)


def wrap_name(name: str) -> tuple[str, str]:
    """The name in two lines, the longer of them as short as it can be; the second is empty for a single word."""
    words = name.split()
    splits = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words))]
    return min(splits, key=lambda lines: max(map(len, lines)), default=(name, ""))


def _space(
    layout: StripLayout, last: TimelineTrial | None, trial: TimelineTrial, x: float, *, is_freezing: bool
) -> float:
    """Where the trial begins. A trial that learns nothing after one that did, or after none, has the freeze before it."""
    new, old = trial.square, last.square if last else None
    if old and old.phase == new.phase:
        return x if old.family_id == new.family_id else _end_family(layout, x) + BETWEEN_FAMILIES
    learns = Phase.ACQUISITION
    is_frozen = is_freezing or new.phase != learns and (old is None or old.phase == learns)
    return _end_family(layout, x) + AROUND_FREEZE * is_frozen + BETWEEN_PHASES * (old is not None)


def _end_family(layout: StripLayout, x: float) -> float:
    """Where the next family may begin."""
    if not layout.families:
        return x
    return max(x, layout.families[-1].left + LETTER * max(map(len, wrap_name(layout.families[-1].name))))


def _spread(layout: StripLayout) -> StripLayout:
    by = max(1.0, WIDTH / layout.width)

    def move(stretches: list[Stretch]) -> list[Stretch]:
        return [Stretch(one.name, round(one.left * by, 1), round(one.right * by, 1)) for one in stretches]

    return StripLayout(
        trials={key: round(x * by, 1) for key, x in layout.trials.items()},
        patches={entry: round(x * by, 1) for entry, x in layout.patches.items()},
        freeze=None if layout.freeze is None else round(layout.freeze * by, 1),
        phases=move(layout.phases),
        families=move(layout.families),
        width=round(layout.width * by, 1),
    )


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

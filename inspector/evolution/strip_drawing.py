"""Place a timeline on a strip and draw it as SVG: pure, links with a title each, no script needed. Words of strangers
are escaped here.

One geometry serves all pages and episodes, over the whole width: every trial of acquisition keeps room for an answer
of the author after it, and the first trial after acquisition keeps room for the freeze, so that two conditions of one
plan have the same task at the same x. The lines of a title are what the card shows on hover and on focus
(static/js/strip.js); without a script the browser does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.models import Square
from benchapp.record.visible import one_line, visible
from benchapp.stats.metrics.catalogue import name_role
from inspector.evolution.timeline import SkillLane, Timeline, TimelineFreeze, TimelinePatch, TimelineTrial
from inspector.web.text.formats import GLYPHS, status_word
from runner.base.text import plural
from runner.base.types import Phase

Place = tuple[str, int, int]  # phase, task, sample: the same trial in another run

SIDE = 17  # of a square, pixels
SLOT = 22  # of a patch
WIDTH = 1_280  # of a strip at least: a shorter one is spread over it
LETTER = 5.6  # of a family's name
LANE = 24  # from lane to lane
BRANCHES = 14  # for the lines below the patches of candidates that form a tree
LAST_HEAD = 150  # of the words above the last phase
BETWEEN_TRIALS, BETWEEN_FAMILIES, BETWEEN_PHASES, AROUND_FREEZE = 2, 8, 14, 44
MAX_SUMMARY, MAX_NAME = 160, 80  # characters
PHASE_WORDS = {
    Phase.ACQUISITION: ("Acquisition", "the library grows"),
    Phase.DEPLOYMENT: ("Deployment", "new tasks"),
    Phase.REPLAY: ("Replay", "tasks of acquisition again"),
    Phase.EVALUATION: ("Evaluation", "the library frozen"),
}


class StripForm(StrEnum):
    """How much of it is drawn: the row of trials alone, with its heads, or with a lane for each skill too."""

    MINOR = "minor"
    PLAIN = "plain"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class StripLinks:
    """Where a click leads. `swaps`: whether squares swap a part of the page as patches do."""

    of_trial: Callable[[TimelineTrial], str]
    of_patch: Callable[[TimelinePatch], str]
    of_skill: Callable[[SkillLane], str]
    swaps: bool = False


# --- layout -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring trials of one phase, or of one family in it: from its left to its right edge."""

    name: str
    left: float
    right: float


def count_patches(timeline: Timeline) -> Counter[Place]:
    """Count the patches after each trial. The larger of two counts is the `rooms` that keeps two strips aligned."""
    found: Counter[Place] = Counter()
    last: Place | None = None
    for event in timeline.events:
        if isinstance(event, TimelineTrial):
            last = _place(event.square)
        elif isinstance(event, TimelinePatch) and last:
            found[last] += 1
    return found


def _place(square: Square) -> Place:
    return square.phase, square.task_id, square.sample


class StripLayout:
    """x of the left edge of each square (`trials`), of the middle of each patch (`patches`, by the id of its spine
    entry) and of the freeze; the strip's width.

    Events are placed in one pass. There is room for a patch before the first trial, and after every trial of
    acquisition, or for as many as `rooms` says; a patch beyond these makes its own. A family is as wide as its name
    in two lines."""

    def __init__(self, timeline: Timeline, rooms: Mapping[Place, int] | None = None) -> None:
        trials, patches = dict[str, float](), dict[int, float]()
        phases, families = list[Stretch](), list[Stretch]()
        freeze: float | None = None
        last: Square | None = None
        x, room, is_freezing = 2.0 + SLOT, float(SLOT), False
        for event in timeline.events:
            if isinstance(event, TimelineFreeze):
                x, room, is_freezing = _end_family(families, x), 0.0, True
                freeze = x + AROUND_FREEZE / 2 - 4
            elif isinstance(event, TimelinePatch):
                if not room:
                    x, room, is_freezing = x + SLOT + AROUND_FREEZE * is_freezing, SLOT, False
                patches[event.step.entry.pk] = x - room + SLOT / 2
                room -= SLOT
            else:
                square = event.square
                same_phase = last is not None and last.phase == square.phase
                same_family = same_phase and last is not None and last.family_id == square.family_id
                if same_phase and not same_family:
                    x = _end_family(families, x) + BETWEEN_FAMILIES
                elif not same_phase:
                    # A trial that learns nothing after one that did, or after none, has the freeze before it.
                    learned = last is None or last.phase == Phase.ACQUISITION
                    is_frozen = is_freezing or square.phase != Phase.ACQUISITION and learned
                    x = _end_family(families, x) + AROUND_FREEZE * is_frozen + BETWEEN_PHASES * (last is not None)
                for stretches, name, continues in (
                    (phases, square.phase, same_phase),
                    (families, square.family or "", same_family),
                ):
                    left = stretches.pop().left if continues else x
                    stretches.append(Stretch(name, left, x + SIDE))
                trials[event.key] = x
                room = float(SLOT * max(square.phase == Phase.ACQUISITION, (rooms or {}).get(_place(square), 0)))
                x, last, is_freezing = x + SIDE + (room or BETWEEN_TRIALS), square, False
        width = max(_end_family(families, x) + 2, phases[-1].left + LAST_HEAD if phases else 0)
        by = max(1.0, WIDTH / width)
        self.trials = {key: round(x * by, 1) for key, x in trials.items()}
        self.patches = {entry: round(x * by, 1) for entry, x in patches.items()}
        self.freeze = None if freeze is None else round(freeze * by, 1)
        self.phases, self.families = (
            [Stretch(each.name, round(each.left * by, 1), round(each.right * by, 1)) for each in stretches]
            for stretches in (phases, families)
        )
        self.width = round(width * by, 1)


def wrap_name(name: str) -> tuple[str, str]:
    """Return the name in two lines, the longer of them as short as it can be. The second is empty for a single word."""
    words = name.split()
    splits = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words))]
    return min(splits, key=lambda lines: max(map(len, lines)), default=(name, ""))


def _end_family(families: list[Stretch], x: float) -> float:
    """Return where the next family may begin."""
    return max(x, families[-1].left + LETTER * max(map(len, wrap_name(families[-1].name)))) if families else x


# --- the strip --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Canvas:
    """One drawing. `here`: keys of the trial and the patch under the cursor. `band`: keys of the first and last patch
    of a range."""

    timeline: Timeline
    layout: StripLayout
    links: StripLinks
    form: StripForm
    here: frozenset[str]
    band: tuple[str, str] | None
    row: int = field(init=False)  # y of the squares' upper edge
    first_lane: int = field(init=False)
    bottom: int = field(init=False)

    def __post_init__(self) -> None:
        is_minor, branches = self.form is StripForm.MINOR, BRANCHES * bool(self.timeline.branches)
        self.row = 4 if is_minor else 42
        self.first_lane = self.row + SIDE + 47 + branches
        self.bottom = self.row + SIDE + (4 if is_minor else 26 + branches)
        if self.form is StripForm.FULL and self.timeline.lanes:
            self.bottom = self.first_lane + LANE * (len(self.timeline.lanes) - 1) + 12

    def x_of(self, patch: TimelinePatch) -> float:
        return self.layout.patches[patch.step.entry.pk]


def draw_strip(
    timeline: Timeline,
    links: StripLinks,
    form: StripForm = StripForm.PLAIN,
    *,
    here: frozenset[str] = frozenset(),
    band: tuple[str, str] | None = None,
    rooms: Mapping[Place, int] | None = None,
) -> SafeString:
    canvas = Canvas(timeline, StripLayout(timeline, rooms), links, form, here, band)
    width, height = f"{canvas.layout.width:g}", canvas.bottom + 2
    label = escape(f"{visible(timeline.episode.title)}: trials and patches in the order they happened")
    return SafeString(
        f'<svg class="evo-svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group"'
        f' aria-label="{label}">{"".join(_draw_parts(canvas))}</svg>'
    )


def _draw_parts(canvas: Canvas) -> Iterator[str]:
    timeline, row, bottom = canvas.timeline, canvas.row, canvas.bottom
    places = [canvas.x_of(patch) for patch in timeline.patches if canvas.band and patch.key in canvas.band]
    if places:
        left, right = min(places) - SLOT / 2, max(places) + SLOT / 2
        yield (
            f'<rect class="evo-band" x="{left:g}" y="{row - 3}" width="{right - left:g}" height="{bottom - row + 1}"'
            ' rx="5"/>'
        )
    freeze, x = timeline.freeze, canvas.layout.freeze
    if freeze and x is not None:
        yield f'<path class="evo-freeze" d="M{x:g} {row - 2}V{bottom}"/>'
        if canvas.form is not StripForm.MINOR:
            key = escape(freeze.state.key)
            yield f'<text class="evo-lock" x="{x:g}" y="{row + 12}" text-anchor="middle">{key}</text>'
            yield f'<text class="evo-frozen" x="{x:g}" y="35" text-anchor="middle">frozen</text>'
    if canvas.form is not StripForm.MINOR:
        yield from _draw_heads(canvas)
        yield from _draw_branches(canvas)
    if canvas.form is StripForm.FULL:
        heights = {lane.name: canvas.first_lane + LANE * place for place, lane in enumerate(timeline.lanes)}
        for lane in timeline.lanes:
            yield _draw_lane(canvas, lane, heights)
    for event in timeline.events:
        if isinstance(event, TimelineTrial):
            yield _draw_trial(canvas, event)
        elif isinstance(event, TimelinePatch):
            yield _draw_patch(canvas, event)


def _draw_heads(canvas: Canvas) -> Iterator[str]:
    """Draw the result of each phase in as many words as there is room for, and the families in full,
    in two lines where one is too short."""
    phases, families = canvas.layout.phases, canvas.layout.families
    for place, phase in enumerate(phases):
        until = phases[place + 1].left - 8 if place + 1 < len(phases) else max(phase.right, phase.left + LAST_HEAD)
        name, meaning = PHASE_WORDS.get(Phase(phase.name), (phase.name, ""))
        if phase.name == Phase.ACQUISITION and not canvas.timeline.patches:
            meaning = "no library grows"
        if phase.name == Phase.EVALUATION and canvas.timeline.changes_in_evaluation:
            meaning = "the library still changes"
        elif phase.name == Phase.EVALUATION and not (canvas.timeline.patches or canvas.timeline.freeze):
            meaning = ""
        passed, scored = canvas.timeline.count_passed(phase.name)
        counted = f"{passed} of {scored} passed" if scored else "no verdict yet"
        forms = (f"{counted}, {meaning}" if meaning else "", counted, f"{passed}/{scored}" if scored else "")
        room = until - phase.left - 7.2 * len(name)
        words = next((form for form in forms if form and 5.9 * (len(form) + 1) <= room), "")
        yield (
            f'<text class="evo-phase" x="{phase.left:g}" y="11">{name} <tspan class="evo-soft">{words}</tspan></text>'
        )
    for place, family in enumerate(families):
        until = families[place + 1].left if place + 1 < len(families) else canvas.layout.width
        name = one_line(family.name, MAX_NAME)
        fits = LETTER * (len(name) + 1) <= until - family.left
        lines = [name] if fits else [line for line in wrap_name(name) if line]
        for y, line in zip([30] if len(lines) == 1 else [24, 35], lines, strict=True):
            yield f'<text class="evo-family" x="{family.left:g}" y="{y}">{escape(line)}</text>'


def _draw_branches(canvas: Canvas) -> Iterator[str]:
    """Draw a line to each patch that began with an earlier library, from the patch that made it."""
    y = canvas.row + SIDE + 24  # below the numbers of patches
    for origin, patch in canvas.timeline.branches:
        left, right = canvas.x_of(origin) if origin else 2.0, canvas.x_of(patch)
        here = " is-here" if patch.key in canvas.here else ""
        bend = f"M{left:g} {y}C{left:g} {y + 16} {right:g} {y + 16} {right:g} {y}"
        title = _title(iter([f"{patch.word} candidate, began with {patch.step.before.key}"]))
        yield f'<path class="evo-branch{here}" d="{bend}">{title}</path>'


# --- trials and patches -----------------------------------------------------------------------------------------------


def _draw_trial(canvas: Canvas, trial: TimelineTrial) -> str:
    square, x = trial.square, canvas.layout.trials[trial.key]
    here = trial.key in canvas.here
    return (
        f'<a id="evo-{trial.key}" class="evo-trial {escape(square.status)}{" is-here" if here else ""}"'
        f' href="{escape(canvas.links.of_trial(trial))}"{" data-swap" * canvas.links.swaps}{_current(here)}>'
        f"{_title(_describe_trial(trial))}"
        f'<rect x="{x:g}" y="{canvas.row}" width="{SIDE}" height="{SIDE}" rx="4"/>'
        f'<text x="{x + SIDE / 2:g}" y="{canvas.row + 12.5:g}" text-anchor="middle">{GLYPHS.get(square.status, "?")}'
        "</text></a>"
    )


def _describe_trial(trial: TimelineTrial) -> Iterator[str]:
    square = trial.square
    yield f"Trial {trial.number}, {status_word(square.status)}"
    yield one_line(square.title, MAX_SUMMARY)
    place = PHASE_WORDS.get(Phase(square.phase), (square.phase, ""))[0].lower()
    yield ", ".join(word for word in (one_line(square.family or "", MAX_NAME), name_role(square.role), place) if word)
    if trial.read:
        yield f"Read {', '.join(trial.read)}"[:MAX_SUMMARY]
    elif square.skills_mounted and square.skills_read == 0:
        yield "Had a skill, read none"


def _draw_patch(canvas: Canvas, patch: TimelinePatch) -> str:
    x, row = canvas.x_of(patch), canvas.row
    here = bool(patch.key) and patch.key in canvas.here
    height = SIDE + (7 if canvas.form is StripForm.MINOR else 24)
    ring = ""
    if here and not canvas.band:
        place = f'x="{x - SLOT / 2:g}" y="{row - 3}" width="{SLOT}" height="{height + 4}"'
        ring = f'<rect class="evo-ring" {place} rx="5"/>'
    area = (
        f'<rect class="evo-area" x="{x - SLOT / 2:g}" y="{row}" width="{SLOT}" height="{height}"/>{ring}'
        f"{_draw_mark(canvas, patch, x)}{_draw_lines(canvas, patch, x)}"
    )
    title = _title(_describe_patch(patch, canvas.timeline.hidden))
    if not patch.key:
        return f'<g class="evo-tick">{title}{area}</g>'
    # Keys walk the stops of one strip: those of a minor one only follow a click.
    stop = "data-swap" if canvas.form is StripForm.MINOR else f'data-stop="{patch.key}"'
    step = patch.step
    return (
        f'<a id="evo-{step.entry.pk}" class="evo-tick{" is-here" if here else ""}" {stop}'
        f' data-before="{escape(step.before.key)}" data-after="{escape(step.after.key)}"'
        f' href="{escape(canvas.links.of_patch(patch))}"{_current(here)}>{title}{area}</a>'
    )


def _draw_mark(canvas: Canvas, patch: TimelinePatch, x: float) -> str:
    """Draw a bar as long as the patch, green above red; = where nothing changed, × where a patch was lost."""
    middle = canvas.row + SIDE / 2
    added, removed = patch.lines
    if patch.tone == "refused":
        return f'<path class="evo-x" d="M{x - 3.5:g} {middle - 3.5:g}l7 7m0-7l-7 7"/>'
    if not patch.is_change:
        return f'<path class="evo-none" d="M{x - 4:g} {middle - 2:g}h8m-8 4h8"/>'
    if not added + removed:  # a skill that came in without an author
        return f'<circle class="evo-node" cx="{x:g}" cy="{middle:g}" r="3.6"/>'
    height = min(float(SIDE), 5 + (added + removed) / 2.5)
    plus = height * added / (added + removed)
    bars = [("evo-plus", middle - height / 2, plus), ("evo-minus", middle - height / 2 + plus, height - plus)]
    return "".join(
        f'<rect class="{kind}" x="{x - 2.5:g}" y="{y:.1f}" width="5" height="{max(2.0, long):.1f}"/>'
        for kind, y, long in bars
        if long
    )


def _draw_lines(canvas: Canvas, patch: TimelinePatch, x: float) -> str:
    added, removed = patch.lines
    rows = [(" plus", f"+{added}")] * bool(added) + [(" minus", f"−{removed}")] * bool(removed)
    # A lost patch has its ×; its word would run into its neighbours'.
    if not patch.is_change and patch.tone != "refused":
        rows = [("", "0")]
    if canvas.form is StripForm.MINOR:
        rows = []
    return "".join(
        f'<text class="evo-num{kind}" x="{x:g}" y="{canvas.row + SIDE + 11 + 10 * place}" text-anchor="middle">{text}</text>'  # noqa: E501
        for place, (kind, text) in enumerate(rows)
    )


def _describe_patch(patch: TimelinePatch, hidden: str) -> Iterator[str]:
    decision, refusal = patch.decision, patch.step.entry.refusal
    yield f"Decision {decision.number}: {patch.word.lower()}" if decision else patch.word
    if patch.is_change:
        added, removed = patch.lines
        lines = [f"+{added}"] * bool(added) + [f"−{removed}"] * bool(removed)
        yield " ".join([f"{patch.step.before.key} → {patch.step.after.key}", *lines])
    elif patch.step.is_branch:
        yield f"Began with {patch.step.before.key}"
    if patch.skills:
        yield ", ".join(patch.skills)[:MAX_SUMMARY]
    if decision and (trial := decision.after_trial):
        yield f"After a {trial.status} trial: {one_line(trial.task.title, MAX_NAME)}"
    if hidden:
        yield f"Its words are {hidden}"
    elif decision and decision.summary:
        yield f"“{one_line(decision.summary, MAX_SUMMARY)}”"
    elif refusal:
        yield one_line(refusal.reason, MAX_SUMMARY)


def _title(lines: Iterator[str]) -> str:
    return f"<title>{escape(visible(chr(10).join(lines)))}</title>"


def _current(is_here: bool) -> str:
    return ' aria-current="true"' if is_here else ""


# --- lanes ------------------------------------------------------------------------------------------------------------


def _draw_lane(canvas: Canvas, lane: SkillLane, heights: Mapping[str, int]) -> str:
    """Draw a skill as a bar from patch to patch, as thick as it is long, with the trials that read it."""
    y, layout = heights[lane.name], canvas.layout
    patches = {patch.key: canvas.x_of(patch) for patch in canvas.timeline.patches if patch.key}
    points = [(patches[key], lines) for key, lines in lane.points]
    if lane.start:
        points.insert(0, (2.0, lane.start))
    sealed = layout.freeze if layout.freeze is not None and not lane.end else None
    end = patches[lane.end] if lane.end else sealed if sealed is not None else layout.width - 4
    parts = []
    for (x, lines), until in zip(points, [*(x for x, _ in points[1:]), end], strict=True):
        if until > x:
            parts.append(_draw_bar("evo-lane", x, until, y, lines))
    if lane.into in heights:
        target = heights[lane.into]
        parts.append(
            f'<path class="evo-merge" d="M{end:g} {y}C{end + 12:g} {y} {end + 2:g} {target} {end + 14:g} {target}"/>'
        )
    if sealed is not None:
        parts.append(_draw_bar("evo-sealed", sealed, layout.width - 4, y, lane.lines))
    parts += [f'<circle class="evo-node" cx="{x:g}" cy="{y}" r="3.2"/>' for x, _ in points]
    kinds = {True: ("evo-hit", 3.6), False: ("evo-miss", 3.3), None: ("evo-unscored", 3.3)}
    for trial in canvas.timeline.trials:
        if lane.name in trial.read:
            kind, radius = kinds[trial.square.success]
            middle = layout.trials[trial.key] + SIDE / 2
            parts.append(f'<circle class="{kind}" cx="{middle:g}" cy="{y}" r="{radius}"/>')
    name = escape(one_line(lane.name, MAX_NAME))
    parts.append(f'<text class="evo-skill" x="{points[0][0] - 3:g}" y="{y - 9}">{name}</text>')
    wrote = any(lane.name in patch.skills for patch in canvas.timeline.patches if patch.key in canvas.here)
    current = ' class="is-current"' if wrote else ""
    title = _title(_describe_lane(canvas.timeline, lane))
    return f'<a{current} href="{escape(canvas.links.of_skill(lane))}">{title}{"".join(parts)}</a>'


def _draw_bar(kind: str, left: float, right: float, y: int, lines: int) -> str:
    thick = min(3 + lines / 6, 14.0)
    return f'<rect class="{kind}" x="{left:g}" y="{y - thick / 2:.1f}" width="{right - left:g}" height="{thick:.1f}"/>'


def _describe_lane(timeline: Timeline, lane: SkillLane) -> Iterator[str]:
    yield one_line(lane.name, MAX_NAME)
    if lane.end:
        state = next(patch.step.after.key for patch in timeline.patches if patch.key == lane.end)
        yield f"Gone at {state}" + (f", which wrote {one_line(lane.into, MAX_NAME)}" if lane.into else "")
    yield f"{lane.lines} lines, written {plural(len(lane.points), 'time')}"
    readers = [trial.square.success for trial in timeline.trials if lane.name in trial.read]
    scored = len(readers) - readers.count(None)
    if readers:
        yield f"Read by {plural(len(readers), 'trial')}: {readers.count(True)} of {scored} passed"

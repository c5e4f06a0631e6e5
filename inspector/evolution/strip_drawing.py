"""Draws a timeline as SVG: pure, links with a title each, no script needed. Words of strangers are escaped here.

The lines of a title are what the card shows on hover and on focus (static/js/strip.js); without a script the browser does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.record.visible import one_line, visible
from benchapp.stats.metrics.metric_names import name_role
from inspector.evolution.strip_layout import (
    LAST_HEAD,
    LETTER,
    SIDE,
    SLOT,
    Place,
    Stretch,
    StripLayout,
    lay_out,
    wrap_name,
)
from inspector.evolution.timeline import SkillLane, Timeline, TimelinePatch, TimelineTrial
from runner.base.types import Phase

LANE = 24  # pixels from lane to lane
MAX_SUMMARY, MAX_NAME = 160, 80  # characters
PHASE_WORDS = {
    Phase.ACQUISITION: ("Acquisition", "the library grows"),
    Phase.DEPLOYMENT: ("Deployment", "new tasks"),
    Phase.REPLAY: ("Replay", "tasks of acquisition again"),
    Phase.EVALUATION: ("Evaluation", "the library frozen"),
}
GLYPHS = {
    **{"passed": "✓", "failed": "✗", "unscored": "!", "skipped": "!"},
    **{"blocked": "⊘", "running": "…", "waiting": "·"},
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


@dataclass(frozen=True, slots=True)
class Canvas:
    """One drawing: what is drawn where. `here`: keys of the trial and the patch under the cursor; `band`: keys of the
    first and last patch of a range."""

    timeline: Timeline
    layout: StripLayout
    links: StripLinks
    form: StripForm
    here: frozenset[str]
    band: tuple[str, str] | None

    @property
    def row(self) -> int:
        """y of the squares' upper edge."""
        return 4 if self.form is StripForm.MINOR else 42

    @property
    def middle(self) -> float:
        return self.row + SIDE / 2

    @property
    def first_lane(self) -> int:
        return self.row + SIDE + 47

    @property
    def bottom(self) -> int:
        if self.form is StripForm.FULL and self.timeline.lanes:
            return self.first_lane + LANE * (len(self.timeline.lanes) - 1) + 12
        return self.row + SIDE + (4 if self.form is StripForm.MINOR else 26)


def draw_strip(
    timeline: Timeline,
    links: StripLinks,
    form: StripForm = StripForm.PLAIN,
    *,
    here: frozenset[str] = frozenset(),
    band: tuple[str, str] | None = None,
    rooms: Mapping[Place, int] | None = None,
) -> SafeString:
    canvas = Canvas(timeline, lay_out(timeline, rooms), links, form, here, band)
    width, height = f"{canvas.layout.width:g}", canvas.bottom + 2
    label = escape(f"{visible(timeline.episode.title)}: trials and patches in the order they happened")
    return SafeString(
        f'<svg class="evo-svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group"'
        f' aria-label="{label}">{"".join(_draw_parts(canvas))}</svg>'
    )


def _draw_parts(canvas: Canvas) -> Iterator[str]:
    yield from _draw_band(canvas)
    yield from _draw_freeze(canvas)
    if canvas.form is not StripForm.MINOR:
        yield from _draw_heads(canvas)
    if canvas.form is StripForm.FULL:
        yield from _draw_lanes(canvas)
    for event in canvas.timeline.events:
        if isinstance(event, TimelineTrial):
            yield _draw_trial(canvas, event)
        elif isinstance(event, TimelinePatch):
            yield _draw_patch(canvas, event)


def _draw_band(canvas: Canvas) -> Iterator[str]:
    if canvas.band is None:
        return
    places = [canvas.layout.of_patch(patch) for patch in canvas.timeline.patches if patch.key in canvas.band]
    if places:
        left, right = min(places) - SLOT / 2, max(places) + SLOT / 2
        height = canvas.bottom - canvas.row + 1
        yield (
            f'<rect class="evo-band" x="{left:g}" y="{canvas.row - 3}" width="{right - left:g}" height="{height}"'
            ' rx="5"/>'
        )


def _draw_freeze(canvas: Canvas) -> Iterator[str]:
    freeze, x = canvas.timeline.freeze, canvas.layout.freeze
    if freeze is None or x is None:
        return
    yield f'<path class="evo-freeze" d="M{x:g} {canvas.row - 2}V{canvas.bottom}"/>'
    if canvas.form is not StripForm.MINOR:
        key = escape(freeze.state.key)
        yield f'<text class="evo-lock" x="{x:g}" y="{canvas.row + 12}" text-anchor="middle">{key}</text>'
        yield f'<text class="evo-frozen" x="{x:g}" y="35" text-anchor="middle">frozen</text>'


def _draw_heads(canvas: Canvas) -> Iterator[str]:
    phases = canvas.layout.phases
    for place, stretch in enumerate(phases):
        until = phases[place + 1].left - 8 if place + 1 < len(phases) else max(stretch.right, stretch.left + LAST_HEAD)
        name, counted = _word_phase(canvas, stretch.name, until - stretch.left)
        yield (
            f'<text class="evo-phase" x="{stretch.left:g}" y="11">{name} '
            f'<tspan class="evo-soft">{counted}</tspan></text>'
        )
    families = canvas.layout.families
    for place, stretch in enumerate(families):
        until = families[place + 1].left if place + 1 < len(families) else canvas.layout.width
        yield from _draw_family(stretch, until - stretch.left)


def _word_phase(canvas: Canvas, phase: str, room: float) -> tuple[str, str]:
    """(name, what came of it) in as many words as there is room for, in pixels."""
    name, said = PHASE_WORDS.get(Phase(phase), (phase, ""))
    if phase == Phase.ACQUISITION and not canvas.timeline.patches:
        said = "no library grows"
    passed, scored = canvas.timeline.count_passed(phase)
    counted = f"{passed} of {scored} passed" if scored else "no verdict yet"
    left = room - 7.2 * len(name)
    forms = (f"{counted}, {said}", counted, f"{passed}/{scored}" if scored else "")
    return name, next((form for form in forms if 5.9 * (len(form) + 1) <= left), "")


def _draw_family(stretch: Stretch, room: float) -> Iterator[str]:
    """Its name in full, in two lines where one has no room."""
    name = one_line(stretch.name, MAX_NAME)
    lines = (name,) if LETTER * (len(name) + 1) <= room else tuple(filter(None, wrap_name(name)))
    for y, line in zip((30,) if len(lines) == 1 else (24, 35), lines, strict=True):
        yield f'<text class="evo-family" x="{stretch.left:g}" y="{y}">{escape(line)}</text>'


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
    status = "no verdict" if square.status == "unscored" else square.status
    yield f"Trial {trial.number}, {status}"
    yield one_line(square.title, MAX_SUMMARY)
    place = PHASE_WORDS.get(Phase(square.phase), (square.phase, ""))[0].lower()
    yield ", ".join(word for word in (one_line(square.family or "", MAX_NAME), name_role(square.role), place) if word)
    if trial.read:
        yield f"Read {', '.join(trial.read)}"[:MAX_SUMMARY]
    elif square.skills_mounted and square.skills_read == 0:
        yield "Had a skill, read none"


def _draw_patch(canvas: Canvas, patch: TimelinePatch) -> str:
    x, here = canvas.layout.of_patch(patch), bool(patch.key) and patch.key in canvas.here
    number = patch.step.entry.pk
    height = SIDE + (7 if canvas.form is StripForm.MINOR else 24)
    ring = ""
    if here and not canvas.band:
        ring = (
            f'<rect class="evo-ring" x="{x - SLOT / 2:g}" y="{canvas.row - 3}" width="{SLOT}" height="{height + 4}"'
            ' rx="5"/>'
        )
    area = (
        f'<rect class="evo-area" x="{x - SLOT / 2:g}" y="{canvas.row}" width="{SLOT}" height="{height}"/>{ring}'
        f"{_draw_mark(canvas, patch, x)}{_draw_lines(canvas, patch, x)}"
    )
    title = _title(_describe_patch(patch, canvas.timeline.hidden))
    if not patch.key:
        return f'<g class="evo-tick">{title}{area}</g>'
    # Keys walk the stops of one strip: those of a minor one only follow a click.
    stop = "data-swap" if canvas.form is StripForm.MINOR else f'data-stop="{patch.key}"'
    step = patch.step
    return (
        f'<a id="evo-{number}" class="evo-tick{" is-here" if here else ""}" {stop}'
        f' data-before="{escape(step.before.key)}" data-after="{escape(step.after.key)}"'
        f' href="{escape(canvas.links.of_patch(patch))}"{_current(here)}>{title}{area}</a>'
    )


def _draw_mark(canvas: Canvas, patch: TimelinePatch, x: float) -> str:
    """A bar as long as the patch, green above red; = where nothing changed, × where a patch was lost."""
    middle = canvas.middle
    added, removed = _count_lines(patch)
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
    if canvas.form is StripForm.MINOR:
        return ""
    added, removed = _count_lines(patch)
    below = canvas.row + SIDE + 11
    if not added and not removed:
        # A lost patch has its ×; its word would run into its neighbours'.
        word = "0" if not patch.is_change and patch.tone != "refused" else ""
        return f'<text class="evo-num" x="{x:g}" y="{below}" text-anchor="middle">{word}</text>' if word else ""
    rows = [("plus", f"+{added}")] * bool(added) + [("minus", f"−{removed}")] * bool(removed)
    return "".join(
        f'<text class="evo-num {kind}" x="{x:g}" y="{below + 10 * place}" text-anchor="middle">{text}</text>'
        for place, (kind, text) in enumerate(rows)
    )


def _count_lines(patch: TimelinePatch) -> tuple[int, int]:
    """(added, removed) of an applied decision."""
    decision = patch.step.entry.decision
    return (decision.lines_added, decision.lines_removed) if decision and patch.is_change else (0, 0)


def _describe_patch(patch: TimelinePatch, hidden: str) -> Iterator[str]:
    entry, decision = patch.step.entry, patch.step.entry.decision
    number = f"Decision {decision.number}: " if decision else ""
    yield f"{number}{patch.word.lower() if number else patch.word}"
    added, removed = _count_lines(patch)
    change = f"{patch.step.before.key} → {patch.step.after.key}" if patch.is_change else ""
    lines = " ".join([f"+{added}"] * bool(added) + [f"−{removed}"] * bool(removed))
    if change:
        yield f"{change} {lines}".strip()
    if patch.skills:
        yield ", ".join(patch.skills)[:MAX_SUMMARY]
    if decision and (trial := decision.after_trial):
        yield f"After a {trial.status} trial: {one_line(trial.task.title, MAX_NAME)}"
    if hidden:
        yield f"Its words are {hidden}"
    elif decision and decision.summary:
        yield f"“{one_line(decision.summary, MAX_SUMMARY)}”"
    elif entry.refusal:
        yield one_line(entry.refusal.reason, MAX_SUMMARY)


def _title(lines: Iterator[str]) -> str:
    return f"<title>{escape(visible(chr(10).join(lines)))}</title>"


def _current(is_here: bool) -> str:
    return ' aria-current="true"' if is_here else ""


# --- lanes ------------------------------------------------------------------------------------------------------------


def _draw_lanes(canvas: Canvas) -> Iterator[str]:
    heights = {lane.name: canvas.first_lane + LANE * place for place, lane in enumerate(canvas.timeline.lanes)}
    patches = {patch.key: canvas.layout.of_patch(patch) for patch in canvas.timeline.patches if patch.key}
    wrote = {skill for patch in canvas.timeline.patches if patch.key in canvas.here for skill in patch.skills}
    for lane in canvas.timeline.lanes:
        yield _draw_lane(canvas, lane, heights, patches, is_here=lane.name in wrote)


def _draw_lane(
    canvas: Canvas, lane: SkillLane, heights: dict[str, int], patches: dict[str, float], *, is_here: bool
) -> str:
    y, layout = heights[lane.name], canvas.layout
    points = [(patches[key], lines) for key, lines in lane.points]
    if lane.start:
        points.insert(0, (2.0, lane.start))
    sealed = layout.freeze if layout.freeze is not None and not lane.end else None
    end = patches[lane.end] if lane.end else sealed if sealed is not None else layout.width - 4
    parts = list(_draw_bars(points, end, y))
    if lane.into in heights:
        target = heights[lane.into]
        parts.append(
            f'<path class="evo-merge" d="M{end:g} {y}C{end + 12:g} {y} {end + 2:g} {target} {end + 14:g} {target}"/>'
        )
    if sealed is not None:
        thick = _thickness(lane.lines)
        parts.append(
            f'<rect class="evo-sealed" x="{sealed:g}" y="{y - thick / 2:.1f}" width="{layout.width - sealed - 4:g}"'
            f' height="{thick:.1f}"/>'
        )
    parts += [f'<circle class="evo-node" cx="{x:g}" cy="{y}" r="3.2"/>' for x, _ in points]
    parts += list(_draw_readers(canvas, lane, y))
    name = escape(one_line(lane.name, MAX_NAME))
    parts.append(f'<text class="evo-skill" x="{points[0][0] - 3:g}" y="{y - 9}">{name}</text>')
    kind = ' class="is-current"' if is_here else ""
    return f'<a{kind} href="{escape(canvas.links.of_skill(lane))}">{_title(_describe_lane(canvas, lane))}{"".join(parts)}</a>'


def _draw_bars(points: list[tuple[float, int]], end: float, y: float) -> Iterator[str]:
    """From each patch to the next, as thick as the skill is long."""
    for place, (x, lines) in enumerate(points):
        until = points[place + 1][0] if place + 1 < len(points) else end
        thick = _thickness(lines)
        if until > x:
            yield (
                f'<rect class="evo-lane" x="{x:g}" y="{y - thick / 2:.1f}" width="{until - x:g}" height="{thick:.1f}"/>'
            )


def _thickness(lines: int) -> float:
    return min(3 + lines / 6, 14.0)


def _draw_readers(canvas: Canvas, lane: SkillLane, y: float) -> Iterator[str]:
    kinds = {True: ("evo-hit", 3.6), False: ("evo-miss", 3.3), None: ("evo-unscored", 3.3)}
    for trial in canvas.timeline.trials:
        if lane.name in trial.read:
            kind, radius = kinds[trial.square.success]
            middle = canvas.layout.trials[trial.key] + SIDE / 2
            yield f'<circle class="{kind}" cx="{middle:g}" cy="{y}" r="{radius}"/>'


def _describe_lane(canvas: Canvas, lane: SkillLane) -> Iterator[str]:
    yield one_line(lane.name, MAX_NAME)
    words = {patch.key: patch for patch in canvas.timeline.patches}
    if lane.end:
        state = words[lane.end].step.after.key
        yield f"Gone at {state}" + (f", which wrote {one_line(lane.into, MAX_NAME)}" if lane.into else "")
    yield f"{lane.lines} lines, written {len(lane.points)} time{'' if len(lane.points) == 1 else 's'}"
    readers = [trial.square.success for trial in canvas.timeline.trials if lane.name in trial.read]
    scored = len(readers) - readers.count(None)
    if readers:
        yield f"Read by {len(readers)} trial{'' if len(readers) == 1 else 's'}: {readers.count(True)} of {scored} passed"

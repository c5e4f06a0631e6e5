"""Everything the trial page shows for one address: how the trial ended, its steps, its verdict, what came of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from benchapp.models import Attempt, Blob, Compaction, Decision, SkillUse, Trajectory, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.trajectory_store import StoredStep, read_page
from benchapp.stats.learning.funnel import read_skills_held
from inspector.pages.trials.outline import Outline, read_outline_around
from inspector.pages.trials.verdict import CheckLine, VerdictView, read_verdicts
from inspector.web.subject import choose_row, find_neighbours
from inspector.web.text.drawn_steps import PAGE_STEPS, StepView, draw_steps, fit_one_page, list_uses_by_step
from inspector.web.text.excerpt import EvidenceExcerpt, KeptStep, count_kept_steps, read_excerpts
from inspector.web.text.visible import visible
from runner.base.types import CompactionKind, Phase, TrajectoryKind, UseKind

VIEWS = ("full", "rich", "rough")
MAX_SKILL_STEPS = 2_000
MAX_SIBLINGS = 40
MAX_INSTRUCTION = MAX_OUTPUT = 60_000  # characters on the page; the whole has an address of its own
_PHASES = {phase.value: place for place, phase in enumerate(Phase)}


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Which steps are on the page. `step` is the one the address points at, None where it points at none."""

    first: int
    count: int
    total: int
    step: int | None

    @property
    def last(self) -> int:
        return min(self.first + self.count - 1, self.total)

    def of(self, drawn: Sequence[StepView]) -> StepWindow:
        """The window onto what one answer brings of its steps."""
        return replace(self, first=drawn[0].number, count=len(drawn)) if drawn else self

    @property
    def previous(self) -> int | None:
        return max(1, self.first - PAGE_STEPS) if self.first > 1 else None

    @property
    def next(self) -> int | None:
        return self.last + 1 if self.last < self.total else None


@dataclass(frozen=True, slots=True)
class SkillUsage(Shaped):
    """One skill of the attempt: was it mounted, how was it used, and at which step first."""

    slug: str
    is_mounted: bool
    kinds: tuple[str, ...]
    first_step: int | None
    uses: int

    json_shape = JsonShape("mounted=is_mounted", "used=kinds", "first_step")

    @property
    def word(self) -> str:
        return ", ".join(self.kinds) if self.kinds else "not read"


@dataclass(frozen=True, slots=True)
class LongText:
    """A bounded piece of a longer text; `left_out`: characters."""

    text: str
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Inspection:
    """The page of one trial for one address."""

    trial: Trial
    attempts: tuple[Attempt, ...]
    attempt: Attempt | None
    trajectories: tuple[Trajectory, ...]
    trajectory: Trajectory | None
    view: str
    window: StepWindow
    steps: tuple[StepView, ...]
    stored: tuple[StoredStep, ...]
    outline: Outline | None
    compactions: Mapping[str, Compaction]
    excerpt: EvidenceExcerpt | None
    skills: tuple[SkillUsage, ...]
    held: frozenset[str]  # skills of the library it was given: folders with a SKILL.md
    next_skill: int | None
    verdicts: tuple[VerdictView, ...]
    output: LongText | None
    instruction: LongText | None
    siblings: tuple[Trial, ...]
    previous: Trial | None
    following: Trial | None
    decisions: tuple[Decision, ...]
    shown_in: tuple[Decision, ...]
    retrieved: tuple[Trial, ...]

    @property
    def verdict(self) -> VerdictView | None:
        return self.verdicts[0] if self.verdicts else None

    @property
    def first_failure(self) -> CheckLine | None:
        """What to read first when it failed: the first check that did not pass."""
        groups = self.verdict.groups if self.verdict else ()
        return next((check for group in groups for check in group.open if check.status != "skipped"), None)

    @property
    def marks_kept(self) -> bool:
        """Do the rich compaction's choices deserve a mark on every step? Not where it kept them all."""
        rich = self.compactions.get(CompactionKind.RICH)
        return rich is not None and rich.steps_kept < rich.steps_total

    @property
    def read(self) -> list[SkillUsage]:
        return [skill for skill in self.skills if skill.kinds]


def inspect_trial(trial: Trial, query: Mapping[str, str]) -> Inspection:
    """The page for a query string. Whatever the query says, a page comes out: nonsense falls back.

    `trial` as `Trial.objects.for_detail` gives it. The number of queries is the same for every length.
    """
    attempts = list(trial.attempts.order_by("number"))
    attempt = choose_attempt(attempts, query.get("attempt", ""))
    trajectories = list(attempt.trajectories.filter(is_superseded=False).select_related("parent")) if attempt else []
    trajectory = choose_trajectory(trajectories, query.get("trajectory", ""))
    uses = list(attempt.skill_uses.order_by("step", "id")[:MAX_SKILL_STEPS]) if attempt else []
    window = parse_window(trajectory.steps_total if trajectory else 0, query)
    compactions = {found.kind: found for found in trajectory.compactions.order_by("id")} if trajectory else {}
    view = query.get("view", "")
    view = view if view in VIEWS else "full"
    stored = read_page(trajectory, window.first, window.count) if trajectory and view == "full" else []
    by_step = list_skill_steps(uses, trajectory)
    steps = fit_one_page(draw_steps(stored, skills=by_step, kept=_read_kept(compactions, stored)), window.step)
    window = window.of(steps)
    verdicts = read_verdicts(attempt)
    instruction = trial.task_revision.instruction_id if trial.task_revision else None
    siblings, previous, following = _find_siblings(trial)
    return Inspection(
        trial=trial,
        attempts=tuple(attempts),
        attempt=attempt,
        trajectories=tuple(trajectories),
        trajectory=trajectory,
        view=view,
        window=window,
        stored=tuple(found for found in stored if window.first <= found.step.number <= window.last),
        steps=tuple(steps),
        outline=read_outline_around(trajectory, window.first, window.count, by_step) if trajectory else None,
        compactions=compactions,
        excerpt=read_excerpts([compactions[view]])[0] if view in compactions else None,
        skills=tuple(build_skill_usages(uses)),
        held=_read_held(trial.snapshot_id),
        next_skill=next((step for step in sorted(by_step) if step > window.last), None),
        verdicts=tuple(verdicts),
        # Its end: that is where a verifier says what it concluded.
        output=_read_long(verdicts[0].verdict.output_id if verdicts else None, slice(-MAX_OUTPUT, None)),
        instruction=_read_long(instruction, slice(MAX_INSTRUCTION)),
        siblings=tuple(siblings),
        previous=previous,
        following=following,
        decisions=tuple(trial.decisions.select_related("episode__run", "after").order_by("number")),
        shown_in=tuple(
            Decision.objects.filter(evidence__trial=trial).select_related("episode__run").order_by("number")
        ),
        retrieved=tuple(trial.retrieved.select_related("task").order_by("id")[:MAX_SIBLINGS]),
    )


def _read_held(snapshot: int | None) -> frozenset[str]:
    """Slugs of the library that the trial was given; empty without one."""
    return frozenset(read_skills_held({snapshot}).get(snapshot, ())) if snapshot else frozenset()


def choose_attempt(attempts: Sequence[Attempt], number: str) -> Attempt | None:
    """The one asked for; else the counting one; else the latest."""
    asked = (attempt for attempt in attempts if str(attempt.number) == number)
    counting = (attempt for attempt in attempts if attempt.counts)
    return next(asked, None) or next(counting, None) or (attempts[-1] if attempts else None)


def choose_trajectory(trajectories: Sequence[Trajectory], public_id: str) -> Trajectory | None:
    """The one asked for; else the main one; else the first."""
    return choose_row(trajectories, public_id, lambda one: one.kind == TrajectoryKind.MAIN)


def parse_window(total: int, query: Mapping[str, str]) -> StepWindow:
    """?step=14 or ?step=last opens the page that holds it; ?first=26 begins a page there."""
    step = _parse_place(query.get("step", ""), total)
    first = _parse_place(query.get("first", ""), total)
    if first is None:
        first = ((step or 1) - 1) // PAGE_STEPS * PAGE_STEPS + 1
    elif step is not None and not first <= step < first + PAGE_STEPS:
        first = (step - 1) // PAGE_STEPS * PAGE_STEPS + 1
    return StepWindow(first, PAGE_STEPS, total, step)


def _parse_place(text: str, total: int) -> int | None:
    if not total:
        return None
    if text == "last":
        return total
    return min(max(int(text), 1), total) if text.isdecimal() and len(text) < 12 else None


def list_skill_steps(uses: Sequence[SkillUse], trajectory: Trajectory | None) -> dict[int, list[tuple[str, str]]]:
    """step -> (slug, kind) of the uses in this trajectory, each once."""
    return {step: list(dict.fromkeys(found)) for step, found in list_uses_by_step(uses, trajectory).items()}


def build_skill_usages(uses: Sequence[SkillUse]) -> list[SkillUsage]:
    """Skills that were used first, in the order of their first use; then those only mounted."""
    by_slug: dict[str, list[SkillUse]] = defaultdict(list)
    for use in uses:
        by_slug[use.skill].append(use)
    facts = []
    for slug, found in by_slug.items():
        used = [use for use in found if use.kind != UseKind.MOUNTED]
        steps = [use.step for use in used if use.step is not None]
        kinds = tuple(dict.fromkeys(use.kind for use in used))
        mounted = any(use.kind == UseKind.MOUNTED for use in found)
        facts.append(SkillUsage(visible(slug), mounted, kinds, min(steps, default=None), len(used)))
    return sorted(facts, key=lambda fact: (not fact.kinds, fact.first_step or 0, fact.slug))


def _read_kept(compactions: Mapping[str, Compaction], stored: Sequence[StoredStep]) -> dict[int, KeptStep]:
    """What the rich compaction kept, for the marks in the full view."""
    rich = compactions.get(CompactionKind.RICH)
    if rich is None or not stored:
        return {}
    return count_kept_steps(orjson.loads(Blob.objects.read(rich.spans_id)))


def _read_long(blob: str | None, bounds: slice) -> LongText | None:
    """What lies within the bounds of the text with this digest."""
    if blob is None:
        return None
    text = Blob.objects.read_text(blob)
    shown = text[bounds]
    return LongText(visible(shown), len(text) - len(shown))


def _find_siblings(trial: Trial) -> tuple[list[Trial], Trial | None, Trial | None]:
    """(the family's trials in this episode, the one before, the one after). Without a family: by their order."""
    same = Trial.objects.filter(episode=trial.episode_id).select_related("task")
    if trial.task.family_id is None:
        before, after = same.filter(pk__lt=trial.pk).order_by("-pk"), same.filter(pk__gt=trial.pk).order_by("pk")
        return [], before.first(), after.first()
    found = list(same.filter(task__family=trial.task.family_id).order_by("id")[:500])
    found.sort(key=lambda other: (_PHASES.get(other.phase, 9), other.task.ordinal, other.sample, other.pk))
    if trial not in found:
        return [], None, None
    place = found.index(trial)
    start = max(0, min(place - MAX_SIBLINGS // 2, len(found) - MAX_SIBLINGS))
    return found[start : start + MAX_SIBLINGS], *find_neighbours(found, trial)

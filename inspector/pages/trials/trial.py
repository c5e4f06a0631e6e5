"""Everything the trial page shows for one address: how the trial ended, its steps, its verdict, and what followed from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.models import Attempt, Blob, Compaction, Decision, SkillUse, Trajectory, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.learning.funnel import read_skills_held
from inspector.pages.trials.cut_texts import READERS
from inspector.pages.trials.decided_checks import DecidedVerdict
from inspector.pages.trials.ending import say_ending
from inspector.pages.trials.origins import Origin, read_origins
from inspector.pages.trials.step_cards import StepCard
from inspector.pages.trials.step_map import StepMap
from inspector.pages.trials.step_reading import StepReading, read_compactions, read_trajectory, read_uses
from inspector.pages.trials.step_window import StepWindow
from inspector.pages.trials.verdict import VerdictView, read_verdicts
from inspector.web.subject import choose_row, find_neighbours
from inspector.web.text.excerpt import EvidenceExcerpt, read_excerpts
from inspector.web.text.visible import visible
from runner.base.types import Phase, TrajectoryKind, UseKind

VIEWS = ("full", "rich", "rough")
MAX_SKILL_STEPS = 2_000
MAX_SIBLINGS = 40
MAX_INSTRUCTION = MAX_OUTPUT = 60_000  # characters on the page; the whole has an address of its own
_NUMBERS = {
    "reward": ("reward",),
    "checks": ("checks_total",),
    "tokens": ("input_tokens", "output_tokens", "input_at_least", "output_at_least"),
    "cost": ("cost_usd", "priced_usd", "estimated_usd"),
}
_SPENT = {"tokens", "cost"}  # on a model
_JUDGED = {"reward", "checks"}
_PHASES = {phase.value: place for place, phase in enumerate(Phase)}


@dataclass(frozen=True, slots=True)
class SkillUsage(Shaped):
    """One skill of the attempt: was it mounted, how was it used, and its first step."""

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
class Surroundings:
    """The family's trials in this episode, the one before this trial and the one after it."""

    siblings: tuple[Trial, ...] = ()
    previous: Trial | None = None
    following: Trial | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """The page of one trial for one address."""

    trial: Trial
    ending: str
    attempts: tuple[Attempt, ...]
    attempt: Attempt | None
    trajectories: tuple[Trajectory, ...]
    trajectory: Trajectory | None
    view: str
    reading: StepReading
    map: StepMap | None
    compactions: Mapping[str, Compaction]
    excerpt: EvidenceExcerpt | None
    skills: tuple[SkillUsage, ...]
    held: frozenset[str]  # skills of the library it was given: folders with a SKILL.md
    verdicts: tuple[VerdictView, ...]
    output: LongText | None
    instruction: LongText | None
    decisions: tuple[Decision, ...]
    shown_in: tuple[Decision, ...]
    retrieved: tuple[Trial, ...]
    origin: Origin | None

    @property
    def shared_tokens(self) -> list[Trajectory]:
        """Whose tokens the attempt's are, where there are sub-agents."""
        known = [one for one in self.trajectories if (one.input_tokens, one.output_tokens) != (None, None)]
        return known if len(known) > 1 else []

    @property
    def verdict(self) -> VerdictView | None:
        return self.verdicts[0] if self.verdicts else None

    @property
    def window(self) -> StepWindow:
        return self.reading.window

    @property
    def steps(self) -> tuple[StepCard, ...]:
        return self.reading.cards

    @property
    def decided(self) -> DecidedVerdict:
        return self.reading.decided

    @property
    def cut_switch(self) -> list[tuple[str, str, int]]:
        """Return (kind, reader, steps with a part left out) of compactions that left anything out."""
        counted = ((kind, READERS[kind], self._count_cut(kind)) for kind in self.reading.cuts.kinds if kind in READERS)
        return [found for found in counted if found[2]]

    def _count_cut(self, kind: str) -> int:
        kept = self.reading.cuts.kinds[kind]
        return self.compactions[kind].steps_total - len(kept.steps - kept.partial)

    @property
    def unknown(self) -> list[str]:
        """Numbers that nobody recorded, in words. A part of a sum that is known counts as known; without a model there are
        no tokens to record, and a session has no verdict."""
        run = self.trial.episode.run
        free = (_SPENT if run.works_without_model else set()) | (_JUDGED if run.is_of_sessions else set())
        rows = [self.trial, *([self.attempt] if self.attempt and self.attempt.counts else [])]
        return [
            word
            for word, names in _NUMBERS.items()
            if word not in free and all(getattr(row, name, None) is None for row in rows for name in names)
        ]

    @property
    def read(self) -> list[SkillUsage]:
        return [skill for skill in self.skills if skill.kinds]


def inspect_trial(trial: Trial, query: Mapping[str, str]) -> Inspection:
    """Return the page for any query string; nonsense falls back to the defaults.

    `trial` as `Trial.objects.for_detail` gives it. The number of queries is the same for every length.
    """
    attempts = list(trial.attempts.order_by("number"))
    attempt = choose_attempt(attempts, query.get("attempt", ""))
    trajectories = list_trajectories(attempt)
    trajectory = choose_trajectory(trajectories, query.get("trajectory", ""))
    uses = read_uses(attempt, MAX_SKILL_STEPS)
    compactions = read_compactions(trajectory)
    verdicts = read_verdicts(attempt)
    view = query.get("view", "")
    view = view if view in VIEWS else "full"
    reading = read_trajectory(
        trajectory,
        uses=uses,
        verdict=verdicts[0] if verdicts else None,
        compactions=compactions,
        query=query,
        with_steps=view == "full",
        others=trajectories,
    )
    decided = reading.decided.verdict
    instruction = trial.task_revision.instruction_id if trial.task_revision else None
    return Inspection(
        trial=trial,
        ending=say_ending(trial, attempt, decided),
        attempts=tuple(attempts),
        attempt=attempt,
        trajectories=tuple(trajectories),
        trajectory=trajectory,
        view=view,
        reading=reading,
        map=reading.build_map(),
        compactions=compactions,
        excerpt=read_excerpts([compactions[view]])[0] if view in compactions else None,
        skills=tuple(build_skill_usages(uses)),
        held=_read_held(trial.snapshot_id),
        verdicts=tuple([decided, *verdicts[1:]] if decided else verdicts),
        # Its end: that is where a verifier says what it concluded.
        output=_read_long(verdicts[0].verdict.output_id if verdicts else None, slice(-MAX_OUTPUT, None)),
        instruction=_read_long(instruction, slice(MAX_INSTRUCTION)),
        decisions=tuple(trial.decisions.select_related("episode__run", "after").order_by("number")),
        shown_in=tuple(
            Decision.objects.filter(evidence__trial=trial).select_related("episode__run").order_by("number")
        ),
        retrieved=tuple(trial.retrieved.select_related("task").order_by("id")[:MAX_SIBLINGS]),
        origin=read_origins([attempt]).get(attempt.pk) if attempt else None,
    )


def _read_held(snapshot: int | None) -> frozenset[str]:
    """Slugs of the library that the trial was given; empty without one."""
    return frozenset(read_skills_held({snapshot}).get(snapshot, ())) if snapshot else frozenset()


def read_more_steps(trial: Trial, query: Mapping[str, str]) -> StepReading:
    """The steps that `?first=`, `?to=` or `?at=` asks for, without the rest of the page."""
    attempt = choose_attempt(list(trial.attempts.order_by("number")), query.get("attempt", ""))
    trajectories = list_trajectories(attempt)
    trajectory = choose_trajectory(trajectories, query.get("trajectory", ""))
    verdicts = read_verdicts(attempt)
    return read_trajectory(
        trajectory,
        uses=read_uses(attempt, MAX_SKILL_STEPS),
        verdict=verdicts[0] if verdicts else None,
        compactions=read_compactions(trajectory),
        query=query,
        others=trajectories,
    )


def list_trajectories(attempt: Attempt | None) -> list[Trajectory]:
    return list(attempt.trajectories.filter(is_superseded=False).select_related("parent")) if attempt else []


def choose_attempt(attempts: Sequence[Attempt], number: str) -> Attempt | None:
    """The one asked for; else the counting one; else the latest."""
    asked = (attempt for attempt in attempts if str(attempt.number) == number)
    counting = (attempt for attempt in attempts if attempt.counts)
    return next(asked, None) or next(counting, None) or (attempts[-1] if attempts else None)


def choose_trajectory(trajectories: Sequence[Trajectory], public_id: str) -> Trajectory | None:
    """The one asked for; else the main one; else the first."""
    return choose_row(trajectories, public_id, lambda one: one.kind == TrajectoryKind.MAIN)


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


def _read_long(blob: str | None, bounds: slice) -> LongText | None:
    """Return the part of the text with this digest that is within the bounds."""
    if blob is None:
        return None
    text = Blob.objects.read_text(blob)
    shown = text[bounds]
    return LongText(visible(shown), len(text) - len(shown))


def find_surroundings(trial: Trial) -> Surroundings:
    """Without a family, neighbours follow the order of recording."""
    same = Trial.objects.filter(episode=trial.episode_id).select_related("task")
    if trial.task.family_id is None:
        before, after = same.filter(pk__lt=trial.pk).order_by("-pk"), same.filter(pk__gt=trial.pk).order_by("pk")
        return Surroundings((), before.first(), after.first())
    found = list(same.filter(task__family=trial.task.family_id).order_by("id")[:500])
    found.sort(key=lambda other: (_PHASES.get(other.phase, 9), other.task.ordinal, other.sample, other.pk))
    if trial not in found:
        return Surroundings()
    place = found.index(trial)
    start = max(0, min(place - MAX_SIBLINGS // 2, len(found) - MAX_SIBLINGS))
    return Surroundings(tuple(found[start : start + MAX_SIBLINGS]), *find_neighbours(found, trial))

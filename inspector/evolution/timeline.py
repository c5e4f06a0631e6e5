"""An episode in the order it happened: its trials, what each answer did to the library, the freeze, and its skills.

Values only; `strip_drawing` places and draws them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchapp.analysis.lineage.library_states import NEVER, LibraryHistory, LibraryState, LibraryStep, read_histories
from benchapp.models import Decision, Entry, Episode, Run, SkillUse, SnapshotFile, Square
from benchapp.review.blinding import ReviewAccess, hidden_until
from inspector.evolution.decision_words import describe_seeding, describe_step
from runner.base.types import Phase, UseKind

PHASES = (Phase.ACQUISITION, Phase.DEPLOYMENT, Phase.REPLAY, Phase.EVALUATION)


@dataclass(frozen=True, slots=True)
class TimelineTrial:
    """One trial."""

    number: int  # its place among the episode's, from 1
    square: Square
    read: tuple[str, ...] = ()  # skills it read in order of name, where they were asked for

    @property
    def key(self) -> str:
        return str(self.square.public_id)


@dataclass(frozen=True, slots=True)
class TimelinePatch:
    """What one entry of the spine did to the library, or failed to do. `key`: "d2" is decision 2, "s1" the first skill
    that came in without an author; a write that was refused has none."""

    key: str
    step: LibraryStep
    word: str
    mark: str
    tone: str
    skills: tuple[str, ...] = ()  # whose files it changed

    @property
    def is_change(self) -> bool:
        return self.step.before is not self.step.after

    @property
    def decision(self) -> Decision | None:
        return self.step.entry.decision

    @property
    def after_trial_id(self) -> int | None:
        return self.decision.after_trial_id if self.decision else None

    @property
    def lines(self) -> tuple[int, int]:
        """(added, removed) by an applied decision."""
        return (self.decision.lines_added, self.decision.lines_removed) if self.decision and self.is_change else (0, 0)


@dataclass(frozen=True, slots=True)
class TimelineFreeze:
    """The seal. `state`: what it holds."""

    state: LibraryState


Event = TimelineTrial | TimelinePatch | TimelineFreeze


class SkillLane:
    """The life of one skill. `points`: (patch, lines after it), in order; `start`: lines at the
    beginning; `lines`: at the end. `end`: the patch that took it away; `into`: the one skill which that patch wrote."""

    def __init__(self, name: str, points: Sequence[tuple[str, int]], start: int, end: str, into: str) -> None:
        self.name, self.points, self.start, self.end, self.into = name, points, start, end, into
        self.lines = points[-1][1] if points else start


@dataclass(frozen=True, slots=True)
class Timeline:
    """`events`: in the order they happened; what was planned and never begun comes last. `hidden`: what is shown in
    place of the words of its decisions and libraries, empty where they are open."""

    episode: Episode
    events: tuple[Event, ...]
    lanes: tuple[SkillLane, ...] = ()
    history: LibraryHistory = field(default_factory=lambda: LibraryHistory(()))
    hidden: str = ""

    @property
    def trials(self) -> list[TimelineTrial]:
        return [event for event in self.events if isinstance(event, TimelineTrial)]

    @property
    def patches(self) -> list[TimelinePatch]:
        return [event for event in self.events if isinstance(event, TimelinePatch)]

    @property
    def branches(self) -> list[tuple[TimelinePatch | None, TimelinePatch]]:
        """Return each patch that began with an earlier library, after the patch that made that one; None:
        the beginning."""
        makers = {patch.step.after.key: patch for patch in self.patches if patch.is_change}
        return [(makers.get(patch.step.before.key), patch) for patch in self.patches if patch.step.is_branch]

    @property
    def decisions_total(self) -> int:
        return sum(patch.step.entry.decision is not None for patch in self.patches)

    @property
    def freeze(self) -> TimelineFreeze | None:
        return next((event for event in self.events if isinstance(event, TimelineFreeze)), None)

    @property
    def changes_in_evaluation(self) -> bool:
        """Does an answer follow a trial of evaluation?
        A gate tries each candidate so, and some protocols learn there."""
        phases = [event.square.phase if isinstance(event, TimelineTrial) else "" for event in self.events]
        first = phases.index(Phase.EVALUATION) if Phase.EVALUATION in phases else len(phases)
        return any(isinstance(event, TimelinePatch) for event in self.events[first:])

    def count_passed(self, phase: str) -> tuple[int, int]:
        """(passed, scored) of the trials of a phase."""
        outcomes = [trial.square.success for trial in self.trials if trial.square.phase == phase]
        return outcomes.count(True), len(outcomes) - outcomes.count(None)

    def list_readers(self, patch: TimelinePatch) -> list[TimelineTrial]:
        """Return the later trials that read a skill which this patch wrote."""
        wrote = set(patch.skills)
        later = self.events[self.events.index(patch) + 1 :]
        return [event for event in later if isinstance(event, TimelineTrial) and wrote.intersection(event.read)]


def read_timelines(
    run: Run,
    episodes: Sequence[Episode],
    squares: Iterable[Square],
    histories: Mapping[int, LibraryHistory] | None = None,
) -> list[Timeline]:
    """Return the timelines without lanes. Two queries for all episodes, one where the histories are known.
    `squares`: of `TrialQuerySet.for_grid`."""
    by_episode: dict[int, list[Square]] = defaultdict(list)
    for square in squares:
        by_episode[square.episode_id].append(square)
    tried = Entry.objects.filter(episode__in=episodes, kind=Entry.Kind.TRIAL).order_by("-sequence")
    places = dict(tried.values_list("attempt__trial", "sequence"))  # of several attempts the first
    histories = histories or read_histories(episodes)
    return [
        build_timeline(
            episode, histories[episode.pk], by_episode[episode.pk], places, seeded=describe_seeding(run, episode)
        )
        for episode in episodes
    ]


def build_timeline(
    episode: Episode, history: LibraryHistory, squares: Sequence[Square], places: Mapping[int, int], *, seeded: str
) -> Timeline:
    """`places`: key of a trial -> its place on the spine."""
    order = {square.pk: number for number, square in enumerate(squares)}

    def rank(square: Square) -> tuple[int, int, int]:
        phase = PHASES.index(Phase(square.phase)) if square.phase in PHASES else len(PHASES)
        return places.get(square.pk, NEVER), phase, order[square.pk]

    trials = [TimelineTrial(number, square) for number, square in enumerate(sorted(squares, key=rank), 1)]
    placed: list[tuple[int, Event]] = [(places.get(trial.square.pk, NEVER), trial) for trial in trials]
    seedings = 0
    for step in history.steps:
        entry = step.entry
        if entry.seal:
            placed.append((entry.sequence, TimelineFreeze(step.after)))
            continue
        seedings += entry.seeding is not None
        key = f"d{entry.decision.number}" if entry.decision else f"s{seedings}" if entry.seeding else ""
        placed.append((entry.sequence, TimelinePatch(key, step, *describe_step(step, seeded))))
    placed.sort(key=lambda pair: pair[0])
    return Timeline(episode, tuple(event for _, event in placed), history=history)


# --- skills -----------------------------------------------------------------------------------------------------------


def hide_words(timeline: Timeline, access: ReviewAccess) -> Timeline:
    """Return it without the words of decisions and libraries where they are closed to this reader."""
    queue = access.closing_library(timeline.episode)
    return replace(timeline, hidden=hidden_until(queue)) if queue else timeline


File = tuple[str, str, int]  # path, digest, lines
Held = Mapping[int, Mapping[str, frozenset[File]]]  # snapshot -> skill -> its files


def follow_skills(timeline: Timeline) -> Timeline:
    """Return it with its lanes, in the order the skills came, and with what each trial read. Two queries.

    Skills are numbered where words are hidden.
    """
    held = _read_held(timeline)
    uses = SkillUse.objects.filter(attempt__counts=True, attempt__trial__episode=timeline.episode)
    read: dict[int, set[str]] = defaultdict(set)
    for trial, skill in uses.exclude(kind=UseKind.MOUNTED).order_by().values_list("attempt__trial_id", "skill"):
        read[trial].add(skill)
    if timeline.hidden:
        held, read = _number_skills(held, read)

    def held_in(state: LibraryState) -> Mapping[str, frozenset[File]]:
        return held.get(state.snapshot.pk, {}) if state.snapshot else {}

    def count_lines(files: Iterable[File]) -> int:
        return sum(lines for _, _, lines in files)

    starts = {skill: count_lines(files) for skill, files in held_in(timeline.history.states[0]).items()}
    points: dict[str, list[tuple[str, int]]] = {skill: [] for skill in starts}
    ends: dict[str, tuple[str, str]] = {}  # a skill that goes and comes back has one lane
    events: list[Event] = []
    for event in timeline.events:
        if isinstance(event, TimelineTrial):
            event = replace(event, read=tuple(sorted(read.get(event.square.pk, ()))))
        elif isinstance(event, TimelinePatch) and event.is_change:
            before, after = held_in(event.step.before), held_in(event.step.after)
            changed = sorted(skill for skill in {*before, *after} if before.get(skill) != after.get(skill))
            wrote = [skill for skill in changed if skill in after]
            for skill in changed:
                if skill in after:
                    points.setdefault(skill, []).append((event.key, count_lines(after[skill])))
                    ends.pop(skill, None)
                else:
                    ends[skill] = (event.key, wrote[0] if len(wrote) == 1 else "")
            event = replace(event, skills=tuple(changed))
        events.append(event)
    lanes = (
        SkillLane(skill, found, starts.get(skill, 0), *ends.get(skill, ("", ""))) for skill, found in points.items()
    )
    return replace(timeline, events=tuple(events), lanes=tuple(lanes))


def _read_held(timeline: Timeline) -> Held:
    snapshots = {state.snapshot.pk for state in timeline.history.states if state.snapshot}
    files: dict[int, dict[str, set[File]]] = defaultdict(lambda: defaultdict(set))
    rows = SnapshotFile.objects.filter(snapshot__in=snapshots).order_by()
    for snapshot, skill, path, digest, lines in rows.values_list("snapshot_id", "skill", "path", "blob_id", "lines"):
        files[snapshot][skill].add((path, digest, lines))
    return {pk: {skill: frozenset(found) for skill, found in skills.items()} for pk, skills in files.items()}


def _number_skills(held: Held, read: Mapping[int, set[str]]) -> tuple[Held, dict[int, set[str]]]:
    """Return both with "skill 1" in place of a name, in the order the skills came."""
    came = [skill for _, skills in sorted(held.items()) for skill in sorted(skills)]
    came += sorted(skill for skills in read.values() for skill in skills)
    numbers = {skill: f"skill {number}" for number, skill in enumerate(dict.fromkeys(came), 1)}
    numbered = {pk: {numbers[skill]: files for skill, files in skills.items()} for pk, skills in held.items()}
    return numbered, {trial: {numbers[skill] for skill in skills} for trial, skills in read.items()}

"""The time machine's rail: the states of an episode's library (`library_states`) and what happened between them, in
words. Below it what explains a state: the evidence shown to an author, and the later trials that had the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from benchapp.analysis.lineage.attribution import (
    Baseline,
    Ended,
    LaterTrials,
    LedgerRow,
    count_later_trials,
    count_ledger_row,
    list_trials_with_lines,
    rank_telling_changes,
    read_no_skill,
    split_by_family,
)
from benchapp.analysis.lineage.library_states import LibraryHistory, LibraryState, find_round, find_state, read_history
from benchapp.analysis.lineage.line_history import WorkedTrial, read_lineage
from benchapp.models import Decision, DecisionEvidence, Entry, Episode, Run, SnapshotFile, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.evolution.decision_words import CURATED, describe_seeding, describe_step
from inspector.pages.library.changes import FileChange
from inspector.reader.compactions import EvidenceExcerpt, read_excerpts
from inspector.reader.verdict import VerdictView, read_verdicts
from inspector.web.subject import choose_row, find_neighbours, once_for


def choose_episode(run: Run, public_id: str = "") -> tuple[Sequence[Episode], Episode | None]:
    """Return all episodes, with `decisions_total`, and the one to show: the one asked for; else the first where an
    author worked and left something; else the first where one worked; else the first with a library; else the
    first."""
    related: QuerySet[Episode] = run.episodes.select_related("library", "family", "environment")
    episodes = once_for(run, "episodes", lambda: list(related.annotate(decisions_total=Count("decisions"))))
    return episodes, choose_row(
        episodes,
        public_id,
        lambda episode: episode.decisions_total and episode.library and episode.library.files_total,
        lambda episode: episode.decisions_total,
        lambda episode: episode.library and episode.library.files_total,
    )


class RailStop:
    """One line of the rail: what happened, and the library before and after it.

    `kind`: of the entry; "start" for the beginning, which has none. `tone`: "", created, revised, refused: the style of
    the mark; the word has the same meaning. `key`: its name on the strip: "d2" is decision 2. `family`: the one that
    the change was made for."""

    def __init__(
        self,
        words: tuple[str, str, str],
        before: LibraryState,
        after: LibraryState,
        entry: Entry | None = None,
        is_branch: bool = False,
    ) -> None:
        self.kind, self.is_branch = entry.kind if entry else "start", is_branch
        self.before, self.after, self.entry = before, after, entry
        self.word, self.mark, self.tone = words
        self.changed = before is not after
        self.decision = decision = entry.decision if entry else None
        self.seeding = seeding = entry.seeding if entry else None
        self.seal, self.refusal = (entry.seal, entry.refusal) if entry else (None, None)
        self.key = f"d{decision.number}" if decision else after.key.lower() if seeding else ""
        self.family = decision.family_id if decision else seeding.family_id if seeding else None


class Rail:
    """The states of a library and the stops between them, in order."""

    def __init__(self, history: LibraryHistory, *, seeded: str = CURATED) -> None:
        """`seeded`: the word for what comes in without an author."""
        start = history.states[0]
        word = "Library at the start" if start.snapshot and start.snapshot.files_total else "Empty library"
        self.states, self.last_state = history.states, history.states[-1].key
        self.stops = [RailStop((word, "○", ""), start, start)]
        for step in history.steps:
            self.stops.append(
                RailStop(describe_step(step, seeded), step.before, step.after, step.entry, step.is_branch)
            )
        self.seal = next((stop for stop in self.stops if stop.kind == "freeze"), None)

    def round(self, name: str) -> LibraryState:
        """Return the state that a person names, by its number too; nonsense falls back to the last."""
        return find_round(self.states, name) or self.states[-1]

    def decision(self, number: str | None) -> RailStop | None:
        return next((stop for stop in self.stops if stop.decision and str(stop.decision.number) == number), None)

    def find_maker(self, state: LibraryState) -> RailStop | None:
        """Return the stop that left this state behind."""
        return next((stop for stop in self.stops if stop.changed and stop.after is state), None)


class Selection:
    """What the page shows: two states, and the stop that led from one to the other where there is one."""

    def __init__(self, before: LibraryState, after: LibraryState, stop: RailStop | None) -> None:
        self.before, self.after, self.stop = before, after, stop
        self.decision, self.is_one_state = stop.decision if stop else None, before is after


def open_rail(run: Run, episode: Episode) -> Rail:
    """Return the rail of an episode, read in one query."""
    history = once_for(run, ("history", episode.pk), lambda: read_history(episode))
    return Rail(history, seeded=describe_seeding(run, episode))


def select(
    rail: Rail, *, decision: str | None, start: str | None, end: str | None, opens: RailStop | None = None
) -> Selection:
    """Return the selection a URL asks for.
    Nonsense falls back to `opens`, else to the last change or the only state."""
    if stop := rail.decision(decision):
        return Selection(stop.before, stop.after, stop)
    before, after = find_state(rail.states, start), find_state(rail.states, end)
    if before or after:
        after = after or rail.states[-1]
        made = rail.find_maker(after)
        before = before or (made.before if made else after)
        return Selection(before, after, made if made and made.before is before else None)
    last = opens or next((stop for stop in reversed(rail.stops) if stop.changed), None)
    if last:
        return Selection(last.before, last.after, last)
    tried = next((stop for stop in reversed(rail.stops) if stop.decision), None)
    return Selection(rail.states[0], rail.states[0], tried)


def find_stops_beside(rail: Rail, selection: Selection) -> tuple[RailStop | None, RailStop | None]:
    """Return the decisions or seedings before and after the selected one; the keys k and j go there."""
    stops = [stop for stop in rail.stops if stop.decision or stop.seeding]
    if selection.stop in stops:
        return find_neighbours(stops, selection.stop)
    return None, next((stop for stop in stops if stop.before is selection.after), None)


# --- why a library is what it is, and who worked with it ------------------------------------------------------------


MAX_USERS = 300  # trials drawn; beyond it they are counted


@dataclass(frozen=True, slots=True)
class ShownTrial:
    """One trial the author was shown; excerpt None where only the fact is recorded."""

    trial: Trial
    excerpt: EvidenceExcerpt | None


@dataclass(frozen=True, slots=True)
class Users(Shaped):
    """Later trials whose library held exactly this text, counted as in the ledger next to it: association,
    not effect."""

    path: str
    later: LaterTrials = LaterTrials()
    same_family: Ended = Ended()  # the same as of the decision that made the state
    other_families: Ended = Ended()

    json_shape = JsonShape("path *later same_family other_families")

    @property
    def total(self) -> int:
        return self.later.total.mounted

    @property
    def shown(self) -> tuple[tuple[WorkedTrial, bool | None], ...]:
        return self.later.trials[:MAX_USERS]


@dataclass(frozen=True, slots=True)
class TellingStop:
    """Where reading starts: the stop, and how later trials of its family ended that read its lines."""

    stop: RailStop
    ended: Ended


class LibraryCourse:
    """The course of an episode's library: its rail, who wrote each line, and the same tasks under no-skill."""

    def __init__(self, run: Run, episode: Episode, history: LibraryHistory | None = None) -> None:
        """`history`: its states, if the page has read them."""
        self.history = history or once_for(run, ("history", episode.pk), lambda: read_history(episode))
        self.rail = Rail(self.history, seeded=describe_seeding(run, episode))
        self.lineage = read_lineage(run, episode, self.rail.states)
        tasks = frozenset(trial.task for trial in self.lineage.trials)
        self.baseline: Baseline = once_for(run, ("no skill", tasks), lambda: read_no_skill(run, tasks))

    def place_of(self, state: LibraryState) -> int:
        return self.rail.states.index(state)

    def list_between(self, selection: Selection) -> list[RailStop]:
        """Return the decisions and seedings after the earlier state, up to the one that made the later."""
        stops = self.rail.stops
        maker, last = self.rail.find_maker(selection.before), self.rail.find_maker(selection.after)
        first, end = stops.index(maker) + 1 if maker else 0, stops.index(last) + 1 if last else 0
        return [stop for stop in stops[first:end] if stop.decision or stop.seeding]

    def find_telling(self) -> TellingStop | None:
        """Return the change after a failure whose later readers did best compared with no-skill."""
        found = next(iter(rank_telling_changes(self.history, self.lineage, self.baseline)), None)
        stop = self.rail.find_maker(self.history.states[found.state]) if found else None
        return TellingStop(stop, found.ended) if found and stop else None

    def ledger_of(self, stop: RailStop | None) -> LedgerRow | None:
        """Return how later trials with this stop's lines ended; None where it wrote nothing or nothing was traced."""
        if stop is None or not stop.changed or self.lineage.too_big:
            return None
        return count_ledger_row(self.lineage, self.rail.states.index(stop.after), stop.family, self.baseline)

    def users_of(self, change: FileChange, stop: RailStop | None) -> Users:
        """Return the trials whose library held the new side of this file, split by the family of `stop`. One query."""
        if change.new is None:
            return Users(change.path)
        skill = change.path.partition("/")[0]
        snapshots = self.lineage.snapshots
        rows = SnapshotFile.objects.filter(
            snapshot__in=set(snapshots) - {None}, path=change.path, blob=change.new.digest
        )
        holding = set(rows.values_list("snapshot_id", flat=True))

        def skills_at(state: int) -> frozenset[str]:
            return frozenset([skill] if snapshots[state] in holding else ())

        trials = list_trials_with_lines(self.lineage, skills_at, born=0)
        split = split_by_family(trials, stop.family if stop else None, self.baseline)
        return Users(change.path, count_later_trials(trials, self.baseline), *split)


def read_evidence(decision: Decision) -> list[ShownTrial]:
    """Return the trials shown to the author, in their order. Two queries."""
    rows = list(
        DecisionEvidence.objects.filter(decision=decision)
        .select_related("trial__task__family", "compaction")
        .order_by("ordinal")
    )
    excerpts = {
        found.compaction.pk: found for found in read_excerpts([row.compaction for row in rows if row.compaction])
    }
    return [ShownTrial(row.trial, excerpts.get(row.compaction_id or 0)) for row in rows]


def read_verdict_seen(decision: Decision) -> VerdictView | None:
    """Return the primary verdict of the trial that the decision followed."""
    trial = decision.after_trial
    return next(iter(read_verdicts(trial.counting_attempt())), None) if trial else None

"""The time machine's rail: the states of an episode's library (`library_states`) and what happened between them, in words."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.analysis.lineage.library_states import (
    LibraryHistory,
    LibraryState,
    LibraryStep,
    find_round,
    find_state,
    read_history,
)
from benchapp.models import Decision, Entry, Episode, Experiment, Refusal, Run, Seal, Seeding
from runner.base.types import AuthorMode, DecisionStatus


@dataclass(frozen=True, slots=True)
class RailStop:
    """One line of the rail: what happened, and the library before and after it."""

    kind: str  # of the entry; "start" for the beginning, which has none
    word: str
    mark: str
    tone: str  # "", created, revised, refused: the style of the mark; the word has the same meaning
    before: LibraryState
    after: LibraryState
    entry: Entry | None = None

    @property
    def decision(self) -> Decision | None:
        return self.entry.decision if self.entry else None

    @property
    def seeding(self) -> Seeding | None:
        return self.entry.seeding if self.entry else None

    @property
    def seal(self) -> Seal | None:
        return self.entry.seal if self.entry else None

    @property
    def refusal(self) -> Refusal | None:
        return self.entry.refusal if self.entry else None

    @property
    def changed(self) -> bool:
        return self.before is not self.after

    @property
    def family(self) -> int | None:
        """The family that the change was made for."""
        return self.decision.family_id if self.decision else self.seeding.family_id if self.seeding else None


@dataclass(frozen=True, slots=True)
class Rail:
    states: tuple[LibraryState, ...]
    stops: tuple[RailStop, ...]

    def state(self, name: str | None) -> LibraryState | None:
        return find_state(self.states, name)

    def round(self, name: str) -> LibraryState:
        """The state that a person names, by its number too; nonsense falls back to the last."""
        return find_round(self.states, name) or self.states[-1]

    def decision(self, number: str | None) -> RailStop | None:
        return next((stop for stop in self.stops if stop.decision and str(stop.decision.number) == number), None)

    def find_maker(self, state: LibraryState) -> RailStop | None:
        """The stop that left this state behind."""
        return next((stop for stop in self.stops if stop.changed and stop.after is state), None)

    @property
    def seal(self) -> RailStop | None:
        return next((stop for stop in self.stops if stop.kind == "freeze"), None)


@dataclass(frozen=True, slots=True)
class Selection:
    """What the page shows: two states, and the stop that led from one to the other where there is one."""

    before: LibraryState
    after: LibraryState
    stop: RailStop | None

    @property
    def decision(self) -> Decision | None:
        return self.stop.decision if self.stop else None

    @property
    def is_one_state(self) -> bool:
        return self.before is self.after


CURATED, FROZEN, UNEXPLAINED = "Curated skill", "Frozen library", "Came without an author"

_APPLIED = {
    "create": ("Created", "+", "created"),
    "replace": ("Replaced", "~", "revised"),
    "narrow": ("Narrowed", "~", "revised"),
}
# Where the author names its skills there is no operation; then its mode names what it did.
_WRITTEN: dict[str, tuple[str, str, str]] = {
    AuthorMode.WRITE: ("Written", "+", "created"),
    AuthorMode.CRAFT: ("Drafted", "+", "created"),
    AuthorMode.REFINE: ("Refined", "~", "revised"),
    AuthorMode.DISTILL: ("Distilled", "+", "created"),
    AuthorMode.CONSOLIDATE: ("Distilled", "+", "created"),
    AuthorMode.OUTSIDE: ("Generated", "+", "created"),
}
_OTHER = {
    DecisionStatus.NO_OP: ("No change", "=", ""),
    DecisionStatus.REJECTED: ("Rejected", "!", "refused"),
    DecisionStatus.FAILED: ("Failed", "×", "refused"),
}


def describe_decision(decision: Decision) -> tuple[str, str, str]:
    """(word, mark, tone) of a decision: what it did to the library in one word."""
    if decision.status == DecisionStatus.APPLIED:
        revised = _WRITTEN.get(decision.mode, ("Revised", "~", "revised"))
        return _APPLIED.get(decision.operation_type, revised)
    return _OTHER[DecisionStatus(decision.status)]


def describe_seeding(run: Run, episode: Episode) -> str:
    """The word for what comes into this library without an author. Of an import, only the condition says that it was curated."""
    if episode.protocol == "probe":
        return FROZEN
    is_own = run.experiment.origin == Experiment.Origin.RUN
    return CURATED if is_own or run.condition.startswith("curated") else UNEXPLAINED


def open_rail(run: Run, episode: Episode) -> Rail:
    """The rail of an episode, read in one query."""
    return build_rail(read_history(episode), seeded=describe_seeding(run, episode))


def build_rail(history: LibraryHistory, *, seeded: str = CURATED) -> Rail:
    """`seeded`: the word for what comes in without an author."""
    start = history.states[0]
    first = RailStop("start", _describe_start(start), "○", "", start, start)
    return Rail(history.states, (first, *(_make_stop(step, seeded) for step in history.steps)))


def select(rail: Rail, *, decision: str | None, start: str | None, end: str | None) -> Selection:
    """The selection a URL asks for. Nonsense falls back to the last change, or to the only state there is."""
    if stop := rail.decision(decision):
        return Selection(stop.before, stop.after, stop)
    before, after = rail.state(start), rail.state(end)
    if before or after:
        after = after or rail.states[-1]
        made = rail.find_maker(after)
        before = before or (made.before if made else after)
        return Selection(before, after, made if made and made.before is before else None)
    last = next((stop for stop in reversed(rail.stops) if stop.changed), None)
    if last:
        return Selection(last.before, last.after, last)
    tried = next((stop for stop in reversed(rail.stops) if stop.decision), None)
    return Selection(rail.states[0], rail.states[0], tried)


def find_neighbours(rail: Rail, selection: Selection) -> tuple[RailStop | None, RailStop | None]:
    """The decisions or seedings before and after the selected one; the keys [ and ] go there."""
    stops = [stop for stop in rail.stops if stop.decision or stop.seeding]
    if selection.stop in stops:
        place = stops.index(selection.stop)
        return (stops[place - 1] if place else None), (stops[place + 1] if place + 1 < len(stops) else None)
    return None, next((stop for stop in stops if stop.before is selection.after), None)


def _describe_start(state: LibraryState) -> str:
    return "Library at the start" if state.snapshot and state.snapshot.files_total else "Empty library"


def _make_stop(step: LibraryStep, seeded: str) -> RailStop:
    entry = step.entry
    if entry.decision:
        word = describe_decision(entry.decision)
    elif entry.seeding:
        word = (seeded, "+", "created")
    elif entry.refusal:
        word = ("Write refused" if entry.refusal.trial_id else "Source differs", "!", "refused")
    else:
        word = ("Frozen", "", "")
    return RailStop(entry.kind, *word, step.before, step.after, entry)

"""The time machine's rail: an episode's spine read as states of its library and what happened between them.

Pure over loaded rows: no query is made here. States are named as people speak of them: R0 is the start, Rn the library
after round n, Sn the library after the n-th skill that came in without an author.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchapp.models import Decision, Entry, Episode, Experiment, Refusal, Run, Seal, Seeding, Snapshot
from runner.types import AuthorMode, DecisionStatus


@dataclass(frozen=True, slots=True)
class State:
    """A state of the library. snapshot None: empty, and never stored."""

    key: str
    snapshot: Snapshot | None

    @property
    def digest(self) -> str:
        return self.snapshot.digest if self.snapshot else ""

    @property
    def title(self) -> str:
        count = self.snapshot.skills_total if self.snapshot else 0
        return f"Library at {self.key}: {count} skill{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Stop:
    """One line of the rail: what happened, and the library before and after it."""

    kind: str  # start, decision, seed, freeze, refusal
    word: str
    mark: str
    tone: str  # "", created, revised, refused: the mark's style; the word says the same
    before: State
    after: State
    decision: Decision | None = None
    seeding: Seeding | None = None
    seal: Seal | None = None
    refusal: Refusal | None = None

    @property
    def changed(self) -> bool:
        return self.before is not self.after


@dataclass(frozen=True, slots=True)
class Rail:
    states: tuple[State, ...]
    stops: tuple[Stop, ...]

    def state(self, key: str | None) -> State | None:
        """By its key or by its library's digest."""
        return next((state for state in self.states if key and key in (state.key, state.digest)), None)

    def decision(self, number: str | None) -> Stop | None:
        return next((stop for stop in self.stops if stop.decision and str(stop.decision.number) == number), None)

    def made(self, state: State) -> Stop | None:
        """The stop that left this state behind."""
        return next((stop for stop in self.stops if stop.changed and stop.after is state), None)

    @property
    def seal(self) -> Stop | None:
        return next((stop for stop in self.stops if stop.kind == "freeze"), None)


@dataclass(frozen=True, slots=True)
class Selection:
    """What the page shows: two states, and the stop that led from one to the other where there is one."""

    before: State
    after: State
    stop: Stop | None

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
# Where the author names its skills there is no operation; then what it was asked for tells what it did.
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


def word_of(decision: Decision) -> tuple[str, str, str]:
    """(word, mark, tone) of a decision: what it did to the library in one word."""
    if decision.status == DecisionStatus.APPLIED:
        revised = _WRITTEN.get(decision.mode, ("Revised", "~", "revised"))
        return _APPLIED.get(decision.operation_type, revised)
    return _OTHER[DecisionStatus(decision.status)]


def seeded_word(run: Run, episode: Episode) -> str:
    """What comes into this library without an author: of an import only its condition can say that it was curated."""
    if episode.protocol == "probe":
        return FROZEN
    is_own = run.experiment.origin == Experiment.Origin.RUN
    return CURATED if is_own or run.condition.startswith("curated") else UNEXPLAINED


def build_rail(entries: Iterable[Entry], library: Snapshot | None, *, seeded: str = CURATED) -> Rail:
    """The rail of an episode from its entries in order (`Entry.objects.of_library`).

    `library` is the episode's present one: all there is to see where an import brought no decisions.
    `seeded`: what comes in without an author.
    """
    entries = list(entries)
    start = State("R0", _first_snapshot(entries, library))
    states = [start]
    stops = [Stop("start", _start_word(start), "○", "", start, start)]
    for entry in entries:
        if stop := _stop(entry, states, seeded):
            stops.append(stop)
            if stop.changed:
                states.append(stop.after)
    return Rail(tuple(states), tuple(stops))


def select(rail: Rail, *, decision: str | None, start: str | None, end: str | None) -> Selection:
    """The selection a URL asks for. Nonsense falls back to the last change, or to the only state there is."""
    if stop := rail.decision(decision):
        return Selection(stop.before, stop.after, stop)
    before, after = rail.state(start), rail.state(end)
    if before or after:
        after = after or rail.states[-1]
        made = rail.made(after)
        before = before or (made.before if made else after)
        return Selection(before, after, made if made and made.before is before else None)
    last = next((stop for stop in reversed(rail.stops) if stop.changed), None)
    if last:
        return Selection(last.before, last.after, last)
    tried = next((stop for stop in reversed(rail.stops) if stop.decision), None)
    return Selection(rail.states[0], rail.states[0], tried)


def neighbours(rail: Rail, selection: Selection) -> tuple[Stop | None, Stop | None]:
    """The decisions or seedings before and after the selected one; the keys [ and ] go there."""
    stops = [stop for stop in rail.stops if stop.decision or stop.seeding]
    if selection.stop in stops:
        place = stops.index(selection.stop)
        return (stops[place - 1] if place else None), (stops[place + 1] if place + 1 < len(stops) else None)
    return None, next((stop for stop in stops if stop.before is selection.after), None)


def family_of(stop: Stop | None) -> int | None:
    """The family a change was made for."""
    if stop is None:
        return None
    return stop.decision.family_id if stop.decision else stop.seeding.family_id if stop.seeding else None


def _first_snapshot(entries: list[Entry], library: Snapshot | None) -> Snapshot | None:
    """What the library held before the first thing that could change it."""
    for entry in entries:
        if entry.decision:
            return entry.decision.before
        if entry.seeding:
            return None
        if entry.seal:
            return entry.seal.snapshot
    return library


def _start_word(state: State) -> str:
    return "Library at the start" if state.snapshot and state.snapshot.files_total else "Empty library"


def _stop(entry: Entry, states: list[State], seeded: str) -> Stop | None:
    now = states[-1]
    if decision := entry.decision:
        after = now
        if decision.status == DecisionStatus.APPLIED and decision.after_id != (now.snapshot and now.snapshot.pk):
            after = State(_free_key(f"R{decision.round}", states), decision.after)
        return Stop("decision", *word_of(decision), now, after, decision=decision)
    if seeding := entry.seeding:
        seeds = sum(state.key.startswith("S") for state in states)
        after = State(f"S{seeds + 1}", seeding.snapshot)
        return Stop("seed", seeded, "+", "created", now, after, seeding=seeding)
    if seal := entry.seal:
        return Stop("freeze", "Frozen", "", "", now, now, seal=seal)
    if refusal := entry.refusal:
        return Stop(
            "refusal",
            "Write refused" if refusal.trial_id else "Source differs",
            "!",
            "refused",
            now,
            now,
            refusal=refusal,
        )
    return None


def _free_key(key: str, states: list[State]) -> str:
    """Rounds are unique in our own runs; an import may count otherwise, and a key must name one state."""
    taken = {state.key for state in states}
    return key if key not in taken else f"{key}.{len(states)}"

"""Two trials of one task side by side: what each was given, how each ended, and the steps in two columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from benchapp.analysis.alignment.aligned_reading import AlignedSide, read_side
from benchapp.analysis.alignment.alignment import (
    AlignedRow,
    Alignment,
    DifferingPart,
    Parting,
    RowKind,
    StepSign,
    Stretch,
)
from benchapp.analysis.alignment.step_pairing import align
from benchapp.models import Attempt, Trajectory, Trial
from benchapp.record.trajectory_store import read_picked
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.comparability import Comparability, compare_setups
from inspector.pages.trials.outline import ROW_CHARS
from inspector.pages.trials.pair_fields import CheckPair, FieldPair, SkillPair, pair_checks, pair_fields, pair_skills
from inspector.pages.trials.step_cards import StepCard, draw_cards
from inspector.pages.trials.step_reading import list_skill_steps
from inspector.pages.trials.token_curves import Curves, draw_curves
from inspector.pages.trials.trial import (
    MAX_SKILL_STEPS,
    SkillUsage,
    build_skill_usages,
    choose_attempt,
    choose_trajectory,
)
from inspector.pages.trials.verdict import VerdictView, read_verdicts
from inspector.web.text.drawn_steps import draw_steps
from inspector.web.text.visible import one_line, visible

UNITS = 8  # on one page
APART = 3  # steps of either side in one unit where the two go their own ways
DEED_CHARS = 110
FOLDED_LINES = 100  # of a folded stretch that are listed
MAX_CHECKS = 60
MAX_SKILLS = 40
DIFFERS = {
    DifferingPart.GIVEN: "another input",
    DifferingPart.ACTION: "another action",
    DifferingPart.RESULT: "another result",
    DifferingPart.WORDS: "other words",
}
STRIP_WIDTH = 1_000
STRIP_PLACES = 250


@dataclass(frozen=True, slots=True)
class Half:
    """One of the two: its trial, and the attempt and trajectory that are shown of it. `label`: what sets it apart."""

    letter: str
    label: str
    trial: Trial
    attempt: Attempt | None
    attempts: int
    trajectory: Trajectory | None
    trajectories: tuple[Trajectory, ...]
    side: AlignedSide
    verdict: VerdictView | None
    skills: tuple[SkillUsage, ...]
    skill_steps: Mapping[int, Sequence[tuple[str, str]]]

    @property
    def query(self) -> str:
        """What a link to a step of it must say besides the step."""
        return f"&trajectory={self.trajectory.public_id}" if self.trajectory and self.trajectory.kind != "main" else ""

    @property
    def piece_at(self) -> str:
        """Where pieces of its folded texts are asked for."""
        return (
            f"{self.trial.get_absolute_url()}field/?trajectory={self.trajectory.public_id}" if self.trajectory else ""
        )

    @property
    def images_at(self) -> str:
        return f"{self.trial.get_absolute_url()}image/" if self.trajectory else ""


@dataclass(frozen=True, slots=True)
class PairLine:
    """A folded pair of steps in a line. Numbers of steps from 1."""

    left: int
    right: int
    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class Deed:
    """What one side did where the two part. `is_next`: its step there has no counterpart, so the next own step is shown."""

    letter: str
    number: int | None
    tool: str
    text: str
    is_next: bool


@dataclass(frozen=True, slots=True)
class PairUnit:
    """What is drawn as one: a folded stretch, a pair, or steps of both sides that belong to no other. `row` from 1."""

    row: int
    last: int
    kind: str  # same, changed, apart
    rows: tuple[AlignedRow, ...]
    left: tuple[StepCard, ...] = ()
    right: tuple[StepCard, ...] = ()
    lines: tuple[PairLine, ...] = ()
    fields: tuple[FieldPair, ...] = ()
    is_parting: bool = False

    @property
    def differs(self) -> list[str]:
        return sorted({part.value for row in self.rows for part in row.differs})

    @property
    def words(self) -> str:
        """In what a pair of steps differs."""
        return " and ".join(DIFFERS[DifferingPart(part)] for part in self.differs)

    @property
    def left_out(self) -> int:
        return len(self.rows) - len(self.lines)

    @property
    def left_range(self) -> tuple[int, int] | None:
        return _find_range(row.left for row in self.rows)

    @property
    def right_range(self) -> tuple[int, int] | None:
        return _find_range(row.right for row in self.rows)

    @property
    def has_error(self) -> bool:
        return any(card.step.is_error for card in (*self.left, *self.right))

    @property
    def has_skill(self) -> bool:
        return any(card.step.skills for card in (*self.left, *self.right))


@dataclass(frozen=True, slots=True)
class PairMark:
    """A stretch on the strip: x and width of STRIP_WIDTH."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class TrialPair:
    """The page: both trials, how their steps align, and what each had been given."""

    left: Half
    right: Half
    alignment: Alignment
    parting: Parting
    units: tuple[PairUnit, ...]  # all of them, without steps
    setups: Comparability
    checks: tuple[CheckPair, ...]
    skills: tuple[SkillPair, ...]
    curves: Curves
    strip: tuple[PairMark, ...]

    @property
    def halves(self) -> tuple[Half, Half]:
        return self.left, self.right

    @property
    def paired(self) -> int:
        return self.alignment.count(RowKind.SAME) + self.alignment.count(RowKind.CHANGED)

    def unit_at(self, row: int) -> PairUnit | None:
        """The unit that an address points at by a row's number."""
        return next((unit for unit in self.units if unit.row <= row <= unit.last), None)

    def unit_of(self, place: int) -> PairUnit | None:
        """The unit that holds a row (from 0)."""
        row = self.alignment.rows[place]
        return next((unit for unit in self.units if row in unit.rows), None)

    @property
    def answer(self) -> str:
        """Where they part, without a full stop."""
        if not all(half.side.signs for half in self.halves):
            return "Nothing to compare step by step"
        if self.parting.first is None:
            return "They never part"
        left, right = (deed.number for deed in self.deeds)
        place = f"step {left}" if left == right else " and ".join(
            f"step {number} of {half.letter}"
            for half, number in zip(self.halves, (left, right), strict=True)
            if number
        )  # fmt: skip
        return (
            f"The trials diverge at {place}"
            if self.parting.action is not None
            else f"Same actions; they first differ at {place}"
        )

    @property
    def deeds(self) -> list[Deed]:
        """What either side did where they part, in a line each."""
        at = self.parting.first
        return [] if at is None else [self._deed(half, at) for half in self.halves]

    def _deed(self, half: Half, at: int) -> Deed:
        places = (row.left if half is self.left else row.right for row in self.alignment.rows[at:])
        own = next(places)
        place = next((each for each in places if each is not None), None) if own is None else own
        if place is None:
            return Deed(half.letter, None, "", "", is_next=True)
        sign, text = half.side.signs[place], half.side.lines[place]
        return Deed(half.letter, place + 1, _name_tool(sign), one_line(text, DEED_CHARS), own is None)

    @property
    def parting_unit(self) -> PairUnit | None:
        return next((unit for unit in self.units if unit.is_parting), None)


def build_pair(left: Trial, right: Trial, query: Mapping[str, str]) -> TrialPair:
    """`?a=` and `?b=` choose another trajectory of either trial. The number of queries is the same for every length."""
    labels = _choose_labels(left, right)
    one, other = (
        _read_half("A", labels[0], left, query.get("a", "")),
        _read_half("B", labels[1], right, query.get("b", "")),
    )
    alignment = align(one.side.signs, other.side.signs)
    parting = alignment.parting()
    at = alignment.rows[parting.first] if parting.first is not None else AlignedRow(None, None, RowKind.SAME)
    return TrialPair(
        left=one,
        right=other,
        alignment=alignment,
        parting=parting,
        units=tuple(_split_units(alignment, parting.first)),
        setups=compare_setups({run.pk: run for run in (left.episode.run, right.episode.run)}.values()),
        checks=tuple(pair_checks(one.verdict, other.verdict)),
        skills=tuple(pair_skills(one.skills, other.skills)),
        curves=draw_curves(one.side.tokens, other.side.tokens, (at.left, at.right)),
        strip=tuple(_draw_strip(alignment)),
    )


def draw_units(pair: TrialPair, units: Iterable[PairUnit]) -> list[PairUnit]:
    """The units of one page with their steps. Four queries, and only the chunks these steps lie in."""
    shown = list(units)
    places = [row for unit in shown if unit.kind != "same" for row in unit.rows]
    left = _Drawn(pair.left, [row.left + 1 for row in places if row.left is not None])
    right = _Drawn(pair.right, [row.right + 1 for row in places if row.right is not None])
    return [_fill_unit(pair, unit, left, right) for unit in shown]


class _Drawn:
    """The steps of one side that a page shows, as stored and as drawn."""

    def __init__(self, half: Half, numbers: list[int]) -> None:
        self.stored = read_picked(half.trajectory, numbers) if half.trajectory else {}
        ordered = [self.stored[number] for number in sorted(self.stored)]
        views = draw_steps(ordered, skills=half.skill_steps, kept={})
        self.cards = {card.number: card for card in draw_cards(views, ordered)}

    def of(self, places: Iterable[int | None]) -> tuple[StepCard, ...]:
        return tuple(self.cards[place + 1] for place in places if place is not None and place + 1 in self.cards)


def _fill_unit(pair: TrialPair, unit: PairUnit, left: _Drawn, right: _Drawn) -> PairUnit:
    if unit.kind == "same":
        return replace(unit, lines=tuple(_draw_line(pair, row) for row in unit.rows[:FOLDED_LINES]))
    mine, theirs = left.of(row.left for row in unit.rows), right.of(row.right for row in unit.rows)
    fields: tuple[FieldPair, ...] = ()
    if unit.kind == "changed" and mine and theirs:
        stored = left.stored[mine[0].number], right.stored[theirs[0].number]
        fields = pair_fields(mine[0], theirs[0], stored)
    return replace(unit, left=mine, right=theirs, fields=fields)


def _draw_line(pair: TrialPair, row: AlignedRow) -> PairLine:
    assert row.left is not None and row.right is not None  # noqa: PT018 (a stretch of pairs)
    sign, text = pair.left.side.signs[row.left], pair.left.side.lines[row.left]
    return PairLine(row.left + 1, row.right + 1, _name_tool(sign), one_line(text, ROW_CHARS))


def _name_tool(sign: StepSign) -> str:
    return one_line(sign.tools[0], 24) if sign.tools else sign.source


# --- one of the two ---------------------------------------------------------------------------------------------


def _read_half(letter: str, label: str, trial: Trial, asked: str) -> Half:
    attempts = list(trial.attempts.order_by("number"))
    found = list(Trajectory.objects.filter(attempt__trial=trial, is_superseded=False).order_by("ordinal", "id"))
    chosen = next((each for each in found if str(each.public_id) == asked), None)
    attempt = next((each for each in attempts if chosen and each.pk == chosen.attempt_id), choose_attempt(attempts, ""))
    own = [each for each in found if attempt and each.attempt_id == attempt.pk]
    trajectory = chosen or choose_trajectory(own, "")
    uses = list(attempt.skill_uses.order_by("step", "id")[:MAX_SKILL_STEPS]) if attempt else []
    verdicts = read_verdicts(attempt)
    return Half(
        letter=letter,
        label=label,
        trial=trial,
        attempt=attempt,
        attempts=len(attempts),
        trajectory=trajectory,
        trajectories=tuple(found),
        side=read_side(trajectory),
        verdict=verdicts[0] if verdicts else None,
        skills=tuple(build_skill_usages(uses)),
        skill_steps=list_skill_steps(uses, trajectory),
    )


def _choose_labels(left: Trial, right: Trial) -> tuple[str, str]:
    """Return the shortest words that distinguish the two."""
    one, other = _list_facts(left), _list_facts(right)
    apart = [name for name in one if one[name] != other[name]]
    if apart == ["experiment"] or not apart:
        return (one["experiment"], other["experiment"]) if apart else (one["phase"], other["phase"])
    names = [name for name in apart if name != "experiment"][:3]
    return ", ".join(one[name] for name in names), ", ".join(other[name] for name in names)


def _list_facts(trial: Trial) -> dict[str, str]:
    run = trial.episode.run
    return {
        "condition": name_condition(run.condition).title if run.condition != run.UNKNOWN else "condition unknown",
        "phase": trial.phase,
        "replicate": f"replicate {run.replicate}",
        "sample": f"sample {trial.sample}",
        "model": visible(run.agent_model) if run.agent_model != run.UNKNOWN else "model unknown",
        "harness": visible(run.harness) if run.harness != run.UNKNOWN else "harness unknown",
        "experiment": visible(run.experiment.name),
    }


# --- rows and units ---------------------------------------------------------------------------------------------


def _split_units(alignment: Alignment, parting: int | None) -> Iterator[PairUnit]:
    for stretch in alignment.stretches():
        rows = alignment.rows[stretch.first : stretch.last + 1]
        if stretch.kind is RowKind.SAME:
            yield PairUnit(stretch.first + 1, stretch.last + 1, "same", rows)
        elif stretch.kind is RowKind.CHANGED:
            for place, row in enumerate(rows, start=stretch.first):
                yield PairUnit(place + 1, place + 1, "changed", (row,), is_parting=place == parting)
        else:
            yield from _split_apart(stretch, rows, alignment.rows[parting] if parting is not None else None)


def _split_apart(stretch: Stretch, rows: Sequence[AlignedRow], parting: AlignedRow | None) -> Iterator[PairUnit]:
    """Yield APART steps of either side at a time, so that what one did is next to what the other did instead."""
    left = [row for row in rows if row.kind is RowKind.LEFT]
    right = [row for row in rows if row.kind is RowKind.RIGHT]
    pieces = zip_longest(*([side[at : at + APART] for at in range(0, len(side), APART)] for side in (left, right)))
    first = stretch.first
    for mine, theirs in pieces:
        own = (*(mine or ()), *(theirs or ()))
        yield PairUnit(first + 1, first + len(own), "apart", own, is_parting=parting in own)
        first += len(own)


def _find_range(places: Iterable[int | None]) -> tuple[int, int] | None:
    known = [place + 1 for place in places if place is not None]
    return (min(known), max(known)) if known else None


def _draw_strip(alignment: Alignment) -> Iterator[PairMark]:
    """The rows from left to right; where many fall on one place the one that differs most shows."""
    total = len(alignment.rows)
    places = min(total, STRIP_PLACES)
    kinds = []
    for place in range(places):
        found = {row.kind for row in alignment.rows[place * total // places : (place + 1) * total // places]}
        kinds.append(
            "apart" if found & {RowKind.LEFT, RowKind.RIGHT} else "changed" if RowKind.CHANGED in found else "same"
        )
    start = 0
    for place in range(1, places + 1):
        if place == places or kinds[place] != kinds[start]:
            scale = STRIP_WIDTH / places
            yield PairMark(kinds[start], round(start * scale, 1), round((place - start) * scale, 1))
            start = place

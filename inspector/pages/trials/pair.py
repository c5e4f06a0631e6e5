"""Two trials of one task side by side: what each was given, how each ended, and the steps in two columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from benchapp.analysis.alignment.alignment import (
    AlignedRow,
    Alignment,
    DifferingPart,
    RowKind,
    StepSign,
    Stretch,
    align,
    read_side,
)
from benchapp.models import Trajectory, Trial
from benchapp.record.trajectory_store import StoredStep, read_picked
from benchapp.record.visible import one_line, visible
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.comparability import compare_setups
from inspector.reader.cards import CardText, StepCard, draw_cards
from inspector.reader.reading import (
    build_skill_usages,
    choose_attempt,
    choose_trajectory,
    list_skill_steps,
    read_uses,
)
from inspector.reader.steps import draw_steps
from inspector.reader.verdict import read_verdicts
from inspector.web.text.diff import RowPair, diff_file
from runner.base.types import Source
from runner.trajectories.fields import fields

UNITS = 8  # on one page
APART = 3  # steps of either side in one unit where the two go their own ways
DEED_CHARS, ROW_CHARS = 110, 56
MAX_CHARS = 12_000  # of either text of a field; longer ones are shown side by side, folded
FOLDED_LINES = 100  # of a folded stretch that are listed
DIFFERS = {
    DifferingPart.GIVEN: "another input",
    DifferingPart.ACTION: "another action",
    DifferingPart.RESULT: "another result",
    DifferingPart.WORDS: "other words",
}


class Half:
    """One of the two: its trial, and the attempt and trajectory that are shown of it. `label`: what sets it apart.
    `query`: what a link to a step of it must say besides the step. `piece_at`: the address that answers with pieces of
    its folded texts."""

    def __init__(self, letter: str, label: str, trial: Trial, asked: str) -> None:
        self.letter, self.label, self.trial = letter, label, trial
        attempts = list(trial.attempts.order_by("number"))
        self.attempts = len(attempts)
        self.trajectories = list(Trajectory.objects.current().filter(attempt__trial=trial))
        chosen = next((each for each in self.trajectories if str(each.public_id) == asked), None)
        of_chosen = (each for each in attempts if chosen and each.pk == chosen.attempt_id)
        self.attempt = attempt = next(of_chosen, choose_attempt(attempts, ""))
        own = [each for each in self.trajectories if attempt and each.attempt_id == attempt.pk]
        self.trajectory = shown = chosen or choose_trajectory(own, "")
        self.side = read_side(shown)
        verdicts = read_verdicts(attempt)
        self.verdict = verdicts[0] if verdicts else None
        uses = read_uses(attempt)
        self.skills, self.skill_steps = build_skill_usages(uses), list_skill_steps(uses, shown)
        page = trial.get_absolute_url()
        self.query = f"&trajectory={shown.public_id}" if shown and not shown.is_main else ""
        self.piece_at = f"{page}field/?trajectory={shown.public_id}" if shown else ""
        self.images_at = f"{page}image/" if shown else ""


class Deed(NamedTuple):
    """What one side did where the two part."""

    letter: str
    number: int | None
    tool: str
    text: str
    is_next: bool  # its step there has no counterpart, so the next own step is shown


class PairUnit:
    """What is drawn as one: a folded stretch, a pair, or steps of both sides that belong to no other. `row` from 1.
    `kind`: same, changed, apart. `words`: in what a pair of steps differs."""

    def __init__(self, row: int, kind: str, rows: Sequence[AlignedRow], *, is_parting: bool = False) -> None:
        self.row, self.last, self.kind, self.rows, self.is_parting = row, row + len(rows) - 1, kind, rows, is_parting
        self.differs = sorted({part.value for each in rows for part in each.differs})
        self.words = " and ".join(DIFFERS[DifferingPart(part)] for part in self.differs)
        self.left_range, self.right_range = (
            _find_range(each.left for each in rows),
            _find_range(each.right for each in rows),
        )
        self.left: Sequence[StepCard] = ()
        self.right: Sequence[StepCard] = ()
        self.lines: Sequence[dict[str, object]] = ()
        self.fields: Sequence[FieldPair] = ()

    @property
    def left_out(self) -> int:
        return len(self.rows) - len(self.lines)

    @property
    def has_error(self) -> bool:
        return any(card.step.is_error for card in (*self.left, *self.right))

    @property
    def has_skill(self) -> bool:
        return any(card.step.skills for card in (*self.left, *self.right))


class TrialPair:
    """The page: both trials, how their steps align, and what each had been given. `?a=` and `?b=` choose another
    trajectory of either trial. The number of queries is the same for every length.

    `units`: all of them, without steps. `parting_row`: the places of the two steps where they part, None if a side has
    none there.
    """

    def __init__(self, left: Trial, right: Trial, query: Mapping[str, str]) -> None:
        labels = _choose_labels(left, right)
        self.left = Half("A", labels[0], left, query.get("a", ""))
        self.right = Half("B", labels[1], right, query.get("b", ""))
        self.halves = self.left, self.right
        self.alignment = align(self.left.side.signs, self.right.side.signs)
        self.parting = self.alignment.parting()
        self.units = list(_split_units(self.alignment, self.parting.first))
        self.parting_unit = next((unit for unit in self.units if unit.is_parting), None)
        row = None if self.parting.first is None else self.alignment.rows[self.parting.first]
        self.parting_row = (row.left, row.right) if row else (None, None)
        self.setups = compare_setups({run.pk: run for run in (left.episode.run, right.episode.run)}.values())

    def unit_at(self, row: int) -> PairUnit | None:
        """Return the unit that an address points at by a row's number."""
        return next((unit for unit in self.units if unit.row <= row <= unit.last), None)

    def unit_of(self, place: int) -> PairUnit | None:
        """Return the unit that has a row (from 0)."""
        row = self.alignment.rows[place]
        return next((unit for unit in self.units if row in unit.rows), None)

    @property
    def answer(self) -> str:
        """Say where they part, without a full stop."""
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
        """Say what either side did where they part, in a line each."""
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


def draw_units(pair: TrialPair, units: Iterable[PairUnit]) -> list[PairUnit]:
    """Draw the units of one page with their steps. Four queries, and only the chunks with these steps."""
    shown = list(units)
    places = [row for unit in shown if unit.kind != "same" for row in unit.rows]
    left = _draw_steps(pair.left, [row.left + 1 for row in places if row.left is not None])
    right = _draw_steps(pair.right, [row.right + 1 for row in places if row.right is not None])
    for unit in shown:
        if unit.kind == "same":
            unit.lines = [_draw_line(pair, row) for row in unit.rows[:FOLDED_LINES]]
            continue
        mine = [left[row.left] for row in unit.rows if row.left in left]
        theirs = [right[row.right] for row in unit.rows if row.right in right]
        if unit.kind == "changed" and mine and theirs:
            unit.fields = pair_fields(mine[0][0], theirs[0][0], (mine[0][1], theirs[0][1]))
        unit.left, unit.right = ([card for card, _ in side] for side in (mine, theirs))
    return shown


def _draw_steps(half: Half, numbers: list[int]) -> dict[int | None, tuple[StepCard, StoredStep]]:
    """Return the steps of one side that a page shows, by their place: as drawn and as stored."""
    found = read_picked(half.trajectory, numbers) if half.trajectory else {}
    stored = [found[number] for number in sorted(found)]
    cards = draw_cards(draw_steps(stored, skills=half.skill_steps), stored)
    return {card.number - 1: (card, found[card.number]) for card in cards}


def _draw_line(pair: TrialPair, row: AlignedRow) -> dict[str, object]:
    assert row.left is not None and row.right is not None  # noqa: PT018 (a stretch of pairs)
    sign, text = pair.left.side.signs[row.left], pair.left.side.lines[row.left]
    return {"left": row.left + 1, "right": row.right + 1, "tool": _name_tool(sign), "text": one_line(text, ROW_CHARS)}


def _name_tool(sign: StepSign) -> str:
    return one_line(sign.tools[0], 24) if sign.tools else sign.source


# --- one of the two ---------------------------------------------------------------------------------------------


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
            yield PairUnit(stretch.first + 1, "same", rows)
        elif stretch.kind is RowKind.CHANGED:
            for place, row in enumerate(rows, start=stretch.first):
                yield PairUnit(place + 1, "changed", (row,), is_parting=place == parting)
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
        yield PairUnit(first + 1, "apart", own, is_parting=parting in own)
        first += len(own)


def _find_range(places: Iterable[int | None]) -> tuple[int, int] | None:
    known = [place + 1 for place in places if place is not None]
    return (min(known), max(known)) if known else None


# --- the fields of two steps that belong together ---------------------------------------------------------------


Lines = Sequence[RowPair | Mapping[str, list[str]]]  # a diff, with equal stretches folded to {"equal": [...]}


class FieldPair:
    """One field on both sides, None where a side lacks it. `lines`: empty if the texts are shown whole."""

    def __init__(
        self, name: str, left: CardText | None, right: CardText | None, lines: Lines, *, is_same: bool
    ) -> None:
        self.name, self.left, self.right, self.is_same, self.lines = name, left, right, is_same, lines
        self.shown = left or right


def pair_fields(left: StepCard, right: StepCard, stored: tuple[StoredStep, StoredStep]) -> tuple[FieldPair, ...]:
    """Pair the fields, in the order of the left step; a field that only the right step has comes after its
    predecessor there.

    A message next to a tool call is not compared."""
    names, before = list(left.texts), ""
    for name in right.texts:
        if name not in names:
            names.insert(names.index(before) + 1 if before else 0, name)
        before = name
    step = stored[0].step
    compared = {"tool_calls" if step.source is Source.AGENT and step.tool_calls else "message", "observations"}
    texts = [dict(fields(found.step)) for found in stored]
    pairs = []
    for name in names:
        # None if the side lacks the field, or its text is loaded only on request.
        mine, theirs = (None if name in found.long else own.get(name) for own, found in zip(texts, stored, strict=True))
        is_same = mine is not None and mine == theirs
        lines: Lines = ()
        is_compared = not is_same and name.partition("/")[0] in compared
        if is_compared and mine is not None and theirs is not None and max(len(mine), len(theirs)) <= MAX_CHARS:
            if name.startswith("tool_calls/"):  # the tool is in the label
                mine, theirs = mine.partition("\n")[2], theirs.partition("\n")[2]
            lines = _draw_lines(mine, theirs)
        pairs.append(FieldPair(name, left.texts.get(name), right.texts.get(name), lines, is_same=is_same))
    return tuple(pairs)


def _draw_lines(left: str, right: str) -> Lines:
    """Return the lines around the differences.
    Texts without a common line are compared only if they have equally many."""
    diff = diff_file("text", *(f"{text.rstrip(chr(10))}\n".encode("utf-8", "replace") for text in (left, right)))
    if not any(row.sign == "same" for block in diff.blocks for row in block.rows) and diff.added != diff.removed:
        return []
    lines: list[RowPair | Mapping[str, list[str]]] = []
    for block in diff.blocks:
        lines += [{"equal": [row.text for row in block.rows]}] if block.is_folded else block.pairs
    return [] if all(block.is_folded for block in diff.blocks) else lines

"""Two trials item by item: the fields of two steps that belong together, and below them checks and skills.

Equal fields are folded; fields that differ become a difference of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.record.trajectory_store import StoredStep
from inspector.pages.trials.step_cards import CardText, StepCard
from inspector.pages.trials.trial import SkillUsage
from inspector.pages.trials.verdict import GROUP_WORDS, VerdictView
from inspector.web.text.diff import RowPair, diff_file
from inspector.web.text.visible import visible
from runner.base.types import CheckGroup, Source
from runner.trajectories.fields import fields

MAX_CHARS = 12_000  # of either text; longer ones are shown side by side, folded


@dataclass(frozen=True, slots=True)
class Equal:
    """Neighbouring lines that both texts have."""

    equal: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldPair:
    """One field on both sides, None where a side lacks it. `lines`: the lines around what differs, with stretches of
    equal ones folded; empty where the texts are better read whole."""

    name: str
    left: CardText | None
    right: CardText | None
    is_same: bool
    lines: tuple[RowPair | Equal, ...] = ()

    @property
    def shown(self) -> CardText:
        found = self.left or self.right
        assert found is not None
        return found


def pair_fields(left: StepCard, right: StepCard, stored: tuple[StoredStep, StoredStep]) -> tuple[FieldPair, ...]:
    """The fields in the order of the left step, then those that only the right one has."""
    texts = [dict(fields(found.step)) for found in stored]
    views = [left.texts, right.texts]
    compared = _collect_compared(stored[0])
    return tuple(
        _pair_texts(
            name,
            (views[0].get(name), views[1].get(name)),
            (_find_whole(name, texts[0], stored[0]), _find_whole(name, texts[1], stored[1])),
            compared=name.partition("/")[0] in compared,
        )
        for name in _order_names(views)
    )


def _order_names(views: Sequence[Mapping[str, CardText]]) -> list[str]:
    """A field that only the right step has comes after the one it follows there."""
    names = list(views[0])
    before = ""
    for name in views[1]:
        if name not in names:
            names.insert(names.index(before) + 1 if before else 0, name)
        before = name
    return names


def _collect_compared(stored: StoredStep) -> set[str]:
    """Words around a call do not count as a difference, so they are not compared line by line."""
    step = stored.step
    acts = {"tool_calls"} if step.source is Source.AGENT and step.tool_calls else {"message"}
    return {*acts, "observations"}


def _find_whole(name: str, texts: Mapping[str, str], stored: StoredStep) -> str | None:
    """The text where it is at hand in full."""
    return None if name in stored.long else texts.get(name)


def _pair_texts(
    name: str,
    views: tuple[CardText | None, CardText | None],
    texts: tuple[str | None, str | None],
    *,
    compared: bool,
) -> FieldPair:
    left, right = texts
    is_same = left is not None and left == right
    if is_same or not compared or left is None or right is None or max(len(left), len(right)) > MAX_CHARS:
        return FieldPair(name, *views, is_same)
    if name.startswith("tool_calls/"):  # the tool is in the label
        left, right = (text.partition("\n")[2] for text in (left, right))
    return FieldPair(name, *views, is_same=False, lines=tuple(_draw_lines(left, right)))


def _draw_lines(left: str, right: str) -> list[RowPair | Equal]:
    """The lines around the differences. Texts that share no line at all have none."""
    diff = diff_file("text", *(f"{text.rstrip(chr(10))}\n".encode("utf-8", "replace") for text in (left, right)))
    if not any(row.sign == "same" for block in diff.blocks for row in block.rows) and diff.added != diff.removed:
        return []
    lines: list[RowPair | Equal] = []
    for block in diff.blocks:
        lines += [Equal(tuple(row.text for row in block.rows))] if block.is_folded else block.pairs
    return [] if all(isinstance(line, Equal) for line in lines) else lines


# --- how the two ended -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckPair:
    """One check on both sides; None where that side's verdict does not name it."""

    name: str
    group: str
    left: str | None
    right: str | None

    @property
    def differs(self) -> bool:
        """Both sides name it, and it ended differently."""
        return None not in (self.left, self.right) and self.left != self.right

    @property
    def is_one_sided(self) -> bool:
        return None in (self.left, self.right)


@dataclass(frozen=True, slots=True)
class SkillPair:
    """One skill on both sides; None where that side does not know it."""

    slug: str
    left: SkillUsage | None
    right: SkillUsage | None


def pair_checks(left: VerdictView | None, right: VerdictView | None) -> list[CheckPair]:
    """Those that ended differently first, then those that one side names; else in the verifier's order. A name used twice
    is held apart."""
    mine, theirs = _list_statuses(left), _list_statuses(right)
    pairs = [
        CheckPair(visible(key[1]), GROUP_WORDS[CheckGroup(key[0])], mine.get(key), theirs.get(key))
        for key in dict.fromkeys([*mine, *theirs])
    ]
    return sorted(pairs, key=lambda pair: (not pair.differs, not pair.is_one_sided))


def _list_statuses(view: VerdictView | None) -> dict[tuple[str, str, int], str]:
    found: dict[tuple[str, str, int], str] = {}
    for check in view.verdict.checks.all() if view else ():
        again = 0
        while (check.group, check.name, again) in found:
            again += 1
        found[check.group, check.name, again] = check.status
    return found


def pair_skills(left: Sequence[SkillUsage], right: Sequence[SkillUsage]) -> list[SkillPair]:
    """Those that were used on either side first."""
    mine, theirs = ({fact.slug: fact for fact in facts} for facts in (left, right))
    pairs = [SkillPair(slug, mine.get(slug), theirs.get(slug)) for slug in dict.fromkeys([*mine, *theirs])]
    return sorted(pairs, key=lambda pair: not any(fact and fact.kinds for fact in (pair.left, pair.right)))

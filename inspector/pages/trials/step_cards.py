"""Steps as cards of the reader: acts with their results, messages, reasoning, what is folded, coloured and cut.

Pure. Places are characters of a field's canonical text, so that colours, matched values and cuts meet in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from benchapp.analysis.deciding.deciding_steps import DecidingStep
from benchapp.analysis.deciding.step_glances import StepKind, glance_at, read_exit_code
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import StoredStep
from inspector.pages.trials.cut_texts import Cuts, CutState
from inspector.pages.trials.text_colours import Layer, colour_call, colour_result
from inspector.web.text.drawn_steps import FieldView, StepView
from inspector.web.text.folding import FoldedPart
from inspector.web.text.markdown import render_markdown
from inspector.web.text.visible import RIGHT_TO_LEFT, visible
from runner.base.types import Step, ToolCall
from runner.trajectories.images import list_parts
from runner.trajectories.log_records import Record, read_count

TITLE_CHARS = 110  # a message of no more in one line is the title of its card
PROSE_CHARS = 8_000  # a longer message is drawn as text, folded
LINE_CHARS = 2_000  # a message with a longer line as well: what is so long in one line is no prose
PROSE_LINES = 40  # of a message that are shown; the others open below
CHUNK_PROSE = 80_000  # characters of Markdown in one answer: drawing it takes time
_MARKDOWN = re.compile(r"[*_`#\[\]<>|~\\&\n]|^\s*(?:[-+]|\d+[.)])\s")
_MARKS = re.compile(r"[*`]+|^#+[ \t]*", re.MULTILINE)
_JSON_BLOCK = re.compile(r"^[{\[]\n(?:[ \t].*\n){1,80}[}\]]$", re.MULTILINE)  # a prompt shows a form and no fences
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PARAGRAPH = re.compile(r"<p(?: dir=\"auto\")?>(.*)</p>", re.DOTALL)
_SENTENCE = re.compile(r"[.!?:](?:\s|\Z)|\n")


@dataclass(frozen=True, slots=True)
class CardPart:
    """A stretch of a text, shown or folded. `layers`: places within it that have a class, from 0."""

    part: FoldedPart
    layers: tuple[Layer, ...] = ()

    @property
    def is_fold(self) -> bool:
        return self.part.is_fold

    @property
    def more(self) -> str:
        """What opening the fold brings."""
        if self.part.lines is None:
            return f"{self.part.end - self.part.start:,} characters more"
        first, last, _ = self.part.lines
        return f"{last - first + 1:,} lines more"

    @property
    def where(self) -> str:
        size = write_size(self.part.raw) if self.part.raw else f"{self.part.end - self.part.start:,} characters"
        if self.part.lines is None:
            return "" if not self.part.raw else size
        first, last, total = self.part.lines
        return f"lines {first:,} to {last:,} of {total:,} · {size}"


@dataclass(frozen=True, slots=True)
class CardText:
    """One field. `head`: of a result, how it ended and how long it is. `is_command`: all of it is a command line.
    `images`: those that its marks replace."""

    field: FieldView
    parts: tuple[CardPart, ...]
    head: str = ""
    is_command: bool = False
    images: tuple[Record, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.parts


@dataclass(frozen=True, slots=True)
class Act:
    """A call with what came back; `call` None for results that name no call."""

    call: CardText | None
    results: tuple[CardText, ...]
    started: Trajectory | None = None  # of the sub-agent that it started


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: CardText
    first: str
    words: int


@dataclass(frozen=True, slots=True)
class Prose:
    """A message as Markdown: what is shown, and what opens below, with its number of lines."""

    shown: SafeString
    rest: SafeString = field(default_factory=lambda: SafeString(""))
    lines: int = 0


@dataclass(frozen=True, slots=True)
class StepCard:
    """`title`: a short message that names the step. `images`: of the message. `plain`: a message too long for Markdown. `told`: a system prompt's
    first line, which stands for all of it until it is opened. `clock`: seconds it took and seconds after the start."""

    step: StepView
    kind: StepKind
    title: SafeString
    prose: Prose | None
    plain: CardText | None
    told: str
    told_lines: int
    reasoning: Reasoning | None
    acts: tuple[Act, ...]
    images: tuple[Record, ...]
    deciding: tuple[DecidingStep, ...]
    flags: tuple[str, ...]
    cuts: tuple[CutState, ...]
    clock: tuple[float | None, float | None] = (None, None)

    @property
    def number(self) -> int:
        return self.step.number

    @property
    def name(self) -> str:
        """The tool that was called first, else what kind of step it is."""
        return self.step.tools[0] if self.step.tools else str(self.kind)

    @property
    def cut_class(self) -> str:
        return "".join(f" {state.kind}-{state.extent}" for state in self.cuts)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of steps besides their texts, by number."""

    deciding: Mapping[int, Sequence[DecidingStep]] = field(default_factory=dict)
    flags: Mapping[int, Sequence[str]] = field(default_factory=dict)
    clocks: Mapping[int, tuple[float | None, float | None]] = field(default_factory=dict)
    cuts: Cuts = field(default_factory=Cuts)
    started: Mapping[str, Trajectory] = field(default_factory=dict)  # by the id of the call that started it
    kinds: Mapping[int, StepKind] = field(default_factory=dict)


def draw_cards(steps: Sequence[StepView], stored: Sequence[StoredStep], facts: Facts | None = None) -> list[StepCard]:
    """`stored` has the step of every view."""
    facts = facts or Facts()
    by_number = {found.step.number: found for found in stored}
    room, cards = CHUNK_PROSE, []
    for step in steps:
        card, used = _draw_card(step, by_number[step.number], facts, room)
        room -= used
        cards.append(card)
    return cards


def _draw_card(step: StepView, stored: StoredStep, facts: Facts, room: int) -> tuple[StepCard, int]:
    kind = facts.kinds.get(step.number) or glance_at(stored.step).kind
    deciding = tuple(facts.deciding.get(step.number, ()))
    values = [one.value for one in deciding if one.value]
    texts = {one.name: _draw_text(step, one, stored, facts.cuts, values) for one in step.fields}
    said = texts.get("message")
    whole = _join(said.field) if said else ""
    prose, title, told, plain = None, SafeString(""), "", None
    if said is None:
        pass
    elif kind is StepKind.SYSTEM and whole.count("\n") > 2:
        told, plain = _first_sentence(whole), said
    elif whole and len(whole) <= min(PROSE_CHARS, room) and max(map(len, whole.split("\n"))) <= LINE_CHARS:
        title = _draw_title(whole) if step.tools else SafeString("")
        prose = None if title else _draw_prose(whole)
    else:
        plain = said
    card = StepCard(
        step=step,
        kind=kind,
        title=title,
        prose=prose,
        plain=plain,
        told=told,
        told_lines=whole.rstrip("\n").count("\n") + 1 if told else 0,
        reasoning=_draw_reasoning(texts.get("reasoning")),
        acts=tuple(_link_subagent(act, stored, facts.started) for act in _pair_acts(step, texts)),
        images=said.images if said else (),
        deciding=deciding,
        flags=tuple(facts.flags.get(step.number, ())),
        cuts=facts.cuts.of_step(step.number, [one.name for one in step.fields if one.parts]),
        clock=facts.clocks.get(step.number, (None, None)),
    )
    return card, len(whole) if prose or title else 0


def _link_subagent(act: Act, stored: StoredStep, started: Mapping[str, Trajectory]) -> Act:
    call = _find_call(stored, act.call.field) if act.call and started else None
    return replace(act, started=started[call.id]) if call and call.id in started else act


def _pair_acts(step: StepView, texts: Mapping[str, CardText]) -> Iterator[Act]:
    """Fields stand in reading order: each call, then its results."""
    call: CardText | None = None
    results: list[CardText] = []
    for one in step.fields:
        if one.kind == "call":
            if call or results:
                yield Act(call, tuple(results))
            call, results = texts[one.name], []
        elif one.kind == "result":
            if call and one.label != "result":  # it names no call: it must not be read as that call's
                yield Act(call, tuple(results))
                call, results = None, []
            results.append(texts[one.name])
    if call or results:
        yield Act(call, tuple(results))


def _draw_text(step: StepView, one: FieldView, stored: StoredStep, cuts: Cuts, values: Sequence[str]) -> CardText:
    call = _find_call(stored, one)
    colours = colour_call(call, one) if call else colour_result(one, values, is_skill=bool(step.skills))
    hidden = list(cuts.of_field(step.number, one.name, one.parts[-1].end if one.parts else 0))
    shown = tuple(CardPart(part, () if part.is_fold else _clip(part, [*colours, *hidden])) for part in one.parts)
    if call and (skip := _skip_key(call, one)):
        shown = _drop_beginning(shown, skip)
    head = _head(one) if one.kind == "result" else ""
    return CardText(one, shown, head, bool(call and _skip_key(call, one)), tuple(_list_images(stored.step, one)))


def _list_images(step: Step, one: FieldView) -> Iterator[Record]:
    extra = step.extra if one.kind == "message" else None
    if one.kind == "result":
        extra = step.observations[int(one.name.partition("/")[2])].extra
    for part in list_parts(extra):
        if isinstance(digest := part.get("digest"), str) and _DIGEST.fullmatch(digest):
            sizes = {name: read_count(part.get(name)) or 0 for name in ("width", "height")}
            yield {"digest": digest, "type": str(part.get("media_type"))[:20], **sizes}


def _find_call(stored: StoredStep, one: FieldView) -> ToolCall | None:
    return stored.step.tool_calls[int(one.name.partition("/")[2])] if one.kind == "call" else None


def _skip_key(call: ToolCall, one: FieldView) -> int:
    """How much of the text only says "command:", where a command is all that the call has."""
    if len(call.arguments) != 1 or not one.parts:
        return 0
    key, value = next(iter(call.arguments.items()))
    if key not in ("command", "cmd", "script", "keystrokes", "code") or not isinstance(value, str) or not value:
        return 0
    beginning = f"{key}:\n" if "\n" in value else f"{key}: "
    return len(beginning) if one.parts[0].raw.startswith(beginning) and not one.parts[0].is_fold else 0


def _drop_beginning(parts: tuple[CardPart, ...], skip: int) -> tuple[CardPart, ...]:
    first = parts[0].part
    bare = FoldedPart(first.start + skip, first.end, first.raw[skip:])
    moved = tuple((max(0, start - skip), end - skip, kind) for start, end, kind in parts[0].layers if end > skip)
    return (CardPart(bare, moved), *parts[1:])


def _clip(part: FoldedPart, layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers that touch the part, counted from its beginning."""
    return tuple(
        (max(start, part.start) - part.start, min(end, part.end) - part.start, kind)
        for start, end, kind in layers
        if start < part.end and end > part.start
    )


def _head(one: FieldView) -> str:
    """How a result ended, as far as it says so, and how long it is."""
    at_hand = all(part.raw for part in one.parts)
    text = _join(one) if at_hand else (one.parts[-1].raw if one.parts else "")
    code = read_exit_code(text)
    ended = f"exit {code}" if code is not None else "error" if one.is_error else ""
    if not one.length:
        return f"{ended}, no output" if ended else "no output"
    lines = text.rstrip("\n").count("\n") + 1
    size = f"{lines:,} line{'' if lines == 1 else 's'}" if at_hand else f"{one.length:,} characters"
    return f"{ended} · {size}" if ended else size


def _join(one: FieldView) -> str:
    """The whole text; empty where not all of it is at hand."""
    return "".join(part.raw for part in one.parts) if all(part.raw for part in one.parts) else ""


def _draw_reasoning(text: CardText | None) -> Reasoning | None:
    if text is None:
        return None
    whole = _join(text.field) or (text.parts[0].part.raw if text.parts else "")
    return Reasoning(text, _first_sentence(whole), len(whole.split()))


def _first_sentence(text: str) -> str:
    beginning = _MARKS.sub("", text.strip()[:400])
    match = _SENTENCE.search(beginning, 20)
    return visible(beginning[: match.end()] if match else beginning).strip()


def _draw_title(text: str) -> SafeString:
    line = text.strip()
    if len(line) > TITLE_CHARS or "\n" in line:
        return SafeString("")
    html = _render(line)
    only = _PARAGRAPH.fullmatch(html.strip())
    return SafeString("") if only is None or "<p" in only[1] else mark_safe(only[1])  # noqa: S308 (sanitised)


def _draw_prose(text: str) -> Prose:
    """Whole, or its beginning up to a blank line outside of a block of code."""
    if "```" not in text:
        text = _JSON_BLOCK.sub(r"\n```\n\g<0>\n```\n", text)
    lines = text.split("\n")
    if len(lines) <= PROSE_LINES + 12:
        return Prose(_render(text))
    end = next((at for at in range(PROSE_LINES, len(lines)) if _may_break(lines, at)), len(lines))
    shown, rest = "\n".join(lines[:end]), "\n".join(lines[end:])
    left = len(rest.strip("\n").split("\n")) if rest.strip() else 0
    return Prose(_render(shown), _render(rest) if left else SafeString(""), left)


def _may_break(lines: Sequence[str], at: int) -> bool:
    return not lines[at].strip() and sum(line.lstrip().startswith(("```", "~~~")) for line in lines[:at]) % 2 == 0


@lru_cache(2_000)  # of at most 8,000 characters each; prompts and short remarks come again on every page
def _render(text: str) -> SafeString:
    if len(text) < 400 and not _MARKDOWN.search(text):
        direction = ' dir="auto"' if RIGHT_TO_LEFT.search(text) else ""
        return mark_safe(f"<p{direction}>{escape(visible(text))}</p>")  # noqa: S308 (escaped)
    return render_markdown(text)


def write_size(text: str) -> str:
    size = len(text.encode("utf-8", "replace"))
    return f"{size:,} bytes" if size < 1_000 else f"{size / 1_000:,.1f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"

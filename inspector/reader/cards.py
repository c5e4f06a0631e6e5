"""Steps as cards, for every page that shows steps: acts with their results, messages, reasoning, what is folded,
coloured, cut and masked. Commands and code are coloured by their language, and values that a check names are marked.

Pure. Places are characters of a field's canonical text, or of the text as a reviewer sees it, so that colours, matched
values, cuts and marks meet in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from benchapp.analysis.deciding.deciding_steps import DecidingStep
from benchapp.analysis.deciding.step_glances import (
    CODE_KEYS,
    PATH_KEYS,
    StepKind,
    glance_at,
    list_here_documents,
    read_exit_code,
)
from benchapp.analysis.trial_rules.agent_acts import COMMAND_KEYS
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import StoredStep
from benchapp.record.visible import RIGHT_TO_LEFT, visible
from inspector.reader.compactions import Cuts
from inspector.reader.steps import FieldView, StepView
from inspector.web.text.folding import FoldedPart
from inspector.web.text.highlight import highlight
from inspector.web.text.markdown import render_markdown
from runner.base.types import Source, Step, ToolCall
from runner.trajectories.fields import place_arguments, tool_call_text
from runner.trajectories.images import list_parts
from runner.trajectories.log_records import Record, read_count

TITLE_CHARS = 200  # of the argument in the title of a call
MAIN_KEYS = (*COMMAND_KEYS, *PATH_KEYS, "pattern", "query", "url", "skill")  # what a call is about
PROSE_CHARS = 8_000  # a longer message is drawn as text, folded
LINE_CHARS = 2_000  # also a message with a longer line: a line of that length is not prose
PROSE_LINES, PROMPT_LINES = 40, 6  # of a message, of a task's prompt that are shown; the others open below
CHUNK_PROSE = 80_000  # characters of Markdown in one answer: drawing it takes time
_MARKDOWN = re.compile(r"[*_`#\[\]<>|~\\&\n]|^\s*(?:[-+]|\d+[.)])\s")
_MARKS = re.compile(r"[*`]+|^#+[ \t]*", re.MULTILINE)
_JSON_BLOCK = re.compile(r"^[{\[]\n(?:[ \t].*\n){1,80}[}\]]$", re.MULTILINE)  # a prompt shows a form and no fences
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ARGUMENT = re.compile(r"([\w-]{1,40}):(?: |(?=\n))")
_SENTENCE = re.compile(r"[.!?:](?:\s|\Z)|\n")
MAX_COLOURED = 6_000  # characters of one text: colours take time, and are for reading
_TARGET = re.compile(r">[ \t]{0,9}['\"]?(?P<file>[\w./~-]{1,200}\.\w{1,5})")
_PYTHON = re.compile(r"\bpython[0-9.]*\b")

Layer = tuple[int, int, str]  # start, end, class


@dataclass(frozen=True, slots=True)
class CardPart:
    """A stretch of a text, shown or folded."""

    part: FoldedPart
    layers: tuple[Layer, ...] = ()  # places within it that have a class, from 0
    hides_size: bool = False  # of a fold that may not say how long it is

    @property
    def is_fold(self) -> bool:
        return self.part.is_fold

    @property
    def more(self) -> str:
        """What opening the fold brings."""
        if self.hides_size:
            return "Show more"
        if self.part.lines is None:
            return f"{self.part.end - self.part.start:,} characters more"
        first, last, _ = self.part.lines
        return f"{last - first + 1:,} lines more"

    @property
    def where(self) -> str:
        if self.hides_size:
            return ""
        size = write_size(self.part.raw) if self.part.raw else f"{self.part.end - self.part.start:,} characters"
        if self.part.lines is None:
            return "" if not self.part.raw else size
        first, last, total = self.part.lines
        return f"lines {first:,} to {last:,} of {total:,} · {size}"

    def cut(self, start: int, end: int) -> CardPart:
        """A stretch of a shown part."""
        raw = self.part.raw[start:end]
        part = FoldedPart(self.part.start + start, self.part.start + start + len(raw), raw)
        return CardPart(part, tuple(_clip(self.layers, start, end)))


def _clip(layers: Iterable[Layer], start: int, end: int) -> Iterator[Layer]:
    """What of the layers is in a stretch, counted from its start."""
    for first, last, kind in layers:
        if first < end and last > start:
            yield max(first, start) - start, min(last, end) - start, kind


@dataclass(frozen=True, slots=True)
class CardText:
    """One field."""

    field: FieldView
    parts: tuple[CardPart, ...]
    head: str = ""  # of a result, how it ended, and how long it is where not all of it is shown
    title: CardPart | None = None  # of a call the argument that names it; it is not among the parts
    images: tuple[Record, ...] = ()  # those that its marks replace


@dataclass(frozen=True, slots=True)
class Act:
    """A call with what came back; `call` None for results that name no call."""

    call: CardText | None
    results: tuple[CardText, ...] = ()
    started: Trajectory | None = None  # of the sub-agent that it started
    notice: str = ""  # shown in place of a hidden one


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
class Facts:
    """What is known of steps besides their texts, by number."""

    deciding: Mapping[int, Sequence[DecidingStep]] = field(default_factory=dict)
    flags: Mapping[int, Sequence[str]] = field(default_factory=dict)
    clocks: Mapping[int, tuple[float | None, float | None]] = field(default_factory=dict)
    cuts: Cuts = field(default_factory=Cuts)
    started: Mapping[str, Trajectory] = field(default_factory=dict)  # by the id of the call that started it
    kinds: Mapping[int, StepKind] = field(default_factory=dict)
    # the word that replaces what a reviewer may not see; then messages stay plain, so that places in them can be
    # marked
    mask: str = ""
    hides_size: bool = False  # of texts that are not at hand


class StepCard:
    """The card of a step.

    `name`: the tool that was called, or how many calls there are; else what kind of step it is. `call`: the one call,
    which names the card. `images`: of the message. `plain`: a message that is not drawn as Markdown. `opening`: a
    system prompt's first line, shown until all of it is opened. `clock`: seconds it took and seconds after the start.
    `texts`: all fields, by name. `empty`: numbers of the empty steps before it.
    """

    def __init__(self, step: StepView, stored: StoredStep, facts: Facts, room: int) -> None:
        """`room`: characters of Markdown that are still drawn."""
        self.step, self.number, self.empty = step, step.number, list[int]()
        self.kind = kind = facts.kinds.get(step.number) or glance_at(stored.step).kind
        self.deciding = facts.deciding.get(step.number, ())
        self.flags = facts.flags.get(step.number, ())
        values = [each.value for each in self.deciding]
        self.texts = {one.name: _draw_text(step, one, stored, facts, values) for one in step.fields}
        message = self.texts.get("message")
        whole = _join(message.field) if message else ""
        if message and _is_nothing(whole, message, stored.step):
            del self.texts["message"]
            message = None
        self.prose, self.plain, self.opening, self.opening_lines = None, message, "", 0
        if message is None:
            pass
        elif kind is StepKind.SYSTEM and whole.count("\n") > 2:
            self.opening, self.opening_lines = _first_sentence(whole), whole.rstrip("\n").count("\n") + 1
        elif facts.mask or not 0 < len(whole) <= min(PROSE_CHARS, room):
            pass
        elif max(map(len, whole.split("\n"))) <= LINE_CHARS:
            self.prose = _draw_prose(whole, PROMPT_LINES if kind is StepKind.TASK else PROSE_LINES)
            self.plain = None
        self.prose_chars = len(whole) if self.prose else 0
        self.images = message.images if message else ()
        self.reasoning = _draw_reasoning(self.texts.get("reasoning"))
        self.acts = list(_pair_acts(step, self.texts, stored, facts.started))
        self.call = self.acts[0].call if len(self.acts) == 1 else None
        tools = step.tools
        self.name = f"{len(tools)} calls" if len(tools) > 1 else tools[0] if tools else str(kind)
        self.cuts = facts.cuts.of_step(step.number, [one.name for one in step.fields if one.parts])
        self.cut_class = "".join(f" {state.kind}-{state.extent}" for state in self.cuts)
        self.clock = facts.clocks.get(step.number, (None, None))
        says = message or self.reasoning or self.acts or self.flags or step.compacted
        self.says_nothing = step.source == "agent" and not says


def fold_empty(cards: Sequence[StepCard]) -> Iterator[StepCard]:
    """The cards without the agent's empty ones: its next card has their numbers."""
    empty: list[StepCard] = []
    for card in cards:
        if card.says_nothing:
            empty.append(card)
        elif empty and card.step.source == "agent":
            card.empty = [one.number for one in empty]
            yield card
            empty = []
        else:
            yield from (*empty, card)
            empty = []
    yield from empty


def draw_cards(steps: Sequence[StepView], stored: Sequence[StoredStep], facts: Facts | None = None) -> list[StepCard]:
    """`stored` has the step of every view."""
    facts = facts or Facts()
    by_number = {found.step.number: found for found in stored}
    room, cards = CHUNK_PROSE, []
    for step in steps:
        card = StepCard(step, by_number[step.number], facts, room)
        room -= card.prose_chars
        cards.append(card)
    return cards


def _is_nothing(whole: str, message: CardText, step: Step) -> bool:
    """Blank; or, of an agent, what programs write that have nothing to say: null, or that they made the call below."""
    if not whole.strip():
        return bool(whole) or not message.field.parts
    calls = {f"Executed {call.name} {call.id}" for call in step.tool_calls}
    return step.source is Source.AGENT and whole.strip() in {"null", *calls} and not message.images


def _pair_acts(
    step: StepView, texts: Mapping[str, CardText], stored: StoredStep, started: Mapping[str, Trajectory]
) -> Iterator[Act]:
    """Fields come in reading order: each call, then its results."""

    def act() -> Act:
        made = _find_call(stored, call.field) if call else None
        return Act(call, tuple(results), started.get(made.id) if made else None)

    call: CardText | None = None
    results: list[CardText] = []
    for one in step.fields:
        if one.kind in ("call", "hidden") or (one.kind == "result" and call and one.label != "result"):
            # A result that names no call must not be read as that of the call before it.
            if call or results:
                yield act()
            call, results = None, []
        if one.kind == "call":
            call = _entitle(texts[one.name])
        elif one.kind == "hidden":
            yield Act(None, notice="".join(part.text for part in one.parts))
        elif one.kind == "result":
            results.append(texts[one.name])
    if call or results:
        yield act()


def _draw_text(step: StepView, one: FieldView, stored: StoredStep, facts: Facts, values: Sequence[str]) -> CardText:
    call = _find_call(stored, one)
    is_recorded = not facts.mask or (call is not None and _join(one) == tool_call_text(call)[len(call.name) + 1 :])
    layers = list(_colour_call(call, one)) if call and is_recorded else []
    if one.kind == "result":
        layers += _colour_result(one, list(filter(None, values)), is_skill=bool(step.skills))
    layers += facts.cuts.of_field(step.number, one.name, one.parts[-1].end if one.parts else 0)
    shown = tuple(_draw_part(part, layers, facts) for part in one.parts)
    head = _head(one, hides_size=facts.hides_size) if one.kind == "result" else ""
    return CardText(one, shown, head, images=tuple(_list_images(stored.step, one)))


def _draw_part(part: FoldedPart, layers: Sequence[Layer], facts: Facts) -> CardPart:
    if part.is_fold:
        return CardPart(part, hides_size=facts.hides_size and not part.raw)
    clipped = list(_clip(layers, part.start, part.end))
    if facts.mask:
        clipped += [(found.start(), found.end(), "mask") for found in re.finditer(re.escape(facts.mask), part.raw)]
    return CardPart(part, tuple(clipped))


def _entitle(text: CardText) -> CardText:
    """The call with the line of its main argument as its title, in place of its key and that line among the parts.

    Main is the first argument of MAIN_KEYS, else the first, where it is short."""
    if not text.parts or text.parts[0].is_fold:
        return text
    first, raw = text.parts[0], text.parts[0].part.raw
    lines = raw.splitlines(keepends=True)
    found, at = [], 0  # (key, where its line, its value and the value's line end)
    for place, line in enumerate(lines):
        match = _ARGUMENT.match(line)
        if not match:
            break
        start, end = at + match.end(), at + len(line)
        if raw[start:end] == "\n":  # the value begins on the next line, and all after it is the value
            if match[1] in MAIN_KEYS and place + 1 < len(lines):
                found.append((match[1], at, end, end + len(lines[place + 1])))
            break
        found.append((match[1], at, start, end))
        at = end
    by_key = {key: (line, start, end) for key, line, start, end in reversed(found)}
    main = next((key for key in MAIN_KEYS if key in by_key), found[0][0] if found else "")
    before, start, end = by_key.get(main, (0, 0, 0))
    is_whole = raw[:end].endswith("\n") or (end == len(raw) and len(text.parts) == 1)  # no fold in its middle
    if not found or not is_whole or not 0 < end - start <= TITLE_CHARS:
        return text
    rest = [first.cut(0, before), first.cut(end, len(raw))]
    title = first.cut(start, end - raw[:end].endswith("\n"))
    return replace(text, title=title, parts=(*(part for part in rest if part.part.raw), *text.parts[1:]))


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


def _head(one: FieldView, *, hides_size: bool) -> str:
    """How a result ended, as far as it says so, and how long it is where it is not shown whole."""
    at_hand = all(part.raw for part in one.parts)
    text = _join(one) if at_hand else (one.parts[-1].raw if one.parts else "")
    code = read_exit_code(text)
    ended = f"exit {code}" if code is not None else "error" if one.is_error else ""
    if not one.length:
        return f"{ended}, no output" if ended else "no output"
    lines = text.rstrip("\n").count("\n") + 1
    size = f"{lines:,} lines" if at_hand else "" if hides_size else f"{one.length:,} characters"
    return " · ".join(filter(None, (ended, size if any(part.is_fold for part in one.parts) else "")))


def _join(one: FieldView) -> str:
    """The whole text; empty where not all of it is at hand."""
    return "".join(part.raw for part in one.parts) if all(part.raw for part in one.parts) else ""


def _draw_reasoning(text: CardText | None) -> Reasoning | None:
    whole = _join(text.field) or (text.parts[0].part.raw if text.parts else "") if text else ""
    if text is None or whole.strip() in ("", "null"):
        return None
    return Reasoning(text, _first_sentence(whole), len(whole.split()))


def _first_sentence(text: str) -> str:
    beginning = _MARKS.sub("", text.strip()[:400])
    match = _SENTENCE.search(beginning, 20)
    return visible(beginning[: match.end()] if match else beginning).strip()


def _draw_prose(text: str, most: int) -> Prose:
    """Whole, or its first `most` lines and what follows up to a blank line outside of a block of code."""
    if "```" not in text:
        text = _JSON_BLOCK.sub(r"\n```\n\g<0>\n```\n", text)
    lines = text.split("\n")
    if len(lines) <= most * 1.3:
        return Prose(_render(text))
    end = next((at for at in range(most, len(lines)) if _may_break(lines, at)), len(lines))
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


# --- colours ----------------------------------------------------------------------------------------------------


def _colour_call(call: ToolCall, one: FieldView) -> Iterator[Layer]:
    """Of what is shown of the call; `one` counts in the call's canonical text."""
    path = next((value for key in PATH_KEYS if isinstance(value := call.arguments.get(key), str)), "")
    for key, start, end in place_arguments(call):
        if len(call.arguments) > 1:
            yield start - len(key) - 2, start - 1, "t"
        if key in COMMAND_KEYS:
            name = "x.sh"
        elif key in CODE_KEYS:
            name = path
        else:
            name = "x.diff" if key in ("patch", "diff") else ""
        for part in one.parts:
            first, last = max(start, part.start), min(end, part.end)
            if name and not part.is_fold and first < last:
                text = part.raw[first - part.start : last - part.start][:MAX_COLOURED]
                for begin, stop, language in _split_script(text) if name == "x.sh" else [(0, len(text), name)]:
                    yield from _colour_text(text[begin:stop], language, first + begin)


def _split_script(text: str) -> list[tuple[int, int, str]]:
    """A shell script, with what it hands to another program or file in that one's language."""
    pieces, at = [], 0
    for one in list_here_documents(text):
        target = _TARGET.search(one.line)
        name = target["file"] if target else "x.py" if _PYTHON.search(one.line) else ""
        if name:
            pieces += [(at, one.start, "x.sh"), (one.start, one.end, name)]
            at = one.end
    return [*pieces, (at, len(text), "x.sh")]


def _colour_text(text: str, name: str, offset: int) -> Iterator[Layer]:
    lines = highlight(text, name) if text and "\r" not in text else None
    if lines is None or sum(len(piece) for line in lines for _, piece in line) + len(lines) - 1 != len(text):
        return
    at = offset
    for line in lines:
        for kind, piece in line:
            if kind:
                yield at, at + len(piece), kind
            at += len(piece)
        at += 1


def _colour_result(one: FieldView, values: Sequence[str], *, is_skill: bool) -> Iterator[Layer]:
    """Values that a check names, once each; a skill that was read as Markdown."""
    for part in one.parts:
        if part.is_fold:
            continue
        for value in values:
            if (at := part.raw.find(value)) >= 0:
                yield part.start + at, part.start + at + len(value), "hit"
        if is_skill:
            yield from _colour_text(part.raw[:MAX_COLOURED], "SKILL.md", part.start)

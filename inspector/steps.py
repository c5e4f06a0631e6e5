"""Steps as a page draws them: every text made visible, folded so that the page stays below its size.

Pure: steps in, values out. Nothing is dropped silently; whatever is folded says how much and can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchapp.trajectory_store import StoredStep
from inspector.excerpt import Kept
from inspector.visible import visible
from runner.trajectories.fields import fields
from runner.types import Source, Step

PAGE_STEPS = 25
PAGE_BYTES = 32_000  # of escaped text on one page of steps
PAGE_FIELDS = 90
ALONE_BYTES = 36_000  # of one step shown alone
ALONE_FIELDS = 110
LEAST_CHARS = 80  # of a field, however full the page
MOST_CHARS = 3_000  # of a field, however empty
PROMPT_CHARS = 900  # of what was not written by the agent: prompts are long and seldom what one looks for
HEAD_SHARE = 0.65  # of what is shown of a folded text; the rest is its end, where errors stand
MAX_SKILLS = 6
MAX_LABEL = 80


@dataclass(frozen=True, slots=True)
class FieldView:
    """One text of a step. Shown are `head` and `tail`; between them `left_out` characters from `start` to `end`.

    `offset` is where `head` begins. Offsets count characters of the field's canonical text (runner.trajectories.fields).
    """

    name: str
    kind: str  # message, reasoning, call, result
    label: str
    head: str
    tail: str = ""
    length: int = 0
    start: int = 0
    end: int = 0
    is_error: bool = False
    offset: int = 0

    @property
    def left_out(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class StepView:
    """`skills`: (slug, how it was used). `kept`: what the compaction took of it, None where it took nothing."""

    number: int
    source: str
    model: str
    time: str
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    is_error: bool
    is_copied: bool
    skills: tuple[tuple[str, str], ...]
    fields: tuple[FieldView, ...]
    fields_left_out: int
    kept: Kept | None

    @property
    def tools(self) -> list[str]:
        return [field.label for field in self.fields if field.kind == "call"]


@dataclass(frozen=True, slots=True)
class Text:
    """A field before folding. `at_hand` may be shorter than `length`: only the beginning of a long text is loaded."""

    name: str
    kind: str
    label: str
    at_hand: str
    length: int
    offset: int  # where at_hand begins in the canonical text
    is_error: bool = False


def draw_steps(
    stored: Sequence[StoredStep],
    *,
    skills: Mapping[int, Sequence[tuple[str, str]]],
    kept: Mapping[int, Kept],
    alone: bool = False,
    texts_of: Callable[[StoredStep], list[Text]] | None = None,
    page_bytes: int = PAGE_BYTES,
) -> list[StepView]:
    """The steps of one page. `skills` and `kept` by step number; `alone` gives one step all the room; `texts_of`
    says what there is to read in a step, where that is not simply its fields; `page_bytes` is all they may take."""
    texts = [(texts_of or _texts)(found) for found in stored]
    most = _fields_per_step([len(found) for found in texts], ALONE_FIELDS if alone else PAGE_FIELDS)
    shown = [found[:most] for found in texts]
    room = _room([text for found in shown for text in found], ALONE_BYTES if alone else page_bytes)
    return [
        _view(
            found.step,
            [_fold(text, min(room, ALONE_BYTES if alone else _most(found.step))) for text in kept_texts],
            len(all_texts) - len(kept_texts),
            skills.get(found.step.number, ()),
            kept.get(found.step.number),
        )
        for found, all_texts, kept_texts in zip(stored, texts, shown, strict=True)
    ]


def _most(step: Step) -> int:
    return MOST_CHARS if step.source is Source.AGENT else PROMPT_CHARS


def _view(
    step: Step, drawn: list[FieldView], left_out: int, skills: Sequence[tuple[str, str]], kept: Kept | None
) -> StepView:
    usage = step.usage
    return StepView(
        number=step.number,
        source=step.source.value,
        model=visible((step.model or "")[:MAX_LABEL]),
        time=visible((step.timestamp or "")[:MAX_LABEL]),
        input_tokens=usage.input_tokens if usage else None,
        cached_tokens=usage.cached_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        is_error=any(observation.is_error for observation in step.observations),
        is_copied=step.is_copied_context,
        skills=tuple(skills[:MAX_SKILLS]),
        fields=tuple(drawn),
        fields_left_out=left_out,
        kept=kept,
    )


def _texts(stored: StoredStep) -> list[Text]:
    """The fields in reading order: each result right after the call it answers."""
    step, found = stored.step, dict(fields(stored.step))
    return [_text(step, name, found[name], stored.long.get(name, len(found[name]))) for name in reading_order(step)]


def reading_order(step: Step) -> list[str]:
    """The names of a step's fields as one reads them."""
    order = [name for name, text in (("message", step.message), ("reasoning", step.reasoning)) if text]
    answers = answers_of(step)
    for index in range(len(step.tool_calls)):
        order += [f"tool_calls/{index}", *(f"observations/{place}" for place in answers.pop(index, ()))]
    return order + [f"observations/{place}" for places in answers.values() for place in places]


def answers_of(step: Step) -> dict[int | None, list[int]]:
    """call index -> its results; None collects results that name no call of this step."""
    calls = {call.id: index for index, call in reversed(list(enumerate(step.tool_calls)))}
    answers: dict[int | None, list[int]] = {}
    for place, observation in enumerate(step.observations):
        call = calls.get(observation.source_call_id) if observation.source_call_id else None
        if call is None and len(step.tool_calls) == 1:
            call = 0
        answers.setdefault(call, []).append(place)
    return answers


def _text(step: Step, name: str, text: str, length: int) -> Text:
    group, _, index = name.partition("/")
    if group == "tool_calls":
        label = step.tool_calls[int(index)].name
        skip = min(len(label) + 1, len(text))  # the name stands in the label
        return Text(name, "call", visible(label[:MAX_LABEL]), text[skip:], length, skip)
    if group == "observations":
        return Text(name, "result", "result", text, length, 0, step.observations[int(index)].is_error)
    return Text(name, group, group, text, length, 0)


def _fields_per_step(counts: Sequence[int], limit: int) -> int:
    """The most fields of a step that may be drawn so that the page has at most `limit`, at least two."""
    most = max(counts, default=0)
    while most > 2 and sum(min(count, most) for count in counts) > limit:
        most -= 1
    return most


def _room(texts: Sequence[Text], page_bytes: int) -> int:
    """The one length to which longer fields are folded, so that the escaped texts fit the page together."""
    left, waiting = page_bytes, sorted(_cost(text.at_hand[:MOST_CHARS]) for text in texts)
    for place, cost in enumerate(waiting):
        share = left // (len(waiting) - place)
        if cost > share:
            return max(share, LEAST_CHARS)
        left -= cost
    return max(left, MOST_CHARS)


def _cost(text: str) -> int:
    """Bytes the text takes in the page: quotes and brackets take five or six."""
    return len(escape(text).encode("utf-8", "replace"))


def _fold(text: Text, room: int) -> FieldView:
    """The text within `room` bytes: its beginning and, where it is at hand, its end."""
    whole_at_hand = text.offset + len(text.at_hand) >= text.length
    if whole_at_hand and _cost(text.at_hand) <= room:
        return FieldView(
            name=text.name,
            kind=text.kind,
            label=text.label,
            head=visible(text.at_hand),
            length=text.length,
            is_error=text.is_error,
            offset=text.offset,
        )
    head = _beginning(text.at_hand, int(room * HEAD_SHARE) if whole_at_hand else room)
    tail = _ending(text.at_hand[len(head) :], room - int(room * HEAD_SHARE)) if whole_at_hand else ""
    return FieldView(
        name=text.name,
        kind=text.kind,
        label=text.label,
        head=visible(head),
        tail=visible(tail),
        length=text.length,
        start=text.offset + len(head),
        end=text.length - len(tail),
        is_error=text.is_error,
        offset=text.offset,
    )


def _beginning(text: str, room: int) -> str:
    """The longest beginning that costs at most `room`, by proportion: near enough, never more."""
    piece = text[:room]
    while piece and (cost := _cost(piece)) > room:
        piece = piece[: min(len(piece) - 1, len(piece) * room // cost)]
    return piece


def _ending(text: str, room: int) -> str:
    piece = text[-room:] if room else ""
    while piece and (cost := _cost(piece)) > room:
        piece = piece[-max(1, min(len(piece) - 1, len(piece) * room // cost)) :] if len(piece) > 1 else ""
    return piece

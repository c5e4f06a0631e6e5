"""One step of a draft: the differences of its files, and the prompt and reply behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchapp.models import Blob, Draft, DraftStep
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.drafts.drafted_steps import DraftedStep, read_steps
from inspector.pages.library.author_call import Prompt, Reply, parse_prompt, parse_reply
from inspector.pages.library.changes import ShownFile, draw_changes

JSON_CHARS = 400_000  # of one text in the twin
DIFF = JsonShape(
    *("path=diff.path", "status=diff.status", "added=diff.added", "removed=diff.removed", "note=diff.note"),
    "lines_left_out=rows_left_out",
)


@dataclass(frozen=True, slots=True)
class StepCall(Shaped):
    """`chosen`: the one file that is shown whole; "" for all, within the room of a page. Without a call, neither text exists (None)."""

    step: DraftedStep
    files: tuple[ShownFile, ...]
    chosen: str
    prompt: Prompt | None
    reply: Reply | None
    before: int | None  # numbers of the steps on both sides
    after: int | None

    json_shape = JsonShape(
        ("step", lambda call: call.step),
        ("diff", lambda call: DIFF.read_all(call.files)),
        ("prompt", lambda call: call.messages),
        ("reply", lambda call: call.reply.text[:JSON_CHARS] if call.reply else None),
    )

    @property
    def messages(self) -> list[dict[str, str]] | None:
        if self.prompt is None:
            return None
        pairs = zip(self.prompt.messages, self.prompt.texts, strict=True)
        return [{"role": message.role, "text": text[:JSON_CHARS]} for message, text in pairs]

    @property
    def files_left_out(self) -> int:
        return 0 if self.chosen else len(self.step.changes) - len(self.files)


def read_call(draft: Draft, number: int, file: str) -> StepCall | None:
    """None where the draft has no step of this number."""
    steps = read_steps(draft)
    place = next((place for place, each in enumerate(steps) if each.row.number == number), None)
    if place is None:
        return None
    step = steps[place]
    chosen = [each for each in step.changes if each.path == file]
    # Several steps may be open on one page: the places of their lines have names of their own.
    drawn = [
        replace(each, index=number * 1_000 + each.index)
        for each in draw_changes(chosen or step.changes, whole=bool(chosen))
    ]
    prompt, reply = _read_texts(step.row)
    sides = (_number_at(steps, place - 1), _number_at(steps, place + 1))
    return StepCall(step, tuple(drawn), file if chosen else "", prompt, reply, *sides)


def _read_texts(row: DraftStep) -> tuple[Prompt | None, Reply | None]:
    contents = Blob.objects.read_many([each for each in (row.request_id, row.reply_id) if each])
    request, reply = (contents.get(each or "") for each in (row.request_id, row.reply_id))
    return (parse_prompt(request) if request else None, parse_reply(reply) if reply else None)


def _number_at(steps: Sequence[DraftedStep], place: int) -> int | None:
    return steps[place].row.number if 0 <= place < len(steps) else None

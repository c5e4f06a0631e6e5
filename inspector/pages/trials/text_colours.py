"""What is coloured in a call and in a result: commands and code by their language, and values that a check names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from benchapp.analysis.deciding.step_glances import CODE_KEYS, PATH_KEYS, list_here_documents
from benchapp.analysis.trial_rules.agent_acts import COMMAND_KEYS
from inspector.web.text.drawn_steps import FieldView
from inspector.web.text.highlight import highlight
from runner.base.types import ToolCall
from runner.trajectories.fields import place_arguments

Layer = tuple[int, int, str]  # start, end, class

MAX_COLOURED = 6_000  # characters of one text: colours take time, and are for reading
_TARGET = re.compile(r">[ \t]{0,9}['\"]?(?P<file>[\w./~-]{1,200}\.\w{1,5})")
_PYTHON = re.compile(r"\bpython[0-9.]*\b")


def colour_call(call: ToolCall, one: FieldView) -> list[Layer]:
    """Of what is shown of the call; `one` counts in the call's canonical text."""
    path = next((value for key in PATH_KEYS if isinstance(value := call.arguments.get(key), str)), "")
    layers: list[Layer] = []
    for key, start, end in place_arguments(call):
        name = (
            "x.sh"
            if key in COMMAND_KEYS
            else path
            if key in CODE_KEYS
            else "x.diff"
            if key in ("patch", "diff")
            else ""
        )
        if len(call.arguments) > 1:
            layers.append((start - len(key) - 2, start - 1, "t"))
        if name:
            layers += _colour_shown(one, start, end, name)
    return layers


def _colour_shown(one: FieldView, start: int, end: int, name: str) -> Iterator[Layer]:
    for part in one.parts:
        first, last = max(start, part.start), min(end, part.end)
        if not part.is_fold and first < last:
            text = part.raw[first - part.start : last - part.start][:MAX_COLOURED]
            pieces = _split_script(text) if name == "x.sh" else [(0, len(text), name)]
            for begin, stop, language in pieces:
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


def colour_result(one: FieldView, values: Sequence[str], *, is_skill: bool) -> list[Layer]:
    """Values that a check names, once each; a skill that was read as Markdown."""
    if one.kind != "result":
        return []
    layers: list[Layer] = []
    for part in one.parts:
        if part.is_fold:
            continue
        for value in values:
            if (at := part.raw.find(value)) >= 0:
                layers.append((part.start + at, part.start + at + len(value), "hit"))
        if is_skill:
            layers += _colour_text(part.raw[:MAX_COLOURED], "SKILL.md", part.start)
    return layers

"""The exact prompt and reply of a recorded call, taken apart for a page: messages under their own headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from benchapp.record.visible import one_line, visible
from inspector.reader.steps import read_reasons

MAX_SECTION = 200_000  # characters of one section on the page; the whole has an address of its own
MAX_SECTIONS = 80  # of one message; the last takes the rest
OPEN_SECTION = 1_200  # a section of no more is open from the start

_HEADING = re.compile(r"#{1,3} +\S")
_FENCE = re.compile(r"(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class PromptSection:
    """A part of a message under one of its own headings."""

    title: str
    text: str
    length: int  # characters
    share: float  # of all characters of the prompt, 0..1
    is_open: bool
    about: str  # the task of the trial that its title names

    @property
    def left_out(self) -> int:
        return max(0, self.length - MAX_SECTION)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt, with its exact text."""

    role: str
    text: str
    sections: tuple[PromptSection, ...]

    @property
    def length(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A recorded request: its messages, and how the model was asked."""

    messages: tuple[Message, ...]
    settings: tuple[tuple[str, str], ...]

    @property
    def length(self) -> int:
        return sum(message.length for message in self.messages)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered."""

    text: str  # exactly
    shown: str
    reasoning: str
    finish_reason: str
    model: str
    failed_tries: tuple[str, ...] = ()  # why it had to be asked again
    not_sent: tuple[str, ...] = ()  # of what was asked for, with the reason


def parse_prompt(request: bytes, titles: Mapping[str, str] | None = None) -> Prompt:
    """Parse a ModelRequest as JSON. Content other than text is shown as JSON.

    `titles`: of tasks, by the key that a prompt uses for their trial.
    """
    raw = orjson.loads(request)
    texts = [
        (str(message.get("role", "?")), _read_content(message.get("content"))) for message in raw.get("messages") or ()
    ]
    length = sum(len(text) for _, text in texts)
    names = ("temperature", "max_tokens", "seed")
    settings = [(name.replace("_", " "), str(raw[name])) for name in names if raw.get(name) is not None]
    if raw.get("json_object"):
        settings.append(("reply format", "JSON"))
    if tools := [str((tool.get("function") or tool).get("name", "?")) for tool in raw.get("tools") or ()]:
        settings.append(("tools", ", ".join(tools)))
    return Prompt(
        tuple(Message(role, text, tuple(_split_sections(text, length, titles or {}))) for role, text in texts),
        tuple(settings),
    )


def _read_content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        return "\n".join(part["text"] for part in content)
    return "" if content is None else orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()


def _split_sections(text: str, whole: int, titles: Mapping[str, str]) -> Iterator[PromptSection]:
    starts = list(_find_starts(text))[:MAX_SECTIONS]
    if not starts or starts[0] > 0:
        starts.insert(0, 0)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        if part.strip() or len(starts) == 1:
            title = one_line(part, 110).lstrip("# ") if _HEADING.match(part) else ""
            heading, _, below = part.strip().partition("\n")
            yield PromptSection(
                title,
                visible(part[:MAX_SECTION].strip("\n")),
                len(part),
                len(part) / (whole or 1),
                # A heading with nothing below says all while it is closed.
                len(part) <= OPEN_SECTION and (bool(below.strip()) or not _HEADING.match(heading)),
                next((task for key, task in titles.items() if key in title), ""),
            )


def _find_starts(text: str) -> Iterator[int]:
    """Yield where a heading begins that is the message's own: none inside a fence, which holds the trials' texts."""
    at, fence = 0, ""
    for line in text.split("\n"):
        if match := _FENCE.match(line):
            if not fence:
                fence = match[1]
            elif line.strip() == fence:
                fence = ""
        elif not fence and _HEADING.match(line):
            yield at
        at += len(line) + 1


def parse_reply(reply: bytes) -> Reply:
    raw = orjson.loads(reply)
    text = str(raw.get("text") or "")
    return Reply(
        text,
        visible(text[:MAX_SECTION]),
        visible(str(raw.get("reasoning") or "")[:MAX_SECTION]),
        str(raw.get("finish_reason") or ""),
        str(raw.get("model") or ""),
        tuple(read_reasons(raw.get("failed_tries"))),
        tuple(str(each) for each in raw.get("not_sent") or ()),
    )

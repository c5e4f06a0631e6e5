"""The exact prompt and reply of a recorded call, taken apart for a page: messages under their own headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import orjson

from benchapp.record.visible import one_line, visible
from inspector.reader.steps import read_reasons

MAX_SECTION = 200_000  # characters of one section on the page; the whole has an address of its own
MAX_SECTIONS = 80  # of one message; the last takes the rest
OPEN_SECTION = 1_200  # a section of no more is open from the start

_HEADING = re.compile(r"#{1,3} +\S")
_FENCE = re.compile(r"(`{3,}|~{3,})")


class PromptSection:
    """A part of a message under one of its own headings. `share`: of all characters of the prompt, 0..1. `about`: the
    task of the trial that its title names."""

    def __init__(self, part: str, whole: int, titles: Mapping[str, str]) -> None:
        heading, _, below = part.strip().partition("\n")
        self.title = one_line(part, 110).lstrip("# ") if _HEADING.match(part) else ""
        self.text, self.length, self.share = (
            visible(part[:MAX_SECTION].strip("\n")),
            len(part),
            len(part) / (whole or 1),
        )
        self.left_out = max(0, len(part) - MAX_SECTION)
        # A heading with nothing below says all while it is closed.
        self.is_open = len(part) <= OPEN_SECTION and (bool(below.strip()) or not _HEADING.match(heading))
        self.about = next((task for key, task in titles.items() if key in self.title), "")


class Message:
    """One message of a prompt, with its exact text."""

    def __init__(self, role: str, text: str, whole: int, titles: Mapping[str, str]) -> None:
        self.role, self.text, self.length = role, text, len(text)
        self.sections = list(_split_sections(text, whole, titles))


class Prompt:
    """A recorded request, a ModelRequest as JSON: its messages, and how the model was asked. Content other than text is
    shown as JSON. `titles`: of tasks, by the key that a prompt uses for their trial."""

    def __init__(self, request: bytes, titles: Mapping[str, str] | None = None) -> None:
        raw = orjson.loads(request)
        messages = raw.get("messages") or ()
        texts = [(str(each.get("role", "?")), _read_content(each.get("content"))) for each in messages]
        self.length = sum(len(text) for _, text in texts)
        self.messages = [Message(role, text, self.length, titles or {}) for role, text in texts]
        names = ("temperature", "max_tokens", "seed")
        self.settings = [(name.replace("_", " "), str(raw[name])) for name in names if raw.get(name) is not None]
        if raw.get("json_object"):
            self.settings.append(("reply format", "JSON"))
        if tools := [str((tool.get("function") or tool).get("name", "?")) for tool in raw.get("tools") or ()]:
            self.settings.append(("tools", ", ".join(tools)))


class Reply:
    """What the model answered: `text` exactly. `failed_tries`: why it had to be asked again. `not_sent`: of what was
    asked for, with the reason."""

    def __init__(self, reply: bytes) -> None:
        raw = orjson.loads(reply)
        self.text = str(raw.get("text") or "")
        self.shown = visible(self.text[:MAX_SECTION])
        self.reasoning = visible(str(raw.get("reasoning") or "")[:MAX_SECTION])
        self.finish_reason, self.model = str(raw.get("finish_reason") or ""), str(raw.get("model") or "")
        self.failed_tries = list(read_reasons(raw.get("failed_tries")))
        self.not_sent = [str(each) for each in raw.get("not_sent") or ()]


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
            yield PromptSection(part, whole, titles)


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

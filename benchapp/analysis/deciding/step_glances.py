"""A step in brief: what kind of act it was, in a line, and which files it wrote. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchapp.analysis.trial_rules.agent_acts import (
    DONE_TOOLS,
    EDITORS,
    LISTERS,
    READERS,
    READING_TOOLS,
    WRITING_TOOLS,
    bare_name,
    list_commands,
)
from runner.base.types import Source, Step, ToolCall
from runner.trajectories.step_outline import subject

LABEL_CHARS = 120
SCANNED_CHARS = 20_000  # of one command
PATH_KEYS = ("file_path", "path", "filename", "absolute_path", "target_file", "notebook_path")
CODE_KEYS = ("content", "file_text", "new_string", "old_string", "new_str", "old_str", "new_source", "text")
SUBMITS = DONE_TOOLS | {"submit", "finish"}

# Harnesses wrap every command in a shell; a column of commands should show only the differences.
_SHELL = re.compile(r"""\A(?:/usr)?(?:/bin/)?(?:ba|z)?sh -l?c +(['"]?)""")
_TARGET = r"(?P<file>[\w.][\w./~+-]{0,200})"
# All are bounded: the texts are hostile. Each has a literal that every match contains, because searching that is much
# faster.
_COMMAND_WRITES = (
    (">", re.compile(rf"(?<![0-9&<>=-])>{{1,2}}[ \t]{{0,9}}(?!/dev/null)['\"]?{_TARGET}")),
    ("tee", re.compile(rf"\btee[ \t]{{1,9}}(?:-a[ \t]{{1,9}})?['\"]?{_TARGET}")),
)
_MOVES = re.compile(r"\b(?:cp|mv|sed -i)\b[^\n|;&]{1,400}")  # the last word is the file
_REMOVES = re.compile(
    r"(?<![\w./-])(?:git[ \t]{1,9})?(?P<act>rm|mv|unlink|rmdir|shred|trash)[ \t](?P<words>[^\n|;&<>]{1,400})"
)
_FINDS = re.compile(
    r"(?<![\w./-])find[ \t][^\n|;&]{0,400}?-name[ \t]{1,9}['\"]?(?P<file>[^\s'\"]{1,200})[^\n|;&]{0,200}-delete\b"
)
_CODE_REMOVES = (
    ("os.", re.compile(rf"\bos\.(?:remove|unlink|rename|replace)\([ \t]{{0,9}}f?['\"]{_TARGET}")),
    ("shutil.", re.compile(rf"\bshutil\.(?:rmtree|move)\([ \t]{{0,9}}f?['\"]{_TARGET}")),
    (".unlink(", re.compile(rf"\bPath\([ \t]{{0,9}}['\"]{_TARGET}['\"]\s{{0,9}}\)\.unlink\(")),
)
_DELETED = (("*** ", re.compile(rf"^\*\*\* Delete File: {_TARGET}", re.MULTILINE)),)
_CODE_WRITES = (
    ("open(", re.compile(rf"\bopen\([ \t]{{0,9}}f?['\"]{_TARGET}['\"]\s{{0,9}},\s{{0,9}}(?:mode\s?=\s?)?['\"][wax]")),
    ("Path(", re.compile(rf"\bPath\([ \t]{{0,9}}['\"]{_TARGET}['\"]\s{{0,9}}\)\.write_")),
    (".to_", re.compile(rf"\.to_(?:csv|json|excel|parquet)\([ \t]{{0,9}}f?['\"]{_TARGET}['\"]")),
    (".save", re.compile(rf"\.save(?:fig)?\([ \t]{{0,9}}f?['\"]{_TARGET}['\"]")),
)
_PATCHED = (("*** ", re.compile(rf"^\*\*\* (?:Add|Update) File: {_TARGET}", re.MULTILINE)),)
_PARTS = re.compile(r"[;|&\n]+")
_LOOKS = (READERS | LISTERS | frozenset("sort uniq cut paste tr cd pwd echo printf".split())) - {"awk", "sqlite3"}
_HERE = re.compile(r"<<-?[ \t]{0,9}['\"]?(?P<end>[A-Za-z_]\w{0,40})")
_EXITS = re.compile(
    r"\[exit code:? (\d{1,3})\]|\A\W{0,2}[Ee]xit code:? (\d{1,3})\b|\bexited with code (\d{1,3})\b|<returncode>(\d{1,3})<"  # noqa: E501
)


# A line that only opens something, such as `python3 -c "`: the next one is more useful.
_OPEN_LINE = re.compile(r"""\A([^\n]{0,60}["'({\\])\s*\n\s*""")


class StepKind(StrEnum):
    SYSTEM = "system"
    TASK = "task"  # the request of a person or the harness to the agent
    COMPACTION = "compaction"  # the program replaced the conversation by a summary
    MESSAGE = "message"
    SHELL = "shell"
    WRITE = "write"
    CALL = "call"
    SUBMIT = "submit"


class StepGlance:
    """`exit_code`: from the result, if it has one. `at`: the recorded time. `writes`: names of files. `through`: (file,
    the written program that writes it). `removes`: names of files, folders or patterns."""

    def __init__(self, step: Step) -> None:
        by_call = [list(list_written_files(call)) for call in step.tool_calls]
        self.number = step.number
        self.writes = tuple(dict.fromkeys(name for found in by_call for name in found))
        self.through = tuple(dict.fromkeys(pair for call in step.tool_calls for pair in _list_written_through(call)))
        self.removes = tuple(dict.fromkeys(name for call in step.tool_calls for name in list_removed_files(call)))
        self.kind = _choose_kind(step, self.writes)
        self.label = _label(step, by_call)
        self.is_error = any(result.is_error for result in step.observations)
        codes = (read_exit_code(result.content) for result in step.observations)
        self.exit_code = next((code for code in codes if code is not None), None)
        self.output_tokens = step.usage.output_tokens if step.usage else None
        self.at = step.timestamp or ""

    @property
    def says_nothing(self) -> bool:
        """Is it a step without any act or word of the agent?"""
        return self.kind is StepKind.MESSAGE and not self.label

    @property
    def is_by_agent(self) -> bool:
        return self.kind not in (StepKind.SYSTEM, StepKind.TASK, StepKind.COMPACTION)


def _choose_kind(step: Step, writes: tuple[str, ...]) -> StepKind:
    if {"compaction", "compact_summary"} & (step.extra or {}).keys():
        return StepKind.COMPACTION
    if step.source is not Source.AGENT:
        return StepKind.SYSTEM if step.source is Source.SYSTEM else StepKind.TASK
    if not step.tool_calls:
        return StepKind.MESSAGE
    if any(bare_name(call) in SUBMITS for call in step.tool_calls):
        return StepKind.SUBMIT
    if writes:
        return StepKind.WRITE
    return StepKind.SHELL if any(True for call in step.tool_calls for _ in list_commands(call)) else StepKind.CALL


def is_look(call: ToolCall) -> bool:
    """Does it only print what exists? Anything that may compute, such as awk or a program, does more."""
    commands = [command[:SCANNED_CHARS] for command in list_commands(call)]
    if not commands:
        return bare_name(call) in READING_TOOLS
    parts = [part for command in commands for part in _PARTS.split(command) if part.strip()]
    return all(posixpath.basename(part.split(maxsplit=1)[0]) in _LOOKS for part in parts)


def list_written_files(call: ToolCall) -> Iterator[str]:
    """Yield names of files that the call writes, as far as its text shows. Files that a program in it would write do
    not count: that program has not run yet."""
    tool = bare_name(call)
    if tool in WRITING_TOOLS or (tool in EDITORS and call.arguments.get("command") != "view"):
        yield from _list_edited_files(call)
        if tool == "apply_patch":
            yield from _find_targets(subject(call), _PATCHED)
        return
    for command in list_commands(call):
        bare, run = _part_command(command)
        yield from _find_targets(bare, _COMMAND_WRITES)
        yield from (posixpath.basename(match.group().split()[-1].strip("'\"")) for match in _MOVES.finditer(bare))
        yield from _find_targets(f"{bare}\n{run}", (*_CODE_WRITES, *_PATCHED))


def list_removed_files(call: ToolCall) -> Iterator[str]:
    """Yield names of files and folders that the call removes or moves, as far as its text shows; some are patterns."""
    if bare_name(call) in WRITING_TOOLS | EDITORS:
        yield from _find_targets(subject(call), _DELETED)
        return
    for command in list_commands(call):
        bare, run = _part_command(command)
        for match in _REMOVES.finditer(bare):
            named = [word.strip("'\"`)(") for word in match["words"].split() if not word.startswith("-")]
            yield from (_name_of(word) for word in (named[:-1] if match["act"] == "mv" else named) if _name_of(word))
        yield from (match["file"] for match in _FINDS.finditer(bare))
        yield from _find_targets(f"{bare}\n{run}", (*_CODE_REMOVES, *_DELETED))


def _part_command(command: str) -> tuple[str, str]:
    """Return the command without its here-documents, and those of them that a program runs."""
    text = command[:SCANNED_CHARS]
    found = list_here_documents(text)
    bare, at = "", 0
    for one in found:
        bare, at = bare + text[at : one.start], one.end
    return bare + text[at:], "\n".join(text[one.start : one.end] for one in found if ">" not in one.line)


def _name_of(path: str) -> str:
    """Return the last part of the path; for `build/*` the folder, which loses everything. Empty for `.` and `..`."""
    name = posixpath.basename(path.rstrip("/").removesuffix("/*"))
    return name if name.strip(".") else ""


@dataclass(frozen=True, slots=True)
class HereDocument:
    """A here-document: what a command passes to a file or a program. `line`: the one that opens it."""

    line: str
    start: int
    end: int


def list_here_documents(text: str) -> list[HereDocument]:
    """Return them in order; one without an end extends to the end of the text."""
    found: list[HereDocument] = []
    if "<<" not in text:
        return found
    at, waiting = 0, ("", "", 0)  # (word that ends it, the line that opened it, where its body begins)
    for line in text.splitlines(keepends=True):
        end, opened, start = waiting
        if not end:
            match = _HERE.search(line)
            waiting = (match["end"], line, at + len(line)) if match else waiting
        elif line.strip() == end:
            found.append(HereDocument(opened, start, at))
            waiting = ("", "", 0)
        at += len(line)
    if waiting[0] and waiting[2] < len(text):
        found.append(HereDocument(waiting[1], waiting[2], len(text)))
    return found


def _list_edited_files(call: ToolCall) -> Iterator[str]:
    values = (call.arguments.get(key) for key in PATH_KEYS)
    yield from (posixpath.basename(value) for value in values if isinstance(value, str) and value)


def _list_written_through(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Yield (file, the program that writes it) for programs that the call writes."""
    for program in _list_edited_files(call):
        for key in CODE_KEYS:
            if isinstance(text := call.arguments.get(key), str):
                yield from ((name, program) for name in _find_targets(text, _CODE_WRITES))
    for command in list_commands(call):
        text = command[:SCANNED_CHARS]
        for one in list_here_documents(text):
            for program in _find_targets(one.line, _COMMAND_WRITES):
                yield from ((name, program) for name in _find_targets(text[one.start : one.end], _CODE_WRITES))


def _find_targets(text: str, patterns: Sequence[tuple[str, re.Pattern[str]]]) -> Iterator[str]:
    found = text[:SCANNED_CHARS]
    telling = [pattern for part, pattern in patterns if part in found]
    matches = sorted((match for pattern in telling for match in pattern.finditer(found)), key=lambda one: one.start())
    for match in matches:
        name = posixpath.basename(match["file"].rstrip("/."))
        if name and not name.isdigit():
            yield name


def read_exit_code(text: str) -> int | None:
    """Return the exit code in the text; None if it has none."""
    match = _EXITS.search(text[:200]) or _EXITS.search(text[-200:])
    return int(next(group for group in match.groups() if group)) if match else None


def _label(step: Step, by_call: Sequence[Sequence[str]]) -> str:
    """Describe what it did, else the first line of its text. `by_call`: the files that each call writes."""
    calls = zip(step.tool_calls, by_call, strict=True)
    about = next((text for call, written in calls if (text := _say_call(call, written))), "")
    if step.source is Source.SYSTEM and not about:
        return "System prompt" if step.number <= 2 else _first_line(step.message) or "system"
    texts = [about, step.message, step.reasoning or "", *(result.content for result in step.observations)]
    return next((line for text in texts if (line := _first_line(text))), "")


def _say_call(call: ToolCall, written: Sequence[str]) -> str:
    command = next(list_commands(call), "")
    if match := _SHELL.match(command):
        command = command[match.end() :].removesuffix(match[1])
    first = next(iter(written), "")
    if first and (not command or _HERE.search(command.partition("\n")[0])):
        return f"write {first}"
    if command:
        return _OPEN_LINE.sub(r"\1 ", command, count=1)
    if bare_name(call) in SUBMITS:
        return call.name
    about = subject(call)
    return f"{call.name} {about}" if about else call.name


def _first_line(text: str) -> str:
    """Return the first line with content, without the marks of a heading; some programs write "null" for nothing."""
    for line in text[: LABEL_CHARS * 40].splitlines():
        words = " ".join(line.strip().lstrip("#>*-` ").split())
        if words and words != "null":
            return words if len(words) <= LABEL_CHARS else words[: LABEL_CHARS - 1] + "…"
    return ""

"""Faults of a Dockerfile that are visible without building it: unknown instructions, files that its context lacks.

Only certain failures are reported. The build checks variables, patterns, addresses, other stages and other frontends.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from runner.base.errors import SuiteError
from runner.base.types import Machine
from runner.sandboxes.docker.docker_contexts import DOCKERFILE, Context, lies_in, read_context

INSTRUCTIONS = (
    *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
    *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
)
_WITH_DOCUMENTS = ("RUN", "COPY", "ADD")
_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
_OFFICIAL = re.compile(r"(?:docker\.io/)?docker/dockerfile(?:-upstream)?(?:[:@]\S+)?")
_SPACES = "\t\v\f\r "  # separators of words; a no-break space or a line separator is part of a word
_WORD = re.compile(f"[^{_SPACES}]+")
_SHELL_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:\\.|[^"\\])*"|'[^']*')+""")
_HEREDOC = re.compile(r"\d*<<(-?)([^<]+)")  # a whole word: the builder takes `<<EOF;` to end at a line `EOF;`
_UNREADABLE = re.compile(r"[$*?\[\\]|^<<|://|^git@")  # a variable, a pattern, a document, an address


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with its continuation lines joined."""

    line: int  # of its beginning, from 1
    name: str  # in capitals
    rest: str  # with continuation lines; documents left out
    unended: str = ""  # the delimiter of a document that has no end


def dockerfile_problems(machine: Machine) -> Iterator[SuiteError]:
    """Yield why the image of a task with a build context certainly cannot be built: file, line, what is wrong."""
    assert machine.context is not None
    path = str(machine.context / DOCKERFILE)
    try:
        context = read_context(machine.context, machine.blank_folders)
    except SuiteError as error:
        yield error
        return
    directives = _directives(context.dockerfile)
    if not _OFFICIAL.fullmatch(directives.get("syntax", "docker/dockerfile")):
        return
    found = list(instructions(context.dockerfile, directives.get("escape", "\\")))
    if not any(each.name == "FROM" for each in found):
        yield SuiteError(path, "file", "FROM", "it builds on no image")
    for each in found:
        for message in _problems(each, context):
            yield SuiteError(path, f"line {each.line}", "", message)


def _problems(instruction: Instruction, context: Context) -> Iterator[str]:
    if instruction.name not in INSTRUCTIONS:
        yield f"unknown instruction {instruction.name[:60]}"
    if instruction.unended:
        yield f"{instruction.name}: no line ends the heredoc {instruction.unended[:60]}"
    for source in _sources(instruction):
        if not _is_sent(source, context):
            yield f"{instruction.name}: {source[:200]} is not in the build context"


def instructions(text: str, escape: str = "\\") -> Iterator[Instruction]:
    """Split as BuildKit does: only a newline ends a line, and a doubled escape does not continue it."""
    continued = re.compile(rf"(?<!{re.escape(escape)}){re.escape(escape)}[ \t]*\Z")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    place = 0
    while place < len(lines):
        begin, whole, goes_on = place, "", True
        while goes_on and place < len(lines):
            line = lines[place]
            place += 1
            if _is_comment(line) or (whole and not line.strip()):  # between the lines of one instruction, or before it
                goes_on = bool(whole)
                continue
            goes_on = continued.search(line) is not None
            whole += continued.sub("", line)
        if words := _WORD.search(whole.strip()):
            name, rest = words[0].upper(), whole.strip()[words.end() :].strip()
            place, unended = _after_documents(lines, place, name, rest)
            yield Instruction(begin + 1, name, rest, unended)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _after_documents(lines: list[str], place: int, name: str, rest: str) -> tuple[int, str]:
    """The place after the documents of an instruction, and the delimiter of an unended one: the rest of the file is
    its text."""
    if (rest.partition(" ")[0].upper() if name == "ONBUILD" else name) not in _WITH_DOCUMENTS:
        return place, ""
    for start in filter(None, map(_HEREDOC.fullmatch, _SHELL_WORD.findall(rest))):
        strips, end = start[1], re.sub(r"[\"'\\]", "", start[2])
        ends = (n for n in range(place, len(lines)) if (lines[n].lstrip("\t") if strips else lines[n]) == end)
        place = next(ends, len(lines)) + 1
        if place > len(lines):
            return place, end
    return place, ""


def _directives(text: str) -> dict[str, str]:
    """`# syntax=...` and `# escape=...`, which must come first."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            break
        found[match[1].lower()] = match[2]
    return found


def _sources(instruction: Instruction) -> Iterator[str]:
    """The files that are certainly copied from the context."""
    if instruction.name not in ("COPY", "ADD"):
        return
    rest = instruction.rest
    while flag := re.match(rf"--[^{_SPACES}]*", rest):
        if flag[0].startswith("--from"):
            return
        rest = rest[flag.end() :].lstrip()
    words = _WORD.findall(rest)
    if rest.startswith("["):
        try:
            words = [word for word in json.loads(rest) if isinstance(word, str)]
        except (ValueError, RecursionError):
            return
    elif '"' in rest or "'" in rest:
        return
    yield from (word for word in words[:-1] if not _UNREADABLE.search(word))


def _is_sent(source: str, context: Context) -> bool:
    """Is it sent to the builder? True as well if only the builder knows: below a link, or in a folder that is sent
    empty."""
    name = os.path.normpath("/" + source).lstrip("/")
    parts = PurePosixPath(name).parts
    if not parts or lies_in(name, context.extra_folders):
        return True
    if any((context.folder / PurePosixPath(*parts[:length])).is_symlink() for length in range(1, len(parts))):
        return True
    return any(lies_in(path, (name,)) for path in (*context.paths, *context.extra_folders, *context.extra_files))

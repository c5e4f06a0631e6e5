"""What can be told of a Dockerfile without building it: instructions that there are not, files that its context lacks.

Only what certainly fails is told. Variables, patterns, addresses, other stages and other frontends are left to the build.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from runner.errors import SuiteError
from runner.sandboxes.docker_contexts import DOCKERFILE, Context, read_context
from runner.types import Machine

INSTRUCTIONS = (
    *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
    *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
)
_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
_OFFICIAL = re.compile(r"(?:docker\.io/)?docker/dockerfile(?:-upstream)?(?:[:@]\S+)?")
_HEREDOC = re.compile(r"(?:^|[\s;|&(])\d*<<(-?)[\"']?([A-Za-z_]\w*)")
_UNREADABLE = re.compile(r"[$*?\[\\]|^<<|://|^git@")  # a variable, a pattern, a document, an address


@dataclass(frozen=True, slots=True)
class Instruction:
    line: int  # of its beginning, from 1
    name: str  # in capitals
    rest: str  # with what goes on in further lines; documents left out


def dockerfile_problems(machine: Machine) -> Iterator[SuiteError]:
    """Why the image of a task with a build context certainly cannot be built: file, line, what was expected."""
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
        place = f"line {each.line}"
        if each.name not in INSTRUCTIONS:
            yield SuiteError(path, place, "an instruction", f"there is no instruction {each.name[:60]}")
        for source in _sources(each):
            if not _is_sent(source, context, machine):
                yield SuiteError(path, place, f"{source[:200]} beside the Dockerfile", f"{each.name}: no such file")


def instructions(text: str, escape: str = "\\") -> Iterator[Instruction]:
    lines = text.splitlines()
    place = 0
    while place < len(lines):
        begin, words = place, ""
        while place < len(lines):
            line = lines[place].strip()
            place += 1
            if words and (not line or line.startswith("#")):  # between the lines of one instruction
                continue
            words += "" if line.startswith("#") else line.removesuffix(escape) + " "
            if not line.endswith(escape) or line.startswith("#"):
                break
        name, _, rest = words.strip().partition(" ")
        if name:
            place = _after_documents(lines, place, name, rest)
            yield Instruction(begin + 1, name.upper(), rest.strip())


def _after_documents(lines: list[str], place: int, name: str, rest: str) -> int:
    """The place behind the documents that an instruction brings along."""
    for strips, end in _HEREDOC.findall(rest) if name.upper() in ("RUN", "COPY", "ADD") else ():
        ends = (n for n in range(place, len(lines)) if (lines[n].lstrip("\t") if strips else lines[n]) == end)
        place = next(ends, place - 1) + 1
    return place


def _directives(text: str) -> dict[str, str]:
    """`# syntax=...` and `# escape=...`, which stand before anything else."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            break
        found[match[1].lower()] = match[2]
    return found


def _sources(instruction: Instruction) -> Iterator[str]:
    """The files of the context that are certainly copied."""
    if instruction.name not in ("COPY", "ADD"):
        return
    rest = instruction.rest
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if flag.startswith("--from"):
            return
    words = rest.split()
    if rest.startswith("["):
        try:
            words = [word for word in json.loads(rest) if isinstance(word, str)]
        except (ValueError, RecursionError):
            return
    elif '"' in rest or "'" in rest:
        return
    yield from (word for word in words[:-1] if not _UNREADABLE.search(word))


def _is_sent(source: str, context: Context, machine: Machine) -> bool:
    """Is it in what is sent to the builder? True as well where only the builder knows: below a link, in a blank folder."""
    name = os.path.normpath("/" + source).lstrip("/")
    parts = PurePosixPath(name).parts
    if not parts or parts[0] in {*machine.blank_folders, *context.extra_folders}:
        return True
    if any((context.folder / PurePosixPath(*parts[:length])).is_symlink() for length in range(1, len(parts))):
        return True
    return any(path == name or path.startswith(f"{name}/") for path in context.paths)

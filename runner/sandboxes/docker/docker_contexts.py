"""A Dockerfile and its build context: its files, its digest, its stream to the engine, and faults that are visible
without a build.

Only certain faults are reported. The build checks variables, patterns, addresses, other stages and other frontends."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from docker.utils.build import exclude_paths

from runner.base.errors import SuiteError
from runner.base.file_digests import FileDigests, look_at, store_for
from runner.base.types import Machine
from runner.sandboxes.archives import END_OF_ARCHIVE, can_be_packed, make_entry, pad_entry, read_pieces

DOCKERFILE = "Dockerfile"
MAX_CONTEXT_BYTES = 8 * 1024**3
# Task folders of one suite copy a folder of skills that the released tasks do not have.
_COPIES_SKILLS = re.compile(r"^\s*(?:COPY|ADD)\s+(?:--\S+\s+)*(?:\./)?skills/?\s", re.IGNORECASE | re.MULTILINE)
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE | re.MULTILINE)
# A line with any number of continuation lines, and the start of a document inside an instruction.
_CONTINUED = re.compile(r"[\\`][ \t]*\r?\n(?:[ \t]*#[^\n]*\n|[ \t]*\r?\n)*")
_HEREDOC = re.compile(
    r"^\s*(?:ONBUILD\s+)?(?:RUN|COPY|ADD)\s(?:[^\n]*?[\s;|&(])?\d*<<-?['\"]?\w", re.IGNORECASE | re.MULTILINE
)
_WORD = re.compile(r"[^\s\"',\[\]]+")
_DELIMITER = re.compile(r"<<(-?)['\"]?(\w[\w.-]*)")


@dataclass(frozen=True, slots=True)
class Context:
    """`paths` are relative to `folder`, sorted. `extra_folders` are sent as empty folders, existing or not, and
    `extra_files` as empty files."""

    folder: Path
    dockerfile: str
    paths: tuple[str, ...]
    extra_folders: tuple[str, ...]
    extra_files: tuple[str, ...] = ()
    name: str = DOCKERFILE  # of the Dockerfile, relative to `folder`

    @property
    def bases(self) -> tuple[str, ...]:
        """The images it builds on, as written, without its own stages."""
        stages: set[str] = set()
        found = []
        for image, stage in _FROM.findall(without_heredocs(self.dockerfile)):
            if image.lower() not in stages and image != "scratch":
                found.append(image)
            stages.add(stage.lower())
        return tuple(dict.fromkeys(found))

    @property
    def has_heredocs(self) -> bool:
        """Does an instruction contain a document? The classic builder of newer engines parses it, leaves it out and
        reports success."""
        return _HEREDOC.search(_CONTINUED.sub(" ", self.dockerfile)) is not None

    def digest(self, bases: tuple[str, ...] = ()) -> str:
        """SHA-256 over every path, mode, link target and content, and over the ids of the images below it.

        Contents of unchanged files are remembered, also across processes: a worker's trials are processes of their own
        (runner/base/file_digests.py explains how a change is detected).
        """
        known = FileDigests(store_for(self.folder.absolute()))
        known.load()
        named = "" if self.name == DOCKERFILE else f"{self.name}\0"
        total = hashlib.sha256(f"{named}context-1\0{'|'.join(bases)}\0{'|'.join(self.extra_folders)}\0".encode())
        for entry, path in self._entries():
            total.update(
                f"{entry.name}\0{entry.type!r}\0{entry.mode:o}\0{entry.linkname}\0".encode("utf-8", "surrogateescape")
            )
            if entry.isreg() and entry.name not in self.extra_files:
                total.update(bytes.fromhex(known.digest(str(path.absolute()), look_at(path.lstat()))))
        known.save()
        return total.hexdigest()

    def stream(self, dockerfile: str | None = None) -> Iterator[bytes]:
        """The context as tar. Links stay links: the engine resolves them inside the context only.

        `dockerfile`: a replacement for the Dockerfile.
        """
        for entry, path in self._entries():
            if dockerfile is not None and entry.name == self.name:
                content = dockerfile.encode("utf-8", "surrogateescape")
                entry.size = len(content)
                yield from pad_entry(entry, iter((content,)))
            else:
                yield from pad_entry(entry, read_pieces(path) if entry.size else iter(()))
        yield END_OF_ARCHIVE

    def _entries(self) -> Iterator[tuple[tarfile.TarInfo, Path]]:
        for name in (*self.extra_folders, *self.extra_files, *self.paths):
            path = self.folder / name
            if name in self.extra_folders:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            elif name in self.extra_files:
                entry = tarfile.TarInfo(name)
            else:
                entry = make_entry(path, name)
            yield entry, path


def without_heredocs(dockerfile: str) -> str:
    """The instructions alone: a line of a document (SQL's FROM) is removed. A document's start without an end is
    kept."""
    kept, lines = [], dockerfile.splitlines()
    place = 0
    while place < len(lines):
        kept.append(lines[place])
        place += 1
        for tabs, delimiter in _DELIMITER.findall(lines[place - 1]):
            rest = [line.lstrip("\t") if tabs else line for line in lines[place:]]
            place += rest.index(delimiter) + 1 if delimiter in rest else 0
    return "\n".join(kept) + "\n"


def read_context(folder: Path, blank: tuple[str, ...] = (), name: str = DOCKERFILE) -> Context:
    """Read the context in `folder` without what .dockerignore names. Folders in `blank` are always sent empty.

    `name`: of the Dockerfile.
    SuiteError if there is no Dockerfile.
    """
    dockerfile = folder / name
    if dockerfile.is_symlink() or not dockerfile.is_file():
        raise SuiteError(str(dockerfile), "file", "a Dockerfile", "there is none")
    text = dockerfile.read_text("utf-8-sig", "replace")  # the builder leaves a byte order mark out as well
    own, common = (
        folder / f"{name}.dockerignore",
        folder / ".dockerignore",
    )  # the first that exists, as in BuildKit
    ignore = own if own.is_file() else common
    patterns = ignore.read_text("utf-8", "replace").splitlines() if ignore.is_file() and not ignore.is_symlink() else []
    wanted = [line.strip() for line in patterns if line.strip() and not line.startswith("#")]
    found = sorted(path for path in exclude_paths(str(folder), wanted, name) if can_be_packed(folder / path))
    paths = tuple(path for path in found if not lies_in(path, blank))
    size = sum((folder / path).lstat().st_size for path in paths)
    if size > MAX_CONTEXT_BYTES:
        raise SuiteError(str(folder), "size", f"at most {MAX_CONTEXT_BYTES:,} bytes", f"{size:,} bytes")
    needs_skills = _COPIES_SKILLS.search(without_heredocs(text)) and not os.path.lexists(folder / "skills")
    named = _select_named(text, [path for path in found if lies_in(path, blank)])
    files = tuple(path for path in named if not (folder / path).is_dir())
    folders = {*blank, *(set(named) - set(files)), *(("skills",) if needs_skills else ())}
    return Context(folder, text, paths, tuple(sorted(folders)), files, name)


def _select_named(dockerfile: str, paths: list[str]) -> list[str]:
    """The paths that the Dockerfile itself names, or a pattern of it: copying one fails if it does not exist."""
    words = set()
    for word in _WORD.findall(dockerfile) if paths else ():
        first, slash, below = word.partition("/")
        if slash:  # without a flag's or a variable's name before it
            words.add(f"{first.rpartition('=')[2]}/{below}".strip("/").removeprefix("./"))
    return [
        path
        for path in paths
        if any(path.count("/") == word.count("/") and fnmatch.fnmatchcase(path, word) for word in words)
    ]


def lies_in(path: str, folders: tuple[str, ...]) -> bool:
    """Is it one of them, or below one?"""
    return f"{path}/".startswith(tuple(f"{folder}/" for folder in folders))


INSTRUCTIONS = (
    *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
    *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
)
_WITH_DOCUMENTS = ("RUN", "COPY", "ADD")
_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
OFFICIAL = re.compile(r"(?:docker\.io/)?docker/dockerfile(?:-upstream)?(?:[:@]\S+)?")
_SPACES = "\t\v\f\r "  # separators of words; a no-break space or a line separator is part of a word
_ARGUMENT = re.compile(f"[^{_SPACES}]+")
_SHELL_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:\\.|[^"\\])*"|'[^']*')+""")
_DOCUMENT = re.compile(r"\d*<<(-?)([^<]+)")  # a whole word: the builder takes `<<EOF;` to end at a line `EOF;`
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
    directives = read_directives(context.dockerfile)
    if not OFFICIAL.fullmatch(directives.get("syntax", ("docker/dockerfile", 0))[0]):
        return
    found = list(instructions(context.dockerfile, directives.get("escape", ("\\", 0))[0]))
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
            if line.lstrip().startswith("#") or (
                whole and not line.strip()
            ):  # between the lines of one instruction, or before it
                goes_on = bool(whole)
                continue
            goes_on = continued.search(line) is not None
            whole += continued.sub("", line)
        if words := _ARGUMENT.search(whole.strip()):
            name, rest = words[0].upper(), whole.strip()[words.end() :].strip()
            place, unended = _after_documents(lines, place, name, rest)
            yield Instruction(begin + 1, name, rest, unended)


def _after_documents(lines: list[str], place: int, name: str, rest: str) -> tuple[int, str]:
    """The place after the documents of an instruction, and the delimiter of an unended one: the rest of the file is
    its text."""
    if (rest.partition(" ")[0].upper() if name == "ONBUILD" else name) not in _WITH_DOCUMENTS:
        return place, ""
    for start in filter(None, map(_DOCUMENT.fullmatch, _SHELL_WORD.findall(rest))):
        strips, end = start[1], re.sub(r"[\"'\\]", "", start[2])
        ends = (n for n in range(place, len(lines)) if (lines[n].lstrip("\t") if strips else lines[n]) == end)
        place = next(ends, len(lines)) + 1
        if place > len(lines):
            return place, end
    return place, ""


def read_directives(text: str) -> dict[str, tuple[str, int]]:
    """Return name -> value and line, from 0, of `# syntax=...` and `# escape=...`, which must come first."""
    found: dict[str, tuple[str, int]] = {}
    for place, line in enumerate(text.splitlines()):
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            break
        found.setdefault(match[1].lower(), (match[2], place))
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
    words = _ARGUMENT.findall(rest)
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

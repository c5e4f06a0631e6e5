"""Changes of files as mails that `git am` applies, byte for byte: the mailbox format of `git format-patch`.

Texts come from strangers. `git am` ends a message at a line that looks like a patch ("diff -", "Index: ", "---"), begins a new
mail at "From ", takes headers from the first lines of a message and may cut at scissors. So every line of a message begins with
a word of ours or with "> ", and no line has scissors. A header is one line, encoded where its text could be read as an encoding.

A file is sent as a binary patch unless `git am` leaves its text alone: it drops carriage returns before line ends.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from base64 import b85encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff
from email.header import Header
from email.utils import format_datetime, formataddr
from itertools import islice

from benchapp.record.textual_change import MAX_LINES, is_binary, split_lines
from benchapp.record.visible import one_line, visible
from runner.base.types import File, Files

ADDRESS = "skill-author@skillglass.invalid"  # RFC 2606: nobody has it
MAX_SUBJECT = 100  # characters
MAX_NAME = 80
ENCODED_BYTES = 52  # on one line of a binary patch
NO_BLOB = "0" * 40
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+@=,~-]+")
_SCISSORS = re.compile(r">(?=[8%])|[8%](?=<)")  # its marks, taken apart
_STRIPPED = re.compile(r"\[|:|re:", re.IGNORECASE)  # what `git am` takes off the front of a subject


@dataclass(frozen=True, slots=True)
class MailedChange:
    """One commit. `author`: a model or a program, never a person. `body`: lines that `own_line` or `quote` made."""

    key: str  # hex digits, another for each commit
    author: str
    at: datetime
    subject: str
    body: Sequence[str]
    before: Files
    after: Files


def render_mails(changes: Iterator[MailedChange], prefix: str) -> Iterator[bytes]:
    """Yield a mail for each change of files. `prefix`: the folder of the repository that holds the files, "skills/"."""
    for change in changes:
        if patch := b"".join(_render_patch(change.before, change.after, prefix)):
            header = [
                f"From {change.key[:40]:0<40} Mon Sep 17 00:00:00 2001",
                f"From: {formataddr((_clean_name(change.author), ADDRESS))}",
                f"Date: {format_datetime(change.at)}",
                f"Subject: [PATCH] {_encode_subject(change.subject)}",
                "MIME-Version: 1.0",
                "Content-Type: text/plain; charset=UTF-8",
                "Content-Transfer-Encoding: 8bit",
            ]
            yield "\n".join([*header, "", *change.body, "---", "", ""]).encode("utf-8", "replace") + patch
            yield b"-- \nSkillglass\n\n"


def own_line(text: str) -> str:
    """Return a line of a message. `text` begins with a word of ours; what follows may be a stranger's."""
    return _SCISSORS.sub(r"\g<0> ", one_line(text, 300))


def quote(text: str) -> list[str]:
    """Return a stranger's text as quoted lines."""
    return [_SCISSORS.sub(r"\g<0> ", f"> {line}".rstrip()) for line in visible(text).strip().split("\n")]


def _clean_name(name: str) -> str:
    return " ".join(re.sub(r"[^A-Za-z0-9._/+ -]", " ", name).split())[:MAX_NAME].strip() or "Skill author"


def _encode_subject(subject: str) -> str:
    line = one_line(subject, MAX_SUBJECT)
    line = f"Skills: {line}" if _STRIPPED.match(line) else line
    return line if line.isascii() and "=?" not in line else Header(line, "utf-8").encode()


# --- the patch ----------------------------------------------------------------------------------------------------------


def _render_patch(before: Files, after: Files, prefix: str) -> Iterator[bytes]:
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if _identify(old) != _identify(new):
            yield from _render_file(prefix + path, old, new)


def _identify(file: File | None) -> tuple[str, str]:
    """Return git's mode and id of a file."""
    if file is None:
        return "", NO_BLOB
    head = f"blob {len(file.content)}\0".encode()
    blob = hashlib.sha1(head + file.content, usedforsecurity=False).hexdigest()
    return "100755" if file.mode & 0o100 else "100644", blob


def _render_file(path: str, old: File | None, new: File | None) -> Iterator[bytes]:
    (old_mode, old_blob), (new_mode, new_blob) = _identify(old), _identify(new)
    left, right = _quote_path(f"a/{path}"), _quote_path(f"b/{path}")
    yield f"diff --git {left} {right}\n".encode()
    if old is None:
        yield f"new file mode {new_mode}\n".encode()
    elif new is None:
        yield f"deleted file mode {old_mode}\n".encode()
    elif old_mode != new_mode:
        yield f"old mode {old_mode}\nnew mode {new_mode}\n".encode()
    if old_blob == new_blob:
        return
    mode = f" {new_mode}" if old_mode == new_mode else ""
    yield f"index {old_blob}..{new_blob}{mode}\n".encode()
    sides = [file.content if file else b"" for file in (old, new)]
    if any(map(_must_be_encoded, sides)) or sum(side.count(b"\n") for side in sides) > MAX_LINES:
        yield b"GIT binary patch\n"
        yield from _encode(sides[1])
        yield from _encode(sides[0])
    elif any(sides):
        yield f"--- {left if old else '/dev/null'}\n+++ {right if new else '/dev/null'}\n".encode()
        left_lines, right_lines = ([line.decode() for line in split_lines(side)] for side in sides)
        for line in islice(unified_diff(left_lines, right_lines), 2, None):
            yield line.encode() if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n".encode()


def _must_be_encoded(content: bytes) -> bool:
    return b"\r" in content or b"\0" in content or is_binary(content)


def _encode(content: bytes) -> Iterator[bytes]:
    """Yield one side of a binary patch: compressed, in lines that begin with their length as a letter."""
    yield f"literal {len(content)}\n".encode()
    packed = zlib.compress(content)
    for start in range(0, len(packed), ENCODED_BYTES):
        line = packed[start : start + ENCODED_BYTES]
        length = chr(len(line) + (64 if len(line) <= 26 else 70))
        yield length.encode() + b85encode(line, pad=True) + b"\n"
    yield b"\n"


def _quote_path(path: str) -> str:
    """Write a path as git does: in quotes with octal bytes where it has anything but plain characters."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in path.encode())
    return f'"{"".join(plain)}"'

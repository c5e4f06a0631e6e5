"""The hunks of one decision, and a later library without some of them.

A hunk is a run of lines that the decision changed, as the time machine shows it, or a whole file (added, removed,
binary, or with a new mode). In a hunk that only adds, each line is also a separate hunk. An echo is the same line in
another file of the frozen library, by any author: while it stays, readers of that file still read it. Taking a hunk
back from a later library follows its lines through every state in between. If one of these touched them, an error names
the state, because guessing would try another change than the one asked about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.textual_change import MAX_LINES, compare_lines, find_changed_runs, split_lines
from benchapp.record.writing.human_acts import NotPossible
from runner.base.digests import digest_bytes, digest_json
from runner.base.types import File, Files

Kind = Literal["lines", "echo", "added", "deleted", "content", "mode"]
BY_LINES = ("lines", "echo")
ID_LENGTH = 10


class HunkGone(NotPossible):
    """The library no longer holds what the hunk wrote, so it cannot be taken back."""


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """One state of a library, by the name the time machine gives it."""

    key: str
    files: Files


@dataclass(frozen=True, slots=True)
class Hunk(Shaped):
    """`old` and `new`: half-open ranges of line numbers from 0, if `kind` is "lines" or "echo"; (0, 0) otherwise."""

    path: str
    kind: Kind
    old: tuple[int, int] = (0, 0)
    new: tuple[int, int] = (0, 0)
    removed: tuple[bytes, ...] = ()  # lines with their ends
    added: tuple[bytes, ...] = ()
    before: File | None = None  # the whole file, where `kind` is not "lines"
    after: File | None = None

    json_shape = JsonShape("id path place did")

    @property
    def id(self) -> str:
        """Return an id that is equal for equal changes at equal places."""
        lines = [digest_bytes(b"".join(side)) for side in (self.removed, self.added)]
        files = [file and [digest_bytes(file.content), file.mode] for file in (self.before, self.after)]
        return digest_json([self.path, self.kind, self.old, self.new, lines, files])[:ID_LENGTH]

    @property
    def lines(self) -> tuple[Hunk, ...]:
        """Return each line that it added, as a hunk; none if it also removed lines, or if a file has no lines.

        Blank lines and the frontmatter are left out: a skill needs its frontmatter.
        """
        if self.kind == "added" and self.after is not None and not _is_one_piece(b"", self.after.content):
            start, added = 0, tuple(split_lines(self.after.content))
            first = _count_frontmatter(added) if self.path.endswith("/SKILL.md") else 0
        elif self.kind == "lines" and not self.removed and len(self.added) > 1:
            start, added, first = self.new[0], self.added, 0
        else:
            return ()
        return tuple(
            Hunk(self.path, "lines", self.old, (start + at, start + at + 1), (), (text,))
            for at, text in enumerate(added)
            if at >= first and text.strip()
        )

    @property
    def place(self) -> str:
        """Return text such as "lines 3-5", of the state after the decision; for an echo, of the frozen state."""
        if self.kind not in BY_LINES:
            return "the mode" if self.kind == "mode" else "the whole file"
        first, last = self.new[0] + 1, self.new[1]
        return f"line {first}" if last == first else f"lines {first}-{last}" if last > first else f"before line {first}"

    @property
    def did(self) -> str:
        """Describe what the decision did here."""
        return {
            "lines": f"{len(self.removed)} removed, {len(self.added)} added",
            "echo": "the same line in another file",
            "added": "added by this decision",
            "deleted": "the file went away",
            "content": "its content was replaced",
            "mode": "its mode changed",
        }[self.kind]


def list_hunks(before: Files, after: Files) -> tuple[Hunk, ...]:
    """List every hunk, by path and then from the top."""
    return tuple(
        hunk
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
        for hunk in _split_file(path, before.get(path), after.get(path))
    )


def find_echoes(hunks: Iterable[Hunk], files: Files) -> tuple[Hunk, ...]:
    """Return lines of `files` that repeat what a hunk added in another file, except headings, which every skill has."""
    paths: dict[bytes, set[str]] = defaultdict(set)
    for hunk in hunks:
        alone = hunk.lines or ((hunk,) if hunk.kind == "lines" and not hunk.removed and len(hunk.added) == 1 else ())
        for line in alone:
            text = line.added[0].strip()
            if not text.startswith(b"#") and any(map(str.isalpha, text.decode(errors="replace"))):
                paths[text].add(hunk.path)
    return tuple(
        Hunk(path, "echo", (at, at), (at, at + 1), (), (text,))
        for path, file in sorted(files.items())
        if not _is_one_piece(b"", file.content)
        for at, text in enumerate(split_lines(file.content))
        if (own := paths.get(text.strip())) and path not in own
    )


def take_back(hunks: Iterable[Hunk], line: Sequence[NamedFiles]) -> dict[str, File]:
    """Return the last library of `line`, the states from the one the decision left, without these hunks.

    Raise HunkGone if a later state changed what a hunk wrote, or if a skill would lose only its SKILL.md.
    """
    asked, last = list(hunks), line[-1].files
    files = dict(last)
    for path in dict.fromkeys(hunk.path for hunk in asked):
        of_path = [hunk for hunk in asked if hunk.path == path]
        for hunk in (each for each in of_path if each.kind not in BY_LINES):
            _take_back_file(hunk, line, files)
        by_lines = [
            _carry(hunk, line if hunk.kind == "lines" else line[-1:]) for hunk in of_path if hunk.kind in BY_LINES
        ]
        if by_lines:
            files[path] = replace(files[path], content=_remove_lines(files[path].content, by_lines))
    _require_whole_skills(last, files)
    return files


def _split_file(path: str, before: File | None, after: File | None) -> list[Hunk]:
    if before is None:
        return [Hunk(path, "added", after=after)]
    if after is None:
        return [Hunk(path, "deleted", before=before)]
    found = [] if before.mode == after.mode else [Hunk(path, "mode", before=before, after=after)]
    if before.content == after.content:
        return found
    if _is_one_piece(before.content, after.content):
        return [*found, Hunk(path, "content", before=before, after=after)]
    old, new = split_lines(before.content), split_lines(after.content)
    for _, i1, i2, j1, j2 in find_changed_runs(old, new):
        found.append(Hunk(path, "lines", (i1, i2), (j1, j2), tuple(old[i1:i2]), tuple(new[j1:j2])))
    return found


def _count_frontmatter(lines: Sequence[bytes]) -> int:
    """Count the lines up to the second `---`; 0 without frontmatter."""
    marks = [at for at, line in enumerate(lines) if line.strip() == b"---"]
    return marks[1] + 1 if len(marks) > 1 and marks[0] == 0 else 0


def _is_one_piece(old: bytes, new: bytes) -> bool:
    return b"\0" in old + new or old.count(b"\n") + new.count(b"\n") > MAX_LINES


# --- through the states after it ----------------------------------------------------------------------------------


def _carry(hunk: Hunk, line: Sequence[NamedFiles]) -> tuple[tuple[int, int], Hunk]:
    """Return the hunk with the range of its lines in the last state."""
    span = hunk.new
    for earlier, later in pairwise(line):
        old, new = earlier.files[hunk.path], later.files.get(hunk.path)
        if new is None:
            raise HunkGone(_explain_gone(hunk, line, f"{later.key} removed the file"))
        if old.content != new.content:
            moved = _follow(span, split_lines(old.content), split_lines(new.content))
            if moved is None:
                raise HunkGone(_explain_gone(hunk, line, f"{later.key} changed those lines"))
            span = moved
    return span, hunk


def _follow(span: tuple[int, int], old: list[bytes], new: list[bytes]) -> tuple[int, int] | None:
    """Return the same lines in the later file; None unless all exist, one after another.

    An empty span is between two lines: they must still be neighbours, or the end of the file must still be its end.
    """
    start, end = span
    for tag, i1, i2, j1, j2 in compare_lines(old, new):
        if tag != "equal":
            continue
        if start < end:
            holds = i1 <= start and end <= i2
        else:
            after_start = i1 < start or (start == j1 == 0)
            before_end = start < i2 or (i2 == len(old) and j2 == len(new))
            holds = i1 <= start <= i2 and after_start and before_end
        if holds:
            return start - i1 + j1, end - i1 + j1
    return None


def _remove_lines(content: bytes, placed: list[tuple[tuple[int, int], Hunk]]) -> bytes:
    """Remove lines from the bottom up, so that the places above stay valid."""
    lines = split_lines(content)
    for (start, end), hunk in sorted(placed, key=lambda each: each[0], reverse=True):
        lines[start:end] = hunk.removed
    return b"".join(lines)


def _take_back_file(hunk: Hunk, line: Sequence[NamedFiles], files: dict[str, File]) -> None:
    for _, later in pairwise(line):
        found = later.files.get(hunk.path)
        if hunk.kind == "mode" and found is None:
            raise HunkGone(_explain_gone(hunk, line, f"{later.key} removed the file"))
        if hunk.kind != "mode" and found != hunk.after:
            did = "brought it back" if hunk.after is None else "removed it" if found is None else "changed it"
            raise HunkGone(_explain_gone(hunk, line, f"{later.key} {did}"))
    if hunk.before is None:  # the file came in
        del files[hunk.path]
    elif hunk.kind == "mode":
        files[hunk.path] = replace(files[hunk.path], mode=hunk.before.mode)
    else:
        files[hunk.path] = hunk.before


def _explain_gone(hunk: Hunk, line: Sequence[NamedFiles], why: str) -> str:
    return (
        f"hunk {hunk.id} ({hunk.path}, {hunk.place}) can no longer be taken back at {line[-1].key}: {why}"
        f" (expected it as {line[0].key} left it; freeze {line[0].key} instead)"
    )


def _require_whole_skills(before: Files, after: Files) -> None:
    """Require whole skills: a folder without SKILL.md but with other files was never part of a library."""
    for path in before:
        slug, _, name = path.partition("/")
        if name == "SKILL.md" and path not in after and any(kept.startswith(f"{slug}/") for kept in after):
            raise HunkGone(f"{slug} would be left without its SKILL.md (expected: its other files taken back as well)")

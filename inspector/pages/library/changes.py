"""The difference of two states of a library: changed files, their tree, and as much of their difference as a page
holds.

Only the contents of the files that are shown are loaded, in one query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchapp.models import Blob, Decision, Snapshot, SnapshotFile
from benchapp.record.textual_change import find_undecided, match_files
from inspector.web.text.diff import DiffBlock, FileDiff, diff_file
from runner.base.digests import digest_bytes
from runner.base.types import Patch

PAGE_ROWS = 700  # lines of all differences on one page
WHOLE_ROWS = 6_000  # of one file, when a reader asks for all of it
PAGE_FILES = 30
PAGE_CHARS = 60_000
WHOLE_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Version:
    """A file as one state has it. `content` only where no blob holds it (a proposed patch)."""

    digest: str
    size: int
    lines: int
    mode: int = 0o644
    content: bytes | None = None


Versions = Mapping[str, Version]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file on both sides. status: A, M, D, R for a file with another name before, or "" for unchanged."""

    path: str
    old: Version | None
    new: Version | None
    renamed_from: str = ""

    @property
    def status(self) -> str:
        if self.old is None:
            return "A"
        if self.new is None:
            return "D"
        if self.renamed_from:
            return "R"
        return "M" if (self.old.digest, self.old.mode) != (self.new.digest, self.new.mode) else ""

    @property
    def status_word(self) -> str:
        return {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "": "unchanged"}[self.status]

    @property
    def latest(self) -> Version:
        """Return the file as the later side has it, else as the earlier one had it."""
        if found := self.new or self.old:
            return found
        raise LookupError(f"{self.path} is on neither side")

    @property
    def size(self) -> int:
        return self.latest.size

    @property
    def mode_note(self) -> str:
        if self.old and self.new and self.old.mode != self.new.mode:
            return f"Mode {self.old.mode:o} became {self.new.mode:o}."
        return ""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file's difference, cut to the room of the page; `rows_left_out`: rows that were not drawn. `has_readers`,
    `has_authors`: whether its lines say who read them, and which of several decisions wrote them."""

    index: int
    diff: FileDiff
    change: FileChange
    rows_left_out: int = 0
    has_readers: bool = False
    has_authors: bool = False


def read_versions(*snapshots: Snapshot | None) -> list[Versions]:
    """Return path -> Version for each snapshot, in one query. Those in memory were read before and never change."""
    wanted = {each.pk: each for each in snapshots if each and "versions" not in vars(each)}
    found: dict[int, dict[str, Version]] = {key: {} for key in wanted}
    files = SnapshotFile.objects.filter(snapshot__in=wanted)
    rows = files.values_list("snapshot", "path", "blob", "size", "lines", "mode")
    for snapshot, path, digest, size, lines, mode in rows:
        found[snapshot][path] = Version(digest, size, lines, mode)
    for each in filter(None, snapshots):
        vars(each).setdefault("versions", found.get(each.pk))
    return [vars(each)["versions"] if each else {} for each in snapshots]


def compare_versions(
    before: Versions, after: Versions, contents: Mapping[str, bytes] | None = None
) -> list[FileChange]:
    """Return every path of either side, sorted, SKILL.md before the other files of its folder. A file that went and
    one that came with its content are one renamed file; with `contents`, also where they are alike."""
    moves = match_files(_list_digests(before), _list_digests(after), contents or {})
    renamed = {move.old for move in moves.values()}
    paths = sorted({*before, *after} - renamed, key=_reading_order)
    sources = {path: moves[path].old if path in moves else "" for path in paths}
    return [FileChange(path, before.get(old or path), after.get(path), old) for path, old in sources.items()]


def _list_digests(versions: Versions) -> dict[str, str]:
    return {path: version.digest for path, version in versions.items()}


def read_changes(
    before: Snapshot | None, after: Snapshot | None, decision: Decision | None
) -> tuple[list[FileChange], bool]:
    """Return the files of both sides, and whether the later side is a proposal: the patch of a refused decision."""
    old, new = read_versions(before, after)
    patch = decision.read_proposal() if decision else None
    if patch:
        new = _propose(old, patch)
    undecided = find_undecided(_list_digests(old), _list_digests(new))
    wanted = [version for side in (old, new) for version in side.values() if version.digest in undecided]
    return compare_versions(old, new, read_contents(wanted) if wanted else {}), patch is not None


def _propose(before: Versions, patch: Patch) -> Versions:
    """Return the versions that a patch asks for, even if it breaks rules.
    A deleted SKILL.md takes its whole skill along."""
    upserts, deletes = patch.upsert_files, patch.delete_paths
    written = {path.partition("/")[0] for path in upserts}
    gone = {path.partition("/")[0] for path in deletes if path.count("/") == 1 and path.endswith("/SKILL.md")} - written
    after = {
        path: version
        for path, version in before.items()
        if path not in set(deletes) and path.partition("/")[0] not in gone
    }
    for path, text in upserts.items():
        content = text.encode("utf-8", "replace")
        mode = before[path].mode if path in before else 0o644
        after[path] = Version(digest_bytes(content), len(content), content.count(b"\n"), mode, content)
    return after


def build_tree(changes: Iterable[FileChange]) -> list[dict[str, object]]:
    """Return the files below their folders, as rows with a name and a depth from 0; a folder has no change."""
    rows: list[dict[str, object]] = []
    open_folders: list[str] = []
    for change in changes:
        *folders, name = change.path.split("/")
        shared = 0
        while shared < min(len(folders), len(open_folders)) and folders[shared] == open_folders[shared]:
            shared += 1
        rows += ({"name": folder, "depth": depth} for depth, folder in enumerate(folders) if depth >= shared)
        open_folders = folders
        rows.append({"name": name, "depth": len(folders), "change": change})
    return rows


def read_contents(versions: Iterable[Version | None]) -> dict[str, bytes]:
    """Return digest -> content. One query for the versions that carry none."""
    wanted = [version for version in versions if version]
    missing = [version.digest for version in wanted if version.content is None]
    at_hand = {version.digest: version.content for version in wanted if version.content is not None}
    return {**(Blob.objects.read_many(missing) if missing else {}), **at_hand}


def draw_changes(changes: Sequence[FileChange], *, whole: bool = False) -> list[ShownFile]:
    """Draw the differences of these files within the page's room.
    A collapsed file keeps its counts and loses its rows."""
    contents = read_contents(version for change in changes[:PAGE_FILES] for version in (change.old, change.new))
    rows_left, chars_left = (WHOLE_ROWS, WHOLE_CHARS) if whole else (PAGE_ROWS, PAGE_CHARS)
    shown = []
    for index, change in enumerate(changes[:PAGE_FILES]):
        old, new = (contents[side.digest] if side else None for side in (change.old, change.new))
        diff = diff_file(change.path, old, new, mode_note=change.mode_note, renamed_from=change.renamed_from)
        if whole:
            diff = replace(diff, is_collapsed=False)
        fitted, rows, chars = _fit(diff, rows_left, chars_left)
        rows_left, chars_left = rows_left - rows, chars_left - chars
        lines_left = sum(len(block.rows) for block in diff.blocks) - rows
        shown.append(ShownFile(index, fitted, change, lines_left))
    return shown


def _fit(diff: FileDiff, rows_left: int, chars_left: int) -> tuple[FileDiff, int, int]:
    """Return (the difference cut to the room, rows drawn, characters drawn)."""
    if diff.is_collapsed:
        return replace(diff, blocks=()), 0, 0
    blocks: list[DiffBlock] = []
    rows_used = chars_used = 0
    for block in diff.blocks:
        kept = []
        for row in block.rows:
            cost = sum(len(piece.text) for piece in row.pieces)
            if rows_used >= rows_left or chars_used + cost > chars_left:
                break
            kept.append(row)
            rows_used += 1
            chars_used += cost
        if kept:
            blocks.append(replace(block, rows=tuple(kept)))
        if len(kept) < len(block.rows):
            break
    return replace(diff, blocks=tuple(blocks)), rows_used, chars_used


def _reading_order(path: str) -> tuple[tuple[int, str], ...]:
    """Sort folder by folder: SKILL.md first, then subfolders, then other files."""
    *folders, name = path.split("/")
    return (*((1, folder) for folder in folders), (0 if name == "SKILL.md" else 2, name))

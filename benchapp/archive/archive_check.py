"""The first reading of an archive, which checks everything against its digest and its model before any write."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from uuid import UUID

from benchapp.archive import FORMAT, MANIFEST, SHARED, ArchiveError
from benchapp.archive.archive_tables import DIGEST, PUBLIC, ArchiveRow, Counts, read_rows
from benchapp.models.blobs import MAX_BLOB_BYTES
from runner.base.digests import LIBRARY_FORMAT, digest_bytes, digest_json
from skillglass.envelope import MAX_LINE, Member, open_members

MAX_MANIFEST = 16 * 1024 * 1024
MAX_CONTENTS = 20_000_000
MAX_TOTAL = 512 * 1024**3  # bytes of all members, as protection from bombs


@dataclass(frozen=True, slots=True)
class Manifest:
    experiment: UUID
    name: str
    record_digest: str
    files: tuple[tuple[str, int, str], ...]  # name, bytes, SHA-256; what runs share comes first
    contents: int
    forked_from: dict[UUID, UUID]
    probe_of: dict[UUID, tuple[UUID, UUID | None]]  # probe -> its origin's episode, the decision it is about


@dataclass(slots=True)
class Checked:
    """What the first reading found. `ids`: public ids by table, which must not be taken here."""

    manifest: Manifest
    counts: Counter[str] = field(default_factory=Counter)
    ids: dict[str, list[UUID]] = field(default_factory=dict)


def check_archive(path: Path) -> Checked:
    """Read the whole file once. Raise ArchiveError for the first fault."""
    with open_members(path) as members:
        manifest = read_manifest(next(members, None))
        found = _Reading(Checked(manifest))
        found.contents(members, manifest.contents)
        found.files(members, manifest)
    return found.checked


def read_manifest(member: Member | None) -> Manifest:
    if member is None or member.name != MANIFEST:
        raise ArchiveError(
            "",
            f"an archive that begins with {MANIFEST}",
            f"it begins with {member.name!r:.80}" if member else "it is empty",
        )
    try:
        raw = json.loads(member.whole(MAX_MANIFEST).decode())
        if raw["format"] != FORMAT:
            message = f"found {raw['format']!r:.60}: another version of Skillglass, or another program, wrote it"
            raise ArchiveError(MANIFEST, f"format {FORMAT}", message)
        return Manifest(
            experiment=UUID(raw["experiment"]["id"]),
            name=str(raw["experiment"]["name"])[:300],
            record_digest=_digest(raw["record_digest"]),
            files=tuple(_read_file(item, place) for place, item in enumerate(raw["files"])),
            contents=_at_most(raw["contents"], MAX_CONTENTS),
            forked_from={UUID(run): UUID(origin) for run, origin in raw["forked_from"].items()},
            probe_of={
                UUID(probe): (UUID(told["episode"]), None if told["decision"] is None else UUID(told["decision"]))
                for probe, told in raw.get("probe_of", {}).items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveError(MANIFEST, "a valid archive manifest", f"{type(error).__name__}: {error}") from error


def _read_file(raw: dict[str, object], place: int) -> tuple[str, int, str]:
    expected = f"runs/{place:05d}.jsonl" if place else SHARED
    if raw["name"] != expected:
        raise ValueError(f"file {place + 1} is {raw['name']!r:.80} (expected {expected})")
    return expected, _at_most(raw["bytes"], MAX_TOTAL), _digest(raw["sha256"])


def _are_hunks(raw: object) -> bool:
    names = ("id", "path", "place", "did")
    return isinstance(raw, list) and all(
        isinstance(hunk, dict) and all(isinstance(hunk.get(name), str) for name in names) for hunk in raw
    )


def _digest(raw: object) -> str:
    if not isinstance(raw, str) or not DIGEST.fullmatch(raw):
        raise ValueError("a digest is 64 hex characters")
    return raw


def _at_most(raw: object, most: int) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= most:
        raise ValueError(f"a number is over {most:,} or none")
    return raw


def read_content(member: Member | None) -> tuple[str, bytes]:
    """Return (digest, content) of the member for one content, which must match its name."""
    if member is None or not member.name.startswith("blobs/") or not DIGEST.fullmatch(digest := member.name[6:]):
        raise ArchiveError(ascii(member.name)[:80] if member else "", "a content named by its digest", "something else")
    content = member.whole(MAX_BLOB_BYTES)
    if (found := digest_bytes(content)) != digest:
        raise ArchiveError(member.name, "a content with the digest it is named after", f"its digest is {found}")
    return digest, content


def iterate_files(
    members: Iterator[Member], manifest: Manifest
) -> Iterator[tuple[tuple[str, int, str], Iterator[ArchiveRow]]]:
    """Yield the manifest's entry and the rows of each file; read its rows before you ask for the next."""
    shared: Counts = {}
    for place, told in enumerate(manifest.files):
        yield told, read_rows(_check_lines(next(members, None), told), told[0], shared, of_run=place > 0)


def _check_lines(member: Member | None, told: tuple[str, int, str]) -> Iterator[bytes]:
    """Yield the lines of a file of rows. A mismatch with the manifest is only found after the last line."""
    name, size, sha256 = told
    if member is None or (member.name, member.size) != (name, size):
        found = f"{member.name!r:.80}, {member.size:,} bytes" if member else "the archive ends"
        raise ArchiveError("", f"{name} of {size:,} bytes", found)
    hashed = hashlib.sha256()
    for line in member.lines(MAX_LINE):
        hashed.update(line + b"\n")
        yield line
    if hashed.hexdigest() != sha256:
        raise ArchiveError(name, "the digest in the manifest", hashed.hexdigest())


class _Reading:
    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self._held: set[bytes] = set()
        self._used: set[bytes] = set()
        self._snapshots: list[tuple[str, dict[str, list[object]]]] = []  # digest, path -> [digest, mode]
        self._total = 0

    def contents(self, members: Iterator[Member], expected: int) -> None:
        before = ""
        for _ in range(expected):
            digest, content = read_content(next(members, None))
            if digest <= before:
                raise ArchiveError(f"blobs/{digest}", "contents sorted, each once", f"it follows {before}")
            before = digest
            self._held.add(bytes.fromhex(digest))
            self._weigh(len(content))

    def _weigh(self, size: int) -> None:
        self._total += size
        if self._total > MAX_TOTAL:
            raise ArchiveError("", f"at most {MAX_TOTAL:,} bytes unpacked", "there is more")

    def files(self, members: Iterator[Member], manifest: Manifest) -> None:
        for (name, size, _), rows in iterate_files(members, manifest):
            self._weigh(size)
            self._file(rows, of_run=name != SHARED)
        if extra := next(members, None):
            raise ArchiveError(ascii(extra.name)[:80], "nothing after the last run", "another file")
        for digest, paths in self._snapshots:
            if digest_json([LIBRARY_FORMAT, paths]) != digest:
                raise ArchiveError(SHARED, "files that add up to their snapshot's digest", f"snapshot {digest}")
        if len(self._used) != len(self._held):
            raise ArchiveError("", "contents that a row names", f"{len(self._held) - len(self._used):,} that none does")
        if self.checked.ids.get("experiment") != [manifest.experiment]:
            raise ArchiveError(SHARED, "the one experiment that the manifest names", "another")

    def _file(self, rows: Iterator[ArchiveRow], *, of_run: bool) -> None:
        before = self.checked.counts["run"]
        for row in rows:
            self.checked.counts[row.table.name] += 1
            self._row(row)
        if of_run and self.checked.counts["run"] != before + 1:
            raise ArchiveError("", "one run in each of its files", "none, or several")

    def _row(self, row: ArchiveRow) -> None:
        for name in row.table.contents:
            if row.values.get(name) is not None:
                digest = bytes.fromhex(row.value_of(name, str))
                if digest not in self._held:
                    raise ArchiveError(row.place, "contents that the archive holds", f"{digest.hex()} is missing")
                self._used.add(digest)
        if row.table in PUBLIC:
            self.checked.ids.setdefault(row.table.name, []).append(row.value_of("public_id", UUID))
        match row.table.name:
            case "snapshot":
                self._snapshots.append((row.value_of("digest", str), {}))
            case "file":
                self._snapshot_file(row)
            case "trajectory":
                row.value_of("attempt", int)  # its owner
                self.checked.counts["steps"] += row.value_of("steps_total", int)
            case "session":
                row.value_of("call", int)
            case "probe" if not _are_hunks(row.values.get("reverted", [])):
                raise ArchiveError(row.place, "hunks as id, path, place and what was done", "something else")

    def _snapshot_file(self, row: ArchiveRow) -> None:
        path = row.value_of("path", str)
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "/".join(parts) != path:
            raise ArchiveError(row.place, "a path inside the library", f"{path!r:.120}")
        if (skill := row.value_of("skill", str)) != parts[0][:200]:
            raise ArchiveError(row.place, "the skill its path begins with", f"{skill!r:.80}")
        self._snapshots[row.value_of("snapshot", int)][1][path] = [row.value_of("blob", str), row.value_of("mode", int)]

"""Import an archive into the record: a first reading checks everything against its digest and its model, to the last
byte, then all of its rows are written in one transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from benchapp.archive import FORMAT, MANIFEST, SHARED, ArchiveError
from benchapp.archive.archive_tables import DIGEST, PUBLIC, TABLES, ArchiveRow, Counts, Stored, read_rows
from benchapp.audit.record_check import Flaw, check_episode, check_remaking, check_trajectories, chunks
from benchapp.models import Blob, Chunk, Decision, Episode, Experiment, Probe, Run, Trajectory
from benchapp.models.blobs import MAX_BLOB_BYTES
from benchapp.record.record_digest import record_digest
from runner.base.digests import LIBRARY_FORMAT, digest_bytes, digest_json
from skillglass.envelope import MAX_LINE, Member, open_members

MAX_MANIFEST = 16 * 1024 * 1024
MAX_CONTENTS = 20_000_000
MAX_TOTAL = 512 * 1024**3  # bytes of all members, as protection from bombs


class Manifest:
    """`files`: (name, bytes, SHA-256); what runs share comes first. `probe_of`: probe -> its origin's episode, the
    decision it is about."""

    def __init__(self, member: Member | None) -> None:
        if member is None or member.name != MANIFEST:
            raise ArchiveError(
                "",
                f"an archive that begins with {MANIFEST}",
                f"it begins with {member.name!r:.80}" if member else "it is empty",
            )
        try:
            self.raw = raw = json.loads(member.whole(MAX_MANIFEST).decode())
            if raw["format"] != FORMAT:
                message = f"found {raw['format']!r:.60}: another version of Skillglass, or another program, wrote it"
                raise ArchiveError(MANIFEST, f"format {FORMAT}", message)
            self.experiment = UUID(raw["experiment"]["id"])
            self.name = str(raw["experiment"]["name"])[:300]
            self.record_digest = _digest(raw["record_digest"])
            self.files = [_read_file(item, place) for place, item in enumerate(raw["files"])]
            self.contents = _at_most(raw["contents"], MAX_CONTENTS)
            self.forked_from = {UUID(run): UUID(origin) for run, origin in raw["forked_from"].items()}
            self.probe_of = {
                UUID(probe): (UUID(values["episode"]), None if values["decision"] is None else UUID(values["decision"]))
                for probe, values in raw.get("probe_of", {}).items()
            }
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
    for place, entry in enumerate(manifest.files):
        yield entry, read_rows(_check_lines(next(members, None), entry), entry[0], shared, of_run=place > 0)


def _check_lines(member: Member | None, entry: tuple[str, int, str]) -> Iterator[bytes]:
    """Yield the lines of a file of rows. A mismatch with the manifest is only found after the last line."""
    name, size, sha256 = entry
    if member is None or (member.name, member.size) != (name, size):
        found = f"{member.name!r:.80}, {member.size:,} bytes" if member else "the archive ends"
        raise ArchiveError("", f"{name} of {size:,} bytes", found)
    hashed = hashlib.sha256()
    for line in member.lines(MAX_LINE):
        hashed.update(line + b"\n")
        yield line
    if hashed.hexdigest() != sha256:
        raise ArchiveError(name, "the digest in the manifest", hashed.hexdigest())


class CheckedArchive:
    """What the first reading found. `ids`: public ids by table, which must not be taken here."""

    def __init__(self, path: Path) -> None:
        """Read the whole file once. Raise ArchiveError for the first fault."""
        self.counts: Counter[str] = Counter()
        self.ids: dict[str, list[UUID]] = {}
        self._held: set[bytes] = set()
        self._used: set[bytes] = set()
        self._snapshots: list[tuple[str, dict[str, list[object]]]] = []  # digest, path -> [digest, mode]
        self._total = 0
        with open_members(path) as members:
            self.manifest = Manifest(next(members, None))
            self._check_contents(members)
            self._check_files(members)

    def _check_contents(self, members: Iterator[Member]) -> None:
        before = ""
        for _ in range(self.manifest.contents):
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

    def _check_files(self, members: Iterator[Member]) -> None:
        for (name, size, _), rows in iterate_files(members, self.manifest):
            self._weigh(size)
            before = self.counts["run"]
            for row in rows:
                self.counts[row.table.name] += 1
                self._check_row(row)
            if name != SHARED and self.counts["run"] != before + 1:
                raise ArchiveError("", "one run in each of its files", "none, or several")
        if extra := next(members, None):
            raise ArchiveError(ascii(extra.name)[:80], "nothing after the last run", "another file")
        for digest, paths in self._snapshots:
            if digest_json([LIBRARY_FORMAT, paths]) != digest:
                raise ArchiveError(SHARED, "files that add up to their snapshot's digest", f"snapshot {digest}")
        if len(self._used) != len(self._held):
            raise ArchiveError("", "contents that a row names", f"{len(self._held) - len(self._used):,} that none does")
        if self.ids.get("experiment") != [self.manifest.experiment]:
            raise ArchiveError(SHARED, "the one experiment that the manifest names", "another")

    def _check_row(self, row: ArchiveRow) -> None:
        for name in row.table.contents:
            if row.values.get(name) is not None:
                digest = bytes.fromhex(row.value_of(name, str))
                if digest not in self._held:
                    raise ArchiveError(row.place, "contents that the archive holds", f"{digest.hex()} is missing")
                self._used.add(digest)
        if row.table in PUBLIC:
            self.ids.setdefault(row.table.name, []).append(row.value_of("public_id", UUID))
        match row.table.name:
            case "snapshot":
                self._snapshots.append((row.value_of("digest", str), {}))
            case "file":
                self._check_snapshot_file(row)
            case "trajectory":
                row.value_of("attempt", int)  # its owner
                self.counts["steps"] += row.value_of("steps_total", int)
            case "session":
                row.value_of("call", int)
            case "probe" if not _are_hunks(row.values.get("reverted", [])):
                raise ArchiveError(row.place, "hunks as id, path, place and what was done", "something else")

    def _check_snapshot_file(self, row: ArchiveRow) -> None:
        path = row.value_of("path", str)
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "/".join(parts) != path:
            raise ArchiveError(row.place, "a path inside the library", f"{path!r:.120}")
        if (skill := row.value_of("skill", str)) != parts[0][:200]:
            raise ArchiveError(row.place, "the skill its path begins with", f"{skill!r:.80}")
        self._snapshots[row.value_of("snapshot", int)][1][path] = [row.value_of("blob", str), row.value_of("mode", int)]

    def refuse_taken(self) -> None:
        """Refuse taken ids. They come from a source or are random, so a taken one is the same thing elsewhere here."""
        for table in PUBLIC:
            ids = self.ids.get(table.name, [])
            for start in range(0, len(ids), ASKED_AT_ONCE):
                rows = table.model._default_manager.filter(public_id__in=ids[start : start + ASKED_AT_ONCE])
                taken = rows.values_list("public_id", flat=True).first()
                if taken is not None:
                    message = f"the {table.name} {taken} exists here in another experiment"
                    raise ArchiveError("", "an experiment that is new here", message)


ROWS_AT_ONCE = 1_000
CONTENT_BYTES_AT_ONCE = 16 * 1024 * 1024
ASKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class TakenIn:
    """`counts`: lines by table, and `steps`. is_new: False if the same record was here already."""

    experiment: Experiment
    is_new: bool
    counts: Counter[str]
    manifest: Manifest

    def link_origins(self) -> int:
        """Link forks and probes to the runs they come from, as far as those are here.
        Return how many links stay open."""
        self._link_forks()
        self._link_probes()
        forks = self.experiment.runs.filter(public_id__in=self.manifest.forked_from, forked_from=None)
        return forks.count() + self._unlinked_probes().count()

    def _link_forks(self) -> None:
        """Link forks to the runs they come from; repeating the import links what was added since."""
        origins: dict[UUID, int] = dict(
            Run.objects.filter(public_id__in=self.manifest.forked_from.values()).values_list("public_id", "pk")
        )
        for run, origin in self.manifest.forked_from.items():
            if origin in origins:
                self.experiment.runs.filter(public_id=run, forked_from=None).update(forked_from=origins[origin])

    def _link_probes(self) -> None:
        """Link probes to the episodes they come from. The episode's own record must produce the library that was
        mounted: anybody can write an id into an archive, and a probe is shown next to the decision it is about."""
        for probe in self._unlinked_probes():
            episode, decision = self.manifest.probe_of[probe.public_id]
            probe.origin = Episode.objects.filter(public_id=episode).select_related("run").first()
            if decision:
                probe.decision = Decision.objects.filter(public_id=decision, episode=probe.origin).first()
            if probe.origin and next(check_remaking(probe), None) is None:
                probe.save(update_fields=["origin", "decision"])

    def _unlinked_probes(self) -> QuerySet[Probe]:
        probes = Probe.objects.filter(run__experiment=self.experiment, origin=None)
        return probes.filter(public_id__in=self.manifest.probe_of)


def take_in(path: Path, *, source: str) -> TakenIn:
    """Import the experiment, with the record digest that the archive names. `source`: the file as the person named it.

    Raise ArchiveError, with nothing changed, if the file is faulty, or another record has its place here.
    """
    checked = CheckedArchive(path)
    existing = Experiment.objects.filter(public_id=checked.manifest.experiment).first()
    if existing is not None:
        if existing.deleted_at is not None:
            raise ArchiveError("", "an experiment that is not here", f"{existing.name} was deleted here: sweep first")
        if (found := record_digest(existing)) != checked.manifest.record_digest:
            here = f"{existing.name} exists here with digest {found}"
            raise ArchiveError("", "the same record as here, or none", here)
        taken = TakenIn(existing, False, checked.counts, checked.manifest)
        taken.link_origins()
        return taken
    checked.refuse_taken()
    with open_members(path) as members:
        manifest = Manifest(next(members, None))
        if manifest.raw != checked.manifest.raw:
            raise ArchiveError("", "a file that does not change", "it changed during the import")
        # Store contents before the rows that refer to them. Unused ones are swept.
        waiting: list[bytes] = []
        for _ in range(manifest.contents):
            waiting.append(read_content(next(members, None))[1])
            if sum(map(len, waiting)) > CONTENT_BYTES_AT_ONCE or len(waiting) >= ROWS_AT_ONCE:
                Blob.objects.put_many(waiting)
                waiting = []
        Blob.objects.put_many(waiting)
        try:
            with transaction.atomic():
                experiment = _ReadRows(manifest, source).write(members)
                taken = TakenIn(experiment, True, checked.counts, manifest)
                taken.link_origins()
                if (digest := record_digest(experiment)) != manifest.record_digest:
                    raise ArchiveError("", f"a record with digest {manifest.record_digest}", f"its rows have {digest}")
                if flaw := next(_flaws(experiment), None):
                    raise ArchiveError("", "a record that holds together", str(flaw))
        except IntegrityError as error:
            raise ArchiveError("", "rows that fit together and are nobody's here", str(error)[:300]) from error
    return taken


@dataclass(slots=True)
class _ReadRows:
    """Turn lines into rows. `keys`: by table, the key of each line's row here."""

    manifest: Manifest
    source: str
    keys: dict[str, list[int]] = field(default_factory=dict)
    fresh: set[tuple[str, int]] = field(default_factory=set)  # lines of shared tables that were not here
    _waiting: list[Model] = field(default_factory=list)

    def write(self, members: Iterator[Member]) -> Experiment:
        for _, rows in iterate_files(members, self.manifest):
            self._file(rows)
        return Experiment.objects.get(pk=self.keys["experiment"][0])

    def _file(self, rows: Iterator[ArchiveRow]) -> None:
        table = None
        for row in rows:
            if row.table is not table:
                self._flush(table.name if table else "")
                table = row.table
                self.keys[table.name] = []
            self._row(row)
        self._flush(table.name if table else "")

    def _row(self, row: ArchiveRow) -> None:
        name = row.table.name
        points_at_its_own = any(
            target == name and row.values.get(column) is not None for column, target in row.table.references.items()
        )
        if points_at_its_own or len(self._waiting) >= ROWS_AT_ONCE:
            self._flush(name)  # the key of the line it points at must be known
        values = self._with_keys(row)
        if row.table.known_by:
            self._add_shared(row, values)
            return
        if name == "experiment":
            # What ran elsewhere is imported: nobody here continues it. Synthetic stays synthetic.
            is_synthetic = values.get("origin") == Experiment.Origin.SYNTHETIC
            origin = Experiment.Origin.SYNTHETIC if is_synthetic else Experiment.Origin.IMPORTED
            values |= {"source": self.source[:1000], "origin": origin}
        if name == "trial" and values.get("is_done"):
            values["settled_at"] = timezone.now()
        self._waiting.append(row.table.model(**values))

    def _with_keys(self, row: ArchiveRow) -> dict[str, Stored]:
        values = {}
        for name, value in row.values.items():
            column = row.table.columns[name]
            if value is not None and (target := row.table.references.get(name)):
                value = self.keys[target][row.value_of(name, int)]
            values[column.attname] = value
        return values

    def _add_shared(self, row: ArchiveRow, values: dict[str, Stored]) -> None:
        """Add a shared row. An existing one stays unchanged."""
        table = row.table
        parent = table.references.get(table.known_by[0])
        if parent is None or (parent, row.value_of(table.known_by[0], int)) not in self.fresh:
            known = {table.columns[name].attname: values[table.columns[name].attname] for name in table.known_by}
            if found := table.model._default_manager.filter(**known).values_list("pk", flat=True).first():
                self._flush(table.name)
                self.keys[table.name].append(found)
                return
        self.fresh.add((table.name, row.number))
        self._waiting.append(table.model(**values))

    def _flush(self, table: str) -> None:
        if self._waiting:
            made = TABLES[table].model._default_manager.bulk_create(self._waiting)
            self.keys[table] += [row.pk for row in made]
            self._waiting = []


def _flaws(experiment: Experiment) -> Iterator[Flaw]:
    of_trials = Q(attempt__trial__episode__run__experiment=experiment)
    of_authors = Q(call__episode__run__experiment=experiment)
    trajectories = Trajectory.objects.filter(of_trials | of_authors)
    yield from check_trajectories(trajectories)
    yield from chunks(Chunk.objects.filter(trajectory__in=trajectories))
    for run in experiment.runs.all():
        for episode in run.episodes.select_related("run__experiment", "run__forked_from", "library"):
            yield from check_episode(episode)

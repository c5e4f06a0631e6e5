"""Write one experiment into an archive. Memory: the keys of one run's rows and the digests of its contents."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.db.models import Model, Q, QuerySet

from benchapp import models
from benchapp.archive import FORMAT, MANIFEST, SHARED, ArchiveError
from benchapp.archive.archive_tables import RUN_TABLES, SHARED_TABLES, ArchiveTable, encode_value
from benchapp.record.record_digest import record_digest
from runner.base.var_folder import MANAGE
from skillglass.envelope import Writer, open_writer

READ_AT_ONCE = 200  # contents fetched in one query
ROWS_AT_ONCE = 2_000
NOT_IN_IT = (
    "reviews, labels, comments, saved comparisons, the activity log, hosts, workers, paths; "
    "findings and the search index, which are made again from the record"
)

Numbers = dict[int, int]  # key of a row -> its place among the lines of its table


@dataclass(frozen=True, slots=True)
class WrittenArchive:
    """`sha256`: of the file, for its recipients."""

    record_digest: str
    runs: int
    contents: int
    bytes: int
    sha256: str


def write_archive(experiment: models.Experiment, target: Path) -> WrittenArchive:
    """Write the whole experiment as one file, which appears when complete. `.tar.zst`, or by its name `.tar.gz`.

    Raise ArchiveError while something of it is running, or if its record changed during the export.
    """
    running = models.Attempt.objects.filter(
        trial__episode__run__experiment=experiment, status=models.Attempt.Status.RUNNING
    )
    if experiment.is_open or running.exists():
        found = f"{experiment.name} is running: cancel or pause it first"
        raise ArchiveError("", "an experiment that is not running", found)
    digest = record_digest(experiment)
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        rows = _WrittenRows(experiment, Path(folder))
        files = list(rows.write())
        contents = sorted(rows.contents)
        manifest = _manifest(experiment, digest, files, contents)
        unfinished = Path(folder, "archive")
        with unfinished.open("wb") as stream:
            with open_writer(stream, zipped=target.name.endswith((".gz", ".tgz"))) as writer:
                writer.add_bytes(MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False).encode())
                _write_contents(writer, contents)
                for file in files:
                    with file.path.open("rb") as rows_file:
                        writer.add(file.name, rows_file, file.bytes)
            stream.flush()
            os.fsync(stream.fileno())
        if record_digest(experiment) != digest:
            raise ArchiveError("", "a record that does not change", "it changed during the export: export it again")
        with unfinished.open("rb") as whole:
            sha256 = hashlib.file_digest(whole, "sha256").hexdigest()
        unfinished.chmod(0o644)
        size = unfinished.stat().st_size
        unfinished.replace(target)
    return WrittenArchive(digest, len(files) - 1, len(contents), size, sha256)


def _manifest(
    experiment: models.Experiment, digest: str, files: list[_File], contents: list[bytes]
) -> dict[str, object]:
    probes = models.Probe.objects.filter(run__experiment=experiment).exclude(origin=None).order_by("public_id")
    forks = experiment.runs.exclude(forked_from=None).values_list("public_id", "forked_from__public_id")
    return {
        "format": FORMAT,
        "made_by": f"Skillglass {settings.VERSION}",
        "experiment": {"id": str(experiment.public_id), "name": experiment.name},
        "record_digest": digest,
        "forked_from": {str(run): str(origin) for run, origin in forks.order_by("public_id")},
        "probe_of": {
            str(probe): {"episode": str(origin), "decision": str(decision) if decision else None}
            for probe, origin, decision in probes.values_list("public_id", "origin__public_id", "decision__public_id")
        },
        "files": [{"name": file.name, "bytes": file.bytes, "sha256": file.sha256} for file in files],
        "contents": len(contents),
        "not_in_it": NOT_IN_IT,
    }


def _write_contents(writer: Writer, digests: list[bytes]) -> None:
    for start in range(0, len(digests), READ_AT_ONCE):
        wanted = [digest.hex() for digest in digests[start : start + READ_AT_ONCE]]
        found = 0
        for blob in models.Blob.objects.filter(digest__in=wanted).order_by("digest").iterator(chunk_size=4):
            writer.add_bytes(f"blobs/{blob.digest}", blob.content())
            found += 1
        if found != len(wanted):
            raise ArchiveError("", "every content of the record", f"one is missing: {MANAGE} check_record names it")


# --- rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    """Rows already on disk."""

    name: str
    path: Path
    bytes: int
    sha256: str


class _WrittenRows:
    def __init__(self, experiment: models.Experiment, folder: Path) -> None:
        self.experiment = experiment
        self.folder = folder
        self.contents: set[bytes] = set()  # digests, as bytes: there may be very many
        self._shared: dict[str, Numbers] = {}

    def write(self) -> Iterator[_File]:
        yield self._file(SHARED, _shared_rows(self.experiment), self._shared)
        runs = self.experiment.runs.order_by("public_id").values_list("pk", flat=True)
        for place, run in zip(count(1), runs, strict=False):
            mine = {table: table.model._default_manager.filter(**{table.within: run}) for table in RUN_TABLES}
            yield self._file(f"runs/{place:05d}.jsonl", mine, dict(self._shared))

    def _file(self, name: str, tables: dict[ArchiveTable, QuerySet[Model]], numbers: dict[str, Numbers]) -> _File:
        path = self.folder / name.replace("/", "-")
        hashed, size = hashlib.sha256(), 0
        with path.open("wb") as stream:
            for table, rows in tables.items():
                numbers[table.name] = {}
                for line in self._lines(table, rows, numbers):
                    size += stream.write(line)
                    hashed.update(line)
        return _File(name, path, size, hashed.hexdigest())

    def _lines(self, table: ArchiveTable, rows: QuerySet[Model], numbers: dict[str, Numbers]) -> Iterator[bytes]:
        names, mine = list(table.columns), numbers[table.name]
        attributes = [field.attname for field in table.columns.values()]
        for key, *values in rows.order_by(*table.order).values_list("pk", *attributes).iterator(ROWS_AT_ONCE):
            row = dict(zip(names, map(encode_value, values), strict=True))
            try:
                for name, target in table.references.items():
                    if isinstance(referred := row[name], int):
                        row[name] = numbers[target][referred]
                line = json.dumps([table.name, row], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            except (KeyError, ValueError) as error:
                raise ArchiveError("", f"a {table.name} that can be written", f"row {key}: {error!r}") from error
            digests = (row[name] for name in table.contents)
            self.contents.update(bytes.fromhex(digest) for digest in digests if isinstance(digest, str))
            mine[key] = len(mine)
            yield line.encode() + b"\n"


def _shared_rows(experiment: models.Experiment) -> dict[ArchiveTable, QuerySet[Model]]:
    """Return what its runs share with others: only the tasks it has trials of, with everything they belong to."""
    episodes = models.Episode.objects.filter(run__experiment=experiment)
    trials = models.Trial.objects.filter(episode__run__experiment=experiment)
    decisions = models.Decision.objects.filter(episode__run__experiment=experiment)
    seedings = models.Seeding.objects.filter(entry__episode__run__experiment=experiment)
    seals = models.Seal.objects.filter(entry__episode__run__experiment=experiment)
    probes = models.Probe.objects.filter(run__experiment=experiment)
    judged = models.JudgedUnit.objects.filter(judging__run__experiment=experiment)
    revisions = models.TaskRevision.objects.filter(pk__in=trials.values("task_revision"))
    tasks = models.Task.objects.filter(
        Q(pk__in=trials.values("task"))
        | Q(pk__in=revisions.values("task"))  # another task if suites were joined
        | Q(pk__in=judged.values("task"))
    )
    families = models.Family.objects.filter(
        Q(pk__in=tasks.values("family"))
        | Q(pk__in=episodes.values("family"))
        | Q(pk__in=decisions.values("family"))
        | Q(pk__in=seedings.values("family"))
    )
    environments = models.Environment.objects.filter(
        Q(pk__in=families.values("environment")) | Q(pk__in=episodes.values("environment"))
    )
    suites = models.Suite.objects.filter(
        Q(pk=experiment.suite_id)
        | Q(pk__in=tasks.values("suite"))
        | Q(pk__in=families.values("suite"))
        | Q(pk__in=environments.values("suite"))
    )
    snapshots = models.Snapshot.objects.filter(
        Q(pk__in=trials.values("snapshot"))
        | Q(pk__in=episodes.values("library"))
        | Q(pk__in=decisions.values("before"))
        | Q(pk__in=decisions.values("after"))
        | Q(pk__in=seedings.values("snapshot"))
        | Q(pk__in=seals.values("snapshot"))
        | Q(pk__in=probes.values("frozen"))
        | Q(pk__in=probes.values("library"))
        | Q(pk__in=judged.values("snapshot"))
    )
    rows: tuple[QuerySet[Any], ...] = (
        suites,
        environments,
        families,
        tasks,
        revisions,
        models.KeyPoint.objects.filter(task__in=tasks),
        models.TaskGroup.objects.filter(task__in=tasks),
        snapshots,
        models.SnapshotFile.objects.filter(snapshot__in=snapshots),
        models.Experiment.objects.filter(pk=experiment.pk),
    )
    return dict(zip(SHARED_TABLES, rows, strict=True))

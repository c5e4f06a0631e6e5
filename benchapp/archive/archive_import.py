"""Import an archive into the record: checked to its last byte first, then all of its rows in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Model, Q
from django.utils import timezone

from benchapp.archive import ArchiveError
from benchapp.archive.archive_check import Checked, Manifest, check_archive, iterate_files, read_content, read_manifest
from benchapp.archive.archive_tables import PUBLIC, TABLES, ArchiveRow, Stored
from benchapp.audit.record_check import Flaw, check_episode, check_remaking, check_trajectories, chunks
from benchapp.models import Blob, Chunk, Decision, Episode, Experiment, Probe, Run, Trajectory
from benchapp.record.record_digest import record_digest
from skillglass.envelope import Member, open_members

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
        """Link forks and probes to the runs they come from, as far as those are here. Return how many links stay open."""
        _link_forks(self.experiment, self.manifest)
        _link_probes(self.experiment, self.manifest)
        forks = self.experiment.runs.filter(public_id__in=self.manifest.forked_from, forked_from=None)
        probes = Probe.objects.filter(
            run__experiment=self.experiment, public_id__in=self.manifest.probe_of, origin=None
        )
        return forks.count() + probes.count()


def take_in(path: Path, *, source: str) -> TakenIn:
    """Import the experiment, with the record digest that the archive names. `source`: the file as the person named it.

    Raise ArchiveError, with nothing changed, if the file is faulty, or another record has its place here.
    """
    checked = check_archive(path)
    standing = Experiment.objects.filter(public_id=checked.manifest.experiment).first()
    if standing is not None:
        if standing.deleted_at is not None:
            raise ArchiveError("", "an experiment that is not here", f"{standing.name} was deleted here: sweep first")
        if (found := record_digest(standing)) != checked.manifest.record_digest:
            here = f"{standing.name} exists here with digest {found}"
            raise ArchiveError("", "the same record as here, or none", here)
        taken = TakenIn(standing, False, checked.counts, checked.manifest)
        taken.link_origins()
        return taken
    _refuse_taken(checked)
    with open_members(path) as members:
        manifest = read_manifest(next(members, None))
        if manifest != checked.manifest:
            raise ArchiveError("", "a file that does not change", "it changed during the import")
        _put_contents(members, manifest.contents)
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


def _refuse_taken(checked: Checked) -> None:
    """Refuse taken ids. They come from a source or are random, so a taken one is the same thing elsewhere here."""
    for table in PUBLIC:
        ids = checked.ids.get(table.name, [])
        for start in range(0, len(ids), ASKED_AT_ONCE):
            some = ids[start : start + ASKED_AT_ONCE]
            taken = table.model._default_manager.filter(public_id__in=some).values_list("public_id", flat=True).first()
            if taken is not None:
                message = f"the {table.name} {taken} exists here in another experiment"
                raise ArchiveError("", "an experiment that is new here", message)


def _put_contents(members: Iterator[Member], total: int) -> None:
    """Store contents before the rows that refer to them. Unused ones are swept."""
    waiting: list[bytes] = []
    for _ in range(total):
        waiting.append(read_content(next(members, None))[1])
        if sum(map(len, waiting)) > CONTENT_BYTES_AT_ONCE or len(waiting) >= ROWS_AT_ONCE:
            Blob.objects.put_many(waiting)
            waiting = []
    Blob.objects.put_many(waiting)


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


def _link_forks(experiment: Experiment, manifest: Manifest) -> None:
    """Link forks to the runs they come from, if those are here; repeating the import links what was added since."""
    origins: dict[UUID, int] = dict(
        Run.objects.filter(public_id__in=manifest.forked_from.values()).values_list("public_id", "pk")
    )
    for run, origin in manifest.forked_from.items():
        if origin in origins:
            experiment.runs.filter(public_id=run, forked_from=None).update(forked_from=origins[origin])


def _link_probes(experiment: Experiment, manifest: Manifest) -> None:
    """Link probes to the episodes they come from, if those are here. The episode's own record must produce the library
    that was mounted: anybody can write an id into an archive, and a probe is shown next to the decision it is about."""
    for probe in Probe.objects.filter(run__experiment=experiment, origin=None, public_id__in=manifest.probe_of):
        episode, decision = manifest.probe_of[probe.public_id]
        probe.origin = Episode.objects.filter(public_id=episode).select_related("run").first()
        probe.decision = Decision.objects.filter(public_id=decision, episode=probe.origin).first() if decision else None
        if probe.origin and next(check_remaking(probe), None) is None:
            probe.save(update_fields=["origin", "decision"])


def _flaws(experiment: Experiment) -> Iterator[Flaw]:
    of_trials = Q(attempt__trial__episode__run__experiment=experiment)
    of_authors = Q(call__episode__run__experiment=experiment)
    trajectories = Trajectory.objects.filter(of_trials | of_authors)
    yield from check_trajectories(trajectories)
    yield from chunks(Chunk.objects.filter(trajectory__in=trajectories))
    for run in experiment.runs.all():
        for episode in run.episodes.select_related("run__experiment", "run__forked_from", "library"):
            yield from check_episode(episode)

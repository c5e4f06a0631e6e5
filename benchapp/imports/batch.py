"""Run one import from start to end, with its ImportBatch, what it imported and what it could not read.

Every format is asked, in turn, what it claims below a path. A reader that fails costs no other one its folders; the
failure is reported.
"""

from __future__ import annotations

import fcntl
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from django.db import connection, transaction
from django.utils import timezone

from benchapp.analysis.diagnoses.diagnosis_queue import enqueue_reading, select_with_library
from benchapp.archive import ENDINGS, ArchiveError
from benchapp.imports.audited_edits import Author
from benchapp.imports.formats import AUTO, HARBOR, format_names, load_formats, loose_files, whole_folders
from benchapp.imports.harbor import harbor_folders
from benchapp.imports.import_map import ImportMap
from benchapp.imports.import_recording import ExperimentRecorder
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading.found_sources import FoundExperiment, FoundTrial
from benchapp.imports.reading.found_trials import FoundRow
from benchapp.imports.reading.unread import ARCHIVES, NO_LOGS, is_history, report_files
from benchapp.imports.reading.walking import NOT_ENTERED, FolderEntry, Root
from benchapp.imports.tools import git_skills
from benchapp.models import Episode, ImportBatch, ImportedExperiment, ImportProblem, Run, SkillUse, User
from benchapp.record.collecting import collect_seldom
from benchapp.record.error_text import is_of_machine
from benchapp.search.indexing import follow
from runner.base.text import storable
from runner.base.types import UseKind

if TYPE_CHECKING:
    from benchapp.archive.archive_import import TakenIn

logger = logging.getLogger(__name__)
COUNTED = (
    "experiments",
    "runs",
    "trials",
    "attempts",
    "trajectories",
    "steps",
    "snapshots",
    "skills",
    "skills_read",
    "created",
    "changed",
    "unchanged",
)
OK, NOTHING_READ, WITH_PROBLEMS = 0, 1, 3

Progress = Callable[[str, int, int, str], None]  # (experiment, done, total, path): of its trials and libraries
REST_LEFT_OUT, NOT_CLAIMED = "the rest of it is left out", "not read as such"
CLAIMED_DEPTH = 6  # how deep below the given folder to search for folders of these formats


@dataclass(slots=True)
class ImportReport:
    """What an import did. `counts` has the names in COUNTED, `redactions` and `tasks_joined`: `skills` are those of
    libraries, `skills_read` names that trials of these runs read, called or executed."""

    batch: str = ""  # public id, "" before the import has begun
    counts: Counter[str] = field(default_factory=Counter)
    problems: ProblemList = field(default_factory=ProblemList)

    @property
    def total(self) -> int:
        """Attempts and libraries that were imported, now or before."""
        return self.counts["attempts"] + self.counts["snapshots"]

    @property
    def exit_status(self) -> int:
        if not self.total:
            return NOTHING_READ
        return WITH_PROBLEMS if len(self.problems) else OK

    def as_json(self) -> dict[str, object]:
        counts = {name: self.counts[name] for name in COUNTED}
        return {**counts, "problems": [problem.as_json() for problem in self.problems]}


def import_paths(
    paths: Iterable[str | Path],
    *,
    format: str = AUTO,
    mapping: ImportMap | None = None,
    progress: Progress | None = None,
    waiting: Callable[[str], None] = logger.info,
    begun: Callable[[ImportBatch], None] = lambda batch: None,
    names: Mapping[Path, str] = MappingProxyType({}),
    user: User | None = None,
    processes: int = 1,
    continued: ImportBatch | None = None,
) -> ImportReport:
    """Import everything readable below the paths. It is safe to repeat, to kill, and to start several times at once.
    `waiting` gets a line about the import to wait for, `begun` the batch when its turn has come. `names`: the record's
    name of a path, if another. `processes`: how many read new trials. `continued`: the import that read these paths
    before, while they grew: what it created adds up, and its problems are replaced."""
    given = [Path(path) for path in paths]
    run = _Import(format, mapping or ImportMap(), progress, Author(user, "import_runs"), processes, names)

    def wait() -> None:
        running = ImportBatch.objects.filter(status=ImportBatch.Status.RUNNING).first()
        named = f" ({', '.join(running.paths)}, begun {running.started_at:%H:%M:%S} UTC)" if running else ""
        waiting(f"Another import is running{named}; this one waits until it ends.")

    with turn(wait), collect_seldom():
        # Only one import runs at a time, so another batch with status "running" was killed.
        stale = ImportBatch.objects.filter(status=ImportBatch.Status.RUNNING)
        stale.update(status=ImportBatch.Status.INTERRUPTED, finished_at=timezone.now())
        shown = [storable(run.name(path)) for path in given]
        if continued is None or continued.undone_at:
            run.batch = ImportBatch.objects.create(paths=shown, format=format, actor=user)
        else:
            run.batch, run.created_before = continued, continued.counts.get("created", 0)
            run.readings = continued.counts.get("readings", 1) + 1
            run.batch.problems.all().delete()
            run.batch.status, run.batch.finished_at = ImportBatch.Status.RUNNING, None
            run.batch.save(update_fields=["status", "finished_at"])
        run.report.batch = str(run.batch.public_id)
        try:
            begun(run.batch)
            for path in given:
                run.import_path(path)
                run.save()
            run.link_archives()
            run.mapping.report_unused(run.report.problems)
        except BaseException:
            run.save(status=ImportBatch.Status.INTERRUPTED)
            raise
        used = SkillUse.objects.filter(attempt__trial__episode__run__in=run.runs).exclude(kind=UseKind.MOUNTED)
        run.report.counts["skills_read"] = used.values("skill").distinct().count()
        run.save(status=ImportBatch.Status.DONE)
    # Let a worker index the new runs and diagnose libraries; without one, `index_search` and `diagnose_libraries` do.
    # All libraries of the experiment are queued, as each is compared with all its trials. Finished ones are skipped.
    follow()
    enqueue_reading(select_with_library(Episode.objects.filter(run__experiment__in=run.experiments)))
    return run.report


@dataclass(slots=True)
class _Import:
    format: str
    mapping: ImportMap
    progress: Progress | None
    author: Author
    processes: int
    names: Mapping[Path, str]
    batch: ImportBatch = field(init=False)
    report: ImportReport = field(default_factory=ImportReport)
    experiments: set[int] = field(default_factory=set)
    runs: set[int] = field(default_factory=set)
    archives: list[tuple[Path, TakenIn]] = field(default_factory=list)
    rows: dict[str, str] = field(default_factory=dict)  # path of each trial that a row describes, by its id
    saved: int = 0
    created_before: int = 0  # by earlier readings of a continued import
    readings: int = 1

    def name(self, path: Path) -> str:
        return self.names.get(path, str(path))

    def import_path(self, path: Path) -> None:
        problems, name = self.report.problems, self.name(path)
        try:
            path.stat()
        except FileNotFoundError:
            problems.add(name, "", "a folder", "there is nothing")
            return
        except OSError as error:
            problems.add(name, "", "a folder that can be read", error.strerror or str(error))
            return
        if path.is_file() and path.name.endswith(ENDINGS):
            self._import_archive(path)
            return
        before, problems_before = self.report.total, len(problems)
        is_folder = path.is_dir()
        shown = Path(name)
        root = Root(shown if is_folder else shown.parent, problems, at=path if is_folder else path.parent)
        for found in find(root, self.format) if is_folder else find_file(root, path, self.format):
            self._import_experiment(found)
        if self.report.total > before:
            return
        if is_folder:
            formats = ", ".join(format_names())
            problems.add(
                name, "", f"jobs, trials, runs or logs in one of the formats {formats}", "none was found in it"
            )
        elif owner := find_owner(path):
            problems.add(name, "", "a folder or a single log file", f"a part of {owner}; import that folder")
        elif len(problems) == problems_before:
            expected = "a folder or a single log file"
            problems.add(name, "", expected, "another file, or an archive; unpack it first")

    def _import_archive(self, path: Path) -> None:
        """Import our own export: all of it or nothing."""
        # It brings the checks of a record, which other imports do without.
        from benchapp.archive.archive_import import take_in

        counts = self.report.counts
        try:
            taken = take_in(path, source=storable(self.name(path)))
        except ArchiveError as error:
            message = f"{error.message}; nothing was changed"
            self.report.problems.add(self.name(path), error.place, error.expected, message)
            return
        self.archives.append((path, taken))
        self.experiments.add(taken.experiment.pk)
        self.note_arrivals([taken.experiment.pk], is_new=taken.is_new)
        self.runs |= set(taken.experiment.runs.values_list("pk", flat=True))
        tables = {"trials": "trial", "attempts": "attempt", "trajectories": "trajectory", "snapshots": "snapshot"}
        counts.update({name: taken.counts[table] for name, table in tables.items()} | {"steps": taken.counts["steps"]})
        counts["created" if taken.is_new else "unchanged"] += taken.counts["attempt"]

    def link_archives(self) -> None:
        """Link probes to the run that they reran, which may be imported later: archives are given in any order."""
        for path, taken in self.archives:
            if still_open := taken.link_origins():
                expected = "the runs that its forks and probes come from, imported before it or with it"
                message = f"{still_open} not linked: it is not here, so import it and then this archive again; or it made another library"  # noqa: E501
                self.report.problems.add(self.name(path), "manifest.json", expected, message)

    def _import_experiment(self, found: FoundExperiment) -> None:
        if found.trials:
            found = replace(found, trials=self._keep_first(found.trials))
            if not found.trials:  # a copy, or what claims to be one: the history of the first stays, too
                return
        total = len(found.trials) + found.libraries_total + len(found.histories)
        if not total and not found.key_points:  # its reader has reported why
            return
        recorder = ExperimentRecorder(
            found.source, self.mapping, self.report.problems, self.author, self.report.counts, self.processes
        )
        places = recorder.places
        self.experiments.add(places.experiment.pk)
        self.note_arrivals([places.experiment.pk], is_new=places.is_new or places.was_deleted)
        done = count(1)

        def show_progress() -> None:
            if self.progress is not None:
                self.progress(found.source.name, next(done), total, found.source.path)

        with transaction.atomic():
            for task, key_points in found.key_points:
                places.put_key_points(task, key_points)
        with self._reporting(found.source.path):
            for library in found.libraries:
                recorder.record_library(library)
                show_progress()
        for run in recorder.record_trials(found.trials):
            self.runs.add(run)
            show_progress()
        for history in found.histories:
            with self._reporting(history.path):
                recorder.record_history(history)
            show_progress()
        recorder.remapping.finish()
        if places.is_new and found.trials and not places.experiment.runs.exists():
            self.experiments.discard(places.experiment.pk)  # all its trials came in with another folder
            places.experiment.delete()
            return
        recorder.keep_quiet()
        with_library = Run.objects.filter(experiment=places.experiment, episodes__library__isnull=False)
        self.runs |= set(with_library.values_list("pk", flat=True))

    def _keep_first(self, trials: Sequence[FoundTrial]) -> tuple[FoundTrial, ...]:
        """Leave out, with a report, trials with the id of another one of this import: they would replace each other
        each time."""
        kept, again = list[FoundTrial](), list[tuple[str, str]]()
        for trial in trials:
            first = self.rows.setdefault(trial.ids[0], trial.path) if isinstance(trial, FoundRow) else trial.path
            kept += [trial] if first == trial.path else []
            again += [] if first == trial.path else [(trial.path, first)]
        if again:
            path, first = again[0]
            message = f"that of {first}; left out" + (f", as are {len(again) - 1:,} more" if len(again) > 1 else "")
            self.report.problems.add(path, "id", "an id of its own for every trial", message)
        return tuple(kept)

    @contextmanager
    def _reporting(self, path: str) -> Iterator[None]:
        """Report that a library or its history could not be read; the rest comes in."""
        try:
            yield
        except Exception as error:
            if is_of_machine(error):
                raise
            logger.exception("reading the library in %s failed", path)
            expected = "a library and its history that can be read"
            self.report.problems.add(path, "", expected, f"{type(error).__name__}: {error}; left out")

    def note_arrivals(self, experiments: Iterable[int], *, is_new: bool) -> None:
        """Record that the import read these experiments. Earlier notes stay."""
        ImportedExperiment.objects.bulk_create(
            (ImportedExperiment(batch=self.batch, experiment_id=pk, is_new=is_new) for pk in experiments),
            ignore_conflicts=True,
        )

    def save(self, status: str = ImportBatch.Status.RUNNING) -> None:
        batch = self.batch
        self.report.counts["experiments"], self.report.counts["runs"] = len(self.experiments), len(self.runs)
        problems = list(self.report.problems)
        read = Run.objects.filter(pk__in=self.runs).values_list("experiment", flat=True)
        with transaction.atomic():
            self.note_arrivals(set(read), is_new=False)
            ImportProblem.objects.bulk_create(
                ImportProblem(batch=batch, **asdict(problem)) for problem in problems[self.saved :]
            )
            batch.counts = {name: self.report.counts[name] for name in (*COUNTED, "redactions")}
            batch.counts["created"] += self.created_before
            batch.counts["readings"] = self.readings
            batch.status = status
            batch.finished_at = None if status == ImportBatch.Status.RUNNING else timezone.now()
            batch.save(update_fields=["counts", "status", "finished_at"])
        self.saved = len(problems)


LOCK = 0x696D706F727473  # "imports": one key per database
ENDING = "-imports.lock"


def turn(waiting: Callable[[], None]) -> AbstractContextManager[None]:
    """Hold the database for one import. `waiting` is called once where another import must end first."""
    connection.ensure_connection()  # a database that cannot be opened raises its own error
    if connection.vendor == "postgresql":
        return _turn_on_server(waiting)
    return _turn_beside(Path(connection.settings_dict["NAME"]), waiting)


@contextmanager
def _turn_on_server(waiting: Callable[[], None]) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        is_free = cursor.fetchone()[0]
    if not is_free:
        waiting()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    try:
        yield
    finally:
        if connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


@contextmanager
def _turn_beside(database: Path, waiting: Callable[[], None]) -> Iterator[None]:
    with database.with_name(database.name + ENDING).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find(root: Root, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Find every experiment below the folder, in the given format or in any."""
    quiet = root.mute()
    if format == AUTO:
        for point, wrong in load_formats()[1].items():
            root.report(root.base, point, "a format that can be loaded", f"{wrong}; what it would read is left out")
        found = None
        for found in _find_all(root, quiet, root.base):
            yield found
        if found is None:
            yield from git_skills.find_without_history(root, root.base)
        return
    module = load_formats()[0][format]
    if format == HARBOR:
        yield from module.find(root, root.base)
        return
    wholes = (module,) if module in (*whole_folders(), *whole_folders(shared=True)) else ()
    claimed = [folder for folder, _ in _find_claimed(quiet, root.base, CLAIMED_DEPTH, wholes)]
    for folder in claimed:
        yield from _find_in(root, folder, module)
    if module in loose_files():
        yield from _find_loose(root, _walk_loose(root, quiet, root.base, frozenset(claimed), 0), (module,))
    elif not claimed:
        yield from _find_in(root, root.base, module)


def find_file(root: Root, path: Path, format: str = AUTO) -> Iterator[FoundExperiment]:
    """Find what one file holds; nothing unless it is a single log. `root` is its folder."""
    modules = tuple(module for module in loose_files() if format in (AUTO, module.NAME))
    entries = [entry for entry in root.listing(root.base)[1] if entry.path.name == path.name]
    yield from _find_loose(root, entries, modules)


def find_owner(path: Path) -> str:
    """Return the name of the folder that a file belongs to, its own or the one above, if a format reads that whole."""
    for folder in path.resolve().parents[:2]:
        quiet = Root(folder, ProblemList())
        if harbor_folders.claims(quiet, folder) or any(
            _is_claimed(quiet, quiet, folder, each) for each in whole_folders()
        ):
            return storable(folder.name)
    return ""


def _find_all(root: Root, quiet: Root, top: Path) -> Iterator[FoundExperiment]:
    claimed = dict(_find_claimed(quiet, top, CLAIMED_DEPTH, whole_folders(), root))
    for folder, module in claimed.items():
        yield from _find_in(root, folder, module)
        for other in module.others(quiet, folder) if hasattr(module, "others") else ():
            yield from _find_all(root, quiet, other)
    if top in claimed:
        return
    for folder, module in _find_claimed(quiet, top, CLAIMED_DEPTH, whole_folders(shared=True), root):
        if not any(folder.is_relative_to(owned) for owned in claimed):
            yield from _find_in(root, folder, module)
    yield from harbor_folders.find(root, top, skip=claimed)
    entries = _walk_loose(quiet, quiet, top, frozenset(claimed), 0)  # Harbor's walk reports what it cannot enter
    yield from _find_loose(root, entries, loose_files())


@contextmanager
def _reporting(root: Root, path: Path, module: ModuleType, outcome: str) -> Iterator[None]:
    """Report what a format raises, and what comes of it (`outcome`): it ends only that format's own reading."""
    try:
        yield
    except Exception as error:
        if is_of_machine(error):
            raise
        logger.exception("the format %s failed at %s", module.NAME, path)
        message = f"its reader failed: {type(error).__name__}: {error}; {outcome}"
        root.report(path, "", f"what {module.TITLE} writes", message)


def _find_in(root: Root, folder: Path, module: ModuleType) -> Iterator[FoundExperiment]:
    with _reporting(root, folder, module, REST_LEFT_OUT):
        yield from module.find(root, folder)


def _find_claimed(
    quiet: Root, folder: Path, depth: int, modules: tuple[ModuleType, ...], root: Root | None = None
) -> Iterator[tuple[Path, ModuleType]]:
    """Yield the folders that a format claims as a whole, with that format. `root`: where a failure is reported."""
    module = next((each for each in modules if _is_claimed(root or quiet, quiet, folder, each)), None)
    if module is not None:
        yield folder, module
    own = getattr(module, "OWN", None)
    if depth and (own or (module is None and not harbor_folders.claims(quiet, folder))):
        for sub in quiet.listing(folder)[0]:
            if sub.name not in (own or ()) and sub.name not in NOT_ENTERED:
                yield from _find_claimed(quiet, sub, depth - 1, modules, root)


def _is_claimed(root: Root, quiet: Root, folder: Path, module: ModuleType) -> bool:
    with _reporting(root, folder, module, NOT_CLAIMED):
        return bool(module.claims(quiet, folder))
    return False


def _walk_loose(root: Root, quiet: Root, folder: Path, skip: frozenset[Path], depth: int) -> Iterator[FolderEntry]:
    """Yield the files outside every folder that is a job, a trial, or claimed by another format."""
    if folder in skip or harbor_folders.claims(quiet, folder) or root.is_too_deep(folder, depth):
        return
    folders, files = root.listing(folder)
    yield from files
    for sub in folders:
        if sub.name not in NOT_ENTERED:
            yield from _walk_loose(root, quiet, sub, skip, depth + 1)


def _find_loose(
    root: Root,
    entries: Iterable[FolderEntry],
    modules: tuple[ModuleType, ...],
) -> Iterator[FoundExperiment]:
    """Find experiments in single files, and report the others."""
    found: dict[ModuleType, list[FolderEntry]] = {module: [] for module in modules}
    left: list[FolderEntry] = []
    for entry in entries:
        able = [module for module in modules if entry.path.suffix.lower() in module.SUFFIXES]
        module = next((module for module in able if _is_one(root, entry, module)), None)
        if module is not None:
            found[module].append(entry)
        elif entry.path.name.lower() in NO_LOGS:
            continue
        elif able or entry.path.suffix.lower() in ARCHIVES or is_history(root, entry):
            left.append(entry)
    for module, mine in found.items():
        if mine:
            with _reporting(root, mine[0].path.parent, module, REST_LEFT_OUT):
                yield from module.find_files(root, mine)
    named = [(module, mine) for module, mine in found.items() if mine and hasattr(module, "is_companion")]
    companions = [module.is_companion(mine) for module, mine in named]
    report_files(root, (entry for entry in left if not any(belongs(entry) for belongs in companions)))


def _is_one(root: Root, entry: FolderEntry, module: ModuleType) -> bool:
    with _reporting(root, entry.path, module, NOT_CLAIMED):
        try:
            return bool(module.claims_file(root, entry))
        except OSError as error:
            root.report_unreadable(entry.path, error)
    return False

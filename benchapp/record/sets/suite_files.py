"""The available suites, bundled or loaded from a folder of this machine, and their rows: environments, families, tasks
with their current revisions, and task groups. Groups of a mapping file win over those that a suite declares.

The record also has the files of a loaded suite, for machines without the folder it was loaded from. Such a machine
writes them into a cache in the var folder, one folder for each list of files, named by its digest.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import NotRequired, TypeAlias, TypedDict

from django.db import transaction

from benchapp import models
from benchapp.models.blobs import MAX_BLOB_BYTES
from benchapp.models.suites import TaskGroupQuerySet
from benchapp.record.sets.joined_suites import join_by_content
from benchapp.record.writing.human_acts import note_activity
from runner.base.digests import digest_json
from runner.base.errors import Account, SetupError, SuiteError
from runner.base.file_digests import IGNORED
from runner.base.suite import Suite
from runner.base.text import escape_unprintable, replace_unprintable
from runner.base.trees import check_relative, links_below, make_room, measure, remove_tree
from runner.base.types import Task, TaskGroups
from runner.base.var_folder import MANAGE, var_folder
from runner.suites import SUITES, find_naming_folder, format_of, load_suite, read_suite_folder, roots_of
from runner.suites.families import FamilyChoice, GroupMapping, regroup
from runner.suites.harbor_digests import harbor_digests
from runner.suites.tasks.task_groups import FAMILY

Kind = models.SuiteFile.Kind
FoundFile = tuple[str, str, Path]  # path below the suite's folder, kind, place

LONGEST_PATH = 1_000
MAX_FILES = 20_000
MAX_BYTES = 256 * 1024**2  # of all files of a suite
CACHE_BYTES = 5 * 1000**3
UNUSED_SECONDS = 24 * 60 * 60  # a trial may still read files of a folder that was used since
PART = ".part"


# --- into the record --------------------------------------------------------------------------------------------------


def list_files(folder: Path, format: str) -> list[FoundFile]:
    """List what a reader of this format looks at. ValueError has the reason why the record cannot hold it."""
    _name_in_cache(folder)
    found: dict[str, FoundFile] = {}
    size = 0
    for place in _walk(folder, roots_of(folder, format)):
        path, status = place.relative_to(folder).as_posix(), place.lstat()
        if path in found:  # one root may be below another
            continue
        shown = escape_unprintable(path)[:200]
        if len(path) > LONGEST_PATH or not path.isprintable():
            raise ValueError(f"the name of {shown} cannot be recorded")
        check_relative(path)
        kind = _kind_of(status.st_mode)
        if kind is None:
            raise ValueError(f"{shown} is neither a file nor a link")
        if kind == Kind.LINK and _leads_out(place, folder):
            raise ValueError(f"{shown} is a link that leads out of the folder")
        found[path] = (path, kind, place)
        size += status.st_size if stat.S_ISREG(status.st_mode) else 0
        if status.st_size > MAX_BLOB_BYTES:
            raise ValueError(f"{shown} is larger than {MAX_BLOB_BYTES // 1024**2} MB")
        if len(found) > MAX_FILES or size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_FILES:,} files or {MAX_BYTES // 1024**2} MB")
    return sorted(found.values())


def _walk(folder: Path, roots: Iterable[Path]) -> Iterator[Path]:
    """Yield every file, link and empty folder in the roots. No link is followed."""
    real, waiting = Path(os.path.realpath(folder)), list(roots)
    for root in waiting:
        if not root.is_relative_to(folder):
            raise ValueError(f"{escape_unprintable(str(root))[:200]}, which is read too, is outside the folder")
        if root != folder and os.path.realpath(root.parent) != str(real / root.parent.relative_to(folder)):
            raise ValueError(f"{escape_unprintable(str(root.relative_to(folder)))[:200]} is behind a link")
    while waiting:
        place = waiting.pop()
        is_folder = place.is_dir() and (place == folder or not place.is_symlink())
        if is_folder and (below := [each for each in place.iterdir() if each.name not in IGNORED]):
            waiting += below
        elif os.path.lexists(place):
            yield place


def _kind_of(mode: int) -> Kind | None:
    if stat.S_ISREG(mode):
        return Kind.EXECUTABLE if mode & stat.S_IXUSR else Kind.FILE
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.FOLDER if stat.S_ISDIR(mode) else None


def _leads_out(link: Path, folder: Path) -> bool:
    """An absolute link does too: the folder has another place elsewhere."""
    return link.readlink().is_absolute() or not Path(os.path.realpath(link)).is_relative_to(os.path.realpath(folder))


def record_files(suite: models.Suite, found: Sequence[FoundFile]) -> None:
    """Replace the suite's files in the record by these. Call it in a transaction."""
    suite.files.all().delete()
    rows: list[tuple[str, str, str]] = []
    for start in range(0, len(found), 100):
        some = found[start : start + 100]
        contents = models.Blob.objects.put_many(_read(kind, place) for _, kind, place in some)
        rows += [(path, kind, blob) for (path, kind, _), blob in zip(some, contents, strict=True)]
    models.SuiteFile.objects.bulk_create(
        (models.SuiteFile(suite=suite, path=path, kind=kind, blob_id=blob) for path, kind, blob in rows),
        batch_size=500,
    )
    suite.files_digest = _digest(suite, rows) if rows else ""
    suite.save(update_fields=["files_digest"])


def _read(kind: str, place: Path) -> bytes:
    try:
        if kind in (Kind.LINK, Kind.FOLDER):
            return os.fsencode(place.readlink()) if kind == Kind.LINK else b""
        return place.read_bytes()
    except OSError as error:
        raise SetupError(f"{place}: cannot be read ({error.strerror})") from error


def _digest(suite: models.Suite, rows: Iterable[tuple[str, str, str]]) -> str:
    return digest_json([str(_name_in_cache(Path(suite.path))), *map(list, sorted(rows))])


def _name_in_cache(folder: Path) -> Path:
    """Return the end of the folder's path that names the suite, since readers make keys of it.
    ValueError: none does."""
    naming = find_naming_folder(folder)
    if not naming.name:
        raise ValueError("no part of its path names the suite")
    return Path(check_relative(folder.relative_to(naming.parent).as_posix()))


# --- out of the record ------------------------------------------------------------------------------------------------


def fetch_folder(suite: models.Suite) -> Path:
    """Return a folder of this machine with the suite's files in the record, written now if it is not in the cache.
    SetupError if they cannot be written."""
    cache = var_folder() / "suites"
    try:
        name = _name_in_cache(Path(suite.path))
        folder = cache / check_relative(suite.files_digest)
        try:
            os.utime(folder)  # says that it is in use
        except FileNotFoundError:
            _write(suite, name, folder)
            with suppress(OSError):  # another process may remove the same
                _prune(cache)
        return folder / name
    except (OSError, ValueError) as error:
        raise SetupError(f"suite {suite.key}: its files in the record cannot be written to {cache}: {error}") from error


def _write(suite: models.Suite, name: Path, folder: Path) -> None:
    """Write the files to `name` below a folder that appears when it is complete."""
    rows = suite.files.values_list("path", "kind", "blob_id")
    if _digest(suite, rows) != suite.files_digest:
        raise ValueError("they are not those that were recorded")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(mkdtemp(dir=folder.parent, suffix=PART))
    try:
        root = part / name
        root.mkdir(parents=True)
        for row in suite.files.select_related("blob").iterator(chunk_size=50):
            target = make_room(root, row.path)
            match row.kind:
                case Kind.FOLDER:
                    target.mkdir()
                case Kind.LINK:
                    target.symlink_to(os.fsdecode(row.blob.content()))
                case _:
                    target.write_bytes(row.blob.content())
                    target.chmod(0o755 if row.kind == Kind.EXECUTABLE else 0o644)
        if out := [link for link in links_below(root) if _leads_out(Path(link), root)]:
            raise ValueError(f"{out[0]} is a link that leads out")
        for place, _, _ in os.walk(root):
            Path(place).chmod(0o755)  # an image that copies them keeps the mode, and its user must read them
        part.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process wrote the same
            raise
    finally:
        remove_tree(part)


def _prune(cache: Path) -> None:
    """Remove the folders that were not used for longest until the rest fits, and what killed processes left."""
    used = sorted(((each.stat().st_mtime, each) for each in cache.iterdir()), reverse=True)
    size = 0
    for at, folder in used:
        size += measure(folder, CACHE_BYTES, 10 * MAX_FILES)[0]
        if at < time.time() - UNUSED_SECONDS and (size > CACHE_BYTES or folder.suffix == PART):
            remove_tree(folder)


GroupCell: TypeAlias = "tuple[int, str, str]"  # key of the task's row, attribute, value


def record_stated(suite: models.Suite, groups: Mapping[int, TaskGroups]) -> None:
    """Record a suite's current groups, by its tasks' row keys. A mapping file's values for a task's attribute are
    kept."""
    of_suite = models.TaskGroup.objects.filter(task__suite=suite)
    mapped = set(of_suite.filter(is_mapped=True).values_list("task_id", "attribute"))
    wanted = [cell for cell in _cells(groups) if cell[:2] not in mapped]
    if _replace(of_suite.filter(is_mapped=False, task__in=list(groups)), wanted, is_mapped=False):
        renew_numbers(suite)


@transaction.atomic
def record_mapping(suite: models.Suite, mapping: GroupMapping) -> dict[str, int]:
    """Replace all groups of the suite from earlier mapping files. Return attribute -> how many tasks have it from this
    one."""
    tasks = suite.tasks.values_list("pk", "key", "family__key")
    wanted = _cells({pk: mapping.of(family or "", key) for pk, key, family in tasks})
    pairs = {(task, attribute) for task, attribute, _ in wanted}
    of_suite = models.TaskGroup.objects.filter(task__suite=suite)
    stated = of_suite.filter(is_mapped=False).values_list("pk", "task_id", "attribute")
    beaten = [pk for pk, *pair in stated if tuple(pair) in pairs]
    models.TaskGroup.objects.filter(pk__in=beaten).delete()
    if _replace(of_suite.filter(is_mapped=True), wanted, is_mapped=True):
        renew_numbers(suite)
    return dict(sorted(Counter(attribute for _, attribute in pairs).items()))


def _cells(groups: Mapping[int, TaskGroups]) -> list[GroupCell]:
    return [
        (pk, name, value)
        for pk, attributes in groups.items()
        for name, values in attributes.items()
        for value in values
        if name != FAMILY  # a task's family is not a group
    ]


def _replace(rows: TaskGroupQuerySet, wanted: list[GroupCell], *, is_mapped: bool) -> bool:
    """Turn the rows into the wanted ones. Did anything change?"""
    known = {
        (task, name, value): pk for pk, task, name, value in rows.values_list("pk", "task_id", "attribute", "value")
    }
    gone = [known[cell] for cell in known.keys() - set(wanted)]
    new = [
        models.TaskGroup(task_id=task, attribute=name, value=value, is_mapped=is_mapped)
        for task, name, value in wanted
        if (task, name, value) not in known
    ]
    models.TaskGroup.objects.filter(pk__in=gone).delete()
    models.TaskGroup.objects.bulk_create(new)
    return bool(gone or new)


def renew_numbers(suite: models.Suite) -> None:
    """Invalidate charts and timelines: they are cached by the revisions of their runs."""
    models.Run.objects.filter(episodes__trials__task__suite=suite).touch()


@dataclass(frozen=True, slots=True)
class SuiteRows:
    """The rows of a recorded suite, by the keys of its environments and tasks."""

    suite: models.Suite
    environments: dict[str, models.Environment] = field(default_factory=dict)
    tasks: dict[str, models.Task] = field(default_factory=dict)
    revisions: dict[str, models.TaskRevision] = field(default_factory=dict)


def record_suite(suite: Suite) -> SuiteRows:
    """Record the current state of the suite. A changed task gets a new revision; the old one stays with its trials."""
    row, _ = models.Suite.objects.update_or_create(
        key=suite.key, defaults={"name": suite.name, "version": suite.version, "digest": suite.digest}
    )
    rows, before = SuiteRows(row), _read_names(row)
    for ordinal, environment in enumerate(suite.environments, start=1):
        kind = environment.corpus.kind if environment.corpus else ""
        shown = {"name": environment.name, "ordinal": ordinal, "kind": kind}
        kept, _ = models.Environment.objects.update_or_create(suite=row, key=environment.key, defaults=shown)
        rows.environments[environment.key] = kept
        for place, family in enumerate(environment.families, start=1):
            named = {"slug": family.slug, "name": family.name, "description": family.description}
            of_family, _ = models.Family.objects.update_or_create(
                suite=row, key=family.key, defaults={"environment": kept, "ordinal": place, **named}
            )
            for task in family.tasks:
                _task(rows, of_family, task)
    record_stated(row, {rows.tasks[task.key].pk: task.groups for task in suite.tasks})
    if before.items() - _read_names(row).items():
        renew_numbers(row)  # timelines of ended runs are cached with the names in them
    return rows


def _read_names(suite: models.Suite) -> dict[str, tuple[object, ...]]:
    """Return what pages show of each task, by its key."""
    shown = suite.tasks.values_list("key", "title", "role", "family__name", "family__slug", "family__environment__name")
    return {key: tuple(names) for key, *names in shown}


def _task(rows: SuiteRows, family: models.Family, task: Task) -> None:
    row, _ = models.Task.objects.update_or_create(
        suite=rows.suite,
        key=task.key,
        defaults={"family": family, "title": task.title, "role": task.role or "", "ordinal": task.ordinal},
    )
    instruction = models.Blob.objects.put(task.instruction.encode())
    revision, _ = models.TaskRevision.objects.get_or_create(
        task=row, digest=task.digest, defaults={"instruction_id": instruction}
    )
    rows.tasks[task.key], rows.revisions[task.key] = row, revision
    _key_points(row, task)


def _key_points(row: models.Task, task: Task) -> None:
    """Replace them by the suite's current ones. A suite without any leaves those of an import."""
    if not task.key_points:
        return
    points = [(each.kind, each.ordinal, each.text, each.reason, each.reference) for each in task.key_points]
    columns = ("kind", "ordinal", "text", "reason", "reference")
    if sorted(points) == sorted(row.key_points.values_list(*columns)):
        return
    row.key_points.all().delete()
    models.KeyPoint.objects.bulk_create(
        models.KeyPoint(task=row, **dict(zip(columns, values, strict=True))) for values in points
    )


LONGEST_KEY = 200
MAX_NAMED = 100  # tasks of one reason in the record


@dataclass(frozen=True, slots=True)
class SuiteFolder:
    """A suite read from a folder, ready to be recorded."""

    suite: Suite
    path: Path
    format: str
    files: Sequence[FoundFile] = ()  # those that the record will hold
    folder_only: str = ""  # why it cannot hold them

    def as_json(self) -> dict[str, object]:
        return {
            "key": self.suite.key,
            "name": self.suite.name,
            "format": self.format,
            "path": str(self.path),
            "folder_only": self.folder_only,
            "digest": self.suite.digest,
            "environments": len(self.suite.environments),
            "families": len(self.suite.families),
            "tasks": len(self.suite.tasks),
            "notes": list(self.suite.notes),
            "account": account_as_json(self.suite.account),
            "set_aside": {
                escape_unprintable(what): list(map(problem_as_json, mine))
                for what, mine in self.suite.set_aside.items()
            },
        }


class StoredLine(TypedDict):
    reason: str
    count: int
    tasks: list[str]  # the first of them


class StoredAccount(TypedDict):
    """The contents of `Suite.account`."""

    found: int
    loaded: int
    set_aside: list[StoredLine]
    left_out: list[StoredLine]
    folder_only: NotRequired[str]  # why the record does not hold its files


def account_as_json(account: Account | None, most: int | None = None) -> StoredAccount | None:
    """Return counts, and the reasons with their tasks, at most `most` of each. None for a suite without a folder."""
    if account is None:
        return None
    set_aside, left_out = (
        [StoredLine(reason=line.reason, count=len(line.tasks), tasks=list(line.tasks[:most])) for line in lines]
        for lines in (account.set_aside, account.left_out)
    )
    return StoredAccount(found=account.found, loaded=account.loaded, set_aside=set_aside, left_out=left_out)


def problem_as_json(error: SetupError) -> dict[str, str]:
    """Return path, place, expected and message, fit for a terminal. Only a SuiteError has more than a message."""
    parts = ("", "", "", str(error))
    if isinstance(error, SuiteError):
        parts = (escape_unprintable(error.path), error.place, error.expected, error.message)
    return dict(zip(("path", "place", "expected", "message"), map(replace_unprintable, parts), strict=True))


def find_suite(key: str) -> Suite:
    """Read the suite from its folder, or from the record where that is missing. SetupError names the known ones, or the
    folder if the record has no files of it; SuiteError and SuiteProblems say what is wrong in it."""
    if key in SUITES:
        return load_suite(key)
    row = models.Suite.objects.exclude(path="").filter(key=key).first()
    if row is None:
        loaded = models.Suite.objects.exclude(path="").values_list("key", flat=True)
        known = ", ".join([*sorted(SUITES), *sorted(loaded)])
        raise SetupError(f"unknown suite {key!r}; known: {known}; {MANAGE} load_suite takes in more")
    read = read_suite_folder(find_folder(row), row.format or None, families=row.families_by)
    return replace(read, key=row.key, name=row.name)


def find_folder(row: models.Suite) -> Path:
    """Return the folder the suite was loaded from, or one with its files from the record.
    SetupError: neither is here."""
    if Path(row.path).is_dir():
        return Path(row.path)
    if not row.files_digest:
        raise SetupError(
            f"suite {row.key}: its folder {row.path} is not on this machine, and its files are not in the record; put "
            "it at the same path here"
        )
    return fetch_folder(row)


def read_folder(
    path: Path,
    format: str | None = None,
    key: str | None = None,
    *,
    strict: bool = False,
    replaces: models.Suite | None = None,
) -> SuiteFolder:
    """Read and check a whole folder without recording anything. Errors and `strict` as in `read_suite_folder`.
    `replaces`: the suite under this key that it updates, although from another folder."""
    place = path.expanduser().absolute()
    if not place.is_dir():
        raise SetupError(f"{place}: expected a folder with a suite; there is none")
    if len(str(place)) > LONGEST_PATH or not str(place).isprintable():
        raise SetupError(f"{str(place)[:80]!r}: expected a printable path of at most {LONGEST_PATH:,} characters")
    if key is not None and not (0 < len(key) <= LONGEST_KEY and key.isprintable() and key == key.strip()):
        raise SetupError(f"--key: expected a name of 1 to {LONGEST_KEY} characters; found {key[:80]!r}")
    found = format or format_of(place)
    suite = read_suite_folder(place, found, strict=strict)
    suite = replace(suite, key=key) if key else suite
    known = models.Suite.objects.filter(key=suite.key, path=str(place)).first()
    suite = regroup(suite, found, known.families_by) if known else suite
    try:
        folder = SuiteFolder(suite, place, found, list_files(place, found))
    except (ValueError, OSError) as error:
        folder = SuiteFolder(suite, place, found, folder_only=str(error))
    _refuse_taken(folder, replaces)
    return folder


@transaction.atomic
def record_folder(
    folder: SuiteFolder, by: models.User | None = None, replaces: models.Suite | None = None
) -> models.Suite:
    """Record the suite, which can then be launched by its key. Loading it again after a change adds revisions. Imported
    runs of tasks with the same content count in it."""
    _refuse_taken(folder, replaces)
    rows = record_suite(folder.suite)
    row = rows.suite
    row.path, row.format = str(folder.path), folder.format
    row.account = account_as_json(folder.suite.account, MAX_NAMED) or {}
    if row.account and folder.folder_only:
        row.account["folder_only"] = replace_unprintable(folder.folder_only)[:300]
    row.save(update_fields=["path", "format", "account"])
    record_files(row, folder.files)
    note_activity(by, "suite.loaded", row, detail={"tasks": len(folder.suite.tasks), "path": row.path})
    for task in folder.suite.tasks:  # keep with each revision the digests that name it in Harbor's results
        revision = rows.revisions[task.key]
        if not revision.foreign_digests and (task.folder / "task.toml").is_file():
            revision.foreign_digests = harbor_digests(task.folder)
            revision.save(update_fields=["foreign_digests"])
    join_by_content(row)
    return row


@dataclass(frozen=True, slots=True)
class MappedGroups:
    """What a mapping file did: attribute -> how many tasks have it from the file; and its names that match nothing."""

    suite: models.Suite
    tasks: dict[str, int]
    notes: tuple[str, ...]


@transaction.atomic
def record_groups(key: str, mapping: GroupMapping | None) -> MappedGroups:
    """Record groups of a bundled, loaded or imported suite. Its own groups are read again if its files are here;
    without a mapping that is all. SetupError for an unknown suite; SuiteError where the mapping matches no part of
    it."""
    row = models.Suite.objects.filter(key=key).first()
    is_here = key in SUITES or (row is not None and row.is_readable)
    read = find_suite(key) if is_here else None
    if read is not None:
        row = record_suite(read).suite
    if row is None:
        known = ", ".join(sorted({*SUITES, *models.Suite.objects.values_list("key", flat=True)}))
        raise SetupError(f"unknown suite {key!r}; known: {known}")
    if mapping is None:
        return MappedGroups(row, {}, ())
    counts = record_mapping(row, mapping)
    families = {
        task.key: named[0]
        for task in row.tasks.select_related("family")
        if (named := mapping.of(task.family.key if task.family else "", task.key).get(FAMILY))
    }
    if families:
        choose_families(key, {"tasks": families})
        counts[FAMILY] = len(families)
        read = find_suite(key)
    if not counts:
        expected = f"families or tasks of {key}"
        raise SuiteError(str(mapping.source), "families, tasks", expected, "it names none of them")
    if read is not None:
        record_suite(read)  # earlier mappings may have hidden what it declares
    keys = (set(each.values_list("key", flat=True)) for each in (row.families.all(), row.tasks.all()))
    return MappedGroups(row, counts, tuple(mapping.notes(*keys)))


@transaction.atomic
def choose_families(key: str, choice: FamilyChoice, by: models.User | None = None) -> models.Suite:
    """Set the families of a suite in a folder, by an attribute of its tasks or task by task. An empty choice restores
    the folder's own. Family protocols can then run over them. SetupError where the format does not allow it, or while
    an experiment over the suite is unfinished: its trials would belong to another suite."""
    row = models.Suite.objects.select_for_update().filter(key=key).exclude(path="").first()
    if row is None:
        raise SetupError(f"{key} is not loaded from a folder, so its families cannot be chosen")
    if row.families_by == choice:
        return row
    runs = models.Run.objects.not_deleted().filter(experiment__suite=row)
    if any(models.Run.Status(status).is_open for status in runs.values_list("status", flat=True).distinct()):
        raise SetupError(f"{key} has runs that are not finished; their suite would change")
    was, row.families_by = row.families_by, dict(choice)
    row.save(update_fields=["families_by"])
    record_suite(find_suite(key))
    note_activity(by, "suite.regrouped", row, detail={"was": was, "is": row.families_by})
    return row


def _refuse_taken(folder: SuiteFolder, replaces: models.Suite | None) -> None:
    """Refuse a key that names another suite: what ran under a key must stay what it was."""
    key = folder.suite.key
    if key in SUITES:
        raise SetupError(f"{key} is the name of a bundled suite; give this one another with --key")
    row = models.Suite.objects.filter(key=key).first()
    if (
        row is None
        or row == replaces
        or row.path == str(folder.path)
        or row.digest == folder.suite.digest  # also that of an archive, which has no path
    ):
        return
    whose = f"the suite loaded from {row.path}" if row.path else "a suite that came in with imported runs"
    raise SetupError(f"{key} is the name of {whose}, with other content; give this one another with --key")

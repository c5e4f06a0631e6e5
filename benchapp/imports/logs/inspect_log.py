"""Inspect's logs, .eval or .json.

A log is a run of the experiment that its eval set, or its call of `inspect eval`, was. A sample is a task of the
family named after the Inspect task; an epoch is a sample of ours. A retry writes another log of the same task, with a
copy of the samples that it did not repeat: both logs are one run, and the newest copy of a sample counts.

A log is stored as a zip of a header and one JSON file per sample and epoch (.eval), or as one JSON document. Both
give a header and samples that can be opened repeatedly. A zip is not unpacked: entries are read in place, if their
declared sizes are plausible. Inspect packs them with Zstandard since 2025, before with deflate. The samples of a JSON
document are copied, one after the other, into a nameless temporary file.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, BinaryIO

import zstandard

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import (
    MAX_JSON_BYTES,
    Document,
    aware,
    read_rest,
    read_time,
    seconds_between,
)
from benchapp.imports.reading.walking import FolderEntry, Root, name_of
from runner.base.encoding import is_finite
from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Usage, Verdict, is_success
from runner.trajectories.problems import Problems
from runner.trajectories.readers.chat import read_model_usage
from runner.trajectories.readers.line_streams import walk

NAME = "inspect"
TITLE = "Inspect"
SUFFIXES = frozenset({".eval", ".json"})
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's own meaning of the letters
_BESIDE = frozenset({"eval-set.json", "logs.json"})
_STREAMED = frozenset({"messages", "events"})
_CONFIG = ("id", "epoch", "target", "metadata", "sandbox", "invalidation")
_MEASURED = ("scores", "model_usage", "started_at", "completed_at", "total_time")
HEADERS = ("header.json", "_journal/start.json")
MAX_ENTRIES = 200_000
MAX_READ = 32 * 1024 * 1024  # at once: Python reads the list of entries whole, each a few hundred bytes in memory
MAX_SAMPLE_BYTES = 1024 * 1024 * 1024
MAX_ALL_BYTES = 64 * 1024 * 1024 * 1024
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024 * 1024
ZSTANDARD = 93  # the zip's number for it
MAX_RATIO = 1_200  # of deflate, whose limit is about 1,030
MAX_RATIO_ZSTANDARD = 33_000  # a block of 128 KiB that repeats one byte takes four
MAX_WINDOW = 128 * 1024 * 1024
BROKEN = (zipfile.BadZipFile, zlib.error, zstandard.ZstdError, NotImplementedError, RuntimeError, EOFError)
_HEADER_KEYS = ("version", "status", "eval", "stats", "error")
_LEFT_OUT = frozenset({"events", "events_data", "store"})  # of a sample: they repeat its messages, or are not read


def claims_file(root: Root, entry: FolderEntry) -> bool:
    """Recognise a log by its name and its beginning: a zip, or a JSON document that names its evaluation."""
    with root.open(entry.path) as stream:
        return (stream.read(4) == b"PK\x03\x04") if entry.path.suffix == ".eval" else is_document(stream)


def is_companion(entries: Sequence[FolderEntry]) -> Callable[[FolderEntry], bool]:
    """Recognise what Inspect keeps about a whole folder of logs."""
    return lambda entry: entry.path.name in _BESIDE


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    seen: dict[str, str] = {}
    for retries in _retries(root, entries):
        logs = [log for entry in retries if (log := _open(root, entry)) is not None]
        if not logs:
            continue
        task = Retried(root, logs)
        newest = name_of(logs[0].entry.path)
        other = seen.setdefault(task.idents[0], newest)
        if other != newest:
            told = f"{logs[0].ident} is also that of {other}; both are kept"
            root.report(logs[0].entry.path, "eval.eval_id", "an id of its own for every log", told)
            task.idents = tuple(f"{ident}@{newest}" for ident in task.idents)
        yield task.build_experiment()


def _retries(root: Root, entries: Sequence[FolderEntry]) -> list[list[FolderEntry]]:
    """Group logs of one task, the newest first. Logs of one evaluation (copies, or scored again) are not retries."""
    grouped: dict[tuple[str, ...], list[tuple[str, str, FolderEntry]]] = {}
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        names = name_log(root, entry)
        task, evaluation, model, created = (
            str(names.get(key) or "") for key in ("task_id", "eval_id", "model", "created")
        )
        is_copy = (task, evaluation) in seen
        seen.add((task, evaluation))
        key = (task, model) if task and evaluation and not is_copy else (str(entry.path),)
        grouped.setdefault(key, []).append((created, name_of(entry.path), entry))  # names also begin with a time
    return [[entry for *_, entry in sorted(mine, key=lambda one: one[:2], reverse=True)] for mine in grouped.values()]


def _open(root: Root, entry: FolderEntry) -> Log | None:
    try:
        container = (open_zip if entry.path.suffix == ".eval" else open_document)(root, entry)
    except (OSError, *BROKEN) as error:
        told = (error.strerror if isinstance(error, OSError) else "") or f"{type(error).__name__}: {error}"
        root.report(entry.path, "", "a whole Inspect log", told)
        return None
    return None if container is None else Log(root, entry, container)


@dataclass
class Log:
    """One opened log. `ident`: its evaluation's."""

    root: Root
    entry: FolderEntry
    container: Container

    def __post_init__(self) -> None:
        self.header = self.container.header
        self.eval = self.header.object("eval")
        stem = storable(self.entry.path.stem)[:200]
        self.ident = self.eval.text("eval_id", 200) or self.eval.text("task_id", 200) or stem

    @property
    def group(self) -> str:
        return self.eval.text("eval_set_id", 200) or self.eval.text("run_id", 200) or self.entry.path.stem


@dataclass
class Retried:
    """A task's log, and the logs that it retried, newest first: one run."""

    root: Root
    logs: Sequence[Log]

    def __post_init__(self) -> None:
        told = (self.logs[0].eval.text("task_id", 200), *(log.ident for log in self.logs))
        self.idents = tuple(dict.fromkeys(ident for ident in told if ident))

    def build_experiment(self) -> sources.FoundExperiment:
        newest, oldest = self.logs[0], self.logs[-1]
        status = newest.header.text("status", 40)
        if status is None:
            told = "only the journal of its start; as far as it goes"
            newest.header.report("", "the header of a log that ended", told)
        first = oldest.eval
        spec = {"format": NAME, "eval_set_id": first.text("eval_set_id", 200), "run_id": first.text("run_id", 200)}
        source = sources.ExperimentSource(
            key=f"{NAME}:{oldest.group}",
            name=f"Inspect {first.text('task', 200) or oldest.group}",
            path=self.root.label(newest.entry.path),
            spec=spec,
            suite=NAME,
            started_at=aware(read_time(oldest.header.object("stats"), "started_at")),
            finished_at=aware(read_time(newest.header.object("stats"), "completed_at")),
            was_cut_short=status in (None, "started", "cancelled"),
        )
        return sources.FoundExperiment(source, trials=tuple(sorted(self._samples(), key=lambda sample: sample.order)))

    def _samples(self) -> Iterator[InspectSample]:
        retried: set[str] = set()
        for log in self.logs:
            mine: set[str] = set()
            for stored in log.container.samples:
                sample = InspectSample(self, log, stored)
                if sample.ids[0] in mine:
                    told = "it comes again; the first counts"
                    self.root.report(log.entry.path, stored.name[:300], "each sample and epoch once", told)
                elif sample.ids[0] not in retried:
                    yield sample
                mine.add(sample.ids[0])
            if not mine:
                told = f"none: it ended with the status {log.header.raw.get('status')!r}"
                self.root.report(log.entry.path, "samples", "samples", told)
            if log is not self.logs[0]:
                repeated = f"{len(mine & retried):,} of {len(mine):,} samples count with its results"
                told = f"{name_of(self.logs[0].entry.path)} is a retry: {repeated}"
                self.root.report(log.entry.path, "eval.task_id", "one log for each task", told)
            retried |= mine

    @property
    def run(self) -> sources.RunSource:
        log = self.logs[0]
        told = log.eval
        setup: dict[str, object] = {"source": NAME, "log": log.entry.path.name[:300]}
        setup |= {key: told.raw[key] for key in ("task", "task_args", "model_args", "config") if told.raw.get(key)}
        return sources.RunSource(
            harness=told.text("solver", 100) or NAME,
            harness_version=(told.object("packages").text("inspect_ai", 100) or ""),
            agent_model=told.text("model", 200) or sources.UNKNOWN,
            author_model="",
            skills=self.idents[0],
            setup=setup,
        )


@dataclass
class InspectSample:
    """One sample of one epoch (found_sources.FoundTrial)."""

    task: Retried
    log: Log
    stored: Stored

    def __post_init__(self) -> None:
        self.path = f"{self.log.root.label(self.log.entry.path)}/{clean(self.stored.name)[:500]}"
        stem = clean(self.stored.name).removeprefix("samples/").removesuffix(".json")
        name, _, epoch = stem.rpartition("_epoch_")
        self.name, number = (name, epoch) if name and epoch.isdigit() and len(epoch) < 9 else (stem, "1")
        self.order = (self.name, f"{int(number):09d}")
        self.ids = tuple(f"{NAME}:{ident}/{stem}"[:900] for ident in self.task.idents)

    def digest(self) -> str:
        digest = hashlib.sha256()
        with self.stored.open() as stream:
            while piece := stream.read(1024 * 1024):
                digest.update(piece)
        return digest.hexdigest()

    def read(self) -> sources.TrialSource:
        root, path = self.log.root, self.log.entry.path
        # Inspect writes scores, usage and times after the messages.
        raw = read_rest(
            root,
            path,
            self.stored.open,
            streamed=_STREAMED,
            wanted=_MEASURED,
            without={"attachments"},
            place=self.stored.name[:300],
        )
        told = Document(root, path, raw, self.stored.name[:200])
        task = self.log.eval.text("task", 150) or sources.UNKNOWN
        started, finished = read_time(told, "started_at"), read_time(told, "completed_at")
        seconds = told.amount("total_time")
        usage = raw.get("model_usage")
        source = sources.TrajectorySource(self.stored.name[:300], self.stored.open, self.stored.size)
        return sources.TrialSource(
            run=self.task.run,
            task=sources.TaskSource(NAME, f"{task}/{self.name}"[:300], self.name[:300], family=task),
            timing=sources.Timing(
                started_at=aware(started),
                finished_at=aware(finished),
                duration_seconds=seconds if seconds is not None else seconds_between(told, started, finished),
                agent_seconds=told.amount("working_time"),
            ),
            verdict=None if told.object("invalidation") else read_scores(told),
            config={key: raw[key] for key in _CONFIG if raw.get(key)},
            choices=(sources.SourceChoice((source,)),),
            exception=_exception(told),
            usage=read_model_usage(usage) if isinstance(usage, Mapping) else Usage(),
            agent=self.task.run.harness,
        )


def read_scores(told: Document) -> Verdict | None:
    """Read the scores. Letters count as Inspect counts them. With several values none decides, so success stays
    unknown, even if some are not numbers."""
    scores = told.object("scores")
    if not scores:
        return None
    rewards: dict[str, float | None] = {}
    notes = []
    for name in scores.raw:
        score = scores.object(name)
        rewards |= _values(str(name)[:200], score.raw.get("value"))
        text = score.text("explanation", 100_000)
        notes.append(f"{name}: {json.dumps(score.raw.get('value'))[:500]}" + (f"\n{text}" if text else ""))
    reward = next(iter(rewards.values())) if len(rewards) == 1 else None
    return Verdict(
        source=NAME,
        success=is_success(reward),
        reward=reward,
        rewards=rewards,
        output="\n\n".join(notes),
    )


def _values(name: str, value: JsonValue) -> dict[str, float | None]:
    """Return the numbers by name, None for other values."""
    if isinstance(value, Mapping):
        found: dict[str, float | None] = {}
        for key, item in list(value.items())[:100]:
            found |= _values(f"{name}/{key}"[:200], None if isinstance(item, Mapping) else item)
        return found
    if isinstance(value, str) and value in LETTERS:
        return {name: LETTERS[value]}
    if isinstance(value, bool | int | float) and is_finite(value):
        return {name: float(value)}
    return {name: None}


def _exception(told: Document) -> sources.ExceptionSource | None:
    """Report an invalidated sample as withdrawn: its scores do not count."""
    if withdrawn := told.object("invalidation"):
        reason, author = withdrawn.text("reason", 100_000), withdrawn.text("author", 200)
        return sources.ExceptionSource(
            "invalidated", f"{reason or 'no reason given'}" + (f" ({author})" if author else "")
        )
    if error := told.object("error"):
        message = error.text("message", 100_000) or ""
        return sources.ExceptionSource("error", message, error.text("traceback", 1_000_000) or "")
    if limit := told.object("limit"):
        return sources.ExceptionSource(
            f"limit:{limit.text('type', 60) or sources.UNKNOWN}", f"limit {limit.raw.get('limit')}"
        )
    return None


@dataclass(frozen=True, slots=True)
class Stored:
    """A sample's JSON: samples/<id>_epoch_<n>.json, its size in bytes, and a way to read its bytes repeatedly."""

    name: str
    size: int
    open: Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True)
class Container:
    header: Document
    samples: list[Stored] = field(default_factory=list)


# --- zip ------------------------------------------------------------------------------------------------------------


def open_zip(root: Root, entry: FolderEntry) -> Container | None:
    """Open a zip. Return None, with a report, if it is not a log. Raise OSError or one of BROKEN if it is damaged."""
    archive = zipfile.ZipFile(_Bounded(root.open(entry.path)))
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    if len(members) > MAX_ENTRIES or total > MAX_ALL_BYTES:
        expected = f"at most {MAX_ENTRIES:,} entries of {MAX_ALL_BYTES:,} bytes together"
        root.report(entry.path, "", expected, f"{len(members):,} of {total:,}; it was not read")
        return None
    by_name = {member.filename: member for member in reversed(members)}
    named = next((name for name in HEADERS if name in by_name), None)
    value: JsonValue = None
    if named is not None and _is_believable(by_name[named]) and by_name[named].file_size <= MAX_JSON_BYTES:
        with _open_member(archive, by_name[named]) as stream:
            text = stream.read(MAX_JSON_BYTES).decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            value = storable_value(json.loads(text, parse_constant=lambda _: None))
    if not isinstance(value, dict) or not isinstance(value.get("eval"), dict):
        root.report(entry.path, named or HEADERS[0], "the header of an Inspect log", "there is none; not read")
        return None
    header = Document(root, entry.path, value, named or "")
    return Container(header, list(_members(root, entry, archive, members)))


def _members(
    root: Root, entry: FolderEntry, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]
) -> Iterator[Stored]:
    for member in members:
        if not member.filename.startswith("samples/") or not member.filename.endswith(".json"):
            continue
        if member.flag_bits & 0x1 or not _is_believable(member) or member.file_size > MAX_SAMPLE_BYTES:
            told = f"{member.file_size:,} bytes from {member.compress_size:,}"
            expected = f"a sample of at most {MAX_SAMPLE_BYTES:,} bytes, packed as its method can, not encrypted"
            root.report(entry.path, member.filename[:300], expected, f"{told}; left out")
            continue
        yield Stored(member.filename, member.file_size, partial(_open_member, archive, member))


def _is_believable(member: zipfile.ZipInfo) -> bool:
    ratio = MAX_RATIO_ZSTANDARD if member.compress_type == ZSTANDARD else MAX_RATIO
    return member.file_size <= ratio * max(member.compress_size, 1) + 1024


def _open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
    """Return an entry's bytes, up to its declared size. Python's zipfile cannot read Zstandard before 3.14."""
    if member.compress_type != ZSTANDARD:
        return io.BufferedReader(_Entry(archive.open(member).read, member.file_size))
    stream = archive.fp
    if stream is None:
        raise EOFError("the zip is closed")
    stream.seek(member.header_offset)
    local = stream.read(30)
    if len(local) < 30:
        raise EOFError("an entry that begins behind the end of the file")
    start = member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    packed = _open_slice(stream, start, member.compress_size)
    unpacked = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(packed, read_across_frames=True)
    return io.BufferedReader(_CheckedEntry(unpacked.read, member.file_size, member.CRC))


def name_log(root: Root, entry: FolderEntry) -> Mapping[str, JsonValue]:
    """Return the log's `eval` header, read without its samples. Return {} if it cannot be read: that is reported on
    opening."""
    quiet = root.mute()
    try:
        if entry.path.suffix == ".eval":
            container = open_zip(quiet, entry)
            return {} if container is None else container.header.object("eval").raw
        with quiet.open(entry.path) as stream:
            items = walk(stream, Problems(), streamed=frozenset({"samples"}))
            told = next((value for key, value in items if key in ("eval", "samples")), None)
            found: dict[str, JsonValue] = storable_value(told) if isinstance(told, dict) and "task" in told else {}
            return found
    except (OSError, *BROKEN):
        return {}


# --- one JSON document ----------------------------------------------------------------------------------------------


def is_document(stream: BinaryIO) -> bool:
    """Is this a JSON object that names its evaluation before its samples?"""
    start = stream.read(4096)
    if not start.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{") or b'"eval"' not in start:
        return False
    stream.seek(0)
    for key, value in walk(stream, Problems(), streamed=frozenset({"samples"})):
        if key == "eval":
            return isinstance(value, Mapping) and "task" in value and bool({"run_id", "eval_id"} & value.keys())
        if key == "samples":
            return False
    return False


def open_document(root: Root, entry: FolderEntry) -> Container | None:
    """Open a JSON log. Return None, with a report, if it is too large. A broken one gives the samples before that."""
    if entry.size > MAX_DOCUMENT_BYTES:
        expected = f"a log of at most {MAX_DOCUMENT_BYTES:,} bytes"
        root.report(entry.path, "", expected, f"{entry.size:,}; it was not read")
        return None
    problems, told = Problems(), dict[str, JsonValue]()
    samples: list[Stored] = []
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the samples read it
    with root.open(entry.path) as stream:
        for key, value in walk(stream, problems, streamed=frozenset({"samples", "reductions"})):
            if key in _HEADER_KEYS:
                told[key] = storable_value(value)
            elif key == "samples" and isinstance(value, Mapping):
                content = json.dumps({name: part for name, part in value.items() if name not in _LEFT_OUT}).encode()
                start = spool.seek(0, io.SEEK_END)
                spool.write(content)
                name = f"samples/{value.get('id')}_epoch_{value.get('epoch', 1)}.json"
                samples.append(Stored(name, len(content), partial(_open_slice, spool, start, len(content))))
    for problem in problems:
        root.report(entry.path, problem.place, problem.expected, problem.message)
    return Container(Document(root, entry.path, told), samples)


# --- streams --------------------------------------------------------------------------------------------------------


def _open_slice(stream: IO[bytes], start: int, length: int) -> BinaryIO:
    """Return `length` bytes from `start`, to be read in sequence even if others read the stream in between."""
    at = start

    def read(size: int) -> bytes:
        nonlocal at
        stream.seek(at)
        piece = stream.read(size)
        at += len(piece)
        return piece

    return io.BufferedReader(_Limited(read, length))


class _Limited(io.RawIOBase):
    """The first `size` bytes that `read` gives."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read, self._left = read, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._read(min(len(buffer), self._left))
        self._left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)


class _Entry(_Limited):
    """An entry of the zip, with its faults raised as those of an unreadable file."""

    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer)
        except BROKEN as error:
            raise OSError(f"broken entry of the zip: {error}") from error


class _CheckedEntry(_Entry):
    """The same, but reading fails at the end if bytes are missing or the checksum differs."""

    def __init__(self, read: Callable[[int], bytes], size: int, crc: int) -> None:
        super().__init__(read, size)
        self._expected, self._crc = crc, 0

    def readinto(self, buffer: Any) -> int:
        length = super().readinto(buffer)
        self._crc = zlib.crc32(buffer[:length], self._crc)
        if length == 0 and len(buffer) and (self._left or self._crc != self._expected):
            raise OSError("corrupt zip entry: its checksum does not match")
        return length


class _Bounded:
    """The zip itself. A member list too large for memory is not read, even if the file declares a small one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if size > MAX_READ:
            raise OSError(f"{size:,} bytes to be read at once, at most {MAX_READ:,} are")
        return self._stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""Inspect's .eval files: a zip of a header and one JSON file for each sample and epoch.

A log is a run of the experiment that its eval set, or its call of `inspect eval`, was; a sample is a task of the family
named after the Inspect task, an epoch a sample of ours. Nothing is unpacked to disk: entries are read one at a time, as
far as their declared sizes are believable.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from benchapp.importers.documents import MAX_JSON_BYTES, Document, is_finite
from benchapp.importers.sources import (
    UNKNOWN,
    Choice,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    TaskSource,
    Timing,
    TrajectorySource,
    TrialSource,
)
from benchapp.importers.times import aware, read_time, seconds_between
from benchapp.importers.walking import Entry, Root
from runner.trajectories.problems import Problems
from runner.trajectories.readers.inspect_sample import usage_of
from runner.trajectories.streams import walk
from runner.trajectories.text import clean, storable_value
from runner.types import Usage, Verdict

NAME = "inspect"
SUFFIXES = frozenset({".eval"})
HEADERS = ("header.json", "_journal/start.json")
MAX_ENTRIES = 200_000
MAX_READ = 32 * 1024 * 1024  # at once: Python reads the list of entries whole, each a few hundred bytes in memory
MAX_SAMPLE_BYTES = 1024 * 1024 * 1024
MAX_ALL_BYTES = 64 * 1024 * 1024 * 1024
MAX_RATIO = 1_200  # of deflate, whose limit is about 1,030
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's own meaning of the letters
_BESIDE = frozenset({"eval-set.json", "logs.json"})
_STREAMED = frozenset({"messages", "events"})
_BROKEN = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)


def claims_file(root: Root, entry: Entry) -> bool:
    """By name and by the first bytes of a zip."""
    with root.open(entry.path) as stream:
        return entry.path.suffix == ".eval" and stream.read(4) == b"PK\x03\x04"


def is_companion(entries: Sequence[Entry]) -> Callable[[Entry], bool]:
    """What Inspect keeps of a whole folder of logs."""
    return lambda entry: entry.path.name in _BESIDE


def find_files(root: Root, entries: Sequence[Entry]) -> Iterator[FoundExperiment]:
    for entry in entries:
        try:
            log = Log.open(root, entry)
        except (OSError, *_BROKEN) as error:
            root.report(entry.path, "", "a whole .eval file (zip)", f"{type(error).__name__}: {error}")
            continue
        if log is not None:
            yield log.found()


@dataclass
class Log:
    """One opened .eval file. `header`: what it says of the whole evaluation."""

    root: Root
    entry: Entry
    zip: zipfile.ZipFile
    header: Document

    @classmethod
    def open(cls, root: Root, entry: Entry) -> Log | None:
        archive = zipfile.ZipFile(_Bounded(root.open(entry.path)))
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if len(members) > MAX_ENTRIES or total > MAX_ALL_BYTES:
            expected = f"at most {MAX_ENTRIES:,} entries of {MAX_ALL_BYTES:,} bytes together"
            root.report(entry.path, "", expected, f"{len(members):,} of {total:,}; it was not read")
            return None
        by_name = {member.filename: member for member in reversed(members)}
        named = next((name for name in HEADERS if name in by_name), None)
        value: Any = None
        if named is not None and _is_believable(by_name[named]) and by_name[named].file_size <= MAX_JSON_BYTES:
            with archive.open(by_name[named]) as stream:
                value = _json(stream.read(MAX_JSON_BYTES))
        if not isinstance(value, dict) or not isinstance(value.get("eval"), dict):
            root.report(entry.path, named or HEADERS[0], "the header of an Inspect log", "there is none; not read")
            return None
        return cls(root, entry, archive, Document(root, entry.path, value, named or ""))

    def found(self) -> FoundExperiment:
        told, stats = self.header.object("eval"), self.header.object("stats")
        group = told.text("eval_set_id", 200) or told.text("run_id", 200) or self.entry.path.stem
        status = self.header.text("status", 40)
        if status is None:
            self.header.report("", "the header of a log that ended", "only the journal of its start; as far as it goes")
        spec = {"format": NAME, "eval_set_id": told.text("eval_set_id", 200), "run_id": told.text("run_id", 200)}
        source = ExperimentSource(
            key=f"{NAME}:{group}",
            name=f"Inspect {told.text('task', 200) or group}",
            path=self.root.label(self.entry.path),
            spec=spec,
            suite=NAME,
            started_at=aware(read_time(stats, "started_at")),
            finished_at=aware(read_time(stats, "completed_at")),
            was_cut_short=status in (None, "started", "cancelled"),
        )
        return FoundExperiment(source, trials=tuple(sorted(self._samples(), key=lambda sample: sample.order)))

    def _samples(self) -> Iterator[Sample]:
        for member in self.zip.infolist():
            if not member.filename.startswith("samples/") or not member.filename.endswith(".json"):
                continue
            if member.flag_bits & 0x1 or not _is_believable(member) or member.file_size > MAX_SAMPLE_BYTES:
                told = f"{member.file_size:,} bytes from {member.compress_size:,}"
                expected = f"a sample of at most {MAX_SAMPLE_BYTES:,} bytes, packed as deflate can, not encrypted"
                self.root.report(self.entry.path, member.filename[:300], expected, f"{told}; left out")
                continue
            yield Sample(self, member)

    @property
    def run(self) -> RunSource:
        told = self.header.object("eval")
        setup: dict[str, Any] = {"source": NAME, "log": self.entry.path.name[:300]}
        setup |= {key: told.raw[key] for key in ("task", "task_args", "model_args", "config") if told.raw.get(key)}
        return RunSource(
            harness=told.text("solver", 100) or NAME,
            harness_version=(told.object("packages").text("inspect_ai", 100) or ""),
            agent_model=told.text("model", 200) or UNKNOWN,
            author_model="",
            skills=told.text("eval_id", 200) or told.text("task_id", 200) or self.entry.path.stem[:200],
            setup=setup,
        )


@dataclass
class Sample:
    """One sample of one epoch (sources.FoundTrial)."""

    log: Log
    member: zipfile.ZipInfo

    def __post_init__(self) -> None:
        self.path = f"{self.log.root.label(self.log.entry.path)}/{clean(self.member.filename)[:500]}"
        stem = clean(self.member.filename).removeprefix("samples/").removesuffix(".json")
        name, _, epoch = stem.rpartition("_epoch_")
        self.name, number = (name, epoch) if name and epoch.isdigit() and len(epoch) < 9 else (stem, "1")
        self.order = (self.name, f"{int(number):09d}")
        self.ids = (f"{NAME}:{self.log.run.skills}/{stem}"[:900],)

    def open(self) -> BinaryIO:
        return _Entry(self.log.zip.open(self.member))  # type: ignore[return-value]

    def digest(self) -> str:
        digest = hashlib.sha256(json.dumps(self.log.header.raw.get("status")).encode())
        with self.open() as stream:
            while piece := stream.read(1024 * 1024):
                digest.update(piece)
        return digest.hexdigest()

    def read(self) -> TrialSource:
        with self.open() as stream:
            items = walk(stream, Problems(), streamed=_STREAMED)
            raw = {key: storable_value(value) for key, value in items if key not in _STREAMED and key != "attachments"}
        told = Document(self.log.root, self.log.entry.path, raw, self.member.filename[:200])
        task = self.log.header.object("eval").text("task", 150) or UNKNOWN
        started, finished = read_time(told, "started_at"), read_time(told, "completed_at")
        seconds = told.amount("total_time")
        usage = raw.get("model_usage")
        source = TrajectorySource(self.member.filename[:300], self.open, self.member.file_size)
        return TrialSource(
            run=self.log.run,
            task=TaskSource(NAME, f"{task}/{self.name}"[:300], self.name[:300], family=task),
            timing=Timing(
                started_at=aware(started),
                finished_at=aware(finished),
                duration_seconds=seconds if seconds is not None else seconds_between(told, started, finished),
                agent_seconds=told.amount("working_time"),
            ),
            verdict=verdict_of(told),
            config={key: raw[key] for key in ("id", "epoch", "target", "metadata", "sandbox") if raw.get(key)},
            choices=(Choice((source,)),),
            exception=_exception(told),
            usage=usage_of(usage) if isinstance(usage, Mapping) else Usage(),
            agent=self.log.run.harness,
        )


def verdict_of(told: Document) -> Verdict | None:
    """The scores. Letters count as Inspect counts them; of several scorers none decides, so success stays unknown."""
    scores = told.object("scores")
    rewards: dict[str, float] = {}
    notes = []
    for name in scores.raw:
        score = scores.object(name)
        rewards |= _values(str(name)[:200], score.raw.get("value"))
        text = score.text("explanation", 100_000)
        notes.append(f"{name}: {json.dumps(score.raw.get('value'))[:500]}" + (f"\n{text}" if text else ""))
    if not scores:
        return None
    reward = next(iter(rewards.values())) if len(rewards) == 1 else None
    return Verdict(
        source=NAME,
        success=None if reward is None else reward >= 1.0,
        reward=reward,
        rewards=rewards,
        output="\n\n".join(notes),
    )


def _values(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, Mapping):
        found: dict[str, float] = {}
        for key, item in list(value.items())[:100]:
            found |= _values(f"{name}/{key}"[:200], item) if not isinstance(item, Mapping) else {}
        return found
    if isinstance(value, str) and value in LETTERS:
        return {name: LETTERS[value]}
    if isinstance(value, bool | int | float) and is_finite(value):
        return {name: float(value)}
    return {}


def _exception(told: Document) -> ExceptionSource | None:
    if error := told.object("error"):
        message = error.text("message", 100_000) or ""
        return ExceptionSource("error", message, error.text("traceback", 1_000_000) or "")
    if limit := told.object("limit"):
        return ExceptionSource(f"limit:{limit.text('type', 60) or UNKNOWN}", f"limit {limit.raw.get('limit')}")
    return None


def _is_believable(member: zipfile.ZipInfo) -> bool:
    return member.file_size <= MAX_RATIO * max(member.compress_size, 1) + 1024


def _json(content: bytes) -> Any:
    try:
        return storable_value(json.loads(content.decode("utf-8", "replace"), parse_constant=lambda _: None))
    except (ValueError, RecursionError):
        return None


class _Bounded:
    """The zip itself. A list of entries that would fill the memory is not read, however few the file says there are."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if size > MAX_READ:
            raise OSError(f"{size:,} bytes to be read at once, at most {MAX_READ:,} are")
        return self._stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Entry:
    """An entry of the zip whose faults are those of a file that cannot be read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except _BROKEN as error:
            raise OSError(f"broken entry of the zip: {error}") from error

    def readline(self, size: int = -1) -> bytes:
        try:
            return bytes(self._stream.readline(size))
        except _BROKEN as error:
            raise OSError(f"broken entry of the zip: {error}") from error

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> _Entry:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

"""Inspect's logs, .eval or .json (inspect_containers.py).

A log is a run of the experiment that its eval set, or its call of `inspect eval`, was. A sample is a task of the family
named after the Inspect task; an epoch is a sample of ours. A retry writes another log of the same task, with a copy of
the samples that it did not repeat: both logs are one run, and the newest copy of a sample counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.imports.logs.inspect_containers import (
    BROKEN,
    Container,
    Stored,
    is_document,
    is_zip,
    name_log,
    open_document,
    open_zip,
)
from benchapp.imports.reading.documents import Document, aware, is_finite, read_rest, read_time, seconds_between
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrajectorySource,
    TrialSource,
)
from benchapp.imports.reading.walking import FolderEntry, Root, name_of
from runner.base.text import clean, storable
from runner.base.types import JsonValue, Usage, Verdict
from runner.trajectories.readers.chat import read_model_usage

NAME = "inspect"
TITLE = "Inspect"
SUFFIXES = frozenset({".eval", ".json"})
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's own meaning of the letters
_BESIDE = frozenset({"eval-set.json", "logs.json"})
_STREAMED = frozenset({"messages", "events"})
_CONFIG = ("id", "epoch", "target", "metadata", "sandbox", "invalidation")
_MEASURED = ("scores", "model_usage", "started_at", "completed_at", "total_time")


def claims_file(root: Root, entry: FolderEntry) -> bool:
    """Recognise a log by its name and its beginning: a zip, or a JSON document that names its evaluation."""
    with root.open(entry.path) as stream:
        return is_zip(stream) if entry.path.suffix == ".eval" else is_document(stream)


def is_companion(entries: Sequence[FolderEntry]) -> Callable[[FolderEntry], bool]:
    """Recognise what Inspect keeps about a whole folder of logs."""
    return lambda entry: entry.path.name in _BESIDE


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[FoundExperiment]:
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

    def build_experiment(self) -> FoundExperiment:
        newest, oldest = self.logs[0], self.logs[-1]
        status = newest.header.text("status", 40)
        if status is None:
            told = "only the journal of its start; as far as it goes"
            newest.header.report("", "the header of a log that ended", told)
        first = oldest.eval
        spec = {"format": NAME, "eval_set_id": first.text("eval_set_id", 200), "run_id": first.text("run_id", 200)}
        source = ExperimentSource(
            key=f"{NAME}:{oldest.group}",
            name=f"Inspect {first.text('task', 200) or oldest.group}",
            path=self.root.label(newest.entry.path),
            spec=spec,
            suite=NAME,
            started_at=aware(read_time(oldest.header.object("stats"), "started_at")),
            finished_at=aware(read_time(newest.header.object("stats"), "completed_at")),
            was_cut_short=status in (None, "started", "cancelled"),
        )
        return FoundExperiment(source, trials=tuple(sorted(self._samples(), key=lambda sample: sample.order)))

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
    def run(self) -> RunSource:
        log = self.logs[0]
        told = log.eval
        setup: dict[str, object] = {"source": NAME, "log": log.entry.path.name[:300]}
        setup |= {key: told.raw[key] for key in ("task", "task_args", "model_args", "config") if told.raw.get(key)}
        return RunSource(
            harness=told.text("solver", 100) or NAME,
            harness_version=(told.object("packages").text("inspect_ai", 100) or ""),
            agent_model=told.text("model", 200) or UNKNOWN,
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

    def read(self) -> TrialSource:
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
        task = self.log.eval.text("task", 150) or UNKNOWN
        started, finished = read_time(told, "started_at"), read_time(told, "completed_at")
        seconds = told.amount("total_time")
        usage = raw.get("model_usage")
        source = TrajectorySource(self.stored.name[:300], self.stored.open, self.stored.size)
        return TrialSource(
            run=self.task.run,
            task=TaskSource(NAME, f"{task}/{self.name}"[:300], self.name[:300], family=task),
            timing=Timing(
                started_at=aware(started),
                finished_at=aware(finished),
                duration_seconds=seconds if seconds is not None else seconds_between(told, started, finished),
                agent_seconds=told.amount("working_time"),
            ),
            verdict=None if told.object("invalidation") else read_scores(told),
            config={key: raw[key] for key in _CONFIG if raw.get(key)},
            choices=(SourceChoice((source,)),),
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
        success=None if reward is None else reward >= 1.0,
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


def _exception(told: Document) -> ExceptionSource | None:
    """Report an invalidated sample as withdrawn: its scores do not count."""
    if withdrawn := told.object("invalidation"):
        reason, author = withdrawn.text("reason", 100_000), withdrawn.text("author", 200)
        return ExceptionSource("invalidated", f"{reason or 'no reason given'}" + (f" ({author})" if author else ""))
    if error := told.object("error"):
        message = error.text("message", 100_000) or ""
        return ExceptionSource("error", message, error.text("traceback", 1_000_000) or "")
    if limit := told.object("limit"):
        return ExceptionSource(f"limit:{limit.text('type', 60) or UNKNOWN}", f"limit {limit.raw.get('limit')}")
    return None

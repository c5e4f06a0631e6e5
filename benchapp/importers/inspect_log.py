"""Inspect's logs, .eval or .json (inspect_containers.py).

A log is a run of the experiment that its eval set, or its call of `inspect eval`, was; a sample is a task of the family
named after the Inspect task, an epoch a sample of ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchapp.importers.documents import Document, is_finite
from benchapp.importers.inspect_containers import (
    BROKEN,
    Container,
    Stored,
    is_document,
    is_zip,
    open_document,
    open_zip,
)
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
from benchapp.importers.walking import Entry, Root, name_of
from runner.trajectories.problems import Problems
from runner.trajectories.readers.inspect_sample import usage_of
from runner.trajectories.streams import walk
from runner.trajectories.text import clean, storable, storable_value
from runner.types import Usage, Verdict

NAME = "inspect"
SUFFIXES = frozenset({".eval", ".json"})
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's own meaning of the letters
_BESIDE = frozenset({"eval-set.json", "logs.json"})
_STREAMED = frozenset({"messages", "events"})


def claims_file(root: Root, entry: Entry) -> bool:
    """By name and by the beginning: of a zip, or of a JSON document that says which evaluation it is of."""
    with root.open(entry.path) as stream:
        return is_zip(stream) if entry.path.suffix == ".eval" else is_document(stream)


def is_companion(entries: Sequence[Entry]) -> Callable[[Entry], bool]:
    """What Inspect keeps of a whole folder of logs."""
    return lambda entry: entry.path.name in _BESIDE


def find_files(root: Root, entries: Sequence[Entry]) -> Iterator[FoundExperiment]:
    seen: dict[str, str] = {}
    for entry in entries:
        try:
            container = (open_zip if entry.path.suffix == ".eval" else open_document)(root, entry)
        except (OSError, *BROKEN) as error:
            told = (error.strerror if isinstance(error, OSError) else "") or f"{type(error).__name__}: {error}"
            root.report(entry.path, "", "a whole Inspect log", told)
            continue
        if container is None:
            continue
        log = Log(root, entry, container)
        other = seen.setdefault(log.ident, name_of(entry.path))
        if other != name_of(entry.path):
            told = f"{log.ident} is also that of {other}; both are kept"
            root.report(entry.path, "eval.eval_id", "an id of its own for every log", told)
            log.ident = f"{log.ident}@{name_of(entry.path)}"
        yield log.found()


@dataclass
class Log:
    """One opened log. `ident`: its evaluation's, unless another log of this import has the same."""

    root: Root
    entry: Entry
    container: Container

    def __post_init__(self) -> None:
        self.header = self.container.header
        told = self.header.object("eval")
        stem = storable(self.entry.path.stem)[:200]
        self.ident = told.text("eval_id", 200) or told.text("task_id", 200) or stem

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
        if not self.container.samples:
            told = f"none: it ended with the status {self.header.raw.get('status')!r}"
            self.root.report(self.entry.path, "samples", "samples", told)
        seen: set[str] = set()
        for stored in self.container.samples:
            sample = Sample(self, stored)
            if sample.ids[0] in seen:
                expected = "each sample and epoch once"
                self.root.report(self.entry.path, stored.name[:300], expected, "it comes again; the first counts")
                continue
            seen.add(sample.ids[0])
            yield sample

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
            skills=self.ident,
            setup=setup,
        )


@dataclass
class Sample:
    """One sample of one epoch (sources.FoundTrial)."""

    log: Log
    stored: Stored

    def __post_init__(self) -> None:
        self.path = f"{self.log.root.label(self.log.entry.path)}/{clean(self.stored.name)[:500]}"
        stem = clean(self.stored.name).removeprefix("samples/").removesuffix(".json")
        name, _, epoch = stem.rpartition("_epoch_")
        self.name, number = (name, epoch) if name and epoch.isdigit() and len(epoch) < 9 else (stem, "1")
        self.order = (self.name, f"{int(number):09d}")
        self.ids = (f"{NAME}:{self.log.ident}/{stem}"[:900],)

    def digest(self) -> str:
        digest = hashlib.sha256(json.dumps(self.log.header.raw.get("status")).encode())
        with self.stored.open() as stream:
            while piece := stream.read(1024 * 1024):
                digest.update(piece)
        return digest.hexdigest()

    def read(self) -> TrialSource:
        with self.stored.open() as stream:
            items = walk(stream, Problems(), streamed=_STREAMED)
            raw = {key: storable_value(value) for key, value in items if key not in _STREAMED and key != "attachments"}
        told = Document(self.log.root, self.log.entry.path, raw, self.stored.name[:200])
        task = self.log.header.object("eval").text("task", 150) or UNKNOWN
        started, finished = read_time(told, "started_at"), read_time(told, "completed_at")
        seconds = told.amount("total_time")
        usage = raw.get("model_usage")
        source = TrajectorySource(self.stored.name[:300], self.stored.open, self.stored.size)
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

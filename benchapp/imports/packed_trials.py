"""Trials that were read, redacted and packed, but have no row yet. Reading is most of an import's work, so several
processes can read while one writes.

A reading process is a fork of this one (`os.fork`) that never uses the database. It reads every n-th trial and sends
the results through a pipe, in order; a full pipe makes it wait. It ends when the other end of its pipe is closed, so
none survives an import that was killed. The import itself reads any trial that the process did not deliver.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pickle
import signal
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection

from benchapp.imports.import_map import Settings
from benchapp.imports.packing import IN_MEMORY_BYTES, read_digest
from benchapp.imports.problems import MAX_KEPT, ProblemList, ToldProblem
from benchapp.imports.reading.found_sources import FoundTrial
from benchapp.imports.trial_rows import AttemptParts
from benchapp.models import Attempt
from benchapp.models.base import derived_id
from benchapp.record.redaction import redact_text

logger = logging.getLogger(__name__)
IDS_JOINED, MAX_IDS = "|", 1_000  # characters of the column
# New trials that are written together. More would gain little and block the database longer for other processes.
BATCH_TRIALS, BATCH_BYTES = 50, 8 * 1024 * 1024
PIPE_BYTES = 1024 * 1024  # lets a process continue reading while the import writes a batch


@dataclass(frozen=True, slots=True)
class PackedTrial:
    """A trial that was read, with its settings from the map."""

    found: FoundTrial
    settings: Settings
    parts: AttemptParts

    @classmethod
    def of(cls, found: FoundTrial, settings: Settings, parts: AttemptParts) -> PackedTrial:
        return cls(found, settings, parts.decided_by(settings.scorer))

    def attempt(self, *, number: int = 1) -> Attempt:
        """Return the unsaved row with only its identity."""
        told = [self.found.ids[0], *([self.parts.digest] if number > 1 else [])]
        if number > 1 and (lineage := self.parts.source.lineage):
            told += [str(number), *map(str, lineage.values())]  # the same source, read as another session's copy
        return Attempt(
            public_id=derived_id("attempt", *told),
            number=number,
            source_key=_join_ids(self.found.ids),
            source_digest=self.parts.digest,
        )


def _join_ids(ids: Sequence[str]) -> str:
    """Join ids into one text that splits into the same ids. Leave out ids with a secret, and ids that would be cut and
    taken for another's: a trial is also found by what is derived from its first id."""
    found = ""
    for ident in ids:
        joined = f"{found}{IDS_JOINED}{ident}" if found else ident
        if IDS_JOINED not in ident and redact_text(ident) == ident and len(joined) <= MAX_IDS:
            found = joined
    return found


@dataclass(slots=True)
class TrialBatch:
    """New trials that wait to be written together."""

    trials: list[PackedTrial] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    size: int = 0

    def add(self, packed: PackedTrial) -> None:
        self.trials.append(packed)
        self.ids.update(packed.found.ids)
        self.size += packed.parts.blobs.size

    def take(self) -> list[PackedTrial]:
        """Return the trials and empty the batch."""
        taken, self.trials, self.ids, self.size = self.trials, [], set(), 0
        return taken

    @property
    def is_full(self) -> bool:
        return len(self.trials) >= BATCH_TRIALS or self.size >= BATCH_BYTES


# --- reading in other processes ---------------------------------------------------------------------------------


def read_ahead(
    trials: Sequence[FoundTrial], wanted: Sequence[bool], problems: ProblemList, processes: int
) -> Generator[AttemptParts | None, None, None]:
    """Yield each trial's reading, in order; None if it is not wanted or has to be read here."""
    processes = min(processes, sum(wanted))
    if processes < 2:
        yield from (None for _ in trials)
        return
    with ExitStack() as started:
        workers: list[ReadingProcess] = []
        for number in range(processes):
            workers.append(
                ReadingProcess.start(trials[number::processes], wanted[number::processes], problems, workers)
            )
            started.enter_context(closing(workers[-1]))
        for place in range(len(trials)):
            yield workers[place % processes].receive()


@dataclass(slots=True)
class ReadingProcess:
    """A process that reads its part of the trials, as seen from the import."""

    pid: int
    pipe: Connection

    @classmethod
    def start(
        cls,
        trials: Sequence[FoundTrial],
        wanted: Sequence[bool],
        problems: ProblemList,
        others: Sequence[ReadingProcess],
    ) -> ReadingProcess:
        reading, writing = os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        pid = os.fork()
        if pid:
            os.close(writing)
            return cls(pid, Connection(reading, writable=False))
        try:  # from here on this is another process, which must end here
            for descriptor in (reading, *(other.pipe.fileno() for other in others)):
                os.close(descriptor)
            _send_all(Connection(writing, readable=False), trials, wanted, problems)
        finally:
            os._exit(0)

    def receive(self) -> AttemptParts | None:
        """Return the reading of its next trial; None from there on if the process has ended."""
        try:
            found: AttemptParts | None = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None
        return found

    def close(self) -> None:
        self.pipe.close()
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _send_all(pipe: Connection, trials: Sequence[FoundTrial], wanted: Sequence[bool], problems: ProblemList) -> None:
    told = problems.collect()
    for found, is_wanted in zip(trials, wanted, strict=True):
        told.clear()
        try:
            content = pickle.dumps(_read_short(found, problems, told) if is_wanted else None)
        except Exception as error:  # reported when the import reads it itself
            logger.debug("reading the trial in %s failed: %s", found.path, error)
            content = pickle.dumps(None)
        pipe.send_bytes(content)


def _read_short(found: FoundTrial, problems: ProblemList, told: list[ToldProblem]) -> AttemptParts | None:
    """Read a trial. Return None if contents are stored while reading, or if it has too many problems to send."""
    digest, source = read_digest(found), found.read()
    sizes = (file.size for choice in source.choices for file in (*choice.trajectories, *choice.spare))
    if max(sizes, default=0) > IN_MEMORY_BYTES:
        return None
    reading = AttemptParts.of(source, digest, found.path, problems)
    return replace(reading, problems=tuple(told)) if len(told) < MAX_KEPT else None

"""The rows of imported attempts, written inside the caller's transaction, in a fixed number of statements.

Before that, trials are read, redacted and packed. Reading is most of an import's work, so several processes can read
while one writes.

A reading process is a fork of this one (`os.fork`) that never uses the database. It reads every n-th trial and sends
the results through a pipe, in order; a full pipe makes it wait. It ends when the other end of its pipe is closed, so
none survives an import that was killed. The import itself reads any trial that the process did not deliver.
"""

from __future__ import annotations

import fcntl
import json
import logging
import pickle
import re
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import TypeAlias

import orjson
from django.utils import timezone

from benchapp.imports.import_map import Settings
from benchapp.imports.packing import IN_MEMORY_BYTES, AttemptPacker, ImportedTrajectory, read_digest, usage_json
from benchapp.imports.problems import MAX_KEPT, ProblemList, ProblemParts
from benchapp.imports.reading.found_sources import FoundTrial, TrialSource
from benchapp.models import Attempt, Blob, Trial, Verdict
from benchapp.models.base import derived_id
from benchapp.models.blobs import GatheredBlobs
from benchapp.models.trials import USAGE
from benchapp.record.recorded import BOUND_OF
from benchapp.record.redaction import Redactor, redact_text
from benchapp.record.writing.rows import save_below, set_exception, set_measured
from runner.base.types import JsonValue, SkillUse, TrajectoryKind, Usage, UseKind
from runner.base.types import Verdict as VerdictValue
from runner.models.call_prices import estimate_cost, name_price_list

# Numbers that Python writes with an exponent: orjson writes them differently.
_EXPONENT = re.compile(rb"(?<= )(?:-?\d[\d.]*e[-+\d]+|-?0\.0000\d*)(?=,?$)", re.M)


@dataclass(frozen=True, slots=True)
class AttemptParts:
    """A trial's source, read, redacted and packed: all that its rows need."""

    digest: str  # of the source and its readers
    source: TrialSource  # without its files, which were read
    packed: tuple[ImportedTrajectory, ...]
    verdict: VerdictValue | None
    redactor: Redactor
    blobs: GatheredBlobs  # contents that are not stored yet
    config: str | None  # digests of the config, and of the exception's whole text
    exception: str | None
    message: str  # of the exception
    problems: tuple[ProblemParts, ...] = ()  # reported later, if another process did the reading

    @classmethod
    def of(cls, source: TrialSource, digest: str, path: str, problems: ProblemList) -> AttemptParts:
        """Read the trajectories of a trial. `path`: the trial's, for problems."""
        redactor, blobs = Redactor.knowing(source.config), GatheredBlobs()
        packed = AttemptPacker(source, redactor, path, problems, blobs).pack()
        verdict = None if source.verdict is None else source.verdict.with_texts(redactor.text)
        config, exception, message = None, None, ""
        if source.config:
            config = blobs.put(_lay_out(redactor.value(dict(source.config))))
        if source.exception:
            message = redactor.text(source.exception.message)
            exception = blobs.put(f"{message}\n\n{redactor.text(source.exception.traceback)}".strip().encode())
        source = replace(source, choices=())
        return cls(digest, source, tuple(packed), verdict, redactor, blobs, config, exception, message)

    def decided_by(self, scorer: str | None) -> AttemptParts:
        """Return the parts with the verdict of that scorer, if one of that name exists."""
        if not scorer or self.verdict is None or scorer not in self.verdict.rewards:
            return self
        lineage = {**self.source.lineage, "scorer": scorer}
        return replace(self, verdict=self.verdict.decided_by(scorer), source=replace(self.source, lineage=lineage))

    @property
    def own(self) -> list[ImportedTrajectory]:
        """See Attempt.own_trajectories."""
        main = [item for item in self.packed if item.head.kind is TrajectoryKind.MAIN][:1]
        return main or [item for item in self.packed if item.head.kind is TrajectoryKind.STAGE]

    def usage(self) -> tuple[Usage, dict[str, object]]:
        """Return (usage, the source's own totals). Usage comes from the steps, else from the source."""
        recomputed, stated = Usage(), self.source.usage
        for item in self.packed:
            recomputed = recomputed + item.usage
        taken = [name for name in USAGE if getattr(recomputed, name) is None and _says_more(stated, name, recomputed)]
        totals: dict[str, object] = {**usage_json(stated)}
        if taken:
            totals["taken"] = taken  # these columns of the attempt hold the source's numbers
        bounds = {BOUND_OF[name]: None for name in taken if name in BOUND_OF}
        return replace(recomputed, **{name: getattr(stated, name) for name in taken}, **bounds), totals

    def estimate_cost(self, usage: Usage) -> float | None:
        """Estimate the cost by the price list if the source reports none. Needs all tokens and their models."""
        if usage.known_usd is not None or usage.input_tokens is None or usage.output_tokens is None:
            return None
        counted = [item for item in self.packed if item.usage.known_tokens]
        recomputed = sum((item.usage for item in counted), Usage())
        if (recomputed.input_tokens, recomputed.output_tokens) == (usage.input_tokens, usage.output_tokens):
            estimates = [item.estimated_usd for item in counted]
            return None if not counted or None in estimates else sum(each or 0.0 for each in estimates)
        models = {item.head.model for item in self.packed if item.head.model} or {self.source.run.agent_model}
        return estimate_cost(models.pop(), usage) if len(models) == 1 else None  # the source's own totals

    def fill(self, attempt: Attempt) -> None:
        """Fill the attempt, which has its trial, number and identity, and its trial."""
        source = self.source
        usage, attempt.source_tokens = self.usage()
        attempt.source_config_id = self.config
        attempt.session_root, attempt.lineage = source.session_root, self._lineage()
        attempt.status = status_of(source)
        attempt.counts = source.is_finished
        attempt.started_text, attempt.finished_text = source.timing.started_text, source.timing.finished_text
        turns = [item.turns for item in self.own if item.turns is not None]
        whole = sum(turns) if turns and len(turns) == len(self.own) else None
        set_measured(attempt, source.timing, usage, whole)
        attempt.estimated_usd = self.estimate_cost(usage)
        attempt.price_table = name_price_list() if attempt.estimated_usd is not None else ""
        if source.exception:
            set_exception(attempt, self.redactor.text(source.exception.type), self.message, self.exception)
        self._fill_trial(attempt.trial, attempt)

    def _lineage(self) -> dict[str, JsonValue]:
        """Return the lineage with the step where its own work starts; None if it did none."""
        lineage = dict(self.source.lineage)
        if "kind" not in lineage:
            return lineage
        first = 1 + sum(item.steps.copied_steps for item in self.own)
        is_over = all(item.steps.copied_steps == item.steps.steps_total for item in self.own)
        return {**lineage, "own_from": None if is_over else first}

    def _fill_trial(self, trial: Trial, attempt: Attempt) -> None:
        trial.attempts_total, trial.settled_at = attempt.number, timezone.now()
        if not attempt.counts:
            trial.drop_numbers()
            return
        trial.take_numbers(
            attempt,
            self.verdict,
            checks=[check.status for check in self.verdict.checks] if self.verdict else (),
            own=[(item.steps.steps_total - item.steps.copied_steps, item.head.source_format) for item in self.own],
            uses=[(use.skill, use.kind) for use in self.uses()],
        )
        trial.duration_seconds = self.source.timing.duration_seconds  # known also between zoneless times

    def uses(self) -> list[SkillUse]:
        mounted = self.source.skills_mounted or ()
        return [
            *(use for item in self.packed for use in item.uses),
            *(SkillUse(self.redactor.text(slug), UseKind.MOUNTED, trajectory="") for slug in mounted),
        ]


def save_attempts(filled: Sequence[tuple[AttemptParts, Attempt]]) -> None:
    """Save the attempts with their trials, new or known, and everything below them."""
    Blob.objects.put_gathered(parts.blobs for parts, _ in filled)
    new = [attempt.trial for _, attempt in filled if attempt.trial.pk is None]
    for trial in (attempt.trial for _, attempt in filled if attempt.trial.pk is not None):
        trial.save()
    Trial.objects.bulk_create(new)
    Attempt.objects.bulk_create(attempt for _, attempt in filled)
    Verdict.objects.record_all((attempt, parts.verdict) for parts, attempt in filled if parts.verdict is not None)
    stages = [
        (attempt, stage.with_texts(parts.redactor.text))
        for parts, attempt in filled
        for stage in parts.source.stage_verdicts
    ]
    Verdict.objects.record_all(stages, is_primary=False)
    save_below([(attempt, parts.packed, parts.uses()) for parts, attempt in filled])


def status_of(source: TrialSource) -> str:
    """Return the status of an attempt at this trial."""
    return Attempt.Status.FINISHED if source.is_finished else Attempt.Status.INTERRUPTED


def _lay_out(config: dict[str, JsonValue]) -> bytes:
    """Return sorted and indented JSON, as Python writes it."""
    try:
        found = orjson.dumps(config, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer of more than 64 bits
        found = b""
    if found:
        return _EXPONENT.sub(lambda number: repr(float(number[0])).encode(), found)
    return json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False).encode()


def _says_more(stated: Usage, name: str, counted: Usage) -> bool:
    """Is the source's total more than what was counted in part? Else it is the same partial sum. Programs that do not
    know their tokens write 0."""
    total = getattr(stated, name)
    bound = getattr(counted, BOUND_OF[name]) if name in BOUND_OF else None
    if bound is None and name in ("input_tokens", "output_tokens"):
        bound = 0
    return total is not None and (bound is None or total > bound)


logger = logging.getLogger(__name__)
IDS_JOINED, MAX_IDS = "|", 1_000  # characters of the column
# New trials that are written together. More would gain little and block the database longer for other processes.
BATCH_TRIALS, BATCH_BYTES = 50, 8 * 1024 * 1024
FORK = get_context("fork")  # what was found holds open files, which no other way hands over
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
        identity = [self.found.ids[0], *([self.parts.digest] if number > 1 else [])]
        if number > 1 and (lineage := self.parts.source.lineage):
            identity += [str(number), *map(str, lineage.values())]  # the same source, read as another session's copy
        return Attempt(
            public_id=derived_id("attempt", *identity),
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

Chosen: TypeAlias = Sequence[tuple[FoundTrial, bool]]  # whether it is wanted


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
        chosen = list(zip(trials, wanted, strict=True))
        for number in range(processes):
            workers.append(ReadingProcess.start(chosen[number::processes], problems, workers))
            started.enter_context(closing(workers[-1]))
        for place in range(len(trials)):
            yield workers[place % processes].receive()


@dataclass(slots=True)
class ReadingProcess:
    """A process that reads its part of the trials, as seen from the import."""

    process: ForkProcess
    pipe: Connection

    @classmethod
    def start(cls, trials: Chosen, problems: ProblemList, others: Sequence[ReadingProcess]) -> ReadingProcess:
        reading, writing = FORK.Pipe(duplex=False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):
                fcntl.fcntl(writing.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        unused = [reading, *(other.pipe for other in others)]
        process = FORK.Process(target=_send_all, args=(writing, unused, trials, problems), daemon=True)
        process.start()
        writing.close()
        return cls(process, reading)

    def receive(self) -> AttemptParts | None:
        """Return the reading of its next trial; None from there on if the process has ended."""
        try:
            found: AttemptParts | None = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None
        return found

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _send_all(pipe: Connection, unused: Sequence[Connection], trials: Chosen, problems: ProblemList) -> None:
    """Run in the other process. It ends when nobody reads its pipe, so it must hold no end of `unused` ones."""
    for other in unused:
        other.close()
    reported = problems.collect()
    for found, is_wanted in trials:
        reported.clear()
        try:
            content = pickle.dumps(_read_short(found, problems, reported) if is_wanted else None)
        except Exception as error:  # reported when the import reads it itself
            logger.debug("reading the trial in %s failed: %s", found.path, error)
            content = pickle.dumps(None)
        pipe.send_bytes(content)


def _read_short(found: FoundTrial, problems: ProblemList, reported: list[ProblemParts]) -> AttemptParts | None:
    """Read a trial. Return None if contents are stored while reading, or if it has too many problems to send."""
    digest, source = read_digest(found), found.read()
    sizes = (file.size for choice in source.choices for file in (*choice.trajectories, *choice.spare))
    if max(sizes, default=0) > IN_MEMORY_BYTES:
        return None
    reading = AttemptParts.of(source, digest, found.path, problems)
    return replace(reading, problems=tuple(reported)) if len(reported) < MAX_KEPT else None

"""Read and classify the refused trials of many runs in a few queries, and cache them while nothing in a run changes.

Checks come from rows. The verifier's output is read only if no check has a message, and the end of the trajectory only
if nothing else has a sign.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Left, Length, Right

from benchapp.analysis.failures.classification import (
    CheckMessage,
    Classified,
    FailureClass,
    Missing,
    VerifierRefusal,
    classify,
    keep_answers,
)
from benchapp.analysis.trial_rules.rules import BEGINNING_CHARS, CHECKS, MESSAGE_CHARS, OUTPUT_CHARS, read_course
from benchapp.models import Blob, Check, Chunk, Run, Trial, Verdict
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.trajectory_store import read_windows
from benchapp.stats.learning.computed_runs import RunCache, keep_of_runs, take_of_runs
from benchapp.stats.metrics.agent_ends import AgentEnd, end_of
from runner.base.encoding import decode, encode
from runner.base.types import CheckStatus, TrajectoryKind


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A finished trial that its verifier refused. source: kind of its corpus, "" if none."""

    trial: str  # its public id
    pk: int
    task: str
    source: str
    sample: int
    classified: Classified


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one run. ends: failed trials that a limit, the agent's program or the machinery ended; they are
    not refusals of finished work. left_out: refusals beyond those that were read."""

    refused: tuple[RefusedRow, ...] = ()
    ends: Mapping[AgentEnd, int] = field(default_factory=dict)
    left_out: int = 0


T = TypeVar("T")
MAX_REFUSED = 5_000  # the first trials of one run are classified; the page counts the others
LAST_STEPS = 40  # of the trajectory, used without any other sign
SLICE = 100  # outputs or chunks in memory at once
KEYS = 500  # in one query


NAME = "failures"  # of the kept facts
KEPT: RunCache[Failures] = RunCache(500)


def read_failures(runs: Iterable[Run]) -> dict[int, Failures]:
    """Return run pk -> its failures, for every given run, from the disk cache if possible. The number of queries is
    fixed, plus one for each hundred outputs or ends of trajectories, and each five hundred refusals. No more are held
    as text at once."""
    return KEPT.read_all(runs, _take_or_read)


def _take_or_read(runs: Sequence[Run]) -> dict[int, Failures]:
    """Take what is kept of ended runs on disk, because reading thousands of checks again takes seconds; read and keep
    the rest. Trials are found by their public ids: a rebuilt database may give them other keys."""
    facts = {pk: decode(Failures, fact) for pk, fact in take_of_runs(runs, NAME).items()}
    failed = Trial.objects.filter(episode__run__in=list(facts), success=False).values_list("public_id", "pk")
    keys = {str(public_id): pk for public_id, pk in failed} if facts else {}
    found = {}
    for run, kept in facts.items():
        if all(row.trial in keys for row in kept.refused):
            refused = tuple(replace(row, pk=keys[row.trial]) for row in kept.refused)
            ends = {AgentEnd(end): count for end, count in kept.ends.items()}
            found[run] = Failures(refused, ends, kept.left_out)
    if missing := [run for run in runs if run.pk not in found]:
        read = _read(missing)
        keep_of_runs(missing, NAME, lambda run: encode(read[run.pk]))
        found |= read
    return found


def read_class(trial: Trial) -> str:
    """Return the column that counts one trial in a table of failures; empty unless it failed. At most four queries,
    none if the failures of its run are cached."""
    if trial.success is not False:
        return ""
    kept = KEPT.get(trial.episode.run) or Failures()
    found = next((row.classified for row in kept.refused if row.pk == trial.pk), None)
    if found is None:
        failed = [one for one in _read_failed(Trial.objects.filter(pk=trial.pk)) if end_of(one.exception_type) is None]
        found = _classify_all(failed).get(trial.pk)
    return "" if found is None else found.primary.value if found.primary else UNCLASSIFIED


@dataclass(frozen=True, slots=True)
class _Failed:
    """A failed trial as read from its rows. verdict: the primary one's key."""

    pk: int
    run: int
    public_id: UUID
    task: str
    sample: int
    source: str
    steps: int
    exception_type: str
    exception: str
    verdict: int | None
    output: str | None


def _read(runs: Sequence[Run]) -> dict[int, Failures]:
    by_run: dict[int, list[_Failed]] = defaultdict(list)
    ends: dict[int, Counter[AgentEnd]] = defaultdict(Counter)
    for failed in _read_failed(Trial.objects.filter(episode__run__in=[run.pk for run in runs])):
        if (end := end_of(failed.exception_type)) is None:
            by_run[failed.run].append(failed)
        else:
            ends[failed.run][end] += 1
    left = {run: max(0, len(found) - MAX_REFUSED) for run, found in by_run.items()}
    shown = [failed for found in by_run.values() for failed in found[:MAX_REFUSED]]
    classified = {pk: found for part in _slice(shown, KEYS) for pk, found in _classify_all(part).items()}
    refused: dict[int, list[RefusedRow]] = defaultdict(list)
    for each in shown:
        row = RefusedRow(str(each.public_id), each.pk, each.task, each.source, each.sample, classified[each.pk])
        refused[each.run].append(row)
    return {run.pk: Failures(tuple(refused[run.pk]), ends[run.pk], left.get(run.pk, 0)) for run in runs}


def _read_failed(trials: QuerySet[Trial]) -> Iterator[_Failed]:
    primary = Verdict.objects.filter(attempt=OuterRef("attempts__pk"), is_primary=True)
    rows = (
        trials.filter(success=False, attempts__counts=True)
        .order_by("pk")
        .values_list(
            "pk",
            "episode__run_id",
            "public_id",
            "task__title",
            "sample",
            "task__family__environment__kind",
            "steps",
            "attempts__exception_type",
            Right("attempts__exception_message", MESSAGE_CHARS),
            Subquery(primary.values("pk")[:1]),
            Subquery(primary.values("output_id")[:1]),
        )
    )
    for pk, run, public_id, task, sample, source, steps, exception, message, verdict, output in rows.iterator():
        end = f"{exception}: {message}" if exception else ""
        yield _Failed(pk, run, public_id, task, sample, source or "", steps or 0, exception, end, verdict, output)


def _classify_all(failed: Sequence[_Failed]) -> dict[int, Classified]:
    """Return trial pk -> its classes."""
    checks = _read_checks({each.verdict for each in failed if each.verdict is not None})
    refusals = {
        each.pk: VerifierRefusal(each.source, checks.get(each.verdict or 0, ()), "", each.exception, (), each.steps)
        for each in failed
    }
    silent = [each for each in failed if not any(check.message for check in refusals[each.pk].checks)]
    for each, output in _read_outputs(silent):
        refusals[each.pk] = replace(refusals[each.pk], output=output)
    found = {pk: classify(refusal) for pk, refusal in refusals.items()}
    unclear = [each.pk for each in failed if found[each.pk].primary is None]
    for pk, missing in _read_missing_at_the_end(unclear):
        found[pk] = classify(replace(refusals[pk], missing=missing))
    return found


def _read_checks(verdicts: set[int]) -> Mapping[int, tuple[CheckMessage, ...]]:
    """Return verdict pk -> its failed checks."""
    found: dict[int, list[CheckMessage]] = defaultdict(list)
    for keys in _slice(sorted(verdicts), KEYS):
        for verdict, name, length, beginning, end in _select_failed_checks(keys).iterator():
            message = end if length <= MESSAGE_CHARS else f"{beginning}\n{end}"
            if len(found[verdict]) < CHECKS:
                found[verdict].append(CheckMessage(name, keep_answers(message)))
    return {verdict: tuple(checks) for verdict, checks in found.items()}


def _select_failed_checks(verdicts: Sequence[int]) -> QuerySet[Check, tuple[int, str, int, str, str]]:
    """Select both ends of a long message: a stage's marker begins it, a test runner says at its end what was wrong."""
    checks = Check.objects.filter(verdict__in=verdicts).exclude(status__in=[CheckStatus.PASSED, CheckStatus.SKIPPED])
    ends = Length("message"), Left("message", BEGINNING_CHARS), Right("message", MESSAGE_CHARS)
    return checks.order_by("verdict", "ordinal").values_list("verdict", "name", *ends)


def _read_outputs(failed: Sequence[_Failed]) -> Iterator[tuple[_Failed, str]]:
    for part in _slice([each for each in failed if each.output], SLICE):
        contents = Blob.objects.read_many([each.output for each in part if each.output])
        for each in part:
            yield each, keep_answers(contents[each.output or ""][-OUTPUT_CHARS:].decode("utf-8", "replace"))


def _read_missing_at_the_end(trials: Sequence[int]) -> Iterator[tuple[int, tuple[Missing, ...]]]:
    """Yield trial pk -> what its last steps did not find."""
    for part in _slice(trials, SLICE):
        chunks = list(_select_last_chunks(part))
        windows = [(chunk, _find_first_step(chunk), LAST_STEPS) for chunk in chunks]
        for chunk, steps in zip(chunks, read_windows(windows), strict=True):
            attempt = chunk.trajectory.attempt
            assert attempt is not None  # that of one of the trials
            yield attempt.trial_id, read_course(stored.step for stored in steps).most_missing


def _find_first_step(chunk: Chunk) -> int:
    return max(chunk.first_step, chunk.first_step + chunk.steps_total - LAST_STEPS)


def _select_last_chunks(trials: Sequence[int]) -> QuerySet[Chunk]:
    of_trajectory = Chunk.objects.filter(trajectory=OuterRef("trajectory")).order_by("-ordinal")
    return Chunk.objects.filter(
        trajectory__attempt__trial__in=trials,
        trajectory__attempt__counts=True,
        trajectory__kind=TrajectoryKind.MAIN,
        trajectory__is_superseded=False,
        pk=Subquery(of_trajectory.values("pk")[:1]),
    ).select_related("blob", "trajectory__attempt")


def _slice(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (things[start : start + size] for start in range(0, len(things), size))


# --- counted, as in SkillGenBench's figure 6: a row per source, counts with shares in its cells ---------------------


UNCLASSIFIED = "unclassified"
COLUMNS: tuple[str, ...] = (*(failure.value for failure in FailureClass), UNCLASSIFIED)
WORDS: Mapping[str, tuple[str, str]] = {  # class -> its plain name, and what it means
    FailureClass.RUNTIME: ("Does not run", "A module, program or service is missing, or a call ends in an error."),
    FailureClass.INTERFACE: ("Wrong shape", "Names, keys, columns or types differ from what the task asks for."),
    FailureClass.ASSET: ("Missing file", "A file was never written, not found, or taken for another."),
    FailureClass.STATE: ("Wrong rule", "A rule, a condition or the order of steps differs from the source."),
    FailureClass.NUMERIC: ("Wrong value", "A computed value is wrong."),
    UNCLASSIFIED: ("Not classed", "No rule matches what the verifier said."),
}


@dataclass(frozen=True, slots=True)
class FailureRow(Shaped):
    """`counts`: one per column, by the primary class. `further`: refusals that show the class as a second one."""

    key: str
    title: str
    counts: tuple[int, ...]
    further: tuple[int, ...]

    json_shape = JsonShape(
        "key title",
        ("primary", lambda row: dict(zip(COLUMNS, row.counts, strict=True))),
        ("beside_another", lambda row: dict(zip(COLUMNS, row.further, strict=True))),
        "total",
    )

    @property
    def total(self) -> int:
        return sum(self.counts)


def choose_column(refused: RefusedRow) -> str:
    primary = refused.classified.primary
    return str(primary) if primary else UNCLASSIFIED


def count_row(key: str, title: str, refused: Iterable[RefusedRow]) -> FailureRow:
    found = list(refused)
    counts = Counter(choose_column(each) for each in found)
    further = Counter(str(failure) for each in found for failure in each.classified.others)
    return FailureRow(key, title, tuple(counts[name] for name in COLUMNS), tuple(further[name] for name in COLUMNS))


def count_by_source(refused: Sequence[RefusedRow], names: dict[str, str]) -> list[FailureRow]:
    """Return one row per source that has a refusal, in the order of `names`, which are their titles."""
    found = [(key, title, [each for each in refused if each.source == key]) for key, title in names.items()]
    return [count_row(key, title, own) for key, title, own in found if own]

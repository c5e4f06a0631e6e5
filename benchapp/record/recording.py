"""One episode's record in rows: `runner.protocols.recorder.Recorder` on the database.

Every recording method is one transaction that first renews the episode's lease under this recorder's epoch. Where
somebody else has taken the episode over, that renewal finds no row: LeaseLost is raised and nothing is left behind.
Contents (blobs, chunks, snapshots) are committed before the transaction whose rows point at them; they are addressed
by their digest, so content without a row is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from benchapp.models import (
    Attempt,
    Blob,
    Compaction,
    Decision,
    DecisionEvidence,
    Entry,
    Episode,
    Family,
    ModelCall,
    Refusal,
    Run,
    Seal,
    Seeding,
    SkillUse,
    Snapshot,
    Trajectory,
    Trial,
    Verdict,
)
from benchapp.record import log_context, recorded
from benchapp.record.error_text import log_of, with_end_of_log, words_of
from benchapp.record.redaction import redact_text
from benchapp.record.textual_change import measure_change
from benchapp.record.trajectory_store import Packed, pack_steps
from runner.base.digests import canonical_json
from runner.base.encoding import encode
from runner.base.errors import LeaseLost
from runner.base.text import cut, storable, storable_value
from runner.base.types import (
    AttemptResult,
    CompactionKind,
    DecisionStatus,
    Files,
    ModelReply,
    ModelRequest,
    Step,
    TrialSlot,
    Usage,
)
from runner.base.types import Compaction as CompactionValue
from runner.base.types import Decision as DecisionValue
from runner.base.types import Trajectory as TrajectoryValue
from runner.base.types import Verdict as VerdictValue
from runner.engine.host_calls import PURPOSE as AGENT_CALLS
from runner.models import is_scripted
from runner.models.wire.continuing import shorten_request
from runner.protocols.history import fold
from runner.protocols.recorder import AGENT_WROTE, Frozen, History, Refused

log = logging.getLogger(__name__)

READER_VERSION = "runner/1"  # own runs need no reader: the runner hands over ATIF steps
MAX_EXCEPTION_MESSAGE = 2_000  # characters on the row; the traceback, or the whole log, lies in a blob
MAX_LOGGED = 8_000


@dataclass(frozen=True, slots=True)
class PackedAttempt:
    """The contents of an attempt, stored, with what its rows will say."""

    trajectories: tuple[tuple[TrajectoryValue, Packed], ...]
    sources: tuple[str | None, ...]  # digests of the logs they were read from
    compactions: tuple[Compaction, ...]
    verdict: VerdictValue | None
    traceback: str | None  # digest


class RowRecorder:
    """`epoch` is that of the lease which the caller took; `worker` names the process, for people.

    `watch` is told every live step (see benchapp.record.live); it must not raise. `redact` takes secrets out of errors; what
    the trial itself said is cleaned by the runner (`runner.engine.cleaning`) before it comes here.
    """

    def __init__(
        self,
        episode: Episode,
        epoch: int,
        *,
        worker: str = "",
        watch: Any = None,
        redact: Callable[[str], str] = redact_text,
    ) -> None:
        self.episode, self.epoch, self.worker = episode, epoch, worker
        self._watch, self._redact = watch, redact
        self._turn: tuple[str, ModelRequest] | None = None  # key and request of the latest call of an agent
        # Read once between two entries: while we hold the lease nobody else writes, but for skips of trials that are
        # not at work, and what was skipped is not started.
        self._history: History | None = None

    # --- reading ------------------------------------------------------------------------------------------------

    def history(self) -> History:
        if self._history is None:
            self._history = recorded.history(self.episode)
        return self._history

    def library(self, snapshot: str) -> Files:
        return recorded.library(snapshot)

    def compaction(self, slot: TrialSlot, kind: CompactionKind) -> CompactionValue:
        return recorded.compaction(self._trial(slot), kind)

    def verdict(self, slot: TrialSlot) -> VerdictValue | None:
        return recorded.verdict(self._trial(slot))

    def aside(self) -> Mapping[TrialSlot, str]:
        blocked = self.episode.trials.blocked().select_related("task")
        return {recorded.slot_of(trial): trial.explain_blocked() for trial in blocked}

    def reply(self, key: str) -> ModelReply | None:
        return recorded.reply(self.episode, key)

    # --- one trial ----------------------------------------------------------------------------------------------

    def start_attempt(self, slot: TrialSlot, *, snapshot: str, retrieved: tuple[TrialSlot, ...]) -> str:
        given = Snapshot.objects.standing_for(snapshot)
        with self._transaction() as now:
            trial = self._trial(slot)
            if trial.status == Trial.Status.SKIPPED:
                raise LeaseLost(f"trial {slot} was skipped before it began")
            last = trial.attempts.aggregate(last=models.Max("number"))["last"] or 0
            attempt = trial.attempts.create(number=last + 1, worker=self.worker, lease_epoch=self.epoch, started_at=now)
            trial.status, trial.snapshot, trial.attempts_total = Trial.Status.RUNNING, given, trial.attempts.count()
            trial.save(update_fields=["status", "snapshot", "attempts_total"])
            trial.remember_retrieved([self._trial(shown) for shown in retrieved])
        log_context.add(attempt=attempt.public_id)
        return str(attempt.public_id)

    def attempt_number(self, attempt: str) -> int:
        return self._attempts(attempt).values_list("number", flat=True).get()

    def note_sandbox(self, attempt: str, handle: dict[str, object]) -> None:
        with self._transaction():
            self._attempts(attempt).update(sandbox=handle)

    def live_step(self, attempt: str, step: Step) -> None:
        if self._watch is not None:
            self._watch(attempt, step)

    def bill(self, attempt: str, usage: Usage, price_table: str) -> None:
        billed = recorded.billed_fields(usage)
        with self._transaction():
            self._attempts(attempt).update(**billed, price_table=price_table)

    def finish_attempt(self, attempt: str, result: AttemptResult) -> None:
        packed = _pack(result)
        with self._transaction() as now:
            row = self._attempts(attempt).select_related("trial").get()
            _finish(row, result, packed.traceback)
            _save_trajectories(row, result, packed)
            if packed.verdict is not None:
                Verdict.objects.record(row, packed.verdict)
            row.trial.settle(row)
            self._enter(Entry.Kind.TRIAL, row, now)
            if result.library_writes:
                writes = [storable(path) for path in result.library_writes]
                refusal = Refusal.objects.create(trial=row.trial, paths=writes, reason=AGENT_WROTE)
                self._enter(Entry.Kind.REFUSAL, refusal, now)
        log_context.add(attempt=None)

    def abandon_attempt(self, attempt: str, error: BaseException, *, usage: Usage | None = None) -> None:
        message, said = self._redact(storable(str(error))), self._redact(storable(log_of(error)))
        kept = Blob.objects.put(said.encode()) if said else None
        with self._transaction() as now:
            row = self._attempts(attempt).select_related("trial").get()
            row.status = Attempt.Status.INFRASTRUCTURE
            row.finished_at = now
            row.exception_type = type(error).__name__[:200]
            row.exception_message = with_end_of_log(message, said, MAX_EXCEPTION_MESSAGE)
            row.exception_id = kept
            billed = recorded.billed_fields(usage or Usage())
            for name, value in billed.items():
                setattr(row, name, value)
            row.save(
                update_fields=["status", "finished_at", "exception_type", "exception_message", "exception_id", *billed]
            )
            Trial.objects.filter(pk=row.trial_id, is_done=False).update(status=Trial.Status.WAITING)
        log_context.add(attempt=None)

    def set_aside(self, slot: TrialSlot, error: BaseException) -> None:
        with self._transaction():
            open_trial = Trial.objects.filter(pk=self._trial(slot).pk, is_done=False)
            open_trial.exclude(status=Trial.Status.SKIPPED).update(status=Trial.Status.BLOCKED)
            Run.objects.filter(pk=self.episode.run_id).touch()
        told = with_end_of_log(words_of(error), log_of(error), MAX_LOGGED)
        log.warning("trial %s: set aside, the others go on: %s", slot, self._redact(storable(told)))

    # --- the library --------------------------------------------------------------------------------------------

    def seed(self, family: str, files: Files) -> None:
        snapshot = Snapshot.objects.put(files)
        with self._transaction() as now:
            fold(self.history()).require_open_library(f"seed of {family}")
            seeding = Seeding.objects.create(family=self._family(family), snapshot=snapshot)
            self._enter(Entry.Kind.SEED, seeding, now)
            self._hold(snapshot)

    def start_call(self, key: str, *, purpose: str, model: str, request: ModelRequest) -> None:
        stored = self._put_request(key, purpose, request)
        with self._transaction() as now:
            ModelCall.objects.create(
                episode=self.episode,
                key=key,
                purpose=purpose,
                model=model,
                scripted=is_scripted(model),
                request_id=stored,
                started_at=now,
            )

    def finish_call(
        self, key: str, reply: ModelReply | None, error: BaseException | None = None, *, price_table: str = ""
    ) -> None:
        stored = None if reply is None else _put_json(reply)
        told = "" if error is None else self._redact(storable(words_of(error)))
        usage = {} if reply is None else recorded.usage_fields(reply.usage)
        status = ModelCall.Status.FAILED if reply is None else ModelCall.Status.ANSWERED
        with self._transaction() as now:
            call = self.episode.calls.filter(key=key, status=ModelCall.Status.STARTED).latest("id")
            self.episode.calls.filter(pk=call.pk).update(
                status=status, reply_id=stored, error=told, finished_at=now, price_table=price_table, **usage
            )

    def _put_request(self, key: str, purpose: str, request: ModelRequest) -> str:
        """An agent's turn is kept as what it adds to the turn before."""
        if purpose != AGENT_CALLS:
            return _put_json(request)
        conversation = key.rpartition("/")[0]
        before, earlier = self._turn or ("", None)
        if before.rpartition("/")[0] != conversation:
            earlier = None
        self._turn = (key, request)
        return Blob.objects.put(canonical_json(shorten_request(request, earlier, before)))

    def decide(self, decision: DecisionValue, files: Files | None) -> None:
        before = Snapshot.objects.standing_for(decision.before)
        after = before if files is None else Snapshot.objects.put(files)
        change = measure_change(before.read(), {} if files is None else files) if after != before else None
        patch = None if decision.patch is None else _put_json(decision.patch)
        with self._transaction() as now:
            fold(self.history()).require_open_library(f"decision {decision.number}")
            row = Decision.objects.create(
                episode=self.episode,
                number=decision.number,
                round=decision.round,
                family=self._family(decision.family),
                mode=decision.mode,
                after_trial=None if decision.after_trial is None else self._trial(decision.after_trial),
                answer=decision.answer,
                status=decision.status,
                operation_type=storable(decision.operation_type)[:32],
                summary=storable(decision.summary),
                findings=storable_value([_without_type(encode(finding)) for finding in decision.findings]),
                error=storable(decision.error),
                patch_id=patch,
                call=self._find_answered(decision.call),
                before=before,
                after=after,
                decided_at=now,
                **({} if change is None else change.fields()),
            )
            self._cite(row, decision)
            self._enter(Entry.Kind.DECISION, row, now)
            if decision.status is DecisionStatus.APPLIED:
                self._hold(after)

    def freeze(self, frozen: Frozen) -> None:
        snapshot = Snapshot.objects.standing_for(frozen.snapshot)
        with self._transaction() as now:
            seal = Seal.objects.create(
                snapshot=snapshot,
                library_digest=frozen.library_digest,
                setup_digest=frozen.setup_digest,
                seal=frozen.seal,
                sealed_at=now,
            )
            self._enter(Entry.Kind.FREEZE, seal, now)
            self._hold(snapshot)
            self.episode.trials.unneeded().delete()

    def refuse(self, refused: Refused) -> None:
        with self._transaction() as now:
            refusal = Refusal.objects.create(
                trial=None if refused.slot is None else self._trial(refused.slot),
                paths=[storable(path) for path in refused.paths],
                reason=storable(refused.reason),
            )
            self._enter(Entry.Kind.REFUSAL, refusal, now)

    # --- the fence and the spine --------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[datetime]:
        """A transaction in which the episode is ours, or none at all. Gives the time of recording."""
        now = timezone.now()
        with transaction.atomic():
            held = Episode.objects.renew(self.episode.pk, epoch=self.epoch, now=now, seconds=settings.LEASE_SECONDS)
            if not held:
                raise LeaseLost(f"episode {self.episode.public_id} is no longer held under epoch {self.epoch}")
            yield now

    def _enter(self, kind: Entry.Kind, target: models.Model, now: datetime) -> None:
        """The next place on the spine; safe because the renewed lease row is locked until the commit."""
        self._history = None
        Entry.objects.create(
            episode=self.episode,
            sequence=self.episode.next_sequence(),
            kind=kind,
            recorded_at=now,
            **{Entry.TARGETS[kind]: target},
        )
        Run.objects.filter(pk=self.episode.run_id).touch()

    def _hold(self, snapshot: Snapshot) -> None:
        Episode.objects.filter(pk=self.episode.pk).update(library=snapshot)

    def _cite(self, row: Decision, decision: DecisionValue) -> None:
        DecisionEvidence.objects.bulk_create(
            DecisionEvidence(
                decision=row,
                ordinal=ordinal,
                trial=(trial := self._trial(shown.slot)),
                compaction=recorded.compaction_row(trial, shown.compaction),
            )
            for ordinal, shown in enumerate(decision.evidence)
        )

    def _find_answered(self, key: str | None) -> ModelCall | None:
        if key is None:
            return None
        return self.episode.calls.filter(key=key, status=ModelCall.Status.ANSWERED).first()

    def _trial(self, slot: TrialSlot) -> Trial:
        return self.episode.trials.get(phase=slot.phase, task__key=slot.task, sample=slot.sample)

    def _attempts(self, attempt: str) -> models.QuerySet[Attempt]:
        return Attempt.objects.filter(public_id=attempt, trial__episode=self.episode)

    def _family(self, key: str) -> Family:
        return Family.objects.get(suite__experiments__runs=self.episode.run_id, key=key)


# --- one finished attempt ---------------------------------------------------------------------------------------


def _pack(result: AttemptResult) -> PackedAttempt:
    """Stores everything that is read rather than filtered. Nothing points at it yet."""
    traceback = result.failure.traceback if result.failure else ""
    return PackedAttempt(
        trajectories=tuple((trajectory, pack_steps(trajectory.steps)) for trajectory in result.trajectories),
        sources=tuple(
            None if trajectory.source is None else Blob.objects.put(storable(trajectory.source).encode())
            for trajectory in result.trajectories
        ),
        compactions=tuple(map(_pack_compaction, result.compactions)),
        verdict=None if result.verdict is None else result.verdict.with_texts(storable),
        traceback=Blob.objects.put(storable(traceback).encode()) if traceback else None,
    )


def _pack_compaction(value: CompactionValue) -> Compaction:
    spans = [[span.step, span.field, span.start, span.end, span.length, span.reason] for span in value.spans]
    text, places = Blob.objects.put_many([storable(value.text).encode(), canonical_json(spans)])
    return Compaction(
        kind=value.kind,
        version=value.version,
        text_id=text,
        spans_id=places,
        tokens=value.tokens,
        steps_total=value.steps_total,
        steps_kept=value.steps_kept,
    )


def _finish(row: Attempt, result: AttemptResult, traceback: str | None) -> None:
    row.status = Attempt.Status.FINISHED
    row.started_at, row.finished_at = result.started_at, result.finished_at
    row.agent_seconds, row.verifier_seconds = result.agent_seconds, result.verifier_seconds
    row.turns, row.price_table = result.turns, result.price_table
    for name, value in recorded.billed_fields(result.usage).items():
        setattr(row, name, value)
    if result.failure is not None:
        row.exception_type = storable(result.failure.type)[:200]
        row.exception_message = cut(storable(result.failure.message), MAX_EXCEPTION_MESSAGE)
        row.exception_id = traceback
    row.save()


def _save_trajectories(row: Attempt, result: AttemptResult, packed: PackedAttempt) -> None:
    """Trajectories with their compactions and skill uses. Parents come before their children, as the agent gives them."""
    saved: dict[str, Trajectory] = {}
    for ordinal, (value, chunks) in enumerate(packed.trajectories):
        saved[value.head.name] = chunks.save(
            row,
            value.head,
            usage=value.usage,
            parent=saved.get(value.head.parent or ""),
            ordinal=ordinal,
            reader_version=READER_VERSION,
            source=packed.sources[ordinal],
            extra={"skills_listed": list(value.head.skills_listed)} if value.head.skills_listed else None,
        )
    if first := next(iter(saved.values()), None):
        for compaction in packed.compactions:
            compaction.trajectory = first
        Compaction.objects.bulk_create(packed.compactions)
    SkillUse.objects.bulk_create(
        SkillUse(
            attempt=row,
            trajectory=saved.get(use.trajectory),
            step=use.step,
            skill=storable(use.skill)[:200],
            kind=use.kind,
            path=storable(use.path or "")[:1000],
        )
        for use in result.skill_uses
    )


def _put_json(value: object) -> str:
    return Blob.objects.put(canonical_json(encode(value)))


def _without_type(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != "type"}

"""One episode's record in rows: `runner.protocols.recorder.Recorder` on the database.

Every recording method is one transaction that first renews the episode's lease under this recorder's epoch. If somebody
else has taken the episode over, the renewal finds no row: LeaseLost is raised and nothing is left behind. Contents
(blobs, chunks, snapshots) are committed before the transaction whose rows point at them. They are addressed by their
digest, so content without a row is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from benchapp.models import (
    Attempt,
    Blob,
    Compaction,
    Decision,
    Episode,
    Family,
    ModelCall,
    Run,
    Seeding,
    Snapshot,
    Trial,
    Verdict,
)
from benchapp.models.episodes import Target
from benchapp.record import log_context, recorded
from benchapp.record.error_text import log_of, text_of_error, with_end_of_log
from benchapp.record.pooling import give_back
from benchapp.record.redaction import redact_text
from benchapp.record.trajectory_store import pack_steps
from benchapp.record.writing import rows
from runner.base.digests import canonical_json
from runner.base.encoding import encode
from runner.base.errors import LeaseLost
from runner.base.text import storable
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
from runner.models import is_scripted
from runner.models.recording import shorten_request
from runner.protocols.history import fold
from runner.protocols.recorder import AGENT_CALLS, AGENT_WROTE, Frozen, History, Refused

log = logging.getLogger(__name__)

READER_VERSION = "runner/1"  # own runs need no reader: the runner hands over ATIF steps
MAX_LOGGED = 8_000


class RowRecorder:
    """`epoch` is that of the lease which the caller took; `worker` names the process, for people.

    `watch` gets every live step (see benchapp.record.live); it must not raise. `redact` removes secrets from errors;
    the runner has cleaned the trial's own texts (`runner.engine.toolbox`).
    """

    def __init__(
        self,
        episode: Episode,
        epoch: int,
        *,
        worker: str = "",
        watch: Callable[[str, Step], None] | None = None,
        redact: Callable[[str], str] = redact_text,
    ) -> None:
        self.episode, self.epoch, self.worker = episode, epoch, worker
        self._watch, self._redact = watch, redact
        self._turn: tuple[str, ModelRequest] | None = None  # key and request of the latest call of an agent
        # Read once between two entries: while we hold the lease nobody else writes, except skips of trials that are not
        # running, and a skipped trial is not started.
        self._history: History | None = None

    # --- reading ------------------------------------------------------------------------------------------------

    def history(self) -> History:
        if self._history is None:
            self._history = recorded.read_history(self.episode)
        return self._history

    def library(self, snapshot: str) -> Files:
        return recorded.read_library(snapshot)

    def compaction(self, slot: TrialSlot, kind: CompactionKind) -> CompactionValue:
        return recorded.read_compaction(self._trial(slot), kind)

    def verdict(self, slot: TrialSlot) -> VerdictValue | None:
        return recorded.read_verdict(self._trial(slot))

    def trajectories(self, slot: TrialSlot) -> tuple[TrajectoryValue, ...]:
        return recorded.read_trajectories(self._trial(slot))

    def trials_set_aside(self) -> Collection[TrialSlot]:
        return [recorded.slot_of(trial) for trial in self.episode.trials.blocked().select_related("task")]

    def reasons_set_aside(self) -> Mapping[TrialSlot, str]:
        return {recorded.slot_of(trial): reason for trial, reason in self.episode.trials.explain_blocked()}

    def reply(self, key: str) -> ModelReply | None:
        return recorded.read_reply(self.episode, key)

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
        traceback = result.failure.traceback if result.failure else ""
        compactions = tuple(map(rows.pack_compaction, result.compactions))  # of the first trajectory
        packed = [
            _pack_trajectory(trajectory, () if ordinal else compactions)
            for ordinal, trajectory in enumerate(result.trajectories)
        ]
        whole = Blob.objects.put(storable(traceback).encode()) if traceback else None
        with self._transaction() as now:
            row = self._attempts(attempt).select_related("trial").get()
            row.status = Attempt.Status.FINISHED
            rows.set_measured(row, result, result.usage, result.turns)
            row.queued_seconds = round(result.queued_seconds, 3)
            row.files_digest = result.files_digest
            row.price_table = result.price_table
            if result.failure is not None:
                rows.set_exception(row, result.failure.type, result.failure.message, whole)
            row.save()
            rows.save_below([(row, packed, result.skill_uses)])
            if result.verdict is not None:
                Verdict.objects.record(row, result.verdict.with_texts(storable))
            if result.stage_verdicts:
                stages = [(row, verdict.with_texts(storable)) for verdict in result.stage_verdicts]
                Verdict.objects.record_all(stages, is_primary=False)
            row.trial.settle(row)
            self._enter(row, now)
            if result.library_writes:
                self._enter(rows.write_refusal(row.trial, result.library_writes, AGENT_WROTE), now)
        log_context.add(attempt=None)

    def abandon_attempt(self, attempt: str, error: BaseException, *, usage: Usage | None = None) -> None:
        message, whole_log = self._redact(storable(str(error))), self._redact(storable(log_of(error)))
        stored = Blob.objects.put(whole_log.encode()) if whole_log else None
        with self._transaction() as now:
            row = self._attempts(attempt).select_related("trial").get()
            row.status = Attempt.Status.INFRASTRUCTURE
            row.finished_at = now
            row.exception_type = type(error).__name__[:200]
            row.exception_message = with_end_of_log(message, whole_log, rows.MAX_EXCEPTION_MESSAGE)
            row.exception_id = stored
            rows.set_usage(row, usage or Usage())
            row.save()
            Trial.objects.filter(pk=row.trial_id, is_done=False).update(status=Trial.Status.WAITING)
        log_context.add(attempt=None)

    def set_aside(self, slot: TrialSlot, error: BaseException) -> None:
        with self._transaction():
            open_trial = Trial.objects.filter(pk=self._trial(slot).pk, is_done=False)
            open_trial.exclude(status=Trial.Status.SKIPPED).update(status=Trial.Status.BLOCKED)
            Run.objects.filter(pk=self.episode.run_id).touch()
        message = with_end_of_log(text_of_error(error), log_of(error), MAX_LOGGED)
        log.warning("trial %s: set aside, other trials continue: %s", slot, self._redact(storable(message)))

    # --- the library --------------------------------------------------------------------------------------------

    def seed(self, family: str, files: Files) -> None:
        snapshot = Snapshot.objects.put(files)
        with self._transaction() as now:
            fold(self.history()).require_open_library(f"seed of {family}")
            self._enter(Seeding.objects.create(family=self._family(family), snapshot=snapshot), now)
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

    def bill_call(self, key: str, usage: Usage, price_table: str) -> None:
        with self._transaction():
            self._started(key).update(**recorded.billed_fields(usage), price_table=price_table)

    def finish_call(
        self,
        key: str,
        reply: ModelReply | None,
        error: BaseException | None = None,
        *,
        price_table: str = "",
        trajectories: tuple[TrajectoryValue, ...] = (),
    ) -> None:
        stored = None if reply is None else _put_json(reply)
        message = "" if error is None else self._redact(storable(text_of_error(error)))
        billed = {} if reply is None else {**recorded.billed_fields(reply.usage), "price_table": price_table}
        status = ModelCall.Status.FAILED if reply is None else ModelCall.Status.ANSWERED
        packed = [_pack_trajectory(trajectory, ()) for trajectory in trajectories]
        with self._transaction() as now:
            call = self._started(key).get()
            self.episode.calls.filter(pk=call.pk).update(
                status=status, reply_id=stored, error=message, finished_at=now, **billed
            )
            rows.save_session(call, packed)

    def _started(self, key: str) -> models.QuerySet[ModelCall]:
        """Return the latest call under this key that has not ended."""
        started = self.episode.calls.filter(key=key, status=ModelCall.Status.STARTED)
        return self.episode.calls.filter(pk=started.latest("id").pk)

    def _put_request(self, key: str, purpose: str, request: ModelRequest) -> str:
        """Store the request. An agent's turn is kept as an addition to the turn before."""
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
        packed = rows.pack_decision(before, after, decision.patch)
        with self._transaction() as now:
            fold(self.history()).require_open_library(f"decision {decision.number}")
            row = Decision(
                episode=self.episode,
                number=decision.number,
                round=decision.round,
                family=self._family(decision.family),
                mode=decision.mode,
                after_trial=None if decision.after_trial is None else self._trial(decision.after_trial),
                answer=decision.answer,
                status=decision.status,
                operation_type=decision.operation_type,
                summary=decision.summary,
                findings=[
                    {name: item for name, item in encode(finding).items() if name != "type"}
                    for finding in decision.findings
                ],
                error=decision.error,
                call=self._find_answered(decision.call),
                decided_at=now,
            )
            cited = [(self._trial(shown.slot), shown.compaction) for shown in decision.evidence]
            found = [(trial, recorded.find_compaction(trial, kind)) for trial, kind in cited]
            self._enter(packed.save(row, found), now)
            if decision.status is DecisionStatus.APPLIED:
                self._hold(after)

    def freeze(self, frozen: Frozen) -> None:
        with self._transaction() as now:
            seal = rows.write_seal(frozen, now)
            self._enter(seal, now)
            self._hold(seal.snapshot)
            self.episode.trials.unneeded().delete()

    def refuse(self, refused: Refused) -> None:
        with self._transaction() as now:
            trial = None if refused.slot is None else self._trial(refused.slot)
            self._enter(rows.write_refusal(trial, refused.paths, refused.reason), now)

    # --- the fence and the spine --------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[datetime]:
        """Open a transaction that holds the episode, or raise. Gives the time of recording."""
        now = timezone.now()
        with transaction.atomic():
            held = Episode.objects.renew(self.episode.pk, epoch=self.epoch, seconds=settings.LEASE_SECONDS)
            if not held:
                raise LeaseLost(f"episode {self.episode.public_id} is no longer held under epoch {self.epoch}")
            yield now
        give_back()  # a sandbox or a model may be next

    def _enter(self, target: Target, now: datetime) -> None:
        """Take the next place on the spine; safe because the renewed lease row is locked until the commit."""
        self._history = None
        rows.enter(self.episode, target, now)
        Run.objects.filter(pk=self.episode.run_id).touch()

    def _hold(self, snapshot: Snapshot) -> None:
        Episode.objects.filter(pk=self.episode.pk).update(library=snapshot)

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


def _pack_trajectory(value: TrajectoryValue, compactions: tuple[Compaction, ...]) -> rows.PackedTrajectory:
    return rows.PackedTrajectory(
        head=value.head,
        steps=pack_steps(value.steps),
        reader_version=READER_VERSION,
        usage=value.usage,
        source=None if value.source is None else Blob.objects.put(storable(value.source).encode()),
        extra={"skills_listed": list(value.head.skills_listed)} if value.head.skills_listed else {},
        compactions=compactions,
    )


def _put_json(value: object) -> str:
    return Blob.objects.put(canonical_json(encode(value)))

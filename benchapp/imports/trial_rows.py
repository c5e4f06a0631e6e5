"""The rows of one imported attempt, written inside the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils import timezone

from benchapp.imports.packing import PackedTrajectory, usage_json
from benchapp.imports.reading.found_sources import TrialSource
from benchapp.models import Attempt, Blob, SkillUse, Trajectory, Trial, Verdict
from benchapp.record.recorded import BOUND_OF, billed_fields
from benchapp.record.redaction import Redactor
from runner.base.text import cut
from runner.base.types import CheckStatus, TrajectoryKind, Usage, UseKind
from runner.base.types import Verdict as VerdictValue
from runner.trajectories.readers import PLAIN_TEXT

MAX_EXCEPTION_MESSAGE = 2_000  # characters on the row; the whole lies in a blob
USAGE = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
# A trial's columns that come from the attempt that counts.
NUMBERS = (
    *("success", "reward", "outcome", "process", "overall", "checks_passed", "checks_total", "steps", "turns"),
    *(*USAGE, "duration_seconds", "skills_mounted", "skills_read", "finished_at"),
)


def empty(trial: Trial) -> None:
    """The row of a trial no attempt of which counts."""
    for name in NUMBERS:
        setattr(trial, name, None)
    trial.status, trial.is_done, trial.exception_type = Trial.Status.UNSCORED, False, ""
    trial.settled_at = timezone.now()


@dataclass(frozen=True, slots=True)
class AttemptParts:
    """A trial's source, redacted and packed: all that its rows need."""

    source: TrialSource
    packed: tuple[PackedTrajectory, ...]
    verdict: VerdictValue | None
    redactor: Redactor

    @classmethod
    def of(cls, source: TrialSource, packed: Sequence[PackedTrajectory], redactor: Redactor) -> AttemptParts:
        verdict = None if source.verdict is None else source.verdict.with_texts(redactor.text)
        return cls(source, tuple(packed), verdict, redactor)

    @property
    def own(self) -> list[PackedTrajectory]:
        """See Attempt.own_trajectories."""
        main = [item for item in self.packed if item.head.kind is TrajectoryKind.MAIN][:1]
        return main or [item for item in self.packed if item.head.kind is TrajectoryKind.STAGE]

    @property
    def turns(self) -> int | None:
        turns = [item.turns for item in self.own]
        return sum(turns) if turns and None not in turns else None

    @property
    def status(self) -> str:
        return Attempt.Status.FINISHED if self.source.is_finished else Attempt.Status.INTERRUPTED

    def usage(self) -> tuple[Usage, dict[str, Any]]:
        """(usage, the source's own totals): recomputed from the steps; the source's only where no step tells."""
        recomputed, told = Usage(), self.source.usage
        for item in self.packed:
            recomputed = recomputed + item.usage
        taken = [name for name in USAGE if getattr(recomputed, name) is None and _says_more(told, name, recomputed)]
        totals = usage_json(told)
        if taken:
            totals["taken"] = taken  # these columns of the attempt hold the source's numbers
        bounds = {BOUND_OF[name]: None for name in taken if name in BOUND_OF}
        return replace(recomputed, **{name: getattr(told, name) for name in taken}, **bounds), totals

    def save(self, attempt: Attempt) -> Attempt:
        """Fills and saves the attempt, which has its trial, number and identity; then everything below it."""
        source, redact = self.source, self.redactor.text
        usage, totals = self.usage()
        message = redact(source.exception.message) if source.exception else ""
        config, exception = self._blobs(message)
        attempt.status = self.status
        attempt.started_at, attempt.finished_at = source.timing.started_at, source.timing.finished_at
        attempt.started_text, attempt.finished_text = source.timing.started_text, source.timing.finished_text
        attempt.agent_seconds, attempt.verifier_seconds = source.timing.agent_seconds, source.timing.verifier_seconds
        attempt.turns = self.turns
        attempt.source_tokens = totals
        attempt.source_config_id, attempt.exception_id = config, exception
        attempt.exception_type = redact(source.exception.type)[:200] if source.exception else ""
        attempt.exception_message = cut(message, MAX_EXCEPTION_MESSAGE)
        for name, value in billed_fields(usage).items():
            setattr(attempt, name, value)
        attempt.save(force_insert=True)
        self._save_below(attempt)
        return attempt

    def _blobs(self, message: str) -> tuple[str | None, str | None]:
        """Digests of the config and of the exception's whole text."""
        texts: dict[str, bytes] = {}
        if self.source.config:
            config = self.redactor.value(dict(self.source.config))
            texts["config"] = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False).encode()
        if self.source.exception:
            traceback = self.redactor.text(self.source.exception.traceback)
            texts["exception"] = f"{message}\n\n{traceback}".strip().encode()
        digests = dict(zip(texts, Blob.objects.put_many(texts.values()), strict=True)) if texts else {}
        return digests.get("config"), digests.get("exception")

    def _save_below(self, attempt: Attempt) -> None:
        if self.verdict is not None:
            Verdict.objects.record(attempt, self.verdict)
        for stage in self.source.stage_verdicts:
            Verdict.objects.record(attempt, stage.with_texts(self.redactor.text), is_primary=False)
        rows: dict[str, Trajectory] = {}
        for ordinal, item in enumerate(self.packed):
            rows[item.head.name] = item.save(attempt, ordinal, rows.get(item.head.parent or ""))
        if self.source.skills_mounted:
            SkillUse.objects.bulk_create(
                SkillUse(attempt=attempt, skill=self.redactor.text(slug)[:200], kind=UseKind.MOUNTED)
                for slug in self.source.skills_mounted
            )

    def fill(self, trial: Trial, attempts_total: int) -> None:
        """Gives the trial's row its numbers: those that Trial.settle would copy from the saved rows."""
        trial.attempts_total = attempts_total
        if not self.source.is_finished:
            empty(trial)
            return
        trial.is_done, trial.settled_at = True, timezone.now()
        usage, _ = self.usage()
        for name in USAGE:
            setattr(trial, name, getattr(usage, name))
        trial.turns = self.turns
        trial.steps = sum(item.packed.steps_total for item in self.own) if self.own else None
        trial.exception_type = self.redactor.text(self.source.exception.type)[:200] if self.source.exception else ""
        trial.finished_at = self.source.timing.finished_at
        trial.duration_seconds = self.source.timing.duration_seconds
        self._fill_verdict(trial)
        mounted = set(self.source.skills_mounted or ())
        read = {use.skill for item in self.packed for use in item.uses}
        trial.skills_mounted = len(mounted) if mounted or trial.snapshot_id else None
        tells_calls = any(item.head.source_format != PLAIN_TEXT for item in self.own)
        trial.skills_read = len(read) if tells_calls else None

    def _fill_verdict(self, trial: Trial) -> None:
        verdict = self.verdict
        for name in ("success", "reward", "outcome", "process", "overall"):
            setattr(trial, name, getattr(verdict, name) if verdict else None)
        statuses = {None: Trial.Status.UNSCORED, True: Trial.Status.PASSED, False: Trial.Status.FAILED}
        trial.status = statuses[trial.success]
        checks = [check for check in verdict.checks if check.status is not CheckStatus.SKIPPED] if verdict else []
        trial.checks_total = len(checks) or None
        passed = sum(check.status is CheckStatus.PASSED for check in checks)
        trial.checks_passed = passed if checks else None


def _says_more(told: Usage, name: str, counted: Usage) -> bool:
    """Is the source's total more than what was counted in part? Else it is the same partial sum. Programs that do not
    know their tokens write 0."""
    total = getattr(told, name)
    bound = getattr(counted, BOUND_OF[name]) if name in BOUND_OF else None
    if bound is None and name in ("input_tokens", "output_tokens"):
        bound = 0
    return total is not None and (bound is None or total > bound)

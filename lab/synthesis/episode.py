"""One synthetic episode: trials in the protocol's order, decisions after acquisition, a freeze, a spine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchapp.models import Attempt, Decision, Entry, Environment, Episode, Family, Snapshot, Task, Trial
from benchapp.models import Verdict as VerdictRow
from benchapp.models.episodes import Target
from benchapp.record.textual_change import ChangeCounts
from benchapp.record.trajectory_store import pack_steps
from benchapp.record.writing.rows import PackedDecision, PackedTrajectory, build_entry, save_below, write_seal
from lab.synthesis.texts import WORDS, draw_sentence, draw_steps, revise_library
from runner.base.types import (
    AuthorMode,
    Check,
    CheckGroup,
    CheckStatus,
    DecisionStatus,
    File,
    Phase,
    SkillUse,
    TrajectoryHead,
    UseKind,
    Verdict,
)
from runner.engine.engine import seal
from runner.protocols.recorder import Frozen

CHECKS = ((CheckGroup.PUBLIC, 3), (CheckGroup.HIDDEN, 4), (CheckGroup.PROCESS, 2))
CHECKS_TOTAL = sum(number for _, number in CHECKS)
BAD_PATCH = {"rule": "tier3-uncited", "path": "x/references/notes.md", "message": "not cited", "severity": "error"}


@dataclass(frozen=True, slots=True)
class Quota:
    """What a run or an episode must hold. Steps are those of all its trajectories."""

    trials: int
    steps: int
    decisions: int

    def shares(self, parts: int) -> Iterator[Quota]:
        """Split the quota into nearly equal parts that add up to it."""
        for part in range(parts):
            yield Quota(
                *(value // parts + (part < value % parts) for value in (self.trials, self.steps, self.decisions))
            )


class EpisodeWriter:
    """Writes one episode's rows in the order of its spine."""

    def __init__(self, episode: Episode, environment: Environment, quota: Quota, dice: random.Random) -> None:
        self.episode, self.quota, self.dice = episode, quota, dice
        families = environment.families.order_by("ordinal")
        self.tasks = [(family, task) for family in families for task in family.tasks.order_by("ordinal")]
        self.library: dict[str, File] = {}
        self.snapshot = Snapshot.objects.put({})
        self.decisions = self.rounds = 0
        self.entries: list[Entry] = []
        self.shown: dict[int, list[Trial]] = {}

    def write(self, at: datetime) -> None:
        slots = self._slots()[: self.quota.trials]
        acquisitions = sum(phase is Phase.ACQUISITION for phase, _, _ in slots) or 1
        lengths = list(Quota(0, self.quota.steps, 0).shares(len(slots))) if slots else []
        answers = [share.decisions for share in Quota(0, 0, self.quota.decisions).shares(acquisitions)]
        for place, ((phase, family, task), length) in enumerate(zip(slots, lengths, strict=True)):
            at += timedelta(seconds=self.dice.randint(20, 90))
            trial = self._trial(phase, task, length.steps, at)
            if phase is Phase.ACQUISITION:
                self._decide(trial, family, answers[place], at)
            if place == acquisitions - 1:
                self._freeze(at)
        self.episode.library = self.snapshot
        self.episode.save(update_fields=["library"])
        Entry.objects.bulk_create(self.entries)

    def _slots(self) -> list[tuple[Phase, Family, Task]]:
        early = [(family, task) for family, task in self.tasks if task.ordinal <= 3]
        late = [(family, task) for family, task in self.tasks if task.ordinal > 3]
        phases = ((Phase.ACQUISITION, early), (Phase.DEPLOYMENT, late), (Phase.REPLAY, early))
        return [(phase, family, task) for phase, tasks in phases for family, task in tasks]

    def _enter(self, target: Target, at: datetime) -> None:
        self.entries.append(build_entry(self.episode, target, at, len(self.entries) + 1))

    # --- trials ---

    def _trial(self, phase: Phase, task: Task, length: int, at: datetime) -> Trial:
        packed = pack_steps(draw_steps(self.dice, length)) if length else None
        passed = self.dice.random() < 0.35 + 0.03 * self.rounds
        good = CHECKS_TOTAL if passed else self.dice.randrange(CHECKS_TOTAL)
        tokens = {"input_tokens": 1_000 * length, "cached_tokens": 800 * length, "output_tokens": 90 * length}
        finished = at + timedelta(seconds=self.dice.randint(5, 19))
        skills = sorted({path.split("/")[0] for path in self.library})
        read = skills[: self.dice.randint(0, min(2, len(skills)))]
        attempt = Attempt(
            number=1,
            counts=True,
            status=Attempt.Status.FINISHED,
            started_at=at,
            finished_at=finished,
            turns=length,
            **tokens,
        )
        trial = attempt.trial = Trial(
            episode=self.episode,
            task=task,
            phase=phase,
            snapshot=self.snapshot,
            attempts_total=1,
            settled_at=finished,
        )
        verdict = self._draw_verdict(passed, good)
        head = TrajectoryHead(agent_name="synthetic", model=self.episode.run.agent_model)
        uses = [SkillUse(slug, UseKind.MOUNTED, trajectory="") for slug in skills]
        uses += [SkillUse(slug, UseKind.READ, trajectory="") for slug in read]
        trial.take_numbers(
            attempt,
            verdict,
            checks=[check.status for check in verdict.checks],
            own=[(length, head.source_format)] if packed else [],
            uses=[(use.skill, use.kind) for use in uses],
        )
        trial.save()
        attempt.save()
        VerdictRow.objects.record(attempt, verdict)
        save_below([(attempt, [PackedTrajectory(head, packed, "synthetic/1")] if packed else [], uses)])
        self._enter(attempt, finished)
        return trial

    def _draw_verdict(self, passed: bool, good: int) -> Verdict:
        """Draw a verdict whose first `good` checks pass."""
        groups = [group for group, number in CHECKS for _ in range(number)]
        checks = tuple(
            Check(group, f"{group} check {place + 1}", CheckStatus.PASSED)
            if place < good
            else Check(
                group,
                f"{group} check {place + 1}",
                CheckStatus.FAILED,
                f"expected {self.dice.choice(WORDS)}, found {self.dice.choice(WORDS)}",
            )
            for place, group in enumerate(groups)
        )
        share = good / CHECKS_TOTAL
        return Verdict("suite", passed, share, share, share, share, checks)

    # --- the library ---

    def _decide(self, trial: Trial, family: Family, answers: int, at: datetime) -> None:
        shown = self.shown.setdefault(family.pk, [])
        shown.append(trial)
        for answer in range(1, answers + 1):
            status = DecisionStatus(self.dice.choices(("applied", "no-op", "rejected", "failed"), (70, 12, 14, 4))[0])
            before = self.snapshot
            if status is DecisionStatus.APPLIED:
                self.library = revise_library(self.dice, self.library, family.slug)
                self.snapshot = Snapshot.objects.put(self.library)
                if self.snapshot.pk == before.pk:
                    status = DecisionStatus.NO_OP
            self.decisions += 1
            self.rounds += status is DecisionStatus.APPLIED
            decision = self._draw_decision(trial, family, answer, status, at)
            packed = PackedDecision(before, self.snapshot, None, self._draw_change(status))
            self._enter(packed.save(decision, [(seen, None) for seen in shown]), at)

    def _draw_decision(
        self, trial: Trial, family: Family, answer: int, status: DecisionStatus, at: datetime
    ) -> Decision:
        first = trial.task.ordinal == 1
        return Decision(
            episode=self.episode,
            number=self.decisions,
            round=self.rounds,
            family=family,
            mode=AuthorMode.INDUCE if first else AuthorMode.REVISE,
            after_trial=trial,
            answer=answer,
            status=status,
            operation_type="create" if first else "revise",
            summary=draw_sentence(self.dice),
            findings=[BAD_PATCH] if status is DecisionStatus.REJECTED else [],
            error="the reply is not JSON" if status is DecisionStatus.FAILED else "",
            decided_at=at,
        )

    def _draw_change(self, status: DecisionStatus) -> ChangeCounts:
        if status is not DecisionStatus.APPLIED:
            return ChangeCounts()
        return ChangeCounts(self.dice.randint(1, 30), self.dice.randint(0, 9), 1)

    def _freeze(self, at: datetime) -> None:
        library, setup = self.snapshot.digest, self.episode.run.setup_digest
        self._enter(write_seal(Frozen(library, library, setup, seal(setup, library)), at), at)

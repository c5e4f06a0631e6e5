"""One synthetic episode: trials in the protocol's order, decisions after acquisition, a freeze, a spine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchapp.models import (
    Attempt,
    Check,
    Decision,
    DecisionEvidence,
    Entry,
    Environment,
    Episode,
    Seal,
    SkillUse,
    Snapshot,
    Task,
    Trial,
    Verdict,
)
from benchapp.record.trajectory_store import pack_steps
from benchapp.synthesis.texts import WORDS, draw_sentence, draw_steps, revise_library
from runner.base.digests import digest_json
from runner.base.types import File, Phase, TrajectoryHead

CHECKS = (("public", 3), ("hidden", 4), ("process", 2))
CHECKS_TOTAL = sum(number for _, number in CHECKS)
BAD_PATCH = {"rule": "tier3-uncited", "path": "x/references/notes.md", "message": "not cited", "severity": "error"}


@dataclass(frozen=True, slots=True)
class Quota:
    trials: int
    steps: int
    decisions: int

    def shares(self, parts: int) -> Iterator[Quota]:
        """The quota in nearly equal parts that add up to it."""
        for part in range(parts):
            yield Quota(
                *(value // parts + (part < value % parts) for value in (self.trials, self.steps, self.decisions))
            )


class EpisodeWriter:
    """Writes one episode's rows in the order of its spine."""

    def __init__(
        self, episode: Episode, environment: Environment, quota: Quota, dice: random.Random, *, learns: bool
    ) -> None:
        self.episode, self.quota, self.dice, self.learns = episode, quota, dice, learns
        tasks = Task.objects.filter(family__environment=environment).select_related("family")
        self.tasks = list(tasks.order_by("family__ordinal", "ordinal"))
        self.library: dict[str, File] = {}
        self.snapshot = Snapshot.objects.put({})
        self.sequence = self.decisions = self.rounds = 0
        self.entries: list[Entry] = []
        self.shown: dict[int, list[Trial]] = {}

    def write(self, at: datetime) -> None:
        slots = self._slots()[: self.quota.trials]
        acquisitions = sum(phase is Phase.ACQUISITION for phase, _ in slots) or 1
        lengths = list(Quota(0, self.quota.steps, 0).shares(len(slots))) if slots else []
        answers = [share.decisions for share in Quota(0, 0, self.quota.decisions).shares(acquisitions)]
        for place, ((phase, task), length) in enumerate(zip(slots, lengths, strict=True)):
            at += timedelta(seconds=self.dice.randint(20, 90))
            trial = self._trial(phase, task, length.steps, at)
            if phase is Phase.ACQUISITION:
                self._decide(trial, answers[place], at)
            if place == acquisitions - 1:
                self._freeze(at)
        self.episode.library = self.snapshot
        self.episode.save(update_fields=["library"])
        Entry.objects.bulk_create(self.entries)

    def _slots(self) -> list[tuple[Phase, Task]]:
        early = [task for task in self.tasks if task.ordinal <= 3]
        late = [task for task in self.tasks if task.ordinal > 3]
        return [
            *((Phase.ACQUISITION, task) for task in early),
            *((Phase.DEPLOYMENT, task) for task in late),
            *((Phase.REPLAY, task) for task in early),
        ]

    def _enter(self, kind: Entry.Kind, at: datetime, **target: object) -> None:
        self.sequence += 1
        entry = Entry(episode=self.episode, sequence=self.sequence, kind=kind, recorded_at=at, **target)
        self.entries.append(entry)

    # --- trials ---

    def _trial(self, phase: Phase, task: Task, length: int, at: datetime) -> Trial:
        packed = pack_steps(draw_steps(self.dice, length)) if length else None
        passed = self.dice.random() < 0.35 + 0.03 * self.rounds
        good = CHECKS_TOTAL if passed else self.dice.randrange(CHECKS_TOTAL)
        tokens = {"input_tokens": 1_000 * length, "cached_tokens": 800 * length, "output_tokens": 90 * length}
        finished = at + timedelta(seconds=self.dice.randint(5, 19))
        skills = sorted({path.split("/")[0] for path in self.library})
        read = skills[: self.dice.randint(0, min(2, len(skills)))]
        trial = Trial.objects.create(
            episode=self.episode,
            task=task,
            phase=phase,
            snapshot=self.snapshot,
            status=Trial.Status.PASSED if passed else Trial.Status.FAILED,
            is_done=True,
            success=passed,
            **dict.fromkeys(("reward", "outcome", "process", "overall"), good / CHECKS_TOTAL),
            checks_passed=good,
            checks_total=CHECKS_TOTAL,
            steps=length if packed else None,
            turns=length,
            **tokens,
            duration_seconds=(finished - at).total_seconds(),
            skills_mounted=len(skills),
            skills_read=len(read) if packed else None,
            attempts_total=1,
            finished_at=finished,
            settled_at=finished,
        )
        attempt = Attempt.objects.create(
            trial=trial,
            number=1,
            counts=True,
            status="finished",
            started_at=at,
            finished_at=finished,
            turns=length,
            **tokens,
        )
        self._verdict(attempt, trial, good)
        if packed:
            head = TrajectoryHead(agent_name="synthetic", model=self.episode.run.agent_model)
            packed.save(attempt, head, reader_version="synthetic/1")
        uses = [(slug, "mounted") for slug in skills] + [(slug, "read") for slug in read]
        SkillUse.objects.bulk_create(SkillUse(attempt=attempt, skill=slug, kind=kind) for slug, kind in uses)
        self._enter(Entry.Kind.TRIAL, finished, attempt=attempt)
        return trial

    def _verdict(self, attempt: Attempt, trial: Trial, good: int) -> None:
        verdict = Verdict.objects.create(
            attempt=attempt,
            source="suite",
            is_primary=True,
            success=trial.success,
            reward=trial.reward,
            outcome=trial.outcome,
            process=trial.process,
            overall=trial.overall,
        )
        groups = [group for group, number in CHECKS for _ in range(number)]
        Check.objects.bulk_create(
            Check(
                verdict=verdict,
                ordinal=place,
                group=group,
                name=f"{group} check {place + 1}",
                status="passed" if place < good else "failed",
                message="" if place < good else f"expected {self.dice.choice(WORDS)}, found {self.dice.choice(WORDS)}",
            )
            for place, group in enumerate(groups)
        )

    # --- the library ---

    def _decide(self, trial: Trial, answers: int, at: datetime) -> None:
        shown = self.shown.setdefault(trial.task.family_id, [])
        shown.append(trial)
        for answer in range(1, answers + 1):
            status = self.dice.choices(("applied", "no-op", "rejected", "failed"), (70, 12, 14, 4))[0]
            before = self.snapshot
            if status == "applied":
                self.library = revise_library(self.dice, self.library, trial.task.family.slug)
                self.snapshot = Snapshot.objects.put(self.library)
                if self.snapshot.pk == before.pk:
                    status = "no-op"
            self.decisions += 1
            self.rounds += status == "applied"
            decision = self._decision(trial, answer, status, before, at)
            DecisionEvidence.objects.bulk_create(
                DecisionEvidence(decision=decision, ordinal=place, trial=seen) for place, seen in enumerate(shown)
            )
            self._enter(Entry.Kind.DECISION, at, decision=decision)

    def _decision(self, trial: Trial, answer: int, status: str, before: Snapshot, at: datetime) -> Decision:
        first = trial.task.ordinal == 1
        return Decision.objects.create(
            episode=self.episode,
            number=self.decisions,
            round=self.rounds,
            family=trial.task.family,
            mode="induce" if first else "revise",
            after_trial=trial,
            answer=answer,
            status=status,
            operation_type="create" if first else "revise",
            summary=draw_sentence(self.dice),
            findings=[BAD_PATCH] if status == "rejected" else [],
            error="the reply is not JSON" if status == "failed" else "",
            before=before,
            after=self.snapshot,
            lines_added=self.dice.randint(1, 30) if status == "applied" else 0,
            lines_removed=self.dice.randint(0, 9) if status == "applied" else 0,
            files_changed=int(status == "applied"),
            decided_at=at,
        )

    def _freeze(self, at: datetime) -> None:
        setup, library = self.episode.run.setup_digest, self.snapshot.digest
        seal = Seal.objects.create(
            snapshot=self.snapshot,
            library_digest=library,
            setup_digest=setup,
            seal=digest_json([setup, library]),
            sealed_at=at,
        )
        self._enter(Entry.Kind.FREEZE, at, seal=seal)

"""Why a library is what it is: the decision, the evidence shown to its author, and the later trials that had the text."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.analysis.lineage.attribution import (
    Baseline,
    Ended,
    LaterTrials,
    count_later_trials,
    list_trials_with_lines,
    read_no_skill,
    split_by_family,
)
from benchapp.analysis.lineage.ledger import LedgerRow, count_ledger_row
from benchapp.analysis.lineage.line_history import Lineage, WorkedTrial, read_lineage
from benchapp.models import Decision, DecisionEvidence, Episode, Run, SnapshotFile, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.library.changes import FileChange
from inspector.pages.library.rail import Rail, RailStop, open_rail
from inspector.pages.trials.verdict import VerdictView, verdicts_of
from inspector.web.text.excerpt import EvidenceExcerpt, read_excerpts

MAX_USERS = 300  # trials drawn; beyond it they are counted


@dataclass(frozen=True, slots=True)
class ShownTrial:
    """One trial the author was shown; excerpt None where only the fact is recorded."""

    trial: Trial
    excerpt: EvidenceExcerpt | None


@dataclass(frozen=True, slots=True)
class Users(Shaped):
    """Later trials whose library held exactly this text, counted as the ledger beside it counts: association, not effect."""

    skill: str
    path: str
    later: LaterTrials = LaterTrials()
    same_family: Ended = Ended()  # the same as of the decision that made the state
    other_families: Ended = Ended()

    json_shape = JsonShape("path", "*later", "same_family", "other_families")

    @property
    def total(self) -> int:
        return self.later.total.mounted

    @property
    def shown(self) -> tuple[tuple[WorkedTrial, bool | None], ...]:
        return self.later.trials[:MAX_USERS]


@dataclass(frozen=True, slots=True)
class LibraryCourse:
    """What became of an episode's library: its rail, who wrote each line, and the same tasks under no-skill."""

    rail: Rail
    lineage: Lineage
    baseline: Baseline

    def ledger_of(self, stop: RailStop | None) -> LedgerRow | None:
        """How the later trials ended that had what this stop wrote; None where it wrote nothing or nothing was traced."""
        if stop is None or not stop.changed or self.lineage.too_big:
            return None
        return count_ledger_row(self.lineage, self.rail.states.index(stop.after), stop.family, self.baseline)

    def users_of(self, change: FileChange, stop: RailStop | None) -> Users:
        """The trials whose library held the new side of this file, split by the family of `stop`. One query."""
        skill = change.path.partition("/")[0]
        if change.new is None:
            return Users(skill, change.path)
        snapshots = self.lineage.snapshots
        rows = SnapshotFile.objects.filter(
            snapshot__in=set(snapshots) - {None}, path=change.path, blob=change.new.digest
        )
        holding = set(rows.values_list("snapshot_id", flat=True))

        def standing(state: int) -> frozenset[str]:
            return frozenset([skill] if snapshots[state] in holding else ())

        trials = list_trials_with_lines(self.lineage, standing, born=0)
        split = split_by_family(trials, stop.family if stop else None, self.baseline)
        return Users(skill, change.path, count_later_trials(trials, self.baseline), *split)


def open_course(run: Run, episode: Episode) -> LibraryCourse:
    rail = open_rail(run, episode)
    lineage = read_lineage(run, episode, rail.states)
    return LibraryCourse(rail, lineage, read_no_skill(run, {trial.task for trial in lineage.trials}))


def read_evidence(decision: Decision) -> list[ShownTrial]:
    """The trials shown to the author, in their order. Two queries."""
    rows = list(
        DecisionEvidence.objects.filter(decision=decision)
        .select_related("trial__task__family", "compaction")
        .order_by("ordinal")
    )
    excerpts = {
        found.compaction.pk: found for found in read_excerpts([row.compaction for row in rows if row.compaction])
    }
    return [ShownTrial(row.trial, excerpts.get(row.compaction_id or 0)) for row in rows]


def read_verdict_seen(decision: Decision) -> VerdictView | None:
    """The primary verdict of the trial that the decision followed."""
    trial = decision.after_trial
    return next(iter(verdicts_of(trial.counting_attempt())), None) if trial else None

"""Why a library is what it is: the decision, the evidence its author was shown, and who worked with the text since."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from benchapp.json_shape import JsonShape, Shaped
from benchapp.lineage.attribution import Attribution, Baseline, Ended, attribute, by_family, with_lines
from benchapp.lineage.history import Lineage, Worked
from benchapp.models import Blob, Decision, DecisionEvidence, SnapshotFile, Trial
from inspector.changes import FileChange
from inspector.excerpt import Excerpt, excerpts_of
from inspector.verdict import VerdictView, verdicts_of
from inspector.visible import visible
from runner.types import Patch

MAX_USERS = 300  # trials drawn; beyond it they are counted


@dataclass(frozen=True, slots=True)
class Shown:
    """One trial the author was shown; excerpt None where only the fact is recorded."""

    trial: Trial
    excerpt: Excerpt | None


@dataclass(frozen=True, slots=True)
class Users(Shaped):
    """Later trials whose library held exactly this text, counted as the ledger beside it counts: association, not effect."""

    skill: str
    path: str
    later: Attribution = Attribution()
    same_family: Ended = Ended()  # as what made the state was asked for
    other_families: Ended = Ended()

    json_shape = JsonShape("path", "*later", "same_family", "other_families")

    @property
    def total(self) -> int:
        return self.later.total.mounted

    @property
    def shown(self) -> tuple[tuple[Worked, bool | None], ...]:
        return self.later.trials[:MAX_USERS]


def patch_of(decision: Decision) -> Patch | None:
    """The patch as parsed; None where the reply was no patch."""
    if decision.patch_id is None:
        return None
    raw = orjson.loads(Blob.objects.read(decision.patch_id))
    return Patch(
        summary=str(raw.get("summary", "")),
        operation_type=str(raw.get("operation_type", "")),
        upsert_files={str(path): str(text) for path, text in raw.get("upsert_files", {}).items()},
        delete_paths=tuple(map(str, raw.get("delete_paths", ()))),
    )


def reply_text(decision: Decision) -> str:
    """The author's answer as it came, made visible; empty where none is recorded."""
    if decision.call is None or decision.call.reply_id is None:
        return ""
    reply = orjson.loads(Blob.objects.read(decision.call.reply_id))
    return visible(str(reply.get("text", "")))


def evidence_of(decision: Decision) -> list[Shown]:
    """The trials it was made from, in the order shown. Two queries."""
    rows = list(
        DecisionEvidence.objects.filter(decision=decision)
        .select_related("trial__task__family", "compaction")
        .order_by("ordinal")
    )
    excerpts = {found.compaction.pk: found for found in excerpts_of([row.compaction for row in rows if row.compaction])}
    return [Shown(row.trial, excerpts.get(row.compaction_id)) for row in rows]


def verdict_seen(decision: Decision) -> VerdictView | None:
    """The primary verdict of the trial after which the decision was asked for."""
    trial = decision.after_trial
    return next(iter(verdicts_of(trial.counting_attempt())), None) if trial else None


def users_of(change: FileChange, family: int | None, lineage: Lineage, baseline: Baseline) -> Users:
    """Who had the new side of this file mounted. `family`: the one that what made it was asked for. One query."""
    skill = change.path.partition("/")[0]
    if change.new is None:
        return Users(skill, change.path)
    states = [state.snapshot for state in lineage.states if state.snapshot is not None]
    rows = SnapshotFile.objects.filter(snapshot__in=states, path=change.path, blob=change.new.digest)
    holding = set(rows.values_list("snapshot_id", flat=True))

    def standing(state: int) -> frozenset[str]:
        return frozenset([skill] if lineage.states[state].snapshot in holding else ())

    trials = with_lines(lineage, standing, born=0)
    return Users(skill, change.path, attribute(trials, baseline), *by_family(trials, family, baseline))

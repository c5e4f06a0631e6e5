"""Whose copy a trial's session is, in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchapp.imports.logs.lineage import FORK, RESUME, SNAPSHOT
from benchapp.imports.logs.session_logs import NAME
from benchapp.models import Attempt, Trial
from benchapp.models.base import derived_id

_VERBS = {RESUME: "Resumes", FORK: "Forks", SNAPSHOT: "Is a snapshot of"}


@dataclass(frozen=True, slots=True)
class Origin:
    """`trial`: the copied session's; None where it is not in the record."""

    verb: str
    session: str
    rest: str
    trial: Trial | None


def read_origins(attempts: Iterable[Attempt]) -> dict[int, Origin]:
    """Of those attempts that copy a session, by their key. One query where any does."""
    copies = {attempt.pk: attempt.lineage for attempt in attempts if "kind" in attempt.lineage}
    ids = {facts["of"]: derived_id("trial", f"{NAME}:{facts['of']}") for facts in copies.values()}
    found = (
        {trial.public_id: trial for trial in Trial.objects.standing().filter(public_id__in=ids.values())} if ids else {}
    )
    return {key: _describe(facts, found.get(ids[facts["of"]])) for key, facts in copies.items()}


def _describe(facts: dict[str, object], trial: Trial | None) -> Origin:
    first = facts["own_from"]
    rest = f"its own work starts at step {first:,}." if isinstance(first, int) else "it has no work of its own."
    return Origin(_VERBS[str(facts["kind"])], str(facts["of"]).partition(":")[2], rest, trial)

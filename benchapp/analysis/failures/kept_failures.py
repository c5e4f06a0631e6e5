"""Cache classified refusals of ended runs on disk: reading thousands of checks again takes seconds.

Trials are kept by their public ids, because a rebuilt database may give them other keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from benchapp.analysis.failures.classification import Classified
from benchapp.analysis.failures.refusals import Failures, RefusedRow
from benchapp.models import Run, Trial
from benchapp.stats.learning.computed_runs import keep_of_runs, take_of_runs
from benchapp.stats.metrics.agent_ends import AgentEnd
from runner.base.encoding import decode, encode

NAME = "failures"


def take_failures(runs: Iterable[Run]) -> dict[int, Failures]:
    """Return run pk -> what is kept of it. At most two queries."""
    facts = {pk: decode(KeptFailures, fact) for pk, fact in take_of_runs(runs, NAME).items()}
    failed = Trial.objects.filter(episode__run__in=list(facts), success=False).values_list("public_id", "pk")
    keys = {str(public_id): pk for public_id, pk in failed} if facts else {}
    return {run: _restore(kept, keys) for run, kept in facts.items() if all(row.trial in keys for row in kept.refused)}


def keep_failures(runs: Iterable[Run], found: Mapping[int, Failures]) -> None:
    """Keep the failures of ended runs. At most one query."""
    keep_of_runs(runs, NAME, lambda run: encode(_pack(found[run.pk])))


@dataclass(frozen=True, slots=True)
class KeptRow:
    trial: str
    task: str
    source: str
    sample: int
    classified: Classified


@dataclass(frozen=True, slots=True)
class KeptFailures:
    """`Failures` without keys of this database."""

    refused: tuple[KeptRow, ...]
    ends: dict[str, int]
    left_out: int


def _pack(found: Failures) -> KeptFailures:
    rows = (KeptRow(str(row.trial), row.task, row.source, row.sample, row.classified) for row in found.refused)
    return KeptFailures(tuple(rows), {end.value: count for end, count in found.ends.items()}, found.left_out)


def _restore(kept: KeptFailures, keys: Mapping[str, int]) -> Failures:
    rows = (
        RefusedRow(UUID(row.trial), keys[row.trial], row.task, row.source, row.sample, row.classified)
        for row in kept.refused
    )
    return Failures(tuple(rows), {AgentEnd(end): count for end, count in kept.ends.items()}, kept.left_out)

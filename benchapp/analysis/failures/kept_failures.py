"""Classed refusals of runs at their end, kept on disk: reading every check again takes seconds where there are thousands.

Trials are kept by their public ids: a database made anew may give them other keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from benchapp.analysis.failures.classification import Classified, FailureClass, Sign
from benchapp.analysis.failures.refusals import Failures, RefusedRow
from benchapp.models import Experiment, Run, Trial
from benchapp.stats.learning.computed_runs import has_ended
from benchapp.stats.learning.kept_files import keep_fact, take_fact
from benchapp.stats.metrics.agent_ends import AgentEnd


def take_failures(runs: Iterable[Run]) -> dict[int, Failures]:
    """run pk -> what is kept of it. Two queries."""
    ended = [run for run in runs if has_ended(run)]
    experiments = _read_experiments(ended)
    facts = {
        run.pk: fact
        for run in ended
        if (fact := take_fact(experiments[run.experiment_id], _name(run), run.revision)) is not None
    }
    failed = Trial.objects.filter(episode__run__in=list(facts), success=False).values_list("public_id", "pk")
    keys = {str(public_id): pk for public_id, pk in failed} if facts else {}
    return {
        run: _restore(fact, keys)
        for run, fact in facts.items()
        if all(each["trial"] in keys for each in fact["refused"])
    }


def keep_failures(runs: Iterable[Run], found: Mapping[int, Failures]) -> None:
    """Of runs at their end; the others change without another revision. One query."""
    ended = [run for run in runs if has_ended(run)]
    experiments = _read_experiments(ended)
    for run in ended:
        keep_fact(experiments[run.experiment_id], _name(run), run.revision, _pack(found[run.pk]))


def _read_experiments(runs: Iterable[Run]) -> dict[int, Experiment]:
    return Experiment.objects.only("public_id").in_bulk({run.experiment_id for run in runs})


def _name(run: Run) -> str:
    return f"failures-{run.public_id}"


def _pack(found: Failures) -> dict[str, Any]:
    return {
        "refused": [_pack_row(row) for row in found.refused],
        "ends": {end.value: count for end, count in found.ends.items()},
        "left_out": found.left_out,
    }


def _pack_row(row: RefusedRow) -> dict[str, Any]:
    primary = row.classified.primary
    return {
        "trial": str(row.trial),
        "row": [row.task, row.source, row.sample],
        "primary": primary.value if primary else "",
        "signs": [asdict(sign) for sign in row.classified.signs],
    }


def _restore(fact: Mapping[str, Any], keys: Mapping[str, int]) -> Failures:
    return Failures(
        refused=tuple(_restore_row(each, keys[each["trial"]]) for each in fact["refused"]),
        ends={AgentEnd(end): count for end, count in fact["ends"].items()},
        left_out=fact["left_out"],
    )


def _restore_row(kept: Mapping[str, Any], pk: int) -> RefusedRow:
    signs = tuple(Sign(**{**sign, "failure": FailureClass(sign["failure"])}) for sign in kept["signs"])
    primary = FailureClass(kept["primary"]) if kept["primary"] else None
    task, source, sample = kept["row"]
    return RefusedRow(UUID(kept["trial"]), pk, task, source, sample, Classified(primary, signs))

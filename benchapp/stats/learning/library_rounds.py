"""Which round of its library each trial of acquisition or evaluation was given, read off the spine of its episode."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from benchapp.models import Entry, Run
from benchapp.stats.metrics.outcomes import LEARNING


def read_rounds_given(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, int]:
    """trial pk -> rounds of learning behind the library its counting attempt began with; those of acquisition and evaluation.

    0: no decision had changed the library yet. Decisions that changed nothing (rejected, no-op, failed) make no
    round. Episodes without a spine (imports without a protocol) have no entry. One query; two integers per entry.
    """
    wanted = Q(kind=Entry.Kind.DECISION) | Q(
        kind=Entry.Kind.TRIAL, attempt__counts=True, attempt__trial__phase__in=LEARNING
    )
    entries = Entry.objects.filter(wanted, episode__run__in=[run.pk for run in runs])
    if as_of is not None:
        entries = entries.filter(recorded_at__lte=as_of)
    rows = entries.order_by("episode_id", "sequence").values_list("episode_id", "attempt__trial_id", "decision__round")
    given: dict[int, int] = {}
    rounds: dict[int, int] = {}  # episode -> rounds completed so far
    for episode, trial, completed in rows.iterator(chunk_size=5000):
        if trial is None:
            rounds[episode] = completed
        else:
            given[trial] = rounds.get(episode, 0)
    return given

"""Trials as columns, read from the record once and kept while nothing in them has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import groupby
from threading import Lock
from typing import Any

from benchapp.metrics.outcomes import PHASES, ROLES, Outcomes, empty_outcomes, outcomes_from
from benchapp.models import Run, Trial

MAX_KEPT = 250_000  # trials in one process: some 50 MB
READ = (
    ("episode__run_id", "trial_run"),
    ("pk", "trial"),
    ("task_id", "task"),
    ("task__family_id", "family"),
    ("task__family__environment_id", "environment"),
    ("episode_id", "episode"),
    ("episode__key", "episode_key"),
    ("episode__is_ordered", "is_ordered"),
    ("episode__is_tainted", "tainted"),
    ("phase", "phase"),
    ("task__role", "role"),
    ("sample", "sample"),
    ("task__ordinal", "ordinal"),
    ("finished_at", "finished"),
    ("settled_at", "settled"),
    ("success", "success"),
    ("reward", "reward"),
    ("outcome", "outcome"),
    ("process", "process"),
    ("overall", "overall"),
    ("turns", "turns"),
    ("input_tokens", "input_tokens"),
    ("cached_tokens", "cached_tokens"),
    ("output_tokens", "output_tokens"),
    ("cost_usd", "cost_usd"),
    ("duration_seconds", "seconds"),
    ("skills_mounted", "skills_mounted"),
    ("skills_read", "skills_read"),
)
NAMES = tuple(name for _, name in READ)


class _Kept:
    """Outcomes by run and revision, the least recently used forgotten first. One per process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lock = Lock()
        self.tables: OrderedDict[tuple[int, int], Outcomes] = OrderedDict()

    def get(self, run: Run) -> Outcomes | None:
        with self.lock:
            found = self.tables.get((run.pk, run.revision))
            if found is not None:
                self.tables.move_to_end((run.pk, run.revision))
            return found

    def put(self, run: Run, outcomes: Outcomes) -> None:
        with self.lock:
            self.tables[run.pk, run.revision] = outcomes
            kept = sum(map(len, self.tables.values()))
            while kept > self.limit and len(self.tables) > 1:
                kept -= len(self.tables.popitem(last=False)[1])

    def clear(self) -> None:
        with self.lock:
            self.tables.clear()


KEPT = _Kept(MAX_KEPT)


def outcomes_of(runs: Iterable[Run]) -> dict[int, Outcomes]:
    """run pk -> its trials. One query for all runs whose columns are not at hand in this process."""
    wanted = list(runs)
    found = {run.pk: kept for run in wanted if (kept := KEPT.get(run)) is not None}
    missing = [run for run in wanted if run.pk not in found]
    if missing:
        read = _read(missing)
        for run in missing:
            found[run.pk] = read.get(run.pk) or empty_outcomes()
            KEPT.put(run, found[run.pk])
    return found


def _read(runs: Sequence[Run]) -> dict[int, Outcomes]:
    trials = Trial.objects.filter(episode__run__in=[run.pk for run in runs])
    rows = trials.order_by("episode__run_id", "pk").values_list(*(lookup for lookup, _ in READ))
    return {pk: _columns(list(of_run)) for pk, of_run in groupby(rows.iterator(chunk_size=5000), lambda row: row[0])}


def _columns(rows: list[tuple[Any, ...]]) -> Outcomes:
    columns: dict[str, Sequence[Any]] = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
    keys = zip(*(columns[name] for name in ("is_ordered", "episode_key", "family", "task")), strict=True)
    columns["cluster"] = [_cluster(*key) for key in keys]
    columns["position"] = _positions(columns)
    for name in ("family", "environment"):
        columns[name] = [-1 if key is None else key for key in columns[name]]
    columns["phase"] = [PHASES.index(phase) for phase in columns["phase"]]
    columns["role"] = [ROLES.index(role) if role in ROLES else 0 for role in columns["role"]]
    # What an older version of the record settled has no time: it was there before every pin.
    columns["settled"] = [moment.timestamp() if moment else 0.0 for moment in columns["settled"]]
    return outcomes_from(columns)


def _cluster(is_ordered: bool, episode: str, family: int | None, task: int) -> int:
    """Equal in every run for trials that share a library: by the key of an episode that owns one, else by the family."""
    name = f"episode:{episode}" if is_ordered else f"family:{family}" if family is not None else f"task:{task}"
    return int.from_bytes(blake2b(name.encode(), digest_size=7).digest())


def _positions(columns: dict[str, Sequence[Any]]) -> list[int]:
    """Place of each trial inside its episode and phase, by the time it ended; what has no time comes last."""
    finished = [moment.timestamp() if moment else float("inf") for moment in columns["finished"]]
    order = sorted(range(len(finished)), key=lambda place: (finished[place], columns["trial"][place]))
    seen: dict[tuple[int, str], int] = {}
    positions = [0] * len(order)
    for place in order:
        key = columns["episode"][place], columns["phase"][place]
        positions[place] = seen.get(key, 0)
        seen[key] = positions[place] + 1
    return positions

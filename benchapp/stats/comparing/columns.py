"""Trials as columns, read from the record once and cached while nothing in them has changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import count, groupby
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models import Count, F, QuerySet

from benchapp.models import Episode, Run, SkillUse, Task, Trial
from benchapp.stats.learning.computed_runs import RunCache, clear_kept, write_kept
from benchapp.stats.learning.reuse import is_of_library
from benchapp.stats.metrics.outcomes import (
    CORPUS_CODES,
    PHASE_CODES,
    ROLE_CODES,
    Outcomes,
    empty_outcomes,
    outcomes_from,
)
from runner.agents import WITH_SKILL_TOOL
from runner.base.types import UseKind
from runner.protocols.conditions import count_seeds

MAX_NAMED = 500  # keys in one IN
MAX_KEPT = 250_000  # trials in one process: some 50 MB
EPISODE = ("pk", "run_id", "key", "is_ordered", "is_tainted", "run__condition", "run__harness")
TASK = ("pk", "family_id", "family__environment_id", "family__environment__kind", "role", "ordinal")
NUMBERS = {  # lookup -> column; a duration in seconds is one of the columns of the same unit
    "reward": "reward",
    "outcome": "outcome",
    "process": "process",
    "overall": "overall",
    "turns": "turns",
    "input_tokens": "input_tokens",
    "cached_tokens": "cached_tokens",
    "output_tokens": "output_tokens",
    "cost_usd": "cost_usd",
    "duration_seconds": "seconds",
    "skills_mounted": "skills_mounted",
    "skills_read": "skills_read",
}
TRIAL = (
    *("episode_id", "pk", "task_id", "phase", "sample", "snapshot_id", "is_done", "status", "finished_at"),
    *("success", *NUMBERS),
)
TRIAL_COLUMNS = (
    *("episode", "trial", "task", "phase", "sample", "library", "done", "skipped", "finished"),
    *("success", *NUMBERS.values()),
)

Row = Sequence[Any]  # values as the database gives them: of one row, or of one column
KEPT: RunCache[Outcomes] = RunCache(MAX_KEPT, len)


def outcomes_of(runs: Iterable[Run]) -> dict[int, Outcomes]:
    """Return run pk -> its trials. Four queries for all runs that are not cached in this process or on its disk."""
    return KEPT.read_all(runs, _take_or_read)


def _take_or_read(runs: list[Run]) -> dict[int, Outcomes]:
    found = {run.pk: columns for run in runs if (columns := take_columns(run)) is not None}
    missing = [run for run in runs if run.pk not in found]
    read = _read(missing) if missing else {}
    for run in missing:
        found[run.pk] = read.get(run.pk) or empty_outcomes()
        if not run.is_open:  # a running one has another revision after every trial
            keep_columns(run, found[run.pk])
    return found


def read_settled_after(runs: Iterable[Run], moment: datetime) -> set[int]:
    """Return keys of trials of these runs that were settled, for the first time or again, after that moment."""
    later = Trial.objects.filter(episode__run__in=[run.pk for run in runs], settled_at__gt=moment)
    return set(later.values_list("pk", flat=True))


def _read(runs: Sequence[Run]) -> dict[int, Outcomes]:
    episodes = Episode.objects.filter(run__in=[run.pk for run in runs])
    facts = {pk: rest for pk, *rest in episodes.values_list(*EPISODE)}
    in_order = Trial.objects.filter(episode__in=episodes).order_by(
        "episode__run_id", "episode_id", "phase", F("finished_at").asc(nulls_last=True), "pk"
    )
    by_run = {run: list(found) for run, found in groupby(_rows(in_order), lambda row: facts[row[0]][0])}
    tasks = _tasks({row[2] for found in by_run.values() for row in found})
    uses = SkillUse.objects.filter(is_of_library(), kind=UseKind.INVOKED, attempt__counts=True)
    uses = uses.filter(attempt__trial__episode__in=episodes).order_by()
    invoked = dict(uses.values_list("attempt__trial").annotate(skills=Count("skill", distinct=True)))
    return {run: _columns(found, facts, tasks, invoked) for run, found in by_run.items()}


def _rows(trials: QuerySet[Trial]) -> Iterator[Row]:
    """Yield rows as the database returns them. Django's conversion of numbers would cost as much as the query."""
    with connection.cursor() as cursor:
        cursor.execute(*trials.values_list(*TRIAL).query.sql_with_params())
        while found := cursor.fetchmany(5000):
            yield from found


def _tasks(keys: set[int]) -> dict[int, Row]:
    found = Task.objects.order_by()
    found = found.filter(pk__in=keys) if len(keys) <= MAX_NAMED else found
    return {pk: rest for pk, *rest in found.values_list(*TASK)}


def _columns(
    rows: list[Row], episodes: Mapping[int, Row], tasks: Mapping[int, Row], invoked: Mapping[int, int]
) -> Outcomes:
    columns: dict[str, Row] = dict(zip(TRIAL_COLUMNS, zip(*rows, strict=True), strict=True))
    of_episodes = zip(*(episodes[pk] for pk in columns["episode"]), strict=True)
    _, keys, columns["ordered"], columns["tainted"], conditions, (harness, *_) = of_episodes
    family, environment, kind, role, columns["ordinal"] = zip(*(tasks[pk] for pk in columns["task"]), strict=True)
    seeds = map(count_seeds, conditions)
    columns["seed"] = [1 <= place <= count for place, count in zip(columns["ordinal"], seeds, strict=True)]
    has_tool = harness in WITH_SKILL_TOOL or any(pk in invoked for pk in columns["trial"])
    columns["skills_invoked"] = [
        invoked.get(pk, 0) if has_tool and read is not None else None
        for pk, read in zip(columns["trial"], columns["skills_read"], strict=True)
    ]
    columns["cluster"] = list(map(_cluster, columns["ordered"], keys, family, columns["task"]))
    columns["position"] = _positions(columns["episode"], columns["phase"])
    columns["skipped"] = [status == Trial.Status.SKIPPED for status in columns["skipped"]]
    columns["finished"] = list(map(_seconds_of, columns["finished"]))
    columns["library"] = [-1 if key is None else key for key in columns["library"]]
    columns["family"] = [-1 if key is None else key for key in family]
    columns["environment"] = [-1 if key is None else key for key in environment]
    columns["phase"] = [PHASE_CODES[phase] for phase in columns["phase"]]
    columns["role"] = [ROLE_CODES.get(name, 0) for name in role]
    columns["corpus"] = [CORPUS_CODES.get(name or "", 0) for name in kind]
    return outcomes_from(columns)


def _seconds_of(moment: str | datetime | None) -> float | None:
    """Return seconds since 1970. SQLite returns its text, in UTC without a zone."""
    if moment is None:
        return None
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


@lru_cache(maxsize=20_000)
def _cluster(is_ordered: bool, episode: str, family: int | None, task: int) -> int:
    """Return an id equal in every run for trials that share a library: from their own episode, else the family."""
    name = f"episode:{episode}" if is_ordered else f"family:{family}" if family is not None else f"task:{task}"
    return int.from_bytes(blake2b(name.encode(), digest_size=7).digest())


def _positions(episodes: Sequence[int], phases: Sequence[str]) -> list[int]:
    """Return the place of each trial inside its episode and phase; the rows are in the order of their ends."""
    counters: dict[tuple[int, str], Iterator[int]] = defaultdict(count)
    return [next(counters[key]) for key in zip(episodes, phases, strict=True)]


# --- on disk -----------------------------------------------------------------------------------------------------
# One file per run, `<public id>-<revision>-<layout>.words`, in 64-bit words: the number of trials, then one column
# after the other. A page reads hundreds of them, and the header of a numpy file would take half of that time. A file
# holds only what the record would give; losing it costs time, so nothing here fails a page.

FIELDS = [(field.name, str(field.type)) for field in fields(Outcomes)]
LAYOUT = blake2b(repr(FIELDS).encode(), digest_size=4).hexdigest()


def columns_folder() -> Path:
    return Path(settings.VAR_DIR) / "columns"


def take_columns(run: Run) -> Outcomes | None:
    """Return the columns, None where none are kept for this revision, or they cannot be read."""
    try:
        words = np.frombuffer(_path(run).read_bytes(), np.int64)
    except (OSError, ValueError):
        return None
    if not len(words) or len(words) != 1 + len(FIELDS) * int(words[0]):
        return None
    rows = zip(FIELDS, words[1:].reshape(len(FIELDS), int(words[0])), strict=True)
    return outcomes_from({name: row.view(np.float64) if kind == "Floats" else row for (name, kind), row in rows})


def keep_columns(run: Run, outcomes: Outcomes) -> None:
    """Keep the columns and delete earlier revisions of the run."""
    columns = [getattr(outcomes, name) for name, _ in FIELDS]
    rows = [row.view(np.int64) if row.dtype == np.float64 else row.astype(np.int64) for row in columns]
    words = np.concatenate([[len(outcomes)], *rows]).astype(np.int64)
    write_kept(_path(run), f"{run.public_id}-*", lambda part: part.write(words.tobytes()))


def clear_columns(runs: Iterable[Run]) -> None:
    """Delete files of runs that are about to be removed."""
    clear_kept(columns_folder(), (run.public_id for run in runs))


def _path(run: Run) -> Path:
    return columns_folder() / f"{run.public_id}-{run.revision}-{LAYOUT}.words"

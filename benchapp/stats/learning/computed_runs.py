"""Computed values: cached in this process, and kept in files of the var folder so that a new one need not compute
again.

A file holds only what the record would give. Losing it costs time, so nothing here fails a page. Facts are small values
as JSON, kept with a digest of their sources and of the rules that computed them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Protocol, TypeAlias, TypeVar
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.db.models import prefetch_related_objects

from benchapp.models import Experiment, Run
from runner.base.recent import Recent

V = TypeVar("V")


class RunCache(Recent[Run, V]):
    """Values by run and revision: what was computed before a number of the run changed is never found again."""

    def __init__(self, limit: int, size: Callable[[V], int] = lambda value: 1) -> None:
        super().__init__(limit, size)
        _EVERY.add(self)

    def read_all(
        self,
        runs: Iterable[Run],
        read: Callable[[list[Run]], Mapping[int, V]],
        may_keep: Callable[[Run], bool] = lambda run: True,
    ) -> dict[int, V]:
        """Return run pk -> value, for every run. `read` is called once, with all runs whose values are not cached."""
        wanted = list(runs)
        found = {run.pk: value for run in wanted if may_keep(run) and (value := self.get(run)) is not None}
        missing = [run for run in wanted if run.pk not in found]
        found |= read(missing) if missing else {}
        for run in missing:
            if may_keep(run):
                self.put(run, found[run.pk])
        return {run.pk: found[run.pk] for run in wanted}

    def _name(self, key: Run) -> Hashable:
        return key.public_id, key.revision


class Forgetful(Protocol):
    """A cache of any values."""

    def clear(self) -> None: ...


_EVERY: WeakSet[Forgetful] = WeakSet()


def forget_runs() -> None:
    """Clear this process's cached values of runs, as if it had just started."""
    for kept in list(_EVERY):
        kept.clear()


def has_ended(run: Run) -> bool:
    """Is the run done? Before, some values change without another revision."""
    return run.status == Run.Status.DONE


logger = logging.getLogger(__name__)
Fact: TypeAlias = dict[str, Any]  # as JSON gives it
RULES = ("benchapp/analysis", "benchapp/stats")  # packages whose code computes facts


def write_kept(path: Path, former: str, write: Callable[[IO[bytes]], object]) -> None:
    """Write a temporary file and rename it, so that nobody reads half a file. Delete others that match `former`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as part:
            write(part)
        Path(part.name).replace(path)
        for other in path.parent.glob(former):
            if other != path:
                other.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s is not kept: %s", path.name, error)


def clear_kept(folder: Path, ids: Iterable[UUID]) -> None:
    """Delete the files of what has these public ids."""
    for public_id in ids:
        for path in folder.glob(f"{public_id}-*"):
            path.unlink(missing_ok=True)


def facts_folder() -> Path:
    return Path(settings.VAR_DIR) / "facts"


def take_fact(experiment: Experiment, name: str, key: object) -> Fact | None:
    """Return the fact, None where none is kept under this key, or it cannot be read."""
    try:
        found = json.loads(_fact_path(experiment, name, key).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def keep_fact(experiment: Experiment, name: str, key: object, fact: Mapping[str, object]) -> None:
    """Keep a fact. `name`: one per experiment. `key`: the revisions of all its sources."""
    text = json.dumps(fact, default=lambda value: value.item()).encode()  # numbers of numpy
    write_kept(_fact_path(experiment, name, key), f"{experiment.public_id}-{name}-*", lambda part: part.write(text))


def take_of_runs(runs: Iterable[Run], name: str) -> dict[int, Fact]:
    """Return run pk -> its kept fact, for runs that have ended: others change without another revision."""
    ended = [run for run in runs if has_ended(run)]
    prefetch_related_objects(ended, "experiment")
    facts = {run.pk: take_fact(run.experiment, f"{name}-{run.public_id}", run.revision) for run in ended}
    return {pk: fact for pk, fact in facts.items() if fact is not None}


def keep_of_runs(runs: Iterable[Run], name: str, pack: Callable[[Run], Mapping[str, object]]) -> None:
    """Keep facts of runs that have ended."""
    ended = [run for run in runs if has_ended(run)]
    prefetch_related_objects(ended, "experiment")
    for run in ended:
        keep_fact(run.experiment, f"{name}-{run.public_id}", run.revision, pack(run))


def take_or_read(
    runs: Iterable[Run],
    name: str,
    read: Callable[[list[Run]], Mapping[int, V]],
    pack: Callable[[V], Mapping[str, object]],
    restore: Callable[[Fact], V],
) -> dict[int, V]:
    """Return run pk -> value for every run: restored from its kept fact, else read with all others that have none."""
    wanted = list(runs)
    found = {pk: restore(fact) for pk, fact in take_of_runs(wanted, name).items()}
    if missing := [run for run in wanted if run.pk not in found]:
        values = read(missing)
        keep_of_runs(missing, name, lambda run: pack(values[run.pk]))
        found |= values
    return found


def read_revisions(experiment: Experiment) -> tuple[tuple[str, int], ...]:
    """Return the revisions of all its runs, as the key of what compares one run with another. One query."""
    rows = Run.objects.filter(experiment=experiment).order_by("pk").values_list("public_id", "revision")
    return tuple((str(public_id), revision) for public_id, revision in rows)


def clear_facts(experiments: Iterable[Experiment]) -> None:
    """Delete facts of experiments that are about to be removed."""
    clear_kept(facts_folder(), (each.public_id for each in experiments))


def _fact_path(experiment: Experiment, name: str, key: object) -> Path:
    digest = blake2b(f"{digest_code(RULES)} {key}".encode(), digest_size=12).hexdigest()
    return facts_folder() / f"{experiment.public_id}-{name}-{digest}.json"


@cache
def digest_code(packages: tuple[str, ...]) -> str:
    """Digest the code of these modules, once per process: another version may compute other values from the same
    numbers."""
    found, home = blake2b(digest_size=12), Path(settings.BASE_DIR)
    for package in packages:
        for path in sorted((home / package).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()

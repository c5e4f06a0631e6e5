"""Find sources again. If other readers read one before, is the result still the same? If one is unchanged, can reading
be skipped?

An attempt's digest covers its source and the version of the readers, so an import after an upgrade reads every source
again. If the readers find what is already recorded, nothing is superseded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchapp.imports.packing import READER_VERSION
from benchapp.imports.reading.found_sources import FoundTrial
from benchapp.models import Attempt, Experiment, Trial
from benchapp.models.trials import NUMBERS
from benchapp.record.record_digest import reading_of
from benchapp.stats.learning.computed_runs import digest_code, keep_fact, take_fact

QUIET = "quiet-sources"
READERS = ("benchapp/imports", "benchapp/record", "runner")  # their code decides whether a source has problems


def read_digest(found: FoundTrial) -> str:
    """Digest the bytes of the source and the version of its readers: 64 hex characters."""
    return hashlib.sha256(f"{READER_VERSION}\0{found.digest()}".encode()).hexdigest()


class QuietSources:
    """Digests of an experiment's sources that had no problems. If such a source and its recorded attempt are found
    again, there is nothing to report or read. They are kept outside the record; without them every source is read."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        fact = take_fact(experiment, QUIET, digest_code(READERS)) or {}
        self._kept = frozenset(fact.get("digests", ()))
        self._digests = set(self._kept)

    def __contains__(self, digest: str) -> bool:
        return digest in self._digests

    def add(self, digest: str) -> None:
        self._digests.add(digest)

    def keep(self, known: Iterable[str]) -> None:
        """Keep, for the next import, the digests of sources that attempts of the record were read from."""
        digests = self._digests.intersection(known)
        if digests != self._kept:
            keep_fact(self._experiment, QUIET, digest_code(READERS), {"digests": sorted(digests)})


@dataclass(frozen=True, slots=True)
class StandingAttempt:
    """The attempt of a trial that no other superseded, read by earlier readers, and the trial's row at that time."""

    attempt: Attempt
    numbers: dict[str, Any]

    def read_again(self, digest: str) -> None:
        """Mark the attempt as read by these readers, because they find the same."""
        Attempt.objects.filter(pk=self.attempt.pk).update(source_digest=digest)
        self.attempt.trajectories.update(reader_version=READER_VERSION)


def standing_of(trial: Trial) -> StandingAttempt | None:
    """Return the current attempt; None if these readers read it already: then its source changed."""
    rows = trial.attempts.exclude(status=Attempt.Status.SUPERSEDED).select_related("trial__episode")
    attempt = rows.order_by("number").last()
    if attempt is None or attempt.trajectories.filter(reader_version=READER_VERSION).exists():
        return None
    return StandingAttempt(attempt, _numbers(trial))


def reads_the_same(standing: StandingAttempt, attempt: Attempt) -> bool:
    """Compare with `attempt`, the new one, saved."""
    new = Attempt.objects.select_related("trial").get(pk=attempt.pk)
    old = Attempt.objects.get(pk=standing.attempt.pk)
    return standing.numbers == _numbers(new.trial) and reading_of(old) == reading_of(new)


def _numbers(trial: Trial) -> dict[str, Any]:
    return {name: getattr(trial, name) for name in ("status", *NUMBERS)}

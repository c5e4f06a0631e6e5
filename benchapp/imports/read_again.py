"""Sources read again by other readers than those they came in with: is what they read still the same?

An attempt's digest covers its source and the version of the readers, so an import after an upgrade reads every source
again. Where the readers find what stands in the record already, nothing is superseded.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from benchapp.imports.packing import READER_VERSION
from benchapp.imports.reading.found_sources import FoundTrial
from benchapp.models import Attempt, Trial
from benchapp.models.trials import NUMBERS
from benchapp.record.record_digest import reading_of


def read_digest(found: FoundTrial) -> str:
    """Over the bytes of the source and the version of its readers: 64 hex characters."""
    return hashlib.sha256(f"{READER_VERSION}\0{found.digest()}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StandingAttempt:
    """The attempt of a trial that no other superseded, read by earlier readers, and what the trial's row told then."""

    attempt: Attempt
    numbers: dict[str, Any]

    def read_again(self, digest: str) -> None:
        """These readers find the same, so theirs it is from now on."""
        Attempt.objects.filter(pk=self.attempt.pk).update(source_digest=digest)
        self.attempt.trajectories.update(reader_version=READER_VERSION)


def standing_of(trial: Trial) -> StandingAttempt | None:
    """None where these readers read it already: then its source changed."""
    rows = trial.attempts.exclude(status=Attempt.Status.SUPERSEDED).select_related("trial__episode")
    attempt = rows.order_by("number").last()
    if attempt is None or attempt.trajectories.filter(reader_version=READER_VERSION).exists():
        return None
    return StandingAttempt(attempt, _numbers(trial))


def reads_the_same(standing: StandingAttempt, attempt: Attempt) -> bool:
    """`attempt`: the new one, saved."""
    new = Attempt.objects.select_related("trial").get(pk=attempt.pk)
    old = Attempt.objects.get(pk=standing.attempt.pk)
    return standing.numbers == _numbers(new.trial) and reading_of(old) == reading_of(new)


def _numbers(trial: Trial) -> dict[str, Any]:
    return {name: getattr(trial, name) for name in ("status", *NUMBERS)}

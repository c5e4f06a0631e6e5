"""The trials of one run as columns: what every metric over trials is computed from. Pure numpy.

Fifty thousand model instances cost seconds; the same rows as columns cost a fraction, are small enough to keep, and let
metrics and intervals be array arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.types import Phase, Role

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PHASES: tuple[str, ...] = tuple(phase.value for phase in Phase)
ROLES: tuple[str, ...] = ("", *(role.value for role in Role))  # "": the source tells none
NOT_SCORED = ("success", "reward", "outcome", "process", "overall")


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """One place per planned trial, in all columns alike. NaN: not known, never zero.

    `trial`, `task`, `family`, `environment`, `episode` are keys of the record; -1 where there is none. `cluster` is equal
    for trials that share a library, in every run alike: the episode where one owns a library, else the family, else
    the task. `phase` and `role` count into PHASES and ROLES. `ordinal` is the task's place in
    its family, from 1. `position` is the place inside episode and phase in the
    order of running, from 0. `settled`: seconds since 1970 when the record took the numbers in.
    """

    trial: Ints
    task: Ints
    family: Ints
    environment: Ints
    episode: Ints
    cluster: Ints
    phase: Ints
    role: Ints
    sample: Ints
    ordinal: Ints
    position: Ints
    tainted: Mask
    settled: Floats
    success: Floats
    reward: Floats
    outcome: Floats
    process: Floats
    overall: Floats
    turns: Floats
    input_tokens: Floats
    cached_tokens: Floats
    output_tokens: Floats
    cost_usd: Floats
    seconds: Floats
    skills_mounted: Floats
    skills_read: Floats

    def __len__(self) -> int:
        return len(self.trial)

    def column(self, name: str) -> Floats:
        values: Floats = getattr(self, name)
        return values

    def where(self, mask: Mask) -> Outcomes:
        """Only the trials the mask keeps."""
        return Outcomes(*(getattr(self, field.name)[mask] for field in fields(self)))

    def covering(self, phases: Sequence[str] = (), role: str | None = None) -> Mask:
        """The trials of these phases (none given: all) and of this role (None: all)."""
        mask: Mask = np.ones(len(self), dtype=bool)
        if phases:
            mask &= np.isin(self.phase, [PHASES.index(phase) for phase in phases])
        if role is not None:
            mask &= self.role == ROLES.index(role)
        return mask

    def standing_at(self, moment: datetime | None) -> Outcomes:
        """As the record knew it then: a trial settled later is planned, and not scored yet."""
        if moment is None:
            return self
        later = self.settled > moment.timestamp()
        if not later.any():
            return self
        blank = {name: np.where(later, np.nan, self.column(name)) for name in MEASURED}
        return replace(self, **blank)

    def settled_after(self, moment: datetime) -> int:
        return int((self.settled > moment.timestamp()).sum())


MEASURED = tuple(field.name for field in fields(Outcomes) if field.type == "Floats" and field.name != "settled")


def empty_outcomes() -> Outcomes:
    return Outcomes(*(np.empty(0, dtype=_dtype(str(field.type))) for field in fields(Outcomes)))


def outcomes_from(columns: dict[str, Sequence[Any]]) -> Outcomes:
    """From one sequence per field; None in a measured one is "not known"."""
    arrays = {field.name: np.array(columns[field.name], dtype=_dtype(str(field.type))) for field in fields(Outcomes)}
    return Outcomes(**arrays)


def _dtype(annotation: str) -> type:
    return {"Ints": np.int64, "Floats": np.float64, "Mask": np.bool_}[annotation]

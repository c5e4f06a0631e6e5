"""Which runs may be compared: equal setups except for the axes that are being compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchapp.models import Run
from runner.digests import canonical_json

# What an experiment varies on purpose. Everything else in a setup must be equal.
AXES = frozenset({"condition", "replicate", "seed", "agent_model", "author_model", "harness"})


@dataclass(frozen=True, slots=True)
class Comparability:
    """`differs`: names of setup entries that are not equal everywhere. `unknown`: runs that tell no setup at all."""

    differs: tuple[str, ...]
    unknown: int
    runs: int

    @property
    def is_comparable(self) -> bool:
        return not self.differs and not self.unknown


def compare_setups(runs: Iterable[Run]) -> Comparability:
    """Names what differs between the setups of these runs beyond the compared axes. Unknown is never equal."""
    found = list(runs)
    setups: list[Mapping[str, object]] = [run.setup for run in found if run.setup_digest and run.setup]
    names = sorted({name for setup in setups for name in setup} - AXES)
    differs = [name for name in names if len({canonical_json(setup.get(name)) for setup in setups}) > 1]
    return Comparability(tuple(differs), len(found) - len(setups), len(found))

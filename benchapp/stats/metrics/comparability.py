"""Which runs may be compared: equal setups except for the axes that are being compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchapp.models import Run
from runner.base.digests import canonical_json
from runner.prompts.roles import ROLES

# What an experiment varies on purpose, by its place in a setup (`runner.engine.setup`, without condition, replicate and
# seed). Everything else must be equal. The condition's name says whose prompts an author is asked with.
_PACKS = {f"prompts.{role}": f"prompts.{role}.pack" for role in ROLES}
AXES = frozenset({"agent.name", "agent.version", "agent.model", "author.model", *_PACKS.values()})
# Protocols that are two settings of one benchmark, for the same tasks: their difference is the question.
SETTINGS = {"skillgenbench": "task-conditioned", "skillgenbench-agnostic": "task-agnostic"}
# Another model has another version; one model in two versions is not the same model. The same holds for packs of
# prompts.
VERSIONS = {
    "agent.model_version": "agent.model",
    "author.model_version": "author.model",
    **{f"{role}.{name}": pack for role, pack in _PACKS.items() for name in ("digest", "skillglass")},
}


class Comparability:
    """`differs`: names of setup entries that are not equal everywhere, beyond the compared axes; unknown is never
    equal. `unknown`: runs without a recorded setup. `settings`: the protocols, if settings of one benchmark are
    compared."""

    def __init__(self, runs: Sequence[Run]) -> None:
        setups = [dict(_leaves(run.setup)) for run in runs if run.setup_digest and run.setup]
        names = sorted({name for setup in setups for name in setup} - AXES)
        protocols = {str(setup.get("protocol")) for setup in setups}
        is_of_one_benchmark = len(protocols) > 1 and protocols <= set(SETTINGS)
        self.settings = tuple(each for each in SETTINGS if each in protocols) if is_of_one_benchmark else ()
        self.differs = tuple(
            name for name in names if _differs(name, setups) and not (self.settings and name == "protocol")
        )
        self.runs = len(runs)
        self.unknown = self.runs - len(setups)
        self.is_comparable = not self.differs and not self.unknown

    @property
    def compared(self) -> dict[str, tuple[str, ...]] | None:
        return {"settings": self.settings} if self.settings else None

    @property
    def setting_names(self) -> list[str]:
        return [SETTINGS[each] for each in self.settings]

    @property
    def parts(self) -> list[str]:
        """The parts of a setup where something differs: author, sandbox."""
        return list(dict.fromkeys(name.partition(".")[0] for name in self.differs))


def _differs(name: str, setups: list[dict[str, object]]) -> bool:
    """Does this entry differ anywhere? A version is compared only among setups of the same model."""
    of = VERSIONS.get(name)
    values = {(canonical_json(setup.get(of)) if of else b"", canonical_json(setup.get(name))) for setup in setups}
    return len(values) > len({owner for owner, _ in values})


def _leaves(value: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Yield ("limits.max_turns", 40), ... for every value of a setup except mappings with entries of their own."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}.{name}" if place else str(name))
    else:
        yield place, value

"""A side of a comparison: runs of any experiments that a reader puts together, under one name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from benchapp.models import Run

LETTERS = ("a", "b", "c", "d")  # side A is the baseline
UUID_LENGTH = 36
VENDOR = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")  # "us.anthropic."
DATED = re.compile(r"[@-]20\d{6}(?:-v\d+:\d+)?$")


@dataclass(frozen=True, slots=True)
class Side:
    """`parts`: its contents, each the id of an experiment or a run, or `ID:condition` for one condition of an
    experiment. `name`: a condition's code or any words; empty: the condition of its runs, if they share one."""

    letter: str
    parts: tuple[str, ...]
    name: str = ""

    def matches(self) -> Q:
        """Match the same as `holds`, in SQL."""
        whole = [part for part in self.parts if len(part) == UUID_LENGTH]
        found = Q(experiment__public_id__in=whole) | Q(public_id__in=whole)
        for part in self.parts:
            if len(part) > UUID_LENGTH:
                found |= Q(experiment__public_id=part[:UUID_LENGTH], condition=part[UUID_LENGTH + 1 :])
        return found

    def holds(self, run: UUID, experiment: UUID, condition: str) -> bool:
        return not {str(run), str(experiment), f"{experiment}:{condition}"}.isdisjoint(self.parts)


def read_part(text: str) -> str | None:
    """Return the part with its id as the database writes it; None where the text is not a part."""
    name, colon, condition = text.partition(":")
    try:
        public_id = UUID(name)
    except ValueError:
        return None
    return f"{public_id}:{condition}" if colon else str(public_id)


def merge_model_name(name: str) -> str:
    """Return the model without where it was served: "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0" and
    "claude-haiku-4-5@20251001" are both claude-haiku-4-5."""
    return DATED.sub("", VENDOR.sub("", name.rpartition("/")[2]))


def assign(runs: Iterable[Run], sides: Sequence[Side]) -> dict[str, list[Run]]:
    """Return letter -> its runs, in the order of the sides. A run that two sides name is on the first."""
    found: dict[str, list[Run]] = {side.letter: [] for side in sides}
    for run in runs:
        named = run.public_id, run.experiment.public_id, run.condition
        side = next((side for side in sides if side.holds(*named)), None)
        if side is not None:
            found[side.letter].append(run)
    return found


def name_sides(sides: Sequence[Side], runs: Mapping[str, Sequence[Run]]) -> dict[str, str]:
    """Return letter -> its side's name: the given one, else the condition that only its runs have, else the letter."""
    codes = {letter: {run.condition for run in found} for letter, found in runs.items()}
    names: dict[str, str] = {}
    for side in sides:
        own = codes[side.letter]
        shared = any(own & other for letter, other in codes.items() if letter != side.letter)
        is_clear = len(own) == 1 and not shared and own != {Run.UNKNOWN}
        name = side.name or (next(iter(own)) if is_clear else f"Side {side.letter.upper()}")
        names[side.letter] = name if name not in names.values() else f"{name} ({side.letter.upper()})"
    return names

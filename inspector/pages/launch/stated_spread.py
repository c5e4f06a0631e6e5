"""What somebody states for the plan on the launch page: the difference to find, and how shares vary. Not part of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchapp.experiments.launch_design import LaunchDesign

PREFIX = "plan."
# Name in the plan -> label, unit, and the most that can be stated.
STATED = {
    "difference": ("Difference to find", "points", 98.0),
    "share": ("Passes", "percent", 100.0),
    "task": ("Between tasks", "points, standard deviation", 50.0),
    "episode": ("Between libraries", "points: what one library adds to all tasks that read it", 50.0),
    "rerun": ("Between reruns", "points: what a whole rerun has in common", 50.0),
}


@dataclass(frozen=True, slots=True)
class StatedField:
    """`text` as it was typed; `used`: what the plan has."""

    name: str
    label: str
    help: str
    text: str
    used: str
    error: str

    @property
    def id(self) -> str:
        return f"id_plan_{self.name}"

    @property
    def errors(self) -> tuple[str, ...]:
        return (self.error,) if self.error else ()


def read_stated(sent: Mapping[str, str]) -> dict[str, float]:
    """As shares. What is empty or no number is not stated."""
    read = {name: _read(name, sent) for name in STATED}
    return {name: value / 100 for name, value in read.items() if isinstance(value, float)}


def draw_stated(sent: Mapping[str, str], design: LaunchDesign | None) -> list[StatedField]:
    """With what holds where nothing is typed."""
    fields = []
    for name, (label, unit, _) in STATED.items():
        value = _read(name, sent)
        used = "" if design is None else f"{100 * _used(design, name):.3g}"
        error = value if isinstance(value, str) else ""
        fields.append(StatedField(name, label, unit, sent.get(PREFIX + name, "").strip()[:20], used, error))
    return fields


def _used(design: LaunchDesign, name: str) -> float:
    return design.difference if name == "difference" else float(getattr(design.spread, name))


def _read(name: str, sent: Mapping[str, str]) -> float | str | None:
    """A number, what is wrong with it, or None where nothing was typed."""
    text, most = sent.get(PREFIX + name, "").strip(), STATED[name][2]
    if not text:
        return None
    least = 1.0 if name == "difference" else 0.0
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    return value if least <= value <= most else f"expected a number from {least:g} to {most:g}"

"""Readings of gauges, as the reports see them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from gaugekit.settings import SETTINGS


@dataclass(frozen=True)
class Reading:
    station: str
    at: datetime
    level_mm: int

    @property
    def day(self) -> date:
        """The day the reading belongs to, which is not always the date it was taken on."""
        return (self.at - timedelta(hours=SETTINGS["day"]["begins_at_hour"])).date()


def zeros(path: Path | None) -> dict[str, int]:
    """Height of each gauge's zero above the common one, from column zero_mm; empty without a list of stations."""
    if path is None:
        return {}
    with path.open(newline="") as file:
        return {row["station"]: int(row["zero_mm"]) for row in csv.DictReader(file)}


def readings(path: Path, above: dict[str, int]) -> Iterator[Reading]:
    """The readings that count. A level is what the gauge shows plus the gauge zero of its station, where that is known."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["flag"] in SETTINGS["quality"]["drop"]:
                continue
            level = int(row["level_mm"]) + above.get(row["station"], 0)
            yield Reading(row["station"], datetime.fromisoformat(row["at"]), level)

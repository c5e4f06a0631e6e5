"""Command line: means and peaks."""

from __future__ import annotations

import argparse
from pathlib import Path

from gaugekit.readings import readings, zeros
from gaugekit.settings import SETTINGS


def main() -> None:
    parser = argparse.ArgumentParser(prog="gaugekit")
    parser.add_argument("report", choices=["means", "peaks"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--stations", type=Path)
    parser.add_argument("--by", choices=["station", "day"], default="station")
    asked = parser.parse_args()
    groups: dict[str, list[int]] = {}
    for reading in readings(asked.file, zeros(asked.stations)):
        groups.setdefault(str(getattr(reading, asked.by)), []).append(reading.level_mm)
    for group, levels in sorted(groups.items()):
        figure = max(levels) if asked.report == "peaks" else sum(levels) / len(levels)
        print(f"{group},{len(levels)},{figure:.{SETTINGS['report']['decimals']}f}")


if __name__ == "__main__":
    main()

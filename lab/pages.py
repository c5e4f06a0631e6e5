"""How long pages take on a big record, in time and bytes.

    SKILLGLASS_VAR=/tmp/campaign python manage.py migrate
    SKILLGLASS_VAR=/tmp/campaign python lab/synthesize.py campaign
    SKILLGLASS_VAR=/tmp/campaign python lab/pages.py

Starts one web worker on the record in the var folder, opens each page several times and prints the first and the
median time, the size of the HTML, and the ratio of the median to the overview's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request
from typing import Any

from web import Web, serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=9)
    options = parser.parse_args()
    with serve() as web:
        rows = [(name, *measure(web, path, options.times)) for name, path in addresses(web)]
        print(f"{'page':12} {'first ms':>9} {'median ms':>9} {'bytes':>8} {'ratio':>6}")
        for name, first, median, size in rows:
            print(f"{name:12} {first:9.0f} {median:9.0f} {size:8} {median / rows[0][2]:6.2f}")
        print(f"web worker: {web.peak_megabytes():.0f} MB at its peak")


def addresses(web: Web) -> list[tuple[str, str]]:
    """One address of each kind, found by following the JSON twins from the overview."""
    experiment = read(web, "/index.json")["experiments"][0]["id"]
    runs = read(web, f"/experiments/{experiment}.json")["runs"]
    run = next((run["id"] for run in runs if run["author_model"]), runs[0]["id"])
    trial = read(web, f"/runs/{run}.json")["trials"][0]["id"]
    return [
        ("overview", "/"),
        ("experiment", f"/experiments/{experiment}/"),
        ("run", f"/runs/{run}/"),
        ("library", f"/runs/{run}/library/"),
        ("trial", f"/trials/{trial}/"),
        ("imports", "/imports/"),
    ]


def read(web: Web, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(web.address + path) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def measure(web: Web, path: str, times: int) -> tuple[float, float, int]:
    """(first, median) in milliseconds, bytes."""
    taken: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        with urllib.request.urlopen(web.address + path) as reply:
            size = len(reply.read())
        taken.append((time.perf_counter() - start) * 1_000)
    return taken[0], statistics.median(taken), size


if __name__ == "__main__":
    main()

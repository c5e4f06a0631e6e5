"""One big Harbor job here and in Harbor's own viewer, on the same machine, request by request in turn.

    SKILLGLASS_VAR=/tmp/one python manage.py migrate
    SKILLGLASS_VAR=/tmp/one python manage.py import_runs JOBS
    SKILLGLASS_VAR=/tmp/one python lab/harbor_viewer.py JOBS --harbor PATH

JOBS is a folder with one job, PATH the program `harbor` (0.25 was tried). Each question goes to the JSON behind the
page that answers it, first to one side, then to the other; the ratio is of the medians. Import the
job first; the import reports what reading it costs.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from web import serve

PARTS_OF_A_TRIAL = ("/trajectory", "/navigation", "/verifier-output")  # beside its numbers; all stand in our one answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--harbor", required=True, help="path of the program")
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    with serve() as ours, harbor_view(options.harbor, options.jobs) as theirs:
        print(f"{'question':34} {'here ms':>8} {'p95':>6} {'Harbor ms':>10} {'p95':>6} {'times faster':>13}")
        for name, (mine, *other) in questions(ours.address, theirs).items():
            here, there = in_turn([mine], other, options.times)
            ratio = statistics.median(there) / statistics.median(here)
            print(
                f"{name:34} {1e3 * statistics.median(here):8.0f} {1e3 * high(here):6.0f} "
                f"{1e3 * statistics.median(there):10.0f} {1e3 * high(there):6.0f} {ratio:13.1f}",
                flush=True,
            )
        print(f"our web worker: {ours.peak_megabytes():.0f} MB at its peak")


@contextmanager
def harbor_view(program: str, jobs: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "view", str(jobs), "--port", str(port), "--host", "127.0.0.1"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                fetch(f"{address}/api/health")
                break
            except OSError:
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait()


def questions(ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    """What is asked -> (our address, Harbor's)."""
    experiment = fetch(f"{ours}/index.json")["experiments"][0]["id"]
    here = f"{ours}/compare/trials.json?experiment={experiment}"
    first = fetch(here)["trials"][0]
    task, model = first["task"], fetch(f"{ours}/experiments/{experiment}.json")["runs"][0]["agent_model"]
    trial = first["id"]
    job = fetch(f"{theirs}/api/jobs")["items"][0]["name"]
    there = f"{theirs}/api/jobs/{urllib.parse.quote(job)}"
    row = fetch(f"{there}/trials?page=1&page_size=1")["items"][0]
    name = urllib.parse.quote(row["name"])
    quoted, model_name = urllib.parse.quote(task), urllib.parse.quote(model.rpartition("/")[2])
    return {
        "list trials": (here, f"{there}/trials?page=1&page_size=100"),
        "the last page of the list": (f"{here}&page=999999", f"{there}/trials?page=50&page_size=100"),
        "filter by task": (f"{here}&task={quoted}", f"{there}/trials?page=1&page_size=100&task={quoted}"),
        "filter by model": (
            f"{here}&agent_model={urllib.parse.quote(model)}",
            f"{there}/trials?page=1&page_size=100&model={model_name}",
        ),
        "sort by reward": (
            f"{here}&sort=-reward",
            f"{there}/trials?page=1&page_size=100&sort_by=reward&sort_order=desc",
        ),
        "aggregate by model": (f"{ours}/experiments/{experiment}.json", f"{there}/tasks?page=1&page_size=100"),
        "numbers of every trial, for a chart": (
            f"{ours}/compare/charts/tokens.json?experiment={experiment}",
            f"{there}/chart-trials",
        ),
        "one trajectory as a file": (f"{ours}/trials/{trial}/trajectory.json", f"{there}/trials/{name}/trajectory"),
        "all a trial's page shows": (
            f"{ours}/trials/{trial}.json",
            *(f"{there}/trials/{name}{part}" for part in ("", *PARTS_OF_A_TRIAL)),
        ),
    }


def in_turn(mine: Sequence[str], other: Sequence[str], times: int) -> tuple[list[float], list[float]]:
    """Seconds of each answer, after one of each that nobody counts. Of several addresses all are asked, one by one."""
    found: tuple[list[float], list[float]] = ([], [])
    for round_number in range(times + 1):
        for addresses, seconds in zip((mine, other), found, strict=True):
            start = time.perf_counter()
            for address in addresses:
                with urllib.request.urlopen(address) as reply:
                    reply.read()
            if round_number:
                seconds.append(time.perf_counter() - start)
    return found


def high(seconds: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]


def fetch(address: str) -> Any:
    with urllib.request.urlopen(address) as reply:
        return json.load(reply)


if __name__ == "__main__":
    main()

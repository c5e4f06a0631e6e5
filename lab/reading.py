"""Server time of the pages that are open all day, on a big record: every request asks for another run, trial or round.

    SKILLGLASS_VAR=/tmp/campaign python manage.py migrate
    SKILLGLASS_VAR=/tmp/campaign python lab/synthesize.py campaign
    SKILLGLASS_VAR=/tmp/campaign python manage.py index_search
    SKILLGLASS_VAR=/tmp/campaign python lab/reading.py

Works in this process through the whole stack of middleware, on SQLite or, with DATABASE_URL, on PostgreSQL. What is
asked for is drawn at random with a seed; the ratio is the 95th percentile's to the target of 100 ms.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import numpy as np

if TYPE_CHECKING:
    from django.test import Client

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
os.environ.setdefault("ALLOWED_HOSTS", "testserver")
os.environ.setdefault("SINGLE_USER", "1")

SEARCHES = (
    "error",
    "role:adversarial failed",
    "phase:replay passed header",
    "tool:bash traceback",
    "condition:selfgen-always failed",
    '"exit code"',
    "model:~opus reward",
    "skill:* header -retry",
)
TARGET = 0.100  # seconds, of 95 requests in 100


def main() -> None:
    importlib.import_module("benchapp.wsgi")  # all that a process of the server does before its first request
    importlib.import_module("benchapp.deploy.static_files").collect_if_changed()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="requests for each page")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--only", default="", help="pages whose name holds this")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    pages = {name: address for name, address in addresses(chance).items() if options.only in name}
    print(
        f"{'page':28} {'median ms':>9} {'of it CPU':>9} {'p95 ms':>7} {'/100':>6} {'most ms':>8} {'queries':>8} "
        f"{'kB':>5}"
    )
    for name, address in pages.items():
        get(address())  # what a process does once belongs to no page
        found = [get(address()) for _ in range(options.times)]
        seconds, busy, sizes = zip(*found, strict=True)
        middle, high, most = 1000 * np.percentile(seconds, [50, 95, 100])
        print(
            f"{name:28} {middle:9.0f} {1000 * np.median(busy):9.0f} {high:7.0f} {high / TARGET / 1000:6.2f} "
            f"{most:8.0f} {queries(address()):8} {np.median(sizes) / 1000:5.0f}",
            flush=True,
        )
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB at its peak")


def addresses(chance: random.Random) -> dict[str, Callable[[], str]]:
    """For each page, what gives the address of the next one to ask for."""
    from benchapp.models import Decision, Experiment, Run, Trial

    experiments = list(Experiment.objects.values_list("public_id", flat=True))
    runs = list(Run.objects.values_list("public_id", flat=True))
    trials = list(Trial.objects.order_by("pk").values_list("public_id", flat=True)[::50])
    decided = Decision.objects.order_by("pk").values_list("episode__run__public_id", "episode__key", "round")
    rounds = list(decided[::50])

    def library(page: str) -> str:
        run, episode, number = chance.choice(rounds)
        return f"/runs/{run}/library/{page}?episode={episode}&at={number}"

    return {
        "overview": lambda: "/",
        "run list": lambda: f"/experiments/{chance.choice(experiments)}/",
        "run grid": lambda: f"/runs/{chance.choice(runs)}/",
        "trial": lambda: f"/trials/{chance.choice(trials)}/",
        "time machine": lambda: library(""),
        "blame": lambda: library("blame/"),
        "search": lambda: f"/search/?{urlencode({'q': chance.choice(SEARCHES)})}",
    }


@cache
def client_of_all() -> Client:
    """One for all requests: to load the middleware is a process's start, not a request."""
    from django.test import Client

    return Client()


def get(path: str) -> tuple[float, float, int]:
    """(seconds, seconds of this process's own work, bytes)."""
    client = client_of_all()
    start, busy = time.perf_counter(), time.process_time()
    response = client.get(path)
    body = response.getvalue()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    assert response.status_code == 200, f"{path}: {response.status_code}"
    return seconds, busy, len(body)


def queries(path: str) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        get(path)
    return len(captured)


if __name__ == "__main__":
    main()

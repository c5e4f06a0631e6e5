"""What the compare pages cost on a big record: server time cold and warm, queries, bytes.

    SKILLGLASS_VAR=/tmp/campaign python manage.py migrate
    SKILLGLASS_VAR=/tmp/campaign python lab/synthesize.py campaign
    SKILLGLASS_VAR=/tmp/campaign python lab/compare.py

Works in this process, which starts as one of the server's does, through the whole stack of middleware, on SQLite or,
with DATABASE_URL, on PostgreSQL. Cold: nothing remembered of any run from an earlier request, but what finished runs
came to is on disk. Warm: the 95th percentile of the requests after it. Ratios are to the targets of 500 ms cold and
150 ms warm; CPU is this process's own work, warm the median; bytes are those of the gzipped answer that a browser
takes.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import os
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from django.test import Client

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
os.environ.setdefault("ALLOWED_HOSTS", "testserver")
os.environ.setdefault("SINGLE_USER", "1")

COLD, WARM = 0.500, 0.150  # seconds


@dataclass(frozen=True, slots=True)
class Measured:
    cold: float
    cold_busy: float
    p95: float
    busy: float
    cold_queries: int
    warm_queries: int
    raw: int
    packed: int


def main() -> None:
    importlib.import_module("benchapp.wsgi")  # all that a process of the server does before its first request
    importlib.import_module("benchapp.deploy.static_files").collect_if_changed()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--no-files", action="store_true", help="read no columns kept on disk: as if never read before")
    options = parser.parse_args()
    if options.no_files:
        from benchapp.stats.comparing import columns

        columns.take_columns = lambda run: None
    pages = addresses()
    get(pages["overview"])  # what a process does once, at its start, belongs to no page
    print(
        f"{'page':22} {'cold ms':>8} {'CPU':>5} {'/500':>6} {'p95 ms':>7} {'CPU':>5} {'/150':>6} {'queries':>9} "
        f"{'kB':>6} {'packed':>7}"
    )
    for name, path in pages.items():
        found = measure(path, options.times)
        print(
            f"{name:22} {1000 * found.cold:8.0f} {1000 * found.cold_busy:5.0f} {found.cold / COLD:6.2f} "
            f"{1000 * found.p95:7.0f} {1000 * found.busy:5.0f} {found.p95 / WARM:6.2f} "
            f"{found.cold_queries:4}/{found.warm_queries:<4} {found.raw / 1000:6.0f} {found.packed / 1000:7.0f}",
            flush=True,
        )


def addresses() -> dict[str, str]:
    from benchapp.models import Experiment
    from inspector.charts import CHARTS

    experiment = Experiment.objects.for_list().first()
    assert experiment is not None, "there is no experiment to measure"
    found = {
        "overview": "/",
        "experiment": f"/experiments/{experiment.public_id}/",
        "compare, nothing chosen": "/compare/",
        "compare, everything": "/compare/?since=2000-01-01",
        "compare, one model": f"/compare/?agent_model={experiment.runs.first().agent_model}",
        "compare.json": "/compare.json?since=2000-01-01",
        **{
            f"{name}, one experiment": f"/compare/{name}/?experiment={experiment.public_id}"
            for name in ("where", "cost", "libraries", "lines", "failures", "replay", "certainty", "runs")
        },
        "replay": "/compare/replay/",
        "libraries": "/compare/libraries/",
        "trials behind a mark": "/compare/trials/?metric=ESR&outcome=failed",
        "dictionary": "/compare/dictionary/",
        "published": "/published/",
    }
    return found | {f"chart {key}": f"/compare/charts/{key}.json" for key in CHARTS}


def measure(path: str, times: int) -> Measured:
    from benchapp.stats.comparing.comparison import forget
    from inspector.charts.drawn_chart import KEPT

    forget()
    KEPT.clear()
    cold, cold_busy, cold_queries, body = get(path)
    seconds, busy, queries, _ = zip(*(get(path) for _ in range(times)), strict=True)
    p95, middle = float(np.percentile(seconds, 95)), float(np.median(busy))
    return Measured(cold, cold_busy, p95, middle, cold_queries, queries[-1], len(body), len(gzip.compress(body, 6)))


@cache
def client_of_all() -> Client:
    """One for all requests: to load the middleware is a process's start, not a request."""
    from django.test import Client

    return Client()


def get(path: str) -> tuple[float, float, int, bytes]:
    """(seconds, seconds of this process's own work, queries, body)."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = client_of_all()
    with CaptureQueriesContext(connection) as captured:
        start, busy = time.perf_counter(), time.process_time()
        response = client.get(path)
        body = response.getvalue()
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    assert response.status_code == 200, f"{path}: {response.status_code}"
    return seconds, busy, len(captured), body


if __name__ == "__main__":
    main()

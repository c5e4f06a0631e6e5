"""What the compare pages cost on a big record: server time cold and warm, queries, bytes.

    SKILLGLASS_VAR=/tmp/campaign python manage.py migrate
    SKILLGLASS_VAR=/tmp/campaign python manage.py synthesize campaign
    SKILLGLASS_VAR=/tmp/campaign python benchmarks/compare.py

Works in this process through the whole stack of middleware, on SQLite or, with DATABASE_URL, on PostgreSQL. Cold: nothing
remembered from an earlier request. Warm: the 95th percentile of the requests after it. Ratios are to the targets of one
second cold and 150 ms warm; bytes are those of the gzipped answer that a browser takes.
"""

from __future__ import annotations

import argparse
import gzip
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

COLD, WARM = 1.0, 0.150  # seconds


@dataclass(frozen=True, slots=True)
class Measured:
    cold: float
    p95: float
    cold_queries: int
    warm_queries: int
    raw: int
    packed: int


def main() -> None:
    import django

    django.setup()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--no-files", action="store_true", help="read no columns kept on disk: as if never read before")
    options = parser.parse_args()
    if options.no_files:
        from benchapp.stats.comparing import column_shelf

        column_shelf.take = lambda run: None
    pages = addresses()
    get(pages["overview"])  # what a process does once, at its start, belongs to no page
    print(f"{'page':22} {'cold ms':>8} {'/1 s':>6} {'p95 ms':>7} {'/150':>6} {'queries':>9} {'kB':>6} {'packed':>7}")
    for name, path in pages.items():
        found = measure(path, options.times)
        print(
            f"{name:22} {1000 * found.cold:8.0f} {found.cold / COLD:6.2f} {1000 * found.p95:7.0f} {found.p95 / WARM:6.2f} "
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
        "compare": "/compare/",
        "compare, one model": f"/compare/?agent_model={experiment.runs.first().agent_model}",
        "compare.json": "/compare.json",
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
    cold, cold_queries, body = get(path)
    warm = [get(path)[:2] for _ in range(times)]
    p95 = float(np.percentile([seconds for seconds, _ in warm], 95))
    return Measured(cold, p95, cold_queries, warm[-1][1], len(body), len(gzip.compress(body, 6)))


@cache
def client_of_all() -> Client:
    """One for all requests: to load the middleware is a process's start, not a request."""
    from django.test import Client

    return Client()


def get(path: str) -> tuple[float, int, bytes]:
    """(seconds, queries, body)."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = client_of_all()
    with CaptureQueriesContext(connection) as captured:
        start = time.perf_counter()
        response = client.get(path)
        body = response.getvalue()
        seconds = time.perf_counter() - start
    assert response.status_code == 200, f"{path}: {response.status_code}"
    return seconds, len(captured), body


if __name__ == "__main__":
    main()

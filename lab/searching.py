"""How fast search indexes and answers on a big record.

    SKILLGLASS_VAR=/tmp/campaign python manage.py migrate
    SKILLGLASS_VAR=/tmp/campaign python lab/synthesize.py campaign
    SKILLGLASS_VAR=/tmp/campaign python lab/searching.py --index

With `--index` the whole index is made anew first and its rate printed, with the ratio to merely reading the same steps.
Then one web worker answers each query several times: median and 95th percentile in milliseconds, and their ratio to the
empty search page. DATABASE_URL chooses PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

from web import Web, serve

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
QUERIES = (
    "",
    "KeyError",
    "table",
    '"missing value"',
    "invoi*",
    "failed KeyError ledger",
    "role:adversarial failed",
    "condition:selfgen-* tool:shell is:error",
    "model:~aster kind:file header",
    "skill:~a kind:decision",
    "-table kind:decision",
    "nosuchwordanywhere",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", action="store_true", help="make the index anew and measure that")
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    if options.index:
        index()
    with serve() as web:
        measured = [(query, *measure(web, query, options.times)) for query in QUERIES]
        print(f"{'query':42} {'median ms':>9} {'p95 ms':>8} {'ratio':>6}")
        for query, median, p95 in measured:
            print(f"{query or '(empty)':42} {median:9.0f} {p95:8.0f} {median / measured[0][1]:6.2f}")
        every = [p95 for _, _, p95 in measured]
        print(f"slowest p95: {max(every):.0f} ms; web worker: {web.peak_megabytes():.0f} MB at its peak")


def index() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
    import django

    django.setup()
    from benchapp.models import Trajectory, Trial
    from benchapp.record.trajectory_store import iterate_steps
    from benchapp.search.indexing import index_anew, index_waiting

    sample = list(Trajectory.objects.order_by("pk")[:500])
    start = time.perf_counter()
    steps = sum(1 for trajectory in sample for _ in iterate_steps(trajectory))
    reading = (time.perf_counter() - start) / max(len(sample), 1)
    index_anew()
    start = time.perf_counter()
    sources = index_waiting()
    taken = time.perf_counter() - start
    trials = max(Trial.objects.filter(is_done=True).count(), 1)
    print(f"{sources:,} sources of {trials:,} trials indexed in {taken:.1f} s: {trials / taken:.0f} trials/s")
    print(f"{taken / trials / reading:.1f} times as long as reading the steps alone ({steps:,} steps read for this)")


def measure(web: Web, query: str, times: int) -> tuple[float, float]:
    """(median, 95th percentile) in milliseconds, after one request that is not counted."""
    url = f"{web.address}/search/?{urllib.parse.urlencode({'q': query})}"
    taken = []
    for place in range(times + 1):
        start = time.perf_counter()
        with urllib.request.urlopen(url) as reply:
            reply.read()
        if place:
            taken.append((time.perf_counter() - start) * 1_000)
    return statistics.median(taken), statistics.quantiles(taken, n=20)[-1]


if __name__ == "__main__":
    main()

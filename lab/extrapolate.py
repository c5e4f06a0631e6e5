"""What would so many trials need? Rows, bytes, hours, hosts and dollars, from the record at hand and nothing else.

    DATABASE_URL=... python lab/extrapolate.py [--trials 1000000] [--days 30] [--at-a-time 4]

Every number is N times the mean of a trial of this record, so it holds if the record is like the plan:
run or import a few hundred trials of that kind first. What nothing in the record says is a dash. PostgreSQL or
SQLite.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")

MOST_TABLES = 8


@dataclass(frozen=True, slots=True)
class TrialMeans:
    """Of one trial with an attempt, as the record says. None: nothing does."""

    trials: int
    rows: dict[str, float]  # table -> rows
    bytes: dict[str, float]  # table -> bytes with its indexes; "" alone where only the whole is known
    steps: float | None
    seconds: float | None  # of an attempt, from opening its sandbox to its verdict
    tokens: float | None
    dollars: float | None
    priced: int  # trials whose dollars are known


def main() -> int:
    import django

    django.setup()
    options = _options()
    means = measure()
    if means is None:
        print("this record has no trials with an attempt", file=sys.stderr)
        return 1
    print("\n".join(lines(means, options.trials, options.days, options.at_a_time)))
    return 0


def measure() -> TrialMeans | None:
    from django.apps import apps
    from django.db.models import Avg, F

    from benchapp.models import Attempt, Trial

    attempts = Attempt.objects.filter(counts=True)
    trials = Trial.objects.filter(attempts__counts=True).distinct()
    if not (number := trials.count()):
        return None
    models = list(apps.get_app_config("benchapp").get_models(include_auto_created=True))
    rows = {model._meta.db_table: model._base_manager.count() / number for model in models}
    spans = attempts.filter(started_at__isnull=False, finished_at__isnull=False)
    wall = spans.aggregate(mean=Avg(F("finished_at") - F("started_at")))["mean"]
    priced = trials.filter(cost_usd__isnull=False)
    tokens = trials.filter(input_tokens__isnull=False).aggregate(
        mean=Avg(F("input_tokens")), out=Avg(F("output_tokens"))
    )
    return TrialMeans(
        trials=number,
        rows={table: mean for table, mean in rows.items() if mean},
        bytes={table: size / number for table, size in _read_sizes().items()},
        steps=trials.aggregate(mean=Avg("steps"))["mean"],
        seconds=wall and wall.total_seconds(),
        tokens=None if tokens["mean"] is None else tokens["mean"] + (tokens["out"] or 0),
        dollars=priced.aggregate(mean=Avg("cost_usd"))["mean"],
        priced=priced.count(),
    )


def _read_sizes() -> dict[str, int]:
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables")
            return dict(cursor.fetchall())
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return {"": cursor.fetchone()[0]}


def lines(means: TrialMeans, trials: int, days: float, at_a_time: int) -> list[str]:
    """A sheet in Markdown. rows, bytes, tokens, dollars = N x mean; host hours = N x seconds / at a time."""
    sheet = [f"| from {means.trials:,} trials | a trial | {trials:,} trials |", "|---|---|---|"]
    sheet.append(f"| rows | {sum(means.rows.values()):,.0f} | {trials * sum(means.rows.values()):,.0f} |")
    sheet += [
        f"| rows in {table.removeprefix('benchapp_')} | {mean:,.1f} | {trials * mean:,.0f} |"
        for table, mean in sorted(means.rows.items(), key=lambda row: -row[1])[:MOST_TABLES]
    ]
    total = sum(means.bytes.values())
    sheet.append(f"| database | {total / 1e3:,.1f} kB | {trials * total / 1e9:,.1f} GB |")
    sheet += [
        f"| of it {table.removeprefix('benchapp_')} | {mean / 1e3:,.1f} kB | {trials * mean / 1e9:,.1f} GB |"
        for table, mean in sorted(means.bytes.items(), key=lambda row: -row[1])[:MOST_TABLES]
        if table
    ]
    sheet.append(_row("steps", means.steps, trials, "{:,.1f}"))
    sheet.append(_row("tokens", means.tokens, trials, "{:,.0f}"))
    sheet.append(_row(f"dollars (known of {means.priced:,})", means.dollars, trials, "{:,.3f}"))
    hours = None if means.seconds is None else means.seconds / 3600 / at_a_time
    sheet.append(_row("seconds of an attempt", means.seconds, trials, "{:,.1f}"))
    sheet.append(_row(f"host hours, {at_a_time} at a time", hours, trials, "{:,.4f}"))
    hosts = "-" if hours is None else f"{trials * hours / 24 / days:,.1f}"
    sheet.append(f"| hosts for {days:g} days | - | {hosts} |")
    return sheet


def _row(name: str, mean: float | None, trials: int, form: str) -> str:
    return f"| {name} | - | - |" if mean is None else f"| {name} | {form.format(mean)} | {trials * mean:,.0f} |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--days", type=float, default=30, help="in which they shall be done")
    parser.add_argument("--at-a-time", type=int, default=4, help="trials at a time on one host")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""How fast does an import go, and what does a trial cost?

    python lab/importing.py FOLDER ... [--jobs 1] [--database postgresql://...]

Imports the folders into an empty record, then once more: what a second import costs that finds everything there.
SQLite in a temporary folder, or a database of your own that is empty. Each prints trials a second, the CPU time of
all processes in milliseconds a trial, and the peak memory of one process. Then the digest of every experiment: it
must be the same before and after a change of the code. Other work on the machine makes the seconds longer, and the
CPU time a little; compare two versions in turn.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=1, help="processes that read new trials")
    parser.add_argument("--database", default="", help="URL of an empty database; without one, a file of SQLite")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        set_up(folder, given.database)
        for title in ("first import", "again"):
            measure(title, given.folders, given.jobs)
        print_digests()


def set_up(folder: str, database: str) -> None:
    os.environ |= {"SKILLGLASS_VAR": folder, "DJANGO_SETTINGS_MODULE": "benchapp.settings", "DATABASE_URL": database}
    if not database:
        del os.environ["DATABASE_URL"]
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def measure(title: str, folders: list[Path], jobs: int) -> None:
    from benchapp.imports.batch import import_paths

    cpu, started = cpu_seconds(), time.perf_counter()
    counts = import_paths(folders, processes=jobs).counts
    seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu
    trials = counts["attempts"] or 1
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    print(
        f"{title}: {counts['attempts']:,} trials with {counts['steps']:,} steps in {seconds:.1f} s, "
        f"{trials / seconds:.1f} a second; {1000 * cpu / trials:.2f} ms of CPU a trial; {peak:.0f} MB"
    )


def cpu_seconds() -> float:
    """Of this process and those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def print_digests() -> None:
    from benchapp.models import Experiment
    from benchapp.record.record_digest import record_digest

    for experiment in Experiment.objects.order_by("public_id"):
        print(f"{experiment.name}: {record_digest(experiment)}")


if __name__ == "__main__":
    main()

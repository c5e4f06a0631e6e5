"""One enormous trajectory: how much memory its import takes, and how fast it opens in the middle and at its end.

    SKILLGLASS_VAR=/tmp/monster python lab/monster.py /tmp/monster-files

Writes the files (337,351 steps, 963 MB; --events and --bytes for less), imports them in a process of its own, opens
the inspector at several places, and prints each page's ratio to the page of the same trajectory's first step.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from pages import measure
from web import ROOT, serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=337_351)
    parser.add_argument("--bytes", type=int, default=963_000_000)
    options = parser.parse_args()
    run("manage.py", "migrate", "-v0")
    if not options.folder.exists():
        size = [f"--events={options.events}", f"--bytes={options.bytes}"]
        run("lab/synthesize.py", "monster", str(options.folder), *size)
    size = next(options.folder.glob("**/trajectory.json")).stat().st_size
    start = time.perf_counter()
    run("manage.py", "import_runs", str(options.folder / "monster"))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"import: {size / 1e6:.0f} MB in {seconds:.0f} s ({size / 1e6 / seconds:.1f} MB/s), {peak:.0f} MB at its peak"
    )
    with serve() as web:
        trial = f"/trials/{trial_id()}/"
        first = 0.0
        for place in ("1", "last", str(options.events * 4 // 9)):
            _, median, bytes_ = measure(web, f"{trial}?step={place}", 5)
            first = first or median
            print(f"step {place:>7}: median {median:4.0f} ms, {bytes_} bytes, ratio {median / first:.2f}")
        print(f"web worker: {web.peak_megabytes():.0f} MB at its peak")


def run(*words: str) -> None:
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True)


def trial_id() -> str:
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
    import django

    django.setup()
    from benchapp.models import Trial

    return str(Trial.objects.get(task__key__contains="monster").public_id)


if __name__ == "__main__":
    main()

"""Several processes import the same folders at once: is the record that of one import, whatever the moment?

    python lab/parallel_imports.py FOLDER ... [--database postgresql://...] [--processes 4] [--rounds 5] [--kill]

Makes a database of its own and removes it afterwards: SQLite in a temporary folder, or one on the server that
`--database` names. Every process is a real `manage.py import_runs`; with several folders (a parent and its child) they
take turns. First one process imports all folders in peace, then every round starts from an empty record.

--kill: one process gets kill -9 in the middle of its work, at a moment that differs from round to round, and is started
again when the others have ended.

Each round must leave the digest of every experiment as it was in peace, no hole among sample numbers, no traceback, and
nothing for check_record to find. Exit status 1 and what is wrong where it is not so.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
IMPORT = (sys.executable, str(ROOT / "manage.py"), "import_runs")
READ = (0, 3)  # exit statuses of an import that brought something in
WRONG = ("Traceback", "IntegrityError", "OperationalError")
DEADLINE_SECONDS = 570


def main() -> int:
    options = _options()
    chance = random.Random(options.seed)
    with _installation(options.database):
        begun = time.monotonic()
        problems = list(_problems_of(["in peace"], [_start(options.folders)]))
        seconds = time.monotonic() - begun
        peace = digests()
        print(f"one process, {seconds:.1f} s: {_describe(peace)}")
        for number in range(1, options.rounds + 1):
            _empty()
            problems += [f"round {number}: {each}" for each in race(options, chance, seconds)]
            found = digests()
            print(f"round {number}: {_describe(found)}")
            problems += [f"round {number}: {each}" for each in (*differences(peace, found), *flaws())]
    print("\n".join(problems[:20]) if problems else f"{options.rounds} rounds: equal digests, no holes, no traceback")
    return 1 if problems else 0


def race(options: argparse.Namespace, chance: random.Random, seconds: float) -> list[str]:
    """All processes at once. What they said that they should not have."""
    folders = [[options.folders[place % len(options.folders)]] for place in range(options.processes)]
    first = _start(folders[0])
    victims = []
    if options.kill:
        _wait_for_a_trial(first)
        time.sleep(chance.uniform(0, seconds / 4))
        victims = [first]
    others = [_start(each) for each in folders[1:]]
    for victim in victims:
        time.sleep(chance.uniform(0, seconds / 4))
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        print(f"killed after {_trials()} trials")
    problems = list(_problems_of(("first", *("another",) * len(others)), [*([] if victims else [first]), *others]))
    return problems + list(_problems_of(["again"], [_start(folders[0])] if victims else []))


def differences(peace: dict[str, str], found: dict[str, str]) -> Iterator[str]:
    for experiment in sorted(peace.keys() | found.keys()):
        if peace.get(experiment) != found.get(experiment):
            yield f"experiment {experiment}: digest {found.get(experiment)}, in peace {peace.get(experiment)}"


def holes(slots: Iterable[tuple[object, int]]) -> Iterator[str]:
    """`slots`: (slot, sample number) of every trial."""
    numbers = defaultdict(list)
    for slot, sample in slots:
        numbers[slot].append(sample)
    for slot, samples in numbers.items():
        if sorted(samples) != list(range(len(samples))):
            yield f"slot {slot}: sample numbers {sorted(samples)}"


# --- the record ---------------------------------------------------------------------------------------------------


def digests() -> dict[str, str]:
    """Record digest by experiment."""
    from benchapp.models import Experiment
    from benchapp.record.record_digest import record_digest

    return {str(each.public_id): record_digest(each) for each in Experiment.objects.order_by("public_id")}


def flaws() -> Iterator[str]:
    from django.core.management import call_command

    from benchapp.models import Trial

    slots = Trial.objects.values_list("episode", "phase", "task", "sample")
    yield from holes((tuple(slot), sample) for *slot, sample in slots)
    output = StringIO()
    try:
        call_command("check_record", stdout=output)
    except SystemExit as stop:
        if stop.code:
            yield f"check_record: {output.getvalue()[-500:]}"


def _trials() -> int:
    from benchapp.models import Trial

    return Trial.objects.count()


def _empty() -> None:
    from django.core.management import call_command

    call_command("flush", interactive=False, verbosity=0)


def _describe(found: dict[str, str]) -> str:
    return f"{_trials()} trials, " + " ".join(digest[:16] for digest in found.values())


# --- processes ----------------------------------------------------------------------------------------------------


def _start(folders: Iterable[str]) -> subprocess.Popen[str]:
    return subprocess.Popen([*IMPORT, *folders], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)


def _wait_for_a_trial(process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not _trials():
        time.sleep(0.05)


def _problems_of(names: Iterable[str], processes: list[subprocess.Popen[str]]) -> Iterator[str]:
    for name, process in zip(names, processes, strict=False):
        output = process.communicate(timeout=DEADLINE_SECONDS)[0]
        if process.returncode not in READ or any(word in output for word in WRONG):
            yield f"{name}: exit status {process.returncode}\n{output[-1_500:]}"


@contextmanager
def _installation(server: str) -> Iterator[None]:
    """An empty record of our own, here and for the processes that are started."""
    with tempfile.TemporaryDirectory(prefix="skillglass-imports-") as folder:
        os.environ |= {"SKILLGLASS_VAR": folder, "DJANGO_SETTINGS_MODULE": "benchapp.settings", "LOG_LEVEL": "WARNING"}
        os.environ.pop("DATABASE_URL", None)
        name = f"skillglass_imports_{os.getpid()}"
        if server:
            _sql(server, f'CREATE DATABASE "{name}"')
            os.environ["DATABASE_URL"] = urlsplit(server)._replace(path=f"/{name}").geturl()
        try:
            _set_up()
            yield
        finally:
            _close()
            if server:
                _sql(server, f'DROP DATABASE "{name}"')


def _set_up() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _close() -> None:
    from django.db import connections

    connections.close_all()


def _sql(server: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--database", default="", metavar="URL", help="a PostgreSQL server; without it SQLite")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kill", action="store_true", help="kill -9 one process in the middle, start it again")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

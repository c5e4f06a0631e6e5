"""Measures what hints to work on an episode cost by RQ with Valkey, and by Procrastinate in PostgreSQL.

    .venv/bin/python lab/brokers.py [--waiting 10 100000] [--jobs 2000] [--procrastinate PYTHON]

For each number of jobs that wait already: CPU milliseconds of the sender, the worker and the server for a further
2,000 jobs that are sent, taken and do nothing. The worker takes jobs one at a time and in its own process, so that
the queue is measured and not the fork. The waiting jobs are in the same queue, behind those that are measured.

`--procrastinate`: a Python that has the packages procrastinate and psycopg; the project does not depend on it.
Without it only RQ is measured. PostgreSQL's programs must be installed; both servers are started in a temporary
folder.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from redis import Redis  # noqa: E402
from rq import Queue, SimpleWorker  # noqa: E402

from benchapp.deploy.embedded_broker import broker_url  # noqa: E402
from lab.chaos import Broker, Database  # noqa: E402

NOTHING = "builtins.len"  # the job
PROCRASTINATE = """
import asyncio, sys, time, json, os
import procrastinate
address, waiting, jobs, server = {address!r}, {waiting}, {jobs}, {server}
app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=address))
done = 0
with app.open():
    app.schema_manager.apply_schema()
    work = app.configure_task("nothing")
    for at in range(0, waiting, 1000):
        app.configure_task("nothing", priority=-1).batch_defer(*[{{"n": n}} for n in range(at, min(at + 1000, waiting))])
    before, own = cpu_of(server), time.process_time()
    for n in range(jobs):
        work.defer(n=n)
    sent, own_sent = cpu_of(server) - before, time.process_time() - own

other = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address))

@other.task(name="nothing")
async def nothing(n):
    global done
    done += 1
    if done >= jobs:
        raise SystemExit

async def run():
    async with other.open_async():
        task = asyncio.create_task(other.run_worker_async(concurrency=1, install_signal_handlers=False, wait=True))
        while done < jobs and not task.done():
            await asyncio.sleep(0.05)
        task.cancel()

before, own, began = cpu_of(server), time.process_time(), time.monotonic()
import logging; logging.disable()
try:
    asyncio.run(run())
except (SystemExit, asyncio.CancelledError):
    pass
took = time.monotonic() - began
print(json.dumps({{"sender": own_sent, "sender_server": sent, "worker": time.process_time() - own, "worker_server": cpu_of(server) - before, "seconds": took}}))
"""  # noqa: E501


def cpu_of(server: int) -> float:
    """CPU seconds of a process and of its children, those that have ended included."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" ")
        except OSError:
            continue
        fields = rest.rpartition(")")[2].split()
        if int(number) == server:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == server:
            total += sum(map(int, fields[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--waiting", type=int, nargs="+", default=[10, 100_000])
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--procrastinate", help="a Python that has the package")
    options = parser.parse_args()
    print(
        "| broker | waiting | sent: CPU ms a job, own + server | taken: CPU ms a job, own + server | jobs a second "
        "|\n|---|---|---|---|---|"
    )
    for waiting in options.waiting:
        _print_row("RQ, Valkey", waiting, options.jobs, measure_rq(waiting, options.jobs))
        if options.procrastinate:
            found = measure_procrastinate(options.procrastinate, waiting, options.jobs)
            _print_row("Procrastinate, PostgreSQL", waiting, options.jobs, found)


def _print_row(name: str, waiting: int, jobs: int, found: dict[str, Any]) -> None:
    each = {key: 1000 * value / jobs for key, value in found.items()}
    sent, taken = each["sender"] + each["sender_server"], each["worker"] + each["worker_server"]
    print(
        f"| {name} | {waiting:,} | {sent:.2f} ({each['sender']:.2f} + {each['sender_server']:.2f}) | {taken:.2f}"
        f" ({each['worker']:.2f} + {each['worker_server']:.2f}) | {jobs / found['seconds']:.0f} |",
        flush=True,
    )


def measure_rq(waiting: int, jobs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="skillglass-brokers-") as base:
        broker = Broker(Path(base) / "valkey")
        broker.start()
        assert broker.process
        server, connection = broker.process.pid, Redis.from_url(broker_url(broker.folder))
        try:
            queue = Queue(connection=connection)
            for at in range(0, waiting, 1000):
                numbers = range(at, min(at + 1000, waiting))
                queue.enqueue_many([Queue.prepare_data(NOTHING, args=(str(n),)) for n in numbers])
            before, own = cpu_of(server), time.process_time()
            for n in range(jobs):
                queue.enqueue(NOTHING, str(n), at_front=True)
            sent = {"sender": time.process_time() - own, "sender_server": cpu_of(server) - before}
            before, own, began = cpu_of(server), time.process_time(), time.monotonic()
            SimpleWorker([queue], connection=connection).work(burst=True, max_jobs=jobs, logging_level="ERROR")
            seconds = time.monotonic() - began
            taken = {"worker": time.process_time() - own, "worker_server": cpu_of(server) - before}
            return {**sent, **taken, "seconds": seconds}
        finally:
            broker.stop()


def measure_procrastinate(python: str, waiting: int, jobs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="skillglass-brokers-") as base:
        Path(base).chmod(0o755)
        database = Database(Path(base) / "postgresql")
        database.start()
        try:
            server = int((Path(base) / "postgresql" / "data" / "postmaster.pid").read_text().split()[0])
            program = PROCRASTINATE.format(address=database.url, waiting=waiting, jobs=jobs, server=server)
            program = f"import os\nfrom pathlib import Path\n{inspect.getsource(cpu_of)}\n{program}"
            done = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
            return dict(json.loads(done.stdout.splitlines()[-1]))
        finally:
            database.stop()


if __name__ == "__main__":
    main()

"""Measures what hints to work on an episode cost by RQ with Valkey, and by Procrastinate in PostgreSQL.

    .venv/bin/python lab/brokers.py [--waiting 10 100000] [--jobs 2000] [--procrastinate PYTHON]

For each number of jobs that wait already: CPU seconds of the sender, the worker and the server for a further 2,000 jobs that
are sent, taken and do nothing, and milliseconds from sending to starting one while the worker is idle. The worker takes jobs
one at a time and in its own process, so that the queue is measured and not the fork. The jobs that wait lie in the same
queue and behind those that are measured.

`--procrastinate`: a Python that has the packages procrastinate and psycopg; the project does not depend on it. Without it only
RQ is measured. PostgreSQL's programs must be installed; both servers are started in a temporary folder.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchapp.deploy.embedded_broker import broker_url  # noqa: E402
from lab.chaos import Broker, Database  # noqa: E402

RQ = """
import sys, time, json, os
from redis import Redis
from rq import Queue, SimpleWorker
sys.path.insert(0, {root!r})
from lab.brokers import nothing
address, waiting, jobs, server = {address!r}, {waiting}, {jobs}, {server}
broker = Redis.from_url(address)
queue = Queue(connection=broker)
for at in range(0, waiting, 1000):
    queue.enqueue_many([Queue.prepare_data(nothing, args=(str(n),)) for n in range(at, min(at + 1000, waiting))])
before, own = cpu_of(server), time.process_time()
for n in range(jobs):
    queue.enqueue(nothing, f"m{{n}}", at_front=True)
sent, own_sent = cpu_of(server) - before, time.process_time() - own
before, own, began = cpu_of(server), time.process_time(), time.monotonic()
import logging; logging.disable()
SimpleWorker([queue], connection=broker).work(burst=True, max_jobs=jobs, logging_level="ERROR")
took = time.monotonic() - began
print(json.dumps({{"sender": own_sent, "sender_server": sent, "worker": time.process_time() - own, "worker_server": cpu_of(server) - before, "seconds": took}}))
"""
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
"""


def nothing(number: str) -> None:
    """The job."""


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
        "| broker | waiting | sent: CPU ms a job, own + server | taken: CPU ms a job, own + server | jobs a second |\n|---|---|---|---|---|"
    )
    for waiting in options.waiting:
        _tell("RQ, Valkey", waiting, options.jobs, measure_rq(waiting, options.jobs))
        if options.procrastinate:
            found = measure_procrastinate(options.procrastinate, waiting, options.jobs)
            _tell("Procrastinate, PostgreSQL", waiting, options.jobs, found)


def _tell(name: str, waiting: int, jobs: int, found: dict[str, Any]) -> None:
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
        try:
            assert broker.process
            told = {"address": broker_url(broker.folder), "server": broker.process.pid}
            return _run(sys.executable, RQ, waiting, jobs, told)
        finally:
            broker.stop()


def measure_procrastinate(python: str, waiting: int, jobs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="skillglass-brokers-") as base:
        Path(base).chmod(0o755)
        database = Database(Path(base) / "postgresql")
        database.start()
        try:
            server = int((Path(base) / "postgresql" / "data" / "postmaster.pid").read_text().split()[0])
            return _run(python, PROCRASTINATE, waiting, jobs, {"address": database.url, "server": server})
        finally:
            database.stop()


def _run(python: str, program: str, waiting: int, jobs: int, told: dict[str, Any]) -> dict[str, Any]:
    text = program.format(root=str(ROOT), waiting=waiting, jobs=jobs, **told)
    text = f"import os\nfrom pathlib import Path\n{inspect.getsource(cpu_of)}\n{text}"
    done = subprocess.run([python, "-c", text], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return dict(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()

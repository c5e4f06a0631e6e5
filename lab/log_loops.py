"""Has many loops log to one installation at once, and compares its record with what they logged.

    .venv/bin/python lab/log_loops.py [--loops 20] [--steps-a-minute 100000] [--seconds 60] [--restart | --cut]
        [--away 20]

The installation is one as `manage.py demo` starts it, in a temporary folder. Each loop is a process with a run of its
own: trials of 20 messages, a decision after every ten. `--restart` kills the installation halfway, everything in it
with kill -9, and starts it again after `--away` seconds. `--cut` takes only the network between the loops and the
installation away for that long: open connections are dropped, and new ones refused. Exit status 1 if a trial, message
or decision is missing or there twice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import skillglass  # noqa: E402
from lab.kill_workers import _wait_for_web, free_port  # noqa: E402

MESSAGES = 20  # of a trial
PATIENCE = 900.0  # seconds until the record must hold all


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="skillglass-loops-") as base:
        os.environ |= {
            "SKILLGLASS_VAR": f"{base}/var",
            "DJANGO_SETTINGS_MODULE": "benchapp.settings",
            "SINGLE_USER": "1",
        }
        for name in ("REDIS_URL", "DATABASE_URL"):
            os.environ.pop(name, None)
        Path(base, "var").mkdir()
        return run(options, Path(base))


def run(options: argparse.Namespace, base: Path) -> int:
    port = free_port()
    installation = _start(port, base)
    _wait_for_web(port, installation)
    address, token = f"http://127.0.0.1:{port}", _make_token()
    network = Network(port)
    at = f"http://127.0.0.1:{network.port}"
    loops = [
        multiprocessing.Process(target=log, args=(number, options, at, token, base / "runs"))
        for number in range(options.loops)
    ]
    waits, over = list[float](), threading.Event()
    began = time.monotonic()
    for loop in loops:  # before any thread starts here: a fork copies locks that a thread holds
        loop.start()
    network.serve()
    threading.Thread(target=_ask, args=(f"{address}/index.json", waits, over), daemon=True).start()
    if options.restart:
        time.sleep(options.seconds / 2)
        killed = _kill_all()
        installation.wait()
        print(f"killed {killed} processes, away for {options.away:.0f} s", flush=True)
        time.sleep(options.away)
        installation = _start(port, base)
    elif options.cut:
        time.sleep(options.seconds / 2)
        print(f"dropped {network.cut()} connections, away for {options.away:.0f} s", flush=True)
        time.sleep(options.away)
        network.serve()
    peak = 0.0
    while any(loop.is_alive() for loop in loops):
        time.sleep(1)
        peak = max(peak, _resident())
    logged = time.monotonic() - began
    expected = _count_logged(base / "runs")
    found = _wait_for_record(expected)
    over.set()
    installation.terminate()
    installation.wait(60)
    rate = 60 * expected["messages"] / options.seconds
    print(f"logged: {expected}, {rate:,.0f} messages a minute; all sent after {logged:.0f} s")
    print(f"recorded: {found} {time.monotonic() - began - logged:.0f} s later")
    print(f"largest process of the installation: {peak:.0f} MB resident")
    if waits:
        print(
            f"/index.json meanwhile: median {1000 * statistics.median(waits):.0f} ms, slowest {1000 * max(waits):.0f} "
            "ms"
        )
    return 0 if found == expected else 1


class Network:
    """A TCP proxy between the loops and the installation, which can be cut."""

    def __init__(self, target: int) -> None:
        self.port, self._target = free_port(), target
        self._lock, self._open = threading.Lock(), set[socket.socket]()
        self._listener = self._listen()

    def _listen(self) -> socket.socket:
        return socket.create_server(("127.0.0.1", self.port), backlog=256)

    def serve(self) -> None:
        """Pass on from now; again, after a cut."""
        if self._listener.fileno() < 0:
            self._listener = self._listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> int:
        """Refuse new connections and drop the open ones. Return how many of those there were."""
        with self._lock:
            self._listener.shutdown(socket.SHUT_RDWR)  # close() alone would leave a waiting accept() in charge
            self._listener.close()
            dropped, self._open = self._open, set()
        for each in dropped:
            _drop(each)
        return len(dropped) // 2  # each connection has two ends

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            with self._lock:
                is_cut = listener is not self._listener or listener.fileno() < 0
                self._open |= set() if is_cut else {near, far}
            if is_cut:
                _drop(near)
                _drop(far)
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(64 * 1024):
                other.sendall(piece)
        with self._lock:
            self._open -= {one, other}
        for each in (one, other):
            _drop(each)


def _drop(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def log(number: int, options: argparse.Namespace, address: str, token: str, folder: Path) -> None:
    pause = 60 * options.loops / options.steps_a_minute
    until, due = time.monotonic() + options.seconds, time.monotonic()
    run = skillglass.start(
        "loops",
        condition="with-skills",
        agent_model="scripted/loop",
        author_model="scripted/loop",
        skills={"sort/SKILL.md": "# Sort\n"},
        replicate=number,
        name=f"loop-{number}",
        folder=folder,
        server=address,
        token=token,
    )
    trials = 0
    while time.monotonic() < until:
        with run.trial(f"task-{trials % 10}", "acquisition") as trial:
            for step in range(MESSAGES):
                role = "assistant" if step % 2 else "user"
                trial.log({"role": role, "content": f"message {step} of loop {number}: " + "word " * 40})
                due += pause
                time.sleep(max(0.0, due - time.monotonic()))
            trial.check("it is right", (trials + number) % 3 > 0)
        trials += 1
        if trials % 10 == 0:
            run.decision(
                {"sort/SKILL.md": f"# Sort\nRule {trials}.\n"}, reason=f"after {trials} trials", evidence=[trial]
            )
    run.freeze()
    run.finish(seconds=300)


def _count_logged(folder: Path) -> dict[str, int]:
    events = [json.loads(line) for path in folder.glob("*/run.jsonl") for line in path.read_text().splitlines()]
    ends = [event for event in events if event["type"] == "end"]
    decisions = sum(event["type"] == "decision" for event in events)
    return {"trials": len(ends), "messages": sum(event["messages"] for event in ends), "decisions": decisions}


def _wait_for_record(expected: dict[str, int]) -> dict[str, int]:
    import django

    django.setup()
    from django.db.models import Sum

    from benchapp.models import Decision, Trajectory, Trial

    until = time.monotonic() + PATIENCE
    while True:
        rows = Trajectory.objects.filter(attempt__counts=True)
        found = {
            "trials": Trial.objects.count(),
            "messages": rows.aggregate(total=Sum("steps_total"))["total"] or 0,
            "decisions": Decision.objects.count(),
        }
        if found == expected or time.monotonic() > until:
            return found
        time.sleep(1)


def _ask(address: str, waits: list[float], over: threading.Event) -> None:
    """Ask for the first page once a second and note the wait. Failed requests are not counted."""
    while not over.wait(1):
        began = time.monotonic()
        try:
            urllib.request.urlopen(address, timeout=60).read()
        except OSError:
            continue
        waits.append(time.monotonic() - began)


def _start(port: int, base: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "manage.py"), "demo", "--no-experiment", "--port", str(port)]
    with (base / "installation.log").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)


def _make_token() -> str:
    command = (
        "from benchapp.people.accounts import make_token; from inspector.web.access import local_user;"
        "print(make_token(local_user(), 'loops', 'log')[1])"
    )
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "shell", "-v0", "-c", command], stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode().strip()


def _list_processes() -> list[Path]:
    """The folders in /proc of the installation's processes: each has a session of its own (Linux)."""
    found, place = [], os.environ["SKILLGLASS_VAR"].encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            is_own = place in (folder / "environ").read_bytes()
        except OSError:
            continue
        if is_own and any(name in command for name in (b"manage.py", b"gunicorn", b"valkey")):
            found.append(folder)
    return found


def _kill_all() -> int:
    killed = _list_processes()
    for folder in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(folder.name), signal.SIGKILL)
    return len(killed)


def _resident() -> float:
    """The largest resident set of the installation's processes now, in MB."""
    largest = 0.0
    for folder in _list_processes():
        with contextlib.suppress(OSError):
            lines = (folder / "status").read_text().splitlines()
            largest = max([largest, *(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))])
    return largest


def _options() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loops", type=int, default=20)
    parser.add_argument("--steps-a-minute", type=int, default=100_000, help="of all loops together")
    parser.add_argument("--seconds", type=float, default=60)
    away = parser.add_mutually_exclusive_group()
    away.add_argument("--restart", action="store_true", help="kill the installation halfway")
    away.add_argument("--cut", action="store_true", help="cut the network halfway")
    parser.add_argument("--away", type=float, default=20, help="seconds until it is back")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

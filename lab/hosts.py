"""Runs one experiment on three hosts with a slow, lossy network that breaks, and holds the result against an undisturbed run.

    sudo .venv/bin/python lab/hosts.py [--sandbox docker] [--delay 20] [--loss 1] [--cut 40] [--condition NAME ...]

Twice the same experiment with the same seed. First on one host, in peace (as in `lab/chaos.py`). Then on five:
one has the database, one the pages and the broker, three have a worker each, with a Docker engine of its own. Every host
is a set of namespaces of this machine with its own name, address, process ids, temporary folder and var folder. All
their frames go through a switch in this process: it holds up each for half of --delay, loses some, and cuts a host off.
The database is cut off once, then one worker that is in the middle of an attempt, until another has taken that over.
Trials, decisions, histories and final libraries must be equal, no slot may have two counting attempts, and `check_record`
must find nothing. Exit status 1 where not.

Linux and root only. Nothing reaches another network, and all of it ends with this process.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchapp.deploy.embedded_broker import broker_binary, wait_for  # noqa: E402
from lab import chaos  # noqa: E402
from lab.kill_workers import compare, outcome  # noqa: E402

HOME, DATABASE, WORKERS = "home", "database", ("alpha", "beta", "gamma")
ADDRESSES = {name: f"10.77.0.{number}" for number, name in enumerate((HOME, DATABASE, *WORKERS), start=1)}
LEASE_SECONDS = 10
DEADLINE_SECONDS = 2400
MOST_TURNS = 240  # seconds until the others come to a held episode: it waits in the queue behind the rest
MAX_TOLD = 20  # workers that do not live are no benchmark
BASE_IMAGE = "skillglass-test-base:1"
PORT, BROKER_PORT = 8000, 6379


def main() -> int:
    options = _options()
    if options.folder:
        print(json.dumps(run_hosts(options)))
        return 0
    if os.getuid() != 0:
        raise SystemExit("hosts are namespaces of this machine: only root can make them")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the end of the first namespace ends all hosts
    with tempfile.TemporaryDirectory(prefix="skillglass-hosts-", ignore_cleanup_errors=True) as base:
        Path(base).chmod(0o755)  # the database runs as another user
        hosts = _enter_hosts(options, Path(base) / "hosts")
        peace = chaos._world(options, Path(base) / "peace", kills=0)
    problems = [*compare(peace, hosts), *peace["check"], *hosts["check"], *hosts["missed"]]
    print(f"one host:    {peace['seconds']:.0f} s, {peace['episodes']} episodes, {len(peace['trials'])} trials")
    print(f"three hosts: {hosts['seconds']:.0f} s, attempts {hosts['attempts']}, by host {hosts['by_host']}")
    print(f"switch:      {hosts['frames']}; pages: {hosts['pages']}")
    print("\n".join(hosts["told"]))
    print(
        "\n".join(problems[:20]) if problems else "equal: trials, decisions, histories, final libraries; records hold"
    )
    return 1 if problems else 0


# --- hosts and what connects them --------------------------------------------------------------------------------


@dataclass(slots=True)
class Host:
    """Namespaces of this machine, held open by a process that sleeps. The end of that process ends all others in them."""

    name: str
    folder: Path
    keeper: subprocess.Popen[bytes] | None = None
    pid: int = 0

    def start(self) -> None:
        for part in ("tmp", "var", "cache", "run"):
            (self.folder / part).mkdir(parents=True)
        (self.folder / "tmp").chmod(0o1777)
        spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        program = f"hostname {self.name}; mount -t tmpfs run /run; echo ready; exec sleep {DEADLINE_SECONDS + 600}"
        self.keeper = subprocess.Popen(["unshare", *spaces, "sh", "-c", program], stdout=subprocess.PIPE)
        if not self.keeper.stdout or self.keeper.stdout.readline() != b"ready\n":
            raise SystemExit(f"{self.name}: no namespaces to be had")
        children = Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text()
        self.pid = int(children.split()[0])

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", "--pid"]

    @property
    def engine(self) -> str:
        return f"unix://{self.folder}/run/docker.sock"

    def run(self, *command: str) -> None:
        subprocess.run([*self.enter, *command], check=True, stdout=subprocess.DEVNULL)

    def spawn(self, log: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        own = {"TMPDIR": f"{self.folder}/tmp", "SKILLGLASS_VAR": f"{self.folder}/var"}
        own |= {"SKILLGLASS_SANDBOXES": f"{self.folder}/tmp", "SKILLGLASS_CACHE": f"{self.folder}/cache"}
        with (self.folder / log).open("ab") as told:
            return subprocess.Popen(
                [*self.enter, *command],
                env={**os.environ, **own, **environment},
                stdout=told,
                stderr=subprocess.STDOUT,
            )

    def start_engine(self, image: Path) -> None:
        run = self.folder / "run"
        places = [
            "--data-root",
            f"{self.folder}/docker",
            "--exec-root",
            f"{run}/docker",
            "--pidfile",
            f"{run}/docker.pid",
        ]
        self.spawn("dockerd.log", "dockerd", *places, "--host", self.engine)
        until = time.monotonic() + 60
        while subprocess.run(["docker", "--host", self.engine, "info"], capture_output=True, check=False).returncode:
            if time.monotonic() > until:
                raise SystemExit(
                    f"{self.name}: no engine within 60 s: {(self.folder / 'dockerd.log').read_text()[-2000:]}"
                )
            time.sleep(0.2)
        subprocess.run(
            ["docker", "--host", self.engine, "load", "--quiet", "--input", str(image)],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        if self.keeper:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            self.keeper.wait()


class Switch:
    """Passes frames between hosts, each by a TAP device of its own. Every kernel with TUN can do it; netem is a module that
    many lack."""

    TAP, NO_HEADER, SET_DEVICE = 0x0002, 0x1000, 0x400454CA

    def __init__(self, delay: float, loss: float, seed: int) -> None:
        self.delay, self.loss, self.dice = delay, loss, random.Random(seed)
        self.ports: dict[str, int] = {}
        self.places: dict[bytes, str] = {}  # hardware address -> port, as learnt
        self.cut: set[str] = set()
        self.calm = True  # neither delay nor loss, while everything is set up
        self.counts = Counter[str]()
        self._waiting: list[tuple[float, int, str, bytes]] = []
        self._numbers = itertools.count()

    def plug(self, name: str, pid: int | None, enter: list[str]) -> None:
        """Gives the host its device `lan`. pid: a process of that host; None for the one we are on."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        if pid is not None:
            _enter_network(f"/proc/{pid}/ns/net")
        try:
            port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(port, self.SET_DEVICE, struct.pack("16sH", b"lan", self.TAP | self.NO_HEADER))
        finally:
            _enter_network(f"/proc/self/fd/{home}")
            os.close(home)
        self.ports[name] = port
        for words in (f"addr add {ADDRESSES[name]}/24 dev lan", "link set lan up", "link set lo up"):
            subprocess.run([*enter, "ip", *words.split()], check=True)

    def start(self) -> None:
        threading.Thread(target=self._pass_frames, name="switch", daemon=True).start()

    def _pass_frames(self) -> None:
        chooser = selectors.DefaultSelector()
        for name, port in self.ports.items():
            chooser.register(port, selectors.EVENT_READ, name)
        while True:
            pause = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            for key, _ in chooser.select(pause):
                self._take_from(key.data, key.fd)
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, name, frame = heapq.heappop(self._waiting)
                with contextlib.suppress(BlockingIOError, OSError):
                    os.write(self.ports[name], frame)

    def _take_from(self, source: str, port: int) -> None:
        for _ in range(64):
            try:
                frame = os.read(port, 2048)
            except BlockingIOError:
                return
            self.places[frame[6:12]] = source
            known = self.places.get(frame[:6])
            for target in [known] if known else [name for name in self.ports if name != source]:
                self._send(source, target, frame)

    def _send(self, source: str, target: str, frame: bytes) -> None:
        if self.cut & {source, target}:
            self.counts["cut off"] += 1
        elif not self.calm and self.dice.random() < self.loss:
            self.counts["lost"] += 1
        else:
            self.counts["passed"] += 1
            due = time.monotonic() + (0 if self.calm else self.delay)
            heapq.heappush(self._waiting, (due, next(self._numbers), target, frame))


def _enter_network(path: str) -> None:
    """This thread alone: what it makes afterwards belongs to that host."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000):
            raise OSError(ctypes.get_errno(), f"cannot enter {path}")
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class PageWatch:
    """Asks the pages once a second whether they are ready, as a load balancer does."""

    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def start(self, folder: Path) -> None:
        serve = [sys.executable, "-m", "gunicorn", "-c", "python:benchapp.gunicorn_settings", "benchapp.wsgi"]
        with (folder / "web.log").open("ab") as log:
            subprocess.Popen(serve, cwd=ROOT, env={**os.environ, "PORT": str(PORT)}, stdout=log, stderr=log)
        threading.Thread(target=self._ask, name="pages", daemon=True).start()

    def _ask(self) -> None:
        while self._status("healthz") != "200":  # they are being started
            time.sleep(0.5)
        while True:
            for page in ("healthz", "readyz"):
                began = time.monotonic()
                self.counts[f"{page} {self._status(page)}"] += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(1)

    def _status(self, page: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/{page}", timeout=30) as answer:
                return str(answer.status)
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError as error:
            return type(error).__name__


# --- the experiment on them --------------------------------------------------------------------------------------


def run_hosts(options: argparse.Namespace) -> dict[str, Any]:
    """Builds the hosts below `options.folder`, runs the experiment on them, breaks the network. The outcome as JSON values.

    Called in namespaces of its own, which are the host of the pages and the broker.
    """
    switch = Switch(options.delay / 2000, options.loss / 100, options.seed)
    hosts = {name: Host(name, options.folder / name) for name in (HOME, DATABASE, *WORKERS)}
    try:
        for name, host in hosts.items():
            if name != HOME:
                host.start()
            switch.plug(name, host.pid or None, host.enter if host.pid else [])
        switch.start()
        return _run_experiment(options, switch, hosts)
    finally:
        for host in hosts.values():
            host.stop()


def _run_experiment(options: argparse.Namespace, switch: Switch, hosts: dict[str, Host]) -> dict[str, Any]:
    database = chaos.Database(hosts[DATABASE].folder / "postgresql", ADDRESSES[DATABASE], hosts[DATABASE].enter)
    database.start()
    os.environ["DATABASE_URL"] = database.url
    _start_broker(options.folder / HOME)
    chaos._manage("migrate", "-v", "0")
    if options.sandbox == "docker":
        for name in WORKERS:
            hosts[name].start_engine(options.image)
    experiment = chaos._launch(options)
    pages = PageWatch()
    pages.start(options.folder / HOME)
    switch.calm = False
    began = time.monotonic()
    outages = Outages(experiment, switch, [hosts[name] for name in WORKERS], options.cut)
    outages.run()
    seconds = time.monotonic() - began
    switch.calm = True
    check = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "check_record"], capture_output=True, text=True, check=False
    )
    return {
        **outcome(experiment),
        "seconds": seconds,
        "check": [] if check.returncode == 0 else [f"check_record: {(check.stdout + check.stderr)[-1500:]}"],
        "by_host": count_by_host(experiment),
        "told": outages.told,
        "missed": outages.missed,
        "frames": dict(switch.counts),
        "pages": {**pages.counts, "slowest, s": round(pages.slowest, 1)},
    }


def _start_broker(folder: Path) -> None:
    """Any Valkey or Redis will do; here the one that comes with the project, at an address instead of a socket."""
    folder.mkdir(exist_ok=True)
    command = [broker_binary(), "--bind", ADDRESSES[HOME], "--port", str(BROKER_PORT), "--dir", str(folder)]
    subprocess.Popen([*command, "--protected-mode", "no", "--save", ""], stdout=subprocess.DEVNULL)
    if not wait_for(os.environ["REDIS_URL"], 30):
        raise SystemExit("the broker did not answer within 30 s")


def count_by_host(experiment: Any) -> dict[str, int]:
    """Attempts that ended by themselves, by the host whose worker made them."""
    from benchapp.models import Attempt

    ended = Attempt.objects.filter(trial__episode__run__experiment=experiment, status=Attempt.Status.FINISHED)
    return dict(Counter(name.partition("/")[0] for name in ended.values_list("worker", flat=True)))


class Outages:
    """Waits for the end of the experiment and keeps a worker on each host; in between it cuts hosts off."""

    def __init__(self, experiment: Any, switch: Switch, hosts: list[Host], seconds: float) -> None:
        self.experiment, self.switch, self.hosts, self.seconds = experiment, switch, hosts, seconds
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.told: list[str] = []
        self.missed: list[str] = []
        self.until = time.monotonic() + DEADLINE_SECONDS

    def run(self) -> None:
        self._wait(lambda: self._count_ended() >= 6 and self._find_at_work())
        self._cut_database()
        self._wait(lambda: self._count_ended() >= 30 and self._find_at_work())
        self._cut_worker()
        self._wait(lambda: False)

    def _wait(self, is_met: Callable[[], object]) -> None:
        """Until it is met, or the experiment has ended."""
        while time.monotonic() < self.until:
            self._keep_workers()
            with self._patience():
                self.experiment.refresh_from_db(fields=["status"])
                if self.experiment.status not in ("waiting", "running") or is_met():
                    return
            time.sleep(0.2)
        raise SystemExit(f"not within {DEADLINE_SECONDS} s: {self.told}")

    def _keep_workers(self) -> None:
        """As whatever supervises a deployment would."""
        for host in self.hosts:
            if (process := self.workers.get(host.name)) is None or process.poll() is not None:
                if process is not None:
                    self.told.append(f"{host.name}: its worker ended with status {process.returncode}, started again")
                    if len(self.told) > MAX_TOLD:
                        raise SystemExit("\n".join(self.told))
                work = [sys.executable, str(ROOT / "manage.py"), "work"]
                self.workers[host.name] = host.spawn("work.log", *work, DOCKER_HOST=host.engine)

    @contextlib.contextmanager
    def _patience(self) -> Iterator[None]:
        from django.db import InterfaceError, OperationalError, connection

        try:
            yield
        except (OperationalError, InterfaceError):
            connection.close()

    def _attempts(self) -> Any:
        from benchapp.models import Attempt

        return Attempt.objects.filter(trial__episode__run__experiment=self.experiment)

    def _count_ended(self) -> int:
        return int(self._attempts().filter(status="finished").count())

    def _find_at_work(self) -> Any:
        """An attempt under way that has begun long enough ago to have a sandbox."""
        return self._attempts().filter(status="running").order_by("started_at").first()

    def _cut(self, name: str) -> None:
        self.switch.cut.add(name)
        time.sleep(self.seconds)
        self.switch.cut.discard(name)

    def _cut_database(self) -> None:
        before = self._count_ended()
        self._cut(DATABASE)
        began = time.monotonic()
        self._wait(lambda: self._count_ended() > before)
        self.told.append(
            f"database cut off for {self.seconds:.0f} s after {before} attempts; the next one was recorded "
            f"{time.monotonic() - began:.1f} s after it was back"
        )

    def _cut_worker(self) -> None:
        """Longer than a lease: another host must take over what it holds, and it must not write when it is back."""
        held = self._find_at_work()
        if held is None:
            self.missed.append("no worker was cut off: nobody was at work")
            return
        name = held.worker.partition("/")[0]
        taken_over = self._attempts().filter(trial=held.trial_id).exclude(worker__startswith=f"{name}/").exists
        self.switch.cut.add(name)
        cut_at, began = time.monotonic(), time.monotonic() + self.seconds
        while time.monotonic() < began or (not taken_over() and time.monotonic() < cut_at + MOST_TURNS):
            time.sleep(1)
        self.switch.cut.discard(name)
        began = time.monotonic()
        if not taken_over():
            self.missed.append(f"nobody took over the attempt of {name} within {MOST_TURNS} s")
        held.refresh_from_db(fields=["status"])
        self.told.append(
            f"{name} cut off for {began - cut_at:.0f} s in an attempt, which was taken over: {held.status}"
        )
        own = self._attempts().filter(worker__startswith=f"{name}/", started_at__gt=timezone_now())
        self._wait(own.exists)
        self.told.append(f"{name} began its next attempt {time.monotonic() - began:.1f} s after it was back")


def timezone_now() -> Any:
    from django.utils import timezone

    return timezone.now()


# --- small things ------------------------------------------------------------------------------------------------


def _enter_hosts(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Calls ourselves in namespaces of our own, with settings that every host shares."""
    folder.mkdir(parents=True)
    image = folder / "image.tar"
    if options.sandbox == "docker":
        subprocess.run(["docker", "save", "--output", str(image), BASE_IMAGE], check=True)
    environment = {
        **os.environ,
        "SKILLGLASS_VAR": f"{folder}/{HOME}",
        "SECRET_KEY": "of one run of this benchmark",
        "LEASE_SECONDS": str(LEASE_SECONDS),
        "INFRASTRUCTURE_RETRIES": "50",
        "REDIS_URL": f"redis://{ADDRESSES[HOME]}:{BROKER_PORT}/0",
        "DJANGO_SETTINGS_MODULE": "benchapp.settings",
        "SKILLGLASS_BASE_IMAGE": BASE_IMAGE,
    }
    spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    arguments = ["--folder", str(folder), "--image", str(image), "--seed", str(options.seed)]
    arguments += ["--sandbox", options.sandbox, "--cut", str(options.cut)]
    arguments += ["--delay", str(options.delay), "--loss", str(options.loss)]
    arguments += [part for name in options.condition for part in ("--condition", name)]
    arguments += [part for key in options.environment for part in ("--environment", key)]
    command = ["unshare", *spaces, sys.executable, __file__, *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        logs = "".join(f"--- {path}\n{path.read_text()[-3000:]}" for path in sorted(folder.glob("*/*.log")))
        raise SystemExit(f"{logs}\nthe hosts ended with status {done.returncode}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--sandbox", choices=["docker", "local"], default="docker")
    parser.add_argument("--delay", type=float, default=20, help="milliseconds of a round trip between two hosts")
    parser.add_argument("--loss", type=float, default=1, help="per cent of all frames")
    parser.add_argument("--cut", type=float, default=40, help="seconds that a host is cut off")
    parser.add_argument("--condition", action="append", default=[], help=f"default: {', '.join(chaos.CONDITIONS)}")
    parser.add_argument("--environment", action="append", default=[], help="default: all")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # the hosts, called by ourselves
    parser.add_argument("--image", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

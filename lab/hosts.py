"""Runs one experiment on several hosts, breaks one thing after another, and compares it with an undisturbed run.

    sudo .venv/bin/python lab/hosts.py [--workers 5] [--trials 20] [--fault NAME ...] [--sandbox docker]

Twice the same experiment with the same seed. First on one host, in peace (as in `lab/chaos.py`). Then on many: one has
the database, one its standby, one the pages and the broker, and the others a worker each, which does --trials at a
time. Every host is a set of namespaces of this machine with its own name, address, process ids, temporary folder and
var folder (and Docker engine, with `--sandbox docker`). All their frames go through a switch in this process: it
holds up each for half of --delay, loses some, and cuts a host off. `lab/host_faults.py` has the faults; without
`--fault` all of them happen, one after another. Trials, decisions, histories and final libraries must be equal, no
slot may have two counting attempts, and `check_record` must find nothing. Exit status 1 where not, or where a fault
did not happen.

Linux and root only; a clock that is off needs `cc`. Nothing reaches another network, and all of it ends with this
process.
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
import shutil
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchapp.deploy.embedded_broker import broker_binary, wait_for  # noqa: E402
from lab import chaos  # noqa: E402
from lab.host_faults import DEADLINE_SECONDS, FAULTS, Faults  # noqa: E402
from lab.kill_workers import compare, outcome  # noqa: E402

HOME, DATABASE, STANDBY = "home", "database", "standby"
WORKERS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
ADDRESSES = {name: f"10.77.0.{number}" for number, name in enumerate((HOME, DATABASE, STANDBY, *WORKERS), start=1)}
LEASE_SECONDS = 10
DISK_MB = 64  # of the host whose disk is filled
BASE_IMAGE = "skillglass-test-base:1"
PORT, BROKER_PORT = 8000, 6379
# Short episodes, so that there are many at a time; half of them learn after each trial.
EXPERIMENT = {
    "name": "Several hosts",
    "suite": "starter",
    "protocol": "skillflow",
    "conditions": ["no-skill", "skill-evolution"],
    "answers": 2,
    "agent": "shell",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
    "limits": {
        "timeout_seconds": 900
    },  # far from what the waits of a reply add up to: a trial that meets it ends otherwise
}


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
    print(
        f"{options.workers} workers:   {hosts['seconds']:.0f} s, attempts {hosts['attempts']}, by host "
        f"{hosts['by_host']}"
    )
    print(f"             at most {hosts['most_running']} attempts under way")
    print(f"switch:      {hosts['frames']}; pages: {hosts['pages']}")
    print("\n".join(hosts["report"]))
    print(
        "\n".join(problems[:20]) if problems else "equal: trials, decisions, histories, final libraries; records hold"
    )
    return 1 if problems else 0


# --- hosts and what connects them --------------------------------------------------------------------------------


@dataclass(slots=True)
class Host:
    """Namespaces of this machine, held open by a process that sleeps.
    The end of that process ends all others in them."""

    name: str
    folder: Path
    disk_mb: int = 0  # of a small disk of its own; 0: the disk of this machine
    keeper: subprocess.Popen[bytes] | None = None
    pid: int = 0

    def start(self) -> None:
        self.disk.mkdir(parents=True)
        (self.folder / "run").mkdir()
        spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        program = f"hostname {self.name}; mount -t tmpfs run /run; "
        if self.disk_mb:
            program += f"mount -t tmpfs -o size={self.disk_mb}m disk {self.disk}; "
        program += f"cd {self.disk}; mkdir tmp var cache; chmod 1777 tmp; cd /; "
        program += f"echo ready; exec sleep {DEADLINE_SECONDS + 600}"
        self.keeper = subprocess.Popen(["unshare", *spaces, "sh", "-c", program], stdout=subprocess.PIPE)
        if not self.keeper.stdout or self.keeper.stdout.readline() != b"ready\n":
            raise SystemExit(f"{self.name}: no namespaces to be had")
        children = Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text()
        self.pid = int(children.split()[0])

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def enter(self) -> list[str]:
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", "--pid"]

    @property
    def engine(self) -> str:
        return f"unix://{self.folder}/run/docker.sock"

    def run(self, *command: str) -> None:
        subprocess.run([*self.enter, *command], check=True, stdout=subprocess.DEVNULL)

    def spawn(self, log: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        own = {"TMPDIR": f"{self.disk}/tmp", "SKILLGLASS_VAR": f"{self.disk}/var"}
        own |= {"SKILLGLASS_SANDBOXES": f"{self.disk}/tmp", "SKILLGLASS_CACHE": f"{self.disk}/cache"}
        with (self.folder / log).open("ab") as output:
            return subprocess.Popen(
                [*self.enter, *command],
                env={**os.environ, **own, **environment},
                stdout=output,
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

    def processes(self) -> list[int]:
        """Ids in our namespace of everything on the host."""
        space = Path(f"/proc/{self.pid}/ns/pid").readlink()
        found = [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]
        return [pid for pid in found if _read_link(f"/proc/{pid}/ns/pid") == space]

    def stop(self) -> None:
        """Kill -9 of everything on it: its first process and its keeper, at once."""
        if self.keeper:
            self.keeper.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            self.keeper.wait()


class Switch:
    """Passes frames between hosts, each by a TAP device of its own.
    Every kernel with TUN can do it; netem is a module that many lack."""

    TAP, NO_HEADER, SET_DEVICE = 0x0002, 0x1000, 0x400454CA

    def __init__(self, delay: float, loss: float, seed: int) -> None:
        self.delay, self.loss, self.dice = delay, loss, random.Random(seed)
        self.ports: dict[str, int] = {}
        self.places: dict[bytes, str] = {}  # hardware address -> port, as learnt
        self.cut: set[str] = set()
        self.calm = True  # neither delay nor loss, while everything is set up
        self.counts = Counter[str]()
        self._chooser = selectors.DefaultSelector()
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
        self._chooser.register(port, selectors.EVENT_READ, name)
        for words in (f"addr add {ADDRESSES[name]}/24 dev lan", "link set lan up", "link set lo up"):
            subprocess.run([*enter, "ip", *words.split()], check=True)

    def start(self) -> None:
        threading.Thread(target=self._pass_frames, name="switch", daemon=True).start()

    def _pass_frames(self) -> None:
        while True:
            pause = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else 1.0
            for key, _ in self._chooser.select(pause):
                self._take_from(key.data, key.fd)
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, name, frame = heapq.heappop(self._waiting)
                with contextlib.suppress(BlockingIOError, OSError, KeyError):
                    os.write(self.ports[name], frame)

    def _take_from(self, source: str, port: int) -> None:
        for _ in range(64):
            try:
                frame = os.read(port, 2048)
            except BlockingIOError:
                return
            except OSError:  # the host is gone, and its device with it
                self._unplug(source, port)
                return
            self.places[frame[6:12]] = source
            known = self.places.get(frame[:6])
            for target in [known] if known else [name for name in self.ports if name != source]:
                self._send(source, target, frame)

    def _unplug(self, name: str, port: int) -> None:
        self._chooser.unregister(port)
        os.close(port)
        if self.ports.get(name) == port:  # a new host of this name may have come
            del self.ports[name]

    def _send(self, source: str, target: str, frame: bytes) -> None:
        if self.cut & {source, target}:
            self.counts["cut off"] += 1
        elif not self.calm and self.dice.random() < self.loss:
            self.counts["lost"] += 1
        else:
            self.counts["passed"] += 1
            due = time.monotonic() + (0 if self.calm else self.delay)
            heapq.heappush(self._waiting, (due, next(self._numbers), target, frame))


def _read_link(path: str) -> Path | None:
    try:
        return Path(path).readlink()
    except OSError:  # it has ended
        return None


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


class Cluster:
    """All hosts below `folder`, and what runs on them. `names`: the hosts with a worker."""

    broker: subprocess.Popen[bytes]

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.folder = options, options.folder
        self.names = WORKERS[: options.workers]
        self.switch = Switch(options.delay / 2000, options.loss / 100, options.seed)
        self.hosts: dict[str, Host] = {}
        self.primary = DATABASE
        self.has_standby = "failover" in options.fault
        self.clock = self.folder / "skewed_clock.so"
        self.database: chaos.Database

    def start(self) -> None:
        self.switch.plug(HOME, None, [])
        for name in (DATABASE, *([STANDBY] if self.has_standby else []), *self.names):
            self._start_host(name, self.folder / name)
        self.switch.start()
        if "skew" in self.options.fault:
            source = ROOT / "lab" / "skewed_clock.c"
            subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(self.clock), str(source)], check=True)
        host = self.hosts[DATABASE]
        self.database = chaos.Database(host.folder / "postgresql", ADDRESSES[DATABASE], host.enter)
        self.database.start()
        os.environ["DATABASE_URL"] = self.database.url
        if self.has_standby:
            self.standby = self.database.start_standby(
                self.hosts[STANDBY].folder / "postgresql", ADDRESSES[STANDBY], self.hosts[STANDBY].enter
            )
            os.environ["DATABASE_URL"] = self.database.url_with(self.standby)
        (self.folder / HOME).mkdir()
        self.start_broker()

    def _start_host(self, name: str, folder: Path) -> None:
        small = "full-disk" in self.options.fault and name == self.names[-1]
        host = self.hosts[name] = Host(name, folder, disk_mb=DISK_MB if small else 0)
        host.start()
        self.switch.plug(name, host.pid, host.enter)
        if self.options.sandbox == "docker" and name in self.names:
            host.start_engine(self.options.image)

    def start_broker(self) -> None:
        """Any Valkey or Redis will do; here the one that comes with the project, at an address instead of a socket."""
        command = [broker_binary(), "--bind", ADDRESSES[HOME], "--port", str(BROKER_PORT), "--dir"]
        command += [str(self.folder / HOME), "--protected-mode", "no", "--save", ""]
        self.broker = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        if not wait_for(os.environ["REDIS_URL"], 30):
            raise SystemExit("the broker did not answer within 30 s")

    def kill(self, name: str) -> None:
        self.hosts[name].stop()

    def replace(self, name: str) -> None:
        """A new host of that name, with nothing on its disk."""
        self._start_host(name, self.hosts[name].folder.with_name(f"{name}-new"))

    def promote(self) -> None:
        self.standby.promote()
        self.primary = STANDBY

    @property
    def device(self) -> str:
        """The disk below all folders, as control groups name it."""
        number = self.folder.stat().st_dev
        return f"{os.major(number)}:{os.minor(number)}"

    def stop(self) -> None:
        for host in self.hosts.values():
            host.stop()


def run_hosts(options: argparse.Namespace) -> dict[str, Any]:
    """Builds the hosts below `options.folder`, runs the experiment on them, breaks them. The outcome as JSON values.

    Called in namespaces of its own, which are the host of the pages and the broker.
    """
    cluster = Cluster(options)
    try:
        cluster.start()
        return _run_experiment(options, cluster)
    finally:
        cluster.stop()


def _run_experiment(options: argparse.Namespace, cluster: Cluster) -> dict[str, Any]:
    chaos._manage("migrate", "-v", "0")
    experiment = chaos._launch(options)
    pages = PageWatch()
    pages.start(options.folder / HOME)
    cluster.switch.calm = False
    began = time.monotonic()
    faults = Faults(experiment, cluster, options.fault, options.cut, options.trials)
    faults.run()
    seconds = time.monotonic() - began
    cluster.switch.calm = True
    check = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "check_record"], capture_output=True, text=True, check=False
    )
    return {
        **outcome(experiment),
        "seconds": seconds,
        "check": [] if check.returncode == 0 else [f"check_record: {(check.stdout + check.stderr)[-1500:]}"],
        "by_host": count_by_host(experiment),
        "most_running": faults.most_running,
        "report": faults.report,
        "missed": faults.missed,
        "frames": dict(cluster.switch.counts),
        "pages": {**pages.counts, "slowest, s": round(pages.slowest, 1)},
    }


def count_by_host(experiment: Any) -> dict[str, int]:
    """Attempts that ended by themselves, by the host whose worker made them."""
    from benchapp.models import Attempt

    ended = Attempt.objects.filter(trial__episode__run__experiment=experiment, status=Attempt.Status.FINISHED)
    return dict(Counter(name.partition("/")[0] for name in ended.values_list("worker", flat=True)))


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
        "SCRIPTED_SECONDS": str(options.reply),
        "LOG_LEVEL": "INFO",
    }
    spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    arguments = ["--folder", str(folder), "--image", str(image), "--seed", str(options.seed)]
    arguments += ["--sandbox", options.sandbox, "--cut", str(options.cut)]
    arguments += ["--delay", str(options.delay), "--loss", str(options.loss)]
    arguments += ["--workers", str(options.workers), "--trials", str(options.trials)]
    arguments += ["--experiment", options.experiment, "--reply", str(options.reply)]
    arguments += [part for name in options.fault for part in ("--fault", name)]
    command = ["unshare", *spaces, sys.executable, __file__, *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*/*.log"):
            shutil.copy(path, options.keep / f"{path.parent.name}-{path.name}")
    if done.returncode:
        logs = "".join(f"--- {path}\n{path.read_text()[-3000:]}" for path in sorted(folder.glob("*/*.log")))
        raise SystemExit(f"{logs}\nthe hosts ended with status {done.returncode}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=5, help="hosts with a worker")
    parser.add_argument("--trials", type=int, default=20, help="at a time, of each worker")
    parser.add_argument(
        "--replicates", type=int, default=20, help="8 episodes of 6 trials each; a fault takes some hundred trials"
    )
    parser.add_argument("--reply", type=float, default=4.0, help="seconds that a reply of the model takes")
    parser.add_argument("--sandbox", choices=["docker", "local"], default="local")
    parser.add_argument("--delay", type=float, default=20, help="milliseconds of a round trip between two hosts")
    parser.add_argument("--loss", type=float, default=1, help="per cent of all frames")
    parser.add_argument("--cut", type=float, default=40, help="seconds that a host is cut off")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="default: all of them")
    parser.add_argument("--keep", type=Path, help="copy the logs there")
    parser.add_argument("--experiment", default="", help=argparse.SUPPRESS)  # as JSON, the same for both runs
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # the hosts, called by ourselves
    parser.add_argument("--image", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.fault = [name for name in FAULTS if name in (options.fault or FAULTS)]
    spec = {**EXPERIMENT, "seed": options.seed, "sandbox": options.sandbox, "replicates": options.replicates}
    options.experiment = options.experiment or json.dumps(spec)
    options.condition = options.environment = []  # of `lab/chaos.py`
    if not 4 <= options.workers <= len(WORKERS):
        parser.error(f"--workers: expected 4 to {len(WORKERS)}, so that each fault has a host of its own")
    return options


if __name__ == "__main__":
    sys.exit(main())

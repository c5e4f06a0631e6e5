"""Kills the processes that an experiment needs while it runs, and compares the result with an undisturbed run.

    .venv/bin/python lab/chaos.py [--kills 60] [--sandbox docker] [--condition NAME ...] [--environment KEY ...]

Twice the same experiment with the same seed, each time with a PostgreSQL cluster, a broker and three workers of its
own: once in peace, once while workers and work-horses are killed with -9, the broker is killed and started empty, the
database is restarted as after a crash and containers are removed under their agents. Trials, decisions, histories and
final libraries must be equal, no slot may have two counting attempts, and `check_record` must find nothing. Exit
status 1 where not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchapp.deploy.embedded_broker import answers, broker_command, broker_url  # noqa: E402
from lab.kill_workers import compare, free_port, outcome, work_horses_at_work  # noqa: E402

WORKERS = 3
DEADLINE_SECONDS = 3600
CONDITIONS = ["no-skill", "raw-trajectory", "curated-static", "curated-always", "selfgen-zero-shot", "selfgen-always"]


def main() -> int:
    options = _options()
    if options.folder:
        print(json.dumps(run_world(options)))
        return 0
    with tempfile.TemporaryDirectory(prefix="skillglass-chaos-") as base:
        Path(base).chmod(0o755)  # the database runs as another user
        peace = _world(options, Path(base) / "peace", kills=0)
        chaos = _world(options, Path(base) / "chaos", kills=options.kills)
    problems = [*compare(peace, chaos), *peace["check"], *chaos["check"]]
    print(f"undisturbed: {peace['seconds']:.0f} s, {peace['episodes']} episodes, {len(peace['trials'])} trials")
    print(f"disturbed:   {chaos['seconds']:.0f} s, {chaos['killed']}, attempts {chaos['attempts']}")
    print(
        "\n".join(problems[:20]) if problems else "equal: trials, decisions, histories, final libraries; records hold"
    )
    return 1 if problems else 0


# --- what an installation stands on -----------------------------------------------------------------------------


class Database:
    """A PostgreSQL cluster of its own. The server refuses to run as root, so root lends it to the user `postgres`.

    enter: a command that starts another one on the host where the server shall run; address: that host's, on a network
    that nobody else is on.
    """

    def __init__(self, folder: Path, address: str = "127.0.0.1", enter: Sequence[str] = ()) -> None:
        self.folder, self.address, self.port = folder, address, free_port()
        self.options = f"-p {self.port} -k {folder} -c listen_addresses={address}"
        self.programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
        self.user = [*enter, *(["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else [])]

    @property
    def url(self) -> str:
        return f"postgresql://skillglass@{self.address}:{self.port}/postgres"

    def url_with(self, other: Database) -> str:
        """Whichever of the two takes writes."""
        hosts = ",".join(f"{each.address}:{each.port}" for each in (self, other))
        return f"postgresql://skillglass@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        self._make_folder()
        self._run("initdb", "-D", f"{self.folder}/data", "-U", "skillglass", "-A", "trust", "--no-sync")
        with (self.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all,replication all {self.address}/24 trust\n")
        self._control("start")

    def start_standby(self, folder: Path, address: str, enter: Sequence[str] = ()) -> Database:
        """Start a copy that follows this one.
        From then on a commit here is confirmed when the copy has it on its disk."""
        copy = Database(folder, address, enter)
        copy._make_folder()
        source = f"host={self.address} port={self.port} user=skillglass"
        copy._run("pg_basebackup", "-D", f"{folder}/data", "-R", "--no-sync", "--checkpoint=fast", "-d", source)
        copy._control("start")
        # By a command of its own and not in a file: the copy has the files, and must not wait for a standby.
        self.options += " -c synchronous_standby_names='*'"
        self._control("restart", "-m", "fast")
        return copy

    def promote(self) -> None:
        self._control("promote")

    def _make_folder(self) -> None:
        self.folder.mkdir()
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")

    def restart(self) -> None:
        """As after a crash: nobody is asked, the log is replayed."""
        self._control("restart", "-m", "immediate")

    def stop(self) -> None:
        self._control("stop", "-m", "fast")

    def _control(self, verb: str, *more: str) -> None:
        command = ["-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log"]
        command += [] if verb == "promote" else ["-o", self.options]
        self._run("pg_ctl", *command, verb, *more)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self.user, str(self.programs / program), *arguments]
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)


@dataclass(slots=True)
class Broker:
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(broker_command(self.folder), stdout=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not answers(broker_url(self.folder)):
            if time.monotonic() > until:
                raise SystemExit("the broker did not answer within 30 s")
            time.sleep(0.05)

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        """It forgets everything: hints and live steps are disposable."""
        self.stop()
        time.sleep(0.5)
        self.start()


@dataclass(slots=True)
class Workers:
    """Kept at their number, as whatever supervises a deployment would."""

    log_path: Path
    trials: int = 1  # at a time, of each
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def keep(self, number: int) -> None:
        self.processes = [process for process in self.processes if process.poll() is None]
        while len(self.processes) < number:
            with self.log_path.open("ab") as log:
                command = [sys.executable, str(ROOT / "manage.py"), "work", "--trials", str(self.trials)]
                self.processes.append(
                    subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
                )

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# --- one installation, in a process of its own ------------------------------------------------------------------


def run_world(options: argparse.Namespace) -> dict[str, Any]:
    """Start an installation below `options.folder`, run the experiment with the chosen faults, and return the outcome
    as JSON values."""
    folder: Path = options.folder
    database, broker = Database(folder / "postgresql"), Broker(folder / "valkey")
    workers = Workers(folder / "workers.log", options.trials)
    os.environ["DATABASE_URL"] = database.url
    try:
        database.start()
        broker.start()
        _manage("migrate", "-v", "0")
        experiment = _launch(options)
        started = time.monotonic()
        killed = Chaos(experiment, database, broker, workers, options).run()
        seconds = time.monotonic() - started
        check = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "check_record"], capture_output=True, text=True, check=False
        )
        found = outcome(experiment)
    finally:
        workers.stop()
        broker.stop()
        database.stop()
    complaint = [] if check.returncode == 0 else [f"check_record: {(check.stdout + check.stderr)[-1500:]}"]
    episodes = len({tuple(row[:3]) for row in found["trials"]})
    return {**found, "killed": killed, "seconds": seconds, "check": complaint, "episodes": episodes}


def _manage(*arguments: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "manage.py"), *arguments], check=True, stdout=subprocess.DEVNULL)


def _launch(options: argparse.Namespace) -> Any:
    import django

    django.setup()
    from benchapp.experiments.example_experiment import DEMO
    from benchapp.experiments.launch import launch

    if options.experiment:
        return launch(json.loads(options.experiment))
    changes = {
        "conditions": options.condition or CONDITIONS,
        "environments": options.environment,
        "seed": options.seed,
        "sandbox": options.sandbox,
        "placebo_replay": True,
    }
    return launch({**DEMO, **changes})


class Chaos:
    """Waits for the end of the experiment and keeps the workers alive; in between it kills."""

    def __init__(
        self, experiment: Any, database: Database, broker: Broker, workers: Workers, options: argparse.Namespace
    ) -> None:
        self.experiment, self.database, self.broker, self.workers = experiment, database, broker, workers
        self.kills, self.dice, self.done = options.kills, random.Random(options.seed), Counter[str]()
        # Mostly workers and work-horses; the other three often enough that each is seen several times.
        weights = {"worker": 8, "work-horse": 8, "broker": 2, "database": 2}
        self.weights = {**weights, **({"container": 4} if options.sandbox == "docker" else {})}

    def run(self) -> dict[str, int]:
        until = time.monotonic() + DEADLINE_SECONDS
        pause_until = time.monotonic() + 3.0
        while time.monotonic() < until:
            self.workers.keep(WORKERS)
            self._refresh()
            if self.experiment.status not in ("waiting", "running"):
                return dict(self.done)
            time.sleep(0.1)
            if self.done.total() < self.kills and time.monotonic() > pause_until and self._strike():
                pause_until = time.monotonic() + self.dice.uniform(0.5, 4.0)
        raise SystemExit(f"the experiment did not end within {DEADLINE_SECONDS} s")

    def _refresh(self) -> None:
        from django.db import OperationalError, connection

        try:
            self.experiment.refresh_from_db(fields=["status"])
        except OperationalError:
            connection.close()

    def _strike(self) -> bool:
        """Only while somebody is at work: killing workers that have not begun yet proves nothing."""
        if not work_horses_at_work(self.experiment):
            return False
        kinds = list(self.weights)
        what = self.dice.choices(kinds, [self.weights[kind] for kind in kinds])[0]
        struck = {
            "worker": self._kill_worker,
            "work-horse": self._kill_work_horse,
            "broker": self._restart_broker,
            "database": self._restart_database,
            "container": self._remove_container,
        }[what]()
        self.done[what] += struck
        return struck

    def _kill_worker(self) -> bool:
        return _kill(self.dice.choice([process.pid for process in self.workers.processes]))

    def _kill_work_horse(self) -> bool:
        found = work_horses_at_work(self.experiment)
        return bool(found) and _kill(self.dice.choice(found))

    def _restart_broker(self) -> bool:
        self.broker.restart()
        return True

    def _restart_database(self) -> bool:
        from django.db import connection

        connection.close()
        self.database.restart()
        return True

    def _remove_container(self) -> bool:
        found = list(_containers_at_work(self.experiment))
        if not found:
            return False
        command = ["docker", "rm", "-f", self.dice.choice(found)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _kill(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _containers_at_work(experiment: Any) -> Iterator[str]:
    """Those of running attempts. Whoever runs the engine may have others that are none of ours."""
    from benchapp.models import Attempt
    from runner.sandboxes.docker.docker_engine import MARK_LABEL

    running = Attempt.objects.filter(trial__episode__run__experiment=experiment, status=Attempt.Status.RUNNING)
    for handle in running.values_list("sandbox", flat=True):
        if mark := handle.get("mark"):
            command = ["docker", "ps", "-aq", "--filter", f"label={MARK_LABEL}={mark}"]
            yield from subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def _world(options: argparse.Namespace, folder: Path, kills: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    environment |= {
        "SKILLGLASS_VAR": str(folder),
        "SKILLGLASS_SANDBOXES": str(folder / "sandboxes"),
        "LEASE_SECONDS": "10",
        "INFRASTRUCTURE_RETRIES": "50",
        "REDIS_URL": broker_url(folder / "valkey"),
        "DJANGO_SETTINGS_MODULE": "benchapp.settings",
    }
    environment.setdefault("SKILLGLASS_BASE_IMAGE", "skillglass-test-base:1")
    arguments = ["--folder", str(folder), "--kills", str(kills), "--seed", str(options.seed)]
    arguments += ["--sandbox", options.sandbox, "--trials", str(options.trials), "--experiment", options.experiment]
    arguments += [part for name in options.condition for part in ("--condition", name)]
    arguments += [part for key in options.environment for part in ("--environment", key)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        logs = "".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(folder.glob("*.log")))
        raise SystemExit(f"{logs}\n{folder.name}: ended with status {done.returncode}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--sandbox", choices=["docker", "local"], default="docker")
    parser.add_argument("--condition", action="append", default=[], help=f"default: {', '.join(CONDITIONS)}")
    parser.add_argument("--environment", action="append", default=[], help="default: all")
    parser.add_argument("--trials", type=int, default=1, help="at a time, of each worker")
    parser.add_argument("--experiment", default="", help="as JSON, instead of the demo under these conditions")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # one installation, called by ourselves
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

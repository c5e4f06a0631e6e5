"""Kills workers and work-horses while an experiment runs, and compares the result with an undisturbed run.

    .venv/bin/python lab/kill_workers.py [--kills 20] [--file EXPERIMENT] [--condition NAME ...] [--environment KEY ...]

Two records of their own in a temporary folder run the same experiment with the same seed: one in peace in a single
process, one under kill -9 in an installation as `manage.py demo` starts it. Trials, decisions, histories and final
libraries must be equal, and no slot may have two counting attempts. Exit status 1 and the first differences where they
are not.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_SECONDS = 1800


def main() -> int:
    options = _options()
    if options.folder:
        print(json.dumps(run_world(options)))
        return 0
    with tempfile.TemporaryDirectory(prefix="skillglass-kill-") as base:
        peace = _world(options, Path(base) / "peace", kills=0)
        killed = _world(options, Path(base) / "killed", kills=options.kills)
    problems = compare(peace, killed)
    print(f"undisturbed: {peace['seconds']:.0f} s, {len(peace['trials'])} trials, {len(peace['decisions'])} decisions")
    print(f"disturbed:   {killed['seconds']:.0f} s, killed {killed['killed']}, attempts {killed['attempts']}")
    print("\n".join(problems[:20]) if problems else "equal: trials, decisions, histories, final libraries")
    return 1 if problems else 0


def compare(peace: dict[str, Any], killed: dict[str, Any]) -> list[str]:
    """What differs, and what must never be."""
    problems = [
        f"{world}: slot with {n} counting attempts"
        for world, n in (("undisturbed", peace["most_counting"]), ("disturbed", killed["most_counting"]))
        if n > 1
    ]
    for part in ("status", "trials", "decisions", "histories", "libraries"):
        for ours, theirs in itertools.zip_longest(peace[part], killed[part]):
            if ours != theirs:
                problems.append(f"{part}: {_short(ours)} / {_short(theirs)}")
                break
    problems += [f"blocked: {reason}" for world in (peace, killed) for reason in world["blocked"]]
    return problems


def _short(value: Any) -> str:
    return text if len(text := repr(value)) <= 400 else text[:400] + "..."


# --- one installation, in a process of its own ------------------------------------------------------------------


def run_world(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the experiment with a record below `options.folder`, kills as told. The outcome as JSON values."""
    started = time.monotonic()
    experiment, killed = run_killed(options) if options.kills else run_in_peace(options)
    return {**outcome(experiment), "killed": killed, "seconds": time.monotonic() - started}


def run_in_peace(options: argparse.Namespace) -> tuple[Any, dict[str, int]]:
    """One process, no broker, no worker: nothing that could be disturbed."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0)
    from benchapp.experiments.example_experiment import list_episodes, work_off

    logging.getLogger("benchapp").setLevel(logging.ERROR)  # each hint to the broker would miss it
    experiment = _launch(options)
    work_off(list_episodes(experiment))
    experiment.refresh_from_db(fields=["status"])
    return experiment, {}


def run_killed(options: argparse.Namespace) -> tuple[Any, dict[str, int]]:
    """An installation as `manage.py demo` starts it, under kill -9."""
    port = free_port()
    command = [sys.executable, str(ROOT / "manage.py"), "demo", "--no-experiment", "--port", str(port)]
    with (options.folder / "supervisor.log").open("wb") as log:
        supervisor = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        _wait_for_web(port, supervisor)
        experiment = _launch(options)
        killed = _disturb(experiment, supervisor, options.kills, random.Random(options.seed))
    finally:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait(60)
    return experiment, killed


def _launch(options: argparse.Namespace) -> Any:
    import django

    django.setup()
    from benchapp.experiments.example_experiment import DEMO
    from benchapp.experiments.launch import launch
    from benchapp.experiments.launch_spec import read_file

    changes = {"environments": options.environment, "seed": options.seed}
    if options.condition:
        changes["conditions"] = options.condition
    return launch({**(read_file(options.file) if options.file else DEMO), **changes})


def _disturb(experiment: Any, supervisor: subprocess.Popen[bytes], kills: int, dice: random.Random) -> dict[str, int]:
    """Waits for the end of the experiment; in between kills `kills` times: work-horses at work and workers by turns."""
    killed = {"worker": 0, "work-horse": 0}
    until = time.monotonic() + DEADLINE_SECONDS
    pause_until = 0.0
    while time.monotonic() < until:
        experiment.refresh_from_db(fields=["status"])
        if experiment.status not in ("waiting", "running"):
            return killed
        if supervisor.poll() is not None:
            raise SystemExit(f"the supervisor ended with status {supervisor.returncode}")
        time.sleep(0.05)
        if sum(killed.values()) >= kills or time.monotonic() < pause_until:
            continue
        wanted = "worker" if killed["worker"] < killed["work-horse"] else "work-horse"
        if candidates := _workers(supervisor.pid) if wanted == "worker" else work_horses_at_work(experiment):
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(candidates), signal.SIGKILL)
                killed[wanted] += 1
                pause_until = time.monotonic() + dice.uniform(0.3, 2.5)
    raise SystemExit(f"the experiment did not end within {DEADLINE_SECONDS} s")


def _workers(supervisor: int) -> list[int]:
    """The worker processes below the supervisor. A work-horse is a fork of its worker, one level further down."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,command="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [int(row[0]) for row in rows if len(row) == 3 and int(row[1]) == supervisor and "manage.py work" in row[2]]


def work_horses_at_work(experiment: Any) -> list[int]:
    """The work-horses that are in the middle of an attempt: killing one must leave an interrupted attempt."""
    from benchapp.models import Attempt
    from runner.sandboxes.processes import ProcessName

    running = Attempt.objects.filter(trial__episode__run__experiment=experiment, status=Attempt.Status.RUNNING)
    names = map(ProcessName.parse, running.values_list("worker", flat=True))
    return [name.pid for name in names if name is not None and name.is_alive]


def outcome(experiment: Any) -> dict[str, Any]:
    """What must not depend on who was killed: no times, hosts, ids or costs."""
    from django.db.models import Count, Q

    from benchapp.models import Attempt, Decision, Episode, Trial
    from benchapp.record import recorded
    from runner.base.encoding import encode

    of_run = ("episode__run__condition", "episode__run__replicate", "episode__key")
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    decisions = Decision.objects.filter(episode__run__experiment=experiment)
    episodes = Episode.objects.filter(run__experiment=experiment).order_by("run__condition", "run__replicate", "key")
    attempts = Attempt.objects.filter(trial__in=trials)
    return {
        "status": [experiment.status],
        "blocked": [reason for reason in episodes.values_list("blocked_reason", flat=True) if reason],
        "trials": _rows(trials, *of_run, "phase", "task__key", "sample", "status", "success", "reward", "steps"),
        "decisions": _rows(
            decisions, *of_run, "number", "round", "status", "operation_type", "summary", "after__digest"
        ),
        "histories": [[episode.key, encode(entry)] for episode in episodes for entry in recorded.read_history(episode)],
        "libraries": _rows(episodes, "run__condition", "run__replicate", "key", "status", "library__digest"),
        "attempts": dict(attempts.order_by().values_list("status").annotate(Count("id"))),
        "most_counting": max(
            trials.annotate(n=Count("attempts", filter=Q(attempts__counts=True))).values_list("n", flat=True)
        ),
    }


def _rows(query: Any, *fields: str) -> list[list[Any]]:
    return [list(row) for row in query.order_by(*fields).values_list(*fields)]


# --- small things -----------------------------------------------------------------------------------------------


def _world(options: argparse.Namespace, folder: Path, kills: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    environment |= {
        "SKILLGLASS_VAR": str(folder),
        "SKILLGLASS_SANDBOXES": str(folder / "sandboxes"),
        "LEASE_SECONDS": "10",
    }
    environment["DJANGO_SETTINGS_MODULE"] = "benchapp.settings"
    arguments = ["--folder", str(folder), "--kills", str(kills), "--seed", str(options.seed)]
    arguments += ["--file", str(options.file.resolve())] if options.file else []
    arguments += [part for name in options.condition for part in ("--condition", name)]
    arguments += [part for key in options.environment for part in ("--environment", key)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        logs = "".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(folder.rglob("*.log")))
        raise SystemExit(f"{logs}\n{folder.name}: ended with status {done.returncode}")
    return dict(json.loads(done.stdout))


def _wait_for_web(port: int, supervisor: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if supervisor.poll() is not None:
            raise SystemExit(f"the supervisor ended with status {supervisor.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit("the web did not answer within two minutes")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--file", type=Path, help="an experiment file; default: the demo")
    parser.add_argument("--condition", action="append", default=[], help="default: those of the file")
    parser.add_argument("--environment", action="append", default=[], help="default: all")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # one installation, called by ourselves
    return parser.parse_args()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

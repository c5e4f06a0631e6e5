"""A scheduler that reads `/metrics` and starts `work --burst`, as KEDA or a Slurm script would; what its idle time
costs.

    .venv/bin/python lab/bursts.py [--waves 4] [--replicates 56] [--trials 20] [--most 3] [--seconds 1.0]

Experiments are launched in waves, each when the last burst of the one before has ended, so that it scales to zero in
between. Every two seconds the scheduler starts as many bursts as waiting episodes fill, at most `--most` at a time. It
reports trials, bursts, the seconds that burst processes lived and how much of that they had no trial under way (their
start, the wait for the next look at the queue, their end), and the share of places that were empty. Exit status 1
where an experiment did not end, a burst failed, or a burst lived for more than 30 s after its last trial.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lab.kill_workers import free_port  # noqa: E402
from lab.many_trials import call_ourselves, installation, launch_episodes  # noqa: E402

LOOK_SECONDS = 2.0
DEADLINE_SECONDS = 3_600


def main() -> int:
    options = _options()
    if options.folder:
        print(json.dumps(run(options)))
        return 0
    results = call_ourselves(__file__, *sys.argv[1:])
    print(
        f"{results['trials']:,} trials in {results['waves']} waves, {results['bursts']} bursts of {options.trials} "
        f"places, at most {results['most']} at a time, {results['seconds']:.0f} s\nbursts lived "
        f"{results['lived']:.0f} s, of which {results['idle']:.0f} s without a trial under way: "
        f"{results['idle_share']:.1%}\nplaces: {results['empty_share']:.0%} empty; longest end of a burst after its "
        f"last trial: {results['last']:.1f} s"
    )
    print("\n".join(results["problems"]) or "every trial has ended, every burst ended by itself")
    return 1 if results["problems"] else 0


@dataclass
class Scheduler:
    """Look at the metric, and start bursts for what waits. The record is not read."""

    address: str
    options: argparse.Namespace
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    lives: dict[int, tuple[float, float]] = field(default_factory=dict)  # pid -> from, until, by the clock
    logs: dict[int, Path] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    most: int = 0

    def look(self) -> bool:
        """Start what is needed. Is anything waiting or running?"""
        now = time.time()
        for pid, process in list(self.running.items()):
            if process.poll() is not None:
                self.lives[pid] = (self.lives[pid][0], now)
                del self.running[pid]
                if process.returncode:
                    printed = self.logs[pid].read_text(errors="replace")[-1_500:]
                    self.failed.append(f"a burst ended with {process.returncode}: {printed}")
        waiting = self._read_waiting()
        wanted = min(math.ceil(waiting / self.options.trials), self.options.most - len(self.running))
        # A burst that was just started has not taken its episodes yet.
        young = sum(now - began < 10 for pid, (began, _) in self.lives.items() if pid in self.running)
        for _ in range(wanted - young):
            command = [sys.executable, str(ROOT / "manage.py"), "work", "--burst", "--trials", str(self.options.trials)]
            path = self.options.folder / f"burst-{len(self.lives)}.log"
            with path.open("ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            self.logs[process.pid] = path
            self.running[process.pid], self.lives[process.pid] = process, (now, now)
        self.most = max(self.most, len(self.running))
        return bool(waiting or self.running)

    def _read_waiting(self) -> float:
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        counts = re.findall(r'^skillglass_episodes\{[^}]*state="waiting"[^}]*\} (\S+)', text, re.MULTILINE)
        return sum(map(float, counts))


def run(options: argparse.Namespace) -> dict[str, Any]:
    with installation(options):
        port = free_port()
        serve = [sys.executable, "-m", "gunicorn", "-c", "python:benchapp.gunicorn_settings", "benchapp.wsgi"]
        environment = {**os.environ, "SINGLE_USER": "1", "PORT": str(port)}
        with (options.folder / "web.log").open("ab") as log:
            web = subprocess.Popen(serve, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/healthz")
            scheduler = Scheduler(f"http://127.0.0.1:{port}", options)
            began, problems = time.time(), []
            for _ in range(options.waves):
                experiment = launch_episodes(options)
                while scheduler.look():
                    time.sleep(LOOK_SECONDS)
                    if time.time() - began > DEADLINE_SECONDS:
                        raise SystemExit(f"not within {DEADLINE_SECONDS} s")
                experiment.refresh_from_db(fields=["status"])
                problems += [] if experiment.status == "done" else [f"{experiment.name} is {experiment.status}"]
            return _sum_up(scheduler, options, time.time() - began, problems)
        finally:
            web.kill()
            web.wait()


def _sum_up(scheduler: Scheduler, options: argparse.Namespace, seconds: float, problems: list[str]) -> dict[str, Any]:
    from benchapp.models import Attempt

    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for worker, began, ended in Attempt.objects.values_list("worker", "started_at", "finished_at"):
        spans[int(worker.split()[1])].append((began.timestamp(), ended.timestamp()))
    lived = idle = last = 0.0
    for pid, (began, ended) in scheduler.lives.items():
        lived += ended - began
        idle += ended - began - _length(sorted(spans[pid]))
        last = max(last, ended - max((until for _, until in spans[pid]), default=began))
    worked = sum(until - since for each in spans.values() for since, until in each)
    problems += scheduler.failed + ([f"a burst lived {last:.0f} s after its last trial"] if last > 30 else [])
    return {
        "trials": sum(map(len, spans.values())),
        "waves": options.waves,
        "bursts": len(scheduler.lives),
        "most": scheduler.most,
        "seconds": seconds,
        "lived": lived,
        "idle": idle,
        "idle_share": idle / lived,
        "empty_share": 1 - worked / (lived * options.trials),
        "last": last,
        "problems": problems,
    }


def _length(spans: list[tuple[float, float]]) -> float:
    """Of the union of spans in the order of their beginnings."""
    covered, end = 0.0, -math.inf
    for since, until in spans:
        covered += max(0.0, until - max(since, end))
        end = max(end, until)
    return covered


def _wait_for(address: str) -> None:
    for _ in range(240):
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(0.25)
        else:
            return
    raise SystemExit("the pages did not answer within a minute")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--waves", type=int, default=4)
    parser.add_argument("--replicates", type=int, default=56, help="of each of nine corpora: 504 trials a wave")
    parser.add_argument("--trials", type=int, default=20, help="places of a burst")
    parser.add_argument("--most", type=int, default=3, help="bursts at a time")
    parser.add_argument("--slots", type=int, default=60, help="calls that the model server takes at once")
    parser.add_argument("--seconds", type=float, default=1.0, help="that an answer takes")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # one installation, called by ourselves
    parser.set_defaults(sqlite=False)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

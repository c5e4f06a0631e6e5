"""Runs one experiment with `work --trials N`, once for each N, against a model server with a limited number of slots.

    .venv/bin/python lab/many_trials.py [--trials 20 200] [--replicates 50] [--slots 50] [--seconds 1.0] [--sqlite]
        [--kill]

Each N has a record and a broker of its own (PostgreSQL unless `--sqlite`). Every episode tries the same tasks without
skills, with the shell agent in the local sandbox; the server answers each conversation by three turns that depend on
nothing but the conversation, after `--seconds`. `--kill`: the worker gets kill -9 halfway and is started again.
It reports seconds, trials, most calls at the server at once, CPU seconds and largest resident memory of the worker,
most connections to the database. How trials ended must be equal for every N, no slot may have two counting attempts,
and the server may never see more calls at once than its slots. Exit status 1 where not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchapp.deploy.embedded_broker import broker_url  # noqa: E402
from lab.chaos import Broker, Database, _manage  # noqa: E402
from lab.kill_workers import outcome  # noqa: E402

DEADLINE_SECONDS = 1800
MODEL = "slow"  # the preset
COMMANDS = ("ls -la /workspace", "cat /workspace/* | head -c 2000")  # then it submits


def main() -> int:
    options = _options()
    if options.folder:
        print(json.dumps(run_world(options)))
        return 0
    worlds, problems = {}, []
    for trials in options.trials:
        worlds[trials] = call_ourselves(__file__, *sys.argv[1:], "--trials", str(trials))
        _tell(trials, worlds[trials])
    first = worlds[options.trials[0]]
    for trials, world in worlds.items():
        problems += [f"{trials}: not every trial ended as with {options.trials[0]}"] * (
            world["trials"] != first["trials"]
        )
        problems += [f"{trials}: a slot with {world['most_counting']} counting attempts"] * (world["most_counting"] > 1)
        problems += [f"{trials}: blocked: {reason}" for reason in world["blocked"][:3]]
        problems += [f"{trials}: {world['most_calls']} calls at once"] * (world["most_calls"] > options.slots)
    print("\n".join(problems) if problems else "equal: how every trial ended; the server's slots were never passed")
    return 1 if problems else 0


def _tell(trials: int, world: dict[str, Any]) -> None:
    worker = world["worker"]
    print(
        f"--trials {trials}: {len(world['trials'])} trials in {world['seconds']:.0f} s, attempts {world['attempts']}, "
        f"at most {world['most_running']} under way; {world['calls']} calls, at most {world['most_calls']} at once; "
        f"worker {worker['cpu']:.0f} CPU s, {worker['rss_mb']:.0f} MB, {worker['threads']} threads, "
        f"{world['connections']} connections",
        flush=True,
    )


# --- the server ---------------------------------------------------------------------------------------------------


class SlotServer(ThreadingHTTPServer):
    """Answers in the wire format of chat completions, and counts the calls that are under way."""

    daemon_threads = True
    request_queue_size = 1_024

    def __init__(self, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.seconds = seconds
        self.lock = threading.Lock()
        self.now = self.most = self.calls = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def enter(self, change: int) -> None:
        with self.lock:
            self.now += change
            self.calls += change > 0
            self.most = max(self.most, self.now)


class Answer(BaseHTTPRequestHandler):
    server: SlotServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.enter(1)
        time.sleep(self.server.seconds)
        self.server.enter(-1)  # before the answer: the next call may come at once
        self._send(
            {**self._reply(asked), "object": "chat.completion", "model": asked["model"], "id": "1", "created": 0}
        )

    def _reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        turns = sum(message["role"] == "assistant" for message in asked["messages"])
        name, arguments = self.call(asked, turns)
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call-{turns}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}

    def call(self, asked: dict[str, Any], turns: int) -> tuple[str, dict[str, Any]]:
        """The tool and its arguments, for a conversation in which so many turns were taken."""
        if turns < len(COMMANDS):
            return asked["tools"][0]["function"]["name"], {"command": COMMANDS[turns]}
        return "submit", {}

    def _send(self, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


# --- one installation, in a process of its own ------------------------------------------------------------------


@contextlib.contextmanager
def installation(options: argparse.Namespace) -> Iterator[tuple[SlotServer, Database | None]]:
    """A migrated record, a broker and the model server, below `options.folder`."""
    folder: Path = options.folder
    database = None if options.sqlite else Database(folder / "postgresql")
    broker, server = Broker(folder / "valkey"), SlotServer(options.seconds)
    (folder / "presets").mkdir()
    preset = {
        "provider": "openai",
        "agent_model": MODEL,
        "host_model": f"openai/{MODEL}",
        "api_base": f"http://127.0.0.1:{server.server_port}/v1",
        "max_parallel": options.slots,
        "context_window": 32_000,
    }
    (folder / "presets" / f"{MODEL}.yaml").write_text(json.dumps(preset))
    if database:
        os.environ["DATABASE_URL"] = database.url
        database.start()
    try:
        broker.start()
        _manage("migrate", "-v", "0")
        yield server, database
    finally:
        broker.stop()
        if database:
            database.stop()


def run_world(options: argparse.Namespace) -> dict[str, Any]:
    with installation(options) as (server, database):
        experiment = launch_episodes(options)
        began = time.monotonic()
        watch = Watch(options.folder, options, database)
        watch.run(experiment)
        result = {"seconds": time.monotonic() - began, "calls": server.calls, "most_calls": server.most}
        more = {"worker": watch.most, "connections": watch.connections, "most_running": watch.running}
        return {**outcome(experiment), **result, **more}


def launch_episodes(options: argparse.Namespace) -> Any:
    import django

    django.setup()
    from benchapp.experiments.launch import launch

    return launch(
        {
            "name": "Many trials",
            "suite": "starter-corpora",
            "protocol": "skillgenbench",
            "conditions": ["no-skill"],
            "replicates": options.replicates,
            "agent": "shell",
            "agent_model": MODEL,
            "sandbox": "local",
            "limits": {"max_turns": 5, "timeout_seconds": 900},
        }
    )


class Watch:
    """Keeps one worker until the experiment ends, and notes the most it used."""

    def __init__(self, folder: Path, options: argparse.Namespace, database: Database | None) -> None:
        self.folder, self.options, self.database = folder, options, database
        self.most = {"cpu": 0.0, "rss_mb": 0.0, "threads": 0}
        self.before = 0.0  # CPU seconds of the worker that was killed
        self.connections = self.running = 0
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, experiment: Any) -> None:
        from benchapp.models import Attempt, Trial

        self.planned = Trial.objects.count()
        until, killed = time.monotonic() + DEADLINE_SECONDS, not self.options.kill
        while time.monotonic() < until:
            if self.process is None or self.process.poll() is not None:
                self._start()
            time.sleep(0.5)
            self._note()
            self.running = max(self.running, Attempt.objects.filter(status="running").count())
            experiment.refresh_from_db(fields=["status"])
            if experiment.status not in ("waiting", "running"):
                self._stop()
                return
            if not killed and 2 * Attempt.objects.filter(status="finished").count() >= self.planned:
                killed, self.before = True, self.most["cpu"]
                assert self.process
                self.process.kill()
                self.process.wait()
        raise SystemExit(f"not within {DEADLINE_SECONDS} s: {(self.folder / 'work.log').read_text()[-3000:]}")

    def _start(self) -> None:
        command = [sys.executable, str(ROOT / "manage.py"), "work", "--trials", str(self.options.trials[0])]
        with (self.folder / "work.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def _stop(self) -> None:
        assert self.process
        self.process.terminate()
        self.process.wait(60)

    def _note(self) -> None:
        assert self.process
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return
        ticks = os.sysconf("SC_CLK_TCK")
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        self.most["cpu"] = self.before + (int(stat[11]) + int(stat[12])) / ticks
        self.most["rss_mb"] = max(self.most["rss_mb"], int(lines["VmHWM"].split()[0]) / 1024)
        self.most["threads"] = max(self.most["threads"], int(lines["Threads"]))
        if self.database:
            from django.db import connection

            with connection.cursor() as cursor:
                cursor.execute("select count(*) from pg_stat_activity where backend_type = 'client backend'")
                self.connections = max(self.connections, int(cursor.fetchone()[0]) - 1)


# --- small things ---------------------------------------------------------------------------------------------------


def call_ourselves(script: str, *arguments: str) -> dict[str, Any]:
    """Run the script with a `--folder` of its own and the settings of an installation there; what it prints last,
    as JSON."""
    with tempfile.TemporaryDirectory(prefix="skillglass-many-", ignore_cleanup_errors=True) as base:
        folder = Path(base)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        environment = {
            **os.environ,
            "SKILLGLASS_VAR": str(folder / "var"),
            "SKILLGLASS_PRESETS": str(folder / "presets"),
            "SECRET_KEY": "of one run of this benchmark",
            "REDIS_URL": broker_url(folder / "valkey"),
            "DJANGO_SETTINGS_MODULE": "benchapp.settings",
            "LOG_LEVEL": "WARNING",
        }
        command = [sys.executable, script, "--folder", base, *arguments]
        done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            log = folder / "work.log"
            raise SystemExit(f"{log.read_text()[-3000:] if log.exists() else ''}\nended with {done.returncode}")
        return dict(json.loads(done.stdout.splitlines()[-1]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, nargs="+", default=[20, 200], help="at a time, one run each")
    parser.add_argument("--replicates", type=int, default=50, help="of each corpus, an episode each")
    parser.add_argument("--slots", type=int, default=50, help="calls that the server takes at once")
    parser.add_argument("--seconds", type=float, default=1.0, help="that an answer takes")
    parser.add_argument("--sqlite", action="store_true", help="not PostgreSQL")
    parser.add_argument("--kill", action="store_true", help="kill -9 the worker halfway, once")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # one installation, called by ourselves
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

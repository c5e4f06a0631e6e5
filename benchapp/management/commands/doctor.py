"""What this machine has and lacks, and what each missing thing costs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import DatabaseError

from benchapp.deploy import embedded_broker, environ
from runner import programs
from runner.base.errors import NotOnThisMachine, SetupError
from runner.base.var_folder import DEMO, MANAGE
from runner.generators import PROVIDER, find_generator, generator_folders
from runner.programs import find_installed, pin_of
from runner.sandboxes.docker.docker_builds import COMPOSE, NO_COMPOSE, buildx, find_plugin, what_is_missing
from runner.sandboxes.docker.docker_engine import connect
from runner.sandboxes.docker.docker_images import list_built_images
from runner.sandboxes.docker.docker_limits import engine_folder
from runner.sandboxes.docker.docker_programs import volume_name

# Limits that the engine's kernel can enforce: its name in the engine's answer, and ours.
LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "CpuCfsQuota": "processors", "PidsLimit": "processes"}
KEYS = {
    "OPENAI_API_KEY": "OpenAI",
    "ANTHROPIC_API_KEY": "Anthropic",
    "GEMINI_API_KEY": "Google Gemini",
    "DASHSCOPE_API_KEY": "Qwen",
    "MOONSHOT_API_KEY": "Kimi",
    "DEEPSEEK_API_KEY": "DeepSeek",
    "OPENROUTER_API_KEY": "OpenRouter",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOW_DISK_BYTES = 2 * 1024**3


class Command(BaseCommand):
    help = "Checks this machine: what works, what is missing, what you lose. Exit status: 1 if the demo cannot run."
    requires_system_checks: list[str] = []

    def handle(self, *args: object, **options: object) -> None:
        found = []
        for finding in findings():
            found.append(finding)
            word, style = ("missing", self.style.ERROR) if finding.needed else ("absent ", self.style.WARNING)
            line = f"{style(word)}  {finding.name}: {finding.detail} - {finding.cost}"
            there = f"{self.style.SUCCESS('ok     ')}  {finding.name}: {finding.detail}"
            self.stdout.write(there if finding.is_there else line)
        fatal = [finding.name for finding in found if finding.is_fatal]
        if fatal:
            self.stdout.write(self.style.ERROR(f"The demo cannot run: {', '.join(fatal)}."))
            sys.exit(1)
        self.stdout.write(self.style.SUCCESS("The demo has everything it needs."))


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One check. `cost`: what does not work without it. `needed`: the demo cannot run without it."""

    name: str
    is_there: bool
    detail: str
    cost: str = ""
    needed: bool = False

    @property
    def is_fatal(self) -> bool:
        return self.needed and not self.is_there


def findings() -> Iterator[DoctorFinding]:
    """Yield everything, the demo's needs first. Never raises for what is missing, never shows a secret's value."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield DoctorFinding("Python", sys.version_info >= (3, 11), python, "nothing runs below 3.11", needed=True)
    folder: Path = settings.VAR_DIR
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    writable, free = os.access(existing, os.W_OK | os.X_OK), shutil.disk_usage(existing).free
    yield DoctorFinding("Data folder", writable, str(folder), "nothing can be stored; set SKILLGLASS_VAR", needed=True)
    room = f"{free / 1024**3:.1f} GiB free"
    yield DoctorFinding("Disk", free >= LOW_DISK_BYTES, room, "large imports and runs may fail half way")
    yield _database()
    yield _broker()
    yield from _engine()
    browser = next((path for path in map(shutil.which, BROWSERS) if path), None)
    yield DoctorFinding("Chromium", browser is not None, browser or "not found", "only browser tests are skipped")
    there = volumes()
    for name in programs.names():
        cost = f"no trials with {name}; run: {MANAGE} install_program {name}"
        yield _attempt(f"Program {name}", partial(program, name, there), cost)
    yield from generators()
    for key, provider in KEYS.items():
        is_set = bool(environ.text(key) or environ.text(f"{key}_FILE"))
        yield DoctorFinding(key, is_set, "set" if is_set else "not set", f"no models of {provider}")


def _database() -> DoctorFinding:
    connection = connections[DEFAULT_DB_ALIAS]
    kind = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(connection.vendor, connection.vendor)
    cost = "no page and no command works; check DATABASE_URL"
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        return DoctorFinding("Database", True, "SQLite, not made yet: the first start makes it", needed=True)
    try:
        executor = MigrationExecutor(connection)
        open_migrations = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except (DatabaseError, OSError) as error:
        return DoctorFinding("Database", False, f"{kind}, not reachable: {_first_line(error)}", cost, needed=True)
    detail = "up to date" if not open_migrations else f"{open_migrations} migrations open: the next start makes them"
    return DoctorFinding("Database", True, f"{kind}, {detail}", needed=True)


def _broker() -> DoctorFinding:
    if embedded_broker.answers(settings.REDIS_URL):
        kind = "embedded Valkey" if settings.EMBEDDED_BROKER else "REDIS_URL"
        return DoctorFinding("Broker", True, f"{kind}, answers", needed=True)
    if not settings.EMBEDDED_BROKER:
        return DoctorFinding(
            "Broker", False, "REDIS_URL does not answer", "nothing can be run; pages still open", needed=True
        )
    found = _attempt("Broker", embedded_broker.broker_binary, "")
    detail = f"embedded Valkey, not running: `{DEMO}` starts it"
    detail = detail if found.is_there else f"no embedded Valkey for this machine: {found.detail}"
    cost = "set REDIS_URL; without a broker nothing can be run"
    return DoctorFinding("Broker", found.is_there, detail, cost, needed=True)


def generators() -> Iterator[DoctorFinding]:
    """Yield each by its name in experiment files, with its version and folder."""
    try:
        folders = generator_folders()
    except SetupError as error:
        yield DoctorFinding("Generators", False, _first_line(error), "no condition plug-in with any of them")
        return
    for name, folder in sorted(folders.items()):
        look = partial(_generator, name, folder)
        yield _attempt(f"{PROVIDER}/{name}", look, f"no condition plug-in with {PROVIDER}/{name}")


def _generator(name: str, folder: Path) -> str:
    return f"{find_generator(name).version}, {folder}"


def _base_image_there() -> str:
    from runner.sandboxes.images import base_name

    with engine() as client:
        return f"{base_name()}, {client.inspect_image(base_name())['Id'][:19]}"


def _attempt(name: str, look: Callable[[], str], cost: str) -> DoctorFinding:
    try:
        return DoctorFinding(name, True, look())
    except Exception as error:  # anything that a client library raises when its service is down
        return DoctorFinding(name, False, _first_line(error), cost)


def _engine() -> Iterator[DoctorFinding]:
    cost = "suites that are not trusted cannot be run; the starter suite needs no Docker"
    yield _attempt("Docker", version, cost)
    yield _attempt("Docker storage", storage, "unknown where images go and how much room they have")
    yield _attempt("Docker images", task_images, "unknown which images were built for tasks")
    yield _attempt("Docker limits", limits, "tasks in containers run without these limits")
    cost = "the classic builder builds images: Dockerfiles with heredocs, mounts or other newer syntax cannot be built"
    yield _attempt("BuildKit", buildkit, cost)
    yield _attempt("Compose", compose, "tasks of several services cannot run")
    cost = "tasks that bring no image cannot run in a container until it can be fetched; set SKILLGLASS_BASE_IMAGE"
    yield _attempt("Base image", _base_image_there, cost)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


# --- the engine and the programs ------------------------------------------------------------------------------------


class Lacking(Exception):
    """The engine ignores some limits of a task or is too old for a client's plugin, or the plugin is missing."""


def engine() -> closing[Any]:
    return closing(connect(timeout=5))


def version() -> str:
    """Return the engine's version, the machine that it runs on and how it is reached. Raises as `storage` does."""
    with engine() as client:
        way = f", by {os.environ['DOCKER_HOST']}" if os.environ.get("DOCKER_HOST") else ""
        return f"engine {client.version()['Version']} on {client.info().get('Name')}{way}"


def storage() -> str:
    """Return where and how the engine keeps its images. Raise SandboxError when no engine answers."""
    with engine() as client:
        info = client.info()
    under = dict(info.get("DriverStatus") or ()).get("Backing Filesystem", "an unknown file system")
    size = f"{info.get('NCPU')} processors, {info.get('MemTotal', 0) / 1024**3:.1f} GiB of memory"
    return f"{info.get('Driver')} on {under}, in {info.get('DockerRootDir')}; {size}"


def limits() -> str:
    """Return the limits that the engine enforces. Lacking names those it does not."""
    with engine() as client:
        info, folder = client.info(), engine_folder(client)
    if missing := [name for key, name in LIMITS.items() if not info.get(key)]:
        raise Lacking(f"the engine does not enforce: {', '.join(missing)}")
    unseen = (
        f"of disk only the size of a container's layer is seen: {info.get('DockerRootDir')} cannot be read from here"
    )
    seen = unseen if folder is None else "disk watched from outside"  # docs/explanation/sandboxes.md
    return f"{', '.join(LIMITS.values())} enforced by the engine; {seen}"


def task_images() -> str:
    """Return how many images were built for tasks, and their size."""
    with engine() as client:
        images = list_built_images(client)
    size = sum(image.size for image in images) / 1e9
    return (
        f"{len(images):,} built for tasks, {size:,.1f} GB with what they share; `manage.py prune_images` removes them"
    )


def buildkit() -> str:
    """Return how images of tasks are built. Lacking explains what to do about the classic builder."""
    with engine() as client:
        if missing := what_is_missing(client):
            raise Lacking(missing)
    return f"the engine's own, through {buildx()}"


def compose() -> str:
    """Return what starts the services of a task that has several. Lacking explains what to do if nothing does."""
    if (found := find_plugin(COMPOSE)) is None:
        raise Lacking(NO_COMPOSE)
    return str(found)


def volumes() -> set[str] | None:
    """Return names of the engine's volumes; None when no engine answers."""
    try:
        with engine() as client:
            return {row["Name"] for row in client.volumes()["Volumes"] or ()}
    except Exception:  # any error of the client; the engine has a line of its own
        return None


def program(name: str, there: set[str] | None) -> str:
    """Return version and place of a pinned program. Raise NotOnThisMachine when it is not installed."""
    pin = pin_of(name)
    try:
        found = find_installed(name)
    except NotOnThisMachine as error:
        raise NotOnThisMachine(f"pinned {pin.version} ({pin.digest[:12]}), not installed") from error
    if there is None:
        loaded = "no engine to load it into"
    elif volume_name(found) in there:
        loaded = "its volume is on the engine"
    else:
        loaded = "no volume on the engine yet: the first trial loads it"
    return f"{pin.version} ({pin.digest[:12]}), installed; {loaded}"

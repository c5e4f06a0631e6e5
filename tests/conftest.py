"""What all tests share. One that lacks its tools is skipped with the reason; SKILLGLASS_REQUIRE_ALL=1 forbids it."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Nothing is timed: the machine runs more processes than it has cores.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# As the server does (benchapp/wsgi.py): looking for cycles after every 700 objects takes a tenth of the fast tests.
gc.set_threshold(50_000, 20, 20)

# Trials start `python3` by the hundred: a shim before it would take longer than what they run.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).resolve().parent), os.environ["PATH"]])

IS_FULL = os.environ.get("FULL") == "1"
ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
DURATIONS = Path(__file__).with_name("durations.txt")
TOOK = Counter[str]()  # test -> seconds, set-up and teardown included
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def require(available: bool, reason: str) -> None:
    """Goes on where `available`; else skips with the reason, or fails where skips are forbidden."""
    if available:
        return
    if os.environ.get("SKILLGLASS_REQUIRE_ALL") == "1":
        pytest.fail(f"required here: {reason}")
    pytest.skip(reason)


@cache
def chromium() -> str | None:
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


@cache
def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "version"], capture_output=True, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@cache
def buildkit_answers() -> bool:
    from runner.base.errors import SandboxError
    from runner.sandboxes.docker.docker_builds import what_is_missing
    from runner.sandboxes.docker.docker_engine import connect

    try:
        client = connect(timeout=20)
    except SandboxError:
        return False
    with contextlib.closing(client):
        return what_is_missing(client) is None


@cache
def small_model_is_installed() -> bool:
    from benchapp.deploy.installation import Unable, find_model

    try:
        find_model()
    except Unable:
        return False
    return True


# mark -> (is it there?, what to say where it is not)
NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "docker": (docker_answers, "no Docker engine answers"),
    "buildkit": (buildkit_answers, "buildx is not installed, or the Docker engine is older than 23.0"),
    "postgresql": (lambda: "TEST_POSTGRESQL_URL" in os.environ, "TEST_POSTGRESQL_URL is not set"),
    "small_model": (small_model_is_installed, "requirements-small.txt is not installed: `make .venv/.small` does that"),
    "browser": (lambda: chromium() is not None, f"none of {', '.join(BROWSERS)} is installed"),
}

# Whoever uses one of these fixtures, even through another one, uses the database.
DATABASE = frozenset({"db", "transactional_db", "live_server", "django_db_setup"})


def _call_with_room(call: Callable[..., Any], **arguments: Any) -> Any:
    return call(**arguments)


# CPython keeps frames in chunks of 16 KiB and gives a chunk back to the system as soon as its first frame ends: a loop
# that calls a function across such a border maps and unmaps memory with every call, a million times in one walk through
# all pages. A frame this large (in words) brings a chunk of 2 MiB, and every test runs inside it.
_call_with_room.__code__ = _call_with_room.__code__.replace(co_stacksize=140_000)
HAS_ROOM = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Any:
    if config.stash.get(HAS_ROOM, False):
        return None
    config.stash[HAS_ROOM] = True
    return _call_with_room(config.hook.pytest_cmdline_main, config=config)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark what uses a database before `-m` selects; sort after the shuffle.

    Files that took longest come first, so that no core waits at the end for one that began late.
    """
    if not IS_FULL:
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    for item in items:
        if item.get_closest_marker("django_db") or not DATABASE.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("database")
    yield
    rows = (line.split() for line in DURATIONS.read_text().splitlines() if not line.startswith("#"))
    seconds = {ROOT / path: float(took) for took, _, path in rows}
    items.sort(key=lambda item: -seconds.get(item.path, 0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    TOOK[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down what each file took, and the slowest tests, where KEEP_DURATIONS=1 asks for it."""
    if os.environ.get("KEEP_DURATIONS") != "1" or hasattr(session.config, "workerinput"):
        return
    files, tests = Counter[str](), Counter(name.partition("::")[0] for name in TOOK)
    for name, took in TOOK.items():
        files[name.partition("::")[0]] += took
    lines = [f"{took:8.1f} {tests[path]:5} {path}" for path, took in files.most_common()]
    slowest = [f"# {took:8.1f} {name}" for name, took in TOOK.most_common(50)]
    head = "# seconds, tests and file of one whole run; the slowest tests at the end"
    DURATIONS.write_text("\n".join([head, *lines, *slowest]) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark, (is_there, reason) in NEEDS.items():
        if item.get_closest_marker(mark):
            require(is_there(), reason)
    if item.get_closest_marker("shared_data") and not SHARED_DATA.is_dir():
        pytest.skip("the sample data does not lie beside the project")  # not part of the project: never required


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """What a process keeps between requests must not outlive a test: the next one's keys may be the same."""
    yield
    if "benchapp.stats.comparing.comparison" in sys.modules:
        sys.modules["benchapp.stats.comparing.comparison"].forget()
    for keeping in ("inspector.charts.drawn_chart", "inspector.pages.search.search_view"):
        if keeping in sys.modules:
            sys.modules[keeping].KEPT.clear()

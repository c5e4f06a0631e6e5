"""What every test shares: what it needs is there, or it is skipped with the reason. SKILLGLASS_REQUIRE_ALL=1 forbids skips."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
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
    from runner.errors import SandboxError
    from runner.sandboxes.docker_buildkit import what_is_missing
    from runner.sandboxes.docker_engine import connect

    try:
        client = connect(timeout=20)
    except SandboxError:
        return False
    with contextlib.closing(client):
        return what_is_missing(client) is None


# mark -> (is it there?, what to say where it is not)
NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "docker": (docker_answers, "no Docker engine answers"),
    "buildkit": (buildkit_answers, "buildx is not installed, or the Docker engine is older than 23.0"),
    "postgresql": (lambda: "TEST_POSTGRESQL_URL" in os.environ, "TEST_POSTGRESQL_URL is not set"),
    "browser": (lambda: chromium() is not None, f"none of {', '.join(BROWSERS)} is installed"),
}


@pytest.hookimpl(trylast=True)  # after the shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules whose tests take long come first, so that no core waits at the end for one that began late."""
    long = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("browser")}
    first = {item.path for item in items if item.get_closest_marker("postgresql")}
    items.sort(key=lambda item: 0 if item.path in first else 1 if item.path in long else 2)


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
    if "benchapp.comparing.comparison" in sys.modules:
        sys.modules["benchapp.comparing.comparison"].forget()
    if "inspector.charts.picture" in sys.modules:
        sys.modules["inspector.charts.picture"].KEPT.clear()

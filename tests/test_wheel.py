"""A wheel, built and installed into an empty environment: one program, `skillglass`, which needs no clone."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import site
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from email import message_from_bytes
from pathlib import Path

import pytest

from runner.suites import SUITES, load_suite
from tests.benchapp.import_folders import job
from tests.conftest import require

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("benchapp", "demo", "docs", "examples", "inspector", "runner", "static", "templates")
CACHES = {"__pycache__", ".ruff_cache"}
NO_REGISTRY = ("No matching distribution", "Could not find a version", "Failed to establish")
OURS = ("SKILLGLASS_", "DJANGO_", "DATABASE_URL", "REDIS_URL", "XDG_", "PYTHONPATH", "VIRTUAL_ENV")
DIGESTS = "from runner.suites import *; print({name: load_suite(name).digest for name in SUITES})"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(pip, capture_output=True, text=True)
    require(not any(each in done.stderr for each in NO_REGISTRY), "a package registry, for what builds a wheel")
    assert done.returncode == 0, done.stderr
    (found,) = folder.iterdir()
    return found


@dataclass(frozen=True)
class Installed:
    """The environment has the wheel, and its dependencies from the one that tests run in."""

    home: Path  # of a user who never ran it
    python: Path

    @property
    def program(self) -> Path:
        return self.python.with_name("skillglass")

    @property
    def var(self) -> Path:
        return self.home / ".local" / "share" / "skillglass"

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith(OURS)} | {
            "HOME": str(self.home)
        }

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *map(str, words)]
        return subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    home = folder / "home"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True)
    where = [str(python), "-c", "import site; print(site.getsitepackages()[0])"]
    packages = Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip())
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return Installed(home, python)


def test_a_wheel_holds_what_runs_and_no_tests_or_caches(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    client = {f"skillglass/{path.name}" for path in (ROOT / "skillglass").iterdir() if path.is_file()}
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    kept = [path.relative_to(ROOT).as_posix() for path in paths if not CACHES & set(path.parts)]
    assert held == {f"skillglass/app/{name}" for name in ["manage.py", *kept]} | client


def test_a_wheel_needs_what_requirements_in_lists(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        needed = message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements.in").read_text().splitlines()]
    assert sorted(map(project_name, needed)) == sorted(map(project_name, filter(None, lines)))


def project_name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return found[0].lower().replace("_", "-")


def test_suites_are_byte_for_byte_those_of_a_clone(installed: Installed) -> None:
    """Modes and compiled files of an installation are no part of a task."""
    done = installed.run("shell", "-v0", "-c", DIGESTS)
    assert done.stdout.strip() == str({name: load_suite(name).digest for name in SUITES}), done.stderr


def test_runs_are_imported_and_checked_without_a_clone(installed: Installed, tmp_path: Path) -> None:
    installed = replace(installed, home=tmp_path / "home")  # another test runs the demo in the usual one
    installed.home.mkdir()
    assert "run skillglass migrate" in installed.run("check_record").stderr
    assert installed.run("migrate", "-v0").returncode == 0
    done = installed.run("import_runs", job(tmp_path / "job"))
    assert re.search(r"^created +[1-9]", done.stdout, re.MULTILINE), done.stderr
    done = installed.run("check_record")
    assert (done.returncode, "The record holds" in done.stdout) == (0, True), done.stderr
    assert (installed.var / "skillglass.sqlite3").is_file()


def test_other_programs_of_the_environment_do_not_see_its_packages(installed: Installed) -> None:
    code = (
        "import importlib.util as u; print([n for n in ('runner', 'demo', 'inspector', 'benchapp') if u.find_spec(n)])"
    )
    done = subprocess.run(
        [installed.python, "-c", code], cwd=installed.home, env=installed.environment, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


def test_the_demo_answers_and_its_workers_solve_tasks(installed: Installed) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = installed.home / "demo.log"
    with log.open("wb") as output:
        command = [str(installed.program), "demo", "--port", str(port)]
        demo = subprocess.Popen(
            command, cwd=installed.home, env=installed.environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: f"Skillglass is at http://127.0.0.1:{port}/" in log.read_text(), demo, log)
        assert str(installed.var) in log.read_text()
        assert b"skillglass import_runs PATH" in read(port, "/imports/")
        assert b"skillglass import_runs PATH" in read(port, "/docs/how-to/importing/")
        assert b"starter" in read(port, "/launch/")
        wait_for(lambda: trials_done(port) > 0, demo, log)
    finally:
        demo.send_signal(signal.SIGINT)
        status = demo.wait(120)
    assert status == 0, log.read_text()
    assert installed.run("check_record").returncode == 0


def wait_for(happened: Callable[[], bool], demo: subprocess.Popen[bytes], log: Path, seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert demo.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.5)


def trials_done(port: int) -> int:
    return sum(each["progress"]["done"] for each in json.loads(read(port, "/jobs.json"))["open"])


def read(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 200, path
        return response.read()
    finally:
        connection.close()

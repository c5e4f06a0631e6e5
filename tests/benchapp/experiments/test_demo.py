"""`manage.py demo` as a person meets it: it answers, it ends, it says why it cannot start."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchapp.experiments.example_experiment import DEMO
from benchapp.experiments.launch_spec import read_spec
from benchapp.management.commands.demo import Command
from benchapp.models import Experiment
from runner.sandboxes.processes import ProcessName

ROOT = Path(__file__).resolve().parents[3]


def test_the_demo_holds_the_conditions_it_must() -> None:
    spec = read_spec(DEMO)
    assert {"no-skill", "raw-trajectory", "curated-always", "selfgen-always"} <= set(spec.conditions)
    assert spec.key
    assert "scripted" in spec.name


@pytest.mark.django_db
def test_a_demo_that_cannot_be_launched_again_keeps_no_page_from_coming_up(capsys: pytest.CaptureFixture[str]) -> None:
    experiment = Command().launch_demo(DEMO)
    assert experiment is not None
    Experiment.objects.update(spec={**experiment.spec, "seed": 5})
    assert Command().launch_demo(DEMO) is None
    assert "'demo' was launched with another seed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "told"), [("eight", "expected a whole number"), ("0", "1 to 65535"), ("70000", "1 to 65535")]
)
def test_a_port_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, value: str, told: str) -> None:
    monkeypatch.setenv("PORT", value)
    with pytest.raises(CommandError, match=told):
        call_command("demo")


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Demo:
    """A foreground start below `folder`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        environment = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
        environment |= {"SKILLGLASS_VAR": str(folder), "PORT": str(port), "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
        self.log = folder.parent / f"demo-{time.monotonic_ns()}.log"
        with self.log.open("wb") as output:
            command = [sys.executable, str(ROOT / "manage.py"), "demo", "--no-experiment"]
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def wait_until_it_answers(self, seconds: float = 300) -> None:
        until = time.monotonic() + seconds
        while f"Skillglass is at http://127.0.0.1:{self.port}/" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.1)

    def children(self) -> list[ProcessName]:
        names = json.loads((self.folder / "run" / "children.json").read_text())["children"]
        return [name for name in map(ProcessName.parse, names) if name]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(300)


@pytest.fixture
def demo(tmp_path: Path, port: int) -> Iterator[Demo]:
    demo = Demo(tmp_path / "var", port)
    demo.wait_until_it_answers()
    yield demo
    if demo.process.poll() is None:
        demo.end()


def status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.slow
def test_it_answers_and_ends_with_all_its_children(demo: Demo, port: int) -> None:
    assert (status(port, "/"), status(port, "/index.json")) == (200, 200)
    children = demo.children()
    assert len(children) == 4
    assert all(child.is_alive for child in children)
    assert demo.end(signal.SIGINT) == 0
    assert not any(child.is_alive for child in children)
    with pytest.raises(ConnectionRefusedError):
        status(port, "/")


@pytest.mark.slow
def test_after_a_kill_the_next_start_takes_over(demo: Demo, tmp_path: Path, port: int) -> None:
    left = demo.children()
    demo.end(signal.SIGKILL)
    assert any(child.is_alive for child in left)
    again = Demo(tmp_path / "var", port)
    try:
        again.wait_until_it_answers()
        assert not any(child.is_alive for child in left)
    finally:
        assert again.end() == 0


@pytest.mark.slow
def test_a_second_start_in_the_same_folder_says_so(demo: Demo, tmp_path: Path, port: int) -> None:
    second = Demo(tmp_path / "var", port)
    assert second.process.wait(300) == 1
    assert "already running" in second.log.read_text()
    assert status(port, "/") == 200


@pytest.mark.slow
def test_a_port_that_is_taken_is_named_with_the_way_out(tmp_path: Path, port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        demo = Demo(tmp_path / "var", port)
        assert demo.process.wait(300) == 1
    text = demo.log.read_text()
    assert f"port {port} is not free" in text
    assert "PORT=8001 make demo" in text
    assert "Traceback" not in text

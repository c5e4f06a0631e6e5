"""The supervisor starts, keeps alive, and leaves nothing behind; not even when it is killed itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchapp.deploy import installation
from benchapp.deploy.installation import Installation
from benchapp.deploy.supervisor import AlreadyRunning, Child, Supervisor
from runner.sandboxes.processes import ProcessName, read_start_of_process, this_machine

SLEEP = (sys.executable, "-c", "import time; time.sleep(300)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(300)",
)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path / "run")
    supervisor.hold()
    yield supervisor
    supervisor.end(lambda: None)


def child(tmp_path: Path, *command: str, patience: float = 5.0) -> Child:
    return Child("child", command or SLEEP, os.environ, tmp_path / "log" / "child.log", patience)


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def pid_of(child: Child) -> int:
    assert child.process is not None
    return child.process.pid


def test_a_killed_child_is_started_again(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.add(child(tmp_path))
    first = pid_of(supervisor.children[0])
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: read_start_of_process(first) is None)
    supervisor.keep_alive()
    assert pid_of(supervisor.children[0]) != first
    assert supervisor.children[0].is_running


def test_a_child_that_ends_at_once_is_started_ever_more_slowly(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.add(child(tmp_path, sys.executable, "-c", "raise SystemExit(3)"))
    broken = supervisor.children[0]
    for _ in range(8):
        if broken.process is not None:
            broken.process.wait(60)
        broken.not_before = 0.0
        supervisor.keep_alive()
    if broken.process is not None:
        broken.process.wait(60)
    supervisor.keep_alive()
    assert not broken.is_running
    assert broken.not_before - time.monotonic() > 1


def test_the_end_leaves_no_process(supervisor: Supervisor, tmp_path: Path) -> None:
    for _ in range(3):
        supervisor.add(child(tmp_path))
    pids = [pid_of(each) for each in supervisor.children]
    supervisor.end(lambda: None)
    assert [read_start_of_process(pid) for pid in pids] == [None] * 3


def test_a_child_that_will_not_end_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.add(child(tmp_path, *STUBBORN, patience=0.3))
    pid = pid_of(supervisor.children[0])
    wait_until(lambda: (tmp_path / "log" / "child.log").read_text())
    supervisor.end(lambda: None)
    assert read_start_of_process(pid) is None


def test_a_child_is_asked_to_end_once(supervisor: Supervisor, tmp_path: Path) -> None:
    """A second request means "at once" to a worker."""
    count = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True)); print('up', flush=True); time.sleep(1.5)"  # noqa: E501
    supervisor.add(child(tmp_path))
    supervisor.add(child(tmp_path, sys.executable, "-c", count))
    log = tmp_path / "log" / "child.log"
    wait_until(lambda: "up" in log.read_text())
    supervisor.end(lambda: None)
    assert log.read_text().count("asked") == 1


def test_an_orphan_of_a_killed_child_is_ended_and_a_stranger_is_not(supervisor: Supervisor, tmp_path: Path) -> None:
    """As rq's work-horse: a fork in a group of its own that outlives its worker."""
    fork = (
        "import os, sys, time\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    os.setpgrp()\n    time.sleep(300)\n"
        "print(pid, flush=True)\ntime.sleep(300)\n"
    )
    supervisor.add(child(tmp_path, sys.executable, "-c", fork))
    log = tmp_path / "log" / "child.log"
    wait_until(lambda: log.read_text().strip())
    orphan = int(log.read_text())
    os.kill(pid_of(supervisor.children[0]), signal.SIGKILL)
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        wait_until(lambda: not supervisor.children[0].is_running)
        supervisor.end_orphans([orphan, stranger.pid, 2**22 - 1])
        wait_until(lambda: read_start_of_process(orphan) is None)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_one_supervisor_holds_a_folder(supervisor: Supervisor) -> None:
    with pytest.raises(AlreadyRunning):
        Supervisor(supervisor.folder).hold()


KILLED = """
import os, sys
from pathlib import Path
from benchapp.deploy.supervisor import Child, Supervisor
supervisor = Supervisor(Path(sys.argv[1]))
supervisor.hold()
supervisor.add(Child("child", [sys.executable, "-c", "import time; time.sleep(300)"], os.environ, Path(sys.argv[1]) / "log"))
print(supervisor.children[0].process.pid, flush=True)
os.kill(os.getpid(), 9)
"""  # noqa: E501


def test_the_next_start_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=60
    )
    left = int(killed.stdout)
    assert read_start_of_process(left) is not None, killed.stderr
    supervisor = Supervisor(tmp_path)
    supervisor.hold()
    assert read_start_of_process(left) is None
    assert left in supervisor.sessions


def test_a_process_that_merely_has_the_old_number_is_spared(tmp_path: Path) -> None:
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        former = ProcessName(this_machine(), stranger.pid, "another time")
        register = {"children": [str(former)], "sessions": [], "machine": this_machine()}
        (tmp_path / "children.json").write_text(json.dumps(register))
        Supervisor(tmp_path).hold()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_the_server_of_the_small_model_keeps_to_its_own_port(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`PORT=8001 make demo MODEL=small` sets the pages' port."""
    settings.VAR_DIR = tmp_path
    monkeypatch.setenv("PORT", "8001")
    monkeypatch.setenv(installation.ADDRESS_VARIABLE, "")
    monkeypatch.setattr(installation, "find_model", lambda: tmp_path / "model.gguf")
    machine, added = Installation(8001, with_small_model=True), list[Child]()
    monkeypatch.setattr(Supervisor, "add", lambda _, child: added.append(child))
    machine._add_small_model()
    (server,) = added
    port = server.command[server.command.index(installation.SERVED_AS) + 1]
    assert port != "8001"
    assert os.environ[installation.ADDRESS_VARIABLE] == f"http://127.0.0.1:{port}/v1"

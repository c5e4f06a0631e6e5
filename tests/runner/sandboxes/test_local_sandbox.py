"""The local sandbox: what a command can do, what bounds it, and that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.base.errors import SandboxError, SetupError
from runner.base.trees import TreeCaps, check_relative, read_tree, remove_tree, write_tree
from runner.base.types import File, Task
from runner.sandboxes import sandbox_kind
from runner.sandboxes.local import LocalSandbox, SandboxLimits, end_processes, open_sandbox
from runner.sandboxes.processes import find_marked_processes, wait_for_process
from tests.cases import every

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes through /proc")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task("E1-LS1-T1", "t", "E1", "E1-LS1", None, 1, "Do it.", "0" * 64, tmp_path)


@pytest.fixture
def sandbox(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSandbox]:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    opened = open_sandbox(task, name="t")
    yield opened
    opened.close()


def run(sandbox: LocalSandbox, command: str, seconds: float = 120) -> str:
    return sandbox.execute(command, timeout_seconds=seconds).output


def test_it_is_found_by_name(sandbox: LocalSandbox) -> None:
    assert sandbox_kind("local").open_sandbox is open_sandbox


@pytest.mark.parametrize("said", ["0", "off", " No "])
def test_it_is_not_opened_where_the_installation_refuses_it(
    task: Task, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("SKILLGLASS_LOCAL_SANDBOX", said)
    with pytest.raises(SetupError, match="does not permit it"):
        open_sandbox(task, name="t")


def test_it_has_private_folders_side_by_side(sandbox: LocalSandbox) -> None:
    assert sandbox.folder.stat().st_mode & 0o777 == 0o700
    assert run(sandbox, "pwd; ls -d ../skills ../tests ../logs") == "/workspace\n../logs\n../skills\n../tests\n"


def test_it_gives_back_files_with_their_executable_bit(sandbox: LocalSandbox) -> None:
    files = {"a.txt": File(b"one"), "deep/er/run.sh": File(b"#!/bin/sh\necho ran\n", 0o755)}
    sandbox.put("workspace", files)
    assert run(sandbox, "deep/er/run.sh") == "ran\n"
    assert sandbox.files("workspace") == files


def test_it_keeps_the_callers_secrets_out(sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    output = run(sandbox, "env | sort")
    assert "sk-secret" not in output
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert names <= {
        *("HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "TZ", "_", "SKILLGLASS_SANDBOX"),
        *("PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"),
    }
    assert "HOME=/workspace\n" in output
    assert str(sandbox.folder) not in output
    assert sandbox.mark not in output


def test_it_adds_what_the_caller_names(sandbox: LocalSandbox) -> None:
    done = sandbox.execute("echo $EXTRA", timeout_seconds=5, environment={"EXTRA": "here"})
    assert (done.exit_code, done.output) == (0, "here\n")


def test_it_reports_exit_codes_and_both_streams(sandbox: LocalSandbox) -> None:
    done = sandbox.execute("echo out; echo err >&2; exit 7", timeout_seconds=5)
    assert (done.exit_code, done.output, done.timed_out, done.truncated) == (7, "out\nerr\n", False, False)


def test_it_closes_stdin(sandbox: LocalSandbox) -> None:
    assert run(sandbox, "cat; echo end") == "end\n"


def test_it_ends_a_command_at_its_time_limit_and_keeps_what_it_said(sandbox: LocalSandbox) -> None:
    started = time.monotonic()
    done = sandbox.execute("echo early; sleep 60; echo late", timeout_seconds=0.4)
    assert time.monotonic() - started < 40
    assert done.timed_out
    assert done.exit_code is None
    assert done.output == "early\n\n[ended at the time limit]\n"


def test_it_ends_the_whole_group_at_the_time_limit(sandbox: LocalSandbox) -> None:
    sandbox.execute("sleep 61 & sleep 62", timeout_seconds=0.3)
    time.sleep(0.05)
    assert find_marked_processes(sandbox.mark, sandbox.folder) == set()


def test_it_does_not_wait_for_background_processes(sandbox: LocalSandbox) -> None:
    done = sandbox.execute("sleep 63 & echo started", timeout_seconds=60)
    assert done.output == "started\n"
    assert done.duration_seconds < 40
    sandbox.end_processes()


@linux_only
@pytest.mark.parametrize(
    "command",
    [
        "sleep 64 &",
        "setsid sleep 65 &",
        "env -i setsid sleep 66 &",  # no mark: found by its working directory
        "cd / && setsid sleep 67 &",  # not inside: found by its mark
        "(setsid sh -c 'while :; do sleep 0.01; done' &) &",
    ],
)
def test_it_finds_and_ends_what_a_command_left_running(sandbox: LocalSandbox, command: str) -> None:
    run(sandbox, f"{command} sleep 0.1")
    assert find_marked_processes(sandbox.mark, sandbox.folder)
    sandbox.end_processes()
    assert find_marked_processes(sandbox.mark, sandbox.folder) == set()


def test_it_cuts_long_output_in_the_middle_and_says_so(sandbox: LocalSandbox) -> None:
    sandbox.limits = SandboxLimits(output_characters=1_000)
    done = sandbox.execute("echo first; head -c 3000 /dev/zero | tr '\\0' x; echo last", timeout_seconds=5)
    assert done.truncated
    assert done.output.startswith("first\nxx")
    assert done.output.endswith("xxlast\n")
    assert "\n[... 2,011 characters left out ...]\n" in done.output


def test_it_bounds_memory_and_size_of_endless_output(sandbox: LocalSandbox) -> None:
    sandbox.limits = SandboxLimits(output_characters=1_000, file_bytes=1024 * 1024)
    done = sandbox.execute("yes", timeout_seconds=30)
    assert not done.timed_out  # ended by the limit on file size, long before the time limit
    assert done.exit_code != 0
    assert len(done.output) < 1_200


def test_it_limits_the_size_of_files(sandbox: LocalSandbox) -> None:
    sandbox.limits = SandboxLimits(file_bytes=1024 * 1024)
    done = sandbox.execute("head -c 5000000 /dev/zero > big", timeout_seconds=10)
    assert done.exit_code != 0
    assert (sandbox.folder / "workspace/big").stat().st_size <= 2 * 1024 * 1024  # some shells count in KiB


@pytest.mark.parametrize("limits", [SandboxLimits(total_bytes=1_000), SandboxLimits(total_files=20)])
def test_it_ends_a_command_that_fills_the_folder(sandbox: LocalSandbox, limits: SandboxLimits) -> None:
    sandbox.limits = limits
    done = sandbox.execute(
        "for i in $(seq 40); do echo 12345678901234567890123456 > $i; done; sleep 60", timeout_seconds=30
    )
    assert done.exit_code is None
    assert not done.timed_out
    assert "the sandbox holds more than" in done.output


def test_it_reads_broken_utf8_as_replacement_marks(sandbox: LocalSandbox) -> None:
    assert run(sandbox, "printf 'a\\377b'") == "a\ufffdb"


@pytest.mark.parametrize(("command", "said"), [("echo \0", "NUL byte"), ("#" * 100_001, "100,001 bytes")])
def test_it_answers_impossible_commands_like_a_shell(sandbox: LocalSandbox, command: str, said: str) -> None:
    done = sandbox.execute(command, timeout_seconds=5)
    assert done.exit_code == 126
    assert said in done.output


def test_it_survives_a_lone_surrogate_in_a_command(sandbox: LocalSandbox) -> None:
    assert sandbox.execute("echo \ud800", timeout_seconds=5).exit_code == 0


@pytest.mark.parametrize(
    "command",
    ["rm -rf ../workspace", "rm -rf ../workspace ../skills && ln -s / ../workspace", "chmod 000 .. ../skills ."],
)
def test_it_restores_folders_a_command_destroyed(sandbox: LocalSandbox, command: str) -> None:
    run(sandbox, command)
    sandbox.put("skills", {"a/SKILL.md": File(b"x")})
    assert run(sandbox, "pwd -P; cat ../skills/a/SKILL.md") == "/workspace\nx"


def test_it_does_not_write_through_links(sandbox: LocalSandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "verify.py").write_text("mine")
    run(
        sandbox,
        f"rmdir ../tests; ln -s {outside} ../tests; mkdir -p x; ln -s {outside} x/y; ln -s {outside}/verify.py z",
    )
    sandbox.put("tests", {"verify.py": File(b"theirs")})
    sandbox.put("workspace", {"x/y/verify.py": File(b"theirs"), "z": File(b"theirs")})
    assert (outside / "verify.py").read_text() == "mine"
    assert run(sandbox, "cat ../tests/verify.py x/y/verify.py z") == "theirs" * 3


def test_it_does_not_read_through_links_and_names_what_it_skips(sandbox: LocalSandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    run(sandbox, f"ln -s {tmp_path}/secret link; ln -s {tmp_path} folder; mkfifo pipe; echo kept > kept")
    tree = sandbox.tree("workspace")
    assert tree.files == {"kept": File(b"kept\n")}
    assert tree.left_out == ["folder: a link", "link: a link", "pipe: a special file"]


def test_reading_cuts_what_is_over_the_caps_and_says_so(tmp_path: Path) -> None:
    write_tree(tmp_path / "t", {"a": File(b"x" * 100), "b": File(b"y" * 100), "c": File(b"z")})
    tree = read_tree(tmp_path / "t", TreeCaps(file_bytes=50, total_bytes=1_000, count=2))
    assert tree.files["a"].content == b"x" * 50 + b"\n[... 50 bytes left out ...]\n"
    assert sorted(tree.files) == ["a", "b"]
    assert tree.left_out[-1] == "c: and all after it, more than 2 files"


def test_reading_shows_names_that_are_no_utf8(tmp_path: Path) -> None:
    if sys.platform == "darwin":
        pytest.skip("the file system refuses such names")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")).write_bytes(b"x")
    assert read_tree(tmp_path).files == {"a\\xff": File(b"x")}


@every("/etc/passwd", "../x", "a/../../x", "", "a//b", "./a", "a\0b", "a\\b", "a/")
def test_it_refuses_paths_that_leave_the_folder(path: str, sandbox: LocalSandbox) -> None:
    with pytest.raises(ValueError):
        check_relative(path)
    with pytest.raises(SandboxError):
        sandbox.put("workspace", {path: File(b"x")})


def test_it_knows_only_its_four_folders(sandbox: LocalSandbox) -> None:
    with pytest.raises(SandboxError, match="unknown folder"):
        sandbox.files("..")


def test_closing_leaves_nothing_even_of_locked_folders(sandbox: LocalSandbox) -> None:
    run(sandbox, "mkdir -p a/b/c; touch a/b/c/f; chmod 000 a/b/c a/b a; sleep 68 &")
    sandbox.close()
    assert not sandbox.folder.exists()
    assert find_marked_processes(sandbox.mark, sandbox.folder) == set()


@linux_only
def test_a_handle_is_enough_to_clean_up_after_a_crash(task: Task, tmp_path: Path) -> None:
    code = (
        "import json,os,sys; from pathlib import Path; from runner.sandboxes.local import open_sandbox; from "
        "runner.base.types import Task; s = open_sandbox(Task('k','t','E','F',None,1,'','0'*64,Path('.')), name='n'); "
        "s.execute('setsid sleep 69 &', timeout_seconds=5); print(json.dumps(s.handle)); sys.stdout.flush(); "
        "os._exit(9)"
    )
    environment = {**os.environ, "SKILLGLASS_SANDBOXES": str(tmp_path)}
    crashed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    handle = json.loads(crashed.stdout)
    assert find_marked_processes(handle["mark"], Path(handle["folder"]))
    end_processes(handle)
    end_processes(handle)  # twice is as good as once
    assert not Path(handle["folder"]).exists()
    assert find_marked_processes(handle["mark"], Path(handle["folder"])) == set()


def test_a_handle_of_another_machine_is_left_alone(sandbox: LocalSandbox) -> None:
    end_processes({**sandbox.handle, "host": "elsewhere"})
    assert sandbox.folder.exists()


def test_a_handle_that_names_another_folder_is_refused(sandbox: LocalSandbox, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    with pytest.raises(SandboxError, match="not the folder"):
        end_processes({**sandbox.handle, "folder": str(tmp_path / "precious")})
    assert (tmp_path / "precious").exists()


def test_a_sandbox_that_cannot_be_made_is_the_machines_failure(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "file" / "below"))
    with pytest.raises(SandboxError, match="cannot be made"):
        open_sandbox(task, name="t")


@linux_only
def test_a_command_cannot_read_the_environment_of_the_process_that_opened_its_sandbox() -> None:
    """As an ordinary user: root reads everything. The first line shows that it could be read before."""
    if "hidepid=" in Path("/proc/self/mounts").read_text():
        pytest.skip("/proc hides processes already")
    code = (
        "import ctypes, os; from pathlib import Path; from runner.sandboxes.local import open_sandbox; from "
        "runner.sandboxes.processes import find_marked_processes; from runner.base.types import Task; os.getuid() or "
        "os.setuid(65534); ctypes.CDLL(None).prctl(4, 1, 0, 0, 0); read = f'cat /proc/{os.getpid()}/environ | grep -c "
        "planted-value'; print(os.popen(read).read().strip()); s = "
        "open_sandbox(Task('k','t','E','F',None,1,'','0'*64,Path('.')), name='n'); print(s.execute(read, "
        "timeout_seconds=5).output.strip().splitlines()[-1]); s.execute('setsid sleep 69 &', timeout_seconds=5); "
        "print(len(find_marked_processes(s.mark, s.folder))); s.close()"
    )
    environment = {**os.environ, "PLANTED_KEY": "planted-value"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == ["1", "0", "1"], done.stderr


@pytest.mark.parametrize("call", ["there", "missing", "refused"])
def test_a_child_is_waited_for_with_and_without_a_handle_on_it(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if call == "missing":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    if call == "refused":
        monkeypatch.setattr(os, "pidfd_open", lambda _: os.open("/no/such/handle", os.O_RDONLY), raising=False)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert not wait_for_process(child, 0.05)
        assert child.stdin is not None
        child.stdin.close()
        assert wait_for_process(child, 30)
        assert child.returncode == 0
        assert wait_for_process(child, 0.0)  # one that is gone already


@pytest.mark.parametrize("full_from", [1, 3], ids=["before", "during"])
def test_a_full_disk_is_no_answer_of_a_command(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch, full_from: int
) -> None:
    """What it prints may be cut off then, and what it wrote: as an answer it would be scored."""
    looks = 0
    free = SandboxLimits().free_bytes

    def look(place: object) -> object:
        nonlocal looks
        looks += 1
        return SimpleNamespace(free=0 if looks >= full_from else free)

    monkeypatch.setattr(shutil, "disk_usage", look)
    with pytest.raises(SandboxError, match="no space left"):
        sandbox.execute("echo done", timeout_seconds=30)


def test_a_disk_that_is_full_for_a_while_ends_a_long_command(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_at = time.monotonic() + 0.5
    free = SandboxLimits().free_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0 if time.monotonic() > full_at else free))
    with pytest.raises(SandboxError, match="no space left"):
        sandbox.execute("sleep 20", timeout_seconds=30)
    assert time.monotonic() < full_at + 15


def test_a_tree_may_be_removed_by_several_at_once(tmp_path: Path) -> None:
    """Two workers that start after a crash find the same sandboxes."""
    for number in range(200):
        (tmp_path / "left" / str(number) / "below").mkdir(parents=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remove_tree, [tmp_path / "left"] * 4))
    assert not (tmp_path / "left").exists()

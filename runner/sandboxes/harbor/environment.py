"""A sandbox for any agent of ours in one of Harbor's environments: Docker, Podman, a cluster, a provider of sandboxes.

Of Harbor's interface it uses four things that every kind of environment has: start, run a command, move a file, stop.
Shell scripts do the rest: they keep a command's output in a file and bound it. The clock for its time limit is here.
Files travel as one archive. A program's model calls go through a tunnel made of such commands (`tunnel.py`).

Harbor cannot start an environment again, so `end_processes` kills what was started since the beginning.

One `driver.py` for all of Harbor's environments of this process: questions out, answers in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import json
import logging
import os
import secrets
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import cast

from runner.base.errors import SandboxError, SandboxRuined, SetupError
from runner.base.host_variables import resolve_variables
from runner.base.text import join_ends
from runner.base.trees import Tree, check_relative, remove_tree
from runner.base.types import Files, Task
from runner.programs import Program, find_installed
from runner.sandboxes import AT_TIME_LIMIT, LOGS, SKILLS, SOLUTION, TESTS, WORKSPACE, Completed, Sandbox
from runner.sandboxes.archives import (
    ALL_SKIP_BYTES,
    CAPS,
    END_OF_ARCHIVE,
    pack_files,
    pack_folder,
    read_pieces,
    unpack_tree,
)
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.harbor.harbor_jobs import (
    SKILLS_PATH,
    environment_kind,
    find_harbor,
    find_python,
    is_unsupported,
    make_environment,
)
from runner.sandboxes.harbor.tunnel import Tunnel
from runner.sandboxes.images import MAX_NAMED, WORKSPACE_FOLDER, base_name, build_clearing
from runner.sandboxes.links import remove_links
from runner.sandboxes.local import LIMITS, SCRATCH, LocalSandbox, make_sandbox
from runner.sandboxes.needs import NOTHING, Needs

_PROGRAM = Path(__file__).with_name("driver.py")
_PATIENCE = 180.0  # seconds for an answer on top of the time that the work itself may take
_MESSAGE = 2_000  # characters kept of an error
FOLDERS = {SKILLS: SKILLS_PATH, TESTS: "/tests", LOGS: "/logs", SOLUTION: "/solution"}
_ROOTS, _USERS = ("/tests", "/logs", "/logs/verifier"), (SKILLS_PATH, "/logs/agent")
_SHORT = 60.0  # seconds for a command of our own
_TRIES = 5  # to end one command at its time limit; then everything is ended
_COMMAND_BYTES = 60_000  # of an agent: it is quoted twice
_OUTPUT_BYTES = 64 * 1024 * 1024  # a command that writes more is ended
_SAFE = "PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH; "
log = logging.getLogger(__name__)

# The command gets its own session, so that it can be ended whole. Its output goes into a file, so that a background
# process does not keep this script waiting; a watcher ends endless output. Printed at the end: a line with exit code
# and size, then both ends of the output.
_RUN = """{variables}
cd {folder} 2> /dev/null || cd /
made={place}; mkdir -p "$made" || exit 97
setsid=$(command -v setsid)
$setsid /bin/sh -c {command} > "$made/out" 2>&1 < /dev/null &
child=$!
echo $child > "$made/pid"
( while sleep 1; do
    [ -s "$made/out" ] && [ "$(wc -c < "$made/out")" -gt {most} ] && kill -KILL -- -$child $child
  done ) > /dev/null 2>&1 < /dev/null &
watcher=$!
wait $child; code=$?
kill $watcher 2> /dev/null
size=$(wc -c < "$made/out")
echo "{token} $code $size"
if [ "$size" -le {twice} ]; then base64 < "$made/out"; else
  head -c {once} "$made/out" | base64; echo "{token}"; tail -c {once} "$made/out" | base64
fi
rm -rf "$made"
"""
# Where the first process survives it, one signal to all, so that no process can fork in between. Elsewhere everything
# that was not there at the start, except this script and its parents.
_END = """if [ {all} = 1 ]; then kill -KILL -1 2> /dev/null; exit 0; fi
keep=" {kept} $$ "; at=$$
while [ "$at" -gt 1 ] 2> /dev/null; do
  read -r line 2> /dev/null < "/proc/$at/stat" || break
  line=${{line##*) }}; set -- $line; at=$2; keep="$keep$at "
done
round=0
while [ $round -lt 50 ]; do
  round=$((round + 1)); found=0
  [ $round -gt 3 ] && sleep 0.2
  for each in /proc/[0-9]*; do
    number=${{each#/proc/}}
    case "$keep" in *" $number "*) continue;; esac
    read -r line 2> /dev/null < "$each/stat" || continue
    line=${{line##*) }}; case "$line" in Z*|X*) continue;; esac
    kill -KILL "$number" 2> /dev/null && found=1
  done
  [ $found = 0 ] && exit 0
done
echo left
"""
_LOOK = """echo "$(id -u) $(date +%s) $(readlink /proc/self/ns/pid)"; pwd
for each in /proc/[0-9]*; do echo "${each#/proc/}"; done
"""


class HarborFailed(SandboxError):
    """Harbor raised an error."""


class Driver:
    """The process, and the questions that are still open. Any thread may ask."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[dict[str, object]]] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [*find_python(find_harbor()), "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=make_environment(),
            start_new_session=True,  # an interrupt of the worker must not stop it before it has removed everything
            text=True,
        )
        threading.Thread(target=self._read, daemon=True, name="harbor-driver").start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, do: str, *, seconds: float, **details: object) -> Mapping[str, object]:
        """Ask, and wait for the answer. `seconds`: how long the work may take.

        HarborFailed with Harbor's message if it fails, SandboxError without an answer in time.
        """
        number, answer = next(self._numbers), Future[dict[str, object]]()
        question = json.dumps({"id": number, "do": do, "seconds": seconds, **details})
        with self._lock:
            self._open[number] = answer
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(question + "\n")
                self._process.stdin.flush()
            except OSError as error:
                del self._open[number]
                raise SandboxError(f"Harbor's driver has ended: {self._last_words()}") from error
        try:
            found = answer.result(seconds + _PATIENCE)
        except NoAnswer as error:
            self._open.pop(number, None)
            raise SandboxError(f"Harbor did not answer within {seconds + _PATIENCE:.0f} s ({do})") from error
        if "error" in found:
            raise HarborFailed(f"Harbor: {str(found['error']).strip()[-_MESSAGE:]}")
        return cast("Mapping[str, object]", found["done"])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            if waiting := self._open.pop(found["id"], None):
                waiting.set_result(found)
        self._process.wait()
        with self._lock:
            left, self._open = self._open, {}
        for waiting in left.values():
            waiting.set_exception(SandboxError(f"Harbor's driver has ended: {self._last_words()}"))

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _MESSAGE))
        return self._errors.read().decode(errors="replace").strip() or f"exit code {self._process.poll()}"


_driver: tuple[int, Driver] | None = None
_starting = threading.Lock()


def driver() -> Driver:
    """The driver of this process, started if it is missing or has ended."""
    global _driver
    with _starting:
        if _driver is None or _driver[0] != os.getpid() or not _driver[1].is_alive:
            _driver = (os.getpid(), Driver())
        return _driver[1]


def explain_environment(task: Task) -> str:
    """Explain why an environment of Harbor cannot be made for this task, or return ""."""
    if task.machine.services:
        return "it has containers next to its own, which only the sandbox 'docker' makes for an agent of ours"
    return ""


def open_environment(task: Task, *, name: str, needs: Needs = NOTHING) -> HarborEnvironment:
    """Start an environment for this attempt, without the agent. SandboxError and SetupError say what is missing."""
    if reason := explain_environment(task):
        raise SetupError(f"{task.key} cannot be run by Harbor: {reason}")
    harbor = driver()
    sandbox = make_sandbox(HarborEnvironment, name=name, task=task.key)
    try:
        sandbox.begin(task, needs, harbor)
    except BaseException:
        with suppress(SandboxError):
            sandbox.close()
        raise
    return sandbox


class HarborEnvironment(LocalSandbox):
    """See `runner.sandboxes.Sandbox`. The private folder on this machine holds what is on its way in or out."""

    kind = "harbor"
    _tunnel: Tunnel | None = None
    _sealed = False

    def begin(self, task: Task, needs: Needs, harbor: Driver) -> None:
        self.needs, self.machine, self.driver = needs, task.machine, harbor
        self.handle["environment"] = environment_kind()
        _copy_context(task, self.folder / SCRATCH / "environment")
        asked = {
            "name": f"skillglass-{hashlib.sha256(str(task.folder).encode()).hexdigest()[:12]}",
            "docker_image": task.machine.image or (None if task.machine.context else base_name()),
            "cpus": task.machine.cpus,
            "memory_mb": task.machine.memory_mb,
            "storage_mb": task.machine.storage_mb,
            "build_timeout_sec": task.machine.build_timeout_seconds,
            "env": resolve_variables(task.machine.environment, task.machine.host_variables),
            "network": task.machine.network,
        }
        try:
            started = self._ask(
                "start",
                kind=environment_kind(),
                folder=str(self.folder / SCRATCH),
                machine=asked,
                mounts=[_mount(program) for program in self._programs()],
                seconds=task.machine.build_timeout_seconds,
            )
        except HarborFailed as error:
            if is_unsupported(str(error)):
                raise SetupError(f"{task.key} cannot be run by Harbor: {error}") from error
            raise
        self._look_around()
        self._make_places()
        self._survives = bool(started["survives"])
        if not started["mounted"]:
            for program in self._programs():
                self._put_program(program)
        self._open_gateway()

    # --- the beginning ---------------------------------------------------------------------------------------------

    def _programs(self) -> list[Program]:
        programs = [self.needs.program] if self.needs.program else []
        return [*programs, find_installed("node")] if self.needs.provider else programs

    def _look_around(self) -> None:
        """Note the agent's user, the working directory, and what runs before anything of an agent does."""
        first, folder, *running = self.run(_LOOK, root=False).splitlines()
        user, began, processes = (first.split() + ["", "", ""])[:3]
        if processes and Path("/proc/self/ns/pid").exists() and processes == str(Path("/proc/self/ns/pid").readlink()):
            raise SetupError(
                f"Harbor's {environment_kind()} runs commands among this machine's processes: what an agent leaves"
                " behind could not be ended"
            )
        self._user, self._began = int(user), float(began)
        self.has_own_user = self._user != 0
        self._workspace = self.machine.workdir or (folder if self.machine.brings_files and folder != "/" else "")
        self._workspace = self._workspace or WORKSPACE_FOLDER
        self._running = [line for line in running if line.isdigit()]

    def _make_places(self) -> None:
        """Make the folders, remove the skills that the image brings,
        and lead the program's places for skills to ours."""
        links = [PurePosixPath(place) for place in self.needs.skill_folders if place != SKILLS_PATH]
        owned = shlex.join(map(str, (*_USERS, self._workspace, *(link.parent for link in links))))
        if not self.needs.image_skills:
            clearing = build_clearing(self._workspace, self.needs.skill_folders, self.machine.skills_dir)
            if found := self.run(clearing).splitlines():
                self.handle["skills_left_out"] = sorted(found)[:MAX_NAMED]
        lines = [f"mkdir -p {shlex.join(_ROOTS)} {owned} && chown {self._user}:{self._user} {owned} || exit"]
        for link in map(shlex.quote, map(str, links)):
            lines.append(f"rm -rf {link}; ln -s {SKILLS_PATH} {link} || exit")
        self.run("\n".join(lines))

    def _put_program(self, program: Program) -> None:
        """Put a program in where nothing can be mounted."""
        packed = self.folder / SCRATCH / f"{program.name}.tar"
        with packed.open("wb") as archive:
            archive.writelines(pack_folder(program.folder))
            archive.write(END_OF_ARCHIVE)
        try:
            self._unpack(packed, program.target)
        finally:
            packed.unlink()

    def _open_gateway(self) -> None:
        if self.needs.provider is not None:
            self.gateway = Gateway.of_needs(self.needs, online=self.machine.network)
            node = f"{find_installed('node').target}/bin/node"
            self._tunnel = Tunnel(self, node, self.gateway.start("127.0.0.1"))
            self.provider_url = self._tunnel.url

    # --- files -----------------------------------------------------------------------------------------------------

    def path(self, folder: str) -> str:
        return self._workspace if folder == WORKSPACE else FOLDERS[folder]

    def put(self, folder: str, files: Files) -> None:
        """Does nothing without files. Anything in the way of a path is replaced."""
        if not files:
            return
        parent, _, top = self.path(folder).rpartition("/")
        try:
            packed = pack_files(files, top=top, owner=0 if self._sealed else self._user)
        except ValueError as error:
            raise SandboxError(f"{folder}: files cannot be put in: {error}") from error
        self.put_archive(packed, parent or "/")

    def put_archive(self, packed: bytes, place: str) -> None:
        here = self.folder / SCRATCH / f"{secrets.token_hex(8)}.tar"
        here.write_bytes(packed)
        try:
            self._unpack(here, place)
        finally:
            here.unlink()

    def _unpack(self, here: Path, place: str) -> None:
        there = f"/tmp/.skillglass-{secrets.token_hex(8)}.tar"
        self._ask("upload", here=str(here), there=there, seconds=_SHORT + here.stat().st_size / 1_000_000)
        target = shlex.quote(place)
        self.run(f"mkdir -p {target} && tar -xpf {there} -C {target} || exit; rm -f {there}", seconds=10 * _SHORT)

    def tree(self, folder: str, below: str = "", names: frozenset[str] | None = None) -> Tree:
        """Like `files`, with what was left out and why. What is more than the caps is not even sent."""
        place = f"{self.path(folder).rstrip('/')}/{check_relative(below)}" if below else self.path(folder)
        return self._read_tree(place, names)

    def _read_tree(self, place: str, names: frozenset[str] | None = None) -> Tree:
        parent, _, top = place.rpartition("/")
        wanted = [top] if names is None else [f"{top}/{check_relative(name)}" for name in sorted(names)]
        there = f"/tmp/.skillglass-{secrets.token_hex(8)}.tar"
        most = CAPS.total_bytes + ALL_SKIP_BYTES
        words = shlex.join(wanted)
        printed = self.run(
            f"cd {shlex.quote(parent or '/')} 2> /dev/null || exit 0\n"
            f"tar -cf - {words} 2> /dev/null | head -c {most} > {there}; wc -c < {there}",
            seconds=10 * _SHORT,
        )
        if not printed.strip().isdigit() or int(printed) == 0:
            return Tree()
        here = self.folder / SCRATCH / PurePosixPath(there).name
        try:
            self._ask("download", there=there, here=str(here), seconds=_SHORT + int(printed) / 1_000_000)
            return unpack_tree(read_pieces(here))
        except (OSError, tarfile.TarError) as error:
            raise SandboxError(f"{place}: cannot be read: {error}") from error
        finally:
            here.unlink(missing_ok=True)
            self.run(f"rm -f {there}")

    def copy_to(self, other: Sandbox, path: str) -> None:
        """Does nothing if the path does not exist. Links and files over the caps are left out."""
        if not isinstance(other, HarborEnvironment):
            raise SandboxError(f"{path}: files of an environment of Harbor are copied into another one only")
        parent = path.rpartition("/")[0]
        is_folder = self.run(f"[ -d {shlex.quote(path)} ] && echo folder").strip() == "folder"
        tree = self._read_tree(path) if is_folder else self._read_tree(parent, frozenset({path.rpartition("/")[2]}))
        for line in tree.left_out:
            log.warning("sandbox %s: not copied for the verifier: %s/%s", self.mark, path, line)
        if tree.files:
            top = (path if is_folder else parent).strip("/")
            other.put_archive(pack_files(tree.files, top=top), "/")

    # --- commands --------------------------------------------------------------------------------------------------

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        """See `Sandbox.execute`. A background process may outlive its command; `end_processes` ends it."""
        if "\0" in command or len(command.encode("utf-8", "surrogateescape")) > _COMMAND_BYTES:
            return Completed(126, f"the command holds NUL or has more than {_COMMAND_BYTES:,} bytes\n")
        token = secrets.token_hex(16)
        place = f"/tmp/.skillglass-{token}"
        once = 2 * LIMITS.output_characters
        variables = "".join(f"export {name}={shlex.quote(value)}; " for name, value in (environment or {}).items())
        script = _RUN.format(
            variables=variables, folder=shlex.quote(self._workspace), place=place, command=shlex.quote(command),
            most=_OUTPUT_BYTES, token=token, once=once, twice=2 * once,
        )  # fmt: skip
        began = time.monotonic()
        with _Deadline(self, place, timeout_seconds) as deadline:
            answer = self._ask(
                "execute", command=script, seconds=10 * timeout_seconds + 3_600, user="root" if self._sealed else None
            )
        seconds = time.monotonic() - began
        text, code, truncated = _read_output(str(answer["output"]), token, once)
        if code is None:
            try:  # is the environment itself gone? Its provider may have ended it, or its agent
                self.run(":", root=False)
            except SandboxError as error:
                reason = _last_words(answer) or error
                raise SandboxError(f"Harbor's {environment_kind()} runs no more commands: {reason}") from error
            text += "\n[the command was ended from outside]\n"
        if deadline.is_over:
            return Completed(None, f"{text}\n[{AT_TIME_LIMIT}]\n", True, truncated, seconds)
        return Completed(code, text, False, truncated, seconds)

    def run(self, script: str, *, seconds: float = _SHORT, root: bool = True) -> str:
        """Run a script of our own and return what it printed. SandboxError if it fails."""
        user = "root" if root else None
        answer = self._ask("execute", command=_SAFE + script, seconds=seconds, user=user)
        if answer["code"] != 0:
            reason = _last_words(answer) or f"exit code {answer['code']}"
            raise SandboxError(f"Harbor's {environment_kind()} failed at {script.strip()[:80]!r}: {reason}")
        return str(answer["output"])

    def _ask(self, do: str, *, seconds: float, **details: object) -> Mapping[str, object]:
        return self.driver.ask(do, seconds=seconds, name=self.folder.name, **details)

    # --- ending ----------------------------------------------------------------------------------------------------

    def end_processes(self) -> None:
        """Close the way to the provider and kill everything that was started since the beginning."""
        self._close_gateway()
        self._sealed = True
        self.kill_all()

    def kill_all(self) -> None:
        """SandboxRuined if processes are left, SandboxError if the environment fails."""
        if "left" in self.run(_END.format(all=int(self._survives), kept=" ".join(self._running))):
            raise SandboxRuined("what the agent started cannot be ended")

    def remove_links(self, first: str) -> list[str]:
        return remove_links(self, first, self._began)

    def resume(self) -> None:
        self.end_processes()
        self.run(
            f"rm -rf {shlex.join((FOLDERS[TESTS], FOLDERS[LOGS], FOLDERS[SOLUTION]))}\n"
            f"mkdir -p {shlex.join(_ROOTS)} /logs/agent && chown {self._user}:{self._user} /logs/agent"
        )
        self._sealed = False
        self._open_gateway()

    def _close_gateway(self) -> None:
        self.provider_url = None
        if self._tunnel is not None:
            self._tunnel.close()
            self._tunnel = None
        if self.gateway is not None:
            self.gateway.close()

    def close(self) -> None:
        """Stop the environment and remove it. What fails is logged: the attempt has ended, and its result counts."""
        self._close_gateway()
        try:
            self._ask("stop", seconds=2 * _SHORT)
        except SandboxError as error:
            log.warning("sandbox %s: %s", self.mark, error)
        remove_tree(self.folder)


class _Deadline:
    """Ends the command whose files are at `place` when its time is over. The clock is on this side, because a wait
    for a free slot of the model's server does not count."""

    def __init__(self, sandbox: HarborEnvironment, place: str, seconds: float) -> None:
        self._sandbox, self._place, self._seconds = sandbox, place, seconds
        self._done = threading.Event()
        self.is_over = False

    def __enter__(self) -> _Deadline:
        self._until, self._queued = time.monotonic() + self._seconds, self._queued_seconds()
        threading.Thread(target=self._watch, daemon=True, name="deadline").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _queued_seconds(self) -> float:
        gateway = self._sandbox.gateway
        return 0.0 if gateway is None else gateway.queued_seconds

    def _watch(self) -> None:
        while (left := self._until + self._queued_seconds() - self._queued - time.monotonic()) > 0:
            if self._done.wait(min(left, 5.0)):
                return
        self.is_over = not self._done.is_set()
        tries = 0
        while not self._done.wait(2.0 if tries else 0.0):
            tries += 1
            with suppress(SandboxError):
                if tries <= _TRIES:  # before the command has noted its number there is nothing to kill
                    self._sandbox.run(f"pid=$(cat {self._place}/pid) && kill -KILL -- -$pid $pid || :")
                else:  # the agent removed it
                    self._sandbox.kill_all()


def _last_words(answer: Mapping[str, object]) -> str:
    return f"{answer['output']}{answer['errors']}".strip()[-500:]


def _mount(program: Program) -> dict[str, object]:
    return {"type": "bind", "source": str(program.folder), "target": program.target, "read_only": True}


def _copy_context(task: Task, place: Path) -> None:
    """Copy the task's build context, or make an empty one."""
    try:
        if task.machine.context is None:
            place.mkdir()
            return
        shutil.copytree(task.machine.context, place, symlinks=True)
        for blank in task.machine.blank_folders:
            shutil.rmtree(place / blank, ignore_errors=True)
            (place / blank).mkdir(parents=True)
    except OSError as error:
        raise SandboxError(f"{task.key}: its environment cannot be copied for Harbor: {error}") from error


def _read_output(printed: str, token: str, once: int) -> tuple[str, int | None, bool]:
    """(output, exit code, was some left out?) from what the script around a command printed. Without a code: what
    there is."""
    before, found, rest = printed.partition(token)
    first, _, rest = rest.partition("\n")
    numbers = first.split()
    if not found or len(numbers) != 2:
        return before, None, False
    head, _, tail = rest.partition(token)
    parts = []
    for part in (head, tail):
        try:
            parts.append(base64.b64decode("".join(part.split())).decode(errors="replace"))
        except (binascii.Error, ValueError):
            return before, None, False
    unread = max(0, int(numbers[1]) - 2 * once) if tail else 0
    text, truncated = join_ends(parts[0], parts[1], unread, LIMITS.output_characters)
    return text, int(numbers[0]), truncated

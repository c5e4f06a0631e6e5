"""A container of its own for every attempt, for suites that are not trusted.

What confines it and what does not: docs/explanation/sandboxes.md. The container starts when it is made, to remove the
skills that its image brings, and files come after that. `end_processes` kills it whole: the kernel ends everything in
it at once, even processes that forked or catch signals. The next command starts it again on the same files with nothing
else running. So a container that the agent brought down is not a failure of the machine. One that cannot be started
again because of the agent is `SandboxRuined`.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import shlex
import socket
import time
from collections.abc import Mapping

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import Mount

from runner.base.errors import SandboxError, SandboxRuined, SetupError
from runner.base.host_variables import resolve_variables
from runner.base.recent import Recent
from runner.base.text import replace_unprintable
from runner.base.trees import Tree, check_relative
from runner.base.types import Files, Task
from runner.sandboxes import AT_TIME_LIMIT, LOGS, SKILLS, SOLUTION, TESTS, WORKSPACE, Completed, Sandbox
from runner.sandboxes.archives import pack_files, unpack_file, unpack_tree
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.docker.docker_engine import PREFIX, Removal, engine_errors, remove_marked, word_engine_error
from runner.sandboxes.docker.docker_exec import Executed, RunningCommand, await_output, close_stream
from runner.sandboxes.docker.docker_images import Image, image_for
from runner.sandboxes.docker.docker_limits import (
    LIMITS,
    DiskWatch,
    Network,
    ask_engine,
    close_metadata,
    folders_of,
    host_config,
    init_command,
    measure_folders,
    network_for,
    open_gateway,
)
from runner.sandboxes.docker.docker_programs import mount, program_volume
from runner.sandboxes.docker.docker_services import ServiceGroup
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.images import MAX_NAMED, VARIABLES, build_clearing
from runner.sandboxes.links import read_start_of_container, remove_links
from runner.sandboxes.needs import NOTHING, Needs

SKILLS_PATH = "/skills"
FOLDERS = {name: f"/{name}" for name in (SKILLS, TESTS, LOGS, SOLUTION)}  # as in Harbor: scripts name them
_ROOTS = ("/tests", "/logs/verifier")  # made at the start if missing, as are those of the image's user:
_USERS = (SKILLS_PATH, "/logs/agent")
_NOT_RUNNING = 409
_SMALL_FOLDER = 256 * 1024  # bytes, as a tar
_FOLDER = 0x80000000  # bit of a mode in the engine's notation (Go's fs.ModeDir)
_NO_FILE = 0x8F280000  # bits of a mode in the engine's notation (Go's fs.ModeType)
_WITHOUT_SKILLS: Recent[tuple[object, ...], bool] = Recent(1_000)  # engine, image and places
_SLOWEST_START = 60.0  # seconds until a first process has made its folders
log = logging.getLogger(__name__)
WENT_DOWN = "the container went down; everything that ran in it is gone"


def open_sandbox(task: Task, *, name: str, needs: Needs = NOTHING) -> DockerSandbox:
    """Make a container for this attempt, without the agent. SandboxError and SetupError say what is missing."""
    client = docker_engine.connect()
    mark = secrets.token_hex(16)
    try:
        image = image_for(client, task)
        sandbox = DockerSandbox(client, task, image, mark, name=name, needs=needs)
        sandbox.make()
    except BaseException:
        with contextlib.suppress(SandboxError):
            remove_marked(mark)
        client.close()
        raise
    return sandbox


def engine() -> str:
    with contextlib.closing(docker_engine.connect()) as client:
        return docker_engine.engine_id(client.base_url)


def end_processes(handle: dict[str, object]) -> None:
    """Remove everything an interrupted attempt left on its engine. Does nothing if that engine is not ours."""
    mark = str(handle.get("mark", ""))
    if handle.get("kind") != "docker":
        return
    if len(mark) != 32:
        raise SandboxError(f"{mark!r} is not the mark of a sandbox in a container")
    try:
        client = docker_engine.connect()
    except SandboxError:
        if handle.get("host") != socket.gethostname():
            return
        raise
    try:
        if docker_engine.engine_id(client.base_url) == handle.get("engine"):
            remove_marked(mark)
    finally:
        client.close()


def end_named(name: str) -> None:
    """Remove every sandbox of this engine that was opened under this name."""
    client = docker_engine.connect()
    try:
        wanted = [f"{docker_engine.ATTEMPT_LABEL}={name}"]
        found = [
            labels for kind in docker_engine.KINDS for _, labels in docker_engine.list_labelled(client, kind, wanted)
        ]
    finally:
        client.close()
    for mark in sorted({labels[docker_engine.MARK_LABEL] for labels in found if labels.get(docker_engine.MARK_LABEL)}):
        remove_marked(mark)


class DockerSandbox:
    """See `runner.sandboxes.Sandbox`. Commands run as the image's own user, and as root after `end_processes`."""

    def __init__(
        self,
        client: APIClient,
        task: Task,
        image: Image,
        mark: str,
        *,
        name: str,
        needs: Needs,
    ) -> None:
        self.client, self.task, self.image, self.needs, self.limits = client, task, image, needs, LIMITS
        self.mark = mark
        self.container = ""
        self.network: Network | None = None
        self.gateway: Gateway | None = None
        self.services: ServiceGroup | None = None
        self.provider_url: str | None = None
        self.environment = resolve_variables(task.machine.environment, task.machine.host_variables)
        self.labels = docker_engine.labels(mark, task=task.key, attempt=name)
        self.ruined: str | None = None
        self.handle: dict[str, object] = {
            "kind": "docker",
            "host": socket.gethostname(),
            "engine": docker_engine.engine_id(client.base_url),
            "mark": mark,
            "name": name,
            "task": task.key,
            "image": image.id,
            "image_name": image.name,
            **({"stands_for": image.stands_for} if image.stands_for else {}),
        }
        self._watch: DiskWatch | None = None
        self._breach: str | None = None
        self._runs = False  # as far as we know
        self._has_run = False
        self._began = 0.0  # the first start, in seconds since 1970, by the engine's clock
        self._sealed = False
        self._owner: int | None = None if image.user else 0

    @property
    def has_own_user(self) -> bool:
        return bool(self.image.user)

    def make(self) -> None:
        """Make the networks, the volumes, the container, the services next to it, and the way to the provider."""
        mounts, joined = self._mounts(), None
        if services := self.task.machine.services:
            self.services = ServiceGroup(self.client, services, self.task.machine, self.image, self.mark, self.labels)
            mounts += self.services.make_volumes()
            joined = self.services.make_networks()
        self.network = network_for(
            self.client,
            way_out=self.task.machine.network,
            provider=self.needs.provider is not None,
            mark=self.mark,
            labels=self.labels,
            other=joined,
        )
        taken = {str(mount["Target"]): mount for mount in reversed(mounts)}  # the library's come before the task's
        self.container = self._create(list(taken.values()))
        if self.services is not None:
            self.services.start(self.container)
        if not self.needs.image_skills:
            self._clear_skills()
        self._open_gateway()

    def _open_gateway(self) -> None:
        if self.needs.provider is not None and self.network is not None:
            self.gateway, self.provider_url = open_gateway(self.client, self.network, self.needs)

    def _clear_skills(self) -> None:
        """Remove the image's own skills, so that an agent only finds those of its library. Images that have none are
        remembered: a command costs a tenth of a short trial."""
        places = (self.image.folder, self.needs.skill_folders, self.task.machine.skills_dir)
        homes = (self.environment.get(name, "") for name in ("HOME", *VARIABLES))
        looked_at = (self.handle["engine"], self.image.id, *places, *homes)
        if _WITHOUT_SKILLS.get(looked_at):
            self._start()
            return
        command = build_clearing(*places)
        done = self._execute_bounded(command, seconds=60, environment={}, user="0")
        found = sorted({replace_unprintable(line)[:200] for line in done.text.splitlines()})[:MAX_NAMED]
        reason = self._why_ended(done)
        if self._breach:
            return  # no command of the agent runs after this
        if done.exit_code != 0:
            why = reason or done.text[-500:]
            raise SandboxError(word_engine_error(f"taking away the skills that image {self.image.name} brings", why))
        if found:
            log.info("skills of image %s are left out: %s", self.image.name, ", ".join(found))
            self.handle["skills_left_out"] = found
        elif self.services is None:  # these may share files with the container, others each time
            _WITHOUT_SKILLS.put(looked_at, True)

    def _mounts(self) -> list[Mount]:
        mounts = []
        if self.needs.program is not None:
            volume = program_volume(self.client, self.needs.program, self.image.id)
            mounts.append(mount(volume, self.needs.program.target, read_only=True))
        if self.needs.skill_folders:
            with engine_errors("making a volume for the library"):
                self.client.create_volume(PREFIX + self.mark, labels=self.labels)
            places = dict.fromkeys((FOLDERS[SKILLS], *self.needs.skill_folders))
            mounts += [mount(PREFIX + self.mark, place, read_only=False) for place in places]
        return mounts

    def _create(self, mounts: list[Mount]) -> str:
        processors = docker_engine.processors(self.client.base_url)
        network = self.network.settings if self.network else {"network_mode": "none"}
        with engine_errors(f"making a container of {self.image.name}"):
            try:
                made = self.client.create_container(
                    self.image.id,
                    entrypoint=init_command(_ROOTS, (*_USERS, self.image.folder), self.image.user),
                    command=[],
                    user="0",
                    working_dir="/",
                    name=PREFIX + secrets.token_hex(8),
                    hostname="sandbox",
                    labels=self.labels,
                    environment=self.environment,
                    healthcheck={"test": ["NONE"]},
                    host_config=host_config(
                        self.client, self.task.machine, self.limits, processors=processors, mounts=mounts, **network
                    ),
                )
            except NotFound as error:
                raise SandboxError(f"image {self.image.name} is gone from the engine: {error.explanation}") from error
        if self.network is not None and self.network.has_way_out:
            close_metadata(self.client, str(made["Id"]))
        return str(made["Id"])

    # --- files ---------------------------------------------------------------------------------------------------

    def path(self, folder: str) -> str:
        return self.image.folder if folder == WORKSPACE else FOLDERS[folder]

    def put(self, folder: str, files: Files) -> None:
        """Does nothing without files. Anything in the way of a path is replaced."""
        if not files:
            return
        self._refuse_ruined()
        place = self.path(folder)
        parent, _, top = place.rpartition("/")
        try:
            if self._owner is None:  # the number of the user that commands run as; the container knows a named one's
                number = self.image.user.partition(":")[0]
                if not number.isdigit():
                    number = self._execute_bounded("id -u", seconds=60, environment={}).text.strip()
                self._owner = int(number) if number.isdigit() else 0
            content = pack_files(files, top=top, owner=self._owner)
        except ValueError as error:
            raise SandboxError(f"{folder}: files cannot be put in: {error}") from error
        with engine_errors(f"putting files into {place}"):
            try:
                self.client.put_archive(self.container, parent or "/", content)
            except NotFound:  # a folder on the way is made when the container starts
                self._start()
                self.client.put_archive(self.container, parent or "/", content)

    def files(self, folder: str) -> Files:
        return self.tree(folder).files

    def tree(self, folder: str, below: str = "", names: frozenset[str] | None = None) -> Tree:
        """Like `files`, with what was left out and why. Links on the way below only work inside the container."""
        place = f"{self.path(folder).rstrip('/')}/{check_relative(below)}" if below else self.path(folder)
        with engine_errors(f"reading {place}"):
            return self._whole_tree(place) if names is None else self._read_named_files(place, names)

    def _whole_tree(self, place: str) -> Tree:
        try:
            chunks, status = self.client.get_archive(self.container, place)
        except NotFound:
            return Tree()
        with contextlib.closing(chunks):
            tree = unpack_tree(chunks)
        if status.get("linkTarget"):
            tree.left_out.append(f".: a link to {str(status['linkTarget'])[:200]!r}")
        return tree

    def _read_named_files(self, place: str, names: frozenset[str]) -> Tree:
        """Read a small folder at once. In any other, read each name by itself: other files, which may be large, are not
        even sent."""
        if len(names) > 1 and (small := self._small_tree(place)) is not None:
            return Tree({name: file for name, file in small.files.items() if name in names})
        tree = Tree()
        for name in sorted(names):
            with contextlib.suppress(NotFound):
                chunks, _ = self.client.get_archive(self.container, f"{place}/{name}")
                with contextlib.closing(chunks):
                    unpack_file(chunks, name, tree)
        return tree

    def _small_tree(self, place: str) -> Tree | None:
        """Everything in a folder of plain files, None for any other or a larger one."""
        try:
            chunks, status = self.client.get_archive(self.container, place)
        except NotFound:
            return Tree()
        with contextlib.closing(chunks):
            if not status["mode"] & _FOLDER:
                return None
            content = b""
            for chunk in chunks:
                content += chunk
                if len(content) > _SMALL_FOLDER:
                    return None
        tree = unpack_tree([content])
        return None if tree.left_out else tree

    def copy_to(self, other: Sandbox, path: str) -> None:
        """Does nothing if the path does not exist. Links and files over the caps are left out."""
        if not isinstance(other, DockerSandbox):
            raise SandboxError(f"{path}: files of a container are copied into containers only")
        parent, _, name = path.rpartition("/")
        with engine_errors(f"copying {path}"):
            try:
                chunks, status = self.client.get_archive(self.container, path)
            except NotFound:
                return
            with contextlib.closing(chunks):
                tree = Tree()
                if status["mode"] & _FOLDER:
                    tree, top = unpack_tree(chunks), path.strip("/")
                else:
                    unpack_file(chunks, name, tree)
                    top = parent.strip("/")
        for line in tree.left_out:
            log.warning("sandbox %s: not copied for the verifier: %s/%s", self.mark, path, line)
        other.put_below_root(top, tree.files)

    def put_below_root(self, folder: str, files: Files) -> None:
        with engine_errors(f"putting files into /{folder}"):
            self.client.put_archive(self.container, "/", pack_files(files, top=folder))

    # --- commands ------------------------------------------------------------------------------------------------

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        """See `Sandbox.execute`. A background process may outlive its command; `end_processes` ends it."""
        complaint = self._complaint(command)
        if complaint:
            return Completed(exit_code=126, output=complaint)
        began = time.monotonic()
        try:
            done = self._execute_bounded(command, seconds=timeout_seconds, environment=environment or {})
        except SandboxRuined as error:
            if self._sealed:
                raise
            return Completed(126, f"{error}\n", duration_seconds=time.monotonic() - began)
        seconds = time.monotonic() - began
        if self._watch is not None:
            self._watch.look()
        text, exit_code = done.text, done.exit_code
        if reason := self._why_ended(done):
            text, exit_code = f"{text}\n[{reason}]\n", None
        return Completed(exit_code, text, done.timed_out, done.truncated, seconds)

    def _complaint(self, command: str) -> str | None:
        """Return why a command is not even tried: the caller's fault, so an answer and not an exception."""
        if "\0" in command or len(command.encode("utf-8", "surrogateescape")) > self.limits.command_bytes:
            return f"the command holds NUL or has more than {self.limits.command_bytes:,} bytes\n"
        if self._breach and not self._sealed:
            return f"[{self._breach}]\n"
        return None

    def _execute_bounded(
        self, command: str, *, seconds: float, environment: Mapping[str, str], user: str | None = None
    ) -> Executed:
        deadline, queued = time.monotonic() + seconds, self._queued_seconds()
        running = self._start_command(command, environment, user)
        done = running.follow(self.limits.output_characters, deadline, lambda: self._queued_seconds() - queued)
        if not done.started and self._sealed and not self._runs_a_shell(self.container):
            raise self._blame(done.text)
        return done

    def _queued_seconds(self) -> float:
        """Time that a program waits for a free slot of its model's server does not count."""
        return 0.0 if self.gateway is None else self.gateway.queued_seconds

    def _start_command(self, command: str, environment: Mapping[str, str], user: str | None = None) -> RunningCommand:
        """Start the command. A stopped container is restarted once; if it stops again, raise what is at fault."""
        user = user or ("0" if self._sealed or not self.image.user else self.image.user)
        for _ in range(2):
            self._start()
            self._refuse_traps()
            with engine_errors("running a command"):
                try:
                    return RunningCommand(
                        self.client,
                        self.container,
                        command,
                        folder=self.image.folder,
                        user=user,
                        environment=environment,
                    )
                except APIError as error:
                    if error.status_code != _NOT_RUNNING:
                        raise
                    self._runs = False
        raise self._blame("it goes down as soon as it is started")

    def _why_ended(self, done: Executed) -> str | None:
        if self._watch is not None and self._watch.breach:
            self._runs, self._breach = False, self._watch.breach
            return self._breach
        if done.timed_out:
            return AT_TIME_LIMIT
        return None if done.exit_code is not None else WENT_DOWN

    # --- starting and ending -------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._refuse_ruined()
        if self._runs:
            return
        self._refuse_traps()
        try:
            with engine_errors(f"starting a container of {self.image.name}"):
                if self._has_run:
                    self.client.start(self.container)
                else:
                    # Start the container, and wait until its first process says that it has made its folders
                    stream = self.client.attach_socket(self.container, params={"stdout": 1, "stream": 1})
                    try:
                        self.client.start(self.container)
                        await_output(stream, _SLOWEST_START)
                    finally:
                        close_stream(stream)
        except SandboxError as error:
            if self._has_run:
                raise self._blame(str(error)) from error
            if "executable file not found" in str(error) or "no such file" in str(error):
                raise SetupError(f"image {self.image.name} cannot run /bin/sh: {error}") from error
            raise
        self._runs = self._has_run = True
        self._watch_disk()

    def _refuse_traps(self) -> None:
        """The engine reads these files itself, outside the container. At a pipe it waits forever, and can then
        neither start nor remove the container. Only root in the container can put one there."""
        if not self._has_run or self.image.user:
            return
        for path in ("/etc/passwd", "/etc/group"):
            if self._is_special(path):
                self._kill_quietly()
                self._runs = False
                self.ruined = f"the sandbox can no longer run anything: {path} is not a file"
                raise SandboxRuined(self.ruined)

    def _is_special(self, path: str) -> bool:
        """Is it, or the target of a link there, neither a file nor missing?"""
        with engine_errors(f"looking at {path}"):
            try:
                mode, target = docker_engine.stat_path(self.client, self.container, path)
                if target:
                    mode, _ = docker_engine.stat_path(self.client, self.container, target)
            except APIError:  # it is missing, or a folder above it is; the next command reports that
                return False
        return bool(mode & _NO_FILE)

    def _blame(self, output: str) -> SandboxError:
        """Find out who is at fault if nothing can run, by trying a fresh container of the same image: SandboxRuined
        if that one works, SandboxError if it does not. A missing container was removed from outside."""
        if docker_engine.is_gone(self.client, self.container):
            return SandboxError(word_engine_error("the container was removed by somebody else", output))
        fresh = self._create([])
        try:
            with engine_errors("starting a fresh container for comparison"):
                self.client.start(fresh)
            works = self._runs_a_shell(fresh)
        finally:
            docker_engine.remove(self.client, "container", fresh)
        if not works:
            return SandboxError(word_engine_error("nothing can be run in the container, nor in a fresh one", output))
        self.ruined = f"the sandbox can no longer run anything: {output.strip()[:500]}"
        return SandboxRuined(self.ruined)

    def _runs_a_shell(self, container: str) -> bool:
        try:
            made = RunningCommand(self.client, container, ":", folder="/", user="0", environment={})
            return made.follow(1_000, time.monotonic() + 30).exit_code == 0
        except APIError:
            return False

    def _refuse_ruined(self) -> None:
        if self.ruined:
            raise SandboxRuined(self.ruined)

    def _watch_disk(self) -> None:
        """Watch from each start. After the agent, the verifier gets the same limit again, on top of existing files."""
        if self._watch is not None:
            self._watch.stop()
        with engine_errors("asking where the container keeps its files"):
            found = self.client.inspect_container(self.container)
        self._began = self._began or read_start_of_container(found)
        folders = folders_of(found)
        limit, files = self.task.machine.storage_mb * 2**20, self.limits.files
        lenient = False
        if self._sealed:
            used = measure_folders(folders) if folders else ask_engine(self.client, self.container)
            limit, files, lenient = limit + used.bytes, files + used.count, bool(used.problem)
        self._watch = DiskWatch(
            self.container,
            folders,
            limit=limit,
            files=files,
            free=self.limits.free_bytes,
            end=self._kill_quietly,
            lenient=lenient,
        )
        self._watch.start()

    def _kill_quietly(self) -> None:
        with contextlib.suppress(SandboxError):
            self._kill()

    def _kill(self) -> None:
        with engine_errors("ending the container's processes"):
            try:
                self.client.kill(self.container)
            except APIError as error:
                if error.status_code != _NOT_RUNNING:
                    raise

    def end_processes(self) -> None:
        """Kill the container and close the way to the provider. The next command starts it again, on the same files."""
        self._close_gateway()
        self._sealed = True
        self._owner = 0
        if self._watch is not None:
            self._watch.stop()
            self._breach = self._breach or self._watch.breach
            self._watch = None
        if self._runs:
            self._kill()
            self._runs = False

    def resume(self) -> None:
        folders = shlex.join((FOLDERS[TESTS], FOLDERS[LOGS], FOLDERS[SOLUTION]))
        done = self.execute(f"PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH; rm -rf {folders}", timeout_seconds=60)
        if done.exit_code != 0:
            raise SandboxRuined(f"tests and logs cannot be removed: {done.output[-500:].strip()}")
        self.end_processes()
        self._sealed, self._owner = False, None if self.image.user else 0
        self._open_gateway()

    def remove_links(self, first: str) -> list[str]:
        self._start()
        return remove_links(self, first, self._began)

    def _close_gateway(self) -> None:
        self.provider_url = None
        if self.gateway is not None:
            self.gateway.close()

    def close(self) -> None:
        """Remove container, network and volumes. Closing twice is harmless.

        It waits for `docker_engine.PATIENCE` at most. What the engine fails to remove is logged and left to the next
        sweep: the attempt has ended, and its result counts.
        """
        if self._watch is not None:
            self._watch.stop()
        if self.services is not None:
            self.services.close()
        self._close_gateway()
        removal = Removal(self._things(), self.client.api_version)
        for problem in removal.problems:
            log.warning("sandbox %s: %s", self.mark, problem)
        if removal.goes_on:
            log.warning("sandbox %s is large: the engine is still removing it", self.mark)
        self.client.close()

    def _things(self) -> list[tuple[str, str]]:
        own = PREFIX + self.mark
        found = [("container", self.container)] if self.container else []
        if self.needs.skill_folders:
            found.append(("volume", own))
        if self.network is not None and self.network.name == own:
            found.append(("network", own))
        found += self.services.things if self.services is not None else []
        return sorted(found, key=lambda thing: docker_engine.KINDS.index(thing[0]))

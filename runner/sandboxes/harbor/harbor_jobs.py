"""Whole trials by `harbor run`, for Harbor's own agents.

This machine only has a private folder, where one `harbor run` reads the task and leaves its job. No command of an agent
or a verifier runs here: `execute` refuses, so that only Harbor's agents can use this kind of sandbox. Model calls of an
agent that Harbor runs on this machine use the gateway, so the provider's key stays out of Harbor, too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from runner.base.errors import NotOnThisMachine, SandboxError, SetupError
from runner.base.trees import read_tree
from runner.base.types import Files, Task
from runner.sandboxes import SKILLS, Completed
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.local import SCRATCH, LocalSandbox, make_sandbox
from runner.sandboxes.needs import NOTHING, Needs

VERSION = "0.26.0"  # the tested version: options and names of files change between versions
SKILLS_PATH = "/runtime/skills"  # where Harbor puts a library into a sandbox whose task names no folder
PROJECT, PLACE = "com.docker.compose.project", "com.docker.compose.project.working_dir"  # labels of its containers
_PASSED = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_QUIET = {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_COLOR": "1"}
_SETUP_SECONDS = 360.0  # Harbor's own limit on setting up an agent
_GRACE = 60.0  # seconds for removing its containers after an interrupt
_BOX = "│╭╮╰╯─ "  # drawn around a traceback
_RAISED = re.compile(r"[\w.]*(?:Error|Exception): ")
# How every kind of environment words an unsupported request (harbor/environments).
_UNSUPPORTED = re.compile(r"not support(?:ed)?\b|only supported\b|cannot (?:enforce|change)\b")
# Answers as Harbor does before each trial: by its own look at the engine's kernel.
_ASK_CONFINED = (
    "from harbor.environments.docker.docker import DockerEnvironment as Docker\n"
    "print(Docker._egress_control_kernel_support())"
)


@dataclass(frozen=True, slots=True)
class HarborTrial:
    """What `harbor run` left of one trial: its folder, and result.json as read."""

    done: Completed
    files: Files
    left_out: list[str]
    result: Mapping[str, object]


def open_job(task: Task, *, name: str, needs: Needs = NOTHING) -> HarborSandbox:
    """Make the place for one `harbor run`. SetupError if Harbor cannot run the task as it is read here."""
    if reason := explain_unsupported(task):
        raise SetupError(f"{task.key} cannot be run by Harbor: {reason}")
    sandbox = make_sandbox(HarborSandbox, name=name, task=task.key)
    if needs.provider is not None:
        sandbox.gateway = Gateway.of_needs(needs, online=task.machine.network)
        sandbox.provider_url = sandbox.gateway.start("127.0.0.1")
    return sandbox


def explain_unsupported(task: Task) -> str:
    """Explain why Harbor in its current setup cannot run this task, or return ""."""
    if not task.machine.brings_files:
        return "it has no image of its own (expected environment/Dockerfile, or docker_image in task.toml)"
    if (
        task.verifier_place is not None
        or task.evaluation is not None
        or not (task.folder / "tests" / "test.sh").is_file()
    ):
        return "its verdict is not made by tests/test.sh"
    if task.stages:
        return "it has several stages"
    if task.machine.skills_dir:
        return "it has skills of its own (environment.skills_dir)"
    if task.machine.host_variables:
        return f"it asks for variables of this machine: {', '.join(task.machine.host_variables)}"
    if not task.machine.network and environment_kind() == "docker" and not _confines_network(find_harbor()):
        return (
            "it has no network (network_mode = 'no-network'), and Harbor cannot enforce that with this Docker engine: "
            "its kernel lacks nftables"
        )
    return ""


def environment_kind() -> str:
    return os.environ.get("SKILLGLASS_HARBOR_ENVIRONMENT", "").strip() or "docker"


@cache
def _confines_network(program: str) -> bool:
    """Can Harbor keep a container of this engine off the network? True if it does not say: then its trial will."""
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        asked = [*find_python(program), "-c", _ASK_CONFINED]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=90, env=make_environment()).stdout
        return answer.strip() != "False"
    return True


def is_unsupported(reason: str) -> bool:
    """Does Harbor report that a request of the task is unsupported? A retry would be refused alike."""
    return bool(_UNSUPPORTED.search(reason))


def require_supported(task: Task, reason: str) -> None:
    if is_unsupported(reason):
        raise SetupError(f"{task.key} cannot be run by Harbor: {reason}")


def find_harbor() -> str:
    """Return the program: $SKILLGLASS_HARBOR, or `harbor` on the path. NotOnThisMachine without this very version."""
    named = os.environ.get("SKILLGLASS_HARBOR", "").strip() or "harbor"
    found = shutil.which(named)
    if found is None:
        raise NotOnThisMachine(f"no program {named}: install harbor {VERSION}, or set SKILLGLASS_HARBOR to its path")
    if (version := _ask_version(found)) != VERSION:
        raise NotOnThisMachine(f"{found}: expected harbor {VERSION}, found {version or 'no version'}")
    return found


@cache
def _ask_version(program: str) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        asked = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=60, env=make_environment()
        )
        return asked.stdout.strip().rpartition(" ")[2]
    return ""


def find_python(program: str) -> list[str]:
    """Return the start of a command for the Python that Harbor is installed in. OSError if the file cannot be read."""
    return shlex.split(Path(program).read_text(errors="replace").partition("\n")[0].removeprefix("#!"))


def make_environment() -> dict[str, str]:
    """Harbor's environment: the engine's address and certificates, and the variables named in
    SKILLGLASS_HARBOR_VARIABLES."""
    wanted = (*_PASSED, *os.environ.get("SKILLGLASS_HARBOR_VARIABLES", "").replace(",", " ").split())
    plugins = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")  # `docker compose` may be there
    path = os.environ.get("PATH", os.defpath)
    given = {name: os.environ[name] for name in wanted if name in os.environ}
    return {"PATH": path, "DOCKER_CONFIG": plugins, **given, **_QUIET}


def remove_containers(folder: Path) -> None:
    """Remove containers and networks of compose projects below the folder: a killed Harbor leaves them. An engine
    that does not answer has none of them."""
    from runner.sandboxes.docker import docker_engine  # the client is slow to import, and only needed with containers

    try:
        client = docker_engine.connect()
    except SandboxError:
        return
    with closing(client):
        found = docker_engine.list_labelled(client, "container", [PLACE])
        ours = [(name, labels) for name, labels in found if Path(labels[PLACE]).is_relative_to(folder)]
        for name, _ in ours:
            docker_engine.remove(client, "container", name)
        for project in {labels[PROJECT] for _, labels in ours if labels.get(PROJECT)}:
            for network, _ in docker_engine.list_labelled(client, "network", [f"{PROJECT}={project}"]):
                docker_engine.remove(client, "network", network)


class HarborSandbox(LocalSandbox):
    """See `runner.sandboxes.Sandbox`. Only Harbor's agents use more than its files."""

    kind = "harbor"

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        raise SetupError("Harbor runs the whole trial: no command of ours runs in its sandbox")

    def run_trial(
        self,
        task: Task,
        instruction: str,
        words: Sequence[str],
        *,
        seconds: float,
        variables: Mapping[str, str],
        with_library: bool,
    ) -> HarborTrial:
        """Run one trial by `harbor run` with these further arguments; its agent has `seconds`. SandboxError if
        Harbor itself fails. with_library: Harbor refuses one for an agent that takes no skills."""
        base = self.folder / SCRATCH
        self._write_task(task, instruction, base / "task")
        allowed = seconds + task.machine.build_timeout_seconds + task.verifier_timeout_seconds + _SETUP_SECONDS
        command = ["timeout", "--signal=INT", f"--kill-after={_GRACE:.0f}", f"{allowed:.0f}", find_harbor(), "run"]
        command += ["--path", str(base / "task"), "--jobs-dir", str(base / "jobs"), "--job-name", "job"]
        command += ["--env", environment_kind()]
        command += ["--quiet", "--yes", "--max-retries", "0", "--n-concurrent", "1"]
        command += ["--agent-timeout-multiplier", str(seconds / task.agent_timeout_seconds)]
        if with_library and any((self.folder / SKILLS).iterdir()):
            command += ["--skill", str(self.folder / SKILLS)]
        done = super().execute(
            f"exec {shlex.join([*command, *words])}",
            timeout_seconds=allowed + 2 * _GRACE,
            environment={**make_environment(), **variables},
        )
        return self._read_trial(task, done, base / "jobs" / "job")

    def _write_task(self, task: Task, instruction: str, folder: Path) -> None:
        """Write the task's folder with this instruction, without a library from its environment."""
        try:
            shutil.copytree(task.folder, folder, symlinks=True)
            (folder / "instruction.md").write_text(instruction)
            for path in task.shared_tests:
                shutil.copy(path, folder / "tests" / path.name)
            for blank in task.machine.blank_folders:
                shutil.rmtree(folder / "environment" / blank, ignore_errors=True)
                (folder / "environment" / blank).mkdir(parents=True)
        except OSError as error:
            raise SandboxError(f"{task.key}: its folder cannot be copied for Harbor: {error}") from error

    def _read_trial(self, task: Task, done: Completed, job: Path) -> HarborTrial:
        trials = [path.parent for path in job.glob("*/result.json")]
        lines = [line.strip(_BOX) for line in done.output.splitlines()]
        raised = [number for number, line in enumerate(lines) if _RAISED.match(line)]
        tail = " ".join(takewhile(bool, lines[raised[-1] :] if raised else lines[-5:]))[-2_000:]
        if len(trials) != 1:
            require_supported(task, tail)
            raise SandboxError(f"Harbor left {len(trials)} trials (expected 1), exit code {done.exit_code}: {tail}")
        tree = read_tree(trials[0])
        try:
            result = json.loads(tree.files["result.json"].content)
        except (KeyError, ValueError) as error:
            raise SandboxError(f"Harbor's result.json cannot be read: {error}; it said: {tail}") from error
        if not isinstance(result, dict):
            raise SandboxError("Harbor's result.json: expected an object")
        return HarborTrial(done, tree.files, tree.left_out, result)

    def close(self) -> None:
        if self.gateway is not None:
            self.gateway.close()
        super().close()

"""A task's compose file, as far as it describes one container: what it says beside the Dockerfile.

Real releases bring one for a network switched off, a variable or the folder of the build. Such a file is read. One that
asks for several containers, or for anything that would change what is measured and is not done here, is refused with
what it asks for; what cannot change it is told. Source: the Compose specification's attributes of a service; the names
${CONTEXT_DIR}, ${MAIN_IMAGE_NAME} and ${HOST_...} are Harbor's.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.suites.documents import Table, read_yaml
from runner.suites.findings import Findings, shown
from runner.suites.task_toml import TaskToml

FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
HARBORS_IMAGES = ("${MAIN_IMAGE_NAME}", "${PREBUILT_IMAGE_NAME}")
_CONTEXT = re.compile(r"\$\{CONTEXT_DIR(?::?-[^}]*)?\}")
_SLEEPS = re.compile(r"(sleep\s+\S+|tail\s+-[fF]\s+/dev/null)\s*$")
# What a container has anyway, or what only tells engine and person how to treat it.
WITHOUT_EFFECT = frozenset(
    "container_name hostname labels annotations logging restart pull_policy ports expose stdin_open tty init profiles "
    "stop_signal stop_grace_period platform attach".split()
)
RESOURCES = frozenset("cpus mem_limit mem_reservation memswap_limit deploy shm_size pids_limit ulimits".split())


@dataclass(frozen=True, slots=True)
class Compose:
    """network None: the file does not say. environment: values may refer to ${NAME}, as in task.toml."""

    network: bool | None = None
    image: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def applied(self, toml: TaskToml) -> TaskToml:
        """What task.toml says, with this beside it. Where both name a variable or an image, task.toml's counts."""
        return replace(
            toml,
            network=toml.network if self.network is None else self.network,
            image=toml.image or self.image,
            environment={**self.environment, **toml.environment},
        )


def read_compose(source: Path, findings: Findings, where: str) -> Compose:
    """The one service of the file. SuiteError when it cannot be read; what is not supported becomes a problem."""
    whole = Table(read_yaml(source), source, findings)
    services = whole.table("services")
    if len(services.values) != 1:
        names = ", ".join(sorted(services.values)[:10]) or "none"
        whole.problem("services", "exactly one service", f"found {len(services.values)}: {shown(names)}")
        return Compose()
    (name,) = services.values
    service = services.table(name)
    _check_build(service)
    _check_command(service)
    _check_volumes(service, findings, where)
    read = Compose(_network(whole, service), _image(service), _environment(service))
    _tell_rest(service, findings, where)
    return read


def _check_build(service: Table) -> None:
    """Only the folder environment/ with its own Dockerfile, which is what is built without a compose file too."""
    build = service.raw("build")
    if build is None:
        return
    if isinstance(build, dict):
        table = service.table("build")
    else:
        table = Table({"context": build}, service.source, service.findings, service.at("build"))
    context = _CONTEXT.sub(".", str(table.raw("context") or "."))
    if posixpath.normpath(context) != ".":
        table.problem("context", "the folder environment/", f"found {shown(context)}")
    if posixpath.normpath(str(table.raw("dockerfile") or "Dockerfile")) != "Dockerfile":
        table.problem("dockerfile", "'Dockerfile'")
    for name in table.unasked():
        table.problem(name, "nothing", "it asks for a build option, which is not supported")


def _check_command(service: Table) -> None:
    """A container is kept alive here; one that starts a program of its own would miss it."""
    for name in ("command", "entrypoint"):
        value = service.raw(name)
        words = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if words.strip() and not _SLEEPS.search(words):
            service.problem(
                name, "a container that only waits", "it starts a program of its own, which is not supported"
            )


def _check_volumes(service: Table, findings: Findings, where: str) -> None:
    """Folders of the host are not mounted. One of the task's own would be missed."""
    for place, entry in enumerate(service.raw("volumes") or ()):
        outside = str(entry.get("source", "")) if isinstance(entry, dict) else str(entry).partition(":")[0]
        if outside.startswith("."):
            service.problem(
                f"volumes[{place}]", "no folder of the task", f"it mounts {shown(outside)}, which is not supported"
            )
        elif not outside.startswith("${HOST_"):
            findings.note("asks in its compose file for a mount, which is not made", f"{where} ({shown(outside)})")


def _network(whole: Table, service: Table) -> bool | None:
    """No network is a mode "none", or nothing but networks that are closed to the outside."""
    mode, names = service.raw("network_mode"), list(service.raw("networks") or ())
    if names and all(whole.table("networks").table(str(name)).raw("internal") is True for name in names):
        return False
    if mode not in (None, "none", "bridge", "default", "host"):
        service.problem("network_mode", "'none' or 'bridge'")
    return None if mode is None else mode != "none"


def _image(service: Table) -> str | None:
    """None also for the names that Harbor puts in; they stand for the image it builds."""
    image = service.raw("image")
    return image if isinstance(image, str) and "${" not in image and service.raw("build") is None else None


def _environment(service: Table) -> dict[str, str]:
    """A mapping or a list of NAME=value. A bare name is the host's variable of that name."""
    value = service.raw("environment")
    if not isinstance(value, list):
        found = {name: f"${{{name}}}" if text is None else _plain(text) for name, text in (value or {}).items()}
        return Table({"environment": found}, service.source, service.findings, service.place).variables("environment")
    pairs = (str(entry).partition("=") for entry in value)
    return {name: text if equals else f"${{{name}}}" for name, equals, text in pairs}


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _tell_rest(service: Table, findings: Findings, where: str) -> None:
    for name in service.unasked():
        if name in RESOURCES:
            findings.note("names resources in its compose file; those of task.toml count", where)
        elif name not in WITHOUT_EFFECT and not name.startswith("x-"):
            service.problem(name, "nothing", "it is not supported")

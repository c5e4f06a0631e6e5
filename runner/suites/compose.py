"""A task's compose file, as far as it describes one container: what it adds to the Dockerfile.

Real releases bring one for a network switched off, a variable or the folder of the build. Such a file is read. One that
asks for several containers, or for anything that would change what is measured and is not done here, is refused with
what it asks for; what cannot change it becomes a note. Source: the Compose specification's attributes of a service; the names
${CONTEXT_DIR}, ${MAIN_IMAGE_NAME} and ${HOST_...} are Harbor's.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.base.types import JsonValue
from runner.suites.documents import FieldTable, read_yaml
from runner.suites.findings import Findings, shorten_suite_value
from runner.suites.tasks.task_toml import TaskToml

FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
HARBORS_IMAGES = ("${MAIN_IMAGE_NAME}", "${PREBUILT_IMAGE_NAME}")  # that Harbor builds; ours have names of their own
HARBORS_LOGS = "${HOST_"
OF_THE_TASK = (".", "${CONTEXT_DIR", "${PWD", "$PWD")  # how a path in the task's own folder begins
_CONTEXT = re.compile(r"\$\{CONTEXT_DIR(?::?-[^}]*)?\}")
_SHELL = r"(?:\S*/)?(?:ba)?sh"
_SLEEP = r"(?:exec )?(?:sleep \S+|tail -[fF] /dev/null|while (?:true|:); do sleep \S+; done)"
_WAITS = re.compile(rf"{_SHELL}(?: -l?c)?|(?:{_SHELL} -l?c )?[\"']?{_SLEEP}[\"']?")
_REFERENCE = re.compile(r"\$\$|\$([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)(?::?([-?])([^}]*))?\}")
# What a container has anyway, or hints to the engine and to people.
WITHOUT_EFFECT = frozenset(
    "container_name hostname labels annotations logging restart pull_policy ports expose stdin_open tty init profiles "
    "stop_signal stop_grace_period platform attach".split()
)
RESOURCES = frozenset("cpus mem_limit mem_reservation memswap_limit deploy shm_size pids_limit ulimits".split())
AT_THE_TOP = frozenset({"services", "version", "name", "networks", "volumes"})


@dataclass(frozen=True, slots=True)
class Compose:
    """network None: the file leaves it open. environment: values may refer to ${NAME}, as in task.toml."""

    network: bool | None = None
    image: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def apply_to(self, toml: TaskToml) -> TaskToml:
        """The fields of task.toml, with these beside them. Where both name a variable or an image, task.toml's counts."""
        return replace(
            toml,
            network=toml.network if self.network is None else self.network,
            image=toml.image or self.image,
            environment={**self.environment, **toml.environment},
        )


def read_compose(source: Path, findings: Findings, where: str) -> Compose:
    """The one service of the file. SuiteError when it cannot be read; what is not supported becomes a problem."""
    whole = FieldTable(read_yaml(source), source, findings)
    services = whole.table("services")
    if len(services.values) != 1:
        names = ", ".join(sorted(services.values)[:10]) or "none"
        whole.problem("services", "exactly one service", f"found {len(services.values)}: {shorten_suite_value(names)}")
        return Compose()
    (name,) = services.values
    service = services.table(name)
    _check_build(service)
    _check_command(service)
    _check_volumes(service, findings, where)
    read = Compose(_network(whole, service, findings, where), _image(service), _environment(service))
    _check_rest(service, findings, where)
    for key in whole.values.keys() - AT_THE_TOP:
        if not key.startswith("x-"):
            whole.problem(key, "nothing", "it is not supported")
    return read


def _check_build(service: FieldTable) -> None:
    """Only the folder environment/ with its own Dockerfile, which is what is built without a compose file too."""
    build = service.raw("build")
    if build is None:
        return
    if isinstance(build, dict):
        table = service.table("build")
    else:
        table = FieldTable({"context": build}, service.source, service.findings, service.at("build"))
    context = _CONTEXT.sub(".", str(table.raw("context") or "."))
    if posixpath.normpath(context) != ".":
        table.problem("context", "the folder environment/", f"found {shorten_suite_value(context)}")
    if posixpath.normpath(str(table.raw("dockerfile") or "Dockerfile")) != "Dockerfile":
        table.problem("dockerfile", "'Dockerfile'")
    for name in table.list_unasked():
        table.problem(name, "nothing", "it asks for a build option, which is not supported")


def _check_command(service: FieldTable) -> None:
    """A container is kept alive here; one that starts a program of its own would miss it."""
    for name in ("command", "entrypoint"):
        value = service.raw(name)
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        words = " ".join(text.split())
        if words and not _WAITS.fullmatch(words):
            message = "it starts a program of its own, which is not supported"
            service.problem(name, "a container that only waits", message)


def _check_volumes(service: FieldTable, findings: Findings, where: str) -> None:
    """Folders of the host are not mounted. One of the task's own would be missed."""
    for place, entry in enumerate(_entries(service, "volumes")):
        outside = str(entry.get("source", "")) if isinstance(entry, dict) else str(entry).partition(":")[0]
        if outside.startswith(OF_THE_TASK):
            message = f"it mounts {shorten_suite_value(outside)}, which is not supported"
            service.problem(f"volumes[{place}]", "no folder of the task", message)
        elif not outside.startswith(HARBORS_LOGS):
            findings.note(
                "The compose file asks for a mount, which is ignored", f"{where} ({shorten_suite_value(outside)})"
            )


def _network(whole: FieldTable, service: FieldTable, findings: Findings, where: str) -> bool | None:
    """No network is a mode "none", or nothing but networks that are closed to the outside."""
    mode, names = service.raw("network_mode"), _entries(service, "networks")
    if names and all(whole.table("networks").table(str(name)).raw("internal") is True for name in names):
        return False
    if mode not in (None, "none", "bridge", "default", "host"):
        service.problem("network_mode", "'none' or 'bridge'")
    if mode == "host":
        findings.note("The compose file asks for the host's network; the container gets one of its own", where)
    return None if mode is None else mode != "none"


def _image(service: FieldTable) -> str | None:
    """None where it is built, and for the names that stand for the image that Harbor builds."""
    image = service.raw("image")
    if image is None or image in HARBORS_IMAGES or service.raw("build") is not None:
        return None
    name = _REFERENCE.sub(lambda found: found[4] if found[3] == "-" else found[0], str(image))
    if "$" in name:
        service.problem(
            "image", "the name of an image", f"found {shorten_suite_value(image)}, which depends on the host"
        )
    return name


def _environment(service: FieldTable) -> dict[str, str]:
    """A mapping or a list of NAME=value. A bare name is the host's variable of that name."""
    value = service.raw("environment")
    if isinstance(value, dict):
        pairs = [(name, f"${{{name}}}" if text is None else _scalar(text)) for name, text in value.items()]
    else:
        split = (
            entry.partition("=") if isinstance(entry, str) else (entry, "", None)
            for entry in _entries(service, "environment")
        )
        pairs = [(name, text if equals or text is None else f"${{{name}}}") for name, equals, text in split]
    found: dict[str, str] = {}
    for name, text in pairs:
        if isinstance(name, str) and name and isinstance(text, str) and "\0" not in name + text:
            found[name] = _REFERENCE.sub(_as_in_toml, text)
        else:
            service.problem("environment", "names with texts or numbers", f"found {shorten_suite_value(name)}")
    return found


def _scalar(value: JsonValue) -> str | None:
    """As Compose reads a plain value: a date is a text there. None for lists and mappings."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if isinstance(value, list | dict) else str(value)


def _as_in_toml(found: re.Match[str]) -> str:
    """A reference in the one spelling that tasks have: ${NAME} or ${NAME:-default}. Two dollars are one."""
    if found[0] == "$$":
        return "$"
    name = found[1] or found[2]
    return f"${{{name}:-{found[4]}}}" if found[3] == "-" else f"${{{name}}}"


def _entries(service: FieldTable, name: str) -> list[object]:
    """The entries of a list, or the names of a mapping."""
    value = service.raw(name)
    if value is None or isinstance(value, list | dict):
        return list(value or ())
    service.problem(name, "a list or a mapping")
    return []


def _check_rest(service: FieldTable, findings: Findings, where: str) -> None:
    for name in service.list_unasked():
        if service.values[name] in (None, False, "", [], {}):
            continue
        if name in RESOURCES:
            findings.note("The compose file sets resources; those of task.toml count", where)
        elif name not in WITHOUT_EFFECT and not name.startswith("x-"):
            service.problem(name, "nothing", "it is not supported")

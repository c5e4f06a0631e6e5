"""A task's compose file: what it adds to the Dockerfile, and the containers that run next to the agent's.

Released tasks ship one to switch off the network, set a variable or add a database. Docker never sees this file:
harmless fields are copied one by one into a file of our own. A field that would change the task or break its
isolation is supported here or refused by name. A field without effect is ignored.
Sources: the Compose specification (fields of a service, interpolation); the names ${CONTEXT_DIR}, ${MAIN_IMAGE_NAME},
${HOST_...} and the service `main` are Harbor's.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from runner.base.errors import SuiteError
from runner.base.types import MAIN_IMAGE, JsonValue, Service, Services, Volume
from runner.suites.documents import MAX_NESTING, FieldTable, Findings, read_text, read_yaml, shorten_suite_value
from runner.suites.features import refuse
from runner.suites.tasks.task_toml import TaskToml

FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
MAIN = "main"
REFERENCE = "variable"  # where an unreadable ${...} is reported
NOT_CLOSED = "has a brace that is not closed"
DEFAULT = "default"  # the network of services that name none
MAX_SERVICES = 20
MAX_VALUES = 10_000  # with aliases unfolded
VALUE_CHARS = 1_000  # a longer text counts as several values
_UNKNOWN = "\0"  # around the name of a variable without a value: none of our YAML texts contains it
_UNKNOWN_NAME = re.compile(f"{_UNKNOWN}([^{_UNKNOWN}]*){_UNKNOWN}")
_LOGS = f"{_UNKNOWN}HOST_"  # mounts of Harbor's own log folders: ignored
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_OPERATOR = re.compile(r":?[-?+]")
_SHELL = r"(?:\S*/)?(?:ba)?sh"
_SLEEP = r"(?:exec )?(?:sleep \S+|tail -[fF] /dev/null|while (?:true|:); do sleep \S+; done)"
_KEEPALIVE = re.compile(rf"{_SHELL}(?: -l?c)?|(?:{_SHELL} -l?c )?[\"']?{_SLEEP}[\"']?")
_RESTART = re.compile(r"no|always|unless-stopped|on-failure(?::\d+)?")
_CONDITIONS = ("service_started", "service_healthy", "service_completed_successfully")
# Without effect on the task.
IGNORED_FIELDS = frozenset(
    "container_name hostname labels annotations logging restart pull_policy ports expose stdin_open tty init profiles "
    "stop_signal stop_grace_period platform attach depends_on healthcheck".split()
)
RESOURCES = frozenset("cpus mem_limit mem_reservation memswap_limit deploy shm_size pids_limit ulimits".split())
# Copied unchanged from a service next to the agent's.
COPIED_FIELDS = (
    *("command", "entrypoint", "healthcheck", "working_dir", "user", "hostname", "tty", "stdin_open", "init", "tmpfs"),
    *("read_only", "stop_signal", "platform"),
)
REFUSED = {
    "privileged": "privileged",
    **dict.fromkeys(("cap_add", "security_opt", "sysctls", "credential_spec"), "capabilities"),
    **dict.fromkeys(("devices", "device_cgroup_rules", "blkio_config"), "devices"),
    **dict.fromkeys(("gpus", "runtime"), "gpu"),
    **dict.fromkeys(
        ("pid", "ipc", "uts", "userns_mode", "cgroup", "cgroup_parent", "group_add", "oom_score_adj"), "host-namespaces"
    ),
    **dict.fromkeys(("links", "external_links", "extra_hosts", "dns", "dns_search", "dns_opt"), "network-options"),
    "volumes_from": "volume-options",
}
TOP_LEVEL_KEYS = frozenset({"services", "version", "name", "networks", "volumes"})


@dataclass(frozen=True, slots=True)
class Compose:
    """network: None if the file does not say. environment: values may refer to ${NAME}, as in task.toml."""

    network: bool | None = None
    image: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    services: Services | None = None

    def apply_to(self, toml: TaskToml) -> TaskToml:
        """Merge into task.toml. Its own variables, image and folder win;
        the compose file's network and services win."""
        return replace(
            toml,
            network=toml.network if self.network is None else self.network,
            image=toml.image or self.image,
            environment={**self.environment, **toml.environment},
            workdir=toml.workdir or self.workdir,
            services=self.services,
        )


def read_compose(source: Path, findings: Findings, where: str, toml: TaskToml | None = None) -> Compose:
    """Read and check the file. Raise SuiteError if it is unreadable; an unsupported field becomes a problem."""
    return _Reader(source, findings, where, _list_known_variables(toml)).read()


def _list_known_variables(toml: TaskToml | None) -> dict[str, str]:
    """Variables of the task, and those that Harbor sets."""
    own = {} if toml is None else {name: value for name, value in toml.environment.items() if "${" not in value}
    return {
        **own,
        **dict.fromkeys(("CONTEXT_DIR", "PWD"), "."),
        **dict.fromkeys(("MAIN_IMAGE_NAME", "PREBUILT_IMAGE_NAME"), MAIN_IMAGE),
        **{f"ENV_{name.upper()}_LOGS_PATH": f"/logs/{name}" for name in ("agent", "verifier")},
        "ENV_ARTIFACTS_PATH": "/logs/artifacts",
        "TEST_DIR": "/tests",
    }


class _Reader:
    """One file. `folder`: the task's environment/, which the file's paths are relative to."""

    def __init__(self, source: Path, findings: Findings, where: str, known: Mapping[str, str]) -> None:
        self.source, self.findings, self.where, self.known = source, findings, where, known
        self.folder = source.parent
        self.raw = read_yaml(source)
        answered = _interpolate_all(self.raw, partial(interpolate, known=known, unknown=_mark_unknown), source)
        assert isinstance(answered, dict)
        self.whole = FieldTable(answered, source, findings)
        self.declared = {kind: self.whole.table(kind) for kind in ("networks", "volumes")}
        tables = {name: self.whole.table("services").table(name) for name in self.whole.table("services").values}
        # A service with a profile starts only on request.
        self.services = {name: each for name, each in tables.items() if name == MAIN or not each.raw("profiles")}
        self.main = self._find_main()

    def read(self) -> Compose:
        if not 1 <= len(self.services) <= MAX_SERVICES or not all(map(_NAME.fullmatch, self.services)):
            shown = shorten_suite_value(", ".join(sorted(self.services)[:10]) or "none")
            wanted = f"1 to {MAX_SERVICES} services, named with letters, digits, '.', '_' and '-'"
            self.whole.problem("services", wanted, f"found {len(self.services)}: {shown}")
            return Compose()
        for key in self.whole.values.keys() - TOP_LEVEL_KEYS:
            if not key.startswith("x-"):
                refuse(self.whole, key, "compose", key)
        read, own = Compose(), Service(MAIN, networks={DEFAULT: ()})
        if self.main:
            own = self._read_attachments(self.services[self.main], self.main)
            read = self._read_main(self.services[self.main], own)
        others = tuple(self._read_service(each, name) for name, each in self.services.items() if name != self.main)
        if not others and not own.volumes:
            return read
        used = {network for each in (own, *others) for network in each.networks}
        return replace(read, services=Services(own, others, frozenset(filter(self._is_internal, used))))

    def _find_main(self) -> str:
        """Find the service that is the agent's container: `main`, or the only one made of the task's Dockerfile. ""
        if the file has none, since Harbor adds it."""
        if MAIN in self.services:
            return MAIN
        own = [name for name, each in self.services.items() if self._is_of_the_dockerfile(each)]
        return own[0] if len(own) == 1 else ""

    def _is_of_the_dockerfile(self, service: FieldTable) -> bool:
        build = service.values.get("build")
        context = build.get("context", ".") if isinstance(build, dict) else build
        own = isinstance(build, dict) and build.get("dockerfile", "Dockerfile") != "Dockerfile"
        if build is None:
            return service.values.get("image") in (None, MAIN_IMAGE)
        return posixpath.normpath(str(context)) == "." and not own

    # --- the agent's container ------------------------------------------------------------------------------------

    def _read_main(self, service: FieldTable, place: Service) -> Compose:
        build = self._build(service)
        if build is not None and build != (self.folder, "Dockerfile"):
            service.problem("build", "the folder environment/ and its Dockerfile")
        for key in ("command", "entrypoint"):
            value = service.raw(key)
            words = " ".join((" ".join(map(str, value)) if isinstance(value, list) else str(value or "")).split())
            if words and not _KEEPALIVE.fullmatch(words):
                refuse(service, key, "own-program", shorten_suite_value(words))
        image = service.raw("image")
        workdir = str(service.raw("working_dir") or "")
        if service.raw("user") not in (None, "root", "0", 0):
            refuse(service, "user", "agent-user")
        variables = _variables(service, self._raw_service(place.name), self.known, self._env_files(service))
        read = Compose(
            self._network(service, place),
            None
            if image in (None, MAIN_IMAGE) or build is not None
            else self._require_known(service, "image", str(image)),
            variables,
            self._require_known(service, "working_dir", workdir) if workdir.startswith("/") else "",
        )
        self._check_rest(service)
        return read

    def _network(self, service: FieldTable, place: Service) -> bool | None:
        """False with mode "none" or if all its networks are closed to the outside; None if the file leaves it open."""
        mode = service.raw("network_mode")
        if place.networks and all(map(self._is_internal, place.networks)):
            return False
        return None if mode is None else mode != "none"

    def _check_rest(self, service: FieldTable) -> None:
        self._refuse_dangers(service)
        for name in service.list_unasked():
            if service.values[name] in (None, False, "", [], {}):
                continue
            if name in RESOURCES:
                self.findings.note("The compose file sets resource limits; those of task.toml are used", self.where)
            elif name not in IGNORED_FIELDS and not name.startswith("x-"):
                refuse(service, name, "compose", name)

    def _refuse_dangers(self, service: FieldTable) -> None:
        for name, feature in REFUSED.items():
            if service.raw(name) not in (None, False, "", [], {}):
                refuse(service, name, feature, name)
        if "'devices'" in repr(service.values.get("deploy")):
            refuse(service, "deploy", "gpu")

    # --- the others -----------------------------------------------------------------------------------------------

    def _read_service(self, service: FieldTable, name: str) -> Service:
        image, build = service.raw("image"), self._build(service)
        if image is None and build is None:
            service.problem("image", "an image, or a build")
        variables = _variables(service, self._raw_service(name), self.known, self._env_files(service))
        settings = {key: value for key in COPIED_FIELDS if (value := service.raw(key)) is not None}
        settings["depends_on"] = self._depends_on(service)
        if isinstance(restart := service.raw("restart"), str) and _RESTART.fullmatch(restart):
            settings["restart"] = restart
        if service.raw("network_mode") == "none":
            settings["network_mode"] = "none"
        place = self._read_attachments(service, name)
        self._check_rest(service)
        return replace(
            place,
            image="" if build is not None else self._require_known(service, "image", str(image or "")),
            context=None if build is None else build[0],
            dockerfile="Dockerfile" if build is None else build[1],
            environment=variables,
            settings={key: self._to_json(service, key, value) for key, value in settings.items()},
        )

    def _to_json(self, service: FieldTable, key: str, value: object) -> JsonValue:
        """Return the value as JSON. A variable that nothing sets is a problem."""
        if isinstance(value, dict):
            return {str(name): self._to_json(service, key, each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._to_json(service, key, each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._require_known(service, key, str(value))

    def _depends_on(self, service: FieldTable) -> dict[str, JsonValue]:
        """The services that start before it, except the agent's container, which waits for all."""
        value = service.raw("depends_on")
        given = value if isinstance(value, dict) else dict.fromkeys(map(str, _entries(service, "depends_on")), {})
        found: dict[str, JsonValue] = {}
        for name, entry in given.items():
            condition = entry.get("condition", _CONDITIONS[0]) if isinstance(entry, dict) else ""
            if condition not in _CONDITIONS:
                service.problem(
                    "depends_on", f"one of {', '.join(_CONDITIONS)}", f"found {shorten_suite_value(condition)}"
                )
            if name in self.services and name != self.main:
                found[str(name)] = {"condition": str(condition)}
        return found

    def _read_attachments(self, service: FieldTable, name: str) -> Service:
        """Read its networks and volumes."""
        networks = {} if service.raw("network_mode") == "none" else self._networks(service)
        alias = service.values.get("container_name")
        if isinstance(alias, str) and _NAME.fullmatch(alias):  # others may call it by that name
            networks = {network: (*others, alias) for network, others in networks.items()}
        return Service(name, networks=networks, volumes=tuple(self._volumes(service, name)))

    # --- parts of a service ---------------------------------------------------------------------------------------

    def _raw_service(self, name: str) -> Mapping[str, object]:
        """The service with its references unresolved."""
        services = self.raw.get("services")
        service = services.get(name) if isinstance(services, dict) else None
        return service if isinstance(service, dict) else {}

    def _require_known(self, service: FieldTable, key: str, text: str) -> str:
        """Return the text. Report a problem if it depends on a variable that nothing sets."""
        if found := _UNKNOWN_NAME.search(text):
            refuse(service, key, "variable", shorten_suite_value(found[1]))
        return text

    def _build(self, service: FieldTable) -> tuple[Path, str] | None:
        """The folder of a build below environment/, and its Dockerfile."""
        build = service.raw("build")
        if build is None:
            return None
        table = (
            service.table("build")
            if isinstance(build, dict)
            else FieldTable({"context": build}, self.source, self.findings, service.at("build"))
        )
        context = posixpath.normpath(self._require_known(table, "context", str(table.raw("context") or ".")))
        dockerfile = posixpath.normpath(
            self._require_known(table, "dockerfile", str(table.raw("dockerfile") or "Dockerfile"))
        )
        for name, path in (("context", context), ("dockerfile", dockerfile)):
            if path.startswith(("/", "..", "~")) or "://" in path:
                table.problem(name, "a path inside environment/", f"found {shorten_suite_value(path)}")
                return self.folder, "Dockerfile"
        for name in table.list_unasked():
            if table.values[name] not in (None, False, "", [], {}):
                refuse(table, name, "build-options", name)
        folder = self.folder / context
        if folder != self.folder and not (folder / dockerfile).is_file():
            table.problem("dockerfile", "the file", f"{context}/{dockerfile} is missing")
        return folder, dockerfile

    def _networks(self, service: FieldTable) -> dict[str, tuple[str, ...]]:
        """Return network -> aliases."""
        mode = service.raw("network_mode")
        if mode == "host":
            refuse(service, "network_mode", "host-network")
        elif isinstance(mode, str) and mode.startswith(("service:", "container:")):
            refuse(service, "network_mode", "shared-network", shorten_suite_value(mode))
        elif mode not in (None, "none", "bridge", DEFAULT):
            service.problem("network_mode", "'none' or 'bridge'")
        found: dict[str, tuple[str, ...]] = {}
        value = service.raw("networks")
        for name in _entries(service, "networks"):
            options = value.get(name) if isinstance(value, dict) else None
            table = FieldTable(
                options if isinstance(options, dict) else {}, self.source, self.findings, service.at("networks")
            )
            aliases = tuple(each for each in table.texts("aliases") if _NAME.fullmatch(each))
            table.raw("priority")
            for option in table.list_unasked():
                refuse(table, option, "network-options", option)
            self._check_network(str(name))
            found[str(name)] = aliases
        return found or {DEFAULT: ()}

    def _check_network(self, name: str) -> None:
        table = self.declared["networks"].table(name)
        if not _NAME.fullmatch(name):
            table.problem("name", "a name of letters, digits, '.', '_' and '-'", f"found {shorten_suite_value(name)}")
        if table.raw("external") or table.raw("driver") not in (None, "bridge") or table.raw("driver_opts"):
            refuse(table, "driver", "network-options")

    def _is_internal(self, name: str) -> bool:
        return self.declared["networks"].table(name).raw("internal") is True

    def _volumes(self, service: FieldTable, name: str) -> Iterator[Volume]:
        for place, entry in enumerate(_entries(service, "volumes")):
            kind, source, target = _split_volume(entry)
            at = FieldTable({}, self.source, self.findings, f"{service.at('volumes')}[{place}]")
            if source.startswith(_LOGS):
                continue
            target = self._require_known(at, "target", target)
            if not posixpath.normpath(target).startswith("/") or posixpath.normpath(target) == "/":
                at.problem("target", "an absolute folder of the container", f"found {shorten_suite_value(entry)}")
            elif kind == "tmpfs" or not source:
                yield Volume(target, f"{name}-{place}")
            elif "docker.sock" in source:
                refuse(at, "source", "docker-socket")
            elif _UNKNOWN in source:
                shown = shorten_suite_value(_UNKNOWN_NAME.sub(r"${\1}", source))
                self.findings.note("The compose file asks for a mount, which is ignored", f"{self.where} ({shown})")
            elif source.startswith(".") or kind == "bind" and not source.startswith(("/", "~")):
                yield from self._task_files(at, source, target)
            elif source.startswith(("/", "~")):
                refuse(at, "source", "host-mount", shorten_suite_value(source))
            else:
                yield self._named_volume(at, source, target)

    def _task_files(self, at: FieldTable, source: str, target: str) -> Iterator[Volume]:
        """Copy a file of the task, or fill a volume from its folder. No folder of the host is mounted."""
        path = posixpath.normpath(source)
        place = self.folder / path
        if path.startswith("..") or not place.resolve().is_relative_to(self.folder.resolve()):
            refuse(at, "source", "host-mount", shorten_suite_value(source))
        elif place.is_file():
            yield Volume(target, source=place)
        else:
            name = re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-") or "environment"
            yield Volume(target, f"files-{name}"[:60], place if place.is_dir() else None)

    def _named_volume(self, at: FieldTable, name: str, target: str) -> Volume:
        declared = self.declared["volumes"].table(name)
        if not _NAME.fullmatch(name):
            at.problem("source", "a name of letters, digits, '.', '_' and '-'", f"found {shorten_suite_value(name)}")
        if declared.raw("external") or declared.raw("driver_opts") or declared.raw("driver") not in (None, "local"):
            refuse(declared, "driver", "volume-options")
        return Volume(target, name)

    def _env_files(self, service: FieldTable) -> dict[str, str]:
        """Read the variables of the files that env_file names, each a file below environment/."""
        value, found = service.raw("env_file"), dict[str, str]()
        for entry in value if isinstance(value, list) else [value] if value else []:
            path = posixpath.normpath(str(entry.get("path", "") if isinstance(entry, dict) else entry))
            if path.startswith(("/", "..", "~")) or _UNKNOWN in path:
                refuse(service, "env_file", "host-mount", shorten_suite_value(path.replace(_UNKNOWN, "$")))
                continue
            if isinstance(entry, dict) and entry.get("required") is False and not (self.folder / path).is_file():
                continue
            for line in read_text(self.folder / path).splitlines():
                name, equals, text = line.strip().removeprefix("export ").partition("=")
                if equals and _VARIABLE.fullmatch(name.strip()):
                    found[name.strip()] = text.strip().strip("'\"")
        return found


def _split_volume(entry: object) -> tuple[str, str, str]:
    """(type, source, target) of either notation. The type may be empty."""
    if isinstance(entry, dict):
        kind, source, target = (str(entry.get(name) or "") for name in ("type", "source", "target"))
        return kind, source, target
    source, colon, rest = str(entry).partition(":")
    return ("", source, rest.partition(":")[0]) if colon else ("", "", source)


# --- variables ----------------------------------------------------------------------------------------------------


def interpolate(text: str, *, known: Mapping[str, str], unknown: Callable[[str, str | None], str]) -> str:
    """Resolve a text's references as Compose does: `$$`, `$NAME`, `${NAME}` and `${NAME:-default}`, with -, ? or +,
    with or without the colon, nested. `unknown` gets an unknown name and its default, and returns the replacement.

    ValueError if a reference is unreadable.
    """
    found, place = [], 0
    while (start := text.find("$", place)) >= 0:
        found.append(text[place:start])
        if text.startswith("$$", start):
            found.append("$")
            place = start + 2
            continue
        braced = text.startswith("${", start)
        name = _VARIABLE.match(text, start + 1 + braced)
        place = _closing_brace(text, name.end()) + 1 if braced and name else name.end() if name else 0
        body = text[name.end() : place - 1] if braced and name else ""
        operator = _OPERATOR.match(body)
        if name is None or (body and operator is None):
            raise ValueError(f"{text[start : start + 60]!r} is not a reference to a variable (write $$ for a dollar)")
        value = known.get(name[0])
        kind = operator[0] if operator else ""
        rest = partial(interpolate, body[len(kind) :], known=known, unknown=unknown)
        if value == "" and kind.startswith(":"):
            value = None
        if kind.endswith("+"):
            found.append("" if value is None else rest())
        elif value is not None:
            found.append(value)
        else:
            found.append(unknown(name[0], rest() if kind.endswith("-") else None))
    return "".join([*found, text[place:]])


def _closing_brace(text: str, place: int) -> int:
    depth = 1
    while place < len(text):
        if text.startswith("${", place):
            depth += 1
        elif text[place] == "}":
            depth -= 1
            if not depth:
                return place
        place += 1
    raise ValueError(f"{text[:60]!r} {NOT_CLOSED}")


def _mark_unknown(name: str, default: str | None) -> str:
    return f"{_UNKNOWN}{name}{_UNKNOWN}" if default is None else default


def _as_in_toml(name: str, default: str | None) -> str:
    """Write a reference in task.toml's notation: ${NAME} or ${NAME:-default}."""
    if default is None:
        return f"${{{name}}}"
    return default if "}" in default else f"${{{name}:-{default}}}"


def _interpolate_all(value: object, answer: Callable[[str], str], source: Path) -> object:
    """Resolve all texts of the document. Values shared by YAML aliases stay shared; refuse what unfolds to too many."""
    done: dict[
        int, tuple[object, int]
    ] = {}  # id of a list or mapping -> it resolved, and how many values it unfolds to

    def visit(each: object, depth: int) -> tuple[object, int]:
        if isinstance(each, str):
            try:
                text = answer(each)
            except ValueError as error:
                raise SuiteError(str(source), REFERENCE, "", str(error)) from error
            return text, 1 + len(text) // VALUE_CHARS
        if not isinstance(each, dict | list):
            return each, 1
        if depth > MAX_NESTING:
            raise SuiteError(str(source), "file", f"at most {MAX_NESTING} levels", "nested too deeply")
        if id(each) not in done:
            inside = [visit(one, depth + 1) for one in (each.values() if isinstance(each, dict) else each)]
            count = 1 + sum(size for _, size in inside)
            if count > MAX_VALUES:
                raise SuiteError(str(source), "file", f"at most {MAX_VALUES:,} values", "it has more")
            values = [one for one, _ in inside]
            done[id(each)] = dict(zip(each, values, strict=True)) if isinstance(each, dict) else values, count
        return done[id(each)]

    return visit(value, 0)[0]


def _variables(
    service: FieldTable, raw: Mapping[str, object], known: Mapping[str, str], files: Mapping[str, str]
) -> dict[str, str]:
    """Read a mapping or a list of NAME=value. A bare name is the host's variable of that name."""
    service.raw("environment")
    value = raw.get("environment")
    if isinstance(value, dict):
        pairs = [(name, f"${{{name}}}" if text is None else _scalar(text)) for name, text in value.items()]
    else:
        split = (
            entry.partition("=") if isinstance(entry, str) else (entry, "", None)
            for entry in _entries(service, "environment", value)
        )
        pairs = [(name, text if equals or text is None else f"${{{name}}}") for name, equals, text in split]
    found: dict[str, str] = dict(files)
    for name, text in pairs:
        if isinstance(name, str) and name and isinstance(text, str) and "\0" not in name + text:
            found[name] = interpolate(text, known=known, unknown=_as_in_toml)
        else:
            service.problem("environment", "names with texts or numbers", f"found {shorten_suite_value(name)}")
    return found


def _scalar(value: JsonValue) -> str | None:
    """Return a plain value as Compose reads it: a date is a text. None for lists and mappings."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if isinstance(value, list | dict) else str(value)


def _entries(service: FieldTable, name: str, value: object = None) -> list[object]:
    """The entries of a list, or the names of a mapping."""
    value = service.raw(name) if value is None else value
    if value is None or isinstance(value, list | dict):
        return list(value or ())
    service.problem(name, "a list or a mapping")
    return []

"""task.toml in all its dialects: Harbor's versions 1.0 to 1.4, the legacy names, and what the benchmarks add to it.

Source: the format of Harbor's task directory. Fields that change what is measured and that this runner does not support
are problems, never ignored. Fields that only describe are accepted silently; unknown fields are notes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.base.host_variables import find_named_variables
from runner.base.types import Services
from runner.suites.documents import FieldTable, Findings, read_toml, shorten_suite_value
from runner.suites.features import refuse

VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
DEFAULT_SECONDS = 600.0  # Harbor's for the verifier and the build; an agent without a limit gets the same
DAY = 86_400.0
MAX_MIB = 16 * 1024 * 1024
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_MIB = {"": 1 / 1024**2, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}

# Tables and fields that describe a task without changing how it runs.
DESCRIBING = ("metadata", "task", "source", "evaluation", "reward")
# Fields that would change what is measured: (table, field, the feature it asks for).
UNSUPPORTED = (
    ("environment", "mcp_servers", "mcp-server"),
    ("environment", "tpu", "tpu"),
    ("environment", "allowed_hosts", "allowed-hosts"),
    ("environment", "healthcheck", "healthcheck"),
    ("agent", "user", "agent-user"),
    ("agent", "allowed_hosts", "allowed-hosts"),
    ("agent", "disallowed_tools", "agent-tools"),
    ("verifier", "user", "verifier-user"),
    ("verifier", "allowed_hosts", "allowed-hosts"),
    ("verifier", "collect", "collect"),
)
WITHOUT_EFFECT = (
    (
        "environment",
        "skills_dir",
        "the library is mounted where each agent looks for it, and skills at that place are left out",
    ),
)
MAX_STEPS = 50
_STEP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,59}(?<![. ])")


@dataclass(frozen=True, slots=True)
class StepToml:
    """One of several steps; its files are in steps/<name>/. min_reward: a lower value of one ends the task after it."""

    name: str
    agent_timeout_seconds: float
    verifier_timeout_seconds: float
    verifier_environment: dict[str, str]
    min_reward: dict[str, float]


@dataclass(frozen=True, slots=True)
class TaskToml:
    """Seconds, MiB and texts. metadata and task are unchanged from the file."""

    metadata: FieldTable
    task: FieldTable
    agent_timeout_seconds: float = DEFAULT_SECONDS
    verifier_timeout_seconds: float = DEFAULT_SECONDS
    build_timeout_seconds: float = DEFAULT_SECONDS
    image: str | None = None
    cpus: float = 1.0
    memory_mb: int = 2_048
    storage_mb: int = 10_240
    network: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    verifier_environment: dict[str, str] = field(default_factory=dict)
    solution_environment: dict[str, str] = field(default_factory=dict)
    host_variables: tuple[str, ...] = ()
    skills_dir: str = ""  # in the container; as in Machine
    workdir: str = ""
    services: Services | None = None
    steps: tuple[StepToml, ...] = ()
    last_step_decides: bool = False
    verifier_place: TaskToml | None = None  # of a verifier that runs in a container of its own
    artifacts: tuple[str, ...] = ()  # absolute paths given to such a verifier
    worker_labels: tuple[str, ...] = ()  # as in Machine


def read_task_toml(source: Path, where: str, findings: Findings, *, network: bool = True) -> TaskToml:
    """Return the file's fields, with Harbor's defaults. `network` is the default for network.

    SuiteError if the file is unreadable.
    """
    whole = FieldTable(read_toml(source), source, findings)
    _note_version(whole, findings, where)
    machine, agent, verifier, solution = (
        whole.table(name) for name in ("environment", "agent", "verifier", "solution")
    )
    steps = _list_steps(whole)
    of_steps = [step.table(name) for step in steps for name in ("agent", "verifier")]
    _note_unsupported({"": whole, "environment": machine, "agent": agent, "verifier": verifier}, findings, where)
    place = verifier.table("environment")
    is_apart = verifier.raw("environment_mode") == "separate" or (
        "environment" in verifier and "environment_mode" not in verifier
    )
    if verifier.raw("environment_mode") not in (None, "separate", *(() if place.values else ("shared",))):
        verifier.problem("environment_mode", "'separate'" if place.values else "'shared' or 'separate'")
    networks = (machine, agent, *of_steps) if is_apart else (machine, agent, verifier, *of_steps)
    metadata = whole.table("metadata")
    read = replace(
        _read_machine(machine, _network(network, *networks)),
        metadata=metadata,
        worker_labels=metadata.texts("worker_labels"),
        task=whole.table("task")
        if isinstance(whole.values.get("task"), dict)
        else FieldTable({}, source, findings, "task"),
        agent_timeout_seconds=agent.number("timeout_sec", DEFAULT_SECONDS, 1, DAY),
        verifier_timeout_seconds=verifier.number("timeout_sec", DEFAULT_SECONDS, 1, DAY),
        verifier_environment=verifier.variables("env"),
        solution_environment=solution.variables("env"),
        last_step_decides=whole.raw("multi_step_reward_strategy") == "final",
    )
    if is_apart:
        own = read if not place.values else _read_machine(place, _network(network, place, verifier))
        _note_unsupported({"": place, "environment": place, "agent": place, "verifier": place}, findings, where)
        read = replace(read, verifier_place=own, artifacts=_artifacts(whole))
    elif whole.raw("artifacts"):
        findings.note("task.toml: artifacts has no effect, files that a task leaves are not collected", where)
    read = replace(read, steps=tuple(_read_step(step, read, findings, where) for step in steps))
    solution.raw("timeout_sec")
    _note_variables(read, findings, where)
    for name in DESCRIBING:
        whole.raw(name)
    for table in (whole, machine, agent, verifier, solution, place, *steps, *of_steps):
        for name in table.list_unasked():
            findings.note(f"task.toml: {table.at(name)[:100]} is unknown and has no effect", where)
    return read


def _read_machine(machine: FieldTable, network: bool) -> TaskToml:
    """The fields of [environment], or of [verifier.environment]."""
    nothing = FieldTable({}, machine.source, machine.findings)
    workdir = machine.text("workdir", "")
    if workdir and not workdir.startswith("/"):
        machine.problem("workdir", "an absolute folder of the container")
    return TaskToml(
        metadata=nothing,
        task=nothing,
        build_timeout_seconds=machine.number("build_timeout_sec", DEFAULT_SECONDS, 1, DAY),
        image=machine.text("docker_image", "") or None,
        cpus=machine.number("cpus", 1.0, 0.01, 1_024),
        memory_mb=_mebibytes(machine, "memory", 2_048),
        storage_mb=_mebibytes(machine, "storage", 10_240),
        network=network,
        environment=machine.variables("env"),
        host_variables=_host_variables(machine),
        skills_dir=_absolute(machine.text("skills_dir", "")),
        workdir=workdir.rstrip("/") or "/" if workdir.startswith("/") else "",
    )


def _list_steps(whole: FieldTable) -> list[FieldTable]:
    """[[steps]], by their names. Harbor expects one folder for each, below steps/."""
    value = whole.raw("steps")
    entries = value if isinstance(value, list) else [] if value is None else [value]
    steps = [
        FieldTable(entry, whole.source, whole.findings, f"steps[{place}]")
        for place, entry in enumerate(entries)
        if isinstance(entry, dict) and all(isinstance(key, str) for key in entry)
    ]
    if len(steps) != len(entries) or len(steps) > MAX_STEPS:
        whole.problem("steps", f"at most {MAX_STEPS} tables [[steps]]")
    names = [str(step.raw("name")) for step in steps]
    for name, step in zip(names, steps, strict=True):
        if not _STEP_NAME.fullmatch(name) or [each.casefold() for each in names].count(name.casefold()) > 1:
            step.problem("name", "a name of its own, of letters, digits, '.', '_', '-' and blanks")
    return steps


def _read_step(step: FieldTable, toml: TaskToml, findings: Findings, where: str) -> StepToml:
    """Read a step. Missing fields are the task's."""
    agent, verifier = step.table("agent"), step.table("verifier")
    _note_unsupported({"": step, "environment": step, "agent": agent, "verifier": verifier}, findings, where)
    for name in ("environment", "environment_mode"):
        if verifier.raw(name) not in (None, "shared"):
            refuse(verifier, name, "step-verifier")
    if step.raw("artifacts"):
        findings.note("task.toml: artifacts of a step have no effect", where)
    least = step.raw("min_reward")
    thresholds = FieldTable(
        least if isinstance(least, dict) else {} if least is None else {"reward": least},
        step.source,
        findings,
        step.at("min_reward"),
    )
    return StepToml(
        name=str(step.raw("name")),
        agent_timeout_seconds=agent.number("timeout_sec", toml.agent_timeout_seconds, 1, DAY),
        verifier_timeout_seconds=verifier.number("timeout_sec", toml.verifier_timeout_seconds, 1, DAY),
        verifier_environment={**toml.verifier_environment, **verifier.variables("env")},
        min_reward={name: thresholds.number(name, 0.0, -1e9, 1e9) for name in thresholds.values},
    )


def _artifacts(whole: FieldTable) -> tuple[str, ...]:
    """Absolute paths of the agent's container. Anything collected from services, or in parts, is refused."""
    value, found = whole.raw("artifacts"), list[str]()
    for entry in value if isinstance(value, list) else ():
        given = entry if isinstance(entry, dict) else {"source": entry}
        path = given.get("source")
        if given.get("service") not in (None, "main") or given.get("exclude"):
            refuse(whole, "artifacts", "collect")
        elif not isinstance(path, str) or not path.startswith("/") or ".." in path.split("/"):
            whole.problem("artifacts", "absolute paths", f"found {shorten_suite_value(path)}")
        else:
            found.append(path.rstrip("/"))
    return tuple(dict.fromkeys(found))


def _note_version(whole: FieldTable, findings: Findings, where: str) -> None:
    """Note an unknown schema version. The fields decide: people number their tasks as they like ("0.0")."""
    name = "schema_version" if "schema_version" in whole else "version"
    value = whole.raw(name)
    if value is not None and str(value) not in VERSIONS:
        findings.note(f"task.toml: {name} is {shorten_suite_value(value)}; it was read as {VERSIONS[-1]}", where)


def _note_unsupported(tables: dict[str, FieldTable], findings: Findings, where: str) -> None:
    for table, name, feature in UNSUPPORTED:
        if tables[table].raw(name) not in (None, [], {}, "root"):  # our images run as "root"
            refuse(tables[table], name, feature)
    for table, name, why in WITHOUT_EFFECT:
        if tables[table].raw(name):
            findings.note(f"task.toml: {tables[table].at(name)} has no effect, {why}", where)
    machine = tables["environment"]
    if str(machine.raw("os") or "linux").lower() == "windows":
        refuse(machine, "os", "windows")
    elif str(machine.raw("os") or "linux").lower() != "linux":
        machine.problem("os", "'linux'")
    machine.raw("gpu_types")
    if machine.raw("gpus") not in (None, 0):
        refuse(machine, "gpus", "gpu", shorten_suite_value(machine.values["gpus"]))


def _network(default: bool, machine: FieldTable, *others: FieldTable) -> bool:
    """Can the task reach the outside? Harbor's default is yes. The same for agent and verifier."""
    answers = {name: value for name in ("allow_internet",) if (value := machine.flag(name)) is not None}
    for table in (machine, *others):
        mode = table.raw("network_mode")
        if mode is None:
            continue
        if mode in ("public", "no-network"):
            answers[table.at("network_mode")] = mode == "public"
        else:
            if mode == "allowlist":
                refuse(table, "network_mode", "allowed-hosts")
            else:
                table.problem("network_mode", "'public' or 'no-network'")
    if len(set(answers.values())) > 1:
        refuse(machine, "network_mode", "several-networks", shorten_suite_value(", ".join(map(str, answers))))
    return next(iter(answers.values()), default)


def _mebibytes(machine: FieldTable, name: str, default: int) -> int:
    """memory_mb, or the legacy memory = "2G". A legacy number is bytes, as in Docker."""
    legacy = machine.raw(name)
    if legacy is None:
        return int(machine.number(f"{name}_mb", default, 1, MAX_MIB))
    machine.raw(f"{name}_mb")
    match = _SIZE.fullmatch(str(legacy).strip()) if not isinstance(legacy, dict | list) else None
    size = float(match[1]) * _MIB[match[2].upper()] if match and len(match[1]) < 20 else 0.0
    if not 1 <= size <= MAX_MIB:
        machine.problem(name, 'a size such as "2G" or "512M"')
        return default
    return int(size)


def _host_variables(machine: FieldTable) -> tuple[str, ...]:
    names = machine.texts("required_env")
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            machine.problem("required_env", "names of environment variables", f"found {shorten_suite_value(name)}")
    return names


def _absolute(folder: str) -> str:
    return folder.rstrip("/") if folder.startswith("/") else ""


def _note_variables(read: TaskToml, findings: Findings, where: str) -> None:
    for name in read.host_variables:
        findings.note(f"Needs {name} of the host; list it in SKILLGLASS_TASK_VARIABLES of every worker", where)
    given: dict[str, str] = {**read.environment, **read.verifier_environment, **read.solution_environment}
    for name in sorted(find_named_variables(given) - set(read.host_variables)):
        findings.note(f"Names {name} of the host, passed on only if SKILLGLASS_TASK_VARIABLES lists it", where)

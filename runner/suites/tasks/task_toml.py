"""task.toml in all its dialects: Harbor's versions 1.0 to 1.4, the legacy names, and what the benchmarks add to it.

Source: the format of Harbor's task directory. Fields that change what is measured and that this runner does not carry
out are problems, never ignored; fields that only describe are taken in silence; fields that nobody knows are notes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from runner.base.host_variables import find_named_variables
from runner.suites.documents import FieldTable, read_toml
from runner.suites.findings import Findings, shorten_suite_value

VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
DEFAULT_SECONDS = 600.0  # Harbor's for the verifier and the build; an agent without a limit gets the same
DAY = 86_400.0
MAX_MIB = 16 * 1024 * 1024
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_MIB = {"": 1 / 1024**2, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}

# Tables and fields that describe a task without changing how it runs.
DESCRIBING = ("metadata", "task", "source", "evaluation", "multi_step_reward_strategy", "reward")
# Fields that would change what is measured: (table, field, what it asks for).
UNSUPPORTED = (
    ("", "steps", "tasks of several steps"),
    ("environment", "mcp_servers", "servers of the model context protocol"),
    ("environment", "tpu", "a TPU"),
    ("environment", "allowed_hosts", "a list of hosts it may reach"),
    ("environment", "healthcheck", "a health check before the agent starts"),
    ("environment", "workdir", "a working directory other than its image's"),
    ("agent", "user", "an agent that is another user than the image's"),
    ("agent", "allowed_hosts", "a list of hosts the agent may reach"),
    ("agent", "disallowed_tools", "an agent without some of its tools"),
    ("verifier", "user", "a verifier that is another user than the image's"),
    ("verifier", "environment", "an environment of the verifier's own"),
    ("verifier", "collect", "commands that collect results before the verifier"),
    ("verifier", "allowed_hosts", "a list of hosts the verifier may reach"),
)
WITHOUT_EFFECT = (
    (
        "environment",
        "skills_dir",
        "the library is mounted where each agent looks for it, and skills at that place are left out",
    ),
    ("", "artifacts", "files that a task leaves are not collected"),
)


@dataclass(frozen=True, slots=True)
class TaskToml:
    """Seconds, MiB and texts. metadata and task are as they stand in the file."""

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


def read_task_toml(source: Path, where: str, findings: Findings, *, network: bool = True) -> TaskToml:
    """The file's fields, with Harbor's defaults for those it leaves out; `network` is the default for network.

    SuiteError when it cannot be read at all.
    """
    whole = FieldTable(read_toml(source), source, findings)
    _note_version(whole, findings, where)
    machine, agent, verifier, solution = (
        whole.table(name) for name in ("environment", "agent", "verifier", "solution")
    )
    tables = {"": whole, "environment": machine, "agent": agent, "verifier": verifier}
    _note_unsupported(tables, findings, where)
    read = TaskToml(
        metadata=whole.table("metadata"),
        task=whole.table("task")
        if isinstance(whole.values.get("task"), dict)
        else FieldTable({}, source, findings, "task"),
        agent_timeout_seconds=agent.number("timeout_sec", DEFAULT_SECONDS, 1, DAY),
        verifier_timeout_seconds=verifier.number("timeout_sec", DEFAULT_SECONDS, 1, DAY),
        build_timeout_seconds=machine.number("build_timeout_sec", DEFAULT_SECONDS, 1, DAY),
        image=machine.text("docker_image", "") or None,
        cpus=machine.number("cpus", 1.0, 0.01, 1_024),
        memory_mb=_mebibytes(machine, "memory", 2_048),
        storage_mb=_mebibytes(machine, "storage", 10_240),
        network=_network(network, machine, agent, verifier),
        environment=machine.variables("env"),
        verifier_environment=verifier.variables("env"),
        solution_environment=solution.variables("env"),
        host_variables=_host_variables(machine),
        skills_dir=_absolute(machine.text("skills_dir", "")),
    )
    solution.raw("timeout_sec")
    _note_variables(read, findings, where)
    for name in DESCRIBING:
        whole.raw(name)
    for table in (whole, machine, agent, verifier, solution):
        for name in table.list_unasked():
            findings.note(f"task.toml: {table.at(name)[:100]} is unknown and has no effect", where)
    return read


def _note_version(whole: FieldTable, findings: Findings, where: str) -> None:
    """Notes an unknown schema version. The fields decide: people number their tasks as they like ("0.0")."""
    name = "schema_version" if "schema_version" in whole else "version"
    value = whole.raw(name)
    if value is not None and str(value) not in VERSIONS:
        findings.note(f"task.toml: {name} is {shorten_suite_value(value)}; it was read as {VERSIONS[-1]}", where)


def _note_unsupported(tables: dict[str, FieldTable], findings: Findings, where: str) -> None:
    for table, name, what in UNSUPPORTED:
        if tables[table].raw(name) not in (None, [], {}, "root"):  # "root" is who our images run as
            tables[table].problem(name, "nothing", f"it asks for {what}, which is not supported")
    for table, name, why in WITHOUT_EFFECT:
        if tables[table].raw(name):
            findings.note(f"task.toml: {tables[table].at(name)} has no effect, {why}", where)
    if tables["verifier"].raw("environment_mode") not in (None, "shared"):
        tables["verifier"].problem(
            "environment_mode", "'shared'", "it asks for a verifier in a place of its own, which is not supported"
        )
    machine = tables["environment"]
    if machine.raw("os") not in (None, "linux"):
        machine.problem("os", "'linux'")
    machine.raw("gpu_types")
    if machine.raw("gpus") not in (None, 0):
        machine.problem(
            "gpus", "0", f"it asks for {shorten_suite_value(machine.values['gpus'])} GPUs, which is not supported"
        )


def _network(default: bool, machine: FieldTable, *others: FieldTable) -> bool:
    """Harbor's default is a task that reaches the outside. One answer for agent and verifier alike."""
    answers = {name: value for name in ("allow_internet",) if (value := machine.flag(name)) is not None}
    for table in (machine, *others):
        mode = table.raw("network_mode")
        if mode is None:
            continue
        if mode in ("public", "no-network"):
            answers[table.at("network_mode")] = mode == "public"
        else:
            message = "it asks for a list of hosts, which is not supported" if mode == "allowlist" else ""
            table.problem("network_mode", "'public' or 'no-network'", message)
    if len(set(answers.values())) > 1:
        machine.problem(
            "network_mode",
            "one answer for the whole task",
            f"found {shorten_suite_value(', '.join(map(str, answers)))}",
        )
    return next(iter(answers.values()), default)


def _mebibytes(machine: FieldTable, name: str, default: int) -> int:
    """memory_mb, or the legacy memory = "2G"; a legacy number is bytes, as Docker has it."""
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

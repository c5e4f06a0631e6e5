"""The folder format of suites: close to SkillEvolBench's (which builds on Harbor's), one folder per task.

suite.yaml                    key, name, version, trusted, shared_tests, environments in order
skills/<slug>/meta.yaml       family: key, name, description, tasks in order
skills/<slug>/SKILL.md ...    its curated skill; meta.yaml is not part of it
tasks/<slug>/task.toml        time limits and the machine, as in Harbor's; network only on request
tasks/<slug>/task-spec.yaml   id, family, role, what a composition draws on
tasks/<slug>/{instruction.md, environment/, tests/, solution/, trap/}
groups.yaml                   groups for results (`families.py`); may be missing
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.base.digests import digest_json, manifest
from runner.base.errors import SuiteError
from runner.base.suite import Suite
from runner.base.types import Environment, Family, File, Files, Role, Task, TaskGroups
from runner.suites.documents import Findings, read_yaml, shorten_suite_value
from runner.suites.tasks.task_files import read_tree, without_trap
from runner.suites.tasks.task_folder import NAME, SCRIPT, TaskShelf, has_verifier, machine_of, read_declared_evaluation
from runner.suites.tasks.task_groups import read_stated
from runner.suites.tasks.task_toml import read_task_toml

FORMAT = "skillglass-suite/1"
ROLES = tuple(Role)


def read_suite(path: Path) -> Suite:
    """Read the bundled suite in the folder `path`. SuiteError names the file, the place in it and the expectation."""
    findings = Findings()
    head, environments = _read(path, findings)
    if problems := findings.all_problems():
        raise problems[0]
    return _suite(path, head, environments)


def _suite(path: Path, head: Mapping[str, object], environments: tuple[Environment, ...]) -> Suite:
    tasks = {task.key: task.digest for each in environments for task in each.tasks}
    curated = {family.key: manifest(family.curated) for each in environments for family in each.families}
    source = path / "suite.yaml"
    return Suite(
        key=_text(head, "key", source),
        name=_text(head, "name", source),
        version=_text(head, "version", source),
        digest=digest_json([FORMAT, tasks, curated]),
        environments=environments,
        trusted=_flag(head, "trusted", source),
    )


# --- as one of the formats of runner.suites ---------------------------------------------------------------------


def looks_like(path: Path) -> bool:
    """Other tools have a suite.yaml too; ours names its format."""
    source = path / "suite.yaml"
    return source.is_file() and FORMAT.encode() in source.read_bytes()[:10_000]


def roots(path: Path) -> tuple[Path, ...]:
    return (path,)


def read(path: Path, key: str, shelf: TaskShelf) -> tuple[Environment, ...]:
    return _read(path, shelf.findings)[1]


def complete(path: Path, suite: Suite) -> Suite:
    """Add the names from suite.yaml. A suite cannot call itself trusted."""
    named = _suite(path, read_yaml(path / "suite.yaml"), suite.environments)
    return replace(named, trusted=False, notes=suite.notes, set_aside=suite.set_aside, account=suite.account)


def _read(path: Path, findings: Findings) -> tuple[dict[str, object], tuple[Environment, ...]]:
    source = path / "suite.yaml"
    head = read_yaml(source)
    if head.get("format") != FORMAT:
        raise SuiteError(str(source), "format", repr(FORMAT), f"found {shorten_suite_value(head.get('format'))}")
    for name in ("key", "name", "version"):
        with findings.keep_errors():
            _text(head, name, source)
    shared = _read_shared_tests(path, head, source)
    environments = []
    for place, entry in enumerate(_list(head, "environments", source)):
        with findings.keep_errors():
            environments.append(
                _environment(path, shared, _mapping(entry, source, f"environments[{place}]"), source, place, findings)
            )
    with findings.keep_errors():
        _refuse_repeats(tuple(environments), source)
    return head, tuple(environments)


def _read_shared_tests(path: Path, head: Mapping[str, object], source: Path) -> Files:
    names = head.get("shared_tests") or []
    if not isinstance(names, list) or not all(isinstance(name, str) and "/" not in name for name in names):
        raise SuiteError(str(source), "shared_tests", "a list of file names", f"found {names!r}")
    missing = [name for name in names if (path / name).is_symlink() or not (path / name).is_file()]
    if missing:
        raise SuiteError(
            str(source), "shared_tests", "plain files next to suite.yaml", f"{missing[0]} is not a plain file"
        )
    return {name: File((path / name).read_bytes()) for name in names}


def _environment(
    path: Path, shared: Files, entry: Mapping[str, object], source: Path, place: int, findings: Findings
) -> Environment:
    key = _text(entry, "key", source, f"environments[{place}].key")
    families = []
    for slug in map(str, _list(entry, "families", source, f"environments[{place}].families")):
        members: list[Path] = []
        read = partial(_family, path, shared, key, slug, findings, members)
        family = findings.apart(f"family {slug}", read, members=members)
        families += [family] if family else []
    return Environment(key, _text(entry, "name", source, f"environments[{place}].name"), tuple(families))


def _family(path: Path, shared: Files, environment: str, slug: str, findings: Findings, members: list[Path]) -> Family:
    """`members` gets the folders of its tasks, so that each can be counted if the family is set aside."""
    folder = path / "skills" / _folder_name(slug, path / "suite.yaml", f"environments: {environment}")
    source = folder / "meta.yaml"
    meta = read_yaml(source)
    if meta.get("slug") != slug:
        raise SuiteError(str(source), "slug", f"the folder's name {slug!r}", f"found {meta.get('slug')!r}")
    curated = {f"{slug}/{name}": file for name, file in read_tree(folder).items() if name != "meta.yaml"}
    if f"{slug}/SKILL.md" not in curated:
        raise SuiteError(str(folder), "SKILL.md", "a curated skill", "there is none")
    names = _list(meta, "tasks", source)
    if len(names) != len(ROLES):
        raise SuiteError(str(source), "tasks", f"{len(ROLES)} tasks, one per role", f"found {len(names)}")
    key = _text(meta, "key", source)
    tasks = []
    for ordinal, name in enumerate(names, 1):
        with findings.keep_errors():
            place = path / "tasks" / _folder_name(str(name), source, f"tasks[{ordinal - 1}]")
            members.append(place)
            tasks.append(_task(place, shared, environment, key, ordinal, findings))
    name, description = _text(meta, "name", source), _text(meta, "description", source)
    return Family(key, slug, name, description, environment, tuple(tasks), curated)


def _folder_name(name: str, source: Path, place: str) -> str:
    """A name that does not lead to another folder."""
    if not NAME.fullmatch(name):
        raise SuiteError(str(source), place, "the name of a folder", f"found {shorten_suite_value(name)}")
    return name


def _task(folder: Path, shared: Files, environment: str, family: str, ordinal: int, findings: Findings) -> Task:
    source = folder / "task-spec.yaml"
    spec, toml = read_yaml(source), read_task_toml(folder / "task.toml", folder.name, findings, network=False)
    for place, expected in (("family_id", family), ("environment_id", environment), ("task_index", ordinal)):
        if spec.get(place) != expected:
            raise SuiteError(str(source), place, repr(expected), f"found {spec.get(place)!r}")
    role = ROLES[ordinal - 1]
    if spec.get("role") != role:
        raise SuiteError(
            str(source), "role", f"{role.value!r} for the family's task {ordinal}", f"found {spec.get('role')!r}"
        )
    files = read_tree(folder)
    verifier = () if has_verifier(files) else (SCRIPT,)
    for needed in ("instruction.md", *verifier, "tests/rubric.yaml", "solution/solve.sh"):
        if needed not in files:
            raise SuiteError(str(folder), needed, "the file", "there is none")
    machine = machine_of(folder, toml, files, findings)
    left_out = [{"left_out": list(machine.blank_folders)}] if machine.blank_folders else []
    named = spec.get("requires")
    requires = tuple(map(str, named)) if isinstance(named, list) else ()
    if (role is Role.COMPOSITION) != bool(requires):
        raise SuiteError(
            str(source), "requires", "the families a composition draws on, nowhere else", f"found {requires}"
        )
    return Task(
        key=_text(spec, "task_id", source),
        title=_text(spec, "title", source),
        environment=environment,
        family=family,
        role=role,
        ordinal=ordinal,
        instruction=_instruction(files["instruction.md"], folder),
        digest=digest_json([FORMAT, manifest(without_trap(files)), manifest(shared), *left_out]),
        folder=folder,
        agent_timeout_seconds=toml.agent_timeout_seconds,
        verifier_timeout_seconds=toml.verifier_timeout_seconds,
        requires=requires,
        shared_tests=tuple(folder.parent.parent / name for name in shared),
        machine=machine,
        verifier_environment=toml.verifier_environment,
        solution_environment=toml.solution_environment,
        evaluation=read_declared_evaluation(folder, files, findings),
        groups={**read_stated(toml.metadata), **_composition(family, requires)},
    )


def _composition(family: str, requires: tuple[str, ...]) -> TaskGroups:
    """Name the composition in SkillEvolBench's words."""
    if not requires:
        return {}
    return {"composition": ("within_family" if set(requires) <= {family} else "cross_family",)}


def _instruction(file: File, folder: Path) -> str:
    try:
        return file.content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SuiteError(str(folder), "instruction.md", "a text in UTF-8", str(error)) from error


def _refuse_repeats(environments: tuple[Environment, ...], source: Path) -> None:
    seen: set[str] = set()
    for environment in environments:
        families = environment.families
        keys = [
            environment.key,
            *(each.key for each in families),
            *(task.key for each in families for task in each.tasks),
        ]
        for key in keys:
            if key in seen:
                raise SuiteError(str(source), "environments", "every key once", f"{key!r} occurs twice")
            seen.add(key)


def _mapping(value: object, source: Path, place: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SuiteError(str(source), place, "a mapping", f"found {type(value).__name__}")
    return value


def _list(value: Mapping[str, object], name: str, source: Path, place: str = "") -> list[object]:
    found = value.get(name)
    if not isinstance(found, list) or not found:
        raise SuiteError(str(source), place or name, "a list with at least one entry", f"found {found!r}")
    return found


def _text(value: Mapping[str, object], name: str, source: Path, place: str = "") -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found.strip():
        raise SuiteError(str(source), place or name, "a text", f"found {found!r}")
    return found.strip()


def _flag(value: Mapping[str, object], name: str, source: Path) -> bool:
    found = value.get(name, False)
    if not isinstance(found, bool):
        raise SuiteError(str(source), name, "true or false", f"found {found!r}")
    return found

"""SkillEvolBench: up to six environments of families with six tasks each, one per role, and a curated skill.

benchmark/skills/<slug>/{meta.yaml, SKILL.md, ...}     a family
benchmark/tasks/<slug>/{task-spec.yaml, a Harbor task}

A copy of a few families is a suite too; a family with some of its six tasks is not. Source: the release's file formats
and the rules of its loader; ids and roles are the paper's (section 3.2).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner.base.errors import SuiteError
from runner.base.types import ACQUISITION_ROLES, Environment, Family, Files, Role, Task, TaskGroups
from runner.suites.documents import FieldTable, read_yaml, shorten_suite_value
from runner.suites.harbor import holds_tasks, is_task
from runner.suites.tasks.task_files import read_tree
from runner.suites.tasks.task_folder import NAME, TaskFolder, TaskShelf, folders_in, mostly
from runner.suites.tasks.task_groups import read_values

ENVIRONMENTS = {
    "E1": "code-debugging-modification",
    "E2": "multi-step-tool-api-orchestration",
    "E3": "data-processing-structured-query",
    "E4": "document-parsing-extraction-transformation",
    "E5": "research-information-synthesis",
    "E6": "communication-scheduling-operations",
}
ROLES = tuple(Role)
FAMILY = re.compile(r"(E[1-6])-LS[1-5]")
TASK = re.compile(r"(E[1-6]-LS[1-5])-T([1-6])")
SKILL = re.compile(r"(E[1-6]-LS[1-5])\.[A-Za-z0-9][A-Za-z0-9_-]*")
PLACES = {
    "task_toml": "task.toml",
    "instruction": "instruction.md",
    "tests": "tests",
    "environment": "environment",
    "solution": "solution",
}
COMPOSITIONS = ("within_family", "cross_family")
# field of task-spec.yaml -> attribute; the gap is in task.toml
GROUPED = {
    "domain_group": "domain",
    "within_family_difficulty_rank": "rank",
    "trap_types": "trap",
    "composition_type": "composition",
}


@dataclass(frozen=True, slots=True)
class Meta:
    """skills/<slug>/meta.yaml with its skill. Its summaries of the gaps state the traps and are never read."""

    key: str
    slug: str
    name: str
    description: str
    skill: str  # id of the latent skill
    curated: Files


@dataclass(frozen=True, slots=True)
class Spec:
    """task-spec.yaml, checked, with its task folder."""

    key: str
    family: str
    index: int
    skill: str
    requires: tuple[str, ...]  # families
    folder: TaskFolder
    groups: TaskGroups


def looks_like(path: Path) -> bool:
    base = _base(path)
    if not _has(base) or (path / "suite.yaml").exists():
        return False
    return mostly([each for each in folders_in(base / "tasks") if _is_task(each) or holds_tasks(each)], _has_spec)


def roots(path: Path) -> tuple[Path, ...]:
    base = _base(path)
    return base / "tasks", base / "skills"


def read(path: Path, key: str, shelf: TaskShelf) -> tuple[Environment, ...]:
    base = _base(path)
    if not _has(base):
        raise SuiteError(str(base), "folder", "the folders tasks and skills", "they are not there")
    metas = _metas(base / "skills", shelf)
    specs = _specs(base / "tasks", metas, shelf)
    read = [
        shelf.findings.apart(
            f"family {meta.slug}", partial(_family, meta, specs, shelf), members=_list_members(meta, specs)
        )
        for _, meta in sorted(metas.items())
    ]
    families = [family for family in read if family is not None]
    return tuple(
        Environment(key, name.replace("-", " ").capitalize(), found)
        for key, name in ENVIRONMENTS.items()
        if (found := tuple(family for family in families if family.environment == key))
    )


def _base(path: Path) -> Path:
    return path / "benchmark" if _has(path / "benchmark") else path


def _has(base: Path) -> bool:
    return (base / "tasks").is_dir() and (base / "skills").is_dir()


def _has_spec(path: Path) -> bool:
    return (path / "task-spec.yaml").exists()


def _is_task(path: Path) -> bool:
    return _has_spec(path) or is_task(path)


# --- families ---------------------------------------------------------------------------------------------------


def _metas(folder: Path, shelf: TaskShelf) -> dict[str, Meta]:
    found: dict[str, Meta] = {}
    for each in folders_in(folder):
        meta = shelf.findings.apart(f"family {each.name}", partial(_meta, each, found, shelf), family=each)
        if meta is not None:
            found[meta.key] = meta
    return found


def _meta(folder: Path, known: Mapping[str, Meta], shelf: TaskShelf) -> Meta:
    if folder.is_symlink() or not NAME.fullmatch(folder.name):
        raise SuiteError(
            str(folder), "folder", "a folder named by its slug", f"found {shorten_suite_value(folder.name)}"
        )
    table = FieldTable(read_yaml(folder / "meta.yaml"), folder / "meta.yaml", shelf.findings)
    key = table.text("family_id")
    match = FAMILY.fullmatch(key)
    if key and match is None:
        table.problem("family_id", "E1-LS1 to E6-LS5")
    _equal(table, "environment_id", match[1] if match else None)
    _equal(table, "slug", folder.name)
    _equal(table, "curated_skill_path", "SKILL.md", needed=False)
    _equal(table, "task_ids", [f"{key}-T{index}" for index in range(1, 7)], needed=False)
    skill = table.text("latent_skill_id")
    if match and skill and not _of_family(skill, key):
        table.problem("latent_skill_id", f"{key}.<slug>")
    name, description = table.text("name"), table.text("description", longest=5_000)
    curated = {f"{folder.name}/{path}": file for path, file in read_tree(folder).items() if path != "meta.yaml"}
    if f"{folder.name}/SKILL.md" not in curated:
        shelf.findings.problem(folder, "SKILL.md", "a curated skill", "there is none")
    if key in known:
        message = f"{key} is also the family of skills/{known[key].slug}"
        table.problem("family_id", "every family once", message)
    return Meta(key, folder.name, name, description, skill, curated)


def _list_members(meta: Meta, specs: Mapping[str, Spec]) -> list[Path]:
    return [specs[key].folder.path for index in range(1, 7) if (key := f"{meta.key}-T{index}") in specs]


def _family(meta: Meta, specs: Mapping[str, Spec], shelf: TaskShelf) -> Family | None:
    """None if none of its tasks is here. A family with only some of its tasks cannot be used."""
    found = [specs[key] for index in range(1, 7) if (key := f"{meta.key}-T{index}") in specs]
    if not found:
        if not shelf.findings.set_aside:
            shelf.findings.note("Left out, a family without tasks here", meta.key)
        return None
    missing = [role.value for index, role in enumerate(ROLES, start=1) if f"{meta.key}-T{index}" not in specs]
    if missing:
        source = found[0].folder.path.parent.parent / "skills" / meta.slug
        raise SuiteError(str(source), meta.key, "six tasks, one per role", f"there is none for {', '.join(missing)}")
    tasks = tuple(_task(spec, shelf, specs) for spec in found)
    return Family(meta.key, meta.slug, meta.name, meta.description, meta.key[:2], tasks, meta.curated)


# --- tasks ------------------------------------------------------------------------------------------------------


def _specs(folder: Path, metas: Mapping[str, Meta], shelf: TaskShelf) -> dict[str, Spec]:
    found: dict[str, Spec] = {}
    for each in folders_in(folder):
        if not _is_task(each):
            shelf.findings.note("Left out, not a task", each.name)
            continue
        spec = shelf.findings.apart(f"task {each.name}", partial(_spec, each, metas, found, shelf), task=each)
        if spec is not None:
            found[spec.key] = spec
    return found


def _spec(path: Path, metas: Mapping[str, Meta], known: Mapping[str, Spec], shelf: TaskShelf) -> Spec | None:
    folder = shelf.read(path)
    table = FieldTable(read_yaml(path / "task-spec.yaml"), path / "task-spec.yaml", shelf.findings)
    key = table.text("task_id")
    match = TASK.fullmatch(key)
    if match is None:
        if key:
            table.problem("task_id", "E1-LS1-T1 to E6-LS5-T6")
        return None
    family, index = match[1], int(match[2])
    meta = metas.get(family)
    _identity(table, path.name, family, index, meta)
    requires = _requires(table, family, index)
    if meta is None:
        table.problem("family_id", "a family of skills/*/meta.yaml", f"{family} is not there, or cannot be read")
    if key in known:
        message = f"{key} is also the id of tasks/{known[key].folder.path.name}"
        table.problem("task_id", "every task once", message)
    if folder is None or meta is None:
        return None
    _compare_metadata(folder, key, index, meta, shelf)
    return Spec(key, family, index, meta.skill, requires, folder, _groups(table))


def _groups(table: FieldTable) -> TaskGroups:
    found = {attribute: read_values(table.raw(field)) for field, attribute in GROUPED.items() if field in table}
    return {attribute: values for attribute, values in found.items() if values and values != ("none",)}


def _identity(table: FieldTable, slug: str, family: str, index: int, meta: Meta | None) -> None:
    role = ROLES[index - 1]
    _equal(table, "task_slug", slug)
    _equal(table, "environment_id", family[:2])
    _equal(table, "family_id", family)
    _equal(table, "task_index", index)
    _equal(table, "role", role.value)
    _equal(table, "phase", "learning" if role in ACQUISITION_ROLES else "evaluation")
    if meta is not None:
        _equal(table, "latent_skill_id", meta.skill)
    place = table.table("harbor")
    for name, expected in PLACES.items():
        value = place.raw(name)
        if value is not None and not _leads_to(str(value), expected):
            place.problem(name, f"{expected!r} or a file in it")


def _leads_to(value: str, expected: str) -> bool:
    return posixpath.normpath(value) == expected or posixpath.normpath(value).startswith(f"{expected}/")


def _requires(table: FieldTable, family: str, index: int) -> tuple[str, ...]:
    """Families a composition draws on, its own first. Only T6 has any, and only T5 may name traps."""
    skills, order = table.texts("required_skills"), table.texts("required_skill_compose_order")
    kind, primary = table.text("composition_type", "none"), table.text("primary_skill", "")
    if index != 5 and table.texts("trap_types"):
        table.problem("trap_types", "none but for T5")
    if ROLES[index - 1] is not Role.COMPOSITION:
        if skills or kind != "none":
            table.problem("required_skills" if skills else "composition_type", "none but for T6")
        return ()
    wrong = [skill for skill in skills if not SKILL.fullmatch(skill)]
    if not skills or wrong:
        table.problem(
            "required_skills",
            "ids of skills, such as E1-LS1.slug",
            f"found {shorten_suite_value(wrong[0])}" if wrong else "",
        )
        return ()
    if kind not in COMPOSITIONS:
        table.problem("composition_type", " or ".join(COMPOSITIONS))
    if primary not in skills:
        table.problem("primary_skill", "one of required_skills")
    if order and set(order) != set(skills):
        table.problem("required_skill_compose_order", "the skills of required_skills, in another order at most")
    return tuple(dict.fromkeys([family, *(skill.partition(".")[0] for skill in skills)]))


def _compare_metadata(folder: TaskFolder, key: str, index: int, meta: Meta, shelf: TaskShelf) -> None:
    """Compare task.toml with task-spec.yaml, which counts. A note names each field that differs."""
    role = ROLES[index - 1]
    expected = {
        "task_id": key,
        "role": role.value,
        "skill_id": key.rpartition("-")[0],
        "environment": ENVIRONMENTS[key[:2]],
        "split": "learning" if role in ACQUISITION_ROLES else "evaluation",
        "skill": meta.slug,
    }
    metadata = folder.toml.metadata
    for name, value in expected.items():
        if name in metadata and metadata.raw(name) != value:
            found = f"task.toml: {metadata.at(name)} is {shorten_suite_value(metadata.raw(name))}"
            shelf.findings.note(f"{found}; task-spec.yaml and meta.yaml say {value!r}", folder.path.name)


def _task(spec: Spec, shelf: TaskShelf, specs: Mapping[str, Spec]) -> Task:
    here = {each.family for each in specs.values()}
    for family in spec.requires:
        if family not in here:
            shelf.findings.note(f"Composes with {family}, which is not in this copy", spec.key)
    return spec.folder.task(
        environment=spec.family[:2],
        family=spec.family,
        ordinal=spec.index,
        key=spec.key,
        title=spec.folder.path.name,
        role=ROLES[spec.index - 1],
        requires=spec.requires,
        groups=spec.groups,
    )


def _equal(table: FieldTable, name: str, expected: object, *, needed: bool = True) -> None:
    if name not in table and not needed:
        return
    value = table.raw(name)
    if expected is not None and (value != expected or type(value) is not type(expected)):
        text = ", ".join(expected) if isinstance(expected, list) else repr(expected)
        table.problem(name, text)


def _of_family(skill: str, family: str) -> bool:
    match = SKILL.fullmatch(skill)
    return match is not None and match[1] == family

"""Which run of its job a Harbor trial belongs to: agent, model, skills given, condition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchapp.imports.reading.documents import Document
from benchapp.imports.reading.found_sources import UNKNOWN, RunSource
from benchapp.record.redaction import redact_value
from runner.base.digests import digest_json

_NO_SETTINGS = frozenset(
    "name import_path model_name skills n_concurrent concurrency_group model_api_key_name include_logs exclude_logs".split()
)
_EMPTY: tuple[Any, ...] = (None, False, "", [], {})
_NO_SKILLS = re.compile(r"(?:^|[^a-z])(?:no|without)[-_ ]?skills?(?:[^a-z]|$)", re.I)
_WITHOUT = re.compile(r"(?:^|/)without[-_]", re.I)
_GENERATED = re.compile(r"(?:self[-_ ]?gen|skills?[-_]generate|withgenerate)", re.I)
_SKILLS = re.compile(r"(?:^|[^a-z])(?:with[-_ ]?)?skills?(?:[^a-z]|$)", re.I)


@dataclass(frozen=True, slots=True)
class Skills:
    """The skills a trial was given from outside its task. names None: the files do not tell which."""

    digest: str = ""
    names: tuple[str, ...] | None = None
    is_pinned: bool = False  # by content, not by name only


@dataclass(frozen=True, slots=True)
class Harness:
    """What an agent called itself. `variant`: what tells it from another one of its job that goes by the same name."""

    name: str = ""
    version: str = ""
    variant: str = ""


def version_of(info: Document) -> str:
    """Empty where the agent could not tell."""
    version = info.text("version", 100) or ""
    return "" if version == UNKNOWN else version


def skills_of(config: Document, lock: Document) -> Skills:
    """From the lock file's content digests; else from the names in the agent's config. A task's own skills show in neither."""
    locked = list(lock.objects("skills"))
    names = tuple(sorted({name for skill in locked if (name := skill.text("name", 200))}))
    digests = sorted(digest for skill in locked if (digest := skill.text("digest", 100)))
    if digests and len(digests) == len(locked):
        return Skills(digest_json(digests), names, is_pinned=True)
    given = config.object("agent").texts("skills")
    if given or names:
        slugs = names or tuple(sorted({item.rstrip("/").rpartition("/")[2] for item in given}))
        return Skills(digest_json(sorted(given) or list(names)), slugs)
    return Skills()


def settings_of(agent: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent was told besides its model and skills, without secrets. What is empty is left out: older Harbors do
    not write it."""
    told = {key: value for key, value in agent.items() if key not in _NO_SETTINGS and value not in _EMPTY}
    settings: dict[str, Any] = redact_value(told)
    return settings


def run_of(result: Document, config: Document, skills: Skills, where: str, told: Harness) -> RunSource:
    info, agent = result.object("agent_info"), config.object("agent")
    harness = told.name or agent.text("name", 100) or _class_name(agent.text("import_path", 300))
    model = agent.text("model_name", 200) or _model(info.object("model_info"))
    setup: dict[str, Any] = {"source": "harbor"}
    if skills.digest:
        setup |= {"skills": list(skills.names or ()), "skills_pinned": skills.is_pinned}
    else:
        task = (
            config.object("task")
            if isinstance(config.raw.get("task"), dict)
            else Document(config.root, config.path, {})
        )
        setup |= suggestion(result.text("source", 300) or "", task.text("path", 1_000) or "", where)
    if told.variant:
        setup["agent_settings"] = settings_of(agent.raw)
    return RunSource(
        harness=harness or UNKNOWN,
        harness_version=told.version,
        agent_model=model or UNKNOWN,
        condition=f"skills:{skills.digest[:8]}" if skills.digest else UNKNOWN,
        skills=skills.digest,
        setup=setup,
        variant=told.variant,
    )


def suggestion(*hints: str) -> dict[str, Any]:
    """A condition that names of folders hint at. It is offered to a person, never applied."""
    for hint in hints:
        for pattern, condition in (
            (_GENERATED, "selfgen-zero-shot"),
            (_NO_SKILLS, "no-skill"),
            (_WITHOUT, "no-skill"),
            (_SKILLS, "curated-static"),
        ):
            if found := pattern.search(hint):
                return {
                    "suggested_condition": condition,
                    "suggested_by": f"{found.group().strip('/')} in {hint[-120:]}",
                }
    return {}


def _model(info: Document) -> str | None:
    name, provider = info.text("name", 150), info.text("provider", 40)
    return f"{provider}/{name}" if name and provider else name


def _class_name(import_path: str | None) -> str | None:
    return import_path.rpartition(":")[2] or import_path if import_path else None

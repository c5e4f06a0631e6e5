"""Find which run of its job a Harbor trial belongs to: agent, model, skills given, condition."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from benchapp.imports.reading.documents import Document, find_object
from benchapp.imports.reading.found_sources import UNKNOWN, RunSource, TrialHeader
from benchapp.imports.reading.walking import Root
from benchapp.record.redaction import redact_value
from runner.base.digests import digest_json
from runner.base.types import JsonValue

_NO_SETTINGS = frozenset(
    "name import_path model_name skills n_concurrent concurrency_group model_api_key_name include_logs exclude_logs".split()
)
_EMPTY: tuple[JsonValue, ...] = (None, False, "", [], {})
_HINTS = (
    (re.compile(r"(?:self[-_ ]?gen|skills?[-_]generate|withgenerate)", re.I), "selfgen-zero-shot"),
    (re.compile(r"(?:^|[^a-z])(?:no|without)[-_ ]?skills?(?:[^a-z]|$)", re.I), "no-skill"),
    (re.compile(r"(?:^|/)without[-_]", re.I), "no-skill"),
    (re.compile(r"(?:^|[^a-z])(?:with[-_ ]?)?skills?(?:[^a-z]|$)", re.I), "with-skills"),
)


@dataclass(frozen=True, slots=True)
class Skills:
    """The skills a trial was given from outside its task. names None: not in the files."""

    digest: str = ""
    names: tuple[str, ...] | None = None
    is_pinned: bool = False  # by content, not by name only


Harness = tuple[str, str, str]  # the name and version an agent gave itself; what distinguishes it from a namesake


def read_version(info: Document) -> str:
    """Return the version; empty if the agent did not know it."""
    version = info.text("version", 100) or ""
    return "" if version == UNKNOWN else version


def read_skills(config: Document, lock: Document) -> Skills:
    """Read the content digests in the lock file, else the agent's config. Neither has a task's own skills."""
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


def read_settings(agent: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the agent's settings besides its model and skills, without secrets. Empty ones are left out: older Harbors
    do not write them."""
    given = {key: value for key, value in agent.items() if key not in _NO_SETTINGS and value not in _EMPTY}
    settings: dict[str, JsonValue] = redact_value(given)
    return settings


def read_task(config: Document) -> Document:
    """Return the config's `task`; an empty object if it is something else, as in BenchFlow."""
    is_object = isinstance(config.raw.get("task"), dict)
    return config.object("task") if is_object else Document(config.root, config.path, {})


def build_run(result: Document, config: Document, skills: Skills, where: str, known: Harness) -> RunSource:
    info, agent = result.object("agent_info"), config.object("agent")
    name, version, variant = known
    path = agent.text("import_path", 300) or ""
    harness = name or agent.text("name", 100) or path.rpartition(":")[2] or path
    told = info.object("model_info")
    model, provider = told.text("name", 150), told.text("provider", 40)
    model = agent.text("model_name", 200) or (f"{provider}/{model}" if model and provider else model)
    setup: dict[str, object] = {"source": "harbor"}
    if skills.digest:
        setup |= {"skills": list(skills.names or ()), "skills_pinned": skills.is_pinned}
    else:
        folder = read_task(config).text("path", 1_000) or ""
        setup |= suggest_condition(result.text("source", 300) or "", folder, where)
    if variant:
        setup["agent_settings"] = read_settings(agent.raw)
    return RunSource(
        harness=harness or UNKNOWN,
        harness_version=version,
        agent_model=model or UNKNOWN,
        condition=f"skills:{skills.digest[:8]}" if skills.digest else UNKNOWN,
        skills=skills.digest,
        setup=setup,
        variant=variant,
    )


def suggest_condition(*hints: str) -> dict[str, str]:
    """Return a condition suggested by folder names. It is offered to a person, never applied."""
    for hint in hints:
        for pattern, condition in _HINTS:
            if found := pattern.search(hint):
                by = f"{found.group().strip('/')} in {hint[-120:]}"
                return {"suggested_condition": condition, "suggested_by": by}
    return {}


class Sibling(Protocol):
    """One trial of a job, as the others see it."""

    root: Root
    folder: Path
    header: TrialHeader


@dataclass
class Siblings:
    """The trials of one job in the order of their start, and the agents that the job's own config lists."""

    trials: Sequence[Sibling]
    agents: Sequence[Mapping[str, JsonValue]]
    _agents: dict[str, tuple[str, str]] = field(default_factory=dict)

    def harness(self, header: TrialHeader) -> Harness:
        """Return what the trial's agent called itself. For a trial killed before that, use the same agent elsewhere in
        the job. The first version seen is not a variant, so a job that continues with a newer one keeps its first
        harness."""
        name, digest = self._identify(header.agent)
        first = self._first.get((name, digest, header.harness), header)
        version = header.version or first.version
        parts = [digest] if name in self._varied else []
        if version != first.version:
            parts.append(version)
        return header.harness or first.harness, version, " ".join(parts)

    def find_pinned(self, given: Iterable[str]) -> Skills | None:
        """Return the skills of these names by content if all readable locks agree on them."""
        found = self._pinned.get(tuple(sorted(given)), set())
        return next(iter(found)) if len(found) == 1 else None

    @cached_property
    def _varied(self) -> set[str]:
        """Return the names shared by agents with different settings, among the trials or in the job's config."""
        found: set[str] = set()
        for agents in ([trial.header.agent for trial in self.trials], self.agents):
            settings: defaultdict[str, set[str]] = defaultdict(set)
            for name, digest in map(self._identify, agents):
                settings[name].add(digest)
            found.update(name for name, digests in settings.items() if len(digests) > 1)
        return found

    @cached_property
    def _first(self) -> dict[tuple[str, ...], TrialHeader]:
        """Return the first trial of each agent that has its version, else its name, by agent and that name or ""."""
        found: dict[tuple[str, ...], TrialHeader] = {}
        headers = [trial.header for trial in self.trials if trial.header.harness]
        for header in sorted(headers, key=lambda header: not header.version):
            for name in (header.harness, ""):
                found.setdefault((*self._identify(header.agent), name), header)
        return found

    def _identify(self, agent: Mapping[str, JsonValue]) -> tuple[str, str]:
        """Return the agent's name and the digest of its settings. Most trials have one of a few agents."""
        told = repr(agent)
        if told not in self._agents:
            name = digest_json([agent.get(key) for key in ("name", "import_path", "model_name", "skills")])
            self._agents[told] = name, digest_json(read_settings(agent))[:12]
        return self._agents[told]

    @cached_property
    def _pinned(self) -> dict[tuple[str, ...], set[Skills]]:
        found: defaultdict[tuple[str, ...], set[Skills]] = defaultdict(set)
        for trial in self.trials:
            quiet, path = trial.root.mute(), trial.folder / "lock.json"  # each trial reports its own lock
            lock = find_object(quiet, path)
            config = Document(quiet, path, {"agent": dict(trial.header.agent)})
            if lock is not None and (skills := read_skills(config, lock)).is_pinned:
                found[tuple(sorted(config.object("agent").texts("skills")))].add(skills)
        return found

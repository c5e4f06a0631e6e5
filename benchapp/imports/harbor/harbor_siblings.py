"""What the trials of one Harbor job show about each other: which of their agents differ, and which skills a trial with
an unreadable lock had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from benchapp.imports.harbor.harbor_run import Harness, Skills, read_settings, read_skills
from benchapp.imports.reading.documents import Document, find_object
from benchapp.imports.reading.found_sources import TrialHeader
from benchapp.imports.reading.walking import Root
from runner.base.digests import digest_json
from runner.base.types import JsonValue


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
        name, digest = self._agent(header)
        first = self._first.get((name, digest, header.harness), header)
        version = header.version or first.version
        parts = [digest] if name in self._varied else []
        if version != first.version:
            parts.append(version)
        return Harness(header.harness or first.harness, version, " ".join(parts))

    def find_pinned(self, given: Iterable[str]) -> Skills | None:
        """Return the skills of these names by content if all readable locks agree on them."""
        found = self._pinned.get(tuple(sorted(given)), set())
        return next(iter(found)) if len(found) == 1 else None

    @cached_property
    def _varied(self) -> set[str]:
        return _find_varied(self._agent(trial.header) for trial in self.trials) | _find_varied(
            (_name(agent), _digest(agent)) for agent in self.agents
        )

    @cached_property
    def _first(self) -> dict[tuple[str, ...], TrialHeader]:
        """Return the first trial of each agent that has its version, else its name, by agent and that name or ""."""
        found: dict[tuple[str, ...], TrialHeader] = {}
        headers = [trial.header for trial in self.trials if trial.header.harness]
        for header in sorted(headers, key=lambda header: not header.version):
            for name in (header.harness, ""):
                found.setdefault((*self._agent(header), name), header)
        return found

    def _agent(self, header: TrialHeader) -> tuple[str, str]:
        """Return the agent's name and the digest of its settings. Most trials have one of a few agents."""
        told = repr(header.agent)
        if told not in self._agents:
            self._agents[told] = _name(header.agent), _digest(header.agent)
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


def _find_varied(agents: Iterable[tuple[str, str]]) -> set[str]:
    """Return the names shared by agents with different settings."""
    settings: defaultdict[str, set[str]] = defaultdict(set)
    for name, digest in agents:
        settings[name].add(digest)
    return {name for name, digests in settings.items() if len(digests) > 1}


def _name(agent: Mapping[str, JsonValue]) -> str:
    return digest_json([agent.get(key) for key in ("name", "import_path", "model_name", "skills")])


def _digest(agent: Mapping[str, JsonValue]) -> str:
    return digest_json(read_settings(agent))[:12]

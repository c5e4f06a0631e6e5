"""One Harbor trial folder: who ran what, how it ended, what it cost, where its trajectories are, and which
run of its job it belongs to: agent, model, skills given, condition.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from benchapp.imports.harbor.harbor_verdict import FILES, read_rewards, read_verdict
from benchapp.imports.reading.documents import (
    Document,
    aware,
    decode,
    find_object,
    phase_seconds,
    read_lines,
    read_optional,
    read_time,
    seconds_between,
    zoneless_text,
)
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    ExceptionSource,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrialSource,
)
from benchapp.imports.reading.trajectory_files import AGENT_FOLDERS, NEVER_ENTERED, choose, is_candidate
from benchapp.imports.reading.walking import MAX_HASHED_BYTES, FolderEntry, Root, name_of
from benchapp.record.redaction import redact_value
from runner.base.digests import digest_json
from runner.base.text import storable
from runner.base.types import JsonValue, Usage, Verdict

_NO_SETTINGS = frozenset(
    "name import_path model_name skills n_concurrent concurrency_group model_api_key_name include_logs "
    "exclude_logs".split()
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
    model_info = info.object("model_info")
    model, provider = model_info.text("name", 150), model_info.text("provider", 40)
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
        description = repr(agent)
        if description not in self._agents:
            name = digest_json([agent.get(key) for key in ("name", "import_path", "model_name", "skills")])
            self._agents[description] = name, digest_json(read_settings(agent))[:12]
        return self._agents[description]

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


MAX_EXCEPTION_BYTES = 8 * 1024 * 1024
_READ = frozenset({"result.json", "config.json", "lock.json", "exception.txt", "timing.json", "rewards.jsonl"})


class TrialHeader:
    """What sorts and names a trial before it is read. Empty: not in its files. `agent`: as in its config. `harness`:
    what the agent called itself."""

    def __init__(self, root: Root, folder: Path, known: Mapping[str, Document] | None = None) -> None:
        """`known`: documents of the folder that were read already, by name."""
        known = known or {}
        result, config = (
            known.get(name) or read_optional(root, folder / name) for name in ("result.json", "config.json")
        )
        embedded = result.object("config") if result.object("config") else config
        self.ident = result.text("id", 100) or ""
        self.name = result.text("trial_name", 300) or embedded.text("trial_name", 300) or name_of(folder)
        info = result.object("agent_info")
        job = embedded.text("job_id", 100)
        self.trials_dir = embedded.text("trials_dir", 1_000) or ""
        self.job_key = f"id:{job}" if job else f"dir:{self.trials_dir}" if self.trials_dir else ""
        agent, task = embedded.raw.get("agent"), read_task(embedded)
        self.agent: Mapping[str, JsonValue] = agent if isinstance(agent, Mapping) else {}  # BenchFlow: a name
        path = PurePosixPath(task.text("path", 1_000) or embedded.text("task_path", 1_000) or "")
        # The trial's name has only its first characters.
        named = result.text("task_name", 300) or task.text("name", 300)
        self.task = (named or path.name or f"unknown task of {self.name}")[:300]
        # The organisation of an org/name task; else one suite for all. Revisions separate namesakes.
        self.suite = self.task.rpartition("/")[0] or "harbor"
        self.started = result.text("started_at", 64) or config.text("started_at", 64) or ""
        self.harness = info.text("name", 100) or ""
        self.version = read_version(info)


class HarborTrial:
    """A trial on disk (found_sources.ClaimingTrial)."""

    def __init__(self, root: Root, folder: Path, header: TrialHeader, enclosing_job: str) -> None:
        self.root, self.folder, self.header, self.enclosing_job = root, folder, header, enclosing_job
        self.path = root.label(folder)
        # A job is identified by the id in its trials, else by the folder it was written to, else by where it is now.
        own = header.job_key
        self.job_key = own if own.startswith("id:") else enclosing_job or own or f"name:{name_of(folder.parent)}"
        self.order = (header.started, header.name, self.path)
        self._derived = ""
        self.siblings = Siblings((), ())
        self.judges = True  # False: the caller finds the trial's verdict elsewhere

    @property
    def ids(self) -> tuple[str, ...]:
        named = f"{self.job_key}/{self.header.name}{self._derived}"
        return (f"trial:{self.header.ident}{self._derived}", named) if self.header.ident else (named,)

    def report_duplicate(self, ident: str, other: str) -> None:
        message = f"{ident} is also that of {other}; both are kept"
        self.root.report(self.folder, "id", "an id of its own for every trial", message)
        self._derived = storable("@" + "/".join(self.folder.parts[-2:]))

    @cached_property
    def _entries(self) -> dict[str, FolderEntry]:
        """Return the files that are read, by path in the trial's folder."""
        stages = self.root.listing(self.folder / "steps")[0] if self.root.is_dir(self.folder / "steps") else []
        found = {entry.name: entry for folder in (self.folder, *stages) for entry in self._tree(folder)}
        return {name: found[name] for name in sorted(found) if _is_read(name)}

    def _tree(self, folder: Path) -> Iterator[FolderEntry]:
        """Yield the files of the trial, or of one of its stages, whose folder may have any name."""
        folders, files = self.root.listing(folder)
        prefix = "" if folder == self.folder else f"steps/{name_of(folder)}/"
        for entry in files:
            yield FolderEntry(entry.path, f"{prefix}{entry.name}", entry.size)
        for sub in folders:
            if sub.name in AGENT_FOLDERS or sub.name == "verifier":
                skip = NEVER_ENTERED if sub.name in AGENT_FOLDERS else frozenset()
                for entry in self.root.tree(sub, skip=skip):
                    yield FolderEntry(entry.path, f"{prefix}{sub.name}/{entry.name}", entry.size)

    def digest(self) -> str:
        digest, left = hashlib.sha256(), MAX_HASHED_BYTES
        for name, entry in self._entries.items():
            try:
                content = self.root.sha256(entry.path, left)
            except OSError:
                content = "unreadable"
            left -= entry.size if entry.size <= left else 0
            digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def read(self) -> TrialSource:
        result, config = (read_optional(self.root, self.folder / name) for name in ("result.json", "config.json"))
        if is_benchflow(result, config):
            return read_benchflow(self.root, self.folder, result, config, self.header, self._choice())
        if not result:  # for an existing file, the fault was reported as well
            lack = "nothing in it can be read" if "result.json" in self._entries else "there is none"
            message = f"{lack}: unknown whether it finished; kept as interrupted, not scored"
            self.root.report(self.folder / "result.json", "", "the result of a finished trial", message)
        own = result.object("config") if result.object("config") else config
        lock = read_optional(self.root, self.folder / "lock.json")
        stages = self._stages(result)
        started, finished = read_time(result, "started_at"), read_time(result, "finished_at")
        verifier_seconds = phase_seconds(result.object("verifier"))
        skills = self._skills(own, lock)
        where = f"{self.header.trials_dir}/{name_of(self.folder.parent)}"
        run = build_run(result, own, skills, where, self.siblings.harness(self.header))
        task = self.header.task
        digest = result.text("task_checksum", 100) or lock.object("task").text("digest", 100)
        timing = Timing(
            started_at=aware(started),
            finished_at=aware(finished),
            started_text=zoneless_text(result, "started_at", started),
            finished_text=zoneless_text(result, "finished_at", finished),
            duration_seconds=seconds_between(result, started, finished),
            agent_seconds=_seconds(result, "agent_execution"),
            verifier_seconds=_seconds(result, "verifier"),
        )
        verdict = None
        if self.judges:
            rewards = read_rewards(result.object("verifier_result"))
            verdict = read_verdict(self.root, self.folder / "verifier", rewards, place=result, seconds=verifier_seconds)
        return TrialSource(
            run=run,
            task=TaskSource(self.header.suite, task, task.rpartition("/")[2], revision=digest or UNKNOWN),
            timing=timing,
            verdict=verdict,
            config=dict(own.raw),
            stage_verdicts=tuple(verdict for _, verdict in stages if verdict is not None),
            choices=(self._choice(), *(self._choice(name) for name, _ in stages)),
            exception=self._exception(result),
            usage=sum(map(read_usage, _parts(result, "agent_result")), Usage()),
            skills_mounted=skills.names,
            is_finished=bool(result),
        )

    def _skills(self, config: Document, lock: Document) -> Skills:
        """Return the skills its lock pins; without a lock, those that its siblings' locks pin under the same names."""
        skills, given = read_skills(config, lock), config.object("agent").texts("skills")
        pinned = self.siblings.find_pinned(given) if given and not skills.is_pinned else None
        if pinned is None:
            return skills
        message = "there are none; those in the locks of its siblings are used"
        lock.report("skills", "digests of the skills given", message)
        return pinned

    def _stages(self, result: Document) -> list[tuple[str, Verdict | None]]:
        """Return (name, verdict) of every stage of a multi-step Harbor trial, in order. A killed trial has no result
        that lists them, so the folders' names are used."""
        stages: list[tuple[str, Verdict | None]] = []
        for step in result.objects("step_results"):
            name = step.text("step_name", 200)
            if not name or "/" in name or name in {".", ".."}:
                message = f"found {step.raw.get('step_name')!r}"[:120]
                step.report("step_name", "the name of a folder below steps/", message)
                continue
            stages.append((name, self._stage_verdict(name, step)))
        folders = {name.split("/")[1] for name in self._entries if name.startswith("steps/")}
        left = sorted(folders - {name for name, _ in stages})
        return stages + [(name, self._stage_verdict(name, Document(self.root, result.path, {}))) for name in left]

    def _stage_verdict(self, name: str, step: Document) -> Verdict | None:
        return read_verdict(
            self.root,
            self.folder / "steps" / name / "verifier",
            read_rewards(step.object("verifier_result")),
            place=step,
            source=f"harbor stage {name}"[:100],
            seconds=phase_seconds(step.object("verifier")),
        )

    def _choice(self, stage: str = "") -> SourceChoice:
        prefix = f"steps/{stage}/" if stage else ""
        accounts = [
            entry
            for name, entry in self._entries.items()
            if name.startswith(prefix)
            and name[len(prefix) :].split("/", 1)[0] in AGENT_FOLDERS
            and is_candidate(name[len(prefix) :])
        ]
        if not stage and not accounts:
            accounts = [entry for name, entry in self._entries.items() if _is_loose_account(name)]
        return choose(self.root, self.folder, accounts, stage=stage)

    def _exception(self, result: Document) -> ExceptionSource | None:
        for info in _parts(result, "exception_info")[:1]:
            return ExceptionSource(
                info.text("exception_type", 200) or UNKNOWN,
                info.text("exception_message", MAX_EXCEPTION_BYTES) or "",
                info.text("exception_traceback", MAX_EXCEPTION_BYTES) or "",
            )
        if result or "exception.txt" not in self._entries:
            return None
        content = self.root.read_ends(self.folder / "exception.txt", MAX_EXCEPTION_BYTES)
        text = decode(self.root, self.folder / "exception.txt", content).strip() if content else ""
        last = text.splitlines()[-1] if text else ""
        kind, _, message = last.partition(":")
        return ExceptionSource(kind.strip()[:200] or UNKNOWN, message.strip(), text) if text else None


def _parts(result: Document, name: str) -> list[Document]:
    """Return that object of the trial, or those of its stages where the trial in stages has none."""
    own = result.object(name)
    return [own] if own else [part for step in result.objects("step_results") if (part := step.object(name))]


def _seconds(result: Document, phase: str) -> float | None:
    known = [seconds for part in _parts(result, phase) if (seconds := phase_seconds(part)) is not None]
    return sum(known) if known else None


def read_usage(agent: Document) -> Usage:
    """Return the totals that Harbor's agent adapter reported; they may count a repeated message several times."""
    return Usage(
        agent.count("n_input_tokens"),
        agent.count("n_cache_tokens"),
        agent.count("n_output_tokens"),
        agent.amount("cost_usd"),
    )


def _is_read(name: str) -> bool:
    parts = name.split("/")
    if parts[0] == "steps" and len(parts) > 2:
        parts = parts[2:]
    if parts[0] == "verifier":
        return len(parts) == 2 and parts[1] in FILES
    if parts[0] in AGENT_FOLDERS:
        return is_candidate("/".join(parts))
    return len(parts) == 1 and (parts[0] in _READ or _is_loose_account(parts[0]))


def _is_loose_account(name: str) -> bool:
    """Is this a trajectory in the trial's folder itself, where some tools leave it?"""
    return "/" not in name and name.endswith((".jsonl", "trajectory.json")) and name not in _READ


_NAMED_ERROR = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{2,100}(?:Error|Exception|Timeout)):\s*(.*)", re.S)


def is_benchflow(result: Document, config: Document) -> bool:
    flat_result = "rewards" in result.raw and "config" not in result.raw
    flat_config = "task_path" in config.raw and not isinstance(config.raw.get("agent"), dict)
    return flat_result or (flat_config and not result)


def read_benchflow(
    root: Root, folder: Path, result: Document, config: Document, header: TrialHeader, choice: SourceChoice
) -> TrialSource:
    started = read_time(result, "started_at") or read_time(config, "started_at")
    finished = read_time(result, "finished_at")
    timing = result.object("timing")
    verifier_seconds = timing.amount("verifier")
    return TrialSource(
        run=_run(result, config, folder),
        task=TaskSource(header.suite, header.task, header.task.rpartition("/")[2]),
        timing=Timing(
            started_at=aware(started),
            finished_at=aware(finished),
            started_text=zoneless_text(result if result else config, "started_at", started),
            finished_text=zoneless_text(result, "finished_at", finished),
            duration_seconds=seconds_between(result, started, finished),
            agent_seconds=timing.amount("agent_execution"),
            verifier_seconds=verifier_seconds,
        ),
        verdict=read_verdict(
            root,
            folder / "verifier",
            _rewards(root, folder, result),
            place=result,
            source="benchflow",
            seconds=verifier_seconds,
        ),
        config=dict(config.raw),
        choices=(choice,),
        exception=_exception(result),
        is_finished=bool(result),
    )


def _run(result: Document, config: Document, folder: Path) -> RunSource:
    skills = config.text("skills_dir", 1_000)
    setup = {"source": "benchflow", **({"skills_dir": PurePosixPath(skills).name} if skills else {})}
    return RunSource(
        harness=result.text("agent", 100) or config.text("agent", 100) or UNKNOWN,
        agent_model=result.text("model", 200) or config.text("model", 200) or UNKNOWN,
        setup=setup | suggest_condition("with-skills" if skills else "", name_of(folder.parent)),
    )


def _rewards(root: Root, folder: Path, result: Document) -> dict[str, float | None] | None:
    """Return the rewards from the result, else the last final reward in the log of rewards."""
    reported = read_rewards(result)
    path = folder / "rewards.jsonl"
    if reported is not None or not root.is_file(path):
        return reported
    rewards: dict[str, float | None] = {}
    for entry in read_lines(root, path, 8 * 1024 * 1024):
        if "value" in entry.raw and entry.text("type", 40) == "terminal":
            rewards[entry.text("tag", 200) or "reward"] = entry.number("value")
    return rewards or None


def _exception(result: Document) -> ExceptionSource | None:
    for key in ("error", "verifier_error"):
        if text := result.text(key, 8 * 1024 * 1024):
            named = _NAMED_ERROR.match(text)
            return ExceptionSource(named[1], named[2]) if named else ExceptionSource(key, text)
    return None

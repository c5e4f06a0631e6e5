"""What a format's reader returns, before anything is stored: plain values, already cleaned, not yet redacted.

A format yields `FoundExperiment`s. Each has libraries and trials. A trial can check cheaply whether it changed
(`digest`) and be read in full (`read`). None and UNKNOWN: not in the files. An empty author model: there is none.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

from benchapp.imports.reading.walking import UPLOADED, FolderEntry, Root, name_of, tail_of
from runner.base.types import (
    AuthorMode,
    DecisionStatus,
    Files,
    Finding,
    JsonValue,
    Patch,
    TrajectoryKind,
    Usage,
    Verdict,
)

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExperimentSource:
    key: str  # its identity at the source; equal keys are one experiment
    name: str
    path: str  # as given by the user
    spec: Mapping[str, object] = field(default_factory=dict)
    suite: str = ""  # key, where all its tasks come from one
    started_at: datetime | None = None
    finished_at: datetime | None = None
    was_cut_short: bool = False  # according to the source, it never finished

    @property
    def describes_itself(self) -> bool:
        """False if everything known about it comes from trials: a part of a job that was given alone."""
        return bool(self.spec or self.started_at or self.finished_at or self.was_cut_short)

    @classmethod
    def of_folder(
        cls, root: Root, folder: Path, *, format: str, title: str, name: str = "", suite: str = ""
    ) -> ExperimentSource:
        """Build an experiment that has no id and is identified by the end of its path. Runs imported one by one or
        together end up in the same experiment, and runs in one folder are compared."""
        name = name or tail_of(folder, 2) or name_of(root.base)
        return cls(
            key=f"{format}:{name}",
            name=f"{title} {name.removeprefix(UPLOADED)}",
            path=root.label(folder if folder.is_relative_to(root.base) else root.base),
            spec={"format": format},
            suite=suite or format,
        )


@dataclass(frozen=True, slots=True)
class RunSource:
    """What separates one run of an experiment from another. `skills`: digest of the skills given, if known."""

    harness: str = UNKNOWN
    harness_version: str = ""
    agent_model: str = UNKNOWN
    author_model: str = UNKNOWN
    condition: str = UNKNOWN
    replicate: int | None = None
    skills: str = ""
    setup: Mapping[str, object] = field(default_factory=dict)
    # Separates two harnesses of one name in an experiment, with other settings or of another version.
    variant: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        replicate = "" if self.replicate is None else str(self.replicate)
        named = (self.harness, self.agent_model, self.author_model, self.condition, replicate, self.skills)
        return (*named, self.variant) if self.variant else named


@dataclass(frozen=True, slots=True)
class TaskSource:
    suite: str  # key
    key: str
    title: str
    revision: str = UNKNOWN  # digest of the task's content
    family: str | None = None
    role: str | None = None
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class EpisodeSource:
    """The episode a trial or library belongs to. The default is a run's single, unordered one."""

    key: str = "all"
    title: str = "all trials"
    family: str | None = None  # key
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class TrajectorySource:
    """One trajectory's file. `open` gives its bytes from the beginning, as often as it is called."""

    path: str  # relative to the trial's folder
    open: Callable[[], BinaryIO]
    size: int
    name: str = "main"
    kind: TrajectoryKind = TrajectoryKind.MAIN
    parent: str | None = None  # name of another one of the same attempt
    format: str = ""  # as named by `sniff`, if it was asked
    extra: Mapping[str, object] = field(default_factory=dict)
    text: str | None = None  # the whole text, if it is held in memory
    # Another file, by its path from this one; OSError if it cannot be read.
    open_file: Callable[[str], BinaryIO] | None = None
    copied_lines: int = 0  # number of lines at its beginning that are a copy of another session

    def held(self, limit: int) -> TrajectorySource:
        """Read it once and hold it in memory, if it has at most `limit` bytes. Raise OSError if it cannot be read."""
        if self.size > limit:
            return self
        with self.open() as stream:
            content = stream.read(limit + 1)  # it may have grown
        if len(content) > limit:
            return self
        return replace(self, open=lambda: BytesIO(content), text=content.decode("utf-8", "replace"))

    @classmethod
    def of_file(cls, root: Root, entry: FolderEntry) -> TrajectorySource:
        def open_file(path: str) -> BinaryIO:
            return root.open(entry.path.parent / path)

        return cls(entry.name, lambda: root.open(entry.path), entry.size, open_file=open_file)


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """`trajectories`: to be read. `spare`: other files, which a reference in one of these may name."""

    trajectories: tuple[TrajectorySource, ...] = ()
    spare: tuple[TrajectorySource, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """Aware times are UTC. A time without a zone stays the source's own text; only the length is known."""

    started_at: datetime | None = None
    finished_at: datetime | None = None
    started_text: str = ""
    finished_text: str = ""
    duration_seconds: float | None = None
    agent_seconds: float | None = None
    verifier_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ExceptionSource:
    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class TrialSource:
    """One finished (or cut off) execution of a task."""

    run: RunSource
    task: TaskSource
    timing: Timing
    verdict: Verdict | None
    config: Mapping[str, object]
    stage_verdicts: tuple[Verdict, ...] = ()
    choices: tuple[SourceChoice, ...] = ()  # of the trial itself, then of each of its stages
    episode: EpisodeSource = EpisodeSource()
    phase: str = "evaluation"
    is_phase_late: bool = False  # can the phase change while the source grows, as only its end says what was kept?
    exception: ExceptionSource | None = None
    usage: Usage = Usage()  # the source's own totals
    skills_mounted: tuple[str, ...] | None = None  # slugs; None: unknown
    is_finished: bool = True
    agent: str = ""  # as a --map rule names it
    session_root: str = ""  # equal for all sessions that may hold copies of each other
    lineage: Mapping[str, JsonValue] = field(default_factory=dict)  # whose copy it is; empty: nobody's


class FoundTrial(Protocol):
    """A trial on disk. `ids` identify it, the strongest first; `order` sorts the samples of one task."""

    @property
    def path(self) -> str: ...

    @property
    def order(self) -> tuple[str, ...]: ...

    @property
    def ids(self) -> tuple[str, ...]: ...

    def digest(self) -> str:
        """Digest the bytes of everything that `read` reads."""
        ...

    def read(self) -> TrialSource: ...


@runtime_checkable
class ClaimingTrial(FoundTrial, Protocol):
    """A trial whose files claim its ids, so that another trial may claim the same."""

    def report_duplicate(self, ident: str, other: str) -> None:
        """Report that `other` has the same id. From now on `ids` differ."""
        ...


def separate_namesakes(trials: Iterable[ClaimingTrial]) -> None:
    """Keep all trials with one id, the later ones under ids derived from their paths."""
    first: dict[str, str] = {}  # path by id
    for trial in trials:
        if taken := next((ident for ident in trial.ids if ident in first), None):
            trial.report_duplicate(taken, first[taken])
        for ident in trial.ids:
            first.setdefault(ident, trial.path)


def is_of_other_job(ids: Iterable[str], others: Iterable[str]) -> bool:
    """Do two trials name different jobs by id? Then they are distinct even if they share an id: files can claim any."""
    jobs, other_jobs = (
        {ident.rpartition("/")[0] for ident in each if ident.startswith("id:")} for each in (ids, others)
    )
    return bool(jobs and other_jobs) and jobs.isdisjoint(other_jobs)


def place_of(trial: str, path: str, others: Iterable[str]) -> str:
    """Return the path of a trajectory. `path` is relative to the trial's folder. A trial can also be a single file: its
    own path then ends with that of one of its trajectories (`others`)."""
    whole = next((other for other in others if trial == other or trial.endswith(f"/{other}")), None)
    folder = trial if whole is None else trial.removesuffix(whole).rstrip("/")
    return posixpath.normpath(f"{folder}/{path}") if path.startswith("../") else f"{folder}/{path}" if folder else path


def list_slugs(files: Files) -> tuple[str, ...]:
    """Return the skills of a library: its folders, sorted."""
    return tuple(sorted({path.split("/", 1)[0] for path in files if "/" in path}))


@dataclass(frozen=True, slots=True)
class LibrarySource:
    """The final library of one episode, from a source that keeps no decisions."""

    run: RunSource
    episode: EpisodeSource
    suite: str
    path: str
    files: Files


# --- the history of a library: what happened to it, in order ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrialMoment:
    """A trial ended."""

    ident: str  # first of the trial's ids
    given: Files | None = None  # the library it had, None if unknown
    of_candidate: bool = False  # that library was only proposed then, so it may differ from the current one


@dataclass(frozen=True, slots=True)
class DecisionMoment:
    """One answer of the author, and the library after it (equal to the one before unless applied). `before`: an earlier
    library that it started from, if not the current one: candidates can be a tree."""

    family: str  # key
    mode: AuthorMode
    status: DecisionStatus
    after: Files
    after_trial: str | None = None  # first id of the trial it followed
    operation_type: str = ""
    summary: str = ""
    error: str = ""
    patch: Patch | None = None
    findings: tuple[Finding, ...] = ()
    evidence: tuple[str, ...] = ()  # first ids of the trials the author was shown
    at: datetime | None = None
    before: Files | None = None


@dataclass(frozen=True, slots=True)
class SeedMoment:
    """Skills were added without an author. `after`: the library then."""

    family: str
    after: Files
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FreezeMoment:
    """`kept`: the library that was chosen, if not the current one."""

    at: datetime | None = None
    kept: Files | None = None


@dataclass(frozen=True, slots=True)
class RefusalMoment:
    """A change in the source that is left out of the line of libraries, and why."""

    paths: tuple[str, ...]
    reason: str
    trial: str | None = None


Moment = TrialMoment | DecisionMoment | SeedMoment | FreezeMoment | RefusalMoment


@dataclass(frozen=True, slots=True)
class HistorySource:
    """Everything that happened to one episode's library. `read` gives the moments in order, from the empty library."""

    run: RunSource
    episode: EpisodeSource
    suite: str
    path: str
    trials: tuple[str, ...]  # first ids
    read: Callable[[], Iterable[Moment]]
    at: datetime  # used for times that the source lacks


@dataclass(frozen=True, slots=True)
class KeyPointSource:
    kind: str
    ordinal: int
    text: str
    reason: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class FoundExperiment:
    source: ExperimentSource
    trials: tuple[FoundTrial, ...] = ()  # in the order of their sample numbers
    libraries: Iterable[LibrarySource] = ()  # read one at a time
    libraries_total: int = 0
    key_points: tuple[tuple[TaskSource, tuple[KeyPointSource, ...]], ...] = ()
    histories: tuple[HistorySource, ...] = ()  # recorded after the trials they refer to

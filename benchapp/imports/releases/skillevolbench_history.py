"""The trials of a SkillEvolBench run, and the history of its library: commits, ordered by records and events.

The order follows the protocol, not clocks: additions before a trial, the trial, the answer after it, and the freeze
after the last learning trial. A record names the tree given to its trial, an applied patch names its commit; the
contents come from the commits. A state that neither explains is recorded as skills added without an author, and
reported.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath

from benchapp.imports.harbor.harbor_trial import HarborTrial, TrialHeader, read_usage
from benchapp.imports.harbor.harbor_verdict import OUTPUT, read_side_reports
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, aware, decode, read_lines, read_time
from benchapp.imports.reading.git_history import Commit, GitProblem, open_history
from benchapp.imports.reading.walking import Root
from runner.base.types import AuthorMode, DecisionStatus, Files, Finding, Patch, Phase, Role, Usage, Verdict, is_success
from runner.suites.skillevolbench_suite import TASK
from runner.verifying.reports import SIDE_REPORTS

NAME = "skillevolbench"
REPLAY, SHADOW = "within_env_replay", "shadow_oracle"
MAX_OUTPUT_BYTES = 8 * 1024 * 1024
_SUFFIX = re.compile(r"__(?:replay|oracle_shadow)$")
_LEARNING = {Role.CANONICAL, Role.ENRICHED, Role.VARIANT}


def name_in(document: Document) -> str:
    """Return the task's name with the suffix of its record."""
    return document.text("task_id", 200) or document.path.stem[:200]


def order_of(document: Document) -> tuple[str, str]:
    return document.text("timestamp", 64) or "~", name_in(document)


@dataclass
class Record:
    """A trial of a run (found_sources.FoundTrial)."""

    document: Document
    run: sources.RunSource
    episode: sources.EpisodeSource
    harbor: HarborTrial | None
    # the slugs of the library it was given, None where unknown
    skills: Callable[[], tuple[str, ...] | None] = field(repr=False)

    def __post_init__(self) -> None:
        self.record = name_in(self.document)
        self.task = _SUFFIX.sub("", self.record)
        self.path = self.document.root.label(self.document.path)
        self.ids = (f"{NAME}:{self.run.skills}/{self.record}",)
        self.order = order_of(self.document)

    @property
    def env(self) -> str:
        return self.document.text("env_id", 40) or self.task.partition("-")[0]

    @property
    def family(self) -> str:
        return self.document.text("family_id", 200) or self.task.rpartition("-T")[0] or self.task

    @cached_property
    def role(self) -> str:
        role = (self.document.text("task_role", 32) or "").lower().replace("_", "-")
        number = TASK.fullmatch(self.task)
        return role or (list(Role)[int(number[2]) - 1].value if number else "")

    @property
    def phase(self) -> Phase:
        """Return the phase. A shadow trial (T6 again, skills chosen by an oracle) is an extra evaluation."""
        mode = self.document.text("replay_mode", 40) or ""
        if mode == REPLAY or self.record.endswith("__replay"):
            return Phase.REPLAY
        if mode == SHADOW or self.record != self.task:
            return Phase.EVALUATION
        return Phase.ACQUISITION if self.role in _LEARNING else Phase.DEPLOYMENT

    def digest(self) -> str:
        digest = hashlib.sha256(b"" if self.harbor is None else self.harbor.digest().encode())
        for path in (self.document.path, *self._reports.values()):
            try:
                digest.update(bytes.fromhex(self.document.root.sha256(path)))
            except OSError:
                digest.update(b"unreadable")
        return digest.hexdigest()

    @cached_property
    def _reports(self) -> dict[str, Path]:
        if self.harbor is None:
            return {}
        folder = self.harbor.folder / "verifier"
        names = (*SIDE_REPORTS, OUTPUT)
        return {name: folder / name for name in names if self.document.root.is_file(folder / name)}

    def read(self) -> sources.TrialSource:
        if self.harbor is not None:
            self.harbor.judges = False  # the record says how the run judged it
        source = self._read_record() if self.harbor is None else self.harbor.read()
        number = TASK.fullmatch(self.task)
        usage = read_usage(self.document.object("outcome"))
        return replace(
            source,
            run=self.run,
            task=sources.TaskSource(
                NAME,
                self.task,
                self.task,
                revision=source.task.revision,
                family=self.family,
                role=self.role or None,
                ordinal=int(number[2]) if number else 0,
            ),
            verdict=self._verdict(),
            usage=usage if usage != Usage() else source.usage,
            episode=self.episode,
            phase=self.phase,
            skills_mounted=self.skills(),
            is_finished=True,  # a record is written only for a trial with a result
            agent=self.run.harness,
        )

    def _read_record(self) -> sources.TrialSource:
        folder = self.document.object("outcome").text("trial_dir", 1_000)
        message = f"{_leaf(folder)} is not there: no trajectory"
        self.document.report("outcome.trial_dir", "the trial's folder below harbor-job/", message)
        ended = read_time(self.document, "timestamp")
        return sources.TrialSource(
            run=self.run,
            task=sources.TaskSource(NAME, self.task, self.task),
            timing=sources.Timing(
                finished_at=aware(ended),
                finished_text="" if aware(ended) else self.document.text("timestamp", 64) or "",
            ),
            verdict=None,
            config={},
        )

    # --- how it was judged ---------------------------------------------------------------------------------------

    def _verdict(self) -> Verdict | None:
        """Success is reward >= 1, as the release counts it. Checks come from the verifier's reports: the record itself
        lists only those that failed, which stay in the output if there is no report."""
        outcome = self.document.object("outcome")
        reward = outcome.number("reward")
        passed = outcome.raw.get("verifier_passed")
        if not outcome or (reward is None and not isinstance(passed, bool)):
            return None
        is_odd = reward is None and outcome.raw.get("reward") is not None
        success = None if is_odd else passed if isinstance(passed, bool) else is_success(reward)
        if reward is not None and success != is_success(reward):
            outcome.report("verifier_passed", "success where the reward is 1 or more", f"{passed} with reward {reward}")
        side = read_side_reports(self.document.root, self._reports)
        overall = side.overall
        score, most = outcome.number("normalized_score"), outcome.number("max_score")
        if overall is None and score is not None and 0.0 <= score <= 1.0:
            overall = score
        return Verdict(
            source=NAME,
            success=success,
            reward=reward,
            outcome=side.outcome,
            process=side.process,
            overall=overall,
            checks=tuple(side.checks),
            dimensions=tuple(side.dimensions),
            rewards={name: value for name, value in (("reward", reward), ("max_score", most)) if value is not None},
            output=self._output(outcome, with_failures=not side.checks),
            notes=tuple(map(str, side.problems)),
        )

    def _output(self, outcome: Document, *, with_failures: bool) -> str:
        parts = []
        if OUTPUT in self._reports:
            path = self._reports[OUTPUT]
            content = self.document.root.read(path, MAX_OUTPUT_BYTES)
            parts.append(decode(self.document.root, path, content) if content else "")
        if with_failures:
            for test in list(outcome.objects("failed_tests"))[:1_000]:
                group, name = test.text("group", 100) or "unknown group", test.text("name", 500) or "unnamed test"
                parts.append(f"failed: [{group}] {name}: {test.text('message', 10_000) or ''}")
        return "\n".join(part for part in parts if part)


def _leaf(path: str | None) -> str:
    return PurePosixPath(path).name if path else "it"


def find_harbor_trial(root: Root, trials: dict[str, Path], record: Document) -> HarborTrial | None:
    """Find the folder by the last part of the record's path: the rest was valid only on the machine of the run."""
    folder = trials.get(_leaf(record.object("outcome").text("trial_dir", 1_000)))
    return None if folder is None else HarborTrial(root, folder, TrialHeader(root, folder), "")


ACTIVE = "active"
FAILED_REASONS = ("patch_generation_failed", "induction_failed")
BESIDE = "beside-the-patch"
MAX_PATHS = 1_000


@dataclass(slots=True)
class Library:
    """One environment's library. Its history is read once, on first use."""

    root: Root
    folder: Path
    _states: list[tuple[Commit, Files]] | None = None

    @property
    def states(self) -> list[tuple[Commit, Files]]:
        """Return (commit, files below active/) from the first on. Empty, with a report, if it cannot be read."""
        if self._states is None:
            self._states = []
            try:
                with open_history(self.root, self.folder) as history:
                    self._states = [(commit, history.files(commit.tree, ACTIVE)) for commit in history.commits()]
            except GitProblem as problem:
                self.root.report(self.folder, ".git", problem.expected, f"{problem}; the library's history is left out")
        return self._states

    @property
    def began(self) -> datetime:
        return self.states[0][0].at if self.states else datetime.fromtimestamp(0, UTC)

    def at(self, name: str | None) -> Files | None:
        """Return the files at a commit or a tree, by its hash or a prefix of at least 7 characters."""
        if not name or len(name) < 7:
            return None
        for commit, files in self.states:
            if commit.ident.startswith(name) or commit.tree.startswith(name):
                return files
        return None

    def slugs(self, name: str) -> tuple[str, ...] | None:
        """Return the skills of the library that a trial was given: the release mounts all of it."""
        files = self.at(name)
        return None if files is None else sources.list_slugs(files)


@dataclass(slots=True)
class Events:
    """The run's event logs, by the task they name."""

    lifecycle: list[Document] = field(default_factory=list)
    patches: list[Document] = field(default_factory=list)

    @classmethod
    def read(cls, root: Root, folder: Path) -> Events:
        paths = [folder / name for name in ("lifecycle.jsonl", "patches.jsonl")]
        return cls(*(list(read_lines(root, path)) if root.is_file(path) else [] for path in paths))

    def of(self, kind: str) -> list[Document]:
        return [event for event in self.lifecycle if event.text("event_type", 100) == kind]


@dataclass(slots=True)
class Story:
    """The history of one episode, record by record."""

    library: Library
    events: Events
    current: Files = field(init=False)
    shown: defaultdict[str, list[str]] = field(init=False)  # trials by family

    def moments(self, records: Sequence[Record]) -> Iterator[sources.Moment]:
        """Yield everything that happened. `records`: in the order their trials ended."""
        self.current, self.shown = {}, defaultdict(list)
        for record in records:
            if record.phase is Phase.ACQUISITION:
                yield from self.before(record)
                yield self.trial(record)
                yield from self.after(record)
        environments = {record.env for record in records}
        for event in self.events.of("library_frozen"):
            if (event.text("env_id", 40) or "") in environments:
                yield sources.FreezeMoment(_time(event))
                break
        for record in records:
            if record.phase is not Phase.ACQUISITION:
                yield self.trial(record)

    def before(self, record: Record) -> Iterator[sources.Moment]:
        """Yield what was added between the last answer and this trial."""
        given = self._read_given(record)
        if given is None or given == self.current:
            return
        curated = _naming(self.events.of("curated_seeded"), record)
        invented = _naming(self.events.of("zero_shot_created"), record)
        self.current = given
        if invented is not None:
            yield sources.DecisionMoment(
                family=record.family,
                mode=AuthorMode.ZERO_SHOT,
                status=DecisionStatus.APPLIED,
                after=given,
                operation_type="create",
                at=_time(invented),
            )
            return
        if curated is None:
            self.library.root.report(
                self.library.folder,
                record.record,
                "an event for every change of the library",
                "none explains the one before this trial: kept as skills that came in without an author",
            )
        yield sources.SeedMoment(record.family, given, at=None if curated is None else _time(curated))

    def trial(self, record: Record) -> sources.TrialMoment:
        given = self._read_given(record)
        if given is not None and given == self.current:
            given = self.current  # one mapping for equal states
        if record.phase is Phase.ACQUISITION:
            self.shown[record.family].append(record.ids[0])
        return sources.TrialMoment(record.ids[0], given)

    def after(self, record: Record) -> Iterator[sources.Moment]:
        attempts: list[str] = []
        for event in self.events.patches:
            after = event.text("triggered_by_task", 200) or event.text("task_id", 200) or event.text("task", 200)
            if after != record.record:
                continue
            match event.text("event_type", 100):
                case "candidate_failed":
                    attempts.append(event.text("error", 2_000) or "")
                case "noop_decision":
                    reason = event.text("reason", 2_000) or ""
                    if reason.startswith(FAILED_REASONS):
                        yield sources.DecisionMoment(
                            family=record.family,
                            mode=AuthorMode.INDUCE if reason.startswith("induction") else AuthorMode.REVISE,
                            status=DecisionStatus.FAILED,
                            after=self.current,
                            after_trial=record.ids[0],
                            error="\n".join([reason, *attempts]),
                            evidence=tuple(self.shown[record.family]),
                            at=_time(event),
                        )
                case "patch_applied":
                    if (applied := self._read_applied(record, event)) is not None:
                        yield applied
                case "patch_discarded_in_freeze":
                    yield sources.RefusalMoment((), "the library was frozen: the patch was thrown away", record.ids[0])

    def _read_given(self, record: Record) -> Files | None:
        """Return the library when the trial began, after what was added before it."""
        given = None
        if record.phase is Phase.ACQUISITION:
            begun = (event for event in self.events.of("trial_started") if event.text("task_id", 200) == record.record)
            given = next((self.library.at(event.text("library_hash", 64)) for event in begun), None)
        return self.library.at(record.document.text("library_hash_pre", 64)) if given is None else given

    def _read_applied(self, record: Record, event: Document) -> sources.DecisionMoment | None:
        commit = event.object("apply_result").text("commit_hash", 64)
        after = self.library.at(commit)
        if after is None:
            event.report("apply_result.commit_hash", "a commit of the library", f"{commit!r} is not there; left out")
            return None
        before, self.current = self.current, after
        # An induction is the first answer after a family's canonical trial, with nothing added before it.
        is_first = record.role == Role.CANONICAL and not _naming(self.events.of("curated_seeded"), record)
        operation = event.text("operation_type", 40) or ""
        upserts, deletes = event.texts("upsert_paths")[:MAX_PATHS], event.texts("delete_paths")[:MAX_PATHS]
        inside = [path.removeprefix(f"{ACTIVE}/") for path in upserts]  # events name only the paths of what was written
        written = {path: after[path].content.decode("utf-8", "replace") for path in inside if path in after}
        return sources.DecisionMoment(
            family=record.family,
            mode=AuthorMode.INDUCE if is_first else AuthorMode.REVISE,
            status=DecisionStatus.APPLIED,
            after=after,
            after_trial=record.ids[0],
            operation_type=operation,
            summary=event.text("summary", 10_000) or "",
            patch=Patch(event.text("summary", 1_000) or "", operation, written, tuple(deletes)),
            findings=tuple(_beside(before, after, upserts, deletes)),
            evidence=tuple(self.shown[record.family]),  # the author sees every learning trial of the family so far
            at=_time(event),
        )


def _naming(events: Sequence[Document], record: Record) -> Document | None:
    """Return the event of this trial; for events without a task, the one of its family."""
    for event in events:
        task = event.text("task_id", 200)
        if task == record.record or (task is None and event.text("family_id", 200) == record.family):
            return event
    return None


def _time(event: Document) -> datetime | None:
    return aware(read_time(event, "ts"))


def _beside(before: Files, after: Files, upserts: Sequence[str], deletes: Sequence[str]) -> Iterator[Finding]:
    """Yield files changed in the same commit, but not by the patch: a learning trial can write to its library."""
    named = {path.removeprefix(f"{ACTIVE}/") for path in upserts}
    gone = {path.removeprefix(f"{ACTIVE}/").split("/", 1)[0] for path in deletes}  # the whole skill goes
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    for path in changed[:MAX_PATHS]:
        if path not in named and path.split("/", 1)[0] not in gone:
            message = "changed in this commit, but not by the patch: the trial before it could write here"
            yield Finding(BESIDE, path, message, "warning")

"""Pack a trajectory's file into stored chunks, compactions and skill uses. The file is read once.

Everything is redacted before it is stored. Rows come later, inside the transaction that records the attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import PurePosixPath
from typing import Any

from benchapp.imports.problems import ProblemList
from benchapp.imports.reading.found_sources import FoundTrial, SourceChoice, TrajectorySource, TrialSource, place_of
from benchapp.imports.reading.trajectory_files import references
from benchapp.models import Blob, Compaction
from benchapp.models.blobs import BlobStore, GatheredBlobs
from benchapp.models.trials import USAGE
from benchapp.record.redaction import Hints, Redactor, list_hints, list_hints_inside, redact_text
from benchapp.record.trajectory_store import PackedSteps, pack_steps
from benchapp.record.writing.rows import PackedTrajectory, pack_compaction
from runner.base.text import storable, storable_value
from runner.base.types import CompactionKind, File, Files, Source, Step, TrajectoryHead, TrajectoryKind, Usage
from runner.base.types import SkillUse as UseValue
from runner.models.call_prices import estimate_cost
from runner.trajectories.compaction import ShownVerdict, StepTexts, compact
from runner.trajectories.images import with_files
from runner.trajectories.readers import ATIF, PLAIN_TEXT
from runner.trajectories.readers.claude import STARTING
from runner.trajectories.readers.reading import ReadTrajectory, read_trajectory
from runner.trajectories.readers.skill_use import step_uses

READER_VERSION = "import/7"  # raise it when readers find other things in the same source; not part of any record digest
IN_MEMORY_BYTES = 8 * 1024 * 1024  # the steps of a longer source are not held; compactions read the stored chunks
MAX_SOURCE_BYTES = 16 * 1024 * 1024  # a longer source is not kept, only its steps
MAX_SUBAGENTS = 500
MAX_KEPT_PROBLEMS = 20


def read_digest(found: FoundTrial) -> str:
    """Digest the bytes of the source and the version of its readers: 64 hex characters. So an import after an upgrade
    reads every source again."""
    return hashlib.sha256(f"{READER_VERSION}\0{found.digest()}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrajectory(PackedTrajectory):
    """With what its attempt's rows take from it."""

    path: str  # as its trial names it
    turns: int | None
    uses: tuple[UseValue, ...] = ()
    estimated_usd: float | None = None  # by the price list, where its tokens and models are known


@dataclass(slots=True)
class AttemptPacker:
    """Pack every trajectory of one trial. Names are unique, and only the chosen one is main."""

    trial: TrialSource
    redactor: Redactor
    path: str  # of the trial, for problems
    problems: ProblemList
    blobs: GatheredBlobs  # short contents; those of a long source are stored at once
    found: list[ImportedTrajectory] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    reported: dict[str, list[dict[str, str]]] = field(default_factory=dict)  # problems by path
    apart: frozenset[str] = frozenset()  # agents with a log file of their own
    calls: dict[str, str] = field(default_factory=dict)  # agent -> the call that started it, as its parent's log says
    steps_of_calls: dict[str, int] = field(default_factory=dict)  # id of a call that starts a sub-agent -> its step
    hints: Hints | None = None  # of secrets, in the source that is being packed and is held in memory

    @property
    def uncounted(self) -> Redactor:
        """Redacts everything but steps: only their redactions are counted."""
        return Redactor(self.redactor.known)

    def pack(self) -> list[ImportedTrajectory]:
        for choice in self.trial.choices:
            self._pack_choice(choice)
        for place, item in enumerate(self.found):
            if problems := self.reported.pop(item.path, None):
                self.found[place] = replace(item, extra={**item.extra, "problems": problems})
        return self.found

    def _pack_choice(self, choice: SourceChoice) -> None:
        waiting = list(choice.trajectories)
        self.apart = frozenset(map(_agent_of, (source for source in waiting if source.kind is TrajectoryKind.SUBAGENT)))
        self.apart -= {""}
        spare = {source.path: source for source in choice.spare}
        read = {source.path for source in waiting}
        while waiting:
            source = waiting.pop(0)
            head = self._pack_source(source)
            for kind, reference in references(dict(head.extra or {})) if head else ():
                named = _resolve(source.path, reference)
                if named in spare and named not in read:
                    name = PurePosixPath(named).stem
                    waiting.append(replace(spare[named], name=name, kind=kind, parent=source.name))
                    read.add(named)
                elif named not in read:
                    self._report(source, kind, "a trajectory inside the trial's folder", f"refers to {reference!r}")

    def _pack_source(self, source: TrajectorySource) -> TrajectoryHead | None:
        try:
            source = source.held(IN_MEMORY_BYTES)
            self.hints = None if source.text is None else list_hints(source.text)
            trajectory = read_trajectory(
                source.open,
                name=self._unique(source.name),
                source_format=source.format,
                copied_lines=source.copied_lines,
            )
            if call := self.calls.get(_agent(trajectory)) or source.extra.get("tool_call_id"):
                trajectory.add_extra(tool_call_id=call)
            head = self._pack_read(trajectory, source, source.kind, source.parent, "")
            self.calls |= trajectory.facts.get("subagent_calls", {})
            self._pack_subagents(trajectory, source, source.name if head else None)
        except OSError as error:
            self._report(source, "", "a file that can be read", error.strerror or str(error))
            return None
        return head

    def _pack_subagents(self, read: ReadTrajectory, source: TrajectorySource, parent: str | None) -> None:
        """Pack the sub-agents it started, and those they started; any beyond the limit are reported. A log also repeats
        parts of what an agent's own file holds completely."""
        waiting = [(found, parent) for found in read.subagents if _agent(found) not in self.apart]
        for number, (subagent, above) in enumerate(waiting):
            if number >= MAX_SUBAGENTS:
                self._report(source, "", f"at most {MAX_SUBAGENTS} sub-agents", f"found {len(waiting)} or more")
                break
            subagent.set_head(name=self._unique(subagent.head.name))
            name = subagent.head.name
            kept = self._pack_read(subagent, source, TrajectoryKind.SUBAGENT, subagent.head.parent or above, name)
            waiting += [(below, name if kept else above) for below in subagent.subagents]

    def _pack_read(
        self, read: ReadTrajectory, source: TrajectorySource, kind: TrajectoryKind, parent: str | None, part: str
    ) -> TrajectoryHead | None:
        redacted_before = self.redactor.counts.total()
        is_short = source.size <= IN_MEMORY_BYTES
        # Of the secrets that its steps may hold: the ATIF reader takes every text whole, others join pieces.
        hints = None
        if source.format == ATIF and source.text is not None and self.hints is not None:
            hints = list_hints_inside(source.text, self.hints)
        steps = self.redactor.steps(read.steps, hints)
        if (open_file := source.open_file) is not None and source.format == ATIF:
            steps = (with_files(step, open_file) for step in steps)
        counted = _CountedSteps(self.trial.skills_mounted, read.head.name)
        kept = list(steps) if is_short else None
        blobs = self.blobs if is_short else Blob.objects
        packed = pack_steps(counted.passing(kept if kept is not None else steps), blobs)
        for problem in read.problems:
            place = f"{part}, {problem.place}" if part else problem.place
            self._report(source, place, problem.expected, problem.message)
        self.steps_of_calls |= counted.subagent_calls
        if not packed.steps_total:
            return None
        model = read.head.model and self.redactor.text(read.head.model)
        head = replace(read.head, kind=kind, parent=parent, model=model, extra=self._storable(read.head.extra))
        extra = self._extra(read, source, self.redactor.counts.total() - redacted_before)
        self.found.append(
            ImportedTrajectory(
                path=source.path,
                head=head,
                steps=packed,
                reader_version=READER_VERSION,
                usage=read.usage,
                source=None if part else self._kept_source(source, blobs),
                source_path=redact_text(source.path),
                extra=extra,
                compactions=() if part else self._compactions(source, kept, packed),
                turns=counted.turns if read.turns is None and read.head.source_format != PLAIN_TEXT else read.turns,
                uses=tuple(counted.uses),
                estimated_usd=_estimate_cost(read, counted.by_model),
            )
        )
        return head

    def _compactions(
        self, source: TrajectorySource, kept: list[Step] | None, packed: PackedSteps
    ) -> tuple[Compaction, ...]:
        if source.kind is TrajectoryKind.SUBAGENT:
            return ()
        verdict = self.trial.verdict and self.trial.verdict.with_texts(self.uncounted.text)
        texts = None if kept is None else [StepTexts(step) for step in kept]
        return tuple(
            pack_compaction(
                compact(
                    packed.steps() if texts is None else texts,
                    kind,
                    shown=ShownVerdict(verdict, with_checks=kind is CompactionKind.RICH),
                    title=self.uncounted.text(self.trial.task.title),
                ),
                self.blobs,
            )
            for kind in CompactionKind
        )

    def _kept_source(self, source: TrajectorySource, blobs: BlobStore) -> str | None:
        if source.size > MAX_SOURCE_BYTES:
            return None
        text = source.text
        if text is None:
            with source.open() as stream:
                text = stream.read(MAX_SOURCE_BYTES).decode("utf-8", "replace")
        return blobs.put(self.uncounted.document(text, self.hints).encode())

    def _extra(self, read: ReadTrajectory, source: TrajectorySource, redactions: int) -> dict[str, Any]:
        extra = {**source.extra, **({"facts": read.facts} if read.facts else {})}
        call = str((read.head.extra or {}).get("tool_call_id") or "")
        if call in self.steps_of_calls:
            extra["called_at"] = self.steps_of_calls[call]
        if read.head.skills_listed:
            extra["skills_listed"] = list(read.head.skills_listed)[:1_000]
        if read.head.session_id:
            extra["session_id"] = read.head.session_id
        if read.reported is not None:
            extra["reported"] = usage_json(read.reported)
        if redactions:
            extra["redactions"] = redactions
        return dict(self._storable(extra) or {})

    def _storable(self, value: Any) -> Any:
        return None if value is None else self.uncounted.value(storable_value(value))

    def _report(self, source: TrajectorySource, place: str, expected: str, message: str) -> None:
        """Report the problem now, and keep it with the trajectory, to report it again when the source is unchanged."""
        message = self.uncounted.text(message)
        paths = (found.path for choice in self.trial.choices for found in choice.trajectories)
        self.problems.add(place_of(self.path, source.path, paths), place, expected, message)
        problems = self.reported.setdefault(source.path, [])
        if len(problems) < MAX_KEPT_PROBLEMS:
            problems.append({"place": storable(place), "expected": storable(expected), "message": storable(message)})

    def _unique(self, name: str) -> str:
        """Return the name, with the first number that makes it unique if it is taken."""
        name = redact_text(storable(name))[:280] or "trajectory"
        numbered = (f"{name}#{number}" for number in count(2))
        chosen = next(found for found in chain([name], numbered) if found not in self.names)
        self.names.add(chosen)
        return chosen


@dataclass(slots=True)
class _CountedSteps:
    """Pass steps through and count skill uses and model turns."""

    mounted: tuple[str, ...] | None
    name: str
    uses: list[UseValue] = field(default_factory=list)
    agent_steps: int = 0
    calls: int = 0
    by_model: dict[str | None, Usage] = field(default_factory=dict)
    subagent_calls: dict[str, int] = field(default_factory=dict)

    def passing(self, steps: Iterable[Step]) -> Iterator[Step]:
        for step in steps:
            for call in step.tool_calls:
                if call.name in STARTING:
                    self.subagent_calls[call.id] = step.number
            self.uses += step_uses(step, mounted=self.mounted, trajectory=self.name)
            if step.source is Source.AGENT and not step.is_copied_context:
                self.agent_steps += 1
                self.calls += step.usage is not None
                if step.usage is not None:
                    self.by_model[step.model] = self.by_model.get(step.model, Usage()) + step.usage
            yield step

    @property
    def turns(self) -> int:
        """Return model calls if the source separates them, else the agent's steps."""
        return self.calls or self.agent_steps


def _estimate_cost(read: ReadTrajectory, by_model: Mapping[str | None, Usage]) -> float | None:
    """Estimate the cost. With several models, only if their calls add up to everything that was used."""
    models = {model or read.head.model or "" for model in by_model} or {read.head.model or ""}
    if len(models) == 1:
        return estimate_cost(models.pop(), read.usage)
    total = sum(by_model.values(), Usage())
    if (total.input_tokens, total.output_tokens) != (read.usage.input_tokens, read.usage.output_tokens):
        return None
    estimates = [estimate_cost(model or read.head.model or "", usage) for model, usage in by_model.items()]
    return None if None in estimates else sum(each or 0.0 for each in estimates)


def _agent(read: ReadTrajectory) -> str:
    """Return the sub-agent's id in Claude Code's logs; "" for any other trajectory."""
    return str((read.head.extra or {}).get("agent_id") or "")


def _agent_of(source: TrajectorySource) -> str:
    try:
        return _agent(read_trajectory(source.open, source_format=source.format))
    except OSError:  # reported where it is read
        return ""


def usage_json(usage: Usage) -> dict[str, float]:
    return {name: value for name in USAGE if (value := getattr(usage, name)) is not None}


def _resolve(path: str, reference: str) -> str:
    """Resolve a reference in the trial's folder; one that leads outside gets a name that no file has."""
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / reference).parts:
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def redacted_files(files: Files) -> dict[str, File]:
    """Return the files with secrets redacted in those that are text."""
    redactor = Redactor()
    found: dict[str, File] = {}
    for path, file in files.items():
        try:
            text = file.content.decode()
        except UnicodeDecodeError:
            found[path] = file
            continue
        found[path] = replace(file, content=redactor.text(text).encode())
    return found

"""Run logs, as `skillglass.start` writes them and docs/reference/run-log.md describes them: a folder with run.jsonl,
messages/ and blobs/. All runs that name the same experiment are one experiment; each log is an episode of its own.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, aware, read_lines, read_time, seconds_between
from benchapp.imports.reading.found_trials import MAX_OUTPUT, FoundRow, of_atif
from benchapp.imports.reading.walking import Root, list_names
from benchapp.record.textual_change import is_binary
from runner.base.text import storable
from runner.base.types import (
    AuthorMode,
    Check,
    CheckGroup,
    CheckStatus,
    DecisionStatus,
    File,
    Files,
    JsonValue,
    Patch,
    Phase,
    Usage,
    Verdict,
)
from skillglass.run_log import CUT_OFF, EXECUTABLE, FORMAT, GROUPS, PHASES, PLAIN, STATUSES, VERSION
from skillglass.run_log import NAME as PLAIN_NAME
from skillglass.sending import BLOBS, EVENTS, MESSAGES

NAME, TITLE = "run-log", "Run log"
MAX_FILE = 32 * 1024 * 1024
MAX_STEPS_BYTES = 64 * 1024 * 1024  # of a trial in ATIF, which is held as a whole
FAMILY = "all"
MAX_EVENTS = 150_000  # of a log; they are held while it is read
MAX_HELD_BYTES = MAX_FILE  # of the contents of all its libraries


def claims(root: Root, folder: Path) -> bool:
    if not root.is_file(folder / EVENTS):
        return False
    with root.open(folder / EVENTS) as file:
        return FORMAT.encode() in file.read(4_096)


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    log = RunLog(root, folder)
    if not log.head:
        found = "there is none; the folder is left out"
        root.report(folder / EVENTS, "line 1", f"the event run of {FORMAT}, version {VERSION}", found)
        return
    name = log.head.text("experiment", 300) or folder.name
    yield sources.FoundExperiment(
        sources.ExperimentSource(
            key=f"{NAME}:{name}",
            name=name,
            path=root.label(folder),
            spec={"format": NAME},
            suite=log.suite,
            was_cut_short=log.has_failed,
        ),
        trials=tuple(log.list_trials()),
        histories=(log.history,) if log.libraries else (),
    )


class RunLog:
    """The events of one log, by what they are about."""

    def __init__(self, root: Root, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.head = Document(root, folder / EVENTS, {})
        self.trials: dict[str, Document] = {}
        self.ends: dict[str, Document] = {}
        self.graded: defaultdict[str, list[Document]] = defaultdict(list)  # checks and scores
        self.story: list[Document] = []  # what happened to the library, and the trials that ended
        self.libraries: dict[str, Document] = {}
        self.has_failed = self.is_over = False
        self._files: dict[str, Files] = {}
        self._blobs: dict[str, bytes] = {}
        self._left = MAX_HELD_BYTES
        for number, event in enumerate(read_lines(root, folder / EVENTS)):
            if number == MAX_EVENTS:
                event.report("", f"at most {MAX_EVENTS:,} events", "more; the rest is left out")
                break
            self._take(event)
        self.ident = self.head.text("id", 100) or folder.name
        self.suite = self.head.text("suite", 200) or self.head.text("experiment", 200) or NAME
        title = self.head.text("name", 200) or self.ident
        self.episode = sources.EpisodeSource(self.ident, title, family=FAMILY)
        self.run = self._read_run(self.head)

    def _take(self, event: Document) -> None:
        kind, trial = event.text("type", 40), event.text("trial", 200) or ""
        match kind:
            case "run" if event.raw.get("format") == FORMAT and event.raw.get("version") == VERSION:
                self.head = self.head or event
            case "trial" if trial and trial not in self.trials and PLAIN_NAME.fullmatch(trial):
                self.trials[trial] = event
                self.is_over = False
            case "check" | "score" if trial in self.trials:
                self.graded[trial].append(event)
            case "end" if trial in self.trials and trial not in self.ends:
                self.ends[trial] = event
                if event.raw.get("outcome") != CUT_OFF:
                    self.story.append(event)
            case "library":
                self.libraries.setdefault(event.text("library", 64) or "", event)
            case "seed" | "decision" | "freeze":
                self.story.append(event)
            case "finish":
                self.is_over, self.has_failed = True, event.raw.get("outcome") == "error"
            case _:
                wanted = "an event of this format, about a trial that began once"
                event.report("", wanted, f"found {storable(str(kind))!r:.60} {storable(trial)!r:.60}; left out")

    def _read_run(self, head: Document) -> sources.RunSource:
        config = head.raw.get("config")
        return sources.RunSource(
            harness=head.text("harness", 200) or sources.UNKNOWN,
            agent_model=head.text("agent_model", 200) or sources.UNKNOWN,
            author_model=head.text("author_model", 200) or "",
            condition=head.text("condition", 200) or sources.UNKNOWN,
            replicate=head.count("replicate"),
            setup=config if isinstance(config, dict) else {},
        )

    # --- trials -----------------------------------------------------------------------------------------------------

    def list_trials(self) -> Iterator[FoundRow]:
        last = {begun.text("repeats", 200) or trial: trial for trial, begun in self.trials.items()}
        if repeated := len(self.trials) - len(last):
            found = f"{repeated:,} were cut off and repeated; the last one of each is read"
            self.root.report(self.folder / EVENTS, "", "trials that ended by themselves", found)
        for first, trial in last.items():
            begun = self.trials[trial]
            end, graded = self.ends.get(trial), self.graded[trial]
            path = self.folder / MESSAGES / f"{trial}.jsonl"
            # What has ended does not change: its messages are read again only if the end says so.
            events = [self.head, begun, *graded] + ([] if end is None else [end])
            row: list[JsonValue] = [dict(each.raw) for each in events]
            if end is None:  # under way: it comes in again each time it has twice as many bytes
                row += [math.floor(math.log2(1 + self.root.size(path))), self.is_over]
            yield FoundRow(
                self.root,
                f"{self.root.label(self.folder)}, trial {trial}",
                (self._ident(trial),),
                (first,),
                partial(self._build, begun, end, graded, path),
                row=row,
            )

    def _ident(self, trial: str) -> str:
        """Return the record's id of a trial: one that was cut off and its repetition are the same."""
        return f"{NAME}:{self.ident}/{self.trials[trial].text('repeats', 200) or trial}"

    def _build(self, begun: Document, end: Document | None, graded: list[Document], path: Path) -> sources.TrialSource:
        outcome = end.text("outcome", 40) if end else None
        started, ended = read_time(begun, "at"), read_time(end, "at") if end else None
        error = end.object("error") if end and end.raw.get("error") else None
        key = begun.text("task", 200) or sources.UNKNOWN
        library = self._read_given(begun)
        return sources.TrialSource(
            run=self.run,
            task=sources.TaskSource(
                self.suite, key, begun.text("title", 300) or key, family=begun.text("family", 200) or None
            ),
            timing=sources.Timing(
                started_at=aware(started),
                finished_at=aware(ended),
                duration_seconds=seconds_between(end, started, ended) if end else None,
            ),
            verdict=_read_verdict(end, graded) if end else None,
            config={},
            choices=self._read_messages(end, path),
            episode=self.episode,
            phase=Phase(begun.choice("phase", PHASES, Phase.EVALUATION)),
            exception=sources.ExceptionSource(error.text("type", 200) or "error", error.text("message") or "")
            if error
            else None,
            usage=_read_usage(end.object("usage")) if end else Usage(),
            skills_mounted=None if library is None else tuple(sorted({name.partition("/")[0] for name in library})),
            is_finished=end is not None and outcome != CUT_OFF,
        )

    def _read_messages(self, end: Document | None, path: Path) -> tuple[sources.SourceChoice, ...]:
        if not self.root.is_file(path):
            if end and end.raw.get("messages"):
                end.report("messages", f"{MESSAGES}/{path.name}", "it is not there; the trial has no trajectory")
            return ()
        if not (size := self.root.size(path)):
            return ()
        name, said = f"{MESSAGES}/{path.name}", end.text("sha256", 64) if end else None
        if end and said and said != self.root.sha256(path):
            end.report("sha256", f"the digest of {name}", "it has other bytes; they are read as they are")
        first = next(read_lines(self.root.mute(), path, MAX_STEPS_BYTES), None)
        if first is None or "source" not in first.raw:
            source = sources.TrajectorySource(name, lambda: self.root.open(path), size, format="chat-messages")
        else:
            lines = enumerate(read_lines(self.root, path, MAX_STEPS_BYTES), start=1)
            steps = [{**line.raw, "step_id": number} for number, line in lines]
            source = of_atif(name, steps, agent=self.run.harness)
        return (sources.SourceChoice((source,)),)

    # --- the library ------------------------------------------------------------------------------------------------

    @property
    def history(self) -> sources.HistorySource:
        began = aware(read_time(self.head, "at")) or datetime.fromtimestamp(0, UTC)
        idents = tuple(map(self._ident, self.trials))
        return sources.HistorySource(
            self.run, self.episode, self.suite, self.root.label(self.folder), idents, self.list_moments, began
        )

    def list_moments(self) -> Iterator[sources.Moment]:
        if billed := sum(bool(event.raw.get("usage")) for event in self.story if event.raw["type"] == "decision"):
            found = f"{billed:,} have; left out"
            self.root.report(self.folder / EVENTS, "usage", "decisions without tokens or cost", found)
        is_frozen = False
        for event in self.story:
            at = aware(read_time(event, "at"))
            if event.raw["type"] == "end":
                begun = self.trials[str(event.raw["trial"])]
                is_candidate = begun.raw.get("is_candidate") is True
                yield sources.TrialMoment(self._ident(str(event.raw["trial"])), self._read_given(begun), is_candidate)
                continue
            library = self._read_library(event)
            if is_frozen:
                event.report("", "no change of a library after its freeze", f"found {event.raw['type']}; left out")
            elif library is None:
                event.report("library", "a library of this log", f"{event.raw.get('library')!r:.80}; left out")
            elif event.raw["type"] == "seed":
                yield sources.SeedMoment(FAMILY, library, at)
            elif event.raw["type"] == "freeze":
                is_frozen = True
                yield sources.FreezeMoment(at, library)
            else:
                yield self._read_decision(event, library, at)

    def _read_decision(self, event: Document, proposed: Files, at: datetime | None) -> sources.DecisionMoment:
        status = DecisionStatus(event.choice("status", STATUSES, DecisionStatus.FAILED))
        before = self._read_library(event, "before") or {}
        new = {path: file.content for path, file in proposed.items() if before.get(path) != file}
        changed = {path: content.decode() for path, content in new.items() if not is_binary(content)}
        if status != DecisionStatus.APPLIED and (lost := [path for path in new if path not in changed]):
            event.report("library", "texts in a proposal that was not taken", f"{list_names(lost)}: binary; left out")
        reply = self._read_blob(event, event.text("reply", 64)) if event.raw.get("reply") else None
        removed = tuple(sorted(before.keys() - proposed.keys()))
        said = reply.decode("utf-8", "replace") if reply else ""
        reason = event.text("reason") or ""
        has_failed = status == DecisionStatus.FAILED
        has_patch = bool(changed or removed or said)
        after_trial = event.text("after_trial", 200)
        return sources.DecisionMoment(
            family=FAMILY,
            mode=AuthorMode.EVOLVE,
            status=status,
            after=proposed if status == DecisionStatus.APPLIED else before,
            after_trial=self._ident(after_trial) if after_trial in self.trials else None,
            operation_type="",
            summary="" if has_failed else reason,
            error=reason if has_failed else "",
            patch=Patch(said or reason, "revise", changed, removed) if has_patch else None,
            evidence=tuple(self._ident(each) for each in event.texts("evidence") if each in self.trials),
            at=at,
            before=before,
        )

    def _read_given(self, begun: Document) -> Files | None:
        """Return the library of a trial, empty if it names none; None if it names one that is not in the log."""
        return {} if begun.raw.get("library") is None else self._read_library(begun)

    def _read_library(self, event: Document, key: str = "library") -> Files | None:
        """Return the files of a library, one mapping for each; None if the event names none, or none that is here."""
        digest = event.text(key, 64)
        if digest is None or digest not in self.libraries:
            return None
        if digest not in self._files:
            listed, files, total = self.libraries[digest], dict[str, File](), 0
            for each in listed.objects("files"):
                path, content = each.text("path", 1_000), self._read_blob(each, each.text("sha256", 64))
                total += len(content or b"")
                if total > MAX_HELD_BYTES:  # a content may be named by any number of paths
                    each.report("", f"a library of at most {MAX_HELD_BYTES:,} bytes", "more; the rest is left out")
                    break
                if path and content is not None:
                    files[path] = File(content, EXECUTABLE if each.raw.get("executable") is True else PLAIN)
            self._files[digest] = files
        return self._files[digest]

    def _read_blob(self, event: Document, digest: str | None) -> bytes | None:
        if digest in self._blobs:
            return self._blobs[digest]
        content = None
        if digest and len(digest) == 64 and digest.isalnum():
            path = self.folder / BLOBS / digest
            if self.root.size(path) > self._left:
                event.report("", f"at most {MAX_HELD_BYTES:,} bytes of contents in all", f"{digest} is left out")
                return None
            content = self.root.read(path, MAX_FILE)
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            found = "it is not there" if content is None else "it has other bytes"
            event.report("", f"{BLOBS}/{str(digest)[:64]}", f"{found}; left out")
            return None
        self._left -= len(content)
        self._blobs[str(digest)] = content
        return content


def _read_verdict(end: Document, graded: list[Document]) -> Verdict | None:
    checks, scores = list[Check](), dict[str, float | None]()
    for event in graded:
        name = event.text("name", 500) or ""
        if event.raw["type"] == "score":
            scores[name] = event.number("value")
            continue
        status = event.text("status", 40) or ""
        if status not in list(CheckStatus):
            event.report("status", f"one of {', '.join(CheckStatus)}", f"found {status!r}; left out")
            continue
        group = event.choice("group", GROUPS, CheckGroup.TEST, unnamed=CheckGroup.TEST)
        checks.append(Check(CheckGroup(group), name, CheckStatus(status), event.text("message") or ""))
    success, reward = end.raw.get("success"), end.number("reward")
    if success is not None and not isinstance(success, bool):
        end.report("success", "true, false or null", f"found {success!r:.60}; taken as unknown")
        success = None
    if success is None and reward is None and not checks and not scores:
        return None
    return Verdict(
        end.text("judge", 100) or NAME,
        success,
        reward,
        checks=tuple(checks),
        rewards=scores,
        output=end.text("output", MAX_OUTPUT) or "",
    )


def _read_usage(told: Document) -> Usage:
    return Usage(
        told.count("input_tokens"), told.count("cached_tokens"), told.count("output_tokens"), told.amount("cost_usd")
    )

"""Runs of terminal-bench 1: RUN/results.json with a row for each trial, and TASK/TRIAL/ with what its agent did; or
only the results of several runs, in files of other names that end like it (2026-03-01__results.json).

Runs in one folder are one experiment, so that agents and models are compared. An interrupted run has no results.json,
and no trial folder of its last trials has one either. Agents that are installed in the container report 0 tokens:
unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path

import orjson

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import (
    Document,
    aware,
    find_object,
    read_optional,
    read_time,
    seconds_between,
)
from benchapp.imports.reading.found_trials import MAX_OUTPUT, FoundRow, of_bytes
from benchapp.imports.reading.trajectory_files import PREFERENCE, choose, is_candidate
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from runner.base.text import clean, cut, storable
from runner.base.types import Check, CheckGroup, CheckStatus, JsonValue, Usage, Verdict
from runner.trajectories.readers import PLAIN_TEXT
from runner.trajectories.readers.plain_json import read_plain
from runner.trajectories.readers.reading import sniff

NAME, TITLE = "terminal-bench", "Terminal-Bench"
SUFFIXES = frozenset({".json"})
RESULTS, METADATA, LOCK = "results.json", "run_metadata.json", "tb.lock"
AGENT_LOGS, TERMINAL = "agent-logs", ("sessions/agent.log", "sessions/agent.cast", "panes/post-agent.txt")
_HEAD_BYTES = 256 * 1024  # an instruction comes before the other fields
_TRIAL_MARKS = (b'"trial_name"', b'"task_id"', b'"is_resolved"', b'"failure_mode"')
_RUN_MARKS = (b'"agent_name"', b'"n_concurrent_trials"', b'"dataset_name"')
_NO_FAILURE = frozenset({"unset", "none", ""})
_STATUS = {"passed": CheckStatus.PASSED, "failed": CheckStatus.FAILED, "skipped": CheckStatus.SKIPPED}
_PARTS = ("trial", "agent", "test")  # each has a start and an end
_MAX_TERMINAL = 16 * 1024 * 1024
_EPISODE = re.compile(r"episode-(\d{1,6})/")
_EPISODE_FILES = {"prompt.txt": "prompt", "response.json": "response", "response.txt": "response"}


def claims(root: Root, folder: Path) -> bool:
    pairs = ((folder / RESULTS, _TRIAL_MARKS), (folder / METADATA, _RUN_MARKS))
    return any(root.is_file(path) and _has(root, path, marks) for path, marks in pairs)


def claims_file(root: Root, entry: FolderEntry) -> bool:
    return entry.path.name.endswith(RESULTS) and _has(root, entry.path, _TRIAL_MARKS)


def _has(root: Root, path: Path, marks: tuple[bytes, ...]) -> bool:
    try:
        with root.open(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    return all(mark in head for mark in marks)


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    is_trial = root.is_file(folder / RESULTS) and "trial_name" in read_optional(root.mute(), folder / RESULTS).raw
    run = TerminalBenchRun(root, folder.parent.parent if is_trial else folder)
    trials = [run.read_trial(folder)] if is_trial else run.list_trials()
    source = sources.ExperimentSource.of_folder(root, run.folder.parent, format=NAME, title=TITLE)
    yield sources.FoundExperiment(source, trials=tuple(sorted(trials, key=lambda found: found.order)))


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    folders = defaultdict[Path, list[FoundRow]](list)
    for entry in entries:
        run = TerminalBenchRun(root, entry.path.parent, entry.path.name)
        folders[entry.path.parent] += [run.found(row, None) for row in run.rows.values()]
    for folder, trials in folders.items():
        source = sources.ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE)
        yield sources.FoundExperiment(source, trials=tuple(sorted(trials, key=lambda found: found.order)))


class TerminalBenchRun:
    """`results`: the name of its file; if it is not the usual one, the run has its name."""

    def __init__(self, root: Root, folder: Path, results: str = RESULTS) -> None:
        self.root, self.folder, self.results = root, folder, folder / results
        inside = folder.is_relative_to(root.base)  # False for the run of a trial that was given alone
        self.metadata, self.lock = (
            read_optional(root, folder / name) if inside else Document(root, folder / name, {})
            for name in (METADATA, LOCK)
        )
        named = storable(results.removesuffix(RESULTS)).strip("-_. ")
        self.name = named or self.metadata.text("run_id", 200) or name_of(folder)

    @cached_property
    def source(self) -> sources.RunSource:
        agent = self.lock.object("agent")
        dataset = {key: self.metadata.raw.get(f"dataset_{key}") for key in ("name", "version")}
        return sources.RunSource(
            harness=self.metadata.text("agent_name", 100) or agent.text("name", 100) or sources.UNKNOWN,
            agent_model=self.metadata.text("model_name", 200) or agent.text("model_name", 200) or sources.UNKNOWN,
            author_model="",
            variant=self.name,
            setup={
                "source": NAME,
                "run": self.name,
                "dataset": dataset,
                "terminal_bench": self.lock.object("harness").raw.get("version"),
                "commit": self.metadata.raw.get("commit_hash"),
            },
        )

    @cached_property
    def rows(self) -> dict[str, Document]:
        """Return the rows of the run's results.json by the trial's name."""
        if not self.folder.is_relative_to(self.root.base):
            return {}
        found = dict[str, Document]()
        results = find_object(self.root, self.results)
        for row in results.objects("results") if results else ():
            if (name := row.text("trial_name", 300)) and row.text("task_id"):
                found.setdefault(name, row)
            else:
                row.report("trial_name", "a trial with its name and its task", "none; left out")
        if results is not None and not found:
            results.report("results", "the trials of the run", "none")
        return found

    def list_trials(self) -> Iterator[FoundRow]:
        """Yield the trials of folders, then those that only the run's results.json has."""
        left = dict(self.rows)
        for task in self.root.listing(self.folder)[0]:
            for folder in self.root.listing(task)[0]:
                if any(self.root.exists(folder / name) for name in (RESULTS, "sessions", "panes", AGENT_LOGS)):
                    left.pop(name_of(folder), None)
                    yield self.read_trial(folder)
        yield from (self.found(row, None) for row in left.values())

    def read_trial(self, folder: Path) -> FoundRow:
        row = find_object(self.root, folder / RESULTS) or self.rows.get(name_of(folder))
        if row is None:
            self.root.report(folder / RESULTS, "", "the result of a trial", "none that can be read: it is unfinished")
            named = {"trial_name": name_of(folder), "task_id": name_of(folder.parent)}
            row = Document(self.root, folder / RESULTS, named)
        return self.found(row, folder)

    def found(self, row: Document, folder: Path | None) -> FoundRow:
        name, task = row.text("trial_name", 300) or sources.UNKNOWN, row.text("task_id", 300) or sources.UNKNOWN
        run = self.folder if self.results.name == RESULTS else self.results
        ident = row.text("id", 100) or row.text("uuid", 100) or f"{tail_of(run, 2)}/{name}"
        place = self.root.label(folder) if folder else f"{self.root.label(row.path)}, {row.place}"
        files = (*(entry.path for entry in self.root.tree(folder)), row.path) if folder else ()
        about: JsonValue = [dict(row.raw), dict(self.metadata.raw), dict(self.lock.raw)]
        build = partial(self._build, row, folder, name, task)
        return FoundRow(self.root, place, (f"{NAME}:{ident}",), (self.name, task, name), build, about, files)

    def _build(self, row: Document, folder: Path | None, name: str, task: str) -> sources.TrialSource:
        kept = ("trial_name", "instruction", "failure_mode", "recording_path", "pass_rate")
        failure = row.text("failure_mode", 100) or ""
        used = tuple(row.count(f"total_{side}_tokens") for side in ("input", "output"))
        times = {part: [read_time(row, f"{part}_{end}_at") for end in ("started", "ended")] for part in _PARTS}
        seconds = [seconds_between(row, *ends) for ends in times.values()]
        return sources.TrialSource(
            run=self.source,
            task=sources.TaskSource(NAME, task, task),
            timing=sources.Timing(aware(times["trial"][0]), aware(times["trial"][1]), "", "", *seconds),
            verdict=self._verdict(row, folder),
            config={key: row.raw[key] for key in kept if key in row.raw},
            choices=(self._choose(folder),) if folder else (),
            exception=None if failure in _NO_FAILURE else sources.ExceptionSource(failure, ""),
            usage=Usage(used[0], None, used[1]) if any(used) else Usage(),
            is_finished="is_resolved" in row.raw,
        )

    def _verdict(self, row: Document, folder: Path | None) -> Verdict | None:
        """Return what the tests found. None, as after a timeout of the tests, is not a failure."""
        success, parsed = row.raw.get("is_resolved"), row.object("parser_results")
        if success is not None and not isinstance(success, bool):
            row.report("is_resolved", "true, false or null", f"found {success!r:.40}; no verdict")
        if not isinstance(success, bool):
            return None
        if odd := sorted({str(value) for value in parsed.raw.values()} - _STATUS.keys()):
            row.report("parser_results", "passed or failed", f"found {', '.join(odd)[:200]}: not judged")
        checks = tuple(
            Check(CheckGroup.TEST, clean(name)[:500], _STATUS.get(str(status), CheckStatus.ERROR))
            for name, status in parsed.raw.items()
        )
        pane = folder / "panes/post-test.txt" if folder else None
        text = self.root.read_ends(pane, _MAX_TERMINAL) if pane and self.root.is_file(pane) else None
        output = cut(clean((text or b"").decode("utf-8", "replace")).strip(), MAX_OUTPUT)
        return Verdict("tests", success, float(success), checks=checks, output=output)

    # --- what the agent did ---------------------------------------------------------------------------------------

    def _choose(self, folder: Path) -> sources.SourceChoice:
        """Return the agent's own log; else the episodes of Terminus; else what was printed on its terminal."""
        logs = self.root.tree(folder / AGENT_LOGS) if self.root.is_dir(folder / AGENT_LOGS) else []
        chosen = choose(self.root, folder / AGENT_LOGS, [entry for entry in logs if is_candidate(entry.name)])
        if chosen.trajectories:
            return chosen
        found = self._read_episodes(logs) or self._read_terminal(folder)
        return sources.SourceChoice((found,) if found else ())

    def _read_episodes(self, logs: list[FolderEntry]) -> sources.TrajectorySource | None:
        parts = {entry.name: entry.path for entry in logs}
        numbers = sorted({int(match[1]) for name in parts if (match := _EPISODE.match(name))})
        episodes = [{"episode": number, **self._read_episode(number, parts)} for number in numbers]
        return (
            of_bytes(f"{AGENT_LOGS}/episodes", orjson.dumps(episodes), format="terminus-episodes") if episodes else None
        )

    def _read_episode(self, number: int, parts: Mapping[str, Path]) -> dict[str, str]:
        found = [(key, parts.get(f"episode-{number}/{name}")) for name, key in _EPISODE_FILES.items()]
        texts = {key: self.root.read(path, _MAX_TERMINAL) for key, path in found if path}
        return {key: storable((text or b"").decode("utf-8", "replace")) for key, text in texts.items()}

    def _read_terminal(self, folder: Path) -> sources.TrajectorySource | None:
        """Return a stream of JSON events that the agent printed, or else the text of its terminal."""
        path = next((folder / name for name in TERMINAL if self.root.size(folder / name)), None)
        content = self.root.read_ends(path, _MAX_TERMINAL) if path else None
        if not path or not content:
            return None
        printed = content.decode("utf-8", "replace")
        if path.suffix == ".cast":
            printed = "".join(self._list_output(path, printed))
        lines = [clean(line).strip() for line in printed.split("\n")]
        events = "\n".join(line for line in lines if line.startswith("{") and line.endswith("}")).encode()
        kind = sniff(BytesIO(events)) if events else ""
        if kind in PREFERENCE:
            return of_bytes(path.name, events, format=kind)
        return of_bytes(path.name, "\n".join(lines).encode(), format=PLAIN_TEXT)

    def _list_output(self, path: Path, content: str) -> Iterator[str]:
        """Yield what an asciinema recording shows: lines of [seconds, "o", text] after a header."""
        for line in content.splitlines()[1:]:
            event = read_plain(line.encode())
            if isinstance(event, list) and len(event) == 3 and event[1] == "o" and isinstance(event[2], str):
                yield event[2]

"""What OpenHands keeps: output.jsonl of its evaluations, one instance a line, and conversations with a file an event.

A list of events in one file is a session (`session_logs`). Whether a patch solved its issue is known where the
evaluation's report was merged into the line (output.swebench_eval.jsonl), or where the benchmark's own result is in
it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import orjson

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, aware, find_object, read_lines, read_time, seconds_between
from benchapp.imports.reading.found_trials import MAX_OUTPUT, FoundRow, of_bytes
from benchapp.imports.reading.trajectory_files import event_number, join_events
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from runner.base.text import clean
from runner.base.types import Source, Usage, Verdict, is_success
from runner.trajectories.readers.reading import read_trajectory, sniff

NAME, TITLE = "openhands", "OpenHands"
SUFFIXES = frozenset({".json", ".jsonl"})
_HEAD_BYTES = 256 * 1024
_ROW = re.compile(rb'^\s*\{\s*"(?:instance_id|issue)"\s*:')
_BESIDE = frozenset({"metadata.json", "base_state.json", "meta.json", "agent_state.pkl", "llm_registry.json"})
_ANSWERS = (
    "resolved",
    "success",
    "correct",
    "score",
    "reward",
    "result",
)  # keys of benchmarks; the first one found decides


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        if entry.path.suffix == ".json":
            return (event_number(entry) is not None or _is_page(root, entry)) and sniff(stream) == NAME
        head = stream.read(_HEAD_BYTES)
    if not _ROW.match(head):
        return False
    if len(head) == _HEAD_BYTES:  # a long first row, whose end was not seen
        return any(mark in head for mark in (b'"history"', b'"test_result"', b'"instruction"'))
    return all(mark in head for mark in (b'"history"', b'"metrics"'))


def _is_page(root: Root, entry: FolderEntry) -> bool:
    """Is it a page of events that are files as well?"""
    return entry.path.parent.name == "event_cache" and root.is_dir(entry.path.parent.parent / "events")


def is_companion(entries: Sequence[FolderEntry]) -> Callable[[FolderEntry], bool]:
    """Recognise settings and states of a run or a conversation."""
    return lambda entry: entry.path.name in _BESIDE


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    conversations: defaultdict[Path, list[FolderEntry]] = defaultdict(list)
    for entry in entries:
        if _is_page(root, entry):
            continue
        if entry.path.suffix == ".json":
            conversations[entry.path.parent].append(entry)
            continue
        seen, trials = set[str](), list[FoundRow]()
        for row in read_lines(root, entry.path):
            found = _find_instance(root, entry, row)
            if found is not None and found.ids[0] not in seen:
                seen.add(found.ids[0])
                trials.append(found)
            else:
                row.report("instance_id", "each instance once, with its history", "another row; left out")
        source = sources.ExperimentSource.of_folder(root, entry.path.parent, format=NAME, title=TITLE)
        yield sources.FoundExperiment(source, trials=tuple(sorted(trials, key=lambda trial: trial.order)))
    if conversations:
        source = sources.ExperimentSource.of_folder(root, root.base, format=NAME, title="Conversations in")
        yield sources.FoundExperiment(
            source, trials=tuple(_find_conversation(root, *each) for each in conversations.items())
        )


# --- evaluations ------------------------------------------------------------------------------------------------------


def _find_instance(root: Root, entry: FolderEntry, row: Document) -> FoundRow | None:
    issue = row.raw.get("issue")
    ident = f"{issue.get('repo')}#{issue.get('number')}" if isinstance(issue, Mapping) else row.text("instance_id", 300)
    if not ident or not isinstance(row.raw.get("history"), list):
        return None
    build = partial(_build_instance, row, clean(ident), name_of(entry.path))
    place = f"{root.label(entry.path)}, {row.place}"
    return FoundRow(root, place, (f"{NAME}:{tail_of(entry.path, 4)}/{ident}",), (ident,), build, dict(row.raw))


def _build_instance(row: Document, ident: str, file: str) -> sources.TrialSource:
    about, metrics, error = row.object("metadata"), row.object("metrics"), row.text("error", 100_000)
    used = metrics.object("accumulated_token_usage")
    title = (row.text("instruction") or "").strip().partition("\n")[0]
    events = orjson.dumps(row.raw["history"])
    return sources.TrialSource(
        run=sources.RunSource(
            harness=NAME,
            agent_model=about.object("llm_config").text("model", 200) or sources.UNKNOWN,
            author_model="",
            variant=file if about else "",
            setup={
                "source": NAME,
                "agent": about.raw.get("agent_class"),
                "max_iterations": about.raw.get("max_iterations"),
                "dataset": about.raw.get("dataset"),
                "split": about.raw.get("data_split"),
                "git_commit": about.raw.get("git_commit"),
            },
        ),
        task=sources.TaskSource(
            NAME, ident, ident if title.startswith("<") or not title else f"{ident}: {title[:150]}"
        ),
        timing=sources.Timing(),
        verdict=_verdict(row),
        config={"test_result": row.raw.get("test_result"), "git_patch": row.raw.get("git_patch")},
        choices=(sources.SourceChoice((of_bytes("history", events, format=NAME),)),),
        exception=sources.ExceptionSource("error", error) if error else None,
        usage=Usage(
            used.count("prompt_tokens"),
            used.count("cache_read_tokens"),
            used.count("completion_tokens"),
            metrics.amount("accumulated_cost") or None,  # 0 is that of a model without a known price
        ),
    )


def _verdict(row: Document) -> Verdict | None:
    """Return what the benchmark found: a boolean, or a number that passes from 1 on."""
    result = row.object("test_result") if isinstance(row.raw.get("test_result"), Mapping) else row
    report = result.object("report") if isinstance(result.raw.get("report"), Mapping) else result
    key = next((key for key in _ANSWERS if isinstance(report.raw.get(key), bool | int | float)), None)
    if key is None:
        return None
    value = report.raw[key]
    reward = float(value) if isinstance(value, bool) else report.number(key)
    told = row.text("result_explanation", MAX_OUTPUT) or ""
    rewards = {name: float(item) for name, item in report.raw.items() if isinstance(item, bool)}
    source = "judge" if "result_explanation" in row.raw else "evaluation"
    return None if reward is None else Verdict(source, is_success(reward), reward, rewards=rewards, output=told)


# --- conversations ----------------------------------------------------------------------------------------------------


def _find_conversation(root: Root, folder: Path, entries: Sequence[FolderEntry]) -> FoundRow:
    ident, state = name_of(folder.parent), folder.parent / "base_state.json"
    build = partial(_build_conversation, root, ident, entries, state)
    files = (*(entry.path for entry in entries), state)
    return FoundRow(root, root.label(folder), (f"{NAME}:{ident}",), (ident,), build, None, files)


def _build_conversation(root: Root, ident: str, entries: Sequence[FolderEntry], state: Path) -> sources.TrialSource:
    source = join_events(root, entries)
    trajectory = read_trajectory(source.open, source_format=NAME) if source else None
    steps = list(trajectory.steps) if trajectory else []
    asked = next((step.message.strip() for step in steps if step.source is Source.USER), "")
    llm = find_object(root, state)
    model = llm.object("agent").object("llm").text("model", 200) if llm else None
    times = [Document(root, state, {"timestamp": step.timestamp}) for step in steps if step.timestamp]
    began, ended = (read_time(times[place], "timestamp") if times else None for place in (0, -1))
    return sources.TrialSource(
        run=sources.RunSource(
            NAME,
            (trajectory.head.agent_version if trajectory else None) or "",
            model or next((step.model for step in steps if step.model), sources.UNKNOWN),
            "",
            setup={"source": NAME},
        ),
        task=sources.TaskSource(NAME, ident, asked.partition("\n")[0][:120] or ident),
        timing=sources.Timing(
            aware(began), aware(ended), duration_seconds=seconds_between(times[0], began, ended) if times else None
        ),
        verdict=None,
        config={},
        choices=(sources.SourceChoice((source,)),) if source else (),
        usage=(trajectory.reported if trajectory else None) or Usage(),
    )

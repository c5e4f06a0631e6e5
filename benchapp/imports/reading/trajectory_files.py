"""Choose the trajectories among a trial's files.

Agents leave several logs of the same work (a stream, a session log, an ATIF conversion), so content decides: every
candidate is sniffed, and of several structured ones the one with the most tool calls is the main trajectory.
Continuations and sub-agents are attached to it. A sub-agent's log is the main one only if there is no other. The
record lists the other files by name.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import orjson

from benchapp.imports.reading.documents import read_object, read_optional
from benchapp.imports.reading.found_sources import SourceChoice, TrajectorySource
from benchapp.imports.reading.walking import FolderEntry, Root
from runner.base.text import storable
from runner.base.types import TrajectoryKind
from runner.trajectories.readers import PLAIN_TEXT
from runner.trajectories.readers.reading import read_trajectory, sniff

# With equally many tool calls, the format listed first wins: it has more data (prompt, times, tokens).
PREFERENCE = (
    "atif",
    "claude-session",
    "claude-stream-json",
    "cursor-stream-json",
    "copilot-session",
    "codex-rollout",
    "codex-jsonl",
    "gemini-session",
    "gemini-stream-json",
    "qwen-stream-json",
    "gemini-native",
    "qwen-session",
    "kimi-wire",
    "swe-agent",
    "mini-swe-agent",
    "openhands",
    "opencode-export",
    "opencode-stream",
    "pi",
    "copilot-chat",
    "cursor-transcript",
    "terminus-episodes",
    "acp-jsonl",
)
NEVER_ENTERED = frozenset(
    "setup debug todos plans skills plugins shell-snapshots file-history statsig artifacts node_modules .git "
    "__pycache__".split()
)  # below the folder of an agent
MAX_COMPARED_BYTES = 64 * 1024 * 1024  # a larger log is not counted: it goes before all that are
MAX_CANDIDATES = 200

_CONTINUATION = re.compile(r"\.cont-\d+\.")
_SUMMARISER = re.compile(r"\.summarization-\d+-")
_SPOOL = re.compile(r"(?:^|/)(?:command|episode)-\d+/")  # output that a harness also piped to a file
# OpenHands: each event, each model call in a file of its own
_EVENT_FILE = re.compile(r"(?:^|/)(?:events|event_cache|completions)/[^/]+\.json$")
_SKIPPED_SUFFIXES = frozenset(
    ".cast .mp4 .pane .png .jpg .jpeg .gif .webp .pdf .zip .zst .gz .xz .tar .bin .db .sqlite .py .sh .toml "
    ".yaml".split()
)
_ONE_EVENT = re.compile(r"(?:event-)?(\d{1,9})(?:-.{1,100})?\.json")
MAX_JOINED_BYTES = 256 * 1024 * 1024
AGENT_FOLDERS = frozenset({"agent", "trajectory"})  # folders of a trial that hold what its agent did
_STRUCTURED = frozenset({".json", ".jsonl"})
_NOT_A_LOG = frozenset({"exit-code.txt", "settings.json", ".claude.json", ".claude.json.backup", "auth.json"})


@dataclass(slots=True)
class _Candidate:
    source: TrajectorySource
    tool_calls: int = 0
    steps: int = 0

    @property
    def rank(self) -> tuple[int, int, bool, int, str]:
        """Return a sort key: the smallest is the best."""
        path = self.source.path
        return (-self.tool_calls, PREFERENCE.index(self.source.format), bool(_SPOOL.search(path)), -self.steps, path)


def is_candidate(name: str) -> bool:
    """May a file with this path below an agent's folder hold a trajectory? Its content is not read."""
    path = PurePosixPath(name)
    if path.suffix.lower() in _SKIPPED_SUFFIXES or path.name in _NOT_A_LOG or path.name.endswith(".backup"):
        return False
    if _SPOOL.search(name):
        return path.name == "stdout.txt" and "command-" in name
    return True


def choose(root: Root, folder: Path, entries: Sequence[FolderEntry], *, stage: str = "") -> SourceChoice:
    """Choose the trajectories among `entries` (paths relative to `folder`); with `stage`, those of that stage."""
    ordered = sorted((entry for entry in entries if not _EVENT_FILE.search(entry.name)), key=_likelihood)
    if len(ordered) > MAX_CANDIDATES:
        text = f"{len(ordered):,}; {ordered[MAX_CANDIDATES].name} and less likely ones were skipped"
        root.report(folder, "", f"at most {MAX_CANDIDATES} files that may be trajectories", text)
    likely = sorted(ordered[:MAX_CANDIDATES], key=lambda entry: entry.name)
    candidates = [sniffed for entry in likely if (sniffed := _sniff(root, entry))]
    structured = [found for found in candidates if found.source.format in PREFERENCE]
    parts = [found for found in structured if _is_part(found)]
    wholes = [found for found in structured if not _is_part(found)]
    subagents = [found for found in wholes if is_of_subagent(found.source.format, found.source.path, found.source.open)]
    wholes = [found for found in wholes if found not in subagents] or subagents or _select_plain(candidates)
    _report_strange(root, folder, candidates, any_found=bool(structured))
    if not structured:  # the only log may be split into a file for each event
        events = _list_events(entries)
        joined = join_events(root, events[0]) if events else None
        wholes = [_Candidate(joined)] if joined else wholes
        pieces = events[1:] if joined else [[entry for entry in entries if _EVENT_FILE.search(entry.name)]]
        if pieces and pieces[0]:
            text = f"{sum(map(len, pieces)):,} files with one event or completion each; not read"
            root.report(pieces[0][0].path.parent, "", "a trajectory in one file", text)
    if not wholes:
        return SourceChoice(tuple(_attach_part(found.source, stage) for found in parts))
    if len(wholes) > 1:
        wholes = _rank(wholes)
    main = wholes[0]
    attached = [found for found in subagents if found.source.format == main.source.format and found is not main]
    others = [found for found in wholes[1:] if found not in attached]
    others += [found for found in subagents if found not in (main, *attached, *others)]
    extra: dict[str, object] = {}
    if others:
        extra["other_files"] = [{"path": found.source.path, "format": found.source.format} for found in others]
    if stage:
        extra["stage"] = stage
    kind = TrajectoryKind.STAGE if stage else TrajectoryKind.MAIN
    chosen = [replace(main.source, name=stage or "main", kind=kind, extra=extra)]
    chosen += [_attach_part(found.source, stage) for found in parts]
    for found in attached:
        source = _with_kind(found.source, TrajectoryKind.SUBAGENT, stage)
        chosen.append(replace(source, extra=read_call(root, folder / found.source.path)))
    return SourceChoice(tuple(chosen), tuple(found.source for found in others))


def event_number(entry: FolderEntry) -> int | None:
    """Return the place of an event of OpenHands that has a file of its own: events/7.json,
    events/event-00007-ID.json."""
    found = _ONE_EVENT.fullmatch(entry.path.name) if entry.path.parent.name == "events" else None
    return int(found[1]) if found else None


def _list_events(entries: Sequence[FolderEntry]) -> list[list[FolderEntry]]:
    """Return the conversations of OpenHands among the files, the longest first, each with its events."""
    folders = defaultdict[Path, list[FolderEntry]](list)
    for entry in entries:
        if event_number(entry) is not None:
            folders[entry.path.parent].append(entry)
    return sorted(folders.values(), key=len, reverse=True)


def join_events(root: Root, entries: Sequence[FolderEntry]) -> TrajectorySource | None:
    """Join events with a file each to one trajectory, in order. None if there is none, or if they are too large."""
    if (size := sum(entry.size for entry in entries)) > MAX_JOINED_BYTES:
        root.report(entries[0].path.parent, "", f"events of at most {MAX_JOINED_BYTES:,} bytes", f"{size:,}; not read")
        return None
    ordered = sorted(entries, key=lambda entry: event_number(entry) or 0)
    events = [found.raw for entry in ordered if (found := read_object(root, entry.path)) is not None]
    content = orjson.dumps(events)
    return TrajectorySource("events", lambda: BytesIO(content), len(content), format="openhands") if events else None


def _likelihood(entry: FolderEntry) -> tuple[bool, bool, int, str]:
    """Return a sort key: files named trajectory first, then .jsonl, then those nearest to the top."""
    path = PurePosixPath(entry.name)
    return ("trajectory" not in path.name, path.suffix != ".jsonl", len(path.parts), entry.name)


def _sniff(root: Root, entry: FolderEntry) -> _Candidate | None:
    path = entry.path
    try:
        with root.open(path) as stream:
            source_format = sniff(stream)
    except OSError as error:
        root.report_unreadable(path, error)
        return None
    if source_format == "empty":
        if path.suffix in _STRUCTURED:
            root.report(path, "whole file", "a trajectory", "the file is empty")
        return None
    if source_format == "git-lfs-pointer":
        root.report(path, "line 1", "the trajectory itself", "a Git LFS pointer: the content was not downloaded")
        return None
    return _Candidate(replace(TrajectorySource.of_file(root, entry), format=source_format))


def _report_strange(root: Root, folder: Path, candidates: list[_Candidate], *, any_found: bool) -> None:
    """Report a structured file in an unknown format, if its name says trajectory or no trajectory was found."""
    for found in candidates:
        path = PurePosixPath(found.source.path)
        is_named = "trajectory" in path.name
        is_json = path.suffix in _STRUCTURED or found.source.format != PLAIN_TEXT
        if found.source.format not in PREFERENCE and is_json and (is_named or not any_found):
            known = found.source.format != PLAIN_TEXT
            has = f"{found.source.format}, which is not one of these" if known else "an unknown format"
            root.report(folder / path, "whole file", f"a trajectory: {', '.join(PREFERENCE)}", has)


def _select_plain(candidates: list[_Candidate]) -> list[_Candidate]:
    """Return the last resort: the largest plain text log directly in the agent's folder."""
    logs = [
        found
        for found in candidates
        if found.source.format == PLAIN_TEXT
        and PurePosixPath(found.source.path).suffix in {".txt", ".log"}
        and PurePosixPath(found.source.path).parent.name in AGENT_FOLDERS
    ]
    return sorted(logs, key=lambda found: (-found.source.size, found.source.path))[:1]


def _rank(wholes: list[_Candidate]) -> list[_Candidate]:
    """Sort best first. A file that another one refers to is a part of it, never the main trajectory."""
    named: set[str] = set()
    for candidate in wholes:
        path = candidate.source.path
        if candidate.source.size > MAX_COMPARED_BYTES:
            candidate.tool_calls = sys.maxsize
            continue
        trajectory = read_trajectory(candidate.source.open, source_format=candidate.source.format)
        for step in trajectory.steps:
            candidate.steps += 1
            candidate.tool_calls += len(step.tool_calls)
        for _, reference in references(trajectory.head.extra or {}):
            named |= {(PurePosixPath(path).parent / reference).as_posix()} - {path}
    return sorted(wholes, key=lambda found: (found.source.path in named, found.rank))


def references(extra: object) -> list[tuple[TrajectoryKind, str]]:
    """Return (kind, path as written) of the files a trajectory's head refers to."""
    if not isinstance(extra, dict):
        return []
    found = []
    continued = extra.get("continued_trajectory_ref")
    if isinstance(continued, str) and continued:
        found.append((TrajectoryKind.CONTINUATION, continued))
    for item in extra.get("subagent_trajectory_refs") or ():
        path = item.get("trajectory_path") if isinstance(item, dict) else item
        if isinstance(path, str) and path:
            found.append((TrajectoryKind.SUBAGENT, path))
    return found


def _is_part(candidate: _Candidate) -> bool:
    name = PurePosixPath(candidate.source.path).name
    return candidate.source.format == "atif" and bool(_CONTINUATION.search(name) or _SUMMARISER.search(name))


def _attach_part(source: TrajectorySource, stage: str) -> TrajectorySource:
    is_continuation = _CONTINUATION.search(PurePosixPath(source.path).name)
    return _with_kind(source, TrajectoryKind.CONTINUATION if is_continuation else TrajectoryKind.SUBAGENT, stage)


def _with_kind(source: TrajectorySource, kind: TrajectoryKind, stage: str) -> TrajectorySource:
    name = PurePosixPath(source.path).stem
    return replace(source, name=f"{stage}/{name}" if stage else name, kind=kind, parent=stage or "main")


# Claude Code's and Cursor's, in a folder named after the session: <session>/subagents/agent-<id>.jsonl
FOLDER = "subagents"
_ABOUT = {"tool_call_id": "toolUseId", "subagent_type": "agentType", "description": "description"}
LOOKED_AT = 256 * 1024  # bytes; the mark is in one of the first lines
# Claude Code marks each message. A file can mix messages of a session and of its sub-agents: the first one decides.
_SIDECHAIN = re.compile(rb'"isSidechain"\s*:\s*(true|false)')
_STARTED_BY = re.compile(rb'"source"\s*:\s*\{\s*"sub_?agent"', re.IGNORECASE)  # in the head of a Codex rollout
_KIND = re.compile(rb'"kind"\s*:\s*"subagent"')  # in the head of a session of Gemini CLI
_PARENT = re.compile(rb'"parent_?thread_?id"\s*:\s*"([^"]{1,200})"', re.IGNORECASE)


def is_of_subagent(source_format: str, path: str, open_binary: Callable[[], BinaryIO]) -> bool:
    """Is this the log of a sub-agent? `path` is POSIX and includes the file's folder.
    Raise OSError if it cannot be read."""
    if source_format == "kimi-wire":
        parts = PurePosixPath(path).parts
        return len(parts) > 2 and parts[-3] == "agents" and parts[-2] != "main"
    with open_binary() as stream:
        start = stream.read(LOOKED_AT)
    if source_format == "claude-session":
        if PurePosixPath(path).parent.name == FOLDER:
            return True
        first = _SIDECHAIN.search(start)
        return first is not None and first[1] == b"true"
    if source_format == "cursor-transcript":
        return PurePosixPath(path).parent.name == FOLDER
    head = start.split(b"\n", 1)[0]
    if source_format == "codex-rollout":
        return _STARTED_BY.search(head) is not None
    return source_format == "gemini-session" and _KIND.search(head) is not None


def read_call(root: Root, path: Path) -> dict[str, str]:
    """Read the call that started a sub-agent from the file next to its log, under the field names that readers use."""
    about = path.with_suffix(".meta.json")
    if path.parent.name != FOLDER or not root.is_file(about):
        return {}
    meta = read_optional(root, about)
    named = {word: meta.text(key, 300) for word, key in _ABOUT.items()}
    return {word: storable(text) for word, text in named.items() if text}


def find_parent(source_format: str, start: bytes) -> str | None:
    """Return the session that started the sub-agent of a Codex rollout, which has its own id."""
    found = _PARENT.search(start.split(b"\n", 1)[0]) if source_format == "codex-rollout" else None
    return found[1].decode("utf-8", "replace") if found else None

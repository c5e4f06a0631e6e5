"""Find whose copy a session is. Programs copy the earlier part into a new log when a session is resumed or forked, and
tools that keep logs copy a session as it was at that time.

A log has marks: ids of its messages, line by line. Logs that share marks are relatives. Each mark has one owner among
the logs and is a copy in all others. The owner does not depend on the order of logs or imports: `session_root` is equal
for all relatives, and `find_lineages` gets all of them when a new one is imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO
from typing import BinaryIO

from runner.base.types import JsonValue
from runner.trajectories.log_records import Record, read_object, read_text
from runner.trajectories.problems import Problems
from runner.trajectories.readers.line_streams import json_lines

RESUME, FORK, SNAPSHOT = "resume", "fork", "snapshot"
KINDS = (RESUME, FORK, SNAPSHOT)
BY_MAP, BY_IDS, BY_LOG = "map", "ids", "log"  # the evidence: a person, equal ids of messages, the log itself
SCANNED_LINES = ALL_LINES = 1_000_000
_WRITTEN_AT_ONCE = timedelta(milliseconds=100)  # lines of a fork's copy are closer together than this
_OWN_TURN = frozenset({"task_started", "turn_started", "user_message"})  # events that begin a turn in a Codex rollout


@dataclass(frozen=True, slots=True)
class Lineage:
    """`of`: the session that was copied, as "<format>:<session id>". `copied_lines`: how many lines of the log are the
    copy; None means all of them."""

    kind: str
    of: str
    copied_lines: int | None
    by: str

    @property
    def lines(self) -> int:
        return ALL_LINES if self.copied_lines is None else self.copied_lines

    def find_times(self, log: ScannedLog, finished: datetime | None) -> tuple[datetime | None, datetime | None]:
        """Return start and end of its own work, both None if all of it is a copy."""
        if self.copied_lines is None:
            return None, None
        return _read_time(log.start_after(self.copied_lines)), finished

    def as_json(self) -> dict[str, JsonValue]:
        return {"kind": self.kind, "of": self.of, "copied_lines": self.copied_lines, "by": self.by}


@dataclass(frozen=True, slots=True)
class Mark:
    line: int
    ident: str
    time: str


@dataclass(frozen=True, slots=True)
class ScannedLog:
    """What one log says about itself. `session`: its own id. `parent`: the session it names as its source.
    `copied_lines`: how far that copy goes, judging by this log alone. `root`: what all its relatives share. `ends`: by
    line, where its records end."""

    format: str
    session: str
    marks: tuple[Mark, ...]
    parent: str = ""
    copied_lines: int = 0
    root: str = ""
    ends: Mapping[int, int] | None = None

    @property
    def key(self) -> str:
        return f"{self.format}:{self.session}"

    @property
    def root_digest(self) -> str:
        """Return 64 hex characters."""
        return hashlib.sha256(f"{self.format}:{self.root}".encode()).hexdigest()

    @property
    def idents(self) -> frozenset[str]:
        return frozenset(mark.ident for mark in self.marks)

    def is_part_of(self, other: ScannedLog) -> bool:
        """Is it the same session, in the same or an earlier state?"""
        return self.key == other.key and bool(self.marks) and self.idents <= other.idents

    def start_after(self, copied_lines: int) -> str:
        """Return the time of its first own line."""
        return next((mark.time for mark in self.marks if mark.line > copied_lines and mark.time), "")


def can_scan(source_format: str) -> bool:
    return source_format in _SCANNERS


def scan_log(source_format: str, session: str, open_binary: Callable[[], BinaryIO]) -> ScannedLog:
    """Scan a log. `session`: the id to use if the log has none."""
    with open_binary() as stream:
        return _SCANNERS[source_format](session, json_lines(stream, Problems()))


def scan_head(source_format: str, session: str, start: bytes) -> ScannedLog:
    """Scan only the beginning of a file, which is enough for its root."""
    whole = start[: start.rfind(b"\n") + 1] or start
    return _SCANNERS[source_format](session, json_lines(BytesIO(whole), Problems()))


def find_lineages(logs: Sequence[ScannedLog]) -> list[Lineage | None]:
    """Return for each log whose copy it is, or None. Of logs with the same marks, the first key is the owner."""

    def age(at: int) -> tuple[bool, str, int, str]:
        """Sort originals before their copies: by the time of the first line that no other log has. A log without such
        a line is a complete copy."""
        log = logs[at]
        others = frozenset[str]().union(*(other.idents for place, other in enumerate(logs) if place != at))
        own = next((mark.time for mark in log.marks if mark.ident not in others), "")
        return bool(log.parent), own, len(log.marks), log.key

    order = sorted(range(len(logs)), key=age)
    found: list[Lineage | None] = [None] * len(logs)
    for place, at in enumerate(order):
        found[at] = _find_lineage(logs[at], [logs[other] for other in order[:place]])
    return found


def _find_lineage(log: ScannedLog, older: Sequence[ScannedLog]) -> Lineage | None:
    named = next((other for other in older if log.parent and other.session == log.parent), None)
    if named is None and log.parent:
        return Lineage(FORK, f"{log.format}:{log.parent}", log.copied_lines, BY_LOG)
    idents = log.idents
    shared = [(len(idents & other.idents), other) for other in older]
    most = max((count for count, _ in shared), default=0)
    parent = named or next((other for count, other in shared if count == most and count), None)
    if parent is None:
        return None
    copied = max(_copied_lines(log, parent), log.copied_lines)
    if not copied:
        return None
    is_whole = all(mark.line <= copied for mark in log.marks)
    goes_on = not {mark.ident for mark in parent.marks[-1:]} <= idents
    kind = FORK if log.parent or goes_on else RESUME
    return Lineage(kind, parent.key, None if is_whole else copied, BY_LOG if log.parent else BY_IDS)


def _copied_lines(log: ScannedLog, parent: ScannedLog) -> int:
    """Return the last line whose mark the parent has. Marks made of content can repeat, so compare the beginnings."""
    if log.format == "codex-rollout":
        equal = 0
        for mark, other in zip(log.marks, parent.marks, strict=False):
            if mark.ident != other.ident:
                break
            equal = mark.line
    else:
        theirs = parent.idents
        equal = max((mark.line for mark in log.marks if mark.ident in theirs), default=0)
    return (log.ends or {}).get(equal, equal)


# --- Claude Code ------------------------------------------------------------------------------------------------


def _scan_claude(session: str, lines: Iterator[tuple[int, Record]]) -> ScannedLog:
    """Scan a Claude Code log. An answer's mark is its message id and request id, which copies keep; other lines use the
    uuid. Forked lines name their session; in older logs the copy keeps the copied session's id."""
    marks: list[Mark] = []
    sessions: list[tuple[int, str]] = []  # (line, id), where it changes
    parent, copied = "", 0
    for line, event in lines:
        if line > SCANNED_LINES:
            break
        if (named := read_text(event.get("sessionId"))) and (not sessions or sessions[-1][1] != named):
            sessions.append((line, named))
        if origin := read_text(read_object(event.get("forkedFrom")).get("sessionId")):
            parent, copied = origin, line
        if event.get("isSidechain") is not True and (ident := _claude_ident(event)):
            marks.append(Mark(line, ident, read_text(event.get("timestamp")) or ""))
    names = [named for _, named in sessions]
    own = session
    if names and session not in names:
        own = names[-1] if len(set(names)) == len(names) else names[0]
    if not parent and len(names) > 1 and names[-1] == own and own not in names[:-1]:
        parent, copied = names[-2], sessions[-1][0] - 1
    parent = "" if parent == own else parent
    root = next((mark.ident for mark in marks if "/" in mark.ident), f"session {own}")
    return ScannedLog("claude-session", own, tuple(marks), parent, copied if parent else 0, root)


def _claude_ident(event: Record) -> str:
    message, uuid = read_object(event.get("message")), read_text(event.get("uuid")) or ""
    ident, request = read_text(message.get("id")), read_text(event.get("requestId"))
    if event.get("type") == "assistant":
        return f"{ident}/{request}" if ident and request else f"/{uuid}" if uuid else ""
    return uuid


# --- Codex ------------------------------------------------------------------------------------------------------


def _scan_codex(session: str, lines: Iterator[tuple[int, Record]]) -> ScannedLog:
    """Scan a Codex log. The head names the session and the one it was forked from; the copy begins with that one's
    head, and all of it has the time of the fork, or its old times. An item's mark is its content: most have no id."""
    marks: list[Mark] = []
    ends: dict[int, int] = {}
    own = parent = root = ""
    copied, is_copy = 0, False
    started: datetime | None = None
    last: datetime | None = None
    for line, event in lines:
        if line > SCANNED_LINES:
            break
        payload, kind, time = read_object(event.get("payload")), event.get("type"), read_text(event.get("timestamp"))
        at = _read_time(time)
        if kind == "session_meta":
            named = read_text(payload.get("id")) or ""
            if not own:
                own, parent = named, read_text(payload.get("forked_from_id")) or ""
                started = _read_time(read_text(payload.get("timestamp"))) or at
                is_copy, last = bool(parent), at
                continue
            if named != own and (is_copy or not marks):
                parent, root, is_copy, last = parent or named, named, True, None
        if is_copy:
            is_old = at is not None and started is not None and at <= started
            is_copy = at is None or last is None or at - last <= _WRITTEN_AT_ONCE or is_old
            copied = line if is_copy else copied
            last = at or last
        if kind == "response_item":
            content = json.dumps(payload, sort_keys=True, default=str)
            marks.append(Mark(line, hashlib.sha256(content.encode("utf-8", "replace")).hexdigest(), time or ""))
        elif marks and kind == "event_msg" and payload.get("type") not in _OWN_TURN:
            follows = ends.get(marks[-1].line, marks[-1].line) == line - 1
            ends |= {marks[-1].line: line} if follows else {}
    parent = "" if parent == own else parent
    own = own or session
    return ScannedLog("codex-rollout", own, tuple(marks), parent, copied, root or parent or own, ends)


def _read_time(text: str | None) -> datetime | None:
    try:
        value = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return value if value.tzinfo else None


_SCANNERS: dict[str, Callable[[str, Iterator[tuple[int, Record]]], ScannedLog]] = {
    "claude-session": _scan_claude,
    "codex-rollout": _scan_codex,
}

"""Sessions of Claude Code, Codex, Gemini CLI and their like, as the programs themselves log them.

A log is a trial of a task of its own, titled by the first request: nothing shows that two sessions had the same task.
The given folder is the experiment, named by the end of its path; agent and model define the runs. There is no verdict.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from benchapp.imports.harbor.harbor_trial import suggest_condition
from benchapp.imports.logs.lineage import Lineage, ScannedLog, can_scan, scan_head, scan_log
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.trajectory_files import FOLDER, find_parent, is_of_subagent, read_call
from benchapp.imports.reading.walking import FolderEntry, Root, name_of, tail_of
from benchapp.record.redaction import redact_text
from runner.base.text import storable
from runner.base.types import Source, Step, TrajectoryKind
from runner.trajectories.images import DATA_MARK, list_parts
from runner.trajectories.images import MARK as IMAGE
from runner.trajectories.readers.reading import SNIFFED_BYTES, ReadTrajectory, read_trajectory, sniff

NAME = "sessions"
TITLE = "Sessions of agents"
SUFFIXES = frozenset({".jsonl", ".json", ".txt", ".log"})
HARNESSES = {
    "claude-session": "claude-code",
    "claude-stream-json": "claude-code",
    "cursor-stream-json": "cursor-cli",
    "cursor-transcript": "cursor",
    "copilot-session": "copilot-cli",
    "copilot-chat": "copilot-chat",
    "codex-rollout": "codex",
    "codex-jsonl": "codex",
    "gemini-session": "gemini-cli",
    "gemini-native": "gemini-cli",
    "gemini-stream-json": "gemini-cli",
    "qwen-stream-json": "qwen-code",
    "qwen-session": "qwen-code",
    "kimi-wire": "kimi-cli",
    "openhands": "openhands",
    "pi": "pi",
    "opencode-export": "opencode",
    "opencode-stream": "opencode",
}
LOGS = frozenset({*HARNESSES, "atif"})
CHAT = "chat-messages"
_CALLS = re.compile(rb'"(?:tool_calls|tool_call_id)"\s*:\s*["\[{]')  # not null
_BESIDE = frozenset({"sessions-index.json", "state.json", "context.jsonl", "logs.json"})
TITLE_CHARS = 120
LOOKED_AT = 50  # steps, to find the request and the model
END_BYTES = 64 * 1024
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(rb'"timestamp"\s*:\s*"([0-9T:.+Z-]{19,40})"')
# Milliseconds since 1970; those of the older kimi-cli are seconds.
_NUMBER = re.compile(rb'"(?:time|timestamp|created|completed|end)"\s*:\s*([0-9]{9,14}(?:\.[0-9]{1,9})?)(?=\s*[,}])')
_IN_NUMBERS = frozenset(
    {"kimi-wire", "copilot-chat", "opencode-export", "opencode-stream"}
)  # formats whose times are numbers
_LATEST_SECONDS = 99_999_999_999  # a larger number counts milliseconds


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        if (found := sniff(stream)) != CHAT:
            return found in LOGS
        stream.seek(0)
        start = stream.read(SNIFFED_BYTES)
    # Messages of no known program are a session if calls of tools are among them; lines of conversations are data.
    is_data = entry.path.suffix.lower() == ".jsonl" and b'"messages"' in start.partition(b"\n")[0]
    return not is_data and _CALLS.search(start) is not None


def is_companion(entries: Sequence[FolderEntry]) -> Callable[[FolderEntry], bool]:
    """Recognise indexes, states and kept outputs that the programs write next to their sessions."""
    return lambda entry: (
        entry.path.name in _BESIDE or entry.path.name.endswith(".meta.json") or entry.path.parent.name == "tool-results"
    )


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    sessions = [Session(root, entry) for entry in entries]
    source = sources.ExperimentSource.of_folder(
        root, root.base, format=NAME, title="Sessions in", name=tail_of(root.base)
    )
    yield sources.FoundExperiment(source, trials=tuple(sorted(_join_sessions(sessions), key=lambda found: found.order)))


def _join_sessions(sessions: Sequence[Session]) -> list[Session]:
    """Group sub-agents' files with their session. If one session has several whole logs, each is a trial of its own
    task, except snapshots: what another log contains too."""
    grouped: defaultdict[str, list[Session]] = defaultdict(list)
    by_place = {session.entry.path.with_suffix(""): session.key for session in sessions if not session.is_side}
    by_place |= {place.parent: key for place, key in by_place.items() if place.parent.name == place.name}  # Cursor's
    for session in sessions:
        above = session.entry.path.parent
        is_inside = session.is_side and above.name == FOLDER  # then the folder identifies its session, not the id
        grouped[by_place.get(above.parent, session.key) if is_inside else session.key].append(session)
    kept: list[Session] = []
    for key, mine in grouped.items():
        wholes = _set_snapshots_aside([session for session in mine if not session.is_side])
        if not wholes:
            wholes = mine[:1]
            more = f", with {len(mine) - 1:,} more of its sub-agents" if mine[1:] else ""
            told = f"it is not here; the sub-agent's log is imported as a session of its own{more}"
            mine[0].root.report(mine[0].entry.path, "", "the session that started this sub-agent", told)
        wholes[0].sides = [session for session in mine if session.is_side and session is not wholes[0]]
        for number, session in enumerate(wholes[1:], start=2):
            expected = "an id of its own for every session"
            told = f"{key} is also that of {wholes[0].path}; both are kept"
            session.root.report(session.entry.path, "", expected, told)
            ident = f"{session.ids[0]}@{tail_of(session.entry.path)}"
            taken = any(ident == other.ids[0] for other in wholes[: number - 1])
            session.ids = (f"{ident}#{number}" if taken else ident,)
            session.ident = session.ids[0].removeprefix(f"{NAME}:{session.format}:")
        kept += wholes
    return kept


def _set_snapshots_aside(wholes: list[Session]) -> list[Session]:
    """Return the logs that have some content of their own, the longest first if any can be compared."""
    if len(wholes) < 2 or not can_scan(wholes[0].format):
        return wholes
    scanned = sorted(((session.scan(), session) for session in wholes), key=lambda pair: -len(pair[0].marks))
    kept: list[tuple[ScannedLog, Session]] = []
    for log, session in scanned:
        if whole := next((other for longer, other in kept if log.is_part_of(longer)), None):
            session.report_snapshot(whole.path)
        else:
            kept.append((log, session))
    return [session for _, session in kept]


@dataclass
class Session:
    """One log (found_sources.FoundTrial), with the files of its sub-agents."""

    root: Root
    entry: FolderEntry
    sides: list[Session] = field(default_factory=list)
    lineage: Lineage | None = None  # set once its relatives are known

    def __post_init__(self) -> None:
        self.path = self.root.label(self.entry.path)
        self.source = sources.TrajectorySource.of_file(self.root, self.entry)
        with self.source.open() as stream:
            start = stream.read(END_BYTES)
        head = self._open().head
        self.format = head.source_format
        self.is_side = is_of_subagent(self.format, self.entry.path.as_posix(), self.source.open)
        self.ident = find_parent(self.format, start) or head.session_id or self._derive_ident()
        self.call = read_call(self.root, self.entry.path) if self.is_side else {}
        self.session_root, self.has_parent = "", False
        if can_scan(self.format) and not self.is_side:
            stem = self.entry.path.stem
            log = scan_head(self.format, self.ident, start)
            if _UUID.fullmatch(stem) and stem != self.ident and self.format == "claude-session":
                log = scan_log(self.format, stem, self.source.open)  # the copied lines at its beginning keep another id
                self.ident = log.session
            self.session_root, self.has_parent = log.root_digest, bool(log.parent)
        self.key = f"{self.format}:{self.ident}"
        self.ids: tuple[str, ...] = (f"{NAME}:{self.key}",)
        self.started = next(self._times(start), "")
        self.order = (self.started, self.entry.name)

    def _derive_ident(self) -> str:
        """Derive an id for a log without one. Kimi Code's are in sessions/<project>/<session>/agents/<agent>/."""
        path = self.entry.path
        if self.format == "kimi-wire":
            return tail_of(path.parents[2] if path.parents[1].name == "agents" else path.parent, 2)
        return tail_of(path)

    @property
    def _folder(self) -> str:
        """Return the folders between the place that is imported and the log: their names may suggest a condition."""
        folder = self.entry.path.parent
        parts = folder.relative_to(self.root.base).parts if folder.is_relative_to(self.root.base) else ()
        return "/".join(part for part in parts if not part.startswith("-"))  # Claude Code's: a project's whole path

    def scan(self) -> ScannedLog:
        return scan_log(self.format, self.ident, self.source.open)

    def report_snapshot(self, whole: str) -> None:
        told = f"a snapshot of the session in {whole}, which has all of it; set aside"
        self.root.report(self.entry.path, "", "each session once", told)

    def _open(self) -> ReadTrajectory:
        copied = self.lineage.lines if self.lineage else 0
        return read_trajectory(self.source.open, copied_lines=copied)

    def digest(self) -> str:
        digest = hashlib.sha256()
        for session in (self, *self.sides):
            digest.update(bytes.fromhex(session.root.sha256(session.entry.path)))
            digest.update("".join(f"{key}={value}" for key, value in session.call.items()).encode())
        return digest.hexdigest()

    def read(self) -> sources.TrialSource:
        opened = self._open()
        head = opened.head  # as of the first step
        steps = list_own_steps(opened)
        model = opened.head.model or next((step.model for step in steps if step.model), None)
        with self.source.open() as stream:
            stream.seek(max(0, self.entry.size - END_BYTES))
            times = list(self._times(stream.read(END_BYTES + 1)))
        started, finished = _time(self.started), _time(times[-1] if times else "")
        if self.lineage:
            started, finished = self.lineage.find_times(self.scan(), finished)
        name = self.ident
        source = replace(self.source, copied_lines=self.lineage.lines if self.lineage else 0)
        title, suggested = read_title(steps), suggest_condition(self._folder)
        return sources.TrialSource(
            run=sources.RunSource(
                harness=head.agent_name or HARNESSES.get(self.format, sources.UNKNOWN),
                harness_version=head.agent_version or "",
                agent_model=model or sources.UNKNOWN,
                skills=suggested.get("suggested_condition", ""),  # keeps folders of other conditions apart
                setup={"source": NAME, "log": self.format, **suggested},
            ),
            task=sources.TaskSource(NAME, f"session {name}"[:300], title or f"session {name}"),
            timing=sources.Timing(started, finished, duration_seconds=self._seconds(started, finished)),
            verdict=None,
            config={},
            choices=(sources.SourceChoice((source, *(side.as_subagent(self) for side in self.sides))),),
            session_root=self.session_root,
            lineage=self.lineage.as_json() if self.lineage else {},
        )

    def _seconds(self, started: datetime | None, finished: datetime | None) -> float | None:
        """Return the length; unknown, with a report, if the log's clock ran backwards."""
        if started is None or finished is None:
            return None
        seconds = (finished - started).total_seconds()
        if seconds < 0:
            early = f"it is {-seconds:.1f} seconds before: how long the session took is unknown"
            self.root.report(self.entry.path, "timestamp", "a last time after the first", early)
            return None
        return seconds

    def as_subagent(self, session: Session) -> sources.TrajectorySource:
        path = self.entry.path
        name = name_of(path.parent if self.format == "kimi-wire" else path.with_suffix(""))
        place = storable(os.path.relpath(path, session.entry.path.parent))
        call = dict(self.call)
        return replace(self.source, path=place, name=name, kind=TrajectoryKind.SUBAGENT, parent="main", extra=call)

    def _times(self, lines: bytes) -> Iterator[str]:
        """Yield the times in their order, as ISO 8601."""
        if self.format not in _IN_NUMBERS:
            yield from (found[1].decode() for found in _TIME.finditer(lines))
            return
        for found in _NUMBER.finditer(lines):
            told = float(found[1])
            seconds = told if told <= _LATEST_SECONDS else told / 1000
            yield datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def list_own_steps(opened: ReadTrajectory) -> list[Step]:
    """Return the first steps that are not copies."""
    return list(islice((step for step in opened.steps if not step.is_copied_context), LOOKED_AT))


def read_title(steps: Sequence[Step]) -> str:
    """Return the request to the agent; empty if there was none."""
    return " ".join(redact_text(storable(find_request(steps))).split())[:TITLE_CHARS]


def _time(text: str) -> datetime | None:
    try:
        value = datetime.fromisoformat(text)
        return None if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):  # the year 1 east of Greenwich
        return None


# Elements that the programs write. A person wrote any other text in angle brackets.
_TAGS = (
    "environment_context|user_instructions|INSTRUCTIONS|permissions instructions|collaboration_mode|turn_aborted"
    "|skills_instructions|apps_instructions|plugins_instructions|personality_spec|model_switch|skill"
    "|subagent_notification|user_shell_command"
    "|system-reminder|local-command-caveat|local-command-stdout|local-command-stderr|command-name|command-message"
    "|command-args|command-contents|bash-input|bash-stdout|bash-stderr|ide_opened_file|ide_selection|ide_diagnostics"
    "|user-memory-input|user-prompt-submit-hook|session-start-hook|task-notification|post-tool-use-hook|hook_prompt"
    "|session_context|state_snapshot|system"
)
_ELEMENT = re.compile(rf"\s*<({_TAGS})(?:\s[^>]*)?>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FILE_INSTRUCTIONS = re.compile(r"\s*# AGENTS\.md instructions[^\n]*(?:\n|\Z)")
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_IMAGE_NAMES = re.compile(r"\[Image #\d{1,3}\]|</?image(?: name=[^>\n]{0,80})?>")  # where a pasted image was
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)  # Cursor's
_BEHIND = re.compile(r"^## My request for Codex:\s*$", re.MULTILINE)  # what precedes this line was added by an editor
_NOTICES = (
    "[Request interrupted by user",
    "Caveat: The messages below were generated by the user while running local commands",
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem and produced a summary",
    "This is the Gemini CLI. We are setting up the context",
    "This is the Qwen Code. We are setting up the context",
    "This is Qwen Code. We are setting up the context",
)
_NOT_A_PERSON = frozenset({"synthetic", "origin", "subtype"})  # marks of the readers on such steps
_WARM_UP = "Warmup"  # what Claude Code says to its sub-agents before there is work
_COMMAND = re.compile(r"<command-name>\s*(/[^<\s]{1,100})\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


def find_request(steps: Iterable[Step]) -> str:
    """Return the first message that a person wrote, else the first command called by name, else ""."""
    command = ""
    for step in steps:
        if step.source is not Source.USER or step.is_copied_context or _NOT_A_PERSON & (step.extra or {}).keys():
            continue
        message = IMAGE.sub("", step.message) if list_parts(step.extra) else step.message
        if text := strip_additions(DATA_MARK.sub("", message)):
            return text
        if not command and (name := _COMMAND.search(message)):
            arguments = _ARGUMENTS.search(message)
            command = f"{name[1]} {arguments[1].strip() if arguments else ''}".strip()
    return command


def strip_additions(message: str) -> str:
    """Return a message without the programs' own additions."""
    if asked := _QUERY.search(message):
        return asked[1]
    if marked := _BEHIND.search(message):
        message = message[marked.end() :]
    while added := _ELEMENT.match(message) or _FILE_INSTRUCTIONS.match(message):
        message = message[added.end() :]
    text = _IMAGE_NAMES.sub("", _REMINDER.sub("", message)).strip()
    return "" if text == _WARM_UP or text.startswith(_NOTICES) else text

"""Log a run of your own loop: trials with their messages and checks, the author's decisions, the library as it changes.

    run = skillglass.start("my experiment", condition="with-skills", agent_model="openai/gpt-5", skills="skills/")
    with run.trial("sort-a-list", "acquisition") as trial:
        trial.log(*messages)                                # as the model's provider takes and gives them
        trial.check("the list is sorted", passed)
    run.decision("skills/", reason="say which sort is stable", evidence=[trial])
    run.freeze()
    run.finish()

All is written to a folder first, line by line, so a killed process loses nothing that it logged. If a server is
named, a thread sends the same bytes there (`skillglass.sending`). docs/reference/run-log.md describes the files.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from skillglass.record_rows import JsonRow
from skillglass.sending import BLOBS, EVENTS, MESSAGES, Sender

FORMAT, VERSION = "skillglass-run-log", 1
CUT_OFF = "interrupted"  # outcome of a trial whose process was killed
PHASES = ("acquisition", "replay", "evaluation", "deployment")
GROUPS = ("public", "hidden", "process", "test")
SKIPPED, BY_CHECKS = "skipped", "by checks"
STATUSES = ("applied", "rejected", "no-op", "failed")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PLAIN, EXECUTABLE = 0o644, 0o755  # modes of files
MAX_ID = 90  # characters of a trial's id: a repetition adds a number
MAX_FILES = 20_000  # of a library
HELD = (
    "experiment",
    "suite",
    "condition",
    "agent_model",
    "author_model",
    "harness",
    "replicate",
)  # the same when resumed

Content = str | bytes | tuple[bytes, int]  # with its mode
Skills = str | os.PathLike[str] | Mapping[str, Content]  # a folder of skills, or its files by path


def start(
    experiment: str,
    *,
    condition: str,
    agent_model: str,
    author_model: str = "",
    skills: Skills | None = None,
    harness: str = "",
    replicate: int | None = None,
    suite: str = "",
    config: Mapping[str, object] | None = None,
    name: str = "",
    folder: str | os.PathLike[str] = "skillglass-runs",
    server: str = "",
    token: str = "",
) -> Run:
    """Begin a run, or continue the one of this `name` in `folder`.

    `author_model`: empty if no model writes skills. `skills`: the library it begins with. `suite`: what the tasks
    belong to, if other experiments have the same tasks. `server` and `token` are taken from SKILLGLASS_SERVER and
    SKILLGLASS_TOKEN; without a server nothing is sent. ValueError says which argument is wrong; OSError, that the
    folder cannot be written.
    """
    if not (experiment and condition and agent_model):
        raise ValueError("expected an experiment, a condition and an agent_model, each a text")
    name = name or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    head = {
        "experiment": experiment,
        "suite": suite or experiment,
        "condition": condition,
        "agent_model": agent_model,
        "author_model": author_model,
        "harness": harness,
        "replicate": replicate,
        "config": dict(config or {}),
    }
    run = Run(Path(folder) / check_name(name), head)
    if skills is not None and run.library is None:
        run.seed(skills)
    if server := server or os.environ.get("SKILLGLASS_SERVER", ""):
        run.send_to(server, token or os.environ.get("SKILLGLASS_TOKEN", ""))
    return run


class Run:
    """One run, open for writing by this process; its methods can be called from several threads. `library`: digest of
    the current one, None before there is any."""

    def __init__(self, folder: Path, head: Mapping[str, object]) -> None:
        self.folder = folder
        self.library: str | None = None
        self.at: str | None = None  # the time of what is logged next, for one that logs what was; None: now
        self.ended: dict[str, str] = {}  # id of a trial -> its outcome, in order; without those that were cut off
        self._lock = threading.RLock()
        self._begun: dict[str, str] = {}  # trial -> its id as given: a trial that was cut off can be begun again
        self._open: set[str] = set()
        self.decisions = 0  # of the author, so far
        self._last: str | None = None  # the trial that ended last
        self._known: set[str] = set()  # libraries in the log
        self._sender: Sender | None = None
        for part in (MESSAGES, BLOBS):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = (folder / EVENTS).open("ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ValueError(f"{folder}: another process writes this run") from None
        events = [json.loads(line) for line in read_whole_lines(self._file)]
        if events:
            self.head = events[0]
            self._continue(events, head)
        else:
            own = {"format": FORMAT, "version": VERSION, "id": str(uuid.uuid4()), "name": folder.name}
            self.head = self._write("run", **{**own, **head}, written_by=f"skillglass {_own_version()}")

    def _continue(self, events: list[JsonRow], head: Mapping[str, object]) -> None:
        if self.head.get("format") != FORMAT or self.head.get("version") != VERSION:
            raise ValueError(f"{self.folder / EVENTS}: expected a run log of version {VERSION}")
        if differs := [key for key in HELD if self.head.get(key) != (head[key] or None)]:
            differences = "; ".join(f"{key} was {self.head.get(key)!r}" for key in differs)
            raise ValueError(f"{self.folder}: a run keeps what it began with ({differences}). Give another name.")
        for event in events:
            match event["type"]:
                case "library":
                    self._known.add(event["library"])
                case "seed" | "freeze":
                    self.library = event["library"]
                case "trial":
                    self._begun[event["trial"]] = str(event.get("repeats") or event["trial"])
                    self._open.add(event["trial"])
                case "end":
                    self._note_end(event["trial"], event["outcome"])
                case "decision":
                    self.decisions += 1
                    self.library = event["library"] if event["status"] == "applied" else self.library
        for ident in sorted(self._open):  # the process that wrote them was killed
            Trial(self, ident)._close(CUT_OFF)

    def _note_end(self, ident: str, outcome: str) -> None:
        self._open.discard(ident)
        if outcome != CUT_OFF:
            self.ended[self._begun[ident]] = outcome
            self._last = ident

    # --- what a loop calls -----------------------------------------------------------------------------------------

    def seed(self, skills: Skills) -> str:
        """Add skills that no author of this run wrote. Return the digest of the library."""
        with self._lock:
            self.library = self._put_library(skills)
            self._write("seed", library=self.library)
            return self.library

    def trial(
        self,
        task: str,
        phase: str,
        *,
        id: str = "",
        skills: Skills | None = None,
        title: str = "",
        family: str = "",
    ) -> Trial:
        """Begin one try at a task. `phase`: "acquisition" for what the author learns from, "replay" for what only
        decides about a proposal, "evaluation" or "deployment" for what the result is measured on. `skills`: a
        proposed library, if this trial has another than the current one. `id`: your own, no other trial's of this
        run; `ended` holds those that are over."""
        if phase not in PHASES:
            raise ValueError(f"phase: expected one of {', '.join(PHASES)}, found {phase!r}")
        with self._lock:
            plain = re.sub(r"[^A-Za-z0-9._-]+", "-", task)[:80].strip("-.")
            first = ident = check_name(id or f"{len(self._begun) + 1:05}-{plain}", MAX_ID)
            tries = 1
            while ident in self._begun:
                if first in self.ended or ident in self._open:
                    raise ValueError(f"id: this run has a trial {ident} already")
                tries += 1  # the earlier one was cut off
                ident = f"{first}.{tries}"
            given = self.library if skills is None else self._put_library(skills)
            fields = {"task": task, "title": title, "family": family, "phase": phase}
            repeats = first if ident != first else ""
            self._write(
                "trial", trial=ident, repeats=repeats, **fields, library=given, is_candidate=given != self.library
            )
            self._begun[ident] = first
            self._open.add(ident)
            return Trial(self, ident)

    def decision(
        self,
        skills: Skills,
        *,
        before: Skills | None = None,
        status: str = "applied",
        reason: str = "",
        reply: str = "",
        evidence: Iterable[Trial | str] = (),
        usage: Mapping[str, float | None] | None = None,
    ) -> str:
        """The author answered with this library. `status`: "applied"; "rejected" if it was not taken; "no-op" if it
        changes nothing; "failed" if the answer could not be used. `before`: an earlier library that the author began
        with, where candidates are a tree. `reason`: why, in a sentence. `reply`: the author's own text. `evidence`:
        the trials that it saw. `usage`: as in `Trial.add_usage`. Return the library that holds now."""
        if status not in STATUSES:
            raise ValueError(f"status: expected one of {', '.join(STATUSES)}, found {status!r}")
        used = check_usage(usage or {})
        with self._lock:
            proposed = self._put_library(skills)
            began = self.library if before is None else self._put_library(before)
            self.decisions += 1
            self._write(
                "decision",
                number=self.decisions,
                status=status,
                before=began,
                library=proposed,
                reason=reason,
                reply=self._put_blob(reply.encode("utf-8", "replace")) if reply else None,
                evidence=[each.id if isinstance(each, Trial) else each for each in evidence],
                after_trial=self._last,
                usage=used,
            )
            if status == "applied":
                self.library = proposed
            self._settle()
            return self.library or proposed

    def freeze(self, skills: Skills | None = None) -> None:
        """The library is final; what follows is measured with it. `skills`: an earlier one that was chosen."""
        with self._lock:
            self.library = self.library if skills is None else self._put_library(skills)
            if self.library is None:
                raise ValueError("there is no library to freeze: give skills")
            self._write("freeze", library=self.library)
            self._settle()

    def finish(self, error: BaseException | None = None, *, seconds: float = 30) -> None:
        """The run is over. Wait up to `seconds` until the server has it all."""
        with self._lock:
            if self._file.closed:
                return
            self._write("finish", outcome="finished" if error is None else "error", error=_explain(error))
            self._settle()
        if self._sender is not None:
            self._sender.finish(seconds)
        self._file.close()

    def send_to(self, server: str, token: str) -> None:
        """Send what is logged to an installation, from now on, in a thread. It never fails the loop: what a server that
        cannot be reached lacks is sent later, or by `skillglass sync FOLDER`."""
        self._sender = Sender(self.folder, server, token)
        self._sender.start()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish(error)

    # --- files -----------------------------------------------------------------------------------------------------

    def _write(self, type: str, **fields: object) -> JsonRow:
        known = {name: value for name, value in fields.items() if value is not None and value != ""}
        event = {"type": type, "at": self.at or _now(), **known}
        with self._lock:
            self._file.write(to_line(event))
            self._file.flush()
        return event

    def _settle(self) -> None:
        """Have the disk keep what is written: it survives a power cut from here on."""
        os.fsync(self._file.fileno())

    def _put_library(self, skills: Skills) -> str:
        files = read_skills(skills)
        digest = library_digest(files)
        if digest not in self._known:
            listed = [
                {
                    "path": path,
                    "sha256": self._put_blob(content),
                    **({"executable": True} if mode == EXECUTABLE else {}),
                }
                for path, (content, mode) in files.items()
            ]
            self._write("library", library=digest, files=listed)
            self._known.add(digest)
        return digest

    def _put_blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        place = self.folder / BLOBS / digest
        if not place.exists():
            half = place.with_name(f"{digest}.part")  # a sender takes whole ones only
            with half.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            half.rename(place)
        return digest


class Trial:
    """One try at a task, open until it ends.
    As a context manager, it ends with the block, and an exception in the block is its error."""

    def __init__(self, run: Run, id: str) -> None:
        self.run, self.id = run, id
        self._path = run.folder / MESSAGES / f"{id}.jsonl"
        self._file: BinaryIO = self._path.open("ab+")
        self._digest = hashlib.sha256()
        self._messages, self._kind = 0, ""
        self._passed: list[bool] = []
        self._usage: dict[str, float] = {}
        for line in read_whole_lines(self._file):
            self._digest.update(line)
            self._messages += 1

    def log(self, *messages: object) -> None:
        """Add messages of the conversation, in order: dicts with role and content as OpenAI, Anthropic and litellm
        take and give them (their own objects too), or steps of ATIF."""
        for message in messages:
            raw = message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message
            kind = "atif" if isinstance(raw, Mapping) and "source" in raw else "chat"
            if not isinstance(raw, Mapping) or (kind == "chat" and not isinstance(raw.get("role"), str)):
                raise ValueError(f"expected a message with a role, or a step of ATIF; found {raw!r:.80}")
            if self._kind and kind != self._kind:
                raise ValueError("expected messages of one kind in a trial: with a role, or steps of ATIF")
            stamp = {} if self.run.at or raw.get("timestamp") else {"timestamp": _now()}
            line = to_line({**raw, **stamp})
            with self.run._lock:
                self._check_open()
                self._kind = kind
                self._messages += 1
                self._digest.update(line)
                self._file.write(line)
                self._file.flush()

    def check(self, name: str, passed: bool | str | None, message: str = "", *, group: str = "") -> None:
        """A verifier's check. `passed`: None if it could not be carried out, or "skipped". `group`: "public" if the
        agent could see it, "hidden" if not, "process" if it examines how the agent worked."""
        if group not in ("", *GROUPS):
            raise ValueError(f"group: expected one of {', '.join(GROUPS)}, found {group!r}")
        self._check_open()
        status = SKIPPED if passed == SKIPPED else "error" if passed is None else "passed" if passed else "failed"
        if status != SKIPPED:
            self._passed.append(status == "passed")
        self.run._write("check", trial=self.id, name=name, status=status, message=message, group=group)

    def score(self, name: str, value: float) -> None:
        """A number that a verifier or grader gave."""
        self._check_open()
        self.run._write("score", trial=self.id, name=name, value=_check_number(name, value))

    def add_usage(
        self,
        *,
        input_tokens: int | None = None,
        cached_tokens: int | None = None,
        output_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Add what one call of a model used. The input includes what came from the provider's cache."""
        usage = {"input_tokens": input_tokens, "cached_tokens": cached_tokens}
        for name, value in check_usage({**usage, "output_tokens": output_tokens, "cost_usd": cost_usd}).items():
            self._usage[name] = self._usage.get(name, 0) + value

    def end(
        self,
        success: bool | str | None = BY_CHECKS,
        reward: float | None = None,
        *,
        judge: str = "",
        output: str = "",
        error: BaseException | tuple[str, str] | None = None,
    ) -> None:
        """The trial is over. `success`: None if it is unknown; left out, it is decided by the checks: all passed, and
        there is one. `judge`: who gave the verdict. `output`: the verifier's text. `error`: what stopped the agent or
        its machine, or its type and message; then there is no verdict by checks."""
        self._check_open()
        if success == BY_CHECKS:
            success = all(self._passed) if self._passed and error is None else None
        more = {"reward": None if reward is None else _check_number("reward", reward)}
        more |= {"success": None if success is None else bool(success)}
        self._close("finished" if error is None else "error", **more, judge=judge, output=output, error=_explain(error))

    def _close(self, outcome: str, **fields: object) -> None:
        with self.run._lock:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            sums = {"messages": self._messages, "sha256": self._digest.hexdigest()}
            self.run._write("end", trial=self.id, outcome=outcome, **fields, usage=self._usage, **sums)
            self.run._note_end(self.id, outcome)
            self.run._settle()

    def _check_open(self) -> None:
        if self._file.closed:
            raise ValueError(f"trial {self.id} has ended")

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._file.closed:
            self.end(error=error)


def check_name(name: str, most: int = 100) -> str:
    if not NAME.fullmatch(name) or len(name) > most:
        message = f"expected a name of letters, digits, dots, dashes and underscores ({most} at most)"
        raise ValueError(f"{message}, found {name!r}")
    return name


def check_usage(usage: Mapping[str, float | None]) -> dict[str, float]:
    """Return the known amounts; what is left out is unknown."""
    wanted = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
    if strange := set(usage) - set(wanted):
        raise ValueError(f"usage: expected {', '.join(wanted)}, found {', '.join(sorted(strange))}")
    return {name: _check_number(name, value) for name in wanted if (value := usage.get(name)) is not None}


def _check_number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, found {value!r}")
    return value


def read_skills(skills: Skills) -> dict[str, tuple[bytes, int]]:
    """Return content and mode of each file by its path.
    Links and hidden files are left out, as agents do not see them."""
    if isinstance(skills, Mapping):
        found = {path: _with_mode(content) for path, content in skills.items()}
    else:
        folder = Path(skills)
        if not folder.is_dir():
            raise ValueError(f"{folder}: expected a folder of skills")
        found = {}
        for path in sorted(folder.rglob("*")):
            inner = path.relative_to(folder)
            if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in inner.parts):
                found[inner.as_posix()] = (path.read_bytes(), EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN)
    if len(found) > MAX_FILES:
        raise ValueError(f"expected at most {MAX_FILES:,} files in a library, found {len(found):,}")
    if wrong := next((path for path in found if path.startswith("/") or {"", ".", ".."} & set(path.split("/"))), None):
        raise ValueError(f"expected paths below the library, found {wrong!r}")
    return dict(sorted(found.items()))


def _with_mode(content: Content) -> tuple[bytes, int]:
    if isinstance(content, tuple):
        return content
    return content.encode() if isinstance(content, str) else bytes(content), PLAIN


def library_digest(files: Mapping[str, tuple[bytes, int]]) -> str:
    """Return the digest that pages and exports show for these files."""
    listed = {path: [hashlib.sha256(content).hexdigest(), mode] for path, (content, mode) in files.items()}
    payload = json.dumps(["library/1", listed], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(payload.encode("utf-8", "surrogatepass")).hexdigest()


def to_line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace") + b"\n"


def read_whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, and cut off a last one that was not written whole."""
    file.seek(0)
    whole = 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        whole += len(line)
        yield line
    file.truncate(whole)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _explain(error: BaseException | tuple[str, str] | None) -> dict[str, str] | None:
    if error is None:
        return None
    kind, message = error if isinstance(error, tuple) else (type(error).__name__, str(error))
    return {"type": kind, "message": message[:10_000]}


def _own_version() -> str:
    try:
        return version("skillglass")
    except PackageNotFoundError:  # in a clone
        return ""

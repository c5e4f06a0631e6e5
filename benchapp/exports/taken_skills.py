"""A library at one of its states, for a repository of your own: its files, and the changes that led there.

Files leave exactly as they are recorded. Names come from strangers too, so a library with a path that leads out of its
folder, or into a repository's own files, is refused as a whole.

The changes are mails that `git am` applies, byte for byte: the mailbox format of `git format-patch`. Texts come from
strangers. `git am` ends a message at a line that looks like a patch ("diff -", "Index: ", "---"), begins a new mail at
"From ", takes headers from the first lines of a message and may cut at scissors. So every line of a message begins with
a word of ours or with "> ", and no line has scissors. A header is one line, encoded where its text could be read as an
encoding. A file is sent as a binary patch unless `git am` leaves its text alone: it drops carriage returns before line
ends.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from base64 import b85encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff
from email.header import Header
from email.utils import format_datetime, formataddr
from itertools import islice

from benchapp.analysis.lineage.attribution import Ended, LedgerRow, describe_readers, read_no_skill
from benchapp.analysis.lineage.library_states import LibraryHistory, LibraryState, find_round, read_history
from benchapp.analysis.lineage.line_history import read_lineage
from benchapp.models import DecisionEvidence, Episode, Run, Snapshot, Trial
from benchapp.record.redaction import redact_text
from benchapp.record.textual_change import MAX_LINES, is_binary, split_lines
from benchapp.record.visible import one_line, visible
from benchapp.stats.inference.shares import Rate
from runner.base.text import plural
from runner.base.trees import check_relative
from runner.base.types import File, Files

MAX_BYTES = 64 * 1024 * 1024  # of all states that are read for one file
NO_AUTHOR = "No author recorded"
MAX_SEEN = 20  # trials named in one message
OF_REPOSITORY = {".git", "git~1"}  # folders where a file could run a command
ADDRESS = "skill-author@skillglass.invalid"  # RFC 2606: nobody has it
MAX_SUBJECT = 100  # characters
MAX_NAME = 80
ENCODED_BYTES = 52  # on one line of a binary patch
NO_BLOB = "0" * 40
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+@=,~-]+")
_SCISSORS = re.compile(r">(?=[8%])|[8%](?=<)")  # its marks, taken apart
_STRIPPED = re.compile(r"\[|:|re:", re.IGNORECASE)  # what `git am` takes off the front of a subject


class CannotTakeSkills(ValueError):
    """The library cannot leave the record like this. The message names the state or the path."""


@dataclass(frozen=True, slots=True)
class TakenChange:
    """A change on the way, by a decision or without one."""

    before: LibraryState
    after: LibraryState
    at: datetime
    seen: tuple[Trial, ...]  # the trials that the author was shown
    later: Ended | None  # how later trials ended that held its lines; None where lines are not traced

    @property
    def seen_rate(self) -> Rate:
        scored = [trial.success for trial in self.seen if trial.success is not None]
        return Rate(sum(scored), len(scored), len(self.seen))


@dataclass(frozen=True, slots=True)
class TakenLibrary:
    """`chain`: the states from the one to start from to the one to take, each made from the one before it."""

    episode: Episode
    history: LibraryHistory
    chain: tuple[LibraryState, ...]

    @property
    def start(self) -> LibraryState:
        return self.chain[0]

    @property
    def end(self) -> LibraryState:
        return self.chain[-1]


def read_taken(episode: Episode, at: str = "", start: str = "") -> TakenLibrary:
    """`at`, `start`: names of states, R3, S1 or 3. Empty: the last one, and the one that the first decision found:
    the empty library, or the skills it began with."""
    history = read_history(episode)
    end = _find_state(history, at or history.states[-1].key)
    made_from = {step.after.key: step.before for step in history.steps if step.after is not step.before}
    chain = [end]
    while chain[-1].key in made_from:  # candidates of an import may be a tree
        chain.append(made_from[chain[-1].key])
    chain.reverse()
    first = next((place - 1 for place, state in enumerate(chain) if state.decision), 0)
    if start:
        named = _find_state(history, start)
        if named not in chain:
            made = " from ".join(state.key for state in reversed(chain))
            raise CannotTakeSkills(f"{end.key} was not made from {named.key}: it is {made}")
        first = chain.index(named)
    return TakenLibrary(episode, history, tuple(chain[first:]))


def _find_state(history: LibraryHistory, name: str) -> LibraryState:
    if state := find_round(history.states, name):
        return state
    known = ", ".join(state.key for state in history.states)
    raise CannotTakeSkills(f"the library was never at {name[:20]!r} (expected one of {known})")


# --- files ----------------------------------------------------------------------------------------------------------


def read_files(snapshot: Snapshot | None) -> dict[str, File]:
    """Return the files of a state by path, sorted."""
    if snapshot is None:
        return {}
    if snapshot.bytes_total > MAX_BYTES:
        raise CannotTakeSkills(f"the library has {snapshot.bytes_total:,} bytes, expected at most {MAX_BYTES:,}")
    files = snapshot.read()
    for path in files:
        _check_path(path)
        if any(str(parent) in files for parent in check_relative(path).parents):
            raise CannotTakeSkills(f"{path!r}: a part of this path is a file")
    return dict(sorted(files.items()))


def _check_path(path: str) -> None:
    try:
        parts = check_relative(path).parts
    except ValueError as error:
        raise CannotTakeSkills(str(error)) from None
    if any(part.casefold().rstrip(". ") in OF_REPOSITORY for part in parts):
        raise CannotTakeSkills(f"{path!r} is among a repository's own files")


def pack_zip(files: Files) -> bytes:
    """Return an archive of the files with their modes. Equal files give equal bytes: it has no time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, file in sorted(files.items()):
            entry = zipfile.ZipInfo(path)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3  # Unix, so that modes count
            entry.external_attr = (0o100755 if file.mode & 0o100 else 0o100644) << 16
            archive.writestr(entry, file.content)
    return packed.getvalue()


# --- changes --------------------------------------------------------------------------------------------------------


def read_changes(taken: TakenLibrary) -> list[TakenChange]:
    """Return the changes of the chain with their evidence."""
    states = taken.history.states
    lineage = read_lineage(taken.episode.run, taken.episode, states)
    baseline = read_no_skill(taken.episode.run, {trial.task for trial in lineage.trials})
    recorded = {step.after.key: step.entry.recorded_at for step in reversed(taken.history.steps)}
    # the trials that each decision's author was shown, in their order
    decisions = [state.decision for state in taken.chain[1:] if state.decision]
    rows = DecisionEvidence.objects.filter(decision__in=decisions).select_related("trial__task")
    seen: dict[int, list[Trial]] = {}
    for row in rows.order_by("decision", "ordinal"):
        seen.setdefault(row.decision_id, []).append(row.trial)
    found = []
    for before, after in zip(taken.chain, taken.chain[1:], strict=False):
        later = None
        if not lineage.too_big:
            later = LedgerRow(lineage, states.index(after), None, baseline).all.total
        at = after.decision.decided_at if after.decision else recorded[after.key]
        shown = seen.get(after.decision.pk, ()) if after.decision else ()
        found.append(TakenChange(before, after, at, tuple(shown), later))
    return found


def write_patch(taken: TakenLibrary, prefix: str = "skills/") -> bytes:
    """Return the mails that `git am` turns into one commit for each change. `prefix`: the folder of the repository
    that has the skills; empty for its root."""
    prefix = prefix.strip("/")
    if prefix:
        _check_path(prefix)
    total = sum(state.snapshot.bytes_total for state in taken.chain if state.snapshot)
    if total > MAX_BYTES:
        raise CannotTakeSkills(f"the states have {total:,} bytes, expected at most {MAX_BYTES:,}; choose a later start")
    return b"".join(render_mails(_list_mails(taken), f"{prefix}/" if prefix else ""))


def _list_mails(taken: TakenLibrary) -> Iterator[MailedChange]:
    run, files = taken.episode.run, read_files(taken.start.snapshot)
    for change in read_changes(taken):
        decision, after = change.after.decision, read_files(change.after.snapshot)
        if decision and decision.before_id != (change.before.snapshot and change.before.snapshot.pk):
            found = read_files(decision.before)
            lines = [own_line("Files differ here that no recorded change explains.")]
            yield MailedChange(decision.before.digest, NO_AUTHOR, change.at, lines[0], lines, files, found)
            files = found
        if decision:
            lines = _describe_decision(run, change)
            subject = redact_text(decision.summary).strip() or f"Decision {decision.number}"
            yield MailedChange(change.after.digest, _name_author(run, change), change.at, subject, lines, files, after)
        else:
            lines = [own_line(f"Skills that entered {_name_episode(taken.episode)} without an author.")]
            yield MailedChange(change.after.digest, NO_AUTHOR, change.at, lines[0], lines, files, after)
        files = after


def _name_author(run: Run, change: TakenChange) -> str:
    call = change.after.decision.call if change.after.decision else None
    model = call.model if call and not run.author_agent else run.author
    return "Skill author" if model in ("", Run.UNKNOWN) else f"Skill author {model}"


def _name_episode(episode: Episode) -> str:
    return f"“{episode.title}” of “{episode.run.experiment.name}”"


def _describe_decision(run: Run, change: TakenChange) -> list[str]:
    """Return the message below the subject: the author's reason, the evidence, and where the record has both."""
    decision, rate = change.after.decision, change.seen_rate
    assert decision is not None
    lines = [own_line(f"Decision {decision.number} in {_name_episode(decision.episode)}.")]
    if trial := decision.after_trial:
        lines.append(own_line(f"It followed a trial that {end_in_words(trial)}: {trial.task.title}"))
    summary = redact_text(decision.summary).strip()
    if "\n" in summary or len(summary) > MAX_SUBJECT:  # else the subject has it
        lines += ["", "The author’s summary:", "", *quote(summary)]
    if change.seen:
        lines += [
            "",
            f"The author saw {plural(len(change.seen), 'trial')}: {rate.passed} of {rate.scored} with a verdict "
            "passed.",
        ]
        for trial in change.seen[:MAX_SEEN]:
            lines.append(own_line(f"- {trial.phase}, {trial.task.title}: {end_in_words(trial)}"))
        if len(change.seen) > MAX_SEEN:
            lines.append(f"- and {len(change.seen) - MAX_SEEN} more")
    if change.later:
        lines += ["", *describe_readers(change.later), "This is association, not effect."]
    scripted = ["", "A scripted or recorded model took part: these numbers say nothing about any LLM."]
    digest = ["", f"Skillglass-Decision: {decision.public_id}", f"Skillglass-Library: {change.after.digest}"]
    return [*lines, *(scripted if run.scripted else []), *digest]


def end_in_words(trial: Trial) -> str:
    return {True: "passed", False: "failed", None: "has no verdict"}[trial.success]


@dataclass(frozen=True, slots=True)
class MailedChange:
    """One commit. `author`: a model or a program, never a person. `body`: lines that `own_line` or `quote` made."""

    key: str  # hex digits, another for each commit
    author: str
    at: datetime
    subject: str
    body: Sequence[str]
    before: Files
    after: Files


def render_mails(changes: Iterator[MailedChange], prefix: str) -> Iterator[bytes]:
    """Yield a mail for each change of files. `prefix`: the folder of the repository that holds the files, "skills/"."""
    for change in changes:
        if patch := b"".join(_render_patch(change.before, change.after, prefix)):
            header = [
                f"From {change.key[:40]:0<40} Mon Sep 17 00:00:00 2001",
                f"From: {formataddr((_clean_name(change.author), ADDRESS))}",
                f"Date: {format_datetime(change.at)}",
                f"Subject: [PATCH] {_encode_subject(change.subject)}",
                "MIME-Version: 1.0",
                "Content-Type: text/plain; charset=UTF-8",
                "Content-Transfer-Encoding: 8bit",
            ]
            yield "\n".join([*header, "", *change.body, "---", "", ""]).encode("utf-8", "replace") + patch
            yield b"-- \nSkillglass\n\n"


def own_line(text: str) -> str:
    """Return a line of a message. `text` begins with a word of ours; what follows may be a stranger's."""
    return _SCISSORS.sub(r"\g<0> ", one_line(text, 300))


def quote(text: str) -> list[str]:
    """Return a stranger's text as quoted lines."""
    return [_SCISSORS.sub(r"\g<0> ", f"> {line}".rstrip()) for line in visible(text).strip().split("\n")]


def _clean_name(name: str) -> str:
    return " ".join(re.sub(r"[^A-Za-z0-9._/+ -]", " ", name).split())[:MAX_NAME].strip() or "Skill author"


def _encode_subject(subject: str) -> str:
    line = one_line(subject, MAX_SUBJECT)
    line = f"Skills: {line}" if _STRIPPED.match(line) else line
    return line if line.isascii() and "=?" not in line else Header(line, "utf-8").encode()


# --- the patch ------------------------------------------------------------------------------------------------------


def _render_patch(before: Files, after: Files, prefix: str) -> Iterator[bytes]:
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if _identify(old) != _identify(new):
            yield from _render_file(prefix + path, old, new)


def _identify(file: File | None) -> tuple[str, str]:
    """Return git's mode and id of a file."""
    if file is None:
        return "", NO_BLOB
    head = f"blob {len(file.content)}\0".encode()
    blob = hashlib.sha1(head + file.content, usedforsecurity=False).hexdigest()
    return "100755" if file.mode & 0o100 else "100644", blob


def _render_file(path: str, old: File | None, new: File | None) -> Iterator[bytes]:
    (old_mode, old_blob), (new_mode, new_blob) = _identify(old), _identify(new)
    left, right = _quote_path(f"a/{path}"), _quote_path(f"b/{path}")
    yield f"diff --git {left} {right}\n".encode()
    if old is None:
        yield f"new file mode {new_mode}\n".encode()
    elif new is None:
        yield f"deleted file mode {old_mode}\n".encode()
    elif old_mode != new_mode:
        yield f"old mode {old_mode}\nnew mode {new_mode}\n".encode()
    if old_blob == new_blob:
        return
    mode = f" {new_mode}" if old_mode == new_mode else ""
    yield f"index {old_blob}..{new_blob}{mode}\n".encode()
    sides = [file.content if file else b"" for file in (old, new)]
    if any(map(_must_be_encoded, sides)) or sum(side.count(b"\n") for side in sides) > MAX_LINES:
        yield b"GIT binary patch\n"
        yield from _encode(sides[1])
        yield from _encode(sides[0])
    elif any(sides):
        yield f"--- {left if old else '/dev/null'}\n+++ {right if new else '/dev/null'}\n".encode()
        left_lines, right_lines = ([line.decode() for line in split_lines(side)] for side in sides)
        for line in islice(unified_diff(left_lines, right_lines), 2, None):
            yield line.encode() if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n".encode()


def _must_be_encoded(content: bytes) -> bool:
    return b"\r" in content or b"\0" in content or is_binary(content)


def _encode(content: bytes) -> Iterator[bytes]:
    """Yield one side of a binary patch: compressed, in lines that begin with their length as a letter."""
    yield f"literal {len(content)}\n".encode()
    packed = zlib.compress(content)
    for start in range(0, len(packed), ENCODED_BYTES):
        line = packed[start : start + ENCODED_BYTES]
        length = chr(len(line) + (64 if len(line) <= 26 else 70))
        yield length.encode() + b85encode(line, pad=True) + b"\n"
    yield b"\n"


def _quote_path(path: str) -> str:
    """Write a path as git does: in quotes with octal bytes where it has anything but plain characters."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in path.encode())
    return f'"{"".join(plain)}"'

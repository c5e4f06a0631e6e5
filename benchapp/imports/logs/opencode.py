"""The storage folder of opencode: session/PROJECT/ses_*.json, message/SESSION/msg_*.json, part/MESSAGE/prt_*.json.

Files of a session are joined to what `opencode export` writes, which is a trajectory (readers.opencode). Versions
that keep everything in opencode.db are named: their sessions can be exported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import orjson

from benchapp.imports.reading.documents import Document, read_object
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrajectorySource,
    TrialSource,
)
from benchapp.imports.reading.found_trials import FoundRow, of_bytes
from benchapp.imports.reading.walking import Root, name_of
from runner.base.types import TrajectoryKind, Usage
from runner.trajectories.readers.reading import read_trajectory

NAME, TITLE = "opencode", "opencode"
STORAGE, DATABASE, EXPORT = "storage", "opencode.db", "opencode-export"
_PARTS = ("session", "message", "part")
_MAX_FILES, _MAX_BYTES = 20_000, 256 * 1024 * 1024  # of one session


def claims(root: Root, folder: Path) -> bool:
    storages = (folder, folder / STORAGE)
    return root.is_file(folder / DATABASE) or any(all(root.is_dir(s / part) for part in _PARTS) for s in storages)


def find(root: Root, folder: Path) -> Iterator[FoundExperiment]:
    if root.is_file(folder / DATABASE):
        expected = "sessions in files, or what `opencode export` writes"
        root.report(folder / DATABASE, "", expected, "a SQLite database of a newer version; it is not opened")
    storage = folder if root.is_dir(folder / "session") else folder / STORAGE
    sessions = dict[str, Document]()
    for project in root.listing(storage / "session")[0] if root.is_dir(storage / "session") else ():
        for entry in root.listing(project)[1]:
            if entry.path.suffix == ".json" and (found := read_object(root, entry.path)) is not None:
                sessions[found.text("id", 200) or entry.path.stem] = found
    children = defaultdict[str, list[str]](list)
    for ident, session in sessions.items():
        parent = session.text("parentID", 200)
        children[parent if parent in sessions else ""].append(ident)
        seen = {ident}
        while parent in sessions and parent not in seen:
            seen.add(parent)
            parent = sessions[parent].text("parentID", 200)
        if parent in seen:
            session.report("parentID", "a parent that did not come from this session", "a loop; a session of its own")
            children[""].append(ident)
    trials = [_find_session(root, storage, sessions, children, ident) for ident in children[""]]
    home = storage.parent if storage.name == STORAGE else storage
    source = ExperimentSource.of_folder(root, home, format=NAME, title=TITLE)
    yield FoundExperiment(source, trials=tuple(sorted(trials, key=lambda found: found.order)))


def _find_session(
    root: Root, storage: Path, sessions: dict[str, Document], children: dict[str, list[str]], ident: str
) -> FoundRow:
    """Find a session with the sub-agents that it started, at any depth."""
    family, waiting = list[str](), [ident]
    while waiting:
        family.append(waiting.pop(0))
        waiting += [each for each in children.get(family[-1], ()) if each not in family]
    files = {each: _list_files(root, storage, each) for each in family}
    build = partial(_build, root, {each: sessions[each] for each in family}, files)
    session = sessions[ident]
    created = session.object("time").count("created") or 0
    every = (*(sessions[each].path for each in family), *(path for paths in files.values() for path in paths))
    return FoundRow(root, root.label(session.path), (f"{NAME}:{ident}",), (f"{created:020}", ident), build, None, every)


def _list_files(root: Root, storage: Path, session: str) -> list[Path]:
    """Return the files of a session's messages, each followed by those of its parts."""
    found = list[Path]()
    folder = storage / "message" / session
    for message in root.listing(folder)[1] if _is_inside(session) and root.is_dir(folder) else ():
        parts = storage / "part" / message.path.stem
        found += [message.path, *(entry.path for entry in (root.listing(parts)[1] if root.is_dir(parts) else ()))]
    if not found:
        root.report(folder, "", "messages of the session", "none: no trajectory")
    if len(found) > _MAX_FILES:
        root.report(folder, "", f"at most {_MAX_FILES:,} files", f"{len(found):,}; the rest is left out")
    return [path for path in found[:_MAX_FILES] if path.suffix == ".json"]


def _is_inside(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name


def _join(root: Root, session: Document, files: list[Path]) -> TrajectorySource | None:
    """Join the files to one export. Ids sort by time."""
    if (size := sum(root.size(path) for path in files)) > _MAX_BYTES:
        session.report("", f"a session of at most {_MAX_BYTES:,} bytes", f"{size:,}; no trajectory")
        return None
    messages = list[dict[str, object]]()
    parts = list[object]()
    for path in files:
        found = read_object(root, path)
        if path.parent.parent.name == "message":
            parts = []
            messages.append({"info": found.raw if found else {}, "parts": parts})
        elif found is not None:
            parts.append(found.raw)
    content = orjson.dumps({"info": session.raw, "messages": messages})
    return of_bytes(f"session/{name_of(session.path)}", content, format=EXPORT) if messages else None


def _build(root: Root, sessions: dict[str, Document], files: dict[str, list[Path]]) -> TrialSource:
    ident, session = next(iter(sessions.items()))
    sources, usage, model = list[TrajectorySource](), Usage(), ""
    for each, document in sessions.items():
        if (source := _join(root, document, files[each])) is None:
            continue
        trajectory = read_trajectory(source.open, source_format=EXPORT)
        model = model or next((step.model for step in trajectory.steps if step.model), "")
        for _ in trajectory.steps:  # what was spent is known at the end
            pass
        usage += trajectory.reported or Usage()
        if sources:
            source = replace(source, name=each, kind=TrajectoryKind.SUBAGENT, parent="main")
        sources.append(source)
    times = session.object("time")
    began, ended = (_time(times.count(key)) for key in ("created", "updated"))
    return TrialSource(
        run=RunSource(NAME, session.text("version", 100) or "", model or UNKNOWN, "", setup={"source": NAME}),
        task=TaskSource(NAME, ident, session.text("title", 200) or ident),
        timing=Timing(began, ended, duration_seconds=(ended - began).total_seconds() if began and ended else None),
        verdict=None,
        config={"session": ident},
        choices=(SourceChoice(tuple(sources)),) if sources else (),
        usage=Usage(cost_usd=usage.cost_usd),
    )


def _time(milliseconds: int | None) -> datetime | None:
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None

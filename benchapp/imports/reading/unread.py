"""Report files that are present but not read: one line for each kind.

Three sorts: files that end like a log and that no format takes; logs inside Harbor's folders that do not belong to a
trial (outside the trials of a job, or outside agent/ and trajectory/ of a trial); folders that a format passes over.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from benchapp.imports.reading.trajectory_files import AGENT_FOLDERS, PREFERENCE
from benchapp.imports.reading.walking import MAX_DEPTH, NAMED, NOT_ENTERED, FolderEntry, Root, list_names, name_of
from runner.base.text import plural, storable
from runner.trajectories.readers import UNREAD
from runner.trajectories.readers.reading import sniff, sniff_markdown

BUNDLE = ".bundle"  # of git
ARCHIVES = frozenset({".gz", ".zst", ".xz", ".bz2", ".zip", ".skill", ".tar", ".tgz", ".7z", BUNDLE})
MARKDOWN = frozenset({".md", ".markdown"})
# Files of projects, plugins and skills that end like a log and never are one. Names in lower case.
NO_LOGS = frozenset(
    "package.json package-lock.json tsconfig.json jsconfig.json composer.json components.json .eslintrc.json"
    " .prettierrc.json plugin.json marketplace.json hooks.json settings.json settings.local.json mcp.json .mcp.json"
    " gemini-extension.json evals.json trigger-eval.json trigger_eval.json test-prompts.json license.txt licence.txt"
    " notice.txt requirements.txt requirements-dev.txt cmakelists.txt robots.txt llms.txt".split()
)
MAX_LOOKED_AT = 500  # files of one trial, or of one job
_MEANINGS = {
    "plain-text": "in no known format",
    "chat-messages": "with messages only, without calls of tools",
    "empty": "without content",
    "git-lfs-pointer": "that are Git LFS pointers: their content was not downloaded",
    "archive": "to be unpacked first",
    "git-bundle": "of git, to be cloned first (git clone FILE)",
}
_SUFFIXES = frozenset({".json", ".jsonl", ".traj"})


def report_folders(root: Root, folder: Path, left: Sequence[Path], expected: str) -> None:
    """Report folders that were passed over, in one line."""
    if left:
        names = list_names([name_of(path) for path in left])
        root.report(folder, "", expected, f"{names} {'is' if len(left) == 1 else 'are'} none; left out")


@dataclass(slots=True)
class _Kind:
    """Files with the same look and suffix. `folder`: their common parent."""

    folder: str
    first: list[Path] = field(default_factory=list)
    count: int = 0


def report_files(
    root: Root,
    entries: Iterable[FolderEntry],
    *,
    expected: str = "logs in a known format",
    where: str = "which is not read without its run",
) -> None:
    """Report files by kind. `where`: why those in a known format are not read."""
    kinds: dict[tuple[str, str], _Kind] = {}
    for entry in entries:
        suffix, folder = entry.path.suffix.lower(), str(entry.path.parent)
        packed = "git-bundle" if suffix == BUNDLE else "archive"
        kind = kinds.setdefault((packed if suffix in ARCHIVES else _sniff(root, entry), suffix), _Kind(folder))
        kind.folder = os.path.commonpath([kind.folder, folder])
        kind.count += 1
        if len(kind.first) < NAMED:
            kind.first.append(entry.path)
    for (source_format, suffix), kind in kinds.items():
        names = list_names([storable(str(path.relative_to(kind.folder))) for path in kind.first], kind.count)
        files = plural(kind.count, "file")
        if unread := UNREAD.get(source_format):
            message = f"{files} that {'looks' if kind.count == 1 else 'look'} like {unread}; no reader exists: {names}"
        else:
            meaning = _MEANINGS.get(source_format, f"in the format {source_format}, {where}")
            message = f"{files} {meaning}; not read: {names}"
        root.report(Path(kind.folder), f"*{suffix}", expected, message)


def is_history(root: Root, entry: FolderEntry) -> bool:
    """Is it a Markdown history of an agent, which no format reads?"""
    return entry.path.suffix.lower() in MARKDOWN and _sniff(root, entry) in UNREAD


def _sniff(root: Root, entry: FolderEntry) -> str:
    try:
        with root.open(entry.path) as stream:
            return (sniff_markdown if entry.path.suffix.lower() in MARKDOWN else sniff)(stream)
    except OSError:  # reported at the first try
        return "plain-text"


# --- logs inside Harbor's folders -----------------------------------------------------------------------------------


def report_logs(root: Root, jobs: Collection[Path], trials: Collection[Path], skip: frozenset[Path]) -> None:
    """Report logs. `skip`: folders that other formats read."""
    quiet = root.mute()
    apart = skip | frozenset(trials) | frozenset(jobs)
    outside = (entry for job in jobs for entry in _select_logs(quiet, _walk(quiet, job, apart)))
    report_files(root, outside, expected="logs in the folders of trials", where="next to the trials of a job")
    others = (entry for trial in trials for entry in _select_logs(quiet, _walk_besides(quiet, trial)))
    report_files(root, others, expected="logs in agent/ or trajectory/", where="elsewhere in a trial")


def _walk(root: Root, folder: Path, apart: frozenset[Path], depth: int = 0) -> Iterator[FolderEntry]:
    folders, files = root.listing(folder)
    yield from files
    for sub in folders:
        if sub not in apart and sub.name not in NOT_ENTERED and depth < MAX_DEPTH:
            yield from _walk(root, sub, apart, depth + 1)


def _walk_besides(root: Root, trial: Path) -> Iterator[FolderEntry]:
    """Walk everything else in a trial, except files directly in its folder, which the trial examines itself."""
    for sub in root.listing(trial)[0]:
        if sub.name == "steps":
            yield from (entry for step in root.listing(sub)[0] for entry in _walk_besides(root, step))
        elif sub.name not in AGENT_FOLDERS | NOT_ENTERED:
            yield from _walk(root, sub, frozenset())


def _select_logs(root: Root, entries: Iterable[FolderEntry]) -> Iterator[FolderEntry]:
    named = (entry for entry in entries if entry.path.suffix.lower() in _SUFFIXES)
    return (entry for entry in islice(named, MAX_LOOKED_AT) if _sniff(root, entry) in PREFERENCE)

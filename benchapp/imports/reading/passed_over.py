"""Logs inside Harbor's folders that are no account of a trial: in a job beside its trials, or in a trial beside agent/ and
trajectory/. Nothing reads them, so each kind of them is told in one line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path

from benchapp.imports.problems import ProblemList
from benchapp.imports.reading.trajectory_files import PREFERENCE
from benchapp.imports.reading.unclaimed import report_kinds
from benchapp.imports.reading.walking import MAX_DEPTH, FolderEntry, Root
from runner.trajectories.readers.reading import sniff

MAX_LOOKED_AT = 500  # files of one trial, or of one job
_SUFFIXES = frozenset({".json", ".jsonl", ".traj"})
_ACCOUNTS = frozenset({"agent", "trajectory"})
_NOT_ENTERED = frozenset({".git", "node_modules", "__pycache__"})


def report_passed_over(root: Root, jobs: Collection[Path], trials: Collection[Path], skip: frozenset[Path]) -> None:
    """`skip`: folders that other formats read."""
    quiet = Root(root.given, ProblemList())
    apart = skip | frozenset(trials) | frozenset(jobs)
    beside = (entry for job in jobs for entry in _logs(quiet, _files(quiet, job, apart)))
    report_kinds(root, beside, expected="logs in the folders of trials", where="beside the trials of a job")
    others = (entry for trial in trials for entry in _logs(quiet, _outside_accounts(quiet, trial)))
    report_kinds(root, others, expected="logs in agent/ or trajectory/", where="elsewhere in a trial")


def _files(root: Root, folder: Path, apart: frozenset[Path], depth: int = 0) -> Iterator[FolderEntry]:
    folders, files = root.listing(folder)
    yield from files
    for sub in folders:
        if sub not in apart and sub.name not in _NOT_ENTERED and depth < MAX_DEPTH:
            yield from _files(root, sub, apart, depth + 1)


def _outside_accounts(root: Root, trial: Path) -> Iterator[FolderEntry]:
    """What lies in the trial's folder itself is looked at by the trial."""
    for sub in root.listing(trial)[0]:
        if sub.name == "steps":
            yield from (entry for step in root.listing(sub)[0] for entry in _outside_accounts(root, step))
        elif sub.name not in _ACCOUNTS | _NOT_ENTERED:
            yield from _files(root, sub, frozenset())


def _logs(root: Root, entries: Iterable[FolderEntry]) -> Iterator[FolderEntry]:
    named = (entry for entry in entries if entry.path.suffix.lower() in _SUFFIXES)
    return (entry for entry in islice(named, MAX_LOOKED_AT) if _format(root, entry) in PREFERENCE)


def _format(root: Root, entry: FolderEntry) -> str:
    try:
        with root.open(entry.path) as stream:
            return sniff(stream)
    except OSError:
        return ""

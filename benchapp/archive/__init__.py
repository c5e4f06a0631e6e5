"""One experiment as one file that another installation takes in to an equal `record_digest`.

The file is a plain tar in zstd (`.tar.zst`) or gzip (`.tar.gz`), its members in this order:

    manifest.json     format, experiment, record digest, and name, size and SHA-256 of every file of rows
    blobs/<SHA-256>   each content once, under its own digest, sorted
    shared.jsonl      the experiment, its suites, tasks and library snapshots
    runs/<n>.jsonl    one file a run: its episodes, trials, attempts, trajectories, decisions, calls, spine

A line is `[table, {column: value}]`; a reference is the place of its target among the lines of that table. What people
did about it (reviews, labels, comments, saved comparisons, the activity log) is no part of it, nor are hosts, workers,
leases, paths and times of import.
"""

from __future__ import annotations

FORMAT = "skillglass-archive/1"
MANIFEST = "manifest.json"
SHARED = "shared.jsonl"
ENDINGS = (".tar.zst", ".tar.gz", ".tgz")


class ArchiveError(Exception):
    """The file cannot be taken as it stands, or the experiment cannot be written. Nothing was changed.

    place: member of the archive, with the line where there is one. expected: what should have been there.
    """

    def __init__(self, place: str, expected: str, message: str) -> None:
        super().__init__(f"{place}: expected {expected}; {message}" if place else f"expected {expected}; {message}")
        self.place, self.expected, self.message = place, expected, message

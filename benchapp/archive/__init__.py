"""One experiment as one file that another installation imports with an equal `record_digest`.

The file is a plain tar in zstd (`.tar.zst`) or gzip (`.tar.gz`), its members in this order:

    manifest.json     format, experiment, record digest, and name, size and SHA-256 of every file of rows
    blobs/<SHA-256>   each content once, under its own digest, sorted
    shared.jsonl      the experiment, its suites, tasks and library snapshots
    runs/<n>.jsonl    one file a run: its episodes, trials, attempts, trajectories, decisions, calls, spine

A line is `[table, {column: value}]`; a reference is the place of its target among the lines of that table. Left out are
what people did with the experiment (reviews, labels, comments, saved comparisons, the activity log), and hosts,
workers, leases, paths and times of import.
"""

from __future__ import annotations

from skillglass.envelope import FORMAT, MANIFEST, SHARED, ArchiveError

__all__ = ["ENDINGS", "FORMAT", "MANIFEST", "SHARED", "ArchiveError"]
ENDINGS = (".tar.zst", ".tar.gz", ".tgz")

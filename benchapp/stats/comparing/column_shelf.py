"""Columns of runs kept in the var folder, so that a new process need not read fifty thousand rows again.

One file per run, `<public id>-<revision>-<layout>.words`, in 64-bit words: the number of trials, then one column after
the other. A page reads hundreds of them, and the header of a numpy file would take half of that time. A file holds only
what the record would give; losing it costs time, so nothing here fails a page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path

import numpy as np
from django.conf import settings

from benchapp.models import Run
from benchapp.stats.learning.kept_files import write_kept
from benchapp.stats.metrics.outcomes import Floats, Ints, Mask, Outcomes, outcomes_from

FIELDS = fields(Outcomes)
LAYOUT = blake2b(repr([(field.name, field.type) for field in FIELDS]).encode(), digest_size=4).hexdigest()


def folder() -> Path:
    return Path(settings.VAR_DIR) / "columns"


def take(run: Run) -> Outcomes | None:
    """Return the columns, None where none are kept for this revision, or they cannot be read."""
    try:
        words = np.frombuffer(_path(run).read_bytes(), np.int64)
    except (OSError, ValueError):
        return None
    if not len(words) or len(words) != 1 + len(FIELDS) * int(words[0]):
        return None
    rows = words[1:].reshape(len(FIELDS), int(words[0]))
    return outcomes_from({field.name: _unpack(row, str(field.type)) for field, row in zip(FIELDS, rows, strict=True)})


def keep(run: Run, outcomes: Outcomes) -> None:
    """Keep the columns and delete earlier revisions of the run."""
    words = np.concatenate([[len(outcomes)], *(_pack(getattr(outcomes, field.name)) for field in FIELDS)])
    write_kept(_path(run), f"{run.public_id}-*", lambda part: part.write(words.astype(np.int64).tobytes()))


def clear(runs: Iterable[Run]) -> None:
    """Delete files of runs that are about to be removed."""
    for run in runs:
        for path in folder().glob(f"{run.public_id}-*"):
            path.unlink(missing_ok=True)


def _path(run: Run) -> Path:
    return folder() / f"{run.public_id}-{run.revision}-{LAYOUT}.words"


def _pack(column: Ints | Floats | Mask) -> Ints:
    """Pack a column of Outcomes as 64-bit words: [n] -> [n]."""
    return column.view(np.int64) if column.dtype == np.float64 else column.astype(np.int64)


def _unpack(row: Ints, kind: str) -> Ints | Floats:
    """Return the column [n] of these words; for a mask the 0 and 1."""
    return row.view(np.float64) if kind == "Floats" else row

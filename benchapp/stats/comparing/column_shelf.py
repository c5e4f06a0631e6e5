"""Columns of runs kept below the var folder, so that a new process need not read fifty thousand rows again.

One file per run, `<public id>-<revision>-<layout>.npy`: every column as a row of 64-bit words. A file is only ever what the
record would give; losing it costs time, so nothing here fails a page.
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
    """None where nothing is kept of this revision, or what is kept cannot be read."""
    try:
        words = np.load(_path(run), allow_pickle=False)
    except (OSError, EOFError, ValueError):
        return None
    if words.dtype != np.int64 or words.ndim != 2 or len(words) != len(FIELDS):
        return None
    return outcomes_from({field.name: _unpack(row, str(field.type)) for field, row in zip(FIELDS, words, strict=True)})


def keep(run: Run, outcomes: Outcomes) -> None:
    """Delete earlier revisions of the run."""
    words = np.stack([_pack(getattr(outcomes, field.name)) for field in FIELDS])
    write_kept(_path(run), f"{run.public_id}-*.npy", lambda part: np.save(part, words, allow_pickle=False))


def clear(runs: Iterable[Run]) -> None:
    """Of runs that are about to be removed."""
    for run in runs:
        for path in folder().glob(f"{run.public_id}-*.npy"):
            path.unlink(missing_ok=True)


def _path(run: Run) -> Path:
    return folder() / f"{run.public_id}-{run.revision}-{LAYOUT}.npy"


def _pack(column: Ints | Floats | Mask) -> Ints:
    """A column of Outcomes as 64-bit words: [n] -> [n]."""
    return column.view(np.int64) if column.dtype == np.float64 else column.astype(np.int64)


def _unpack(row: Ints, kind: str) -> Ints | Floats:
    """The words [n] as the column [n] they were; of a mask the 0 and 1."""
    return row.view(np.float64) if kind == "Floats" else row

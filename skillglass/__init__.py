"""Skillglass from Python: the trials, decisions and metrics of a record, as rows and as data frames.

    import skillglass

    record = skillglass.open("http://127.0.0.1:8000")    # or "experiment.tar.zst", an archive
    trials = record.trials(record.experiments()[0]["experiment"])
    trials.frame().groupby("condition").success.mean()   # frame() needs pandas

    run = skillglass.start("my experiment", condition="with-skills", agent_model="openai/gpt-5")    # see run_log

Reading takes the data of the pages and of `export_experiment`. Both need neither Django nor the rest of the project.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from skillglass.archived_record import ArchivedRecord
from skillglass.record_rows import RecordError, RecordRows
from skillglass.run_log import Run, Trial, start
from skillglass.served_record import ServedRecord

__all__ = ["ArchivedRecord", "RecordError", "RecordRows", "Run", "ServedRecord", "Trial", "open", "start"]


def open(  # noqa: A001  (as in `skillglass.open`)
    place: str | PathLike[str], user: str = "", password: str = "", *, token: str = ""
) -> ServedRecord | ArchivedRecord:
    """Open a record. `place`: the address of an installation, or an archive. `token`: from its page *Your account*,
    if a login is required; `user` and `password` work too. RecordError says what does not answer, or what is wrong
    in the file."""
    if isinstance(place, str) and "://" in place:
        return ServedRecord(place, user, password, token=token)
    return ArchivedRecord(Path(place))

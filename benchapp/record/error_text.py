"""The text of an error, cut to fit: the beginning of its message and the end of its log, where it failed. A failure of
the machine, not of the program, is one line instead of a traceback."""

from __future__ import annotations

import errno
import os

from django.db import DatabaseError, DataError, IntegrityError, ProgrammingError

from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable
from runner.base.text import cut

HEADING = "The end of the log:"
# Their messages begin with what happened (`runner.models.wire.error_wording`), so the class is left out.
WORDED = frozenset(kind.__name__ for kind in (ModelUnavailable, ModelRefused, KeyRefused, AccountRefused))


def render_error(kind: str, message: str) -> str:
    """Render an error of the class named `kind` for people, with the class where it adds something."""
    return (message if kind in WORDED else "") or ": ".join(filter(None, (kind, message)))


def text_of_error(error: BaseException) -> str:
    return render_error(type(error).__name__, str(error))


def log_of(error: BaseException) -> str:
    """Return what the machine reported about it at length (a build's output); "" for most errors."""
    return getattr(error, "log", "")


def with_end_of_log(message: str, log: str, most: int) -> str:
    """Cut to about `most` characters, half of them of the log where there is one."""
    log, half = log.strip(), most // 2
    if not log:
        return cut(message, most)
    return f"{cut(message, half - 50)}\n\n{HEADING}\n{log[-half:]}"


SPENT = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EDQUOT, errno.ENOMEM)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENFILE, errno.EFBIG)
# A part of a database's message (SQLite's and PostgreSQL's words) -> what is wrong.
_OF_DATABASES = {
    "is locked": "The database is locked: another process writes to it. Try again when that has ended",
    "disk is full": "The disk of the database is full",
    "No space left on device": "The disk of the database is full",
    "disk I/O error": "The disk of the database cannot be read or written; it may be full",
    "readonly database": "The database cannot be written: its file or folder is read-only",
    "read-only transaction": "The database cannot be written: its server only lets us read",
    "unable to open database file": "The database cannot be opened: its folder is missing, full, closed or read-only",
    "malformed": "The database is damaged",
    "not a database": "The file of the database is something else",
    "connection": "The database does not answer",
    "too many clients": "The database has no connection left",
    "starting up": "The database is starting or stopping. Try again in a minute",
    "shutting down": "The database is starting or stopping. Try again in a minute",
}


def is_of_machine(error: BaseException) -> bool:
    """Did the machine fail (memory, disk, database), not the reading of one source?
    The next source would fail as well."""
    is_of_database = isinstance(error, DatabaseError) and not isinstance(error, DataError)
    return isinstance(error, MemoryError) or is_of_database or is_spent(error)


def is_spent(error: BaseException) -> bool:
    """Did this machine run out of something, such as disk or memory?"""
    return isinstance(error, OSError) and error.errno in SPENT


def describe_failure(error: BaseException) -> str:
    """Return one line without a full stop, naming any file; "" where a traceback is more useful."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError):
        return ""
    if isinstance(error, DatabaseError):
        text = str(error)
        return next((sentence for part, sentence in _OF_DATABASES.items() if part in text), "")
    if isinstance(error, OSError) and error.errno in (*SPENT, *_CLOSED):
        reason = os.strerror(error.errno)
        return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason
    return ""

"""Failures of the machine, not of the program, each described in one line instead of a traceback."""

from __future__ import annotations

import errno
import os

from django.db import DatabaseError, DataError, IntegrityError, ProgrammingError

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


def describe_failure(error: BaseException) -> str:
    """Return one line without a full stop, naming any file; "" where a traceback is more useful."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError):
        return ""
    if isinstance(error, DatabaseError):
        text = str(error)
        return next((told for part, told in _OF_DATABASES.items() if part in text), "")
    if isinstance(error, OSError) and error.errno in (*SPENT, *_CLOSED):
        reason = os.strerror(error.errno)
        return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason
    return ""

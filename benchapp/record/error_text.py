"""The text of an error, cut to fit: the beginning of its message and the end of its log, where it failed."""

from __future__ import annotations

from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable
from runner.base.text import cut

HEADING = "The end of the log:"
# Their messages begin with what happened (`runner.models.wire.error_wording`), so the class is left out.
WORDED = frozenset(kind.__name__ for kind in (ModelUnavailable, ModelRefused, KeyRefused, AccountRefused))


def render_error(kind: str, message: str) -> str:
    """Render an error of the class named `kind` for people, with the class where it adds something."""
    return (message if kind in WORDED else "") or ": ".join(filter(None, (kind, message)))


def words_of(error: BaseException) -> str:
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

"""What an error says, cut to fit: its message from the beginning, and the log it carries from the end, where it failed."""

from __future__ import annotations

from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable
from runner.base.text import cut

HEADING = "The end of the log:"
# Their messages begin with what happened (`runner.models.wire.error_wording`); the class would stand before it.
WORDED = frozenset(kind.__name__ for kind in (ModelUnavailable, ModelRefused, KeyRefused, AccountRefused))


def render_error(kind: str, message: str) -> str:
    """An error of the class named `kind` for people: its message, after its class where that is part of what it says."""
    return (message if kind in WORDED else "") or ": ".join(filter(None, (kind, message)))


def words_of(error: BaseException) -> str:
    return render_error(type(error).__name__, str(error))


def log_of(error: BaseException) -> str:
    """What the machine said about it, at length (a build's output); "" for most errors."""
    return getattr(error, "log", "")


def with_end_of_log(message: str, log: str, most: int) -> str:
    """About `most` characters, half of them of the log where there is one."""
    log, half = log.strip(), most // 2
    if not log:
        return cut(message, most)
    return f"{cut(message, half - 50)}\n\n{HEADING}\n{log[-half:]}"

"""Log every act of a person on the record: who, when, what, why."""

from __future__ import annotations

from collections.abc import Mapping

from benchapp.models import Activity, User
from benchapp.models.base import PublicModel
from runner.base.errors import RunnerError

COMMAND_LINE = "command line"


class NotPossible(RunnerError):
    """The act does not fit the state of its target."""


def note_activity(
    actor: User | None,
    verb: str,
    target: PublicModel | User,
    *,
    detail: Mapping[str, object] | None = None,
    reason: str = "",
) -> Activity:
    """Log the act; call it inside its transaction. `verb` reads "codebook.frozen"; `detail` has old and new values.

    Without an `actor` somebody is at the command line. An account as target has no address; `detail` names it.
    """
    return Activity.objects.create(
        actor=actor,
        actor_name=name_actor(actor),
        verb=verb,
        target_kind=type(target).__name__.lower(),
        target_id=None if isinstance(target, User) else target.public_id,
        detail=dict(detail or {}),
        reason=reason,
    )


def name_actor(actor: User | None) -> str:
    return actor.get_username() if actor else COMMAND_LINE

"""Every act of a person on the record is written down beside it: who, when, what, why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchapp.models import Activity, User
from benchapp.models.base import PublicModel


def note_activity(
    actor: User, verb: str, target: PublicModel, *, detail: Mapping[str, Any] | None = None, reason: str = ""
) -> Activity:
    """Call it inside the transaction of the act. `verb` reads "codebook.frozen"; `detail` says what was and what is."""
    return Activity.objects.create(
        actor=actor,
        actor_name=actor.get_username(),
        verb=verb,
        target_kind=type(target).__name__.lower(),
        target_id=target.public_id,
        detail=dict(detail or {}),
        reason=reason,
    )

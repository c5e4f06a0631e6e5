"""Tokens let programs read, or upload runs, as their owner."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from benchapp.models import ApiToken, User
from benchapp.people.codes import TOKEN, digest_code, draw_code
from benchapp.record.writing.human_acts import note_activity

SHOWN = 10  # characters of a token that lists show
USE_NOTED_EVERY = timedelta(minutes=5)


def make_token(owner: User, name: str, scope: str) -> tuple[ApiToken, str]:
    """Return a new token's row and the token, which is not stored."""
    token = draw_code(TOKEN)
    with transaction.atomic():
        made = ApiToken.objects.create(
            digest=digest_code(token), hint=token[:SHOWN], owner=owner, name=name, scope=scope
        )
        note_activity(owner, "token.made", made, detail={"name": name, "scope": scope})
    return made, token


def revoke_token(token: ApiToken, *, by: User) -> bool:
    """Return False where it was revoked before."""
    with transaction.atomic():
        if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
            return False
        note_activity(by, "token.revoked", token, detail={"name": token.name, "scope": token.scope})
    return True


def find_token(token: str) -> ApiToken | None:
    """Return the row of a token that works now, with its owner; note its use, at most every five minutes."""
    found = (
        ApiToken.objects.select_related("owner")
        .filter(digest=digest_code(token), revoked_at=None, owner__is_active=True)
        .first()
    )
    now = timezone.now()
    if found and (found.last_used_at is None or now - found.last_used_at > USE_NOTED_EVERY):
        ApiToken.objects.filter(pk=found.pk).update(last_used_at=now)
    return found

"""People join by a link that works once. The same kind of link gives somebody a new password."""

from __future__ import annotations

from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from benchapp.models import Invitation, User
from benchapp.people.accounts import LOCAL_USER, AccountChangeRefused, add_account, set_password
from benchapp.people.codes import INVITATION, digest_code, draw_code
from benchapp.record.writing.human_acts import note_activity

VALID_FOR = timedelta(days=7)


class InvitationRefused(Exception):
    """The code grants nothing: unknown, used, withdrawn or expired. Which of these stays private."""


def invite(*, by: User, level: str, name: str = "", account: User | None = None) -> tuple[Invitation, str]:
    """Return a new invitation with its code, which is not stored. `account`: the one that gets a new password."""
    if account is not None and account.username == LOCAL_USER:
        raise AccountChangeRefused("The local user has no password.")
    code = draw_code(INVITATION)
    with transaction.atomic():
        made = Invitation.objects.create(
            digest=digest_code(code),
            account=account,
            name=account.username if account else name,
            level=account.level if account else level,
            made_by=by,
            expires_at=timezone.now() + VALID_FOR,
        )
        detail = {"account": made.name or "somebody", "level": made.level}
        note_activity(by, "account.password_link" if account else "account.invited", made, detail=detail)
    return made, code


def withdraw(invitation: Invitation, *, by: User) -> bool:
    """Withdraw the invitation. False where it was used or withdrawn before."""
    with transaction.atomic():
        found = Invitation.objects.open().filter(pk=invitation.pk)
        if not found.update(withdrawn_at=timezone.now()):
            return False
        note_activity(by, "account.uninvited", invitation, detail={"account": invitation.name or "somebody"})
    return True


def find_invitation(code: str) -> Invitation:
    """Return the open invitation of a code. InvitationRefused where there is none."""
    found = Invitation.objects.open().select_related("account", "made_by").filter(digest=digest_code(code)).first()
    if found is None or (found.account and not found.account.is_active):
        raise InvitationRefused
    return found


def accept(code: str, name: str, password: str) -> User:
    """Make the account, or set its new password, and use up the code: all of it or nothing.

    InvitationRefused for an invalid code; ValidationError for an invalid name or password, and the code stays valid.
    """
    with transaction.atomic():
        invitation = find_invitation(code)
        use_up(invitation)
        if invitation.account is not None:
            set_password(invitation.account, password)
            return invitation.account
        if not name:
            raise ValidationError({"username": ["Choose a name."]})
        return add_account(name, password, invitation.level, by=invitation.made_by)


def use_up(invitation: Invitation) -> None:
    """Use up the invitation, inside the transaction of its action. Of two people with one code the second gets
    InvitationRefused and is rolled back."""
    if not Invitation.objects.open().filter(pk=invitation.pk).update(used_at=timezone.now()):
        raise InvitationRefused

"""Who comes in from a provider of OpenID Connect (`OIDC_*`), and as which account.

An account belongs to the provider's own id of a person (issuer and subject), which no person can choose. It is bound
when the account is made, or by a link that an admin makes for an account. A name or an e-mail address never leads to an
existing account: people choose both at many providers, and accounts here have no verified address.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from uuid import UUID

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import IntegrityError, transaction

from benchapp.models import Invitation, User
from benchapp.people.accounts import LOCAL_USER, InvitationRefused, use_up
from benchapp.record.writing.human_acts import note_activity

MAX_NAME = 140  # leaves room for a number


class LoginRefused(Exception):
    """The provider knows this person, but no account admits them; the message says why."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the provider reports about somebody."""

    subject: str
    name: str
    email: str
    is_verified: bool  # the e-mail address

    @property
    def domain(self) -> str:
        return self.email.rpartition("@")[2].lower() if self.is_verified else ""


def provider_name() -> str:
    """Return the provider's name on pages; empty if none is configured."""
    return settings.OIDC_NAME if settings.OIDC_ISSUER else ""


def is_linked(user: User) -> bool:
    """Can the person log in at the provider that is configured now?"""
    return bool(provider_name()) and SocialAccount.objects.filter(provider=settings.OIDC_ISSUER, user=user).exists()


def admit(identity: Identity, invitation_id: UUID | None = None) -> tuple[User, bool]:
    """Return the account, and whether it is new. `invitation_id`: of an invitation whose code the person has shown.

    LoginRefused for somebody who is not admitted; then nothing has changed.
    """
    try:
        with transaction.atomic():
            return _admit(identity, invitation_id)
    except InvitationRefused as refusal:
        raise LoginRefused("This invitation no longer works. Ask for a new one.") from refusal
    except IntegrityError:  # the same person came in twice at once, and the other request was first
        with transaction.atomic():
            return _admit(identity, invitation_id)


def _admit(identity: Identity, invitation_id: UUID | None) -> tuple[User, bool]:
    bound = (
        SocialAccount.objects.select_related("user").filter(provider=settings.OIDC_ISSUER, uid=identity.subject).first()
    )
    invitation = None
    if invitation_id:
        invitation = Invitation.objects.open().select_related("account").filter(public_id=invitation_id).first()
    if invitation and invitation.account:
        user = invitation.account
        _refuse_unless_usable(user)
        use_up(invitation)
        _bind(user, identity)
        note_activity(user, "account.linked", user, detail={"account": user.username})
        return user, False
    if bound:
        _refuse_unless_usable(bound.user)
        return bound.user, False
    if invitation_id and not invitation:
        raise InvitationRefused
    if invitation:
        use_up(invitation)
    else:
        if settings.OIDC_LEVEL == "none":
            raise LoginRefused("You have no account here yet. Ask an admin for an invitation.")
        if settings.OIDC_DOMAINS and identity.domain not in settings.OIDC_DOMAINS:
            raise LoginRefused("Your e-mail address is not one that may join. Ask an admin for an invitation.")
    user = User(
        username=_find_free_name((invitation and invitation.name) or identity.name or identity.email),
        level=invitation.level if invitation else settings.OIDC_LEVEL,
    )
    user.set_unusable_password()
    user.save()
    _bind(user, identity)
    note_activity(user, "account.joined", user, detail={"account": user.username, "level": user.level})
    return user, True


def _refuse_unless_usable(user: User) -> None:
    if not user.is_active or user.username == LOCAL_USER:
        raise LoginRefused("Your account here is switched off. An admin can switch it on.")


def _bind(user: User, identity: Identity) -> None:
    """Let this identity log in as the user, and no other one of the same provider."""
    key = {"provider": settings.OIDC_ISSUER}
    SocialAccount.objects.filter(**key, user=user).exclude(uid=identity.subject).delete()
    SocialAccount.objects.update_or_create(**key, uid=identity.subject, defaults={"user": user})


def _find_free_name(wanted: str) -> str:
    """Return the name without an e-mail domain, or with the first number that makes it free."""
    name = User.normalize_username(wanted).partition("@")[0]
    name = re.sub(r"[^\w.+-]+", "-", name).strip("-.")[:MAX_NAME] or "person"
    candidates = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    free = (each for each in candidates if not User.objects.filter(username__iexact=each).exists())
    return next(each for each in free if each.casefold() != LOCAL_USER)

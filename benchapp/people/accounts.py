"""Create accounts, invite people, change levels, make tokens. The activity log keeps each act; nothing is deleted.

In single-user mode everybody who reaches the pages may do everything, so only this machine may reach them.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from ipaddress import ip_address

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.checks import Error, Tags, register
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.models import ApiToken, Invitation, User
from benchapp.record.writing.human_acts import note_activity
from runner.base.var_folder import MANAGE

LOCAL_USER = "local"  # the one person of a single-user installation; has no password, so nobody logs in as it


class AccountChangeRefused(Exception):
    """The change would leave the installation without an admin, or cannot be made; the message says why."""


def people() -> QuerySet[User]:
    """Every account that somebody can log in with, now or after it is switched on again, by name."""
    return User.objects.exclude(username=LOCAL_USER).order_by("username")


def listed_people() -> QuerySet[User]:
    """Everybody who can be named on a page: accounts, and the person of single-user mode if there is one."""
    return User.objects.order_by("username")


def add_account(name: str, password: str, level: str, *, by: User | None) -> User:
    """Create an active account. ValidationError by field for a taken or malformed name and a weak password."""
    user = User(username=name, level=level)
    if name.casefold() == LOCAL_USER:
        raise ValidationError({"username": [f"“{LOCAL_USER}” is the name of single-user mode."]})
    if User.objects.filter(username__iexact=name).exists():
        raise ValidationError({"username": ["There is an account of this name."]})
    _check_password(password, user)
    user.set_password(password)
    user.full_clean(exclude=["password"])
    with transaction.atomic():
        user.save()
        note_activity(by, "account.added", user, detail={"account": user.username, "level": user.level})
    return user


def set_password(user: User, password: str) -> None:
    """Give the account a new password; its sessions end. ValidationError for one that is too weak."""
    _check_password(password, user)
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        note_activity(user, "account.password", user, detail={"account": user.username})


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise ValidationError({"password": error.messages}) from error


def set_level(user: User, level: str, *, by: User | None, reason: str = "") -> bool:
    """Return True where the level changed. AccountChangeRefused for the last admin who can log in."""
    return _change(user, "account.level", {"level": level}, by=by, reason=reason)


def set_active(user: User, active: bool, *, by: User | None, reason: str = "") -> bool:
    """Switch an account off (its sessions end with the next request) or on again. True where it changed."""
    return _change(user, "account.on" if active else "account.off", {"is_active": active}, by=by, reason=reason)


def _change(user: User, verb: str, wanted: dict[str, str | bool], *, by: User | None, reason: str) -> bool:
    if user.username == LOCAL_USER:
        raise AccountChangeRefused("The local user of single-user mode stays as it is.")
    with transaction.atomic():
        # Two admins who take each other's level away at the same time must not both succeed: the admins' rows are
        # locked first. SQLite has no row locks and needs none: its transactions queue from their start.
        admins = set(_admins().select_for_update().values_list("pk", flat=True))
        now = User.objects.get(pk=user.pk)
        before = {name: getattr(now, name) for name in wanted}
        if before == wanted:
            return False
        if now.pk in admins and len(admins) == 1:
            raise AccountChangeRefused(f"{now.username} is the last admin: make another one first.")
        User.objects.filter(pk=now.pk).update(**wanted)
        detail = {"account": now.username, "before": before, "after": wanted}
        note_activity(by, verb, now, detail=detail, reason=reason)
    user.refresh_from_db()
    return True


def _admins() -> QuerySet[User]:
    """Return admins who can log in, by a password or at the provider that is configured now."""
    by_password = ~(Q(password="") | Q(password__startswith="!"))
    by_provider = Q(pk__in=SocialAccount.objects.filter(provider=settings.OIDC_ISSUER or None).values("user_id"))
    return people().filter(by_password | by_provider, level=User.Level.ADMIN, is_active=True)


# --- codes that grant access: drawn at random, shown once, and stored only as a digest -------------------------------

INVITATION, TOKEN = "sgi_", "sgt_"  # so that people and scanners of secrets recognise them
BYTES = 24  # 192 bits: nobody can guess one, so a plain digest is enough


def draw_code(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(BYTES)


def digest_code(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


# --- invitations: a link that works once makes an account, or gives somebody a new password --------------------------

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
    invitation = Invitation.objects.open().select_related("account", "made_by").filter(digest=digest_code(code)).first()
    if invitation is None or (invitation.account and not invitation.account.is_active):
        raise InvitationRefused
    return invitation


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


# --- tokens: programs read, or upload runs, as their owner -----------------------------------------------------------

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


# Django's own test client calls as "testserver"; no network resolves it.
LOOPBACK_NAMES = ("localhost", "testserver")


def strange_hosts() -> list[str]:
    """List the ALLOWED_HOSTS that may be more than this machine, such as a domain that anybody can resolve."""
    return [host for host in settings.ALLOWED_HOSTS if not is_loopback(host)]


def is_loopback(host: str) -> bool:
    """Does the host name this machine and nothing else?"""
    if host in LOOPBACK_NAMES or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@register(Tags.security)
def check_single_user(app_configs: object = None, **kwargs: object) -> list[Error]:
    """Return an error where SINGLE_USER is combined with a public name."""
    hosts = strange_hosts() if settings.SINGLE_USER else []
    if not hosts:
        return []
    hint = f"Unset SINGLE_USER and make accounts with `{MANAGE} add_user`, or name loopback hosts alone."
    message = f"SINGLE_USER gives every visitor every right, but ALLOWED_HOSTS also names {', '.join(hosts)}."
    return [Error(message, hint=hint, id="skillglass.E001")]

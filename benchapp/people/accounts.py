"""Create accounts, change their level, switch them off and on. The activity log keeps each act; nothing is deleted."""

from __future__ import annotations

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from benchapp.models import User
from benchapp.record.writing.human_acts import note_activity

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

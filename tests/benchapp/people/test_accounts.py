from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import connection

from benchapp.models import Activity, User
from benchapp.people.accounts import AccountChangeRefused, add_account, set_active, set_level
from inspector.web.access import local_user
from tests.worlds.factories import make_user

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _fast_hashing(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def make_admin(**fields: Any) -> User:
    return make_user(level=User.Level.ADMIN, password=PASSWORD, **fields)


# --- made -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_makes_an_account_with_a_level_and_keeps_who_did() -> None:
    admin = make_admin(username="ada")
    user = add_account("grace", PASSWORD, User.Level.REVIEWER, by=admin)
    assert (user.level, user.is_active, user.check_password(PASSWORD)) == ("reviewer", True, True)
    assert user.pseudonym.startswith("person-")
    activity = Activity.objects.get()
    assert (activity.actor, activity.verb) == (admin, "account.added")
    assert activity.detail == {"account": "grace", "level": "reviewer"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "password", "field"),
    [
        ("grace", "short", "password"),
        ("grace", "1234567890123", "password"),
        ("grace", "password123", "password"),
        ("a b", PASSWORD, "username"),
        ("", PASSWORD, "username"),
        ("Taken", PASSWORD, "username"),
        ("local", PASSWORD, "username"),
        ("x" * 200, PASSWORD, "username"),
    ],
)
def test_it_refuses_a_bad_name_or_a_weak_password(name: str, password: str, field: str) -> None:
    make_user(username="taken")
    with pytest.raises(ValidationError) as refused:
        add_account(name, password, User.Level.VIEWER, by=None)
    assert field in refused.value.message_dict
    assert User.objects.count() == 1
    assert not Activity.objects.exists()


@pytest.mark.django_db
def test_it_refuses_an_unknown_level() -> None:
    with pytest.raises(ValidationError):
        add_account("grace", PASSWORD, "owner", by=None)


# --- changed ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_change_of_level_is_kept_with_what_it_was() -> None:
    admin, user = make_admin(), make_user(username="grace")
    assert set_level(user, User.Level.OPERATOR, by=admin, reason="runs the nightly imports")
    assert not set_level(user, User.Level.OPERATOR, by=admin)
    activity = Activity.objects.get()
    assert (activity.verb, activity.reason) == ("account.level", "runs the nightly imports")
    assert activity.detail == {"account": "grace", "before": {"level": "viewer"}, "after": {"level": "operator"}}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        lambda user: set_level(user, User.Level.OPERATOR, by=user),
        lambda user: set_active(user, False, by=user),
    ],
)
def test_the_last_admin_stays(change: Callable[[User], bool]) -> None:
    local_user()  # an admin nobody can log in as does not count
    make_user(level=User.Level.ADMIN)  # nor does one without a password
    make_admin(is_active=False)  # nor one that is off
    admin = make_admin()
    with pytest.raises(AccountChangeRefused, match="last admin"):
        change(admin)
    admin.refresh_from_db()
    assert (admin.level, admin.is_active) == ("admin", True)
    make_admin()
    assert change(admin)


@pytest.mark.django_db
def test_the_local_user_stays_as_it_is() -> None:
    with pytest.raises(AccountChangeRefused, match="single-user"):
        set_level(local_user(), User.Level.VIEWER, by=None)


@pytest.mark.skipif(connection.vendor == "sqlite", reason="threads share one SQLite in memory; on a file they queue up")
@pytest.mark.django_db(transaction=True)
def test_two_admins_cannot_both_take_the_other_away() -> None:
    first, second = make_admin(), make_admin()
    start, outcomes = Barrier(2), []

    def remove(victim: User, by: User) -> None:
        start.wait()
        try:
            outcomes.append(set_active(victim, False, by=by))
        except AccountChangeRefused:
            outcomes.append(False)
        finally:
            connection.close()

    threads = [Thread(target=remove, args=pair) for pair in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, True]
    assert User.objects.filter(level=User.Level.ADMIN, is_active=True).count() == 1


# --- the command ------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_command_reads_the_password_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\nnot this\n")
    out = StringIO()
    call_command("add_user", "ada", level="admin", password_file=file, stdout=out)
    user = User.objects.get(username="ada")
    assert user.check_password(PASSWORD)
    assert user.level == "admin"
    assert PASSWORD not in out.getvalue()
    assert Activity.objects.get().actor_name == "command line"


@pytest.mark.django_db
def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("short\n")
    with pytest.raises(CommandError, match="password: This password is too short"):
        call_command("add_user", "ada", password_file=file)
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("add_user", "ada", password_file=tmp_path / "none")

"""People log in at a real provider of OpenID Connect, which runs on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from django.apps import apps
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError
from django.test import Client, RequestFactory
from django.urls import NoReverseMatch, reverse

from benchapp.deploy.environ import check
from benchapp.models import Activity, Invitation, User
from benchapp.people import single_sign_on
from benchapp.people.accounts import AccountChangeRefused, invite, set_level
from benchapp.people.single_sign_on import Identity, admit
from inspector.pages.people.sso_view import Provider
from tests.oidc_provider import OidcProvider, run_provider
from tests.queries import count_queries
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db

CALLBACK = "http://testserver/login/sso/callback/"
PROVIDER = {"authlib", "oidc_provider_mock", "werkzeug"}  # what the provider itself logs, in this process
PASSWORD = "correct horse battery"
ADA = {"preferred_username": "ada", "email": "ada@example.org", "email_verified": True}


@pytest.fixture(scope="module")
def running() -> Iterator[OidcProvider]:
    with run_provider(CALLBACK) as provider:
        yield provider


@pytest.fixture
def provider(running: OidcProvider, settings: Any) -> OidcProvider:
    settings.SINGLE_USER = False
    running.configure(settings)
    running.add_person("ada-1", **ADA)
    return running


def begin(client: Client, query: str = "") -> str:
    """The provider's address that the login button leads to."""
    response = client.get(f"/login/sso/{query}")
    assert response.status_code == 302
    return str(response.headers["Location"])


def come(client: Client, provider: OidcProvider, subject: str = "ada-1", query: str = "") -> Any:
    """From the login page to the provider and back; the answer to what the provider sends."""
    parts = urlsplit(provider.answer(begin(client, query), sub=subject))
    return client.get(f"{parts.path}?{parts.query}")


def problem(client: Client, response: Any) -> str:
    """What the login page says, where the answer leads."""
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/login/")
    page = client.get(response.headers["Location"])
    assert page.status_code == 200
    assert "Log in to Skillglass" in page.text
    return " ".join(str(message) for message in page.context["messages"])


def account_of(client: Client) -> tuple[str, str]:
    twin = client.get("/people/me.json").json()
    return twin["account"], twin["level"]


# --- coming in ----------------------------------------------------------------------------------------------------


def test_the_login_page_leads_to_the_provider_and_back(client: Client, provider: OidcProvider) -> None:
    page = client.get("/login/?next=/imports/%3Fpage%3D2")
    assert (
        '<a class="button primary" href="/login/sso/?next=/imports/%3Fpage%3D2">Log in with Example ID</a>' in page.text
    )
    asked = parse_qs(urlsplit(begin(client)).query)
    assert asked["redirect_uri"] == [CALLBACK]
    assert asked["response_type"] == ["code"]
    assert asked["code_challenge_method"] == ["S256"]
    assert set(asked["scope"][0].split()) == {"openid", "profile", "email"}
    assert come(client, provider, query="?next=/imports/%3Fpage%3D2").headers["Location"] == "/imports/?page=2"


def test_somebody_new_gets_an_account_once(client: Client, provider: OidcProvider) -> None:
    assert come(client, provider).headers["Location"] == "/"
    assert account_of(client) == ("ada", "viewer")
    assert "Welcome, ada. You are logged in as viewer." in client.get("/people/me/").text
    client.post("/logout/")
    assert client.get("/people/me/").status_code == 302
    come(Client(), provider)
    (user,) = User.objects.all()
    assert not user.has_usable_password()
    assert (user.email, user.last_login is not None) == ("", True)
    assert [(act.verb, act.actor_name, act.detail) for act in Activity.objects.all()] == [
        ("account.joined", "ada", {"account": "ada", "level": "viewer"})
    ]
    come(client, provider)
    assert "joined by single sign-on as the account" in client.get("/activity/").text


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"])
def test_it_never_leads_elsewhere(client: Client, provider: OidcProvider, target: str) -> None:
    assert come(client, provider, query=f"?next={target}").headers["Location"] == "/"


def test_who_is_logged_in_is_not_sent_to_the_provider(client: Client, provider: OidcProvider) -> None:
    client.force_login(make_user(username="grace"))
    assert begin(client, "?next=/people/me/") == "/people/me/"
    assert account_of(client)[0] == "grace"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "grace"}, "grace"),
        ({"preferred_username": "grace@example.org"}, "grace"),
        ({"email": "grace.h@example.org"}, "grace.h"),
        ({"preferred_username": "Grace Hopper <x>"}, "Grace-Hopper-x"),
        ({"preferred_username": "ADA"}, "ADA-3"),
        ({"preferred_username": "Local"}, "Local-2"),
        ({"preferred_username": "../.."}, "person"),
        ({"preferred_username": "g" * 300}, "g" * 140),
        ({}, "person"),
    ],
)
def test_the_name_is_free_and_fits(client: Client, provider: OidcProvider, claims: dict[str, str], name: str) -> None:
    make_user(username="ada")
    make_user(username="ada-2")
    provider.add_person("other", **claims)
    come(client, provider, "other")
    assert account_of(client)[0] == name


# --- staying out --------------------------------------------------------------------------------------------------


def test_nobody_comes_without_an_invitation_unless_a_level_is_set(
    client: Client, provider: OidcProvider, settings: Any
) -> None:
    settings.OIDC_LEVEL = "none"
    assert "You have no account here yet" in problem(client, come(client, provider, query="?next=/imports/"))
    assert 'value="/imports/"' in client.get("/login/?next=/imports/").text
    assert not User.objects.exists()
    assert not SocialAccount.objects.exists()


@pytest.mark.parametrize(
    ("claims", "may"),
    [
        ({"email": "ada@example.org", "email_verified": True}, True),
        ({"email": "ada@EXAMPLE.org", "email_verified": "true"}, True),
        ({"email": "ada@example.org", "email_verified": False}, False),
        ({"email": "ada@example.org"}, False),
        ({"email": "ada@elsewhere.example", "email_verified": True}, False),
        ({"email": "ada@example.org@elsewhere.example", "email_verified": True}, False),
        ({"email": "ada@sub.example.org", "email_verified": True}, False),
        ({}, False),
    ],
)
def test_domains_limit_who_may_join(
    client: Client, provider: OidcProvider, settings: Any, claims: dict[str, Any], may: bool
) -> None:
    settings.OIDC_DOMAINS = ["example.org"]
    provider.add_person("joins", **claims)
    response = come(client, provider, "joins")
    if not may:
        assert "not one that may join" in problem(client, response)
    assert User.objects.exists() == may


@pytest.mark.parametrize("is_verified", [True, False])
def test_a_name_or_address_leads_to_no_account_that_exists(
    client: Client, provider: OidcProvider, is_verified: bool
) -> None:
    own = make_user(username="ada", email="ada@example.org", password=PASSWORD, level=User.Level.ADMIN)
    provider.add_person("mallory", **{**ADA, "email_verified": is_verified})
    come(client, provider, "mallory")
    assert account_of(client) == ("ada-2", "viewer")
    own.refresh_from_db()
    assert own.check_password(PASSWORD)
    assert not SocialAccount.objects.filter(user=own).exists()


def test_an_account_that_is_off_stays_out(client: Client, provider: OidcProvider) -> None:
    come(client, provider)
    User.objects.update(is_active=False)
    assert client.get("/people/me/").status_code == 302
    assert "switched off" in problem(client, come(client, provider))
    assert client.get("/people/me/").status_code == 302


def test_the_local_user_is_never_reached(client: Client, provider: OidcProvider) -> None:
    """Not even by a row that nothing here writes."""
    local = make_user(username="local", level=User.Level.ADMIN)
    SocialAccount.objects.create(user=local, provider=provider.issuer, uid="ada-1")
    assert "switched off" in problem(client, come(client, provider))


def test_another_provider_with_the_same_ids_reaches_nobody(
    client: Client, provider: OidcProvider, settings: Any
) -> None:
    come(client, provider)
    SocialAccount.objects.update(provider="https://before.example.org")
    come(Client(), provider)
    assert set(User.objects.values_list("username", flat=True)) == {"ada", "ada-2"}


# --- invitations --------------------------------------------------------------------------------------------------


def show_code(client: Client, code: str) -> Any:
    return client.post("/join/", {"code": code, "sso": "1"}, follow=True)


def test_an_invitation_is_used_by_a_login_at_the_provider(
    client: Client, provider: OidcProvider, settings: Any
) -> None:
    settings.OIDC_LEVEL, settings.OIDC_DOMAINS = "none", ["elsewhere.example"]
    admin = make_user(username="root", level=User.Level.ADMIN)
    _, code = invite(by=admin, level=User.Level.OPERATOR, name="countess")
    assert ">Join with Example ID</button>" in client.get("/join/").text
    assert "Your invitation is valid. Log in with Example ID to use it." in show_code(client, code).text
    come(client, provider)
    assert account_of(client) == ("countess", "operator")
    assert "This code is not valid" in show_code(Client(), code).text
    assert not Invitation.objects.open().exists()


def test_a_link_for_an_account_links_it(client: Client, provider: OidcProvider) -> None:
    """Also for somebody who has come in before, and was given another account."""
    come(client, provider)
    come(Client(), provider, "somebody-else")
    grace = make_user(username="grace", password=PASSWORD, level=User.Level.ADMIN)
    SocialAccount.objects.create(user=grace, provider=provider.issuer, uid="her last one")
    _, code = invite(by=grace, level="", account=grace)
    visitor = Client()
    assert ">Log in with Example ID</button>" in visitor.get("/join/?account=grace").text
    show_code(visitor, code)
    come(visitor, provider)
    assert account_of(visitor) == ("grace", "admin")
    assert "You log in with Example ID, or with a password." in visitor.get("/people/me/").text
    assert SocialAccount.objects.get(user=grace).uid == "ada-1"
    assert SocialAccount.objects.count() == 2
    assert Activity.objects.filter(verb="account.linked", actor=grace).count() == 1


def test_a_wrong_code_is_refused_before_the_provider_is_asked(client: Client, provider: OidcProvider) -> None:
    page = show_code(client, "sgi_guess")
    assert page.status_code == 422
    assert "This code is not valid" in page.text
    assert "Paste the code" in show_code(client, "").text


def test_an_invitation_that_was_withdrawn_on_the_way_is_refused(client: Client, provider: OidcProvider) -> None:
    _, code = invite(by=make_user(level=User.Level.ADMIN), level="admin")
    show_code(client, code)
    Invitation.objects.all().delete()
    assert "This invitation no longer works" in problem(client, come(client, provider))
    assert not User.objects.filter(username="ada").exists()


def test_the_second_use_of_an_invitation_makes_nobody(provider: OidcProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    invitation, _ = invite(by=make_user(level=User.Level.ADMIN), level="admin")
    monkeypatch.setattr(
        single_sign_on, "use_up", lambda invitation: (_ for _ in ()).throw(single_sign_on.InvitationRefused)
    )
    with pytest.raises(single_sign_on.LoginRefused):
        admit(Identity("2", "bob", "", False), invitation.public_id)
    assert not User.objects.filter(username="bob").exists()


def test_two_first_logins_at_the_same_moment_make_one_account(
    provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail_once(identity: Identity, invitation: object) -> tuple[User, bool]:
        calls.append(identity)
        if len(calls) == 1:
            raise IntegrityError
        return real(identity, None)

    real = single_sign_on._admit
    monkeypatch.setattr(single_sign_on, "_admit", fail_once)
    assert admit(Identity("2", "bob", "", False))[0].username == "bob"


# --- what can go wrong --------------------------------------------------------------------------------------------


def test_a_login_that_the_provider_denies(client: Client, provider: OidcProvider) -> None:
    asked = begin(client, "?next=/imports/")
    denied = urlsplit(provider.answer(asked, action="deny"))
    state = parse_qs(urlsplit(asked).query)["state"][0]  # this provider forgets to send it back
    response = client.get(f"{denied.path}?{denied.query}&state={state}")
    assert response.headers["Location"] == "/login/?next=%2Fimports%2F"
    assert "Example ID reports that the login was cancelled or denied" in problem(client, response)


@pytest.mark.parametrize("query", ["", "?code=x", "?code=x&state=forged", "?error=access_denied"])
def test_a_login_that_did_not_begin_in_this_browser(client: Client, provider: OidcProvider, query: str) -> None:
    begin(client)
    assert "began in another browser" in problem(client, client.get(f"/login/sso/callback/{query}"))


def test_an_answer_for_another_browser_is_worth_nothing(client: Client, provider: OidcProvider) -> None:
    """Nobody is logged in as somebody else by a link; and the link works once."""
    parts = urlsplit(provider.answer(begin(client), sub="ada-1"))
    victim = Client()
    assert "began in another browser" in problem(victim, victim.get(f"{parts.path}?{parts.query}"))
    assert client.get(f"{parts.path}?{parts.query}").headers["Location"] == "/"
    client.post("/logout/")
    assert "began in another browser" in problem(client, client.get(f"{parts.path}?{parts.query}"))


def test_a_code_that_the_provider_does_not_know(client: Client, provider: OidcProvider) -> None:
    state = parse_qs(urlsplit(begin(client)).query)["state"][0]
    response = client.get(f"/login/sso/callback/?code=guess&state={state}")
    assert "its answer could not be used" in problem(client, response)


def test_a_wrong_secret(
    client: Client, provider: OidcProvider, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.OIDC_CLIENT_SECRET = "not-the-secret"
    assert "its answer could not be used" in problem(client, come(client, provider))
    assert "login by single sign-on failed: OAuth2Error" in caplog.text
    assert "not-the-secret" not in caplog.text


def test_a_provider_that_is_offline(client: Client, provider: OidcProvider, settings: Any) -> None:
    settings.OIDC_ISSUER = "http://localhost:1"
    assert "Example ID does not answer" in problem(client, client.get("/login/sso/"))


def test_a_provider_that_goes_offline_on_the_way(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    with run_provider(CALLBACK) as provider:
        provider.configure(settings)
        parts = urlsplit(provider.answer(begin(client), sub="ada-1"))
    assert "Example ID does not answer" in problem(client, client.get(f"{parts.path}?{parts.query}"))


def test_an_address_where_no_provider_is(client: Client, provider: OidcProvider, settings: Any) -> None:
    settings.OIDC_ISSUER = f"{provider.issuer}/elsewhere"
    assert "its answer could not be used" in problem(client, client.get("/login/sso/"))


@pytest.mark.parametrize(
    "data",
    [
        {"id_token": {"sub": "1"}, "userinfo": {"sub": "2"}},
        {"userinfo": {"sub": "2"}},
        {"id_token": {"sub": "1"}, "userinfo": []},
    ],
)
def test_an_answer_about_two_people_or_nobody_is_unusable(provider: OidcProvider, data: dict[str, Any]) -> None:
    with pytest.raises((OAuth2Error, KeyError, TypeError)):
        Provider.build(RequestFactory().get("/")).extract_uid(data)


# --- what is kept -------------------------------------------------------------------------------------------------


def test_tokens_and_the_secret_are_kept_and_shown_nowhere(
    client: Client, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers: list[dict[str, Any]] = []
    fetch = OAuth2Client.get_access_token

    def record(self: OAuth2Client, *args: Any, **kwargs: Any) -> dict[str, Any]:
        answers.append(fetch(self, *args, **kwargs))
        return answers[-1]

    monkeypatch.setattr(OAuth2Client, "get_access_token", record)
    pages = [client.get("/login/").text]
    come(client, provider)
    come(Client(), provider)  # also where the account is known
    (user,) = User.objects.all()
    User.objects.update(level=User.Level.ADMIN)
    paths = ("/", "/people/", "/people.json", "/people/me/", "/people/me.json", "/activity/", "/activity.json")
    pages += [client.get(path).text for path in paths]
    rows = [
        str(vars(row)) for model in apps.get_models() if model._meta.managed for row in model._default_manager.all()
    ]
    sessions = [str(session.get_decoded()) for session in Session.objects.all()]
    secrets = [provider.client_secret]
    secrets += [answer[name] for answer in answers for name in ("access_token", "id_token", "refresh_token")]
    assert len(secrets) == 7
    logs = [str(vars(record)) for record in caplog.records if record.name.partition(".")[0] not in PROVIDER]
    assert any("GET /login/sso/callback/" in line for line in logs)
    assert not [text for text in (*pages, *rows, *sessions, *logs) for secret in secrets if secret in text]
    assert "ada@example.org" not in "".join(rows)
    assert not SocialToken.objects.exists()
    assert [account.extra_data for account in SocialAccount.objects.all()] == [{}]


def test_somebody_without_a_password_is_not_asked_for_one(client: Client, provider: OidcProvider) -> None:
    come(client, provider)
    page = client.get("/people/me/").text
    assert "You log in with Example ID." in page
    assert "/password/" not in page
    assert client.get("/password/").headers["Location"] == "/people/me/"


def test_an_admin_who_logs_in_at_the_provider_counts_as_one(
    client: Client, provider: OidcProvider, settings: Any
) -> None:
    """While the provider is configured: without it nobody else could log in as an admin."""
    first = make_user(username="root", password=PASSWORD, level=User.Level.ADMIN)
    come(client, provider)
    ada = User.objects.get(username="ada")
    set_level(ada, User.Level.ADMIN, by=first)
    settings.OIDC_ISSUER = ""
    with pytest.raises(AccountChangeRefused, match="last admin"):
        set_level(first, User.Level.VIEWER, by=ada)
    settings.OIDC_ISSUER = provider.issuer
    assert set_level(first, User.Level.VIEWER, by=ada)
    with pytest.raises(AccountChangeRefused, match="last admin"):
        set_level(ada, User.Level.VIEWER, by=ada)


# --- where it is offered ------------------------------------------------------------------------------------------


def test_single_user_mode_offers_it_too(client: Client, provider: OidcProvider, settings: Any) -> None:
    settings.SINGLE_USER = True
    assert account_of(client)[0] == "local"
    assert "Log in with Example ID" in client.get("/login/").text
    come(client, provider)
    assert account_of(client) == ("ada", "viewer")
    client.post("/logout/")
    assert account_of(client)[0] == "local"


@pytest.mark.parametrize("is_single", [True, False])
def test_nothing_answers_where_no_provider_is_configured(client: Client, settings: Any, is_single: bool) -> None:
    settings.SINGLE_USER = is_single
    assert settings.OIDC_ISSUER == ""
    for path in ("/login/sso/", "/login/sso/callback/", "/login/sso/callback/?code=x&state=y"):
        assert client.get(path).status_code == 404
    for path in ("/login/", "/join/"):
        assert "/login/sso/" not in client.get(path).text
        assert 'name="sso"' not in client.get(path).text
    assert client.post("/join/", {"code": "x", "sso": "1"}).status_code == 422


@pytest.mark.parametrize(
    "path", ["/accounts/", "/accounts/login/", "/accounts/signup/", "/oidc/x/login/", "/login/cancelled/"]
)
def test_allauth_has_no_address_of_its_own(client: Client, provider: OidcProvider, path: str) -> None:
    assert client.get(path).status_code == 404
    for name in ("account_login", "account_signup", "socialaccount_connections", "openid_connect_login"):
        with pytest.raises(NoReverseMatch):
            reverse(name)


@pytest.mark.parametrize("path", ["/login/sso/", "/login/sso/callback/"])
def test_only_get_answers(client: Client, provider: OidcProvider, path: str) -> None:
    assert client.post(path).status_code == 405


def test_a_page_asks_no_more_of_the_database(client: Client, provider: OidcProvider, settings: Any) -> None:
    come(client, provider)
    client.get("/imports/")
    counts = [count_queries(client, "/imports/")]
    settings.OIDC_ISSUER = ""
    counts.append(count_queries(client, "/imports/"))
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if "allauth" not in each]
    client.handler.load_middleware()
    counts.append(count_queries(client, "/imports/"))
    assert len(set(counts)) == 1, counts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("https://id.example", "client", "", "none"), "OIDC_CLIENT_SECRET not set"),
        (("", "", "s3cret-value", "none"), "OIDC_ISSUER and OIDC_CLIENT_ID not set"),
        (("id.example", "client", "s3cret-value", "none"), "begins with https://"),
        (("http://id.example", "client", "s3cret-value", "none"), "begins with https://"),
        (("https://", "client", "s3cret-value", "none"), "begins with https://"),
        ((f"https://id.example/{'x' * 200}", "client", "s3cret-value", "none"), "at most 200 characters"),
        (("https://id.example", "client", "s3cret-value", "admin"), "OIDC_LEVEL='admin': expected one of none, viewer"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(given: tuple[str, str, str, str], said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said) as refused:
        check(*given)
    assert "s3cret-value" not in str(refused.value)


@pytest.mark.parametrize("issuer", ["https://id.example/realms/lab", "http://localhost:8080", "http://[::1]:8080"])
def test_settings_that_work(issuer: str) -> None:
    check(issuer, "client", "secret", "viewer")
    check("", "", "", "none")

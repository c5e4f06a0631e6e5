"""`/login/sso/`: logging in at a provider of OpenID Connect. allauth speaks the protocol; who may come in is decided in
`benchapp/people/single_sign_on.py`. None of allauth's own addresses, pages, forms and mails is used.

A link leads to the provider, not a form: the content policy lets no form lead elsewhere, and browsers apply it to
redirects as well. So another site can make a browser begin a login, but only as the person who uses that browser, and
not for somebody who is logged in.
"""

from __future__ import annotations

import logging
from uuid import UUID

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base import AuthError, AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth import login as log_in
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from requests import RequestException

from benchapp.people.single_sign_on import Identity, LoginRefused, admit, provider_name
from inspector.pages.people.login_view import INVITATION, find_start
from inspector.web.access import is_local, open_to_all

log = logging.getLogger(__name__)

# What an offline or wrong provider leads to: no connection, no JSON, fields that are missing or of another type.
UNUSABLE = (RequestException, OAuth2Error, LookupError, TypeError, ValueError, AttributeError)
STALE = "This login took too long, or began in another browser. Try again."
CANCELLED = "You were not logged in: {name} reports that the login was cancelled or denied."
OFFLINE = "{name} does not answer. Try again later, or ask an admin."
UNREADABLE = "{name} answered, but its answer could not be used. Ask an admin to check the settings."


@open_to_all
@never_cache
@require_GET
def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider."""
    if not provider_name():
        raise Http404
    target = request.GET.get(REDIRECT_FIELD_NAME, "")
    if not url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure()):
        target = ""
    if request.user.is_authenticated and not is_local(request.user):
        return redirect(target or settings.LOGIN_REDIRECT_URL)
    invitation = request.session.pop(INVITATION, None)
    try:
        answer: HttpResponse = Provider.build(request).redirect(
            request, AuthProcess.LOGIN, next_url=target, data={"invitation": invitation}
        )
    except UNUSABLE as error:
        return _refuse(request, _describe(error), target)
    return answer


@open_to_all
@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Log in the person that the provider sends back."""
    if not provider_name():
        raise Http404
    try:
        view = OAuth2CallbackView.adapter_view(Connection(request, settings.OIDC_ISSUER))
        answer: HttpResponse = view(request)
    except UNUSABLE as error:
        return _refuse(request, _describe(error))
    return answer


class Connection(OpenIDConnectOAuth2Adapter):
    """The protocol, with a callback address of ours."""

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return request.build_absolute_uri(reverse("sso-callback"))


class Provider(OpenIDConnectProvider):
    """The provider that the settings name. The record keeps its id of a person, and nothing else that it says."""

    oauth2_adapter_class = Connection

    @classmethod
    def build(cls, request: HttpRequest) -> Provider:
        app = SocialApp(
            provider=cls.id,
            provider_id=settings.OIDC_ISSUER,
            name=settings.OIDC_NAME,
            client_id=settings.OIDC_CLIENT_ID,
            secret=settings.OIDC_CLIENT_SECRET,
            settings={"server_url": settings.OIDC_ISSUER, "oauth_pkce_enabled": True},
        )
        return cls(request, app=app)

    def extract_uid(self, data: dict[str, dict[str, object]]) -> str:
        """Return the id in the signed part of the answer; both parts have to be about the same person."""
        signed, claims = data["id_token"], {**data["id_token"], **data["userinfo"]}
        if signed["sub"] != claims["sub"]:
            raise OAuth2Error("the user info is about somebody else")
        self.identity = Identity(
            subject=str(signed["sub"]),
            name=str(claims.get("preferred_username") or ""),
            email=str(claims.get("email") or ""),
            is_verified=claims.get("email_verified") in {True, "true"},
        )
        return self.identity.subject

    def extract_extra_data(self, data: dict[str, object]) -> dict[str, object]:
        return {}


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """What allauth asks the project. It never gets beyond `pre_social_login`."""

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> Provider:
        return Provider.build(request)

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        state = sociallogin.state
        try:
            invitation = state.get("data", {}).get("invitation")
            user, is_new = admit(sociallogin.provider.identity, UUID(invitation) if invitation else None)
        except LoginRefused as refusal:
            log.warning("login by single sign-on refused: %s", refusal)
            raise ImmediateHttpResponse(_refuse(request, str(refusal), state.get("next", ""))) from refusal
        log_in(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
        if is_new:
            messages.success(request, f"Welcome, {user.username}. You are logged in as {user.level}.")
        raise ImmediateHttpResponse(redirect(find_start(user, state.get("next") or "")))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Provider,
        error: str = AuthError.UNKNOWN,
        exception: Exception | None = None,
        extra_context: dict[str, dict[str, str]] | None = None,
    ) -> None:
        state = (extra_context or {}).get("state")
        if exception:
            problem = _describe(exception)
        else:
            problem = CANCELLED if state is not None else STALE
        raise ImmediateHttpResponse(_refuse(request, problem, (state or {}).get("next", "")))


def _describe(error: Exception) -> str:
    """Log the kind of an error, never its text, which may quote a token. Return what the page says."""
    log.warning("login by single sign-on failed: %s", type(error).__name__)
    response = getattr(error, "response", None)
    return OFFLINE if isinstance(error, RequestException) and response is None else UNREADABLE


def _refuse(request: HttpRequest, problem: str, target: str = "") -> HttpResponse:
    """Redirect to the login page, which gives the reason. The address with the provider's code is left behind."""
    messages.error(request, problem.format(name=settings.OIDC_NAME))
    query = f"?{urlencode({REDIRECT_FIELD_NAME: target})}" if target else ""
    return redirect(f"{reverse('login')}{query}")

"""Who may do what: every visitor is somebody, and every view that changes something names the level it needs.

A visitor logs in. In single-user mode (`SINGLE_USER`, what `manage.py demo` uses) anyone at this machine who has not
logged in is the local user with every right. A request from elsewhere, or one that a proxy passed on, has to log in,
because then "this machine" would mean everybody; while there is no account, it is refused. A program sends a token
instead of a session.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address
from typing import TypeVar

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseForbidden, JsonResponse
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject

from benchapp.models import ApiToken, User
from benchapp.people.accounts import LOCAL_USER, find_token, people, strange_hosts
from benchapp.record import log_context

Answer = TypeVar("Answer", bound=HttpResponseBase)
FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP")


def needs(level: str, *, to_change: bool = False) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Let only people of this level and above call the view; answer others 403 with the level they need. `to_change`:
    reading (GET, HEAD) needs no level, everything else does."""

    def wrap(view: Callable[..., Answer]) -> Callable[..., Answer]:
        @wraps(view)
        def guarded(request: HttpRequest, *args: object, **kwargs: object) -> Answer:
            is_open = to_change and request.method in {"GET", "HEAD"}
            if not is_open and not (user := user_of(request)).may(level):
                raise PermissionDenied(
                    f"Only {level}s can do this. Your level is {user.level}; an admin can change it."
                )
            return view(request, *args, **kwargs)

        return guarded

    return wrap


def user_of(request: HttpRequest) -> User:
    """Return the person who asks. The middleware below lets nobody else reach a view that is not open to all."""
    if isinstance(request.user, User):
        return request.user
    raise PermissionDenied("Log in first.")


def takes_runs(view: Callable[..., Answer]) -> Callable[..., Answer]:
    """Let programs with a token of scope "log" send something to this view."""
    view.takes_runs = True  # type: ignore[attr-defined]
    return view


def open_to_all(view: Callable[..., Answer]) -> Callable[..., Answer]:
    """Let people who have not logged in use this view. Only a few views need it."""
    view.open_to_all = True  # type: ignore[attr-defined]
    return view


class AccessMiddleware:
    """Refuse visitors who are nobody. Refuse to start in single-user mode under a name that others can reach."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        if settings.SINGLE_USER and (hosts := strange_hosts()):
            raise ImproperlyConfigured(
                f"SINGLE_USER with ALLOWED_HOSTS {', '.join(hosts)}: expected loopback names only"
            )

    def __call__(self, request: HttpRequest) -> HttpResponse:
        kind, _, code = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and (code := code.strip()):
            token = find_token(code)
            if token is None:
                return JsonResponse({"error": "This token does not work here: it is unknown or revoked."}, status=401)
            # No browser adds this header by itself, so nobody can be tricked into sending it.
            vars(request).update(user=token.owner, token=token, _dont_enforce_csrf_checks=True)
        elif settings.SINGLE_USER:
            if _from_this_machine(request):
                of_session = request.user
                request.user = SimpleLazyObject(  # type: ignore[assignment]
                    lambda: of_session if of_session.is_authenticated else local_user()
                )
            elif not people().exists():
                return HttpResponseForbidden(
                    "Single-user mode answers this machine only, until somebody is invited.", "text/plain"
                )
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: object) -> HttpResponse | None:
        if getattr(view, "open_to_all", False):  # first: some of these answer without a database
            return None
        if request.user.is_authenticated:
            log_context.add(user=request.user.pk)
            return _refuse_beyond_scope(request, view)
        if not wants_page(request):
            return JsonResponse({"error": "Log in first.", "login": settings.LOGIN_URL}, status=401)
        if request.method in {"GET", "HEAD"}:
            return redirect_to_login(request.get_full_path())
        return render(request, "people/logged_out.html", status=401)


def _refuse_beyond_scope(request: HttpRequest, view: object) -> HttpResponse | None:
    token: ApiToken | None = getattr(request, "token", None)
    if token is None or request.method in {"GET", "HEAD"}:
        return None
    if token.scope == ApiToken.Scope.LOG and getattr(view, "takes_runs", False):
        return None
    may = "hands in runs and changes nothing else" if token.scope == ApiToken.Scope.LOG else "only reads"
    return JsonResponse({"error": f"This token {may}."}, status=403)


def deny(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403 to a person without the level, or before a page that is closed to them for now: a page, or JSON for
    programs."""
    message = str(exception) or "You may not do this."
    if not wants_page(request):
        return JsonResponse({"error": message}, status=403)
    return render(request, "403.html", {"message": message, "asked": exception}, status=403)


def local_user() -> User:
    """Return the one person of a single-user installation; create them at first use."""
    user, _ = User.objects.get_or_create(username=LOCAL_USER, defaults={"level": User.Level.ADMIN})
    return user


def is_local(user: object) -> bool:
    """Is this the person at the machine, who has not logged in?"""
    return isinstance(user, User) and user.username == LOCAL_USER


def _from_this_machine(request: HttpRequest) -> bool:
    if any(request.META.get(name) for name in FORWARDED):
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:  # a unix socket gives no address, so there is a proxy before it
        return False


def wants_page(request: HttpRequest) -> bool:
    """Does somebody read the answer in a browser? The twins and what scripts fetch get JSON."""
    return "text/html" in request.headers.get("Accept", "text/html") and not request.path.endswith(".json")

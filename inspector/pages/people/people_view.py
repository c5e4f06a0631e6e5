"""`/people/`: accounts and their levels, for admins; `/people/me/`: the reader's own account."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Case, Count, Max, Q, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.cache import never_cache

from benchapp.models import ApiToken, Invitation, Review, User
from benchapp.people.accounts import (
    LOCAL_USER,
    AccountChangeRefused,
    invite,
    listed_people,
    make_token,
    people,
    revoke_token,
    set_active,
    set_level,
    withdraw,
)
from benchapp.people.single_sign_on import is_linked, provider_name
from benchapp.record.json_shape import JsonShape
from inspector.web.access import needs, user_of
from inspector.web.responses import attach, paginate, render_page

PER_PAGE = 50
MEANINGS = {
    User.Level.VIEWER: "reads everything except what a blind review hides",
    User.Level.REVIEWER: "codes items, comments, saves comparisons",
    User.Level.OPERATOR: "imports, launches and cancels runs",
    User.Level.ADMIN: "manages accounts and other people's queues",
}
SCOPES = {
    ApiToken.Scope.READ: "reads what you may read",
    ApiToken.Scope.LOG: "also hands in runs",
}


class InviteForm(forms.Form):
    """`account`: of somebody who gets a new password; the other two are asked for where it is empty."""

    account = forms.CharField(max_length=150, required=False)
    name = forms.CharField(max_length=150, required=False)
    level = forms.ChoiceField(choices=User.Level.choices, initial=User.Level.REVIEWER, required=False)


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, error_messages={"required": "Say what the token is for."})
    scope = forms.ChoiceField(choices=ApiToken.Scope.choices)


class ChangeAccountForm(forms.Form):
    """One of the two is asked for at a time."""

    level = forms.ChoiceField(choices=User.Level.choices, required=False)
    active = forms.TypedChoiceField(choices=[("0", "off"), ("1", "on")], coerce=int, required=False, empty_value=None)
    reason = forms.CharField(max_length=1000, required=False)


@needs(User.Level.ADMIN)
def accounts(request: HttpRequest, *, as_json: bool = False, extra: Mapping[str, object] | None = None) -> HttpResponse:
    """List the accounts. `extra`: of the page that shows the link of a new invitation."""
    is_local = Case(When(username=LOCAL_USER, then=0), default=1)
    rows = listed_people().annotate(last_act=Max("activities__at")).order_by(is_local, "-is_active", "username")
    page = paginate(request, rows, per_page=PER_PAGE)
    data = {"people": PERSON.read_all(page)}
    active = people().filter(is_active=True).values_list("level").annotate(count=Count("pk")).order_by()
    counts = dict(active)
    context = {
        "active": sum(counts.values()),
        "local": LOCAL_USER,
        "active_levels": [(level.value, counts[level]) for level in reversed(User.Level) if level in counts],
        "invitations": Invitation.objects.open().select_related("account"),
        "tokens": ApiToken.objects.filter(revoked_at=None)
        .select_related("owner")
        .order_by("owner__username", "made_at"),
        "levels": User.Level.values,
        "invited_level": User.Level.REVIEWER,
        "meanings": list(MEANINGS.items()),
        **(extra or {}),
    }
    return render_page(request, "people/people.html", data=data, context=context, page=page, as_json=as_json)


@never_cache
@needs(User.Level.ADMIN)
def account_invite(request: HttpRequest) -> HttpResponse:
    """Show the link of a new invitation, this once; as a file with `form=file`, for who is not on this network. The
    address stays in the browser, so reading it leads back."""
    if request.method != "POST":
        return redirect("people")
    form = InviteForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Nobody was invited: no such level.")
        return redirect("people")
    given, account = form.cleaned_data, None
    if given["account"]:
        account = get_object_or_404(people(), username=given["account"], is_active=True)
    level = given["level"] or User.Level.REVIEWER
    invitation, code = invite(by=user_of(request), level=level, name=given["name"], account=account)
    about = {"account": account.username} if account else {"name": invitation.name, "as": invitation.level}
    query = urlencode({name: value for name, value in about.items() if value})
    link = f"{request.build_absolute_uri(reverse('join'))}?{query}#{code}"
    if request.POST.get("form") == "file":
        context = {
            "invitation": invitation,
            "link": link,
            "code": code,
            "page": request.build_absolute_uri(reverse("join")),
        }
        text = render_to_string("people/invitation.txt", context)
        return HttpResponse(text, "text/plain; charset=utf-8", headers=attach("skillglass-invitation.txt"))
    return accounts(request, extra={"invited": invitation, "link": link})


@needs(User.Level.ADMIN)
def invitation_withdraw(request: HttpRequest, public_id: UUID) -> HttpResponse:
    withdraw(get_object_or_404(Invitation, public_id=public_id), by=user_of(request))
    return redirect("people")


@needs(User.Level.ADMIN)
def account_change(request: HttpRequest, name: str) -> HttpResponse:
    """Change a level, or switch an account on or off; the page shows a refusal."""
    user = get_object_or_404(people(), username=name)
    form = ChangeAccountForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Nothing was changed: no such level.")
        return redirect("people")
    given, by = form.cleaned_data, user_of(request)
    try:
        if given["level"] and set_level(user, given["level"], by=by, reason=given["reason"]):
            messages.success(request, f"{user.username} is {user.level} from now on.")
        if given["active"] is not None and set_active(user, bool(given["active"]), by=by, reason=given["reason"]):
            messages.success(request, f"{user.username} is switched {'on' if user.is_active else 'off'}.")
    except AccountChangeRefused as refusal:
        messages.error(request, str(refusal))
    return redirect("people")


def me(
    request: HttpRequest, *, as_json: bool = False, extra: Mapping[str, object] | None = None, status: int = 200
) -> HttpResponse:
    """Show the reader's own account: level, pseudonym, reviews, tokens. Open to everybody who is logged in. `extra`: of
    the page that shows a new token, or why there is none."""
    user = user_of(request)
    done = user.reviews.aggregate(
        submitted=Count("pk", filter=Q(state=Review.State.SUBMITTED)),
        drafts=Count("pk", filter=Q(state=Review.State.DRAFT)),
    )
    tokens = list(user.tokens.filter(revoked_at=None))
    data = {
        "account": user.username,
        "level": user.level,
        "pseudonym": user.pseudonym,
        "reviews_submitted": done["submitted"],
        "drafts": done["drafts"],
        "tokens": TOKEN.read_all(tokens),
    }
    context = {
        "rights": [(meaning, user.may(level)) for level, meaning in MEANINGS.items()],
        "own_tokens": tokens,
        "scopes": _list_scopes(user),
        "sso": provider_name() if is_linked(user) else "",
        **(extra or {}),
    }
    return render_page(request, "people/me.html", data=data, context=context, as_json=as_json, status=status)


@never_cache
def token_make(request: HttpRequest) -> HttpResponse:
    """Make a token for the reader and show it, this once."""
    if request.method != "POST":
        return redirect("account")
    form, user = TokenForm(request.POST), user_of(request)
    if not form.is_valid() or form.cleaned_data["scope"] not in _list_scopes(user):
        return me(request, extra={"token_form": form}, status=422)
    made, code = make_token(user, form.cleaned_data["name"], form.cleaned_data["scope"])
    return me(request, extra={"made": made, "code": code})


def token_revoke(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Revoke a token: one's own, or anybody's for an admin."""
    user = user_of(request)
    tokens = ApiToken.objects.all() if user.may(User.Level.ADMIN) else user.tokens.all()
    token = get_object_or_404(tokens, public_id=public_id)
    revoke_token(token, by=user)
    return redirect("account" if token.owner_id == user.pk else "people")


def _list_scopes(user: User) -> dict[ApiToken.Scope, str]:
    """Return scope -> what a token with it may do. Only operators may send runs."""
    may_log = user.may(User.Level.OPERATOR)
    return {scope: meaning for scope, meaning in SCOPES.items() if may_log or scope != ApiToken.Scope.LOG}


TOKEN = JsonShape("id=public_id name scope hint made_at last_used_at")
# A person without the pseudonym: only its bearer may say who is behind one in an export.
PERSON = JsonShape("account=username level active=is_active joined_at=date_joined last_login last_act")

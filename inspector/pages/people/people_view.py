"""`/people/`: accounts and their levels, for admins; `/people/me/`: what the record calls whoever asks."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Case, Count, Max, Q, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST, require_safe

from benchapp.models import Review, User
from benchapp.people.accounts import (
    LOCAL_USER,
    AccountChangeRefused,
    add_account,
    listed_people,
    people,
    set_active,
    set_level,
)
from benchapp.record.json_shape import JsonShape
from inspector.web.access import needs, user_of
from inspector.web.responses import next_url, paginate, render_page

PER_PAGE = 50
MEANINGS = {
    User.Level.VIEWER: "reads all that no blind review hides",
    User.Level.REVIEWER: "also codes items, comments, saves comparisons",
    User.Level.OPERATOR: "also imports, launches and cancels runs",
    User.Level.ADMIN: "also manages accounts and other people's queues",
}


class AddAccountForm(forms.Form):
    username = forms.CharField(max_length=150, error_messages={"required": "Give it a name."})
    level = forms.ChoiceField(choices=User.Level.choices, initial=User.Level.REVIEWER)
    password = forms.CharField(
        max_length=1000, strip=False, error_messages={"required": "Give it a first password. Its owner changes it."}
    )


class ChangeAccountForm(forms.Form):
    """One of the two is asked for at a time."""

    level = forms.ChoiceField(choices=User.Level.choices, required=False)
    active = forms.TypedChoiceField(choices=[("0", "off"), ("1", "on")], coerce=int, required=False, empty_value=None)
    reason = forms.CharField(max_length=1000, required=False)


@require_safe
@needs(User.Level.ADMIN)
def accounts(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    return _page(request, AddAccountForm(), as_json=as_json)


@require_POST
@needs(User.Level.ADMIN)
def account_add(request: HttpRequest) -> HttpResponse:
    form = AddAccountForm(request.POST)
    if form.is_valid():
        given = form.cleaned_data
        try:
            made = add_account(given["username"], given["password"], given["level"], by=user_of(request))
        except ValidationError as error:
            form.add_error(None, error) if not hasattr(error, "error_dict") else _put_errors(form, error)
        else:
            later = " once Skillglass runs with SINGLE_USER=0" if settings.SINGLE_USER else ""
            messages.success(request, f"{made.username} can log in as {made.level}{later}.")
            return redirect("people")
    return _page(request, form, as_json=False, status=422)


@require_POST
@needs(User.Level.ADMIN)
def account_change(request: HttpRequest, name: str) -> HttpResponse:
    """Another level, or on and off; the refusal is said on the page."""
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


@require_safe
def me(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    """One's own account: level, pseudonym, reviews. Open to everybody who is logged in."""
    user = user_of(request)
    done = user.reviews.aggregate(
        submitted=Count("pk", filter=Q(state=Review.State.SUBMITTED)),
        drafts=Count("pk", filter=Q(state=Review.State.DRAFT)),
    )
    data = {
        "account": user.username,
        "level": user.level,
        "pseudonym": user.pseudonym,
        "reviews_submitted": done["submitted"],
        "drafts": done["drafts"],
        "next": None,
    }
    levels = [(level, MEANINGS[level], user.may(level)) for level in User.Level]
    context = {"levels": levels}
    return render_page(request, "people/me.html", data=data, context=context, as_json=as_json)


def _put_errors(form: AddAccountForm, error: ValidationError) -> None:
    for field, problems in error.message_dict.items():
        form.add_error(field if field in form.fields else None, problems)


def _page(request: HttpRequest, form: AddAccountForm, *, as_json: bool, status: int = 200) -> HttpResponse:
    is_local = Case(When(username=LOCAL_USER, then=0), default=1)
    rows = listed_people().annotate(last_act=Max("activities__at")).order_by(is_local, "-is_active", "username")
    page = paginate(request, rows, per_page=PER_PAGE)
    data = {"people": PERSON.read_all(page), "next": next_url(request, page)}
    active = people().filter(is_active=True).values_list("level").annotate(count=Count("pk")).order_by()
    counts = dict(active)
    context = {
        "page": page,
        "active": sum(counts.values()),
        "has_admin": User.Level.ADMIN in counts,
        "local": LOCAL_USER,
        "active_levels": [(level.value, counts[level]) for level in reversed(User.Level) if level in counts],
        "form": form,
        "levels": list(User.Level.choices),
        "meanings": list(MEANINGS.items()),
    }
    return render_page(request, "people/people.html", data=data, context=context, as_json=as_json, status=status)


PERSON = JsonShape(
    *("account=username", "level", "active=is_active", "joined_at=date_joined", "last_login", "last_act"),
)
"""Without the pseudonym: who stands behind one in an export is for its bearer to tell."""

"""Coming in, going out, and one's own password: Django's views in our frame, with a brake on guessing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login as log_in
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.core.exceptions import ValidationError
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.views.decorators.cache import never_cache
from django.views.generic import FormView

from benchapp.models import Queue, User
from benchapp.people.accounts import InvitationRefused, accept, find_invitation
from benchapp.people.login_attempts import LoginAttempt, client_address
from benchapp.people.single_sign_on import provider_name
from benchapp.review.queues.review_progress import progress_of
from inspector.web.access import is_local, open_to_all, user_of

MAX_NAME = 150
INVITATION = "sso_invitation"  # in the session: whose code was shown, until the login at the provider begins

if TYPE_CHECKING:
    FormPage = FormView[Any]  # of either of the forms below
else:
    FormPage = FormView


class Braked(FormPage):
    """A page whose form checks a password: too many tries are answered 429 before it is looked at."""

    def account(self) -> str:
        """Return the account whose password is tried."""
        raise NotImplementedError

    def is_wrong(self, form: BaseForm) -> bool:
        """Was the form refused because of its password?"""
        return True

    def post(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponse:
        address = client_address(request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", ""))
        self.attempt = LoginAttempt(self.account()[:MAX_NAME], address)
        if seconds := self.attempt.begin():
            return self._refuse(seconds)
        return super().post(request, *args, **kwargs)

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return super().get_context_data(**kwargs, sso=provider_name())

    def _refuse(self, seconds: int) -> HttpResponse:
        given = {name: value for name, value in self.get_form_kwargs().items() if name not in {"data", "files"}}
        context = self.get_context_data(form=self.get_form_class()(**given), minutes=-(-seconds // 60))
        return self.render_to_response(context, status=429, headers={"Retry-After": str(seconds)})

    def form_valid(self, form: BaseForm) -> HttpResponse:
        self.attempt.succeed()
        return super().form_valid(form)

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        if self.is_wrong(form):
            self.attempt.fail()
        else:
            self.attempt.succeed()
        return super().form_invalid(form)


def find_start(user: User, target: str = "") -> str:
    """Return where a login leads: to its target; from home to Review where an item waits for this person."""
    if target not in ("", reverse("index")):
        return target
    asked = list(Queue.objects.filter(closed_at=None, reviewers=user))
    return reverse("review" if any(each.own_left for each in progress_of(asked, user)) else "index")


class Login(Braked, LoginView):
    template_name = "people/login.html"

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        """Show the form also to the local user, who has not logged in."""
        self.redirect_authenticated_user = not is_local(request.user)
        return super().dispatch(request, *args, **kwargs)

    def account(self) -> str:
        return self.request.POST.get("username", "").strip()  # as its form reads it

    def get_success_url(self) -> str:
        return find_start(user_of(self.request), super().get_success_url())


class Password(Braked, PasswordChangeView):
    template_name = "people/password.html"
    success_url = reverse_lazy("account")

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if isinstance(request.user, User) and not request.user.has_usable_password():
            return redirect("account")  # there is nothing to change
        return super().dispatch(request, *args, **kwargs)

    def account(self) -> str:
        return self.request.user.get_username()

    def is_wrong(self, form: BaseForm) -> bool:
        return "old_password" in form.errors


class CodeForm(forms.Form):
    """A form with nothing but the code: enough for somebody who then logs in at the provider."""

    code = forms.CharField(max_length=100, error_messages={"required": "Paste the code of your invitation."})


class JoinForm(CodeForm):
    username = forms.CharField(max_length=150, required=False)
    password = forms.CharField(max_length=1000, strip=False, error_messages={"required": "Choose a password."})


class Join(Braked):
    """`/join/#CODE`: the code is behind the #, so no server or proxy logs it; a script puts it into the form."""

    template_name = "people/join.html"
    form_class = JoinForm
    is_code_good = False

    def get_initial(self) -> dict[str, object]:
        return {"username": self.request.GET.get("name", "")[:MAX_NAME]}

    def get_form_class(self) -> type[forms.Form]:
        needs_no_password = "check" in self.request.POST or ("sso" in self.request.POST and provider_name())
        return CodeForm if needs_no_password else JoinForm

    def known(self) -> str:
        """Return the account that gets a new password."""
        return self.request.GET.get("account", "")[:MAX_NAME]

    def level(self) -> str:
        """Return the level that the link names; empty where it names none."""
        level = self.request.GET.get("as", "")
        return level if level in User.Level.values else ""

    def account(self) -> str:
        return "an invitation"

    def is_wrong(self, form: BaseForm) -> bool:
        """Was the form refused for its code? With a good code, a bad name or password is not a guess."""
        return not self.is_code_good

    def form_valid(self, form: BaseForm) -> HttpResponse:
        given = form.cleaned_data
        try:
            if "check" in self.request.POST:  # the script asks when the page opens
                found = find_invitation(given["code"])
                self.attempt.succeed()
                who = f"{found.made_by} invited you. " if found.made_by else ""
                until = f"{found.expires_at:%d %B %Y, %H:%M} UTC"
                return HttpResponse(f"{who}The link works once, until {until}.", "text/plain")
            if not isinstance(form, JoinForm):
                self.request.session[INVITATION] = str(find_invitation(given["code"]).public_id)
                messages.success(self.request, f"Your invitation is valid. Log in with {settings.OIDC_NAME} to use it.")
                self.attempt.succeed()
                return redirect("login")  # a form may not lead to the provider, a link may (form-action)
            user = accept(given["code"], given["username"], given["password"])
        except InvitationRefused:
            form.add_error(
                "code", "This code is not valid: it was used, has expired or was withdrawn. Ask for a new one."
            )
        except ValidationError as error:
            self.is_code_good = True
            for field, problems in error.message_dict.items():
                form.add_error(field if field in form.fields else None, problems)
        else:
            log_in(self.request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
            messages.success(self.request, f"Welcome, {user.username}. You are logged in as {user.level}.")
            self.success_url = find_start(user)
            return super().form_valid(form)
        return self.form_invalid(form)

    def form_invalid(self, form: BaseForm) -> HttpResponse:
        response = super().form_invalid(form)
        response.status_code = 422
        return response


join = open_to_all(never_cache(Join.as_view()))
login = open_to_all(Login.as_view())
logout = open_to_all(LogoutView.as_view(next_page=reverse_lazy("index")))
password = Password.as_view()

"""Coming in, going out, and one's own password: Django's views in our frame, with a brake on guessing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.views.generic import FormView

from benchapp.people.login_attempts import LoginAttempt, client_address
from inspector.web.access import open_to_all

MAX_NAME = 150


if TYPE_CHECKING:
    FormPage = FormView[Any]  # of either of the forms below
else:
    FormPage = FormView


class Braked(FormPage):
    """A page whose form checks a password: too many tries are answered 429 before it is looked at."""

    def account(self) -> str:
        """Whose password is tried."""
        raise NotImplementedError

    def is_wrong(self, form: BaseForm) -> bool:
        """Whether a form that was refused was refused for its password."""
        return True

    def post(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponse:
        address = client_address(request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", ""))
        self.attempt = LoginAttempt(self.account()[:MAX_NAME], address)
        if seconds := self.attempt.begin():
            return self._refuse(seconds)
        return super().post(request, *args, **kwargs)

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


class Login(Braked, LoginView):
    template_name = "people/login.html"
    redirect_authenticated_user = True

    def account(self) -> str:
        return self.request.POST.get("username", "").strip()  # as its form reads it


class Password(Braked, PasswordChangeView):
    template_name = "people/password.html"
    success_url = reverse_lazy("account")

    def account(self) -> str:
        return self.request.user.get_username()

    def is_wrong(self, form: BaseForm) -> bool:
        return "old_password" in form.errors


login = open_to_all(Login.as_view())
logout = open_to_all(LogoutView.as_view(next_page=reverse_lazy("login")))
password = Password.as_view()

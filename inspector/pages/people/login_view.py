"""Coming in, going out, and one's own password: Django's views in our frame, with a brake on guessing."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy

from benchapp.people.login_attempts import LoginAttempt, client_address
from inspector.web.access import open_to_all

MAX_NAME = 150


class Braked:
    """For a view with a form that checks a password: too many tries are answered 429 before it is looked at."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        address = client_address(request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", ""))
        self.attempt = LoginAttempt(self.account()[:MAX_NAME], address)
        if seconds := self.attempt.begin():
            return self._refuse(seconds)
        return super().post(request, *args, **kwargs)  # type: ignore[misc]

    def _refuse(self, seconds: int) -> HttpResponse:
        given = {name: value for name, value in self.get_form_kwargs().items() if name not in {"data", "files"}}  # type: ignore[attr-defined]
        context = self.get_context_data(form=self.get_form_class()(**given), minutes=-(-seconds // 60))  # type: ignore[attr-defined]
        return self.render_to_response(context, status=429, headers={"Retry-After": str(seconds)})  # type: ignore[attr-defined]

    def form_valid(self, form: Any) -> HttpResponse:
        self.attempt.succeed()
        return super().form_valid(form)  # type: ignore[misc]

    def form_invalid(self, form: Any) -> HttpResponse:
        if self.was_wrong(form):
            self.attempt.fail()
        else:
            self.attempt.succeed()
        return super().form_invalid(form)  # type: ignore[misc]


class Login(Braked, LoginView):
    template_name = "people/login.html"
    redirect_authenticated_user = True

    def account(self) -> str:
        return self.request.POST.get("username", "").strip()  # as its form reads it

    def was_wrong(self, form: Any) -> bool:
        return True


class Password(Braked, PasswordChangeView):
    template_name = "people/password.html"
    success_url = reverse_lazy("account")

    def account(self) -> str:
        return self.request.user.get_username()

    def was_wrong(self, form: Any) -> bool:
        return "old_password" in form.errors


login = open_to_all(Login.as_view())
logout = open_to_all(LogoutView.as_view(next_page=reverse_lazy("login")))
password = Password.as_view()

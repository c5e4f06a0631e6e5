"""Coming in, going out, and one's own password: Django's views in our frame."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.urls import reverse_lazy

from inspector.access import open_to_all

login = open_to_all(LoginView.as_view(template_name="people/login.html", redirect_authenticated_user=True))
logout = open_to_all(LogoutView.as_view(next_page=reverse_lazy("login")))
password = PasswordChangeView.as_view(template_name="people/password.html", success_url=reverse_lazy("account"))

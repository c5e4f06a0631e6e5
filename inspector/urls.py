"""Every page has a JSON twin: the path without its trailing slash, with .json."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []

"""Whole pages made visible. Text from outside may be anywhere in one: in a title, a label, an option."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from benchapp.record.visible import has_unseen, spell_out

MARKUP = ("text/html", "image/svg+xml")
# What comes back to the server must come back as it was, and a policy names the digests of a report's scripts.
_KEPT = re.compile(r"(\svalue=\"[^\"]*\"|<textarea\b.*?</textarea>|<script\b.*?</script>)", re.DOTALL)
_PLAIN = bytes([9, 10, *range(0x20, 0x7F)])


class VisibleMiddleware:
    """Write out invisible characters in every page and fragment. Values of forms and scripts stay as they are."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not response.streaming and response.get("Content-Type", "").startswith(MARKUP):
            odd = response.content.translate(None, _PLAIN).decode("utf-8", "replace")  # a page has little of it
            if has_unseen(odd):
                response.content = visible_page(response.content.decode("utf-8", "replace"))
        return response


def visible_page(html: str) -> str:
    """Return the page with every invisible character written out, except in scripts and in what forms send back."""
    parts = _KEPT.split(html)
    return "".join(
        part if place % 2 else spell_out(part.replace("\r\n", "\n"), is_markup=True) for place, part in enumerate(parts)
    )

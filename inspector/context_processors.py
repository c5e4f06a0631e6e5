from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def frame(request: HttpRequest) -> dict[str, object]:
    """What every page's frame needs. The theme comes from a cookie so that no script has to set it before paint."""
    theme = request.COOKIES.get("theme", "")
    name = request.resolver_match.url_name if request.resolver_match else None
    return {
        "theme": theme if theme in {"light", "dark"} else "",
        "version": settings.VERSION,
        "section": (name or "").split("-")[0],
    }

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from benchapp.models import User
from benchapp.review.comments import unread_mentions
from inspector.web.access import is_local


def frame(request: HttpRequest) -> dict[str, object]:
    """Return what the frame of every page needs.
    The theme comes from a cookie so that no script has to set it before paint."""
    theme = request.COOKIES.get("theme", "")
    name = request.resolver_match.url_name if request.resolver_match else None
    user = getattr(request, "user", None)
    return {
        "static_site": getattr(request, "static_site", None),
        "theme": theme if theme in {"light", "dark"} else "",
        "is_local": SimpleLazyObject(lambda: is_local(user)),
        "skillglass_version": settings.VERSION,
        "section": (name or "").split("-")[0],
        "may": SimpleLazyObject(
            lambda: {level.value: isinstance(user, User) and user.may(level) for level in User.Level}
        ),
        "unread_mentions": SimpleLazyObject(  # of the local user none: nobody can mention who has no name
            lambda: unread_mentions(user) if isinstance(user, User) and not is_local(user) else 0
        ),
    }

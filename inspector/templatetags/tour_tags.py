"""The tour's bar, on every page of the tour."""

from __future__ import annotations

from django import template
from django.template.context import RequestContext

from inspector.pages.overview.tour import find_place
from inspector.web.access import user_of

register = template.Library()


@register.simple_tag(takes_context=True)
def tour_place(context: RequestContext) -> dict[str, object] | None:
    """None outside the tour, which costs nothing."""
    request = context["request"]
    return find_place(user_of(request), request.GET.get("tour", ""))

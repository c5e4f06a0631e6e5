"""The frame of every page: where one is among the pages and on the tour, and the keys of the page."""

from __future__ import annotations

from django import template
from django.template.base import Node, NodeList, Parser, Token
from django.template.context import RequestContext
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from inspector.pages.overview.tour import find_place
from inspector.web.access import user_of
from inspector.web.navigation import ANYONE, MEANINGS, PLACES, describe_keys
from runner.base.var_folder import DEMO, IS_INSTALLED, MANAGE

register = template.Library()
register.simple_tag(lambda: DEMO, name="start_demo")
_LISTED = "keys_of_this_page"


@register.simple_tag
def manage(interpreter: str = "") -> str:
    """What a person types before the name of a command. `interpreter`: named before it in a clone."""
    return MANAGE if IS_INSTALLED else f"{interpreter} {MANAGE}".lstrip()


@register.simple_tag(takes_context=True)
def is_here(context: template.Context, place: str) -> SafeString | str:
    """aria-current of a link in the bar: "page" on the page itself, "true" on those that belong to it."""
    match = getattr(context.get("request"), "resolver_match", None)
    if match is not None and match.url_name == place:
        return SafeString(' aria-current="page"')
    is_part = place in PLACES and context.get("section") in [place, *PLACES[place].sections.split()]
    return SafeString(' aria-current="true"') if is_part else ""


@register.simple_tag(takes_context=True)
def go_to(context: template.Context, *names: str) -> SafeString:
    """Links of the bar or of the menu, without those that this person may not follow."""
    seen = {name: PLACES[name] for name in names if PLACES[name].level == ANYONE or context["may"][PLACES[name].level]}
    rows = (
        (reverse(name), place.key and format_html(' data-key="{}"', place.key), is_here(context, name), place.words)
        for name, place in seen.items()
    )
    return format_html_join("\n", '<a href="{}"{}{}>{}</a>', rows)


@register.simple_tag(takes_context=True)
def tour_place(context: RequestContext) -> dict[str, object] | None:
    """None outside the tour, which costs nothing."""
    request = context["request"]
    return find_place(user_of(request), request.GET.get("tour", ""))


@register.simple_tag(takes_context=True)
def key(context: template.Context, keys: str, noun: str = "") -> str:
    """A row for the list under ?: `{% key "j|k" "step" %}`. The words are the map's; `noun` completes them."""
    named = keys.split("|")
    row = [key.split(" ") for key in named], describe_keys(named, noun)
    group = next(group for group, meanings in MEANINGS.items() if named[0] in meanings)
    context.render_context[_LISTED][group].append(row)
    return ""


@register.tag
def key_list(parser: Parser, token: Token) -> Node:
    """The rows that `{% key %}` inside gives, by group."""
    inside = parser.parse(("end_key_list",))
    parser.delete_first_token()
    return KeyListNode(inside)


class KeyListNode(Node):
    def __init__(self, nodelist: NodeList) -> None:
        self.nodelist = nodelist

    def render(self, context: template.Context) -> SafeString:
        groups: dict[str, list[object]] = {group: [] for group in MEANINGS}
        context.render_context[_LISTED] = groups
        self.nodelist.render(context)
        return render_to_string("shared/_keys.html", {"groups": [each for each in groups.items() if each[1]]})

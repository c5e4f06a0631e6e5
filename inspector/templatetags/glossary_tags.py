"""Words that explain themselves: `{% term "episode" %}` by the glossary, `{% rule "tier3-uncited" %}` by the names of rules.

By mouse, keyboard and touch, without a script."""

from __future__ import annotations

from zlib import crc32

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from benchapp.analysis.rule_names import name_rule
from benchapp.record.visible import visible
from inspector.pages.documents.glossary import NAME, read_terms

register = template.Library()
COUNT = "glossary_terms_shown"  # on the request


@register.simple_tag(takes_context=True)
def term(context: template.Context, word: str, text: str = "") -> SafeString:
    """A button that opens the meaning, which also shows on hover. `text` is shown in place of the word ("Episodes").

    For words in a heading, a label or a sentence, once a page; never inside a link or another button.
    """
    found = read_terms()[word]
    name = _name_popover(context, word)
    return format_html(
        '<button type="button" class="term" popovertarget="{0}" title="{1}">{2}</button>'
        '<span class="term-meaning" id="{0}" popover><b>{3}</b> {1} <a href="{4}#{5}">Glossary</a></span>',
        name,
        found.meaning,
        text or word,
        found.word.capitalize(),
        reverse("document", args=[NAME]),
        found.anchor,
    )


@register.simple_tag
def rule(key: str) -> SafeString:
    """A rule in words; its key, which files and documents use, shows on hover."""
    return format_html('<span title="{}">{}</span>', visible(key)[:80], visible(name_rule(key))[:80])


def _name_popover(context: template.Context, word: str) -> str:
    """An id that no other use on the page has, also where parts of it come by requests of their own."""
    request = context.get("request")
    if request is None:
        return f"term-{crc32(word.encode()):x}"
    count = getattr(request, COUNT, 0) + 1
    setattr(request, COUNT, count)
    return f"term-{crc32(request.get_full_path().encode()):x}-{count}"

"""Words that explain themselves: `{% term "episode" %}` by the glossary, `{% rule "tier3-uncited" %}` by the names of
rules.

By mouse, keyboard and touch, without a script."""

from __future__ import annotations

from zlib import crc32

from django import template
from django.urls import reverse
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from benchapp.analysis.rule_names import name_rule
from benchapp.record.visible import visible
from inspector.web.text.glossary import NAME, read_terms

register = template.Library()
EXPLAINED = "glossary_terms_explained"  # on the request


@register.simple_tag(takes_context=True)
def term(context: template.Context, word: str, text: str = "") -> SafeString:
    """A button that opens the meaning, which also shows on hover. `text` is shown in place of the word ("Episodes").

    For words in a heading, a label or a sentence; never inside a link, a summary or another button. Only the first use
    on a page explains the word: the others are plain text, so that lists and shared parts may use the tag freely.
    """
    found = read_terms()[word]
    name = _name_popover(context, found.word)
    if not name:
        return SafeString(conditional_escape(text or word))
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
    """An id that no other word of the page has, also where parts of it come by requests of their own;
    "" if this request explained the word before."""
    request = context.get("request")
    if request is None:
        return f"term-{crc32(word.encode()):x}"
    explained: list[str] = getattr(request, EXPLAINED, [])
    if word in explained:
        return ""
    setattr(request, EXPLAINED, [*explained, word])
    return f"term-{crc32(request.get_full_path().encode()):x}-{len(explained) + 1}"

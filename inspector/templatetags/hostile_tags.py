"""Filters for text that trials and authors wrote, and for lists that must stay short."""

from __future__ import annotations

import re

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from benchapp.record.visible import RIGHT_TO_LEFT
from benchapp.record.visible import visible as make_visible
from inspector.web.text.folding import BLANK_RUN
from inspector.web.text.markdown import render_markdown

register = template.Library()
register.filter("markdown", render_markdown)

CUT_FROM = 160  # characters
ENDINGS = frozenset(".!?…)]}\"'”’")
_BLANKS = re.compile(rf"(?:\A|(?<=\n)){BLANK_RUN}")


@register.filter
def isolate_rtl(html: str) -> SafeString:
    """Escaped code with words from right to left apart, so that they do not turn the operators between them around."""
    if html.isascii():
        return mark_safe(html)  # noqa: S308 (escaped by the caller)
    return mark_safe(RIGHT_TO_LEFT.sub(r"<bdi>\g<0></bdi>", html))  # noqa: S308 (escaped by the caller)


@register.filter
def visible(text: object) -> str:
    """Text of strangers without anything a reader could not see; nothing stays nothing."""
    return "" if text is None else make_visible(str(text))


@register.filter
def whole_words(text: str, limit: int) -> str:
    """A quotation that ends with a word. What rules quote is itself cut at 160 characters after what they matched, so
    a long one that does not end a sentence is taken for cut."""
    is_cut = len(text) > limit or len(text) >= CUT_FROM and text[-1] not in ENDINGS
    kept = text[:limit].rpartition(" ")[0] or text[:limit]
    return f"{kept.rstrip(' ,;:(“')} …" if is_cut else text


@register.filter
def fold_blanks(text: str) -> SafeString:
    """The text with every run of blank lines folded. All its characters stay in the page, and only they: places in the
    text are counted there. The words of the fold are written by the style."""
    return mark_safe(_BLANKS.sub(_fold_blanks, escape(text)))  # noqa: S308 (escaped)


def _fold_blanks(match: re.Match[str]) -> str:
    lines = match[0].count("\n")
    summary = f'<summary data-lines="{lines}" aria-label="{lines} blank lines"></summary>'
    return f'<details class="blanks">{summary}{match[0]}</details>'


@register.filter
def errors(findings: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the findings that rejected a patch, without warnings."""
    return [finding for finding in findings if finding.get("severity") == "error"]


@register.filter
def at_most(value: int, limit: int) -> int:
    return min(value, limit)


@register.filter
def unlocal(value: float) -> str:
    """A number as HTML attributes want it."""
    return f"{value:g}"


@register.filter
def apart(value: int) -> str:
    """12345 -> "12,345"."""
    return f"{value:,}"

"""The small links that lead from a step or a chart to its comments."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from benchapp.models import Comment
from benchapp.review.comments import place_in_words
from inspector.pages.people.comments import CommentedChart, CommentedSteps
from inspector.web.text.visible import visible

register = template.Library()


@register.simple_tag
def step_comments(commented: CommentedSteps | str | None, step: int) -> SafeString:
    """Nothing on pages that take no comments, such as those of a blind review."""
    if not isinstance(commented, CommentedSteps):
        return SafeString("")
    return _render_link(commented.url(step), commented.counts.get(step, 0), f"step {step}")


@register.simple_tag
def chart_comments(commented: CommentedChart | str | None) -> SafeString:
    if not isinstance(commented, CommentedChart):
        return SafeString("")
    return _render_link(commented.url, commented.count, "this chart", kind="plain")


@register.filter
def where(comment: Comment) -> str:
    """The place in a few words: "step 3", "tidy/SKILL.md line 7", "chart forest"."""
    return visible(place_in_words(comment.on, comment.place))


def _render_link(url: str, count: int, place: str, *, kind: str = "") -> SafeString:
    word = f"{count} comment{'' if count == 1 else 's'}" if count else "comment"
    return format_html(
        '<a class="{}says{}" data-comment href="{}" aria-label="{} on {}">{}</a>',
        f"{kind} " if kind else "",
        " some" if count else "",
        url,
        word,
        place,
        word,
    )

"""Markdown written by models, drawn as HTML that can do no harm.

Two walls: the parser takes no HTML and no images, and the sanitiser lets through a short list of tags with no
attribute that can act. One slip in either is not enough. Tested with hostile sources.
"""

from __future__ import annotations

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from inspector.web.text.visible import visible

MAX_CHARS = 100_000  # 116,000 take a third of a second

_TAGS = {
    *("h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "ul", "ol", "li"),
    *("strong", "em", "s", "del", "code", "pre", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
_PAGE_LEVELS = 2  # h1 and h2 belong to the page

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def render_markdown(text: str) -> SafeString:
    """Safe HTML of the first MAX_CHARS characters. Headings start at h3; links never pass on who came from where."""
    tokens = _PARSER.parse(visible(text[:MAX_CHARS]))
    _lower_headings(tokens)
    html = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return mark_safe(  # noqa: S308
        nh3.clean(
            html,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
        )
    )


def split_frontmatter(text: str) -> tuple[str, str]:
    """(frontmatter without its fences, body). ("", text) where there is none; it is never parsed here."""
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        return "", text
    lines = rest.split("\n")
    end = next((index for index, line in enumerate(lines) if line.rstrip() == "---"), None)
    if end is None:
        return "", text
    return "\n".join(lines[:end]), "\n".join(lines[end + 1 :])


def _lower_headings(tokens: list[Token]) -> None:
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1]) + _PAGE_LEVELS, 6)}"

"""Markdown written by models, drawn as HTML that can do no harm.

Two walls: the parser takes no HTML and no images, and the sanitiser lets through a short list of tags with no
attribute that can act. One slip in either is not enough. Tested with hostile sources.
"""

from __future__ import annotations

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from inspector.web.text.visible import RIGHT_TO_LEFT, visible
from runner.base.text import cut

MAX_CHARS = 100_000  # 116,000 take a third of a second
MAX_LINE_CHARS = 5_000  # of one line: what is longer is not prose

# Each of these is read from the side that its first letter asks for.
_DIRECTED = {"h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "th", "td", "blockquote"}
_TAGS = {
    *("h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "ul", "ol", "li"),
    *("strong", "em", "s", "del", "code", "pre", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start", "dir"}, **{tag: {"dir"} for tag in _DIRECTED - {"ol"}}}
_PAGE_LEVELS = 2  # h1 and h2 belong to the page

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def render_markdown(text: str) -> SafeString:
    """Safe HTML of the first MAX_CHARS characters, of long lines their ends. Headings start at h3; links never pass on
    who came from where."""
    tokens = _PARSER.parse(visible(cut_lines(text[:MAX_CHARS])))
    _lower_headings(tokens)
    if RIGHT_TO_LEFT.search(text):  # without such letters it would change nothing
        for token in tokens:
            if token.nesting == 1 and token.tag in _DIRECTED:
                token.attrSet("dir", "auto")
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


def cut_lines(text: str) -> str:
    """The text with each line of more than MAX_LINE_CHARS cut in its middle, around a mark."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    return "\n".join(cut(line, MAX_LINE_CHARS) for line in text.split("\n"))


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

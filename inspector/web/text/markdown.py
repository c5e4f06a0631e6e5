"""Markdown written by models, drawn as HTML that can do no harm.

Two walls: the parser takes no HTML and no images, and the sanitiser lets through a short list of tags with no
attribute that can act. One slip in either is not enough. What comes out grows with what goes in: a link definition that
is used a thousand times, and a table whose rows are shorter than its head, would unfold to gigabytes. Tested with
hostile sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import nh3
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_block import StateBlock, table
from markdown_it.token import Token

from benchapp.record.visible import RIGHT_TO_LEFT, visible
from runner.base.text import cut


def make_parser(*, html: bool) -> MarkdownIt:
    """Make a CommonMark parser. It reads one link here, alone: mdurl fills its tables at the first link, and another
    thread would read them half filled (IndexError)."""
    parser = MarkdownIt("commonmark", {"html": html})
    parser.parse("<https://a/%41>")
    return parser


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
_LINK_GROWTH = 10  # characters of addresses and titles for each character of the text


def _draw_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Draw a table unless filling up its short rows would make more cells than it has characters."""
    if start < state.env.get("no_table_before", 0) or not table(state, start, end, True):
        return False
    columns = state.src.count("|", state.bMarks[start], state.eMarks[start]) + 1
    last = next((line for line in range(start, end) if state.isEmpty(line)), end)
    if columns * (last - start) > state.eMarks[last - 1] - state.bMarks[start]:
        state.env["no_table_before"] = last
        return False
    return silent or table(state, start, end, silent)


_PARSER = make_parser(html=False).enable(["table", "strikethrough"]).disable("image")
_PARSER.block.ruler.at("table", _draw_table, {"alt": ["paragraph", "reference"]})


def render_markdown(text: str) -> SafeString:
    """Return safe HTML of the first MAX_CHARS characters, of long lines their ends. Headings start at h3.
    Links send no referrer."""
    shown = visible(cut_lines(text[:MAX_CHARS]))
    tokens = _PARSER.parse(shown)
    _lower_headings(tokens)
    _bound_links(tokens, _LINK_GROWTH * len(shown))
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
    """Return the text with each line of more than MAX_LINE_CHARS cut in its middle, around a mark."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    return "\n".join(cut(line, MAX_LINE_CHARS) for line in text.split("\n"))


def split_frontmatter(text: str) -> tuple[str, str]:
    """Return (frontmatter without its fences, body); ("", text) without frontmatter. It is never parsed here."""
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


def _bound_links(tokens: list[Token], left: int) -> None:
    """Remove the address of every link after `left` characters of addresses and titles."""
    links = (child for token in tokens for child in token.children or () if child.type == "link_open")
    for token in links:
        if left >= 0:
            left -= sum(len(escapeHtml(str(value))) for value in token.attrs.values())
        if left < 0:
            token.attrs = {}


def render_markdown_file(template: str, context: Mapping[str, object]) -> str:
    """Render a template as a Markdown file. Text from outside cannot become HTML there: of what is escaped only "<"
    and ">" stay so, since other characters are harmless and easier to read as they are."""
    text: str = render_to_string(template, dict(context))
    for escaped, plain in (("&#x27;", "'"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(escaped, plain)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

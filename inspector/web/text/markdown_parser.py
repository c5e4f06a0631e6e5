"""Parsers of Markdown that several threads may use at once."""

from __future__ import annotations

from markdown_it import MarkdownIt


def make_parser(*, html: bool) -> MarkdownIt:
    """Make a CommonMark parser. It reads one link here, alone: mdurl fills its tables at the first link, and another thread
    would read them half filled (IndexError)."""
    parser = MarkdownIt("commonmark", {"html": html})
    parser.parse("<https://a/%41>")
    return parser

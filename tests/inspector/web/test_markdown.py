"""inspector.web.text.markdown: what a model wrote is drawn, and none of it can act."""

from __future__ import annotations

import re
import time

import pytest

from inspector.web.text.markdown import render_markdown, split_frontmatter

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</td></table><h1>out</h1>",
    "<a hx-get='/jobs/cancel' hx-trigger=load>x</a>",
    "<div data-hx-get=/x>y</div>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "![track](https://tracker.example/p.png)",
    "<svg onload=alert(1)>",
    "<style>body{display:none}</style>",
    '[x](http://a "onmouseover=alert(1)")',
    "<javascript:alert(1)>",
    "```html\n<script>alert(1)</script>\n```",
    "| a |\n|---|\n| <iframe src=//x> |",
    "&lt;script&gt;&#60;script&#62;",
    "[a]: javascript:alert(1)\n\n[a]",
]
TAGS = re.compile(r"<\s*/?\s*([a-zA-Z0-9]+)([^>]*)>")
ALLOWED = {
    *("h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "ul", "ol", "li", "strong", "em", "s", "del"),
    *("code", "pre", "a", "table", "thead", "tbody", "tr", "th", "td"),
}


@pytest.mark.parametrize("source", HOSTILE)
def test_it_lets_nothing_through_that_can_act(source):
    html = render_markdown(source)
    for name, attributes in TAGS.findall(html):
        assert name in ALLOWED
        assert not re.search(r"\b(on\w+|style|hx-\w+|data-\w+|src|class|id)\s*=", re.sub(r'"[^"]*"', '""', attributes))
        if link := re.search(r'href="([^"]*)"', attributes):
            assert link[1].startswith(("http://", "https://", "mailto:"))


def test_it_draws_tables_lists_code_and_lowers_headings():
    html = render_markdown("# Top\n\n###### Deep\n\n- a\n\n| x |\n|--|\n| 1 |\n\n`c`\n\n~~no~~\n")
    for part in ("<h3>Top</h3>", "<h6>Deep</h6>", "<li>a</li>", "<td>1</td>", "<code>c</code>", "<s>no</s>"):
        assert part in html


def test_each_block_of_a_text_from_right_to_left_is_read_from_its_own_side():
    html = render_markdown("# عنوان\n\nاكتب دالة\n\nplain\n\n- عنصر\n")
    for part in (
        '<h3 dir="auto">عنوان</h3>',
        '<p dir="auto">اكتب دالة</p>',
        '<p dir="auto">plain</p>',
        '<li dir="auto">',
    ):
        assert part in html
    assert "dir=" not in render_markdown("# plain\n\ntext\n")


def test_a_line_too_long_for_prose_is_cut_in_its_middle():
    html = render_markdown(f"a\n\n{'x' * 50_000}end\n")
    assert len(html) < 6_000
    assert "45,003 characters left out" in html
    assert "end" in html


def test_it_makes_direction_overrides_visible():
    assert "⟨U+202E⟩" in render_markdown("safe \u202e evil")


@pytest.mark.parametrize("source", ["[" * 60_000, "*a **b " * 14_000, "> " * 50_000, "`a``" * 25_000, "|a" * 50_000])
def test_it_answers_quickly_whatever_the_source(source):
    started = time.process_time()
    render_markdown(source)
    assert time.process_time() - started < 4


def test_it_splits_the_frontmatter_without_reading_it():
    assert split_frontmatter("---\nname: a\n---\nbody\n") == ("name: a", "body\n")
    assert split_frontmatter("no front\n---\n") == ("", "no front\n---\n")
    assert split_frontmatter("---\nnever closed\n") == ("", "---\nnever closed\n")

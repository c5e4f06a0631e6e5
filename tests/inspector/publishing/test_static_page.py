"""What becomes of a page that leaves its server: links, and whatever would wait for an answer."""

from __future__ import annotations

import orjson

from inspector.publishing.static_page import make_static, make_static_csv, make_static_json
from tests.cases import every

HERE = "http://published.invalid/runs/1/library/?episode=e"


def find(address: str) -> str | None:
    """A site of two pages and the files below /static/."""
    path = address.removeprefix("http://published.invalid")
    if path.startswith("/static/"):
        return f"../../..{path}"
    known = {"/trials/2/": "../../../trials/2/index.html", "/runs/1/library/?decision=3": "./q-3.html"}
    return known.get(path)


def static(html: str) -> str:
    return make_static(html, HERE, find)


@every(
    ('<a href="/trials/2/">one</a>', '<a href="../../../trials/2/index.html">one</a>'),
    ('<a href="?decision=3" data-key="j">two</a>', '<a href="./q-3.html" data-key="j">two</a>'),
    ('<a href="#verdict">here</a>', '<a href="#verdict">here</a>'),
    ('<a href="https://example.org/a?b=1&amp;c">paper</a>', '<a href="https://example.org/a?b=1&amp;c">paper</a>'),
)
def test_a_link_within_the_site_leads_to_its_file(link: str, written: str) -> None:
    assert static(link) == written


@every("/review/", "/trials/9/", "?view=split", "javascript:alert(1)", "data:text/html,x")
def test_a_link_that_leaves_the_site_becomes_its_text(href: str) -> None:
    assert static(f'<p><a class="k" href="{href}" aria-label="no">that <b>page</b></a>.</p>') == (
        '<p><span class="k">that <b>page</b></span>.</p>'
    )


def test_inside_a_drawing_it_becomes_a_group_of_its_shapes() -> None:
    drawn = '<svg viewBox="0 0 9 9"><a href="/jobs/"><title>gone</title><rect x="1"/></a></svg><a href="/jobs/">x</a>'
    assert static(drawn) == ('<svg viewBox="0 0 9 9"><g><title>gone</title><rect x="1"/></g></svg><span>x</span>')


@every(
    '<form method="post"><div><input name="q"><button>Go</button></div></form>',
    "<dialog><form><b>keys</b></form><dialog></dialog></dialog>",
    "<button data-walk='j'>next</button>",
    '<button data-chart-act="table">Table</button>',
    '<input type="checkbox" form="admit">',
    '<a class="button" href="/launch/">Launch again</a>',
    '<a data-comment href="/comments/about/">3 comments</a>',
    "<script>alert(1)</script>",
    '<script id="comment-counts" type="application/json">{"a</b>": 3}</script>',
    '<script src="/static/js/comments.js"></script>',
    '<noscript><img src="x"></noscript>',
    "<kbd>j</kbd>",
    '<span class="keys-here"><kbd>j</kbd> next</span>',
    '<figure data-chart="/compare/charts/none.json"><div>Drawing…</div></figure>',
    """<meta name="htmx-config" content='{"a": 1}'>""",
)
def test_what_needs_a_server_or_a_script_that_asks_one_is_gone_whole(part: str) -> None:
    assert static(f"<p>before</p>{part}<p>after</p>") == "<p>before</p><p>after</p>"


@every(
    '<button type="button" popovertarget="t1">word</button><span id="t1" popover>meaning</span>',
    '<button type="button" data-chart-act="png" hidden>PNG</button>',
    '<input type="radio" name="cut" id="cut-off" checked>',
    "<details><summary>more</summary>&lt;script&gt;alert(1)&lt;/script&gt; &amp;amp; &#x27;</details>",
)
def test_what_works_without_one_stays_as_it_was_written(part: str) -> None:
    assert static(part) == part


def test_scripts_that_only_draw_stay_and_come_from_the_site() -> None:
    kept = '<script src="/static/js/charts.f66f97f7896f.js" type="module"></script>'
    assert static(kept) == '<script src="../../../static/js/charts.f66f97f7896f.js" type="module"></script>'


def test_nothing_is_left_that_htmx_would_ask_for() -> None:
    fold = '<details class="rest" hx-get="/trials/2/field/?start=1" hx-trigger="toggle once" data-steps="/trials/2/steps/">'  # noqa: E501
    assert static(fold) == '<details class="rest">'


def test_the_policy_stands_before_all_it_rules() -> None:
    page = static(
        '<!doctype html><html><head><meta charset="utf-8"><link rel="stylesheet" href="/static/a.css"></head>'
    )
    head, _, rest = page.partition("Content-Security-Policy")
    assert head == '<!doctype html><html><head><meta charset="utf-8">\n  <meta http-equiv="'
    assert "default-src &#x27;none&#x27;" in rest
    assert "unsafe" not in rest
    assert rest.endswith('<link rel="stylesheet" href="../../../static/a.css"></head>')


def test_a_moment_is_written_out_because_its_age_would_be_wrong_tomorrow() -> None:
    moment = '<time datetime="2026-01-02T03:04:05+00:00" title="2026-01-02 03:04:05 UTC">3 h ago</time>'
    assert static(moment) == '<time datetime="2026-01-02T03:04:05+00:00">2026-01-02 03:04:05 UTC</time>'


def test_quotes_in_a_rewritten_element_stay_inside_their_attribute() -> None:
    hostile = '<a href="/jobs/" title="&quot; onclick=&quot;alert(1)">x</a>'
    assert static(hostile) == '<span title="&quot; onclick=&quot;alert(1)">x</span>'


def test_points_of_a_chart_lead_into_the_site_or_nowhere_and_nothing_tells_the_time() -> None:
    answer = {
        "figure": {
            "data": [{"customdata": ["/trials/2/", ["/jobs/", 3]], "text": ["/usr/bin", "http://published.invalid/"]}]
        },
        "table": {"rows": [{"url": "http://published.invalid/trials/2/"}, {"url": None}]},
        "as_of": "2026-11-26",
        "permalink": "http://published.invalid/compare/",
    }
    assert orjson.loads(make_static_json(orjson.dumps(answer), HERE, find)) == {
        "figure": {
            "data": [
                {
                    "customdata": ["../../../trials/2/index.html", ["", 3]],
                    "text": ["/usr/bin", "http://published.invalid/"],
                }
            ]
        },
        "table": {"rows": [{"url": "../../../trials/2/index.html"}, {"url": None}]},
    }


def test_links_in_a_table_of_numbers_lead_into_the_site_or_nowhere() -> None:
    text = "a,url\n1,http://published.invalid/trials/2/\n2,http://published.invalid/jobs/\n"
    assert make_static_csv(text, HERE, find) == "a,url\n1,../../../trials/2/index.html\n2,\n"

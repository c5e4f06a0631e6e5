"""A page as a file that works without a server: links are relative, and what would need an answer is gone.

The standard library's parser hands over each piece as it was written, so whatever is not changed stays byte for byte. It is
enough here because these pages are Django's own templates, in which strangers' texts are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape
from html.parser import HTMLParser
from urllib.parse import urljoin

Attributes = list[tuple[str, str | None]]
# The address of a link or file of the installation -> what the file says in its place; None where the site has no such page.
Find = Callable[[str], str | None]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'"
)
SCRIPTS = re.compile(r"/(?:charts|blame|library|compare|menus)[-.\w]*\.js$")  # the ones that ask no server
VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
GONE = frozenset("form dialog kbd noscript select template textarea".split())  # nothing listens to keys either
KEY_WORDS = {"keys-here", "with-keys"}  # sentences about keys
KEPT_DATA = ("data-chart", "data-page", "data-plotly")  # addresses that scripts read from the folder itself
PICTURES = ("png", "svg")  # what a chart can be saved as without a server
OTHER_SITES = ("https://", "http://", "mailto:")


def make_static(html: str, address: str, find: Find) -> str:
    """`address`: where the installation has the page, whole; what is relative in it is read from there."""
    page = _StaticPage(address, find)
    page.feed(html)
    page.close()
    return "".join(page.out)


class _StaticPage(HTMLParser):
    def __init__(self, address: str, find: Find) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self.address, self.find = address, find
        self.gone: list[str] = []  # the element that is left out, once for each of its name that is open in it
        self.ends: list[str] = []  # how each open link ends
        self.drawing = 0  # how many svg are open

    # --- elements ---------------------------------------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if self.gone:
            if tag == self.gone[0]:
                self.gone.append(tag)
            return
        given = {name: value or "" for name, value in attrs}
        if self._must_go(tag, given):
            if tag not in VOID:
                self.gone.append(tag)
            return
        self.drawing += tag == "svg"
        if tag == "a":
            self._open_link(given)
        elif tag == "time" and given.get("title"):
            self._write_time(given)
        else:
            self._open(tag, attrs, given)

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        if not self.gone and not self._must_go(tag, {name: value or "" for name, value in attrs}):
            self.out.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if self.gone:
            if tag == self.gone[0]:
                self.gone.pop()
            return
        self.drawing -= tag == "svg"
        self.out.append(self.ends.pop() if tag == "a" and self.ends else f"</{tag}>")

    def _must_go(self, tag: str, given: dict[str, str]) -> bool:
        classes = given.get("class", "").split()
        if tag in GONE or "data-comment" in given or given.get("name") == "htmx-config" or KEY_WORDS & set(classes):
            return True
        if tag == "script":
            return not SCRIPTS.search(given.get("src", ""))
        if tag == "button":
            return "popovertarget" not in given and given.get("data-chart-act") not in PICTURES
        if tag == "input":
            return given.get("type") != "radio" or "form" in given
        if tag == "figure" and "data-chart" in given:
            return self._lead(given["data-chart"]) is None
        return tag == "a" and "button" in classes and self._lead(given.get("href", "")) is None

    def _open_link(self, given: dict[str, str]) -> None:
        """One that leads nowhere becomes its text; inside a drawing, a group of its shapes."""
        leads = "href" in given
        target = self._lead(given["href"]) if leads else None
        if leads and target is None:
            name = "g" if self.drawing else "span"
            kept = {key: value for key, value in given.items() if key in ("class", "id", "title")}
        else:
            name, kept = "a", given | ({"href": target or ""} if leads else {})
        self.out.append(_write_tag(name, _without_requests(kept.items())))
        self.ends.append(f"</{name}>")

    def _write_time(self, given: dict[str, str]) -> None:
        """The moment itself: "3 h ago" is true on the day it is written."""
        self.out.append(
            f"{_write_tag('time', [('datetime', given.get('datetime', ''))])}{escape(given['title'])}</time>"
        )
        self.gone.append("time")

    def _open(self, tag: str, attrs: Attributes, given: dict[str, str]) -> None:
        kept = _without_requests(attrs)
        for name in ("href", "src", *KEPT_DATA):
            if name in given and not given[name].startswith("#"):
                kept = [(key, self._lead(given[name]) or "" if key == name else value) for key, value in kept]
        self.out.append((self.get_starttag_text() or "") if kept == attrs else _write_tag(tag, kept))
        if "charset" in given and tag == "meta":
            self.out.append(f'\n  <meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">')

    def _lead(self, href: str) -> str | None:
        if href.startswith("#"):
            return href
        whole = urljoin(self.address, href)
        if whole.startswith(urljoin(self.address, "/")):
            return self.find(whole)
        return whole if whole.startswith(OTHER_SITES) else None

    # --- what stands between them -----------------------------------------------------------------------------------

    def handle_data(self, data: str) -> None:
        self._write(data)

    def handle_entityref(self, name: str) -> None:
        self._write(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._write(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self._write(f"<!{decl}>")

    def _write(self, text: str) -> None:
        if not self.gone:
            self.out.append(text)


def _without_requests(attrs: Iterable[tuple[str, str | None]]) -> Attributes:
    """What scripts would ask the server with."""
    return [
        (name, value)
        for name, value in attrs
        if not name.startswith("hx-")
        and not (name.startswith("data-") and name not in KEPT_DATA and (value or "").startswith(("/", "?")))
    ]


def _write_tag(name: str, attrs: Attributes) -> str:
    written = "".join(f" {key}" if value is None else f' {key}="{escape(value)}"' for key, value in attrs)
    return f"<{name}{written}>"

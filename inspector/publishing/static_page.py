"""A page as a file that works without a server: links are relative, and what would need an answer is gone.

Only tags that may have to change are looked at, so everything else stays byte for byte. One pattern finds them, because
these pages come from our own templates, where texts from outside are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from html import escape, unescape
from urllib.parse import urljoin

import orjson

TIMED = ("pin", "as_of", "permalink", "next")  # how the installation finds these numbers again
LINKS = ("customdata", "url")  # of a point, of a row
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'"
)
SCRIPTS = re.compile(r"/(?:charts|blame|library|compare|menus)[-.\w]*\.js$")  # the ones that ask no server
KEY_WORDS = {"keys-here", "with-keys"}  # sentences about keys
KEPT_DATA = ("data-chart", "data-page", "data-plotly")  # addresses that scripts read from the folder itself
PICTURES = ("png", "svg")  # what a chart can be saved as without a server
OTHER_SITES = ("https://", "http://", "mailto:")
INSIDE = r"""(?:[^>"']|"[^"]*"|'[^']*')*"""  # of a tag: a quoted value may hold ">"
VALUE = r"""(?:=(?:"[^"]*"|'[^']*'|[^\s"'>]+))?"""  # of an attribute
ATTRIBUTE = re.compile(r"""([^\s"'>/=]+)(?:=(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")


def make_static_json(content: bytes, address: str, find: Find) -> bytes:
    """The twin of a chart: a point that led to a page outside the site leads nowhere."""

    def settle(value: object, *, leads: bool = False) -> object:
        if isinstance(value, dict):
            return {key: settle(each, leads=leads or key in LINKS) for key, each in value.items()}
        if isinstance(value, list):
            return [settle(each, leads=leads) for each in value]
        if leads and isinstance(value, str):
            return find(urljoin(address, value)) or ""
        return value

    read = {key: value for key, value in orjson.loads(content).items() if key not in TIMED}
    return orjson.dumps(settle(read))


def make_static_csv(text: str, address: str, find: Find) -> str:
    origin = re.escape(urljoin(address, "/"))
    return re.sub(origin + r'[^\s,"]*', lambda found: find(found.group()) or "", text)


Attributes = list[tuple[str, str | None]]
# The address of a link or file of the installation -> what the file says in its place; None where the site has no
# such page.
Find = Callable[[str], str | None]

VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
GONE = frozenset("form dialog kbd noscript select template textarea".split())  # nothing listens to keys either
# A tag that may have to change, by its name or by an attribute.
TAG = re.compile(
    rf"""<(?:!--.*?--|/(?P<end>a|svg)|(?P<name>
        (?:a|svg|time|script|button|input|meta|{"|".join(sorted(GONE))})(?=[\s/>])
        |[a-z][\w-]*(?=(?:\s+[^\s"'>/=]+{VALUE})*?\s+(?:hx-|(?:href|src)="[^#]|data-(?:comment|chart|page|plotly)="|data-[\w-]+="[/?]
            |class="[^"]*\b(?:{"|".join(sorted(KEY_WORDS))})\b))
    )(?P<attrs>{INSIDE}))>""",
    re.DOTALL | re.VERBOSE,
)


def join(address: str, href: str) -> str:
    """`urljoin`, in a tenth of its time for a path from the root, as `reverse` gives it."""
    if href.startswith("/") and not href.startswith("//") and "/." not in href:
        scheme, _, rest = address.partition("//")
        return f"{scheme}//{rest.partition('/')[0]}{href}"
    return urljoin(address, href)


def make_static(html: str, address: str, find: Find) -> str:
    """`address`: where the installation has the page, whole; what is relative in it is read from there."""
    return _StaticPage(address, find).rewrite(html)


class _StaticPage:
    def __init__(self, address: str, find: Find) -> None:
        self.address, self.find = address, find
        self.origin = urljoin(address, "/")
        self.out: list[str] = []
        self.leads: dict[str, str | None] = {}
        self.ends: list[str] = []  # how each open link ends
        self.drawing = 0  # how many svg are open

    def rewrite(self, html: str) -> str:
        at = 0
        while tag := TAG.search(html, at):
            self.out.append(html[at : tag.start()])
            at = tag.end()
            if name := tag["name"]:
                at = self._open(name, tag, at)
            elif tag["end"]:
                self.drawing -= tag["end"] == "svg"
                self.out.append(self.ends.pop() if tag["end"] == "a" and self.ends else tag[0])
        return "".join(self.out) + html[at:]

    def _open(self, name: str, tag: re.Match[str], end: int) -> int:
        """Write an element's start. Return where to continue: behind its end if the whole element is dropped."""
        attrs, given = _read_attributes(tag["attrs"])
        closed = name in VOID or tag[0].endswith("/>")
        if self._must_go(name, given):
            return end if closed else _find_end(tag.string, name, end)
        if tag[0].endswith("/>"):
            self.out.append(tag[0])
        elif name == "a":
            self._open_link(given)
        elif name == "time" and given.get("title"):
            # The moment itself: "3 h ago" is true on the day it is written.
            moment = _write_tag("time", [("datetime", given.get("datetime", ""))])
            self.out.append(f"{moment}{escape(given['title'])}</time>")
            return _find_end(tag.string, name, end)
        else:
            self.drawing += name == "svg"
            self._keep(name, tag[0], attrs, given)
        return end

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

    def _keep(self, name: str, text: str, attrs: Attributes, given: dict[str, str]) -> None:
        kept = _without_requests(attrs)
        for key in ("href", "src", *KEPT_DATA):
            if key in given and not given[key].startswith("#"):
                kept = [(each, self._lead(given[key]) or "" if each == key else value) for each, value in kept]
        self.out.append(text if kept == attrs else _write_tag(name, kept))
        if "charset" in given and name == "meta":
            self.out.append(f'\n  <meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">')

    def _lead(self, href: str) -> str | None:
        if href not in self.leads:
            self.leads[href] = self._find(href)
        return self.leads[href]

    def _find(self, href: str) -> str | None:
        if href.startswith("#"):
            return href
        whole = join(self.address, href)
        if whole.startswith(self.origin):
            return self.find(whole)
        return whole if whole.startswith(OTHER_SITES) else None


@lru_cache(20_000)
def _read_attributes(text: str) -> tuple[Attributes, dict[str, str]]:
    """Return them in order, and as a dict. The frame of every page has the same; nobody changes them."""
    attrs: Attributes = [
        (found[1].lower(), unescape(found[found.lastindex or 1]) if found.lastindex != 1 else None)
        for found in ATTRIBUTE.finditer(text)
    ]
    return attrs, {key: value or "" for key, value in attrs}


def _find_end(html: str, name: str, at: int) -> int:
    """Where the element ends whose start ends here: others of its name may be open in it."""
    depth = 1
    for tag in re.finditer(rf"<(/?){name}(?=[\s/>]){INSIDE}(?<!/)>", html[at:]):
        depth += -1 if tag[1] else 1
        if not depth:
            return at + tag.end()
    return len(html)


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

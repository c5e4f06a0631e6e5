"""The example that ships, published and opened from a plain file server below a sub-path."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import orjson
import pytest
from django.urls import resolve
from playwright.sync_api import Browser, Page

from benchapp.experiments.example_experiment import EXAMPLE
from benchapp.experiments.launch import experiment_id
from benchapp.imports.shipped_example import take_in_example
from benchapp.models import Experiment, Run, Trial
from inspector.publishing.site import publish
from tests.browser.conftest import HEAR_VIOLATIONS
from tests.browsing import inaccessible, settle

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

LINK = re.compile(r' (?:href|src|data-chart|data-page)="([^"#]+)')
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 800}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """(folder of the site, its address), with the pages of two trials.
    Of the example's runs two are left: each has every kind of page."""
    take_in_example()
    experiment = Experiment.objects.get(public_id=experiment_id(str(EXAMPLE["key"])))
    kept = [Run.objects.filter(experiment=experiment, condition=name)[0].pk for name in ("no-skill", "selfgen-always")]
    Run.objects.filter(experiment=experiment).exclude(pk__in=kept).delete()
    trials = Trial.objects.filter(episode__run__experiment=experiment, success=False, skills_read__gt=0)[:2]
    folder = tmp_path / "papers" / "ours"
    folder.parent.mkdir()
    publish(experiment, folder, [trial.public_id for trial in trials], replace=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}/papers/ours/"
        server.shutdown()


def test_it_works_from_a_plain_file_server(served: tuple[Path, str], browser: Browser) -> None:
    """One test, since the site takes long to write: each link by HTTP, then a page of every kind in the browser."""
    folder, base = served
    rows = orjson.loads((folder / "manifest.json").read_bytes())["files"]
    reached = walk(base)
    pages = {row["path"] for row in rows if "address" in row}
    assert pages - reached == {"compare/index.html"} & pages  # every page can be reached from the first
    context = browser.new_context(viewport=DESK, color_scheme="light")  # type: ignore[arg-type]
    context.add_init_script(HEAR_VIOLATIONS)
    heard = [f"{path}: {said}" for path in choose_pages(rows) for said in open_page(context.new_page(), base, path)]
    context.close()
    assert heard == []
    follow_a_point(browser.new_page(), base)


def walk(base: str) -> set[str]:
    """The files that links lead to, page after page; each is there."""
    waiting, seen = [base], {base}
    while waiting:
        address = waiting.pop()
        with urlopen(address) as answer:  # raises for whatever is not 200
            content = answer.read()
        if not address.endswith((".html", "/")):
            continue
        for href in LINK.findall(content.decode()):
            target = urljoin(address, href)
            if target.startswith(base) and target not in seen:
                seen.add(target)
                waiting.append(target)
            assert target.startswith(base) or urlsplit(target).scheme == "https", (address, href)
    return {each.removeprefix(base) or "index.html" for each in seen}


def choose_pages(rows: list[dict[str, str]]) -> list[str]:
    """The largest page of each kind."""
    largest: dict[str, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: row["bytes"]):
        if row["path"].endswith(".html"):
            largest[resolve(row["address"].partition("?")[0]).url_name or ""] = row
    assert {"experiment", "run", "library", "blame", "trial", "chart", "compare-trials", "published"} <= set(largest)
    return [row["path"] for row in largest.values()]


def open_page(page: Page, base: str, path: str) -> list[str]:
    """What is wrong with it: messages, requests elsewhere or in vain, elements that need a server, what axe finds.
    First in light on a desk, then in dark on a phone, without loading it again."""
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((base, "blob:", "data:")) else heard.append(request.url),
    )
    page.on("response", lambda answer: None if answer.status < 400 else heard.append(f"{answer.status} {answer.url}"))
    page.goto(base + path)
    settle(page)
    heard += [f"<{tag}>" for tag in ("form", "dialog", "kbd", "select") if page.locator(tag).count()]
    heard += [f"{rule}: {element}" for rule, element in inaccessible(page)]  # in dark it looks at the served pages
    for size in (DESK, PHONE):
        if size is PHONE:
            page.emulate_media(color_scheme="dark")
            page.set_viewport_size(size)  # type: ignore[arg-type]
            settle(page)
            page.wait_for_function("!document.querySelector('figure[data-drawn=light]')")
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            heard.append(f"wider than {size['width']}")
    heard += page.evaluate("window.violations")
    page.close()
    return heard


def follow_a_point(page: Page, base: str) -> None:
    """A point of a chart opens its trials, from the page of the chart as from the first page, which lies elsewhere."""
    page.goto(base + "compare/charts/forest/index.html")
    page.wait_for_selector("figure[data-drawn]")
    page.focus(".chart-plot")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(re.escape(base) + r"compare/trials/(index|q-\w+)\.html"))
    assert "Trials" in page.title()
    page.close()

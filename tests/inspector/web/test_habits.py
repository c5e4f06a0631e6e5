"""Rules that hold for every page: a rule that nobody checks is a wish."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command, get_commands
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, get_resolver

from tests.conftest import IS_FULL
from tests.pages import PAGES, address, make_world

ROOT = Path(__file__).resolve().parents[3]
# A report is taken away as one file: it carries style and scripts inside, under a policy of its own (test_report).
TAKEN_AWAY = {"report.html", "report.css", "capsule.html", "capsule.css", "taxonomy.html"}
TEMPLATES = sorted(path for path in (ROOT / "templates").rglob("*.html") if path.name not in TAKEN_AWAY)
SCRIPTS = sorted((ROOT / "static" / "js").rglob("*.js"))
STYLES = sorted(path for path in (ROOT / "static" / "css").rglob("*.css") if path.name not in TAKEN_AWAY)
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Parts and acts: asked for by a page, never opened by themselves. Their own tests are named beside them.
PARTS = {
    "suite-families": "inspector/suites/test_suites",
    "suite-join": "inspector/suites/test_joined_suites",
    "suite-workflows-file": "inspector/suites/test_workflow_pages",
    "review-save": "inspector/review/test_coding_page",
    "review-submit": "inspector/review/test_coding_page",
    "review-skip": "inspector/review/test_coding_page",
    "review-release": "inspector/review/test_coding_page",
    "review-ahead": "inspector/review/test_coding_page",
    "review-guess": "inspector/review/test_coding_page",
    "review-propose": "inspector/review/test_coding_page",
    "queue-next": "inspector/review/test_queue_pages",
    "queue-people": "inspector/review/test_queue_pages",
    "queue-close": "inspector/review/test_queue_pages",
    "queue-second-pass": "inspector/review/test_passes",
    "results-chart": "inspector/review/test_results_page",
    "labels-export": "inspector/review/test_results_page",
    "results-export": "inspector/review/test_results_page",
    "agreement-keep": "inspector/review/test_agreement_pages",
    "disagreements-open": "inspector/review/test_agreement_pages",
    "healthz": "inspector/web/test_health",
    "readyz": "inspector/web/test_health",
    "operate-act": "inspector/jobs/test_operate",
    "login": "inspector/people/test_login",
    "logout": "inspector/people/test_login",
    "sso": "inspector/people/test_single_sign_on",
    "sso-callback": "inspector/people/test_single_sign_on",
    "password": "inspector/people/test_login",
    "comments-about": "inspector/people/test_comments",
    "comment-write": "inspector/people/test_comments",
    "comment-retract": "inspector/people/test_comments",
    "comments-read": "inspector/people/test_comments",
    "account-invite": "inspector/people/test_invitations",
    "invitation-withdraw": "inspector/people/test_invitations",
    "join": "inspector/people/test_invitations",
    "publication-delete": "inspector/publishing/test_publications",
    "publication-file": "inspector/publishing/test_publications",
    "token-make": "inspector/people/test_tokens",
    "token-revoke": "inspector/people/test_tokens",
    "account-change": "inspector/people/test_people",
    "review-field": "inspector/review/test_exhibit",
    "imports-accept": "inspector/imports/test_imports_page",
    "imports-arrange": "inspector/imports/test_imports_page",
    "imports-assign": "inspector/imports/test_imports_page",
    "imports-undo": "inspector/imports/test_imports_page",
    "imports-paths": "inspector/imports/test_uploads",
    "uploads": "inspector/imports/test_uploads",
    "upload": "inspector/imports/test_uploads",
    "upload-pieces": "inspector/imports/test_uploads",
    "upload-finish": "inspector/imports/test_uploads",
    "upload-discard": "inspector/imports/test_uploads",
    "chart-csv": "inspector/charts/test_chart_pages",
    "compare-export": "benchapp/exports/test_exports",
    "compare-report": "inspector/compare/test_report",
    "document-picture": "inspector/documents/test_documents",
    "comparison-save": "inspector/compare/test_comparisons",
    "comparison-report": "inspector/compare/test_report",
    "comparison-export": "inspector/compare/test_comparisons",
    "suggestions-run": "inspector/review/test_suggestions_page",
    "queue-reviews": "inspector/review/test_agreement_pages",
    "queue-forget": "inspector/review/test_passes",
    "codebook-new": "inspector/review/test_codebook_pages",
    "codebook-draft": "inspector/review/test_codebook_pages",
    "codebook-export": "inspector/review/test_codebook_pages",
    "codebook-freeze": "inspector/review/test_codebook_pages",
    "codebook-discard": "inspector/review/test_codebook_pages",
    "codebook-clone": "inspector/review/test_codebook_pages",
    "code-add": "inspector/review/test_codebook_pages",
    "code-act": "inspector/review/test_codebook_pages",
    "example-remove": "inspector/review/test_codebook_pages",
    "mark-example": "inspector/review/test_codebook_pages",
    "trial-field": "inspector/trials/test_trial",
    "trial-image": "inspector/trials/test_images",
    "trial-steps": "inspector/trials/test_trial",
    "trial-outline": "inspector/trials/test_trial",
    "trial-parting": "inspector/trials/test_trial",
    "trial-text": "inspector/trials/test_trial",
    "library-file": "inspector/library/test_library",
    "findings-ask": "inspector/library/test_findings",
    "trial-capsule": "inspector/library/test_capsule",
    "trial-trajectory": "inspector/trials/test_trajectory_file",
    "library-capsule": "inspector/library/test_capsule",
    "palette": "inspector/search/test_palette",
    "trial-live": "inspector/trials/test_live_trial",
    "author-text": "inspector/library/test_author_call",
}


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Written once: pages are read here, and whatever a test writes is rolled back."""
    with django_db_blocker.unblock():
        make_world()
    yield
    with django_db_blocker.unblock():
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture(scope="module")
def visit(world: None) -> Callable[[str], HttpResponse]:
    """Opens the page of this name; each page is rendered once for all who only look at what was sent."""
    return cache(lambda name: Client().get(address(name)))


def names() -> set[str]:
    return {pattern.name for pattern in get_resolver("inspector.urls").url_patterns if isinstance(pattern, URLPattern)}


def test_every_address_is_a_page_with_a_twin_or_a_part() -> None:
    twins = {f"{name}-json" for name in PAGES}
    assert names() == {*PAGES, *twins, *PARTS}


@pytest.mark.parametrize("part", PARTS.values())
def test_every_part_has_its_own_test(part: str) -> None:
    assert (ROOT / "tests" / f"{part}.py").exists()


@pytest.mark.smoke
@pytest.mark.django_db
@pytest.mark.parametrize("name", PAGES)
def test_every_page_answers_with_the_frame(visit: Callable[[str], HttpResponse], name: str) -> None:
    response = visit(name)
    assert response.status_code == 200
    assert response.text.count("<h1") == 1
    assert '<a class="skip" href="#main">' in response.text
    assert re.search(r"<title>\s*\S.* · Skillglass</title>", response.text)
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]


@pytest.mark.smoke
@pytest.mark.django_db
@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_a_twin_under_its_own_address(client: Client, world: None, name: str) -> None:
    url = address(name)
    twin = client.get((url.rstrip("/") or "/index") + ".json")
    assert twin.status_code == 200
    assert twin["Content-Type"] == "application/json"
    assert isinstance(twin.json(), dict)
    assert "next" in twin.json()


ODD_QUERIES = (
    *("page=x", "sort=;drop", "status=9", "episode=x", "from=x&to=-9", "decision=%00", "file=../../etc/passwd"),
    *("covered=x", "replay=x", "view=x", "tab=x", "step=x", "step=99999999999999999999", "first=-1", "attempt=x"),
    *("trajectory=x", "page=²"),
)
ODD = list(product(PAGES, ODD_QUERIES))


# Every page and every query each time, in a third of their pairs; in all with FULL=1.
@pytest.mark.django_db
@pytest.mark.parametrize(("name", "query"), ODD if IS_FULL else ODD[::3])
def test_no_query_breaks_a_page(client: Client, world: None, name: str, query: str) -> None:
    assert client.get(f"{address(name)}?{query}").status_code in {200, 400, 404}  # 400: refused in words


@pytest.mark.smoke
@pytest.mark.django_db
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_inline_in_what_is_sent(visit: Callable[[str], HttpResponse], name: str) -> None:
    assert not inline(visit(name).text)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_nothing_is_inline_in_a_template(path: Path) -> None:
    assert not inline(path.read_text())


@pytest.mark.parametrize(
    "html",
    [
        '<p style="color:red">',
        "<style>p{}</style>",
        "<script>alert(1)</script>",
        '<a onclick="x()">',
        '<a href="javascript:x()">',
        '<a hx-on:click="x()">',
        '<a href="#">',
        '<img src="https://elsewhere.example/x.png">',
    ],
)
def test_the_check_itself_sees_what_is_inline(html: str) -> None:
    assert inline(html)


def inline(html: str) -> list[str]:
    """What the content policy would block, or what leads nowhere."""
    rules = (
        r"\sstyle\s*=",
        r"<style",
        r"<script(?![^>]*\ssrc=)(?![^>]*type=\"application/json\")[^>]*>",
        r"\son[a-z]+\s*=",
        r"javascript:",
        r"hx-on",
        r"href=\"#\"",
        r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=\"https?://",
    )
    return [found.group(0) for rule in rules for found in re.finditer(rule, html, re.IGNORECASE)]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_trusts_a_text(path: Path) -> None:
    assert not re.search(r"\|\s*safe\b|autoescape off", path.read_text())


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_every_style_stands_in_a_layer_and_every_colour_knows_both_themes(path: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    assert "@layer" in text
    outside = re.sub(r"@layer[^;{]*;", "", text)
    assert outside.strip().startswith("@layer")
    # A colour that only one component uses may stand there, but for both themes.
    single = re.sub(r"light-dark\([^()]*(?:\([^()]*\)[^()]*)*\)", "", text)
    if path.name != "tokens.css":
        assert not re.search(r"#[0-9a-f]{3,8}\b", single, re.IGNORECASE)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_evaluates_text(path: Path) -> None:
    assert not re.search(r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write", path.read_text())


@pytest.mark.django_db
def test_a_page_that_is_not_there_says_so_in_the_frame(client: Client) -> None:
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "Page not found" in response.text


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.django_db
def test_the_server_prints_the_theme_of_the_cookie(client: Client, theme: str) -> None:
    client.cookies["theme"] = theme
    assert f'<html lang="en" data-theme="{theme}">' in client.get("/").text


@pytest.mark.django_db
def test_the_server_prints_no_other_cookie(client: Client) -> None:
    client.cookies["theme"] = '"><script>'
    assert '<html lang="en">' in client.get("/").text


# --- documents --------------------------------------------------------------------------------------------------


NAMED_COMMAND = re.compile(r"(?:manage\.py|\{% manage [^%]*%\}) ([a-z_]+)")


def documented() -> list[tuple[str, str]]:
    found = []
    for path in DOCUMENTS:
        if path.exists():
            found += [(path.name, name) for name in re.findall(r"manage\.py ([a-z_]+)", path.read_text())]
    for path in TEMPLATES:
        found += [(path.name, name) for name in NAMED_COMMAND.findall(path.read_text())]
    return sorted(set(found))


@pytest.mark.parametrize(("document", "command"), documented())
def test_every_command_a_document_names_exists(document: str, command: str) -> None:
    assert command in {*get_commands(), "help"}, f"{document} names manage.py {command}"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_page_names_commands_as_they_are_typed_where_it_runs(path: Path) -> None:
    """`{% manage %}`: a wheel has no manage.py. A capsule has equal bytes wherever it is made."""
    assert path.name == "capsule.html" or "manage.py " not in path.read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_in_a_document_leads_somewhere(path: Path) -> None:
    if not path.exists():
        pytest.fail(f"{path.name} is missing")
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"

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
    "run-log": "inspector/imports/test_sent_logs",
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
    "metrics": "benchapp/experiments/test_work_metrics",
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
    "library-take": "inspector/library/test_take",
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


def test_every_part_has_its_own_test() -> None:
    assert [part for part in PARTS.values() if not (ROOT / "tests" / f"{part}.py").exists()] == []


@pytest.mark.smoke
@pytest.mark.django_db
def test_every_page_answers_with_the_frame(visit: Callable[[str], HttpResponse]) -> None:
    assert {name: broken for name in PAGES if (broken := list(list_broken(visit(name))))} == {}


def list_broken(response: HttpResponse) -> Iterator[str]:
    """What a page has to be, where it is not."""
    policy = response["Content-Security-Policy"]
    rules = {
        f"status {response.status_code}": response.status_code == 200,
        "one h1": response.text.count("<h1") == 1,
        "a link to the content": '<a class="skip" href="#main">' in response.text,
        "the h1 in the content": "<h1" in response.text.partition('<main id="main"')[2].partition("</main>")[0],
        "a title": re.search(r"<title>\s*\S.* · Skillglass</title>", response.text),
        "the policy": "default-src 'none'" in policy and "unsafe" not in policy,
    }
    yield from (rule for rule, holds in rules.items() if not holds)
    yield from inline(response.text)


@pytest.mark.smoke
@pytest.mark.django_db
def test_every_page_has_a_twin_under_its_own_address(client: Client, world: None) -> None:
    broken = []
    for name in PAGES:
        twin = client.get((address(name).rstrip("/") or "/index") + ".json")
        is_json = twin.status_code == 200 and twin["Content-Type"] == "application/json"
        if not is_json or "next" not in twin.json():
            broken.append(name)
    assert broken == []


ODD_QUERIES = (
    *("page=x", "sort=;drop", "status=9", "episode=x", "from=x&to=-9", "decision=%00", "file=../../etc/passwd"),
    *("covered=x", "replay=x", "view=x", "tab=x", "step=x", "step=99999999999999999999", "first=-1", "attempt=x"),
    *("trajectory=x", "page=²"),
)
ODD = list(product(PAGES, ODD_QUERIES))


# Every page and every query each time, in a third of their pairs; in all with FULL=1.
@pytest.mark.django_db
def test_no_query_breaks_a_page(client: Client, world: None) -> None:
    asked = [f"{address(name)}?{query}" for name, query in (ODD if IS_FULL else ODD[::3])]
    answers = {url: client.get(url).status_code for url in asked}
    assert {
        url: status for url, status in answers.items() if status not in {200, 400, 404}
    } == {}  # 400: refused in words


def offenders(paths: list[Path], broken: Callable[[str], object]) -> list[str]:
    """The files whose text breaks a rule."""
    return [path.name for path in paths if broken(path.read_text())]


def test_nothing_is_inline_in_a_template() -> None:
    assert offenders(TEMPLATES, inline) == []


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


def test_no_template_trusts_a_text() -> None:
    assert offenders(TEMPLATES, re.compile(r"\|\s*safe\b|autoescape off").search) == []


def test_every_style_is_in_a_layer_and_every_colour_and_size_of_text_is_a_token() -> None:
    assert offenders(STYLES, is_outside_a_layer) == []
    assert offenders([path for path in STYLES if path.name != "tokens.css"], holds_a_value) == []


def is_outside_a_layer(style: str) -> bool:
    text = re.sub(r"@layer[^;{]*;", "", without_comments(style))
    return not text.strip().startswith("@layer")


def holds_a_value(style: str) -> bool:
    """Is there a colour, or a size of text, that tokens.css should name?"""
    value = r"#[0-9a-f]{3,8}\b|\brgb\(|light-dark\(|font-size: \d|font:(?:[^;]* )?\d[\d.]*px"
    return bool(re.search(value, without_comments(style), re.IGNORECASE))


def without_comments(style: str) -> str:
    return re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)


def test_no_script_evaluates_text() -> None:
    evaluates = re.compile(r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write")
    assert offenders(SCRIPTS, evaluates.search) == []


def test_scripts_of_one_page_do_not_share_names() -> None:
    """Classic scripts have one scope: a second function of a name takes the place of the first."""
    shared = {}
    for template in TEMPLATES:
        text = template.read_text()
        classic = re.findall(r'<script src="{% static "js/([\w-]+\.js)" %}" defer></script>', text)
        names = [name for script in {"keys.js", "theme.js", *classic} for name in list_globals(script)]
        if twice := {name for name in names if names.count(name) > 1}:
            shared[template.name] = twice
    assert shared == {}


def list_globals(script: str) -> list[str]:
    text = (ROOT / "static" / "js" / script).read_text()
    return re.findall(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", text, re.MULTILINE)


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


def test_every_command_a_document_names_exists() -> None:
    known = {*get_commands(), "help"}
    assert [f"{document}: {command}" for document, command in documented() if command not in known] == []


def test_a_page_names_commands_as_they_are_typed_where_it_runs() -> None:
    """`{% manage %}`: a wheel has no manage.py. A capsule has equal bytes in every installation."""
    assert (
        offenders([path for path in TEMPLATES if path.name != "capsule.html"], lambda text: "manage.py " in text) == []
    )


def test_every_link_in_a_document_leads_somewhere() -> None:
    broken = [
        f"{path.name}: {target}"
        for path in DOCUMENTS
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text())
        if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists()
    ]
    assert broken == []

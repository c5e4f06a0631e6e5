"""`/docs/`: every document is a page, and every link between them leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from inspector.pages.documents import documents
from inspector.pages.documents.documents import list_entries, read_document
from inspector.pages.documents.documents_view import search_documents

DOCS = Path(__file__).resolve().parents[3] / "docs"
NAMES = sorted(path.relative_to(DOCS).as_posix().removesuffix(".md") for path in DOCS.rglob("*.md"))


def test_every_link_of_a_document_leads_to_a_document_a_picture_or_a_heading() -> None:
    pages = {name: read_document(name).html for name in NAMES}
    anchors = {name: {"", *re.findall(r' id="([^"]+)"', html)} for name, html in pages.items()}
    broken = []
    for name, html in pages.items():
        for link in re.findall(r'(?:href|src|srcset)="([^"]*)"', html):
            address, _, anchor = link.partition("#")
            if address.startswith("/docs/pictures/"):
                leads = (DOCS / address.removeprefix("/docs/")).is_file()
            elif "://" not in address:
                target = (address.removeprefix("/docs/").strip("/") or "README") if address else name
                leads = anchor in anchors.get(target, ())
            else:
                leads = True
            broken += [] if leads else [f"{name}: {link}"]
    assert broken == []


def test_documents_of_an_installed_program_name_commands_as_they_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"IS_INSTALLED": True, "MANAGE": "skillglass", "DEMO": "skillglass demo"}.items():
        monkeypatch.setattr(documents, name, value)
    assert "skillglass demo --model small" in read_document("reference/models").text
    texts = {name: read_document(name).text for name in NAMES}
    assert [name for name, text in texts.items() if "python manage.py" in text or "make demo" in text] == []
    assert "python3 manage.py add_user" in texts["how-to/deploy"]  # in the container, where it is so


@pytest.mark.django_db
def test_a_page_shows_one_document_under_its_title(client: Client) -> None:
    response = client.get("/docs/explanation/sandboxes/")
    assert "<h1>Sandboxes</h1>" in response.text
    assert '<h2 id="where-the-worker-runs">' in response.text
    assert client.get("/docs/explanation/sandboxes.json").json()["title"] == "Sandboxes"


@pytest.mark.django_db
def test_a_picture_is_sent_as_one(client: Client) -> None:
    response = client.get("/docs/pictures/charts/forest-light.png")
    assert response["Content-Type"] == "image/png"
    assert b"".join(response.streaming_content).startswith(b"\x89PNG")  # type: ignore[attr-defined]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    ["nothing/", "nothing.json", "..%2Fbenchapp%2Fsettings/", "../README/", "pictures/nothing.png", "README.md/"],
)
def test_what_is_no_document_is_not_there(client: Client, path: str) -> None:
    assert client.get(f"/docs/{path}").status_code == 404


def test_every_document_stands_in_the_index_under_its_title() -> None:
    entries = list_entries()
    assert sorted(entry.name for entry in entries) == sorted(set(NAMES) - {"README"})
    assert [entry for entry in entries if entry.title != read_document(entry.name).title or not entry.about] == []


def test_every_contents_leads_to_its_heading_once() -> None:
    for name in NAMES:
        found = read_document(name)
        anchors = [each.anchor for each in found.sections[1:] if each.level <= 3]
        assert len(anchors) == len(set(anchors)), name
        assert all(f'id="{anchor}"' in found.html for anchor in anchors), name


@pytest.mark.django_db
def test_a_page_has_all_documents_its_contents_and_its_neighbours(client: Client) -> None:
    page = client.get("/docs/explanation/statistics/").text
    tree = page.partition('id="doc-tree"')[2].partition("</nav>")[0]
    assert tree.count("<li>") == len(list_entries())
    assert 'href="/docs/explanation/statistics/" aria-current="page">Statistics</a>' in tree
    contents = page.partition('id="doc-contents"')[2].partition("</nav>")[0]
    assert contents.count('href="#') > 5
    assert 'href="/docs/architecture/" rel="prev"' in page
    assert 'href="/docs/explanation/sandboxes/" rel="next"' in page
    first, last = (client.get(list_entries()[place].url).text for place in (0, -1))
    assert 'rel="prev"' not in first
    assert 'rel="next"' not in last


def test_a_title_comes_before_a_heading_and_a_heading_before_a_text() -> None:
    found = [each.entry.name for each in search_documents("sandboxes")]
    assert found[0] == "explanation/sandboxes"
    assert len(found) > 3
    (best, *_) = search_documents("import secrets")
    assert (best.entry.name, best.sections[0].title) == ("how-to/importing", "Secrets")
    assert search_documents("import")[0].sections[0].pieces


def test_a_short_word_finds_itself_and_every_word_counts() -> None:
    assert search_documents("zebra skill") == []
    pieces = [piece for each in search_documents("no skill") for part in each.sections for piece in part.pieces]
    assert {text.lower() for text, is_hit in pieces if is_hit} == {"no", "skill"}


@pytest.mark.django_db
def test_the_search_shows_hits_as_text_and_says_what_to_do_without_any(client: Client) -> None:
    page = client.get("/docs/", {"q": "lease"}).text
    assert "<mark>lease</mark>" in page
    assert client.get("/docs.json", {"q": "lease"}).json()["found"][0]["url"].endswith("/")
    page = client.get("/docs/", {"q": "<b>zebra</b>"}).text
    assert "No section has every word of “&lt;b&gt;zebra&lt;/b&gt;”" in page
    assert "/search/?q=%3Cb%3Ezebra%3C/b%3E" in page


def list_named_files() -> list[tuple[str, str]]:
    """(document, path in this project that it names). `tests/` counts in what describes this code: elsewhere it is a
    folder of a task."""
    named = []
    for name in NAMES:
        text = (DOCS / f"{name}.md").read_text()
        folders = "runner|benchapp|inspector|demo|lab|examples|templates|static"
        if name in ("architecture", "how-to/extending", "reference/rooms"):
            folders += "|tests"
        for path in re.findall(rf"`((?:{folders})/[\w/.{{}},*-]+)`", text):
            start, _, rest = path.partition("{")
            words, _, end = rest.partition("}")
            named += [(name, f"{start}{word}{end}") for word in words.split(",")] if rest else [(name, path)]
    return named


def test_every_file_that_a_document_names_exists() -> None:
    named = list_named_files()
    assert [f"{name}: {path}" for name, path in named if not any(DOCS.parent.glob(path.rstrip("/")))] == []


def list_rooms() -> list[str]:
    """The folders of each layer, and those of the pages."""
    root = DOCS.parent
    folders = [
        path.parent for layer in ("runner", "benchapp", "inspector") for path in root.glob(f"{layer}/*/__init__.py")
    ]
    pages = root / "inspector" / "pages"
    folders += [path.parent for path in pages.glob("*/__init__.py")]
    return sorted(f"{path.relative_to(root)}/" for path in folders if path != pages)


def test_every_room_is_described() -> None:
    text = (DOCS / "reference" / "rooms.md").read_text()
    assert [room for room in list_rooms() if f"| `{room}` |" not in text] == []


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    uneven = []
    for path in sorted(DOCS.rglob("*.md")):
        tables = re.findall(r"(?:^\|.*\n)+", path.read_text(), re.MULTILINE)
        for rows in (re.sub(r"`[^`\n]*`|\\\|", "", table).splitlines() for table in tables):
            uneven += [f"{path.name}: {row}" for row in rows if row.count("|") != rows[0].count("|")]
    assert uneven == []


@pytest.mark.django_db
def test_a_search_lists_ten_pages_and_quotes_sentences_alone(client: Client) -> None:
    text = client.get("/docs/?q=replicate").text
    assert text.count("<section><h2") == 10
    assert re.search(r"<summary>\d+ more</summary>", text)
    for command in ("manage.py run_experiment", "END ", "| ---"):
        assert command not in text.partition('class="doc-found')[2]

"""`/docs/`: every document is a page, and every link between them leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from inspector.pages.documents import documents
from inspector.pages.documents.documents import read_document

DOCS = Path(__file__).resolve().parents[3] / "docs"
NAMES = sorted(path.relative_to(DOCS).as_posix().removesuffix(".md") for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_a_document_leads_to_a_document_a_picture_or_a_heading(name: str) -> None:
    html = read_document(name).html
    anchors = {other: set(re.findall(r' id="([^"]+)"', read_document(other).html)) for other in NAMES}
    for link in re.findall(r'(?:href|src|srcset)="([^"]*)"', html):
        address, _, anchor = link.partition("#")
        if address.startswith("/docs/pictures/"):
            assert (DOCS / address.removeprefix("/docs/")).is_file(), link
        elif "://" not in address:
            target = address.removeprefix("/docs/").strip("/") if address else name
            target = target or "README"
            assert target in NAMES, link
            assert not anchor or anchor in anchors[target], link


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


def test_every_document_stands_in_the_index() -> None:
    listed = set(re.findall(r"\]\(([a-z/-]+)\.md\)", (DOCS / "README.md").read_text()))
    assert listed == set(NAMES) - {"README"}


def list_named_files() -> list[tuple[str, str]]:
    """(document, path in this project that it names). `tests/` counts in the architecture alone: elsewhere it is a folder
    of a task."""
    named = []
    for name in NAMES:
        text = (DOCS / f"{name}.md").read_text()
        folders = "runner|benchapp|inspector|demo|benchmarks|examples|templates|static"
        if name == "architecture":
            folders += "|tests"
        for path in re.findall(rf"`((?:{folders})/[\w/.{{}},*-]+)`", text):
            start, _, rest = path.partition("{")
            words, _, end = rest.partition("}")
            named += [(name, f"{start}{word}{end}") for word in words.split(",")] if rest else [(name, path)]
    return named


@pytest.mark.parametrize(("name", "path"), list_named_files())
def test_every_file_that_a_document_names_is_there(name: str, path: str) -> None:
    assert list(DOCS.parent.glob(path.rstrip("/"))), f"{name} names {path}"


def list_rooms() -> list[str]:
    """The folders of each layer, and those of the pages."""
    root = DOCS.parent
    folders = [
        path.parent for layer in ("runner", "benchapp", "inspector") for path in root.glob(f"{layer}/*/__init__.py")
    ]
    pages = root / "inspector" / "pages"
    folders += [path.parent for path in pages.glob("*/__init__.py")]
    return sorted(f"{path.relative_to(root)}/" for path in folders if path != pages)


@pytest.mark.parametrize("room", list_rooms())
def test_every_room_stands_in_the_architecture(room: str) -> None:
    assert f"| `{room}` |" in (DOCS / "architecture.md").read_text()


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.relative_to(DOCS).as_posix())
def test_every_row_of_a_table_has_as_many_cells_as_its_head(path: Path) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", path.read_text(), re.MULTILINE)
    for rows in (re.sub(r"`[^`\n]*`|\\\|", "", table).splitlines() for table in tables):
        assert [row for row in rows if row.count("|") != rows[0].count("|")] == []

"""docs/glossary.md names every model, every part of an address and every thing a page's title names, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

from benchapp.stats.comparing.effects import WORDS
from inspector.urls import urlpatterns

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
THINGS = 5  # columns of a table of things: word, on pages, model, address, meaning
ACTS = 2  # part of an address, what it does
NAMES = 3  # say, of, never
GUIDES = sorted(
    [*(ROOT / "docs" / "tutorial").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md"), ROOT / "README.md"]
)

# Words of titles that name no thing. A word that no title has any more is taken out of here.
ORDINARY = set(
    """
    a access account again against allowed an and as at bad behind broke cannot carry change changed closed compare did differences do does each end failed
    for form found how it join launch log logged means my new no not nothing now number of on other over page password
    publish qualify linked measured most papers read request right save saved saw send settle since skillglass something the their these this to two unknown
    v wait want was were what while why work you your
    """.split()  # noqa: E501
)


def read_rows(columns: int) -> list[list[str]]:
    """The rows of the tables that have so many columns, without their heads."""
    lines = [line for line in GLOSSARY.splitlines() if line.startswith("|") and not line.startswith("|---")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if len(row) == columns and row[0] not in {"word", "part of an address", "say"}]


def read_codes(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def read_segments() -> set[str]:
    """The literal parts of every path, without endings: "runs/<uuid:id>/labels.<str:form>" has "runs" and "labels"."""
    routes = [re.sub(r"<[^>]*>", "<>", str(pattern.pattern)) for pattern in urlpatterns]
    parts = {part.partition(".")[0].replace("<>", "") for route in routes for part in route.split("/")}
    return parts - {""}


def read_titles() -> Iterator[tuple[str, str]]:
    """(template, its literal title or heading).
    A heading that is the page's answer is a sentence, and names no thing."""
    for path in TEMPLATES:
        text = path.read_text()
        for title in re.findall(
            r"\{% block (?:title|heading) %\}(.*?)\{% endblock %\}|<h1(?! class=\"jobs-answer)[^>]*>(.*?)</h1>",
            text,
            re.DOTALL,
        ):
            literal = re.sub(
                r"\{%.*?%\}|\{\{.*?\}\}|<span.*?</span>|<[^>]*>|&\w+;", " ", " ".join(title), flags=re.DOTALL
            )
            yield path.relative_to(ROOT / "templates").as_posix(), literal


def list_forms(word: str) -> set[str]:
    """The word in the singular and the plural."""
    ends = {word, f"{word}s", f"{word}es"}
    return ends | ({f"{word[:-1]}ies"} if word.endswith("y") else set())


def list_things() -> set[str]:
    """Every single word of the words and page names, in both numbers."""
    names = [name for row in read_rows(THINGS) for name in re.findall(r"[a-z]+", f"{row[0]} {row[1]}".lower())]
    return {form for name in names for form in list_forms(name)}


def test_every_model_has_one_entry_and_every_entry_a_model() -> None:
    listed = read_codes([row[2] for row in read_rows(THINGS)])
    assert sorted(listed) == sorted(model.__name__ for model in apps.get_app_config("benchapp").get_models())


def test_every_part_of_an_address_has_one_entry_and_every_entry_an_address() -> None:
    listed = read_codes([row[3] for row in read_rows(THINGS)] + [row[0] for row in read_rows(ACTS)])
    assert sorted(listed) == sorted(read_segments())


def test_no_word_has_two_entries() -> None:
    words = [row[0] for row in read_rows(THINGS)]
    assert len(set(words)) == len(words)


def test_every_thing_in_a_title_is_in_the_glossary() -> None:
    known = ORDINARY | list_things()
    words = {(name, word) for name, title in read_titles() for word in re.findall(r"[a-z]+", title.lower())}
    assert sorted((name, word) for name, word in words if word not in known) == []


def test_every_ordinary_word_stands_in_a_title() -> None:
    words = {word for _, title in read_titles() for word in re.findall(r"[a-z]+", title.lower())}
    assert ORDINARY - words == set()


def test_every_entry_is_a_word_that_pages_show() -> None:
    """In the names a page shows, or else under the word itself."""
    texts = [path.read_text() for path in [*TEMPLATES, *(ROOT / "inspector").rglob("*.py")]]
    shown = as_words("\n".join([*texts, *WORDS.values()]))
    names = [name for row in read_rows(THINGS) for name in (row[1] or row[0]).split(", ")]
    assert [name for name in names if not any(as_words(form) in shown for form in list_forms(name))] == []


def as_words(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "


def read_words(path: Path) -> str:
    """What people read of a template or a guide: without tags, code and comments."""
    text = path.read_text()
    if path.suffix == ".html":
        return re.sub(r"\{[%{#].*?[%}#]\}|<(?:code|svg)[^>]*>.*?</(?:code|svg)>|<[^>]*>", " ", text, flags=re.DOTALL)
    return re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)


def test_no_page_and_no_guide_uses_a_second_name() -> None:
    names = [name for row in read_rows(NAMES) for name in row[2].split(", ")]
    second = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
    found = {path.name: second.findall(read_words(path)) for path in [*TEMPLATES, *GUIDES]}
    assert {name: words for name, words in found.items() if words} == {}

"""`/docs/`: the project's own documents, for readers of an installation, and the search over them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from django.http import FileResponse, Http404, HttpRequest, HttpResponse

from benchapp.record.json_shape import JsonShape
from inspector.pages.documents.documents import (
    INDEX,
    IndexEntry,
    Section,
    find_picture,
    list_entries,
    read_document,
    read_index,
)
from inspector.web.responses import link_to, render_page

SECTIONS_SHOWN = 3  # of one document
BEFORE, EXCERPT = 60, 210  # characters before the first hit, and in total
MAX_WORDS, LONGEST = 8, 100
SHORT = 3  # letters
WordPatterns = Sequence[re.Pattern[str]]
LAST_LEVEL = 3  # of the headings that the contents of a page list


class FoundSection(NamedTuple):
    """`pieces`: (text, is it one of the words?), from around the first hit."""

    title: str
    anchor: str
    pieces: Sequence[tuple[str, bool]]


class FoundDocument(NamedTuple):
    entry: IndexEntry
    sections: Sequence[FoundSection]
    more: int  # sections that are not listed


def search_documents(text: str) -> list[FoundDocument]:
    """Return the documents whose title, heading and text have every word between them.
    Titles count most, then headings."""
    words = [_compile(word) for word in dict.fromkeys(text.lower().split()[:MAX_WORDS])]
    found = [each for entry, sections in _read_all() if words and (each := _search(entry, sections, words))]
    return [document for _, document in sorted(found, key=lambda each: -each[0])]


def _compile(word: str) -> re.Pattern[str]:
    """Compile a word of the search: it finds words that begin with it; a short one only itself."""
    return re.compile(rf"(?<!\w){re.escape(word)}" + r"(?!\w)" * (len(word) <= SHORT), re.IGNORECASE)


@cache
def _read_all() -> Sequence[tuple[IndexEntry, Sequence[Section]]]:
    return [(entry, read_document(entry.name).sections) for entry in list_entries()]


def _search(entry: IndexEntry, sections: Sequence[Section], words: WordPatterns) -> tuple[float, FoundDocument] | None:
    hits: list[tuple[float, Section]] = []
    for section in sections:
        parts = (entry.title, section.title, section.text)
        where = [[bool(word.search(part)) for part in parts] for word in words]
        if all(map(any, where)) and (not section.level or any(in_title or in_text for _, in_title, in_text in where)):
            counted = sum(4 * title + 2 * heading + text for title, heading, text in where)
            best = _choose_passage(section, words)  # among equals, sentences come before commands, a definition first
            quoted = sum(bool(word.search(best)) + 2 * bool(word.match(best)) for word in words)
            hits.append((counted + quoted / (4 * len(words)), section))
    if not hits:
        return None
    hits.sort(key=lambda hit: -hit[0])
    shown = [
        FoundSection(each.title, each.anchor, list(_cut(_choose_passage(each, words), words)))
        for _, each in hits[:SECTIONS_SHOWN]
    ]
    return hits[0][0], FoundDocument(entry, shown, len(hits) - len(shown))


def _choose_passage(section: Section, words: WordPatterns) -> str:
    """Return the first passage with most of the words; one that begins with a word defines it."""

    def count(passage: str) -> int:
        return sum(2 * bool(word.search(passage)) + bool(word.match(passage)) for word in words)

    return max(section.passages, key=count, default="")


def _cut(text: str, words: WordPatterns) -> Iterator[tuple[str, bool]]:
    """Cut a piece around the first hit, at spaces, and mark every hit in it."""
    text = " ".join(text.split())
    pattern = re.compile("|".join(word.pattern for word in words), re.IGNORECASE)
    first = pattern.search(text)
    start = text.find(" ", max(0, first.start() - BEFORE)) + 1 if first and first.start() > BEFORE else 0
    piece = text[start : start + EXCERPT]
    if start + EXCERPT < len(text):
        piece = piece.rpartition(" ")[0] + " …"
    end = 0
    for hit in pattern.finditer(piece):
        yield piece[end : hit.start()], False
        yield hit[0], True
        end = hit.end()
    yield piece[end:], False


FOUND = JsonShape(
    "name=entry.name title=entry.title",
    ("sections", lambda each: [part.title for part in each.sections]),
    link_to("document", "entry.name"),
)


def document(request: HttpRequest, name: str = INDEX, *, as_json: bool = False) -> HttpResponse:
    try:
        found = read_document(name)
    except KeyError as error:
        raise Http404(f"There is no document {name}.") from error
    asked = request.GET.get("q", "").strip()[:LONGEST] if name == INDEX else ""
    hits = search_documents(asked) if asked else []
    entries = list_entries()
    place = next(
        (place for place, entry in enumerate(entries) if entry.name == name), -1
    )  # -1: the index, before the first
    data = {
        "name": found.name,
        "title": found.title,
        "text": found.text,
        **({"query": asked, "found": FOUND.read_all(hits)} if asked else {}),
    }
    context = {
        "html": found.html,
        "asked": asked,
        "hits": hits,
        "index": read_index(),
        "group": next((head for head, listed in read_index().items() if any(each.name == name for each in listed)), ""),
        "contents": [each for each in found.sections if 0 < each.level <= LAST_LEVEL],
        "before": entries[place - 1] if place > 0 else None,
        "after": entries[place + 1] if -1 < place < len(entries) - 1 else None,
    }
    return render_page(request, "documents/document.html", data=data, context=context, as_json=as_json)


def picture(request: HttpRequest, name: str) -> FileResponse:
    try:
        path = find_picture(name)
    except KeyError as error:
        raise Http404(f"There is no picture {name}.") from error
    return FileResponse(path.open("rb"), content_type="image/png")

"""The project's own documents (docs/), drawn as pages,
so that an installation without a checkout at hand has them too."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import nh3
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it.token import Token

from inspector.web.text.glossary import DOCS, build_anchor, strip_marks
from inspector.web.text.markdown import make_parser
from runner.base.var_folder import DEMO, IS_INSTALLED, MANAGE

INDEX = "README"
_ENTRY = re.compile(r"^(?:-|\d+\.) \[([^\]]+)\]\(([a-z/-]+)\.md\): (.+)$", re.MULTILINE)
_IN_A_CLONE = re.compile(r"(?:\.venv/bin/python )?(?<!python3 )manage\.py (?=[a-z])")
_TAGS = {
    *("h2", "h3", "h4", "p", "br", "hr", "blockquote", "ul", "ol", "li", "strong", "em", "code", "pre", "a"),
    *("table", "thead", "tbody", "tr", "th", "td", "img", "picture", "source"),
}
_ATTRIBUTES = {
    "a": {"href"},
    "img": {"src", "alt"},
    "source": {"media", "srcset"},
    **{heading: {"id"} for heading in ("h2", "h3", "h4")},
}


_PARSER = make_parser(html=True).enable("table")


class Section(NamedTuple):
    """A heading of a document with the words below it. What comes before the first heading has none."""

    level: int
    title: str
    anchor: str
    text: str
    # its paragraphs and the rows of its tables (first and last cell), which read as sentences; commands and drawings
    # do not
    passages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectDocument:
    """A document below docs/, drawn as a page."""

    name: str  # "how-to/running": the path below docs/ without its ending
    title: str
    text: str  # Markdown, without the title
    html: SafeString
    sections: Sequence[Section]


class IndexEntry(NamedTuple):
    """A document as the index lists it. `about`: one line."""

    name: str
    title: str
    about: str

    @property
    def url(self) -> str:
        return reverse("document", args=[self.name])


def read_document(name: str) -> ProjectDocument:
    """Return the document of that name. KeyError if there is none."""
    title, _, text = _name_commands(_find_files("*.md")[f"{name}.md"].read_text("utf-8")).partition("\n")
    tokens = _PARSER.parse(text)
    sections = _split_sections(tokens)
    return ProjectDocument(name, title.lstrip("# "), text.strip(), _render(tokens, posixpath.dirname(name)), sections)


@cache
def read_index() -> Mapping[str, Sequence[IndexEntry]]:
    """Return the documents in order, by the heading of docs/README.md that lists them."""
    parts = re.split(r"^## (.+)\n", (DOCS / f"{INDEX}.md").read_text("utf-8"), flags=re.MULTILINE)
    listed = zip(parts[1::2], parts[2::2], strict=True)
    return {
        head: [IndexEntry(name, title, about) for title, name, about in _ENTRY.findall(text)] for head, text in listed
    }


def list_entries() -> list[IndexEntry]:
    """List every document but the index itself, in its order."""
    return [entry for entries in read_index().values() for entry in entries]


def find_picture(name: str) -> Path:
    """Return the picture of that name ("charts/forest-light"). KeyError if there is none."""
    return _find_files("*.png")[f"pictures/{name}.png"]


def _find_files(pattern: str) -> dict[str, Path]:
    """Return path below docs/ -> file. Names are looked up in this list, so none leads out of the folder."""
    return {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob(pattern)}


def _name_commands(text: str) -> str:
    """Return the commands as they are typed here.
    Documents are written for a clone; what runs in a container is unchanged."""
    if not IS_INSTALLED:
        return text
    text = text.replace("make demo MODEL=small", f"{DEMO} --model small").replace("make demo", DEMO)
    return _IN_A_CLONE.sub(f"{MANAGE} ", text)


def _split_sections(tokens: Sequence[Token]) -> list[Section]:
    """Give every heading its anchor, and cut the words of a document at them.
    A repeated heading is numbered as code hosts do."""
    found, used = [Section(0, "", "", "")], Counter[str]()
    row: list[str] | None = None  # the cells of a table's row so far
    for before, token in pairwise(tokens):
        words, passage = strip_marks(token.content), ""
        if before.type == "heading_open":
            anchor = build_anchor(token.content)
            used[anchor] += 1
            if used[anchor] > 1:
                anchor = f"{anchor}-{used[anchor] - 1}"
            before.attrs["id"] = anchor
            found.append(Section(int(before.tag[1:]), words, anchor, ""))
            continue
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close" and row:
            passage, row = f"{row[0]}: {row[-1]}", None
        elif token.type == "inline" and row is not None:
            row.append(words)
        elif token.type == "inline":
            passage = words
        last = found[-1]
        text = f"{last.text} {words}" if token.type in {"inline", "fence"} else last.text
        found[-1] = last._replace(text=text, passages=(*last.passages, passage) if passage else last.passages)
    return found


def _render(tokens: Sequence[Token], folder: str) -> SafeString:
    """Return the text as HTML. Links between documents, and to pictures, become addresses of this site."""

    def rewrite(element: str, attribute: str, value: str) -> str | None:
        return _rewrite_link(value, folder) if attribute in {"href", "src", "srcset"} else value

    html = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return mark_safe(  # noqa: S308
        nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, attribute_filter=rewrite)
    )


def _rewrite_link(link: str, folder: str) -> str | None:
    """Return the address on this site; None for a file outside docs/, which an installation need not have."""
    path, hash_sign, anchor = link.partition("#")
    if not path or ":" in path:
        return link
    stem, ending = posixpath.splitext(posixpath.normpath(posixpath.join(folder, path)))
    if stem.startswith(".."):
        return None
    if ending == ".png":
        return reverse("document-picture", args=[stem.removeprefix("pictures/")])
    address = reverse("documents") if stem == INDEX else reverse("document", args=[stem])
    return f"{address}{hash_sign}{anchor}"

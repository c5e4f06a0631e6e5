"""The project's own documents (docs/), drawn as pages, so that an installation without a checkout at hand has them too."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nh3
from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from runner.base.var_folder import DEMO, IS_INSTALLED, MANAGE

INDEX = "README"
_FOLDER = Path(settings.BASE_DIR) / "docs"
_PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
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


@dataclass(frozen=True, slots=True)
class ProjectDocument:
    """A document below docs/, drawn as a page."""

    name: str  # "how-to/running": the path below docs/ without its ending
    title: str
    text: str  # Markdown, without the title
    html: SafeString


def read_document(name: str) -> ProjectDocument:
    """The document of that name. KeyError where there is none."""
    title, _, text = _name_commands(_find_files("*.md")[f"{name}.md"].read_text("utf-8")).partition("\n")
    return ProjectDocument(name, title.lstrip("# "), text.strip(), _render(text, posixpath.dirname(name)))


@cache
def list_titles() -> Mapping[str, str]:
    """Name of every document -> its title."""
    files = sorted(_find_files("*.md").items())
    return {name.removesuffix(".md"): path.open(encoding="utf-8").readline().strip("# \n") for name, path in files}


def find_picture(name: str) -> Path:
    """The picture of that name ("charts/forest-light"). KeyError where there is none."""
    return _find_files("*.png")[f"pictures/{name}.png"]


def _find_files(pattern: str) -> dict[str, Path]:
    """Path below docs/ -> file. A name is looked up among what is there, so none leads out of the folder."""
    return {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob(pattern)}


def _name_commands(text: str) -> str:
    """As they are typed here. Documents are written for a clone; what runs in a container is typed there as it stands."""
    if not IS_INSTALLED:
        return text
    text = text.replace("make demo MODEL=small", f"{DEMO} --model small").replace("make demo", DEMO)
    return _IN_A_CLONE.sub(f"{MANAGE} ", text)


def _render(text: str, folder: str) -> SafeString:
    """HTML of the text. Links between documents, and to pictures, become addresses of this site."""
    tokens = _PARSER.parse(text)
    for heading, words in zip(tokens, tokens[1:], strict=False):
        if heading.type == "heading_open":
            heading.attrs["id"] = _build_anchor(words)

    def rewrite(element: str, attribute: str, value: str) -> str | None:
        return _rewrite_link(value, folder) if attribute in {"href", "src", "srcset"} else value

    html = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return mark_safe(  # noqa: S308
        nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, attribute_filter=rewrite)
    )


def _build_anchor(words: Token) -> str:
    """The anchor that code hosts give a heading: its words in lower case, joined by hyphens."""
    return re.sub(r"[^\w\- ]", "", words.content.lower()).replace(" ", "-")


def _rewrite_link(link: str, folder: str) -> str | None:
    """None for a file outside docs/: an installation need not have it."""
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

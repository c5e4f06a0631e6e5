"""`{% term %}`: a page explains a word of the glossary where it uses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from inspector.pages.documents.documents import read_document
from inspector.web.text.glossary import read_terms

TEMPLATES = sorted((Path(__file__).resolve().parents[3] / "templates").rglob("*.html"))


def render(text: str, path: str = "/runs/") -> str:
    return Template("{% load glossary_tags %}" + text).render(Context({"request": RequestFactory().get(path)}))


def test_a_word_opens_its_meaning_without_a_script_or_a_style() -> None:
    html = render('{% term "episode" %}')
    assert re.search(
        r'<button type="button" class="term" popovertarget="(term-\w+-1)" title="[^"]+">episode</button>', html
    )
    assert re.search(r'<span class="term-meaning" id="(term-\w+-1)" popover><b>Episode</b> ', html)
    assert html.count(read_terms()["episode"].meaning.split(":")[0]) == 2
    assert not re.search(r" (style|on\w+)=", html)


def test_another_form_of_the_word_is_shown_with_the_same_meaning() -> None:
    html = render('{% term "episode" "Episodes" %}')
    assert ">Episodes</button>" in html
    assert "<b>Episode</b>" in html


def test_a_name_that_pages_give_a_word_leads_to_the_word() -> None:
    assert read_terms()["left out"].word == "tainted"


def test_only_the_first_use_on_a_page_explains_a_word() -> None:
    html = render('{% term "run" %} {% term "run" "Runs here" %} {% term "harness" %} {% term "agent" %}')
    assert len(set(re.findall(r'popovertarget="([^"]+)"', html))) == 2
    assert "</span> Runs here <button" in html
    assert html.endswith("</span> agent")


def test_a_part_that_came_later_does_not_take_the_popover_of_the_page() -> None:
    pages = [render('{% term "run" %}', path) for path in ("/runs/", "/runs/?page=2")]
    assert len({re.findall(r'popovertarget="([^"]+)"', html)[0] for html in pages}) == 2


def test_a_meaning_is_text_and_its_link_leads_to_a_heading_of_the_glossary() -> None:
    headings = set(re.findall(r' id="([^"]+)"', read_document("glossary").html))
    for term in read_terms().values():
        assert term.meaning, term.word
        assert not re.search(r"[`*\[\]<>]", term.meaning), term.word
        assert term.anchor in headings, term.word


def test_a_word_that_the_glossary_lacks_is_a_fault_of_the_template() -> None:
    with pytest.raises(KeyError):
        render('{% term "gizmo" %}')


def test_every_template_asks_for_words_that_the_glossary_has() -> None:
    asked = {word for path in TEMPLATES for word in re.findall(r'\{% term "([^"]+)"', path.read_text())}
    assert asked <= set(read_terms())

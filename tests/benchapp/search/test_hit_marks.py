"""Which piece of a text an excerpt shows, and what of it a browser is asked to mark."""

from __future__ import annotations

import time

from benchapp.search.hit_marks import EXCERPT_CHARS, Shown, show
from benchapp.search.query import parse
from benchapp.search.sections import Section

ASKED = "Nobody needs the program once its result"
SENTENCE = "Nobody needs the program once its result is there."
TEXT = "The workflow of the table: " + "walk the table, then the next. " * 20 + SENTENCE + " The end." + " the" * 100


def said(shown: Shown) -> list[str]:
    return ["".join(piece for piece, _ in excerpt.pieces) for excerpt in shown.excerpts]


def test_an_excerpt_shows_the_sentence_that_was_asked_for_and_not_the_first_common_word() -> None:
    shown = show([Section("result", TEXT, 6)], parse(ASKED))
    (text,) = said(shown)
    assert SENTENCE in text
    assert len(text) <= EXCERPT_CHARS
    assert ("program", True) in shown.excerpts[0].pieces
    assert shown.quote == ASKED


def test_what_holds_fewer_of_the_same_words_is_no_excerpt_of_its_own() -> None:
    here = [Section("message", "I read the skill.", 6), Section("result", TEXT, 6)]
    assert [excerpt.section for excerpt in show(here, parse(ASKED)).excerpts] == ["result"]


def test_what_holds_other_words_or_as_many_stays() -> None:
    here = [Section("message", "alpha", 6), Section("call", "beta", 6), Section("result", "alpha again", 6)]
    assert [excerpt.section for excerpt in show(here, parse("alpha beta")).excerpts] == ["message", "call", "result"]


def test_words_too_far_apart_for_one_excerpt_have_one_each() -> None:
    first, second = said(show([Section("result", f"alpha {'x ' * 400}beta", 1)], parse("alpha beta")))
    assert first.startswith("alpha")
    assert second.endswith("beta")


def test_a_word_that_stands_in_another_step_is_shown_with_its_number() -> None:
    here = [Section("message", "alpha", 6), Section("result", "beta", 7)]
    shown = show(here, parse("alpha beta"))
    assert [(excerpt.section, text) for excerpt, text in zip(shown.excerpts, said(shown), strict=True)] == [
        ("message", "alpha"),
        ("step 7", "beta"),
    ]
    assert show([Section("result", "nothing", 1)], parse("alpha")).quote == ""


def test_an_excerpt_begins_in_the_line_of_its_words_as_a_page_shows_few_lines() -> None:
    (text,) = said(show([Section("result", f"## Gotchas\n\n\n\n- {SENTENCE}", 6)], parse(ASKED)))
    assert text == f"- {SENTENCE}"


def test_a_text_of_common_words_takes_no_time() -> None:
    begun = time.perf_counter()
    show([Section("result", "the " * 60_000, 1)], parse("the program"))
    assert time.perf_counter() - begun < 10

"""Characters without a shape stay where a script or an emoji needs them, and are written out anywhere else."""

from __future__ import annotations

import pytest

from benchapp.record.visible import changes, spell_out, visible
from inspector.web.text.visible import visible_page

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
WHOLE = {
    "a family": FAMILY,
    "a skin tone before the joiner": "👩🏽\u200d💻",
    "a heart with its variation selector": "👩\u200d❤\ufe0f\u200d👨",
    "a flag": "🏳\ufe0f\u200d🌈",
    "a flag of tags": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "a keycap": "1\ufe0f\u20e3",
    "Persian": "می\u200cخواهم",
    "Persian behind a Latin word": "PDF\u200cها",
    "Persian behind a number": "۲۰\u200cساله",
    "Devanagari": "क्\u200dष क्\u200cष",
    "Sinhala": "ශ්\u200dරී",
    "Malayalam at the end of a word": "അവന്\u200d",
    "Khmer, whose words a zero width space parts": "ភាសា\u200bខ្មែរ",
}
HIDING = {
    "between Latin letters": ("pay\u200dpal", "pay⟨U+200D⟩pal"),
    "the other one": ("pay\u200cpal", "pay⟨U+200C⟩pal"),
    "at the end of a Persian word": ("می\u200c می", "می⟨U+200C⟩ می"),
    "at the beginning of a text": ("\u200dمی", "⟨U+200D⟩می"),
    "two in a row": ("می\u200c\u200cخواهم", "می⟨U+200C⟩⟨U+200C⟩خواهم"),
    "in code": ("rm\u200d -rf", "rm⟨U+200D⟩ -rf"),
    "behind an emoji that nothing follows": ("👩\u200d", "👩⟨U+200D⟩"),
    "between an emoji and a letter": ("👩\u200dx", "👩⟨U+200D⟩x"),
    "a zero width space": ("a\u200bb", "a⟨U+200B⟩b"),
    "an override": ("a\u202eb\u202c", "a⟨U+202E⟩b⟨U+202C⟩"),
    "an isolate in Arabic": ("مرحبا\u2067x\u2069", "مرحبا⟨U+2067⟩x⟨U+2069⟩"),
    "a mark that moves an operator": ("ا\u200f>", "ا⟨U+200F⟩>"),
    "tags that spell another word": ("🏴\U000e0068\U000e0069\U000e007f", "🏴⟨U+E0068⟩⟨U+E0069⟩⟨U+E007F⟩"),
    "a message in variation selectors": ("😀\ufe01\U000e0101", "😀\ufe01⟨U+E0101⟩"),
    "a variation selector behind a letter": ("a\ufe01", "a⟨U+FE01⟩"),
}


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_a_script_and_an_emoji_keep_the_characters_that_shape_them(text: str) -> None:
    assert visible(text) == spell_out(text) == text
    assert list(changes(text, 0, len(text))) == []


@pytest.mark.parametrize(("text", "shown"), HIDING.values(), ids=HIDING)
def test_what_could_hide_something_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown
    rebuilt, at = "", 0
    for start, end, instead in changes(text, 0, len(text)):
        rebuilt, at = rebuilt + text[at:start] + instead, end
    assert rebuilt + text[at:] == shown


def test_a_joiner_counts_with_its_neighbours_across_the_tags_of_a_page() -> None:
    assert visible_page("<b>👩</b>\u200d<i>👩</i>") == "<b>👩</b>\u200d<i>👩</i>"
    assert visible_page("<b>a</b>\u200d<i>b</i>") == "<b>a</b>⟨U+200D⟩<i>b</i>"
    assert visible("<b>👩</b>\u200d<i>👩</i>") == "<b>👩</b>⟨U+200D⟩<i>👩</i>", "a text has no tags"


def test_a_single_carriage_return_is_drawn_as_the_key_that_makes_it() -> None:
    assert visible("a\r\nb\rc") == "a\nb↵c"

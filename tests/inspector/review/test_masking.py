"""Masks, and the way back from the text as shown to the text as recorded."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from benchapp.record.visible import visible
from inspector.pages.review.exhibits.masking import HIDDEN, Mask, ShownText, mask_of
from tests.cases import every

MASK = mask_of(names=["no-skill", "Spring comparison"], skills=["tidy-tables", "tables"], paths=True, models=True)


@every(
    ("run under no-skill, please", "run under [hidden], please"),
    ("No Skill and NO_SKILL", "[hidden] and [hidden]"),
    ("the tidy tables skill", "the [hidden] skill"),
    ("tables of numbers", "tables of numbers"),  # one plain word is no name
    ("read `tables` first, the tables skill", "read `[hidden]` first, the [hidden] skill"),
    ("I am anthropic/claude-sonnet-4-5-20250929.", "I am [hidden]."),
    ("Claude Sonnet 4.5 or GPT-5?", "[hidden] or [hidden]?"),
    ("o3-mini, qwen3-coder-480b", "[hidden], [hidden]"),
    ("cat ../skills/x/SKILL.md | head", "cat [hidden] | head"),
    ("ls -R ../skills; pwd", "ls -R [hidden]; pwd"),
    ("skills matter", "skills matter"),
    ("unskilled no-skillet", "unskilled no-skillet"),
    ("[1mgpt-5", "[1m[hidden]"),
    (r'{"out": "model:\nclaude-opus-4\ttidy-tables"}', r'{"out": "model:\n[hidden]\t[hidden]"}'),
    ("[38;5;214mno-skill[0m", "[38;5;214m[hidden][0m"),
    (r"\u001b[1;32mtidy_tables\u001b[0m", r"\u001b[1;32m[hidden]\u001b[0m"),
    ("?model=x%2Fgpt-5&set=%20no-skill", "?model=x%2F[hidden]&set=%20[hidden]"),
)
def test_it_hides_names_and_leaves_words(text: str, shown: str) -> None:
    assert MASK.text(text) == shown


def test_a_name_of_separators_alone_hides_nothing() -> None:
    assert mask_of(names=["---"], skills=["_ _"]).pattern is None


def test_names_of_any_length_look_alike() -> None:
    assert MASK.text("by gpt-5 today") == MASK.text("by anthropic claude-opus-4-1-20250805 today")


def test_a_range_beside_a_mask_leads_to_the_recorded_words() -> None:
    text = "As claude-opus-4 says, sum the column."
    shown = MASK.show(text)
    start = shown.text.index("sum")
    first, last = shown.map_to_recorded(start, start + 3)  # type: ignore[misc]
    assert text[first:last] == "sum"
    assert shown.map_to_shown(first, last) == (start, start + 3)


def test_a_range_never_begins_or_ends_in_something_hidden() -> None:
    text = "ask claude-opus-4 now"
    shown = MASK.show(text)
    assert shown.text == "ask [hidden] now"
    assert shown.map_to_recorded(4, 12) is None  # the mask itself
    assert shown.map_to_recorded(6, 9) is None  # inside it
    assert [text[slice(*shown.map_to_recorded(*pair))] for pair in [(0, 8), (8, 16), (0, 16)]] == ["ask ", " now", text]  # type: ignore[misc]


def test_what_is_left_out_leaves_no_trace() -> None:
    shown = Mask().show("keep this, drop that, and this", without=[(9, 20)])
    assert shown.text == "keep this, and this"
    assert shown.map_to_recorded(11, 19) == (22, 30)


TEXTS = st.text(st.sampled_from("ab \r\n\x1b[0m\u200b\x00-/gpt-5claude skills/no-skill`"), max_size=80)


@given(TEXTS)
def test_without_names_it_is_what_everybody_sees(text: str) -> None:
    assert Mask().show(text).text == visible(text)


@given(TEXTS, st.integers(0, 90), st.integers(0, 90))
def test_every_range_leads_back_and_forth(text: str, one: int, other: int) -> None:
    shown = MASK.show(text)
    start, end = sorted((min(one, len(shown.text)), min(other, len(shown.text))))
    found = shown.map_to_recorded(start, end)
    if found is None:
        return
    assert 0 <= found[0] < found[1] <= len(text)
    assert not any(
        cut.is_hidden and (cut.start < found[0] < cut.end or cut.start < found[1] < cut.end) for cut in shown.cuts
    )
    again = shown.map_to_recorded(*shown.map_to_shown(*found))
    assert again == found


@given(TEXTS)
def test_the_cuts_rebuild_the_text(text: str) -> None:
    shown: ShownText = MASK.show(text)
    at, made = 0, ""
    for cut in shown.cuts:
        made += text[at : cut.start] + shown.text[cut.at : cut.to]
        assert not cut.is_hidden or shown.text[cut.at : cut.to] == HIDDEN
        at = cut.end
    assert made + text[at:] == shown.text


@every("x", "skills", "/skills", "claude ", "gpt/", "\n", "-_ ")
def test_no_text_takes_long(part: str) -> None:
    begun = time.perf_counter()
    MASK.show(part * (200_000 // len(part)))
    assert time.perf_counter() - begun < 50

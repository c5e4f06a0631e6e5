from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.search.tokens import BARRIER, FACT, MAX_TOKEN, atoms, fact, split_query, split_query_parts, stream


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("raise KeyError('x')", ["raise", "keyerror", "x", "|", "key", "error", "|"]),
        ("tidy_tables.py", ["tidy_tables", "py", "|", "tidy", "tables", "|"]),
        ("csv-handling", ["csv", "handling", "|"]),
        ("/home/me/data/notes.txt", ["home", "me", "data", "notes", "txt", "|"]),
        ("27.5 of -3, 1.2.3", ["27.5", "of", "3", "1.2.3", "|"]),
        ("HTTPServer2 __init__", ["httpserver2", "__init__", "|", "http", "server2", "|", "init", "|"]),
        ("数据清洗", ["数据", "据清", "清洗", "洗", "|"]),
        ("读data表", ["读", "data", "表", "|"]),
        ("Ünïcode ＡＢ", ["ünïcode", "ab", "|"]),
        ("cafe\u0301", ["café", "|"]),
    ],
)
def test_it_splits_texts_into_tokens(text: str, tokens: list[str]) -> None:
    assert stream([text]) == tokens


def test_it_keeps_texts_apart_and_facts_behind_them() -> None:
    assert stream(["one two", "three"], (fact("tool", "Read File"),)) == [
        "one",
        "two",
        "|",
        "three",
        "|",
        "tool=read_file",
    ]


def test_it_cuts_long_tokens_and_gives_them_no_parts() -> None:
    blob = "aB" * 500
    assert stream([blob]) == [blob.lower()[:MAX_TOKEN], BARRIER]
    assert split_query(blob) == [blob.lower()[:MAX_TOKEN]]


@pytest.mark.parametrize(
    ("text", "whole", "parts"),
    [
        ("KeyError", ["keyerror"], ["key", "error"]),
        ("data/notes.txt", ["data", "notes", "txt"], ["data", "notes", "txt"]),
        ("数据清", ["数据", "据清"], []),
        ("数", ["数"], []),
        ("...", [], []),
    ],
)
def test_it_asks_for_words_side_by_side(text: str, whole: list[str], parts: list[str]) -> None:
    assert (split_query(text), split_query_parts(text)) == (whole, parts)


@given(st.text(max_size=200))
def test_a_token_is_one_word_for_both_databases(text: str) -> None:
    for token in stream([text]):
        assert token == BARRIER or re.fullmatch(r"[\w.]+", token), token
        assert FACT not in token
        assert token.isascii() is False or token == token.lower()


@given(st.text(max_size=200))
def test_places_lie_in_the_text_and_in_order(text: str) -> None:
    found = list(atoms(text))
    assert all(0 <= atom.start < atom.end <= len(text) for atom in found)
    assert [atom.start for atom in found] == sorted(atom.start for atom in found)


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=80), st.sampled_from(["é", "数"]))
def test_a_text_of_ascii_has_the_same_tokens_beside_other_characters(text: str, other: str) -> None:
    assert stream([f"{text} {other}"])[: len(split_query(text))] == split_query(text)

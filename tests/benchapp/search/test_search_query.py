from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.search.query import FIELDS, SHORT, Filter, SearchQuery, Term, Value, parse, quote, render_filter, without
from benchapp.search.tokens import split_query

OPEN = sorted(name for name, known in FIELDS.items() if not known.values and name not in {"run", "tool"})
CLOSED = sorted(name for name, known in FIELDS.items() if known.values)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
bare = st.text("abcXYZ059_.", min_size=1, max_size=9)


def values() -> st.SearchStrategy[Value]:
    exact = st.builds(Value, st.sampled_from(["is", "has"]), texts)
    return exact | st.builds(Value, st.just("glob"), bare.map(lambda text: f"{text}*"))


def filters() -> st.SearchStrategy[Filter]:
    some = st.lists(values(), min_size=1, max_size=3).map(tuple)
    opened = st.builds(Filter, st.sampled_from(OPEN), some, st.booleans())
    closed = st.sampled_from(CLOSED).flatmap(
        lambda name: st.builds(
            Filter, st.just(name), st.tuples(st.builds(Value, st.just("is"), st.sampled_from(FIELDS[name].values)))
        )
    )
    return opened | closed


def terms() -> st.SearchStrategy[Term]:
    quoted = st.builds(Term, texts.filter(split_query), st.just(True), st.booleans(), st.booleans())
    word = bare.filter(lambda text: split_query(text) and text.lower() not in SHORT)
    return quoted | st.builds(Term, word, st.just(False), st.booleans(), st.booleans())


def render(query: SearchQuery) -> str:
    terms = [
        f"{'-' * term.negated}{quote(term.text) if term.quoted else term.text}{'*' * term.prefix}"
        for term in query.terms
    ]
    return " ".join([*map(render_filter, query.filters), *terms])


@settings(max_examples=300)
@given(st.lists(terms(), max_size=5).map(tuple), st.lists(filters(), max_size=5).map(tuple))
def test_what_is_written_out_is_read_back(terms: tuple[Term, ...], filters: tuple[Filter, ...]) -> None:
    asked_for = SearchQuery("", terms, filters)
    found = parse(render(asked_for))
    assert (found.terms, found.filters, found.problems) == (terms, filters, ())


@settings(max_examples=500)
@given(st.text(st.sampled_from('ab:~*?,"\\- \nfailedroleis\u6570'), max_size=40) | st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    found = parse(text)
    for part in (*found.terms, *found.filters):
        assert 0 <= part.start < part.end <= len(text)
    for problem in found.problems:
        assert 0 <= problem.start <= problem.end <= len(text)
        assert problem.message
    if not found.problems:
        assert (parse(render(found)).terms, parse(render(found)).filters) == (found.terms, found.filters)


def test_it_reads_the_example() -> None:
    found = parse('role:adversarial failed model:~opus skill:csv-* tool:bash "KeyError" -word')
    assert found.filters == (
        Filter("role", (Value("is", "adversarial"),)),
        Filter("is", (Value("is", "failed"),)),
        Filter("model", (Value("has", "opus"),)),
        Filter("skill", (Value("glob", "csv-*"),)),
        Filter("tool", (Value("is", "bash"),)),
    )
    assert found.terms == (Term("KeyError", quoted=True), Term("word", negated=True))
    assert not found.problems


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("phase:", (0, 6), "phase: needs a value, one of acquisition, deployment, replay, evaluation"),
        ("x condition:", (2, 12), "condition: needs a value, as in condition:selfgen-*"),
        ("role:adversial", (0, 14), "did you mean adversarial?"),
        ("a modle:opus", (2, 12), "there is no filter modle:, did you mean model:?"),
        ("colour:red", (0, 10), "there is no filter colour:, there are kind, is, phase"),
        ('word "open', (5, 10), "this quote is never closed"),
        ("-- x", (0, 2), "nothing here can be found"),
        ("tool:~ba", (0, 8), "tool: knows tool:bash and tool:bas*"),
        ("tool:*sh", (0, 8), "takes one * and at the end"),
        ("kind:s*", (0, 7), "kind: 's*' is unknown"),
    ],
)
def test_it_says_what_is_wrong_and_where(text: str, place: tuple[int, int], says: str) -> None:
    problem = parse(text).problems[0]
    assert (problem.start, problem.end) == place
    assert says in problem.message


@pytest.mark.parametrize("text", ["KeyError: x", "http://host/a", "std::vector", "error:", 'say "model:opus"'])
def test_a_colon_in_a_text_makes_no_filter(text: str) -> None:
    found = parse(text)
    assert (found.filters, found.problems) == ((), ())


def test_a_status_is_a_word_in_quotes() -> None:
    assert parse('"failed"').terms == (Term("failed", quoted=True),)
    assert parse("-failed").filters == (Filter("is", (Value("is", "failed"),), negated=True),)


def test_it_takes_a_part_away() -> None:
    found = parse("failed  KeyError phase:replay")
    assert without(found, found.filters[0]) == "KeyError phase:replay"


def test_it_bounds_what_it_reads() -> None:
    assert "at most 1,000 characters" in parse("x" * 1_001).problems[0].message
    assert "at most 30 parts" in parse("x " * 31).problems[0].message
    assert "at most 20 values" in parse("task:" + ",".join("x" * 21)).problems[0].message


def test_a_quote_within_a_text_is_kept() -> None:
    assert parse(quote('a "b" \\c')).terms == (Term('a "b" \\c', quoted=True),)

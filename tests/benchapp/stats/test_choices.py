from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest
from django.http import QueryDict
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from benchapp.stats.comparing.choices import MAX_VALUES, Choices, parse_choices

words = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda text: text == text.strip()
)
choices = st.builds(
    Choices,
    experiment=st.lists(st.uuids(), max_size=3, unique=True).map(tuple),
    condition=st.lists(words, max_size=3, unique=True).map(tuple),
    agent_model=st.lists(words, max_size=3, unique=True).map(tuple),
    author_model=st.lists(words | st.just(""), max_size=3, unique=True).map(tuple),
    replicate=st.lists(st.integers(0, 999), max_size=3, unique=True).map(tuple),
    since=st.none() | st.dates(max_value=date(2999, 12, 31)),
    until=st.none() | st.dates(max_value=date(2999, 12, 31)),
    baseline=words,
    metric=words,
    option=st.lists(words, max_size=2, unique=True).map(tuple),
    as_of=st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC)),
    seen=words,
)


@given(choices)
def test_an_address_gives_back_the_choices_it_was_written_from(made: Choices) -> None:
    assert parse_choices(QueryDict(made.query())) == (made, [])


def test_defaults_leave_the_address_empty() -> None:
    assert Choices().query() == ""


def test_what_cannot_be_understood_is_said_and_the_rest_is_used() -> None:
    ident = uuid4()
    query = QueryDict(
        f"experiment=nonsense&experiment={ident}&replicate=two&since=2026-02-31&as_of=soon&condition=no-skill"
    )
    made, problems = parse_choices(query)
    assert made == Choices(experiment=(ident,), condition=("no-skill",))
    assert [problem.split(":")[0] for problem in problems] == ["experiment", "replicate", "since", "as_of"]
    assert "expected a day such as" in problems[2]


def test_a_hostile_address_is_capped() -> None:
    many = "&".join(f"condition=c{number}" for number in range(MAX_VALUES + 50))
    made, problems = parse_choices(QueryDict(f"{many}&harness={'x' * 5000}&suite=a%00b"))
    assert len(made.condition) == MAX_VALUES
    assert made.harness == ()
    assert made.suite == ()
    assert len(problems) == 3


def test_no_author_is_a_value_and_an_empty_other_field_is_none() -> None:
    made, problems = parse_choices(QueryDict("author_model=&condition=&metric="))
    assert made == Choices(author_model=("",))
    assert problems == []


def test_changed_choices_keep_the_others() -> None:
    made = Choices(condition=("a", "b"), since=date(2026, 3, 1), metric="ESR")
    assert made.query(metric="", condition=("c",)) == "condition=c&since=2026-03-01"


def test_choices_among_numbers_need_no_other_numbers() -> None:
    made = Choices(condition=("a",))
    assert (
        made.key()
        == made.but(metric="ESR", table="success", published=("skillflow",), seen="abc", option=("x:y",)).key()
    )
    assert made.key() != made.but(baseline="raw-trajectory").key()


def test_a_pin_in_the_future_is_none() -> None:
    later = timezone.now() + timedelta(hours=1)
    choices, problems = parse_choices(QueryDict(Choices(as_of=later).query()))
    assert choices.as_of is None
    assert len(problems) == 1
    assert "expected a time in the past" in problems[0]


@pytest.mark.parametrize(
    "asked",
    ["until=9999-12-31", "as_of=0001-01-01T00:00:00%2B14:00", "as_of=9999-12-31T23:59:59-23:00"],
)
def test_the_ends_of_the_calendar_are_said_and_ignored(asked: str) -> None:
    made, problems = parse_choices(QueryDict(asked))
    assert made == Choices()
    assert len(problems) == 1

"""Reading what verifiers write: every format, and every way to break it, named with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.types import CheckGroup, CheckStatus
from runner.verifying.reports import (
    MAX_MESSAGE_CHARS,
    MAX_REPORT_BYTES,
    ReportProblem,
    read_ctrf,
    read_reward_json,
    read_reward_txt,
    read_score_report,
    read_section_report,
)


def section(*results: object, **claims: object) -> bytes:
    return json.dumps({"public": {"results": list(results), **claims}}).encode()


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "line 1, column 1"),
        (b"[]", "whole file"),
        (b"\xff", "byte 0"),
        (b'{"public": []}', "public"),
        (b'{"public": {}}', "public.results"),
        (b'{"public": {"results": {}}}', "public.results"),
        (section("x"), "public.results[0]"),
        (section({"name": "a", "passed": True}, {"name": "b", "passed": 1}), "public.results[1].passed"),
        (section({"name": "a"}), "public.results[0].passed"),
        (section({"passed": True}), "public.results[0].name"),
        (section({"name": ["a"], "passed": True}), "public.results[0].name"),
        (section({"name": "a", "passed": True, "detail": {"x": 1}}), "public.results[0].detail"),
        (section({"name": "a", "passed": True}, total=2), "public.total"),
        (section({"name": "a", "passed": False}, passed=1), "public.passed"),
        (b'{"public": ' + b"[" * 100_000, "whole file"),
        (b'{"public": {"results": [' + b"{}," * 6_000 + b"{}]}}", "public.results"),
        (b" " * (MAX_REPORT_BYTES + 1), "whole file"),
        (b'{"public": Infinity}', "whole file"),
    ],
)
def test_a_broken_section_report_names_its_place(content: bytes, place: str) -> None:
    with pytest.raises(ReportProblem) as caught:
        read_section_report(content, "outcome_report.json", public=CheckGroup.PUBLIC, hidden=CheckGroup.HIDDEN)
    assert (caught.value.path, caught.value.place) == ("outcome_report.json", place)
    assert caught.value.expected
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("report", "place"),
    [
        ({"total_score": 1}, "max_score"),
        ({"total_score": True, "max_score": 1}, "total_score"),
        ({"total_score": 1, "max_score": 2, "dimensions": {}}, "dimensions"),
        ({"total_score": 1, "max_score": 2, "dimensions": [{"name": "a"}]}, "dimensions[0].ratio"),
        ({"total_score": 1, "max_score": 2, "dimensions": [{"name": "a", "ratio": 2, "weight": 1}]}, "dimensions[0]"),
        ({"total_score": 1, "max_score": 2, "dimensions": [{"name": "a", "ratio": 1, "weight": -1}]}, "dimensions[0]"),
        ({"total_score": int("9" * 400), "max_score": 1}, "total_score"),
    ],
)
def test_a_broken_score_report_names_its_place(report: object, place: str) -> None:
    with pytest.raises(ReportProblem) as caught:
        read_score_report(json.dumps(report).encode())
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("tests", "place"),
    [
        ({}, "results.tests"),
        ([{"name": "a", "status": "ok"}], "results.tests[0].status"),
        ([{"name": "a", "status": ["passed"]}], "results.tests[0].status"),
        ([{"status": "passed"}], "results.tests[0].name"),
        ([{"name": "a", "status": "passed", "duration": "long"}], "results.tests[0].duration"),
    ],
)
def test_a_broken_ctrf_report_names_its_place(tests: object, place: str) -> None:
    with pytest.raises(ReportProblem) as caught:
        read_ctrf(json.dumps({"results": {"tests": tests}}).encode())
    assert caught.value.place == place


def test_ctrf_durations_are_milliseconds_and_traces_belong_to_the_message() -> None:
    tests = [{"name": "a", "status": "failed", "duration": 1500, "message": "m", "trace": "t", "extra": {}}]
    (check,) = read_ctrf(json.dumps({"results": {"tests": tests}}).encode())
    assert (check.duration_seconds, check.message, check.status) == (1.5, "m\nt", CheckStatus.FAILED)


@pytest.mark.parametrize(("score", "overall"), [(50, 0.25), (0, 0.0), (300, 1.0), (-5, 0.0)])
def test_the_overall_score_is_normalised(score: float, overall: float) -> None:
    assert read_score_report(json.dumps({"total_score": score, "max_score": 200}).encode()).overall == overall


def test_a_score_out_of_nothing_is_unknown() -> None:
    assert read_score_report(b'{"total_score": 0, "max_score": 0}').overall is None


def test_long_messages_are_cut_in_the_middle_with_a_mark() -> None:
    long = "begin" + "x" * 50_000 + "end"
    report = read_section_report(
        section({"name": "a", "passed": False, "error": long}), "r", public=CheckGroup.PUBLIC, hidden=CheckGroup.HIDDEN
    )
    message = report.public[0].message
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "[... 30,008 characters left out ...]" in message
    assert len(message) < MAX_MESSAGE_CHARS + 100


def test_text_that_no_database_holds_is_made_visible() -> None:
    content = b'{"public": {"results": [{"name": "a\\u0000", "passed": false, "error": "\\ud800"}]}}'
    report = read_section_report(content, "r", public=CheckGroup.PUBLIC, hidden=CheckGroup.HIDDEN)
    assert (report.public[0].name, report.public[0].message) == ("a\u2400", "?")


@pytest.mark.parametrize(
    ("content", "value"), [(b"1", 1.0), (b" 0.5\n", 0.5), (b"\xef\xbb\xbf1.0", 1.0), (b"-1e-3", -0.001)]
)
def test_it_reads_a_reward(content: bytes, value: float) -> None:
    assert read_reward_txt(content) == value


def test_booleans_are_rewards_and_nulls_are_unknown() -> None:
    assert read_reward_json(b'{"a": true, "b": false, "c": null, "d": 0.5}') == {"a": 1.0, "b": 0.0, "d": 0.5}


@pytest.mark.parametrize("content", [b'{"a": "1"}', b'{"a": [1]}', b"1", b'{"a": 1e999}'])
def test_it_refuses_rewards_of_other_kinds(content: bytes) -> None:
    with pytest.raises(ReportProblem):
        read_reward_json(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["public", "hidden", "results", "name", "passed", "tests", "status", "dimensions", "ratio"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


def read_all(content: bytes) -> list[str]:
    complaints = []
    for read in (
        read_reward_txt,
        read_reward_json,
        read_ctrf,
        read_score_report,
        lambda data: read_section_report(data, "r", public=CheckGroup.PUBLIC, hidden=CheckGroup.HIDDEN),
    ):
        try:
            read(content)
        except ReportProblem as problem:
            complaints.append(str(problem))
    return complaints


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_break_the_readers(content: bytes) -> None:
    assert read_all(content)  # nothing is a report of all five kinds at once

"""Reading what verifiers write: every format, what real verifiers do, and every oddity told with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.base.types import Check, CheckGroup, CheckStatus, Dimension
from runner.verifying.reports import (
    MAX_CHECKS,
    MAX_MESSAGE_CHARS,
    MAX_PROBLEMS,
    MAX_REPORT_BYTES,
    SIDE_REPORTS,
    ReportProblem,
    SideReports,
    read_reward,
    read_rewards,
    read_side_reports,
)
from tests.cases import every


def section(*results: object, **claims: object) -> bytes:
    return json.dumps({"public": {"results": list(results), **claims}}).encode()


def read(name: str, content: bytes | object) -> SideReports:
    return read_side_reports({name: content if isinstance(content, bytes) else json.dumps(content).encode()})


def one_problem(found: SideReports) -> ReportProblem:
    (problem,) = found.problems
    assert problem.expected
    assert len(str(problem)) < 500
    return problem


@every(
    (b"", "line 1, column 1"),
    (b"[]", "whole file"),
    (b"null", "whole file"),
    (b"\xff", "byte 0"),
    (b'{"public": []}', "public"),
    (b'{"public": {"section": "public"}}', "public.results"),
    (b'{"public": {"results": {}}}', "public.results"),
    (b'{"section": "public", "results": []}', "whole file"),
    (b'{"public": ' + b"[" * 100_000, "whole file"),
    (b" " * (MAX_REPORT_BYTES + 1), "whole file"),
)
def test_a_section_report_that_says_nothing_names_its_place(content: bytes, place: str) -> None:
    found = read("outcome_report.json", content)
    assert (one_problem(found).path, one_problem(found).place, found.checks) == ("outcome_report.json", place, [])


@pytest.mark.parametrize(
    ("odd", "place", "status"),
    [
        ({"name": "b", "passed": "yes"}, "public.results[1].passed", CheckStatus.ERROR),
        ({"name": "b"}, "public.results[1].passed", CheckStatus.ERROR),
        ({"passed": True}, "public.results[1].name", CheckStatus.PASSED),
        ({"name": ["b"], "passed": False}, "public.results[1].name", CheckStatus.FAILED),
    ],
)
def test_an_odd_entry_costs_no_other(odd: object, place: str, status: CheckStatus) -> None:
    found = read("outcome_report.json", section({"name": "a", "passed": True}, odd, {"name": "c", "passed": False}))
    assert one_problem(found).place == place
    assert [check.status for check in found.checks] == [CheckStatus.PASSED, status, CheckStatus.FAILED]
    assert found.checks[1].name in ("b", "check 2")


def test_an_entry_that_is_no_object_is_passed_over() -> None:
    found = read("outcome_report.json", section("x", {"name": "a", "passed": True}))
    assert (one_problem(found).place, [check.name for check in found.checks]) == ("public.results[0]", ["a"])


@every((True, ""), (None, ""), (False, ""), ("12 rows", "12 rows"), ({"x": [1]}, '{"x": [1]}'), (14.5, "14.5"))
def test_the_detail_is_whatever_the_check_returned(detail: object, message: str) -> None:
    found = read("outcome_report.json", section({"name": "a", "passed": True, "detail": detail, "error": None}))
    assert (found.problems, found.checks) == ([], [Check(CheckGroup.PUBLIC, "a", CheckStatus.PASSED, message)])


@pytest.mark.parametrize(("claims", "place"), [({"total": 2}, "public.total"), ({"passed": 1}, "public.passed")])
def test_counts_follow_the_results_and_a_claim_beside_them_is_told(claims: dict[str, int], place: str) -> None:
    found = read("outcome_report.json", section({"name": "a", "passed": False}, **claims))
    assert (one_problem(found).place, found.outcome) == (place, 0.0)


def test_a_score_report_without_total_or_ratios_gives_what_it_has() -> None:
    dimensions = [
        {"name": "a", "weight": 25, "ratio": 0.5},
        {"name": "b", "weight": 25, "tests_matched": 4, "tests_passed": 1},
        {"name": "c", "weight": 25},
    ]
    found = read("score_report.json", {"max_score": 100, "dimensions": dimensions})
    assert found.overall is None
    assert found.dimensions == [Dimension("a", 0.5, 1.0, 25.0), Dimension("b", 0.25, 1.0, 25.0)]
    assert one_problem(found).place == "dimensions[2].ratio"


@every(
    ({"total_score": True, "max_score": 1}, "total_score"),
    ({"total_score": 1, "max_score": 2, "dimensions": {}}, "dimensions"),
    ({"dimensions": [{"name": "a", "ratio": 2, "weight": 1}]}, "dimensions[0].ratio"),
    ({"dimensions": [{"name": "a", "ratio": 1, "weight": -1}]}, "dimensions[0].weight"),
    ({"dimensions": [{"ratio": 1, "weight": 1}]}, "dimensions[0].name"),
    ({"total_score": int("9" * 400), "max_score": 1}, "total_score"),
    ({"total_score": float("nan"), "max_score": 1}, "total_score"),
)
def test_what_is_odd_in_a_score_report_names_its_place(report: object, place: str) -> None:
    assert one_problem(read("score_report.json", report)).place == place


@pytest.mark.parametrize(("score", "overall"), [(50, 0.25), (0, 0.0), (300, 1.0), (-5, 0.0)])
def test_the_overall_score_is_normalised(score: float, overall: float) -> None:
    assert read("score_report.json", {"total_score": score, "max_score": 200}).overall == overall


def test_a_score_out_of_nothing_is_unknown() -> None:
    assert read("score_report.json", {"total_score": 0, "max_score": 0}).overall is None


@every(
    ({"summary": {}}, "results"),
    ({"results": {"summary": {}}}, "results.tests"),
    ({"results": {"tests": {}}}, "results.tests"),
    ({"results": {"tests": [{"name": "a", "status": "ok"}]}}, "results.tests[0].status"),
    ({"results": {"tests": [{"name": "a", "status": ["passed"]}]}}, "results.tests[0].status"),
    ({"results": {"tests": [{"status": "passed"}]}}, "results.tests[0].name"),
    ({"results": {"tests": [{"name": "a", "status": "passed", "duration": "long"}]}}, "results.tests[0].duration"),
)
def test_what_is_odd_in_a_ctrf_report_names_its_place(report: object, place: str) -> None:
    assert one_problem(read("ctrf.json", report)).place == place


@every(
    ({}, 1500, 1.5),
    ({"tool": {"name": "jest"}}, 1500, 1.5),
    ({"tool": {"name": "jest"}, "summary": {"start": 1769377568314}}, 1500, 1.5),
    ({"tool": {"name": "pytest"}}, 1.5, 1.5),
    ({"tool": {"name": "pytest"}, "summary": {"start": 1769377568.31}}, 1.5, 1.5),
    ({"tool": {"name": "pytest"}, "summary": {"start": 1769377568314}}, 1500, 1.5),
)
def test_ctrf_times_are_milliseconds_but_for_pytests_plugin_which_writes_seconds(
    about: dict[str, object], duration: float, seconds: float
) -> None:
    found = read(
        "ctrf.json", {"results": {**about, "tests": [{"name": "a", "status": "passed", "duration": duration}]}}
    )
    assert (found.problems, found.checks[0].duration_seconds) == ([], seconds)


def test_message_and_trace_of_a_ctrf_test_are_both_kept() -> None:
    test = {"name": "a", "status": "Failed", "message": "m", "trace": "    indented\n", "extra": {}}
    (check,) = read("ctrf.json", {"results": {"tests": [test]}}).checks
    assert (check.message, check.status) == ("m\n\n    indented\n", CheckStatus.FAILED)


def test_ctrf_counts_only_where_no_section_tells_the_same_checks() -> None:
    ctrf = json.dumps({"results": {"tests": [{"name": "b", "status": "passed"}]}}).encode()
    whole = read_side_reports({"outcome_report.json": section({"name": "a", "passed": True}), "ctrf.json": ctrf})
    assert [check.name for check in whole.checks] == ["a"]
    broken = read_side_reports({"outcome_report.json": b"{", "ctrf.json": ctrf})
    assert [check.name for check in broken.checks] == ["b"]


def test_more_checks_than_a_page_takes_are_counted_and_so_are_more_problems() -> None:
    found = read("outcome_report.json", section(*[{"name": "a", "passed": 7}] * (MAX_CHECKS + 1)))
    assert len(found.checks) == MAX_CHECKS
    assert len(found.problems) == MAX_PROBLEMS + 1
    assert str(found.problems[0]).endswith(
        f"found {MAX_CHECKS + 1:,}; the rest is left out (expected at most 10,000 entries)"
    )
    assert found.problems[-1].message == "more were found and are not listed"


def test_long_messages_are_cut_in_the_middle_with_a_mark() -> None:
    found = read(
        "outcome_report.json", section({"name": "a", "passed": False, "error": "begin" + "x" * 50_000 + "end"})
    )
    message = found.checks[0].message
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "[... 30,008 characters left out ...]" in message
    assert len(message) < MAX_MESSAGE_CHARS + 100


def test_text_that_no_database_holds_is_made_visible() -> None:
    content = b'{"public": {"results": [{"name": "a\\u0000", "passed": false, "error": "\\ud800"}]}}'
    (check,) = read("outcome_report.json", content).checks
    assert (check.name, check.message) == ("a\u2400", "\ufffd")


@pytest.mark.parametrize(
    ("content", "value"), [(b"1", 1.0), (b" 0.5\n", 0.5), (b"\xef\xbb\xbf1.0", 1.0), (b"-1e-3", -0.001)]
)
def test_it_reads_a_reward(content: bytes, value: float) -> None:
    assert read_reward(content) == value


@every(b"", b"passed", b"nan", b"1e999", b"1 1", b"\xff")
def test_a_reward_that_is_no_number_is_refused(content: bytes) -> None:
    with pytest.raises(ReportProblem, match="reward.txt"):
        read_reward(content)


def test_booleans_are_rewards_nulls_are_unknown_and_the_rest_is_told() -> None:
    problems: list[ReportProblem] = []
    content = b'{"a": true, "b": false, "c": null, "d": 0.5, "e": "1", "f": [1], "g": 1e999, "h": NaN}'
    assert read_rewards(content, problems) == {"a": 1.0, "b": 0.0, "d": 0.5} | dict.fromkeys("cefgh")
    assert [problem.place for problem in problems] == ["e", "f", "g", "h"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["public", "hidden", "results", "name", "passed", "tests", "status", "dimensions", "ratio", "summary"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("ctrf.json", {"results": {}}, "results: found {} (expected a JSON object with fields)"),
        ("score_report.json", {"public": None}, "found keys 'public' (expected total_score or dimensions)"),
    ],
)
def test_a_report_without_its_content_is_named(name: str, content: object, said: str) -> None:
    (problem,) = read_side_reports({name: json.dumps(content).encode()}).problems
    assert said in str(problem)


@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_break_the_readers(content: bytes) -> None:
    found = read_side_reports(dict.fromkeys(SIDE_REPORTS, content))
    if not found.problems:  # a report of all kinds at once
        assert {"total_score", "dimensions"} & set(json.loads(content))
    read_rewards(content, found.problems)
    with pytest.raises(ReportProblem):
        read_reward(content + b"{}")

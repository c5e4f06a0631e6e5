"""Classes of refusals: a set labelled by hand, and the rules of voting one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchapp.analysis.failures.classification import (
    MARKERS,
    ORDERS,
    STAGES,
    CheckMessage,
    FailureClass,
    Missing,
    VerifierRefusal,
    classify,
    find_signs_of_check,
)
from runner.base.types import CorpusKind

LABELLED: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "fixtures" / "failures" / "labelled.yaml").read_text()
)


def refusal(*messages: str, source: str = "", **fields: Any) -> VerifierRefusal:
    return VerifierRefusal(
        source, tuple(CheckMessage(f"check {place}", text) for place, text in enumerate(messages)), **fields
    )


@pytest.mark.parametrize("case", LABELLED, ids=lambda case: f"{case['source'] or 'none'}:{next(iter(case['checks']))}")
def test_it_agrees_with_the_hand_label(case: dict[str, Any]) -> None:
    checks = tuple(CheckMessage(name, message) for name, message in case["checks"].items())
    assert classify(VerifierRefusal(case["source"], checks)).primary == case["class"]


def test_the_set_has_every_class_and_every_source() -> None:
    assert {case["class"] for case in LABELLED} == {*(each.value for each in FailureClass), None}
    assert {case["source"] for case in LABELLED} == {"", *(kind.value for kind in CorpusKind)}


def test_it_shows_the_check_and_the_words() -> None:
    message = "first line\nE: KeyError: 'total' in answer"
    (sign,) = find_signs_of_check("reads the answer", message)
    assert (sign.check, sign.failure) == ("reads the answer", FailureClass.INTERFACE)
    assert message[sign.start : sign.end].startswith("KeyError: 'total'")
    assert sign.quote == "E: KeyError: 'total' in answer"


def test_most_checks_decide_and_the_others_are_kept() -> None:
    found = classify(refusal("KeyError: 'a'", "expected 3, got 4", "expected 5, got 6"))
    assert found.primary is FailureClass.NUMERIC
    assert found.others == (FailureClass.INTERFACE,)


@pytest.mark.parametrize(
    ("source", "primary"),
    [("repository", "interface/schema"), ("domain-document", "numeric/formula"), ("", "interface/schema")],
)
def test_equal_votes_are_settled_by_the_source(source: str, primary: str) -> None:
    assert classify(refusal("KeyError: 'a'", "expected 3, got 4", source=source)).primary == primary


def test_the_earliest_stage_decides() -> None:
    checks = (
        CheckMessage("compare: a", "numeric: number 1: found 1.0, expected 2.0"),
        CheckMessage("compare: b", "numeric: number 1: found 1.0, expected 3.0"),
        CheckMessage("run: c", "exit: it ended with exit code 2, expected 0"),
    )
    assert classify(VerifierRefusal("domain-document", checks)).primary is FailureClass.RUNTIME


def test_words_know_more_than_a_marker() -> None:
    text = "exit: it ended with exit code 1, expected 0\nKeyError: 'rows'"
    found = classify(VerifierRefusal("repository", (CheckMessage("run: case", text),)))
    assert found.primary is FailureClass.INTERFACE
    assert found.others == (FailureClass.RUNTIME,)


def test_every_marker_is_of_a_stage() -> None:
    assert {stage for stage, _ in MARKERS} == set(STAGES)
    assert {
        sign.failure for (stage, word) in MARKERS for sign in find_signs_of_check(f"{stage}: x", f"{word}: y")
    } == set(FailureClass)


def test_the_output_then_the_exception_then_the_end_speak_where_no_check_does() -> None:
    missing = (Missing("numpy", 2, 9, "No module named 'numpy'"),)
    everything = {
        "output": "expected 3, got 4",
        "exception": "KeyError: 'a'",
        "missing": missing,
        "steps_total": 10,
    }
    assert classify(refusal(**everything)).primary is FailureClass.NUMERIC
    assert classify(refusal(**{**everything, "output": ""})).primary is FailureClass.INTERFACE
    last = classify(refusal(missing=missing, steps_total=10))
    assert last.primary is FailureClass.RUNTIME
    assert last.signs[0].step == 9


@pytest.mark.parametrize("missing", [Missing("numpy", 1, 10, ""), Missing("numpy", 3, 2, "")])
def test_what_was_overcome_explains_nothing(missing: Missing) -> None:
    assert classify(refusal(missing=(missing,), steps_total=10)).primary is None


def test_a_tests_own_code_is_no_answer() -> None:
    answer = 'assert x, f"missing column: name"'
    assert classify(refusal(answer)).primary is not None, "the same words without the braces of code are one"
    assert classify(refusal(answer.replace("name", "{name}"))).primary is None


def test_long_hostile_texts_are_read_in_time() -> None:
    for text in ("expected " * 2_000, "found 1, " * 2_000, "'" * 20_000, "output " * 3_000, "TypeError: " * 2_000):
        classify(refusal(text, output=text, exception=text))


@pytest.mark.parametrize("order", ORDERS.values())
def test_every_order_has_every_class_once(order: tuple[FailureClass, ...]) -> None:
    assert sorted(order) == sorted(FailureClass)

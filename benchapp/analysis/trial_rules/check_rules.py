"""Rules about the verifier's report on a failed trial."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from benchapp.analysis.failures.classification import FailureClass, classify
from benchapp.analysis.failures.failure_patterns import ASSERTED, EXPECTED_GOT, parse_number
from benchapp.analysis.failures.quotes import find_answers, quote_around
from benchapp.analysis.trial_rules.rule_finding import FindingPlace, Reason
from benchapp.analysis.trial_rules.trial_facts import TrialFacts

_UNCALCULATED = re.compile(r"(?:cached value|not (?:been )?recalculated|formula (?:has|with) no value|data_only)", re.I)
_CELL = re.compile(r"\b(?:[A-Z]{1,3}\d{1,5}\b|[Cc]ell\b|xlsx|[Ss]heet)")


def numeric_mismatch(facts: TrialFacts) -> Reason | None:
    """Failed; a check expected one number and got another, or reports wrong numbers. Names a power of ten or a wrong
    sign.

    Cannot see: numbers that are compared but not printed; whether formula, input or rounding is wrong; a count that is
    off because rows are missing.
    """
    if not facts.failed:
        return None
    for match in _find_matches(facts, EXPECTED_GOT, ASSERTED):
        expected, got = parse_number(match["expected"]), parse_number(match["got"] or "")
        if expected is None or got is None or expected == got:
            continue
        return Reason(f"Expected {expected:g}, got {got:g}{_describe_relation(expected, got)}.", "", _place(match))
    return _classify(facts, FailureClass.NUMERIC, "A computed value is wrong")


def missing_recalculation(facts: TrialFacts) -> Reason | None:
    """Failed; a spreadsheet check found None or nan instead of a number, or mentions cached values.

    Cannot see: a cell that was never filled, which looks the same to a reader of cached values.
    """
    if not facts.failed:
        return None
    for match in _find_matches(facts, _UNCALCULATED, EXPECTED_GOT):
        empty = match.re is _UNCALCULATED or match["none"] is not None
        if empty and _CELL.search(match.string):
            return Reason("A cell has no value until its formula is calculated.", "agent", _place(match))
    return None


def missing_artifact(facts: TrialFacts) -> Reason | None:
    """Failed; a check did not find a required output, or cannot use it.

    Cannot see: whether it was never made, made elsewhere, or made under another name.
    """
    return _classify(facts, FailureClass.ASSET, "A required output is missing or unusable")


def interface_schema(facts: TrialFacts) -> Reason | None:
    """Failed; a check broke on the output's format: a missing key or column, text that is not JSON, a function with
    other arguments, the right words written differently.

    Cannot see: formats that the verifier reads without complaint and then finds wrong values in.
    """
    return _classify(facts, FailureClass.INTERFACE, "The output has another format than the check expects")


def runtime_dependency(facts: TrialFacts) -> Reason | None:
    """Failed; a check names a missing module or program or a crash, or the submitted command failed, or the trial missed
    the same thing at least twice, the last time in the last third of its steps.

    Cannot see: a bad workaround for a missing package; whether the missing thing explains the failure.
    """
    return _classify(facts, FailureClass.RUNTIME, "The output does not run in the verifier")


def state_rule(facts: TrialFacts) -> Reason | None:
    """Failed; a check expected one word or truth value and got another, or names a broken rule, state or order; or a
    comparison of content, not of numbers, failed.

    Cannot see: which rule; a correct rule applied to wrong input; rules whose result is a number.
    """
    return _classify(facts, FailureClass.STATE, "The answer does not follow the procedure")


def _classify(facts: TrialFacts, failure: FailureClass, says: str) -> Reason | None:
    """Return the class from the classifier of failures as a reason."""
    if not facts.failed:
        return None
    found = classify(facts.refusal)
    sign = found.sign_of(failure)
    if sign is None:
        return None
    main = "; the main class of this failure" if found.primary is failure else ""
    return Reason(f"{says}: {sign.why}{main}.", "", FindingPlace(sign.step, sign.quote))


def _find_matches(facts: TrialFacts, *patterns: re.Pattern[str]) -> Iterator[re.Match[str]]:
    for text in facts.verifier_texts:
        for pattern in patterns:
            yield from find_answers(pattern, text)


def _place(match: re.Match[str]) -> FindingPlace:
    return FindingPlace(None, quote_around(match))


def _describe_relation(expected: float, got: float) -> str:
    if not expected or not got:
        return ""
    if math.isclose(expected, -got, rel_tol=1e-3):
        return ": the sign is wrong"
    power = math.log10(abs(expected / got))
    if abs(power) >= 0.9 and abs(power - round(power)) < 0.002:
        return f": off by a factor of 10^{round(abs(power))}, perhaps a unit"
    return ""

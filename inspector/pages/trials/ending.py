"""How a trial ended, in one sentence: what a check says, never what a model guesses. Pure."""

from __future__ import annotations

import re

from benchapp.analysis.deciding.deciding_steps import Rule
from benchapp.analysis.deciding.named_values import Expectation, is_telling
from benchapp.models import Attempt, Trial
from benchapp.stats.metrics.agent_ends import AgentEnd, end_of
from inspector.pages.trials.verdict import CheckLine, VerdictView
from inspector.web.text.visible import one_line

NAME_CHARS, VALUE_CHARS = 110, 40
_TEST = re.compile(r"\A(?:[\w./-]+::)?(?:\w+::)?test_+(?P<name>\w+)(?P<case>\[.*\])?\Z", re.DOTALL)
_A_FILE = re.compile(r"(?:an? |the )?file (?P<name>\S+)\Z")
_ENDS = {
    AgentEnd.TIME: "the agent ran out of time",
    AgentEnd.TURNS: "the agent ran out of turns",
    AgentEnd.TOKENS: "the agent ran out of tokens",
    AgentEnd.CONTEXT: "the agent ran out of context",
    AgentEnd.OUTPUT: "the agent wrote more than allowed",
    AgentEnd.NO_CALL: "the agent stopped calling tools",
    AgentEnd.PROGRAM: "the agent crashed",
    AgentEnd.MACHINERY: "the machine failed, not the agent",
}


def say_ending(trial: Trial, attempt: Attempt | None, verdict: VerdictView | None) -> str:
    """Without a full stop."""
    if attempt is None:
        return "Not started yet"
    match attempt.status:
        case "running":
            return "Running now"
        case "interrupted":
            return "Unknown how it ended" if attempt.source_key else "Interrupted before it finished"
        case "infrastructure":
            return "The machine failed, not the agent"
    if verdict is None or verdict.verdict.success is None:
        return _say_unscored(attempt)
    return _say_passed(trial, verdict) if verdict.verdict.success else _say_failed(attempt, verdict)


def _say_unscored(attempt: Attempt) -> str:
    end = end_of(attempt.exception_type) if attempt.exception_type else None
    return f"Not scored: {_ENDS[end]}" if end else "Not scored: no verdict"


def _say_passed(trial: Trial, verdict: VerdictView) -> str:
    if verdict.failed:
        return f"Passed, but one check failed: {name_check(verdict.failed[0])}"
    total = verdict.total or trial.checks_total
    if not total:
        return "Passed; the verifier reports no checks"
    return f"Passed all {total} checks" if total > 1 else "Passed its one check"


def _say_failed(attempt: Attempt, verdict: VerdictView) -> str:
    end = end_of(attempt.exception_type) if attempt.exception_type else None
    before = f"{_ENDS[end].capitalize()}. " if end else ""
    if not verdict.failed:
        return before + (
            "No check failed, but the score is too low" if verdict.total else "Failed; the verifier reports no checks"
        )
    first, count = verdict.failed[0], len(verdict.failed)
    said = before + _say_check(first)
    return f"{said}. {count} of {verdict.total} checks failed" if count > 1 else said


def _say_check(check: CheckLine) -> str:
    name = name_check(check)
    if not check.compared:
        return name
    one = _choose_expectation(check)
    label, found, expected = (one_line(value, VALUE_CHARS) for value in (one.label, one.found, one.expected))
    if found in ("none", "nothing"):
        return _say_missing(name, label, expected)
    return f"{name}: {label} {found}, not {expected}" if label else f"{name}: found {found}, not {expected}"


def _say_missing(name: str, label: str, expected: str) -> str:
    """A file is missing; else the check's name, with what it did not find."""
    file = _A_FILE.match(expected)
    if file:
        return f"{file['name']} is missing"
    return f"{name}: {label}, found none" if label else f"{name}: expected {expected}, found none"


def _choose_expectation(check: CheckLine) -> Expectation:
    """The one whose value the deciding step prints, so that sentence and step name one number; else the first telling one."""
    printed = [step.about for step in check.decided if step.rule is Rule.PRINTS]
    by_step = (each for each in check.compared if any(about.endswith(each.found) for about in printed))
    telling = (each for each in check.compared if is_telling(each.found))
    return next(by_step, None) or next(telling, check.compared[0])


def name_check(check: CheckLine) -> str:
    """A test's function as words; any other name as it stands."""
    match = _TEST.match(check.name)
    if not match:
        name = one_line(check.name, NAME_CHARS)
        return f"{name[:1].upper()}{name[1:]}" if " " in name and "." not in name.partition(" ")[0] else name
    words = " ".join(match["name"].split("_"))
    return one_line(f"{words[:1].upper()}{words[1:]}{' ' + match['case'] if match['case'] else ''}", NAME_CHARS)

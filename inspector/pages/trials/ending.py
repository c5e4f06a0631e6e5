"""How a trial ended and why, in one sentence: what its checks recorded, never what a model guesses. Pure."""

from __future__ import annotations

import re

from benchapp.analysis.deciding.deciding_steps import Rule
from benchapp.analysis.deciding.named_values import MOST, Expectation, is_telling
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
    kind = end_of(attempt.exception_type) if attempt.exception_type else None
    end = _ENDS[kind] if kind else ""
    if verdict is None or verdict.verdict.success is None:
        if not end and verdict and verdict.verdict.reward is None and len(verdict.verdict.rewards) > 1:
            end = "several scorers, and nobody named the one that decides"
        return f"No verdict: {end}" if end else "No verdict is recorded"
    if verdict.verdict.success:
        return _say_passed(trial, verdict)
    failed = _say_failed(verdict)
    return f"{end[:1].upper()}{end[1:]}. {failed}" if end else failed


def _say_passed(trial: Trial, verdict: VerdictView) -> str:
    if verdict.failed:
        counted = _count_failed(verdict)
        return f"Passed, but {counted[:1].lower()}{counted[1:]}: {name_check(verdict.failed[0])}"
    total = verdict.total or trial.checks_total
    if not total:
        return "Passed; the verifier reports no checks"
    return f"All {total} checks passed" if total > 1 else "Its one check passed"


def _say_failed(verdict: VerdictView) -> str:
    if not verdict.total:
        return "Failed; the verifier reports no checks"
    if not verdict.failed:
        return "No check failed, but the score is too low"
    return f"{_count_failed(verdict)}: {_say_check(verdict.failed[0])}"


def _count_failed(verdict: VerdictView) -> str:
    return f"{len(verdict.failed)} of {verdict.total} checks failed" if verdict.total > 1 else "Its one check failed"


def _say_check(check: CheckLine) -> str:
    """What is wrong, with how many values the check says are wrong. It lists the first of them."""
    if not check.compared:
        return name_check(check)
    one = _choose_expectation(check)
    label, found, expected = (one_line(value, VALUE_CHARS) for value in (one.label, one.found, one.expected))
    if found in ("none", "nothing") and (file := _A_FILE.match(expected)):
        return f"{file['name']} is missing"
    first = "the first" if one is check.compared[0] else "one"
    item, _, column = label.rpartition(", ")
    if column and " " not in column:  # of a table
        of_item = f" of {item}" if item and check.wrong == 1 else ""
        what = f"{column}{of_item} is {'empty' if found == '(empty)' else found} and should be {expected}"
    else:
        what, first = f"{label or name_check(check)}: found {found}, not {expected}", f"{first}:"
    if check.wrong == 1:
        return what
    # A list as long as what is read from a message may be longer in the message.
    return f"{'several' if len(check.compared) == MOST else check.wrong} values are wrong, {first} {what}"


def _choose_expectation(check: CheckLine) -> Expectation:
    """Prefer the mismatch whose value the deciding step prints, so that sentence and step name one number; else the first distinctive one."""
    printed = [step.about for step in check.decided if step.rule is Rule.PRINTS]
    by_step = (each for each in check.compared if any(about.endswith(each.found) for about in printed))
    telling = (each for each in check.compared if is_telling(each.found))
    return next(by_step, None) or next(telling, check.compared[0])


def name_check(check: CheckLine) -> str:
    """Return a test function's name as words; any other name unchanged."""
    match = _TEST.match(check.name)
    if not match:
        name = one_line(check.name, NAME_CHARS)
        return f"{name[:1].upper()}{name[1:]}" if " " in name and "." not in name.partition(" ")[0] else name
    words = " ".join(match["name"].split("_"))
    return one_line(f"{words[:1].upper()}{words[1:]}{' ' + match['case'] if match['case'] else ''}", NAME_CHARS)

"""Rules about trials that were ended: by a limit, by the harness, by the verifier's own tools."""

from __future__ import annotations

import re

from benchapp.analysis.failures.quotes import quote_around
from benchapp.analysis.trial_rules.rule_finding import FindingPlace, Reason
from benchapp.analysis.trial_rules.trial_facts import TrialFacts
from benchapp.stats.metrics.agent_ends import HARNESS_TYPES
from runner.base.types import CheckStatus

_CONTEXT = re.compile(r"context[ _]?(?:window|length)|prompt is too long|maximum context|token limit exceeded", re.I)
_VERIFIER_TOOL = re.compile(
    r"(?:CalledProcessError|Unknown option|unrecognized (?:option|arguments?)|INTERNALERROR"
    r"|[Ee]rror collecting|ERROR collecting|fixture '[^'\n]{1,80}' not found|errors? during collection)"
)
_VERIFIER_SETUP = re.compile(
    r"(?:Could not find a version|No matching distribution|Failed to (?:fetch|download)"
    r"|Could not resolve host|Temporary failure in name resolution)"
)
_PATH = re.compile(r"(?:/[^\s/:,;]+){2,}/?")  # names the machine, and often the condition


def agent_timeout(facts: TrialFacts) -> Reason | None:
    """Not passed; the agent's time limit ended the attempt.

    Cannot see: whether more time would have helped; what took the time.
    """
    if facts.success or not re.search(r"Timeout|TimedOut", facts.exception_type):
        return None
    if re.match(r"Verifier|Environment", facts.exception_type):
        return None
    return Reason(_render_exception(facts), "", _find_last_step(facts))


def context_exhausted(facts: TrialFacts) -> Reason | None:
    """Not passed; the exception or the last results report a full context.

    Cannot see: contexts that the harness shortened silently.
    """
    if facts.success:
        return None
    if _CONTEXT.search(f"{facts.exception_type} {facts.exception_message}"):
        return Reason(_render_exception(facts), "agent", _find_last_step(facts))
    course = facts.course
    if course and course.context_full and (course.context_full.step or 0) >= course.steps_total - 2:
        return Reason("The context was full at the end.", "agent", course.context_full)
    return None


def harness_failure(facts: TrialFacts) -> Reason | None:
    """Not passed; a machine failure ended the attempt: reward file, container or provider.

    Cannot see: failures that a harness hides; an agent that caused the failure itself.
    """
    if facts.success or not HARNESS_TYPES.search(facts.exception_type):
        return None
    return Reason(_render_exception(facts), "harness")


def verifier_toolchain(facts: TrialFacts) -> Reason | None:
    """Not passed; the verifier's own tools failed: an unknown option, tests that could not be collected, a failed
    download, its own time limit.

    Cannot see: a verifier that is wrong without an error; a tool that failed because of the agent's output.
    """
    if facts.success:
        return None
    if facts.exception_type.startswith("Verifier"):
        return Reason(_render_exception(facts), "verifier")
    for text in (*facts.verifier_texts, facts.output):
        if match := _VERIFIER_TOOL.search(text) or _VERIFIER_SETUP.search(text):
            return Reason("The verifier's own tool failed.", "verifier", FindingPlace(None, quote_around(match)))
    errors = [check for check in facts.checks if check.status == CheckStatus.ERROR]
    if errors and len(errors) == facts.checks_total:
        return Reason(f"All {len(errors)} checks ended in an error, none in an answer.", "verifier")
    return None


def _render_exception(facts: TrialFacts) -> str:
    message = _PATH.sub("(a path)", " ".join(facts.exception_message.split()))[:200]
    return f"{facts.exception_type}: {message}" if message else facts.exception_type


def _find_last_step(facts: TrialFacts) -> FindingPlace | None:
    return FindingPlace(facts.course.steps_total, "") if facts.course and facts.course.steps_total else None

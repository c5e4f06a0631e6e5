"""How much of a verdict the author sees.

none     nothing at all
binary   passed or not
rich     with reward, the shares of outcome and process checks, and every failed check with its message
process  with the rubric's dimensions and a reading of outcome against process as well

At no level does an author see the messages of a declared evaluation's hidden checks (`without_answers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.authoring.occasion import FeedbackLevel
from runner.base.types import Check, CheckGroup, CheckStatus, Verdict
from runner.evaluating.declaration import SOURCES as DECLARED_SOURCES
from runner.trajectories.compaction import VERDICT_NOT_SHOWN, ShownVerdict

MAX_CHECKS = 60
MAX_MESSAGE_CHARS = 600

_OUTCOME = (CheckGroup.PUBLIC, CheckGroup.HIDDEN, CheckGroup.TEST)
_READINGS = {
    (True, True): "The result is right and was reached the right way. Keep what led there; look for detours.",
    (
        True,
        False,
    ): "The result is right, but not the way to it: a shortcut that other tasks will punish. Look for the step "
    "that was skipped, and make the skill insist on it.",
    (
        False,
        True,
    ): "The way was right, but not the result: a detail of the procedure is missing or wrong. Look for the value "
    "or rule behind the failed checks, and state it as a rule.",
    (
        False,
        False,
    ): "Neither the result nor the way is right. Look for the first wrong turn; what follows comes from it.",
}


def show_verdict(verdict: Verdict | None, feedback: FeedbackLevel) -> ShownVerdict:
    """Select what this level allows in the evidence. The verifier's output is no evidence at any level."""
    if feedback == "none":
        return ShownVerdict(is_hidden=True)
    if verdict is None or feedback == "binary":
        return ShownVerdict(verdict and Verdict(source=verdict.source, success=verdict.success))
    return ShownVerdict(replace(without_answers(verdict), output=""), with_checks=True)


def verdict_word(verdict: Verdict | None, feedback: FeedbackLevel) -> str:
    """Return the word for headings: passed, failed, no verdict, or hidden."""
    if feedback == "none":
        return VERDICT_NOT_SHOWN
    if verdict is None or verdict.success is None:
        return "no verdict"
    return "passed" if verdict.success else "failed"


def without_answers(verdict: Verdict) -> Verdict:
    """Return the part of the verdict that a learner may see.

    A comparison says what was expected, and a crash may quote the input. For hidden checks of a declared evaluation
    only the marker is kept, since an author never sees test cases and reference outputs (SkillGenBench, section 3.4).
    """
    if verdict.source not in DECLARED_SOURCES:
        return verdict
    dimensions = tuple(replace(each, reason="") for each in verdict.dimensions)
    checks = (
        replace(each, message=each.message.partition(":")[0]) if each.group is CheckGroup.HIDDEN else each
        for each in verdict.checks
    )
    return replace(verdict, checks=tuple(checks), dimensions=dimensions)


def verdict_section(
    verdict: Verdict | None, feedback: FeedbackLevel, *, with_checks: bool = True, with_answers: bool = False
) -> str:
    """Return the text below the heading. At level none it is the same for every verdict.

    `with_checks`: False if the record of the trial follows and lists the failed checks in its header.
    `with_answers`: keep every message, for a reader who may know the answers and is kept from passing them on.
    """
    shown = show_verdict(verdict, feedback)
    if shown.is_hidden:
        return VERDICT_NOT_SHOWN
    lines = [f"result: {verdict_word(verdict, feedback)}"]
    if verdict is not None and shown.verdict is not None and shown.with_checks:
        verdict = verdict if with_answers else shown.verdict
        figures = {"reward": verdict.reward, "outcome": verdict.outcome, "process": verdict.process}
        lines += [f"{name}: {value:.3f}" for name, value in figures.items() if value is not None]
        failed = [check for check in verdict.checks if check.status in (CheckStatus.FAILED, CheckStatus.ERROR)]
        if failed and with_checks:
            lines += _render_checks(failed)
        elif failed:
            lines.append(f"failed checks: {len(failed):,}, listed at the top of the trial's record")
        if verdict.dimensions and (feedback == "process" or not verdict.checks):
            lines.append("dimensions:")
            for each in verdict.dimensions:
                lines.append(f"- {' '.join(each.name.split())[:200]}: {each.score:g} of {each.max_score:g}")
        outcome = [check.status is CheckStatus.PASSED for check in verdict.checks if check.group in _OUTCOME]
        process = [check.status is CheckStatus.PASSED for check in verdict.checks if check.group is CheckGroup.PROCESS]
        if feedback == "process" and outcome and process:
            lines.append(f"reading: {_READINGS[all(outcome), all(process)]}")
    return "\n".join(lines)


def _render_checks(failed: list[Check]) -> Iterator[str]:
    yield "failed checks:"
    for check in failed[:MAX_CHECKS]:
        yield f"- [{check.group}] {_line(check)}"
    if len(failed) > MAX_CHECKS:
        yield f"[... {len(failed) - MAX_CHECKS:,} failed checks left out ...]"


def _line(check: Check) -> str:
    message = " ".join(check.message.split())
    if len(message) > MAX_MESSAGE_CHARS:
        left_out = len(message) - MAX_MESSAGE_CHARS
        message = f"{message[:MAX_MESSAGE_CHARS]} [... {left_out:,} characters left out ...]"
    name = " ".join(check.name.split())[:200]
    return f"{name}: {message}" if message else name

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
from runner.trajectories.compaction import VERDICT_NOT_SHOWN

FEEDBACK_LEVELS: tuple[FeedbackLevel, ...] = ("none", "binary", "rich", "process")
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


def verdict_word(verdict: Verdict | None, feedback: FeedbackLevel) -> str:
    """For headings: passed, failed, no verdict, or hidden."""
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
    return replace(verdict, checks=tuple(map(_without_answer, verdict.checks)), dimensions=dimensions)


def _without_answer(check: Check) -> Check:
    if check.group is not CheckGroup.HIDDEN:
        return check
    return replace(check, message=check.message.partition(":")[0])


def verdict_section(
    verdict: Verdict | None, feedback: FeedbackLevel, *, with_checks: bool = True, with_answers: bool = False
) -> str:
    """Return the text below the heading. At level none it is the same for every verdict.

    `with_checks`: False if the record of the trial follows and lists the failed checks in its header.
    `with_answers`: keep every message, for a reader who may know the answers and is kept from passing them on.
    """
    if feedback == "none":
        return VERDICT_NOT_SHOWN
    if verdict is not None and not with_answers:
        verdict = without_answers(verdict)
    lines = [f"result: {verdict_word(verdict, feedback)}"]
    if verdict is not None and feedback in ("rich", "process"):
        lines += _render_figures(verdict)
        lines += _render_failed_checks(verdict) if with_checks else _render_count(verdict)
        lines += _render_dimensions(verdict) if feedback == "process" or not verdict.checks else ()
        lines += _render_reading(verdict) if feedback == "process" else ()
    return "\n".join(lines)


def _render_figures(verdict: Verdict) -> Iterator[str]:
    for name, value in (("reward", verdict.reward), ("outcome", verdict.outcome), ("process", verdict.process)):
        if value is not None:
            yield f"{name}: {value:.3f}"


def _select_failed(verdict: Verdict) -> list[Check]:
    return [check for check in verdict.checks if check.status in (CheckStatus.FAILED, CheckStatus.ERROR)]


def _render_count(verdict: Verdict) -> Iterator[str]:
    if failed := _select_failed(verdict):
        yield f"failed checks: {len(failed):,}, listed at the top of the trial's record"


def _render_failed_checks(verdict: Verdict) -> Iterator[str]:
    failed = _select_failed(verdict)
    if failed:
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


def _render_dimensions(verdict: Verdict) -> Iterator[str]:
    if verdict.dimensions:
        yield "dimensions:"
    for dimension in verdict.dimensions:
        yield f"- {' '.join(dimension.name.split())[:200]}: {dimension.score:g} of {dimension.max_score:g}"


def _render_reading(verdict: Verdict) -> Iterator[str]:
    outcome = [check.status is CheckStatus.PASSED for check in verdict.checks if check.group in _OUTCOME]
    process = [check.status is CheckStatus.PASSED for check in verdict.checks if check.group is CheckGroup.PROCESS]
    if outcome and process:
        yield f"reading: {_READINGS[all(outcome), all(process)]}"

"""What a difference means in one of nine words, by one rule, wherever it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from benchapp.stats.comparing.comparison_sentences import LEVEL, leaves_out_zero
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.sentences import SAME
from benchapp.stats.inference.strata import StratifiedTest
from benchapp.stats.metrics.metric import Better, TrialMetric

_NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Effect(StrEnum):
    """The value is what a page says. Up is better, also where less of the metric is better. Where neither direction is, a
    difference is that alone."""

    UP = "clearly better"
    DOWN = "clearly worse"
    LIKELY_UP = "likely better"
    LIKELY_DOWN = "likely worse"
    DIFFERENT = "clearly different"
    LIKELY_DIFFERENT = "likely different"
    SAME = "about the same"
    OPEN = "no clear difference yet"
    UNTESTED = "cannot be tested yet"

    @property
    def glyph(self) -> str:
        return GLYPHS[self]

    @property
    def is_clear(self) -> bool:
        return self in CLEAR

    @property
    def is_likely(self) -> bool:
        return self in LIKELY

    @property
    def is_found(self) -> bool:
        """Clear or likely: the test alone leaves out zero."""
        return self.is_clear or self.is_likely

    @property
    def tone(self) -> str:
        """A class of the style sheet: better, worse or empty. What is only different has no colour."""
        better = self in (Effect.UP, Effect.LIKELY_UP)
        return "better" if better else "worse" if self in (Effect.DOWN, Effect.LIKELY_DOWN) else ""


CLEAR = (Effect.UP, Effect.DOWN, Effect.DIFFERENT)
LIKELY = (Effect.LIKELY_UP, Effect.LIKELY_DOWN, Effect.LIKELY_DIFFERENT)
GLYPHS = {
    **{Effect.UP: "▲", Effect.DOWN: "▼", Effect.LIKELY_UP: "△", Effect.LIKELY_DOWN: "▽"},
    **{Effect.DIFFERENT: "◆", Effect.LIKELY_DIFFERENT: "◇"},
    **{Effect.SAME: "≈", Effect.OPEN: "↔", Effect.UNTESTED: "–"},
}


def judge_effect(difference: Difference | None, corrected: float | None, metric: TrialMetric) -> Effect:
    """Clearly: the interval leaves out 0, and so does the test after correction over all rows shown together (`corrected`:
    Holm's p). Likely: only before the correction. About the same: a share whose interval lies within 5 points of 0.
    """
    if difference is None or not _is_tested(difference):
        return Effect.UNTESTED
    interval = difference.interval
    if leaves_out_zero(difference):
        is_clear = corrected is not None and corrected <= LEVEL
        if not metric.has_better:
            return Effect.DIFFERENT if is_clear else Effect.LIKELY_DIFFERENT
        if (difference.delta > 0) == (metric.better is Better.HIGHER):
            return Effect.UP if is_clear else Effect.LIKELY_UP
        return Effect.DOWN if is_clear else Effect.LIKELY_DOWN
    if metric.is_share and interval and interval.low >= -SAME and interval.high <= SAME:
        return Effect.SAME
    return Effect.OPEN


def judge_test(test: StratifiedTest) -> Effect:
    """What the other side did, of the same tasks run in two ways: an exact test alone, so there is nothing to correct and no
    interval that could show them to be about the same."""
    if not test.is_enough:
        return Effect.UNTESTED
    if test.p > LEVEL:
        return Effect.OPEN
    return Effect.UP if test.excess < 0 else Effect.DOWN


def _is_tested(difference: Difference) -> bool:
    """Whether any outcome could have reached the level."""
    if difference.interval is not None:
        return True
    return difference.p is not None and (difference.smallest_p or 0.0) <= LEVEL


def say_so_far(answer: str) -> str:
    """Before the end, or where it will not come: the test was made for all planned trials."""
    return f"So far: {answer[:1].lower()}{answer[1:]}"


def answer_question(effects: Sequence[Effect], episodes: int) -> str:
    """The heading that answers "Did skills help?" from the effects of all ways to remember against no skill. What cannot be
    tested is not counted among those that did not help."""
    tested = [each for each in effects if each is not Effect.UNTESTED]
    count = len(tested)
    what = "tested conditions" if count < len(effects) else "conditions"
    better, likely, hurts = (
        tested.count(Effect.UP),
        tested.count(Effect.LIKELY_UP),
        _say_harm(tested, is_all=count == len(effects)),
    )
    if better:
        return f"Yes, {_say_part(better, count, what)} clearly helped{hurts}."
    if not tested:
        if not episodes:
            return "Nothing to compare yet."
        return f"Too little data for an answer ({episodes} episode{'s' if episodes > 1 else ''})."
    if likely:
        return f"Likely: {_say_part(likely, count, what)} helped, but not beyond doubt{hurts}."
    if all(each in (Effect.SAME, Effect.DOWN, Effect.LIKELY_DOWN) for each in tested):
        no = "Not by more than 5 points" if Effect.SAME in tested else "No"
        return f"{no}{', as far as tested' if count < len(effects) else ''}{hurts}."
    return f"Not clear yet{hurts}."


def _say_count(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _say_harm(tested: Sequence[Effect], *, is_all: bool) -> str:
    """No heading hides it, clear or likely: "; one clearly hurt", one condition where none was named before."""
    said, is_named = "", Effect.UP in tested or Effect.LIKELY_UP in tested
    for effect, sure in ((Effect.DOWN, "clearly"), (Effect.LIKELY_DOWN, "likely")):
        if worse := tested.count(effect):
            noun = "" if is_named or said else " condition" if worse == 1 else " conditions"
            who = ("skills" if is_all else "the one tested condition") if len(tested) == 1 else _say_count(worse) + noun
            said += f"{', ' if said else '; '}{who} {sure} hurt"
    return said


def _say_part(part: int, count: int, what: str) -> str:
    """The subject of a sentence about conditions: "one of three conditions", "both conditions"."""
    if part < count:
        return f"{_say_count(part)} of {_say_count(count)} {what}"
    one = "skills" if what == "conditions" else "the one tested condition"
    return {1: one, 2: f"both {what}"}.get(count, f"all {_say_count(count)} {what}")

"""The verdict on a difference: one of four, by one rule, wherever it is shown; and the heading over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from math import ceil

from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.difference import Claim, Difference
from benchapp.stats.inference.model import ALPHA
from benchapp.stats.inference.sentences import SHARES, amounts, sentence
from benchapp.stats.inference.strata import StratifiedTest
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import Better, MetricUnit, TrialMetric
from benchapp.stats.planning import SOUGHT

_NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Effect(StrEnum):
    """The value is a code. "Better" means better, even for metrics where less is better."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "no-large-difference"
    OPEN = "not-settled"
    TOO_SMALL = "too-small"
    ESTIMATE = "estimate"  # no verdict: before the end, or for a metric that was not declared

    @property
    def words(self) -> str:
        return WORDS[self]

    @property
    def glyph(self) -> str:
        return GLYPHS[self]

    @property
    def is_clear(self) -> bool:
        return self in (Effect.BETTER, Effect.WORSE)

    @property
    def tone(self) -> str:
        """A class of the style sheet; empty for the others."""
        return self.value if self.is_clear else ""


NO_LARGER = "no difference larger than {:.0f} points"
WORDS = {
    Effect.BETTER: "clearly better",
    Effect.WORSE: "clearly worse",
    Effect.SAME: NO_LARGER.format(100 * SOUGHT),
    Effect.OPEN: "not settled",
    Effect.TOO_SMALL: "too small to test",
    Effect.ESTIMATE: "no verdict",
}
NO_VERDICT_YET = f"{WORDS[Effect.ESTIMATE]} before the end"
GLYPHS = {
    Effect.BETTER: "▲",
    Effect.WORSE: "▼",
    Effect.SAME: "≈",
    Effect.OPEN: "↔",
    Effect.TOO_SMALL: "–",
    Effect.ESTIMATE: "·",
}
CLAIMS = {  # the scope of the verdict
    Claim.ONE_RUN: "in this run; reruns not measured",
    Claim.RUN: "in these runs",
    Claim.RERUN: "also if rerun",
}


def judge_effect(difference: Difference | None, metric: TrialMetric, *, is_final: bool = True) -> Effect:
    """Judge by the corrected p. No large difference where its bound is within 10 points; too small where no difference
    could have been clear. is_final: all trials ended, and the metric is primary or declared; else there is no
    verdict."""
    if not is_final or not metric.has_better:
        return Effect.ESTIMATE
    if difference is None or difference.test is None:
        return Effect.TOO_SMALL
    if difference.is_clear:
        return Effect.BETTER if (difference.delta > 0) == (metric.better is Better.HIGHER) else Effect.WORSE
    bound = difference.bound_of_difference
    if metric.is_share and bound is not None and bound <= SOUGHT:
        return Effect.SAME
    return Effect.TOO_SMALL if difference.is_hopeless else Effect.OPEN


def name_effect(effect: Effect, difference: Difference | None) -> str:
    """Return the words, with the bound in whole points where there is no large difference."""
    bound = difference.bound_of_difference if difference else None
    if effect is not Effect.SAME or bound is None:
        return effect.words
    return NO_LARGER.format(ceil(100 * bound))


def name_claim(effect: Effect, difference: Difference | None) -> str:
    """Return the scope of the verdict; empty where nothing is claimed."""
    return CLAIMS[difference.claim] if difference and (effect.is_clear or effect is Effect.SAME) else ""


def describe_effect(effect: Effect, difference: Difference | None) -> str:
    return ", ".join(filter(None, (name_effect(effect, difference), name_claim(effect, difference))))


def judge_test(test: StratifiedTest) -> Effect:
    """Judge the other side, on the same tasks run in two ways. It is an exact test alone, so there is nothing to
    correct and no interval that could show them to be about the same."""
    if not test.is_enough:
        return Effect.TOO_SMALL
    if test.p > ALPHA:
        return Effect.OPEN
    return Effect.BETTER if test.excess < 0 else Effect.WORSE


def answer_question(effects: Sequence[Effect], claims: Sequence[Claim] = ()) -> str:
    """Return the heading that answers "Did skills help?" from the effects of all ways to remember against no skill,
    with its scope. What cannot be tested does not count as a failure to help."""
    if not effects:
        return "Nothing to compare yet."
    if set(effects) == {Effect.ESTIMATE}:
        return f"{Effect.ESTIMATE.words.capitalize()}."
    tested = [each for each in effects if each is not Effect.TOO_SMALL]
    if not tested:
        return f"{Effect.TOO_SMALL.words.capitalize()}."
    count = len(tested)
    what = "tested conditions" if count < len(effects) else "conditions"
    better, worse = tested.count(Effect.BETTER), tested.count(Effect.WORSE)
    hurt = _describe_harm(worse, count, is_all=count == len(effects), is_named=better > 0)
    where = f", {CLAIMS[claims[0]]}" if len(set(claims)) == 1 and (better or worse) else ""
    if better:
        return f"Yes, {_describe_part(better, count, what)} clearly helped{hurt}{where}."
    if worse == count:
        return f"No{hurt}{where}."
    if worse + tested.count(Effect.SAME) == count:
        limited = ", as far as tested" if count < len(effects) else ""
        return f"Not by more than {100 * SOUGHT:.0f} points{limited}{hurt}{where}."
    return f"{Effect.OPEN.words.capitalize()}{hurt}{where}."


def _count_in_words(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _describe_harm(worse: int, count: int, *, is_all: bool, is_named: bool) -> str:
    """Return the part that no heading hides: "; one clearly hurt", or one condition where none was named before."""
    if not worse:
        return ""
    if count == 1:
        return f"; {'skills' if is_all else 'the one tested condition'} clearly hurt"
    noun = "" if is_named else " condition" if worse == 1 else " conditions"
    return f"; {_count_in_words(worse)}{noun} clearly hurt"


def _describe_part(part: int, count: int, what: str) -> str:
    """Return the subject of a sentence about conditions: "one of three conditions", "both conditions"."""
    if part < count:
        return f"{_count_in_words(part)} of {_count_in_words(count)} {what}"
    one = "skills" if what == "conditions" else "the one tested condition"
    return {1: one, 2: f"both {what}"}.get(count, f"all {_count_in_words(count)} {what}")


DIGITS = {MetricUnit.USD: 4, MetricUnit.TOKENS: 0, MetricUnit.SCORE: 2}


def difference_in_words(
    difference: Difference, group: Group, baseline: Group, metric: TrialMetric, verdict: str = ""
) -> str:
    """Write one sentence, with conditions as names if these differ, else with agent models."""
    own, other = group.agent_model, baseline.agent_model
    if group.condition != baseline.condition:
        own, other = name_condition(group.condition).title, name_condition(baseline.condition).title
    unit = "" if metric.unit is MetricUnit.SCORE else metric.unit.value  # nobody says "0.35 score"
    wording = SHARES if metric.is_share else amounts(unit, DIGITS.get(metric.unit, 1))
    named = name_metric(metric)
    if metric.macro:
        wording = replace(wording, verb=None, over="families")
    elif metric.is_share:
        wording = replace(wording, verb=named.did)
    return sentence(difference, own=own, other=other, metric=named.title, verdict=verdict, wording=wording)

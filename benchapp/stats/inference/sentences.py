"""A difference in one plain sentence, from its primary test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.random_effects import SecondOpinion
from benchapp.stats.inference.replicates import SMALLER, is_lopsided
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_signed


@dataclass(frozen=True, slots=True)
class DifferenceWording:
    """How a metric's numbers are said. value: a mean; change: a difference with its sign.

    verb: what a condition did to the tasks counted, for metrics of passes; None where the values are no passes.
    over: what the means are over, where it is not the tasks. same: a difference that is about none, where there is one.
    """

    value: Callable[[float], str]
    change: Callable[[float], str]
    verb: str | None = None
    over: str = ""
    same: float | None = None


SAME = 0.05  # shares: an interval inside -5..5 points shows that two are about the same
SHARES = DifferenceWording(
    value=lambda share: f"{percent_text(share, 1)} %",
    change=lambda share: f"{render_signed(100 * share, 1)} points",
    verb="solved",
    same=SAME,
)


def amounts(unit: str, digits: int = 1) -> DifferenceWording:
    """Wording of metrics that are no shares: turns, tokens, USD. Numbers come with thousands separators."""
    return DifferenceWording(
        value=lambda value: f"{value:,.{digits}f} {unit}",
        change=lambda value: f"{render_signed(value, digits)} {unit}",
    )


def sentence(
    difference: Difference,
    *,
    own: str,
    other: str,
    metric: str,
    unit: str = "tasks",
    clusters: str = "episodes",
    wording: DifferenceWording = SHARES,
) -> str:
    """One sentence: what each side reached, the difference, its interval and test, and what it covers.

    unit and clusters: what the tasks and the clusters are called, in the plural.
    """
    parts = [
        f"{metric}: {_sides(difference, own, other, unit, wording)}: {_delta(difference, clusters, wording)}",
        _verdict(difference, clusters, wording),
        _second(difference, clusters, wording),
        _covers(difference, unit),
        _missing(difference, wording),
    ]
    return "; ".join(filter(None, parts)) + "."


def _sides(difference: Difference, own: str, other: str, unit: str, wording: DifferenceWording) -> str:
    n = difference.tasks
    if difference.discordant is not None and wording.verb:
        passed = round(difference.own * n), round(difference.other * n)
        return f"{own} {wording.verb} {passed[0]} of {n} {unit}, {other} {passed[1]} of {n} of the same"
    over = f" (means over {wording.over})" if wording.over else ""
    means = f"{own} {wording.value(difference.own)}, {other} {wording.value(difference.other)}{over}"
    if difference.replicates == (1, 1):
        return f"{means} on the same {n} {unit}"
    return f"{means} on the same {n} {unit}, {_runs(difference.replicates)}"


def _runs(replicates: tuple[int, int]) -> str:
    own, other = replicates
    return f"{own} replicates each" if own == other else f"{own} against {other} replicates"


def _delta(difference: Difference, clusters: str, wording: DifferenceWording) -> str:
    said = wording.change(difference.delta)
    if difference.interval is None:
        return said
    interval = difference.interval
    ends = _bare(wording, interval.low), wording.change(interval.high)
    level = f"{100 * interval.level:.0f} % interval {ends[0]} to {ends[1]}"
    return f"{said} ({level}; {_test(difference, clusters)}, {say_p(difference.p)})"


def _bare(wording: DifferenceWording, value: float) -> str:
    """The low end without its unit, where the unit is the last word."""
    return wording.change(value).rsplit(" ", 1)[0]


def _test(difference: Difference, clusters: str) -> str:
    if difference.method == "welch":
        lopsided = f", {SMALLER}" if is_lopsided(*difference.replicates) else ""
        return f"Welch's t over the means of replicates{lopsided}"
    exact = "exact " if difference.is_exact else ""
    if difference.method == "swap":
        return f"sign-flip and swap of replicates over {difference.clusters} {clusters}"
    return f"{exact}sign-flip over {difference.clusters} {clusters}"


def say_opinion(opinion: SecondOpinion) -> str:
    """A sentence beside the one of the difference, in which nothing changes for it."""
    ends = f"{_bare(SHARES, opinion.low)} to {SHARES.change(opinion.high)}"
    chance = (
        f"{opinion.above:.2f}"
        if 0.01 <= opinion.above <= 0.99
        else "over 0.99"
        if opinion.above > 0.5
        else "under 0.01"
    )
    return (
        f"Second opinion, deciding nothing: random effects over {opinion.episodes} episodes give {SHARES.change(opinion.mean)} "
        f"(95 % interval {ends}), above 0 with probability {chance}."
    )


def say_p(p: float | None) -> str:
    if p is None:
        return "no p"
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"


def _verdict(difference: Difference, clusters: str, wording: DifferenceWording) -> str:
    if difference.method == "none":
        return _too_few(difference, clusters)
    if difference.interval is None:
        return f"{difference.note} ({_test(difference, clusters)}, {say_p(difference.p)})"
    if difference.excludes_zero:
        return "more than chance alone would usually give"
    return "; ".join(
        filter(None, ("no clear difference: chance alone could give this", _left_out(difference, wording)))
    )


def _left_out(difference: Difference, wording: DifferenceWording) -> str:
    """What the interval shows all the same: that the one is not worse, or not better, by more than about nothing."""
    interval, same = difference.interval, wording.same
    if interval is None or same is None:
        return ""
    # Of few passes a sign-flip's interval is too short for this: Student's, where it stands beside, must say the same.
    both = [interval, *difference.secondary[:1]] if difference.method in ("sign-flip", "swap") else [interval]
    low, high = min(each.low for each in both), max(each.high for each in both)
    sides = [name for name, out in (("drop", low >= -same), ("rise", high <= same)) if out]
    if not sides:
        return ""
    what = sides[0] if len(sides) == 1 else "difference"
    return f"the interval leaves out a {what} of more than {100 * same:.0f} points"


def _too_few(difference: Difference, clusters: str) -> str:
    if difference.clusters == 1:
        return f"all tasks share one of the {clusters}, so chance cannot be ruled out"
    return (
        f"{difference.clusters} {clusters} are too few to rule out chance "
        f"(the smallest p they can reach is {difference.smallest_p:.2g})"
    )


def _second(difference: Difference, clusters: str, wording: DifferenceWording) -> str:
    """The interval that stands beside the test over clusters, narrower and under an assumption more."""
    if difference.method not in ("sign-flip", "swap") or not difference.secondary or difference.interval is None:
        return ""
    beside = difference.secondary[0]
    ends = f"{_bare(wording, beside.low)} to {wording.change(beside.high)}"
    return f"if the means of {clusters} were normal, {ends} (Student's t, deciding nothing)"


def _missing(difference: Difference, wording: DifferenceWording) -> str:
    """What the trials without a verdict could have made of it."""
    bounds = difference.missing
    if bounds is None:
        return ""
    counted = "1 trial has no verdict" if bounds.trials == 1 else f"{bounds.trials} trials have no verdict"
    all_alike = f"{wording.change(bounds.failed)} if failed, {wording.change(bounds.passed)} if passed"
    if {bounds.low, bounds.high} == {bounds.failed, bounds.passed}:  # on one side alone
        return f"{counted}: {all_alike}"
    return f"{counted}: {all_alike}, {_bare(wording, bounds.low)} to {wording.change(bounds.high)} at the most"


def _covers(difference: Difference, unit: str) -> str:
    runs = difference.replicates
    dropped = f"{difference.dropped} {unit} not scored in every run are left out" if difference.dropped else ""
    if difference.method == "none" or min(runs) > 1:
        return dropped
    which = "one replicate per condition" if max(runs) == 1 else "one replicate on one side"
    return "; ".join(filter(None, (f"{which}: this covers {unit}, not reruns", dropped)))

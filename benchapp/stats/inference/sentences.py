"""A difference in one plain sentence, from its primary test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.random_effects import SecondOpinion
from benchapp.stats.inference.replicates import ALIKE, SMALLER, is_lopsided
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.inference.strata import LEVEL
from benchapp.stats.metrics.amounts import render_signed


@dataclass(frozen=True, slots=True)
class DifferenceWording:
    """How a metric's numbers are said. value: a mean with its unit; number: a difference with its sign; unit: of differences.

    verb: what a condition did to the tasks counted, for metrics that count tasks; None where the values are no counts.
    over: what the means are over, where it is not the tasks. same: a difference that is about none, where there is one.
    """

    value: Callable[[float], str]
    number: Callable[[float], str]
    unit: str
    verb: str | None = None
    over: str = ""
    same: float | None = None

    def change(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}".rstrip()

    def span(self, low: float, high: float) -> str:
        """Two ends, and their unit once."""
        return f"{self.number(low)} to {self.change(high)}"


SMALLEST = 0.001  # a p below it is only said to be
SAME = 0.05  # shares: an interval inside -5..5 points shows that two are about the same
SHARES = DifferenceWording(
    value=lambda share: f"{percent_text(share, 1)} %",
    number=lambda share: render_signed(100 * share, 1),
    unit="points",
    verb="solved",
    same=SAME,
)


def amounts(unit: str, digits: int = 1) -> DifferenceWording:
    """Wording of metrics that are no shares: turns, tokens, USD. Numbers come with thousands separators."""
    return DifferenceWording(
        value=lambda value: f"{value:,.{digits}f} {unit}".rstrip(),
        number=lambda value: render_signed(value, digits),
        unit=f"points {unit}" if unit.startswith("of ") else unit,
    )


def sentence(
    difference: Difference,
    *,
    own: str,
    other: str,
    metric: str,
    wording: DifferenceWording = SHARES,
) -> str:
    """One sentence: what each side reached, the difference, its interval and test, and what it covers."""
    parts = [
        f"{metric}: {_sides(difference, own, other, wording)}: {_delta(difference, wording)}",
        _verdict(difference, wording),
        _second(difference, wording),
        _covers(difference),
        _missing(difference, wording),
    ]
    return "; ".join(filter(None, parts)) + "."


def _sides(difference: Difference, own: str, other: str, wording: DifferenceWording) -> str:
    n = difference.tasks
    if difference.discordant is not None and wording.verb:
        passed = round(difference.own * n), round(difference.other * n)
        again = "in " if wording.verb.endswith(" in") else ""
        same = "the same one" if n == 1 else "the same"
        return f"{own} {wording.verb} {passed[0]} of {count(n, 'task')}, {other} {again}{passed[1]} of {n} of {same}"
    over = f" (means over {wording.over})" if wording.over else ""
    means = f"{own} {wording.value(difference.own)}, {other} {wording.value(difference.other)}{over}"
    on = f"{means} on the same {'task' if n == 1 else f'{n} tasks'}"
    return on if difference.replicates == (1, 1) else f"{on}, {_runs(difference.replicates)}"


def count(number: int, what: str) -> str:
    """ "1 task", "6 episodes"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _runs(replicates: tuple[int, int]) -> str:
    own, other = replicates
    return f"{own} replicates each" if own == other else f"{own} against {other} replicates"


def _delta(difference: Difference, wording: DifferenceWording) -> str:
    said = wording.change(difference.delta)
    if difference.interval is None:
        return said
    interval = difference.interval
    level = f"{100 * interval.level:.0f} % interval {wording.span(interval.low, interval.high)}"
    return f"{said} ({level}; {_test(difference)}, {say_p(difference.p)})"


def _test(difference: Difference) -> str:
    if difference.method == "welch":
        lopsided = f", {SMALLER}" if is_lopsided(*difference.replicates) else ""
        return f"Welch's t over the means of replicates{lopsided}"
    over = f"over {count(difference.clusters, 'episode')}"
    if difference.method == "swap":
        return f"sign-flip and swap of replicates {over}"
    return f"{'exact ' if difference.is_exact else ''}sign-flip {over}"


def say_opinion(opinion: SecondOpinion) -> str:
    """A sentence beside the one of the difference, in which nothing changes for it."""
    return (
        f"Second opinion, deciding nothing: random effects over {opinion.episodes} episodes, each counted alike, give {SHARES.change(opinion.mean)}"
        f" (95 % interval {SHARES.span(opinion.low, opinion.high)}), above 0 with probability {_say_chance(opinion.above)}."
    )


def _say_chance(chance: float) -> str:
    if chance > 0.99:
        return "over 0.99"
    return f"{chance:.2f}" if chance >= 0.01 else "under 0.01"


def say_p(p: float | None) -> str:
    if p is None:
        return "no p"
    return f"p {render_p(p)}" if p < SMALLEST else f"p = {render_p(p)}"


def render_p(p: float) -> str:
    """Two places, three below 0.1, never 0: 0.0004 -> "< 0.001". More where the level and a p above it would look the same."""
    if p < SMALLEST:
        return f"< {SMALLEST}"
    if p >= 0.1:
        return f"{p:.2f}"
    places = (3, 4, 5, 6)
    return next((f"{p:.{each}f}" for each in places if p <= LEVEL or round(p, each) > LEVEL), f"{p:.7f}")


def _verdict(difference: Difference, wording: DifferenceWording) -> str:
    if difference.method == "none":
        return _too_few(difference)
    if difference.interval is None:
        return f"{difference.note} ({_test(difference)}, {say_p(difference.p)})"
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


def _too_few(difference: Difference) -> str:
    """What keeps the test over episodes from deciding; before it, what kept the one over replicates."""
    alike = f"{ALIKE}; " if min(difference.replicates) > 1 else ""
    if difference.clusters == 1:
        return f"{alike}all tasks come from one episode, so chance cannot be ruled out"
    least = f"{difference.smallest_p:.2g}"
    return f"{alike}{difference.clusters} episodes are too few to rule out chance (the smallest p they can reach is {least})"


def _second(difference: Difference, wording: DifferenceWording) -> str:
    """The interval that stands beside the test over clusters, narrower and under an assumption more."""
    if difference.method not in ("sign-flip", "swap") or not difference.secondary or difference.interval is None:
        return ""
    beside = difference.secondary[0]
    ends = wording.span(beside.low, beside.high)
    return f"if the means of episodes were normal, {ends} (Student's t, deciding nothing)"


def _missing(difference: Difference, wording: DifferenceWording) -> str:
    """What the trials without a verdict could have made of it."""
    bounds = difference.missing
    if bounds is None:
        return ""
    counted = f"{count(bounds.trials, 'trial')} {'has' if bounds.trials == 1 else 'have'} no verdict"
    alike = f"{wording.change(bounds.failed)} if failed, {wording.change(bounds.passed)} if passed"
    if {bounds.low, bounds.high} == {bounds.failed, bounds.passed}:  # on one side alone
        return f"{counted}: {alike}"
    return f"{counted}: {alike}, and in any case {wording.span(bounds.low, bounds.high)}"


def _covers(difference: Difference) -> str:
    runs, out = difference.replicates, difference.dropped
    dropped = f"{count(out, 'task')} not scored in every run {'is' if out == 1 else 'are'} left out" if out else ""
    if difference.method == "none" or min(runs) > 1:
        return dropped
    which = "one replicate per condition" if max(runs) == 1 else "one replicate on one side"
    return "; ".join(filter(None, (f"{which}: this covers tasks, not reruns", dropped)))

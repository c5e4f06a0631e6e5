"""A difference in one plain sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchapp.stats.inference.difference import Claim, Difference
from benchapp.stats.inference.model import ALPHA
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_signed
from runner.base.text import plural


@dataclass(frozen=True, slots=True)
class DifferenceWording:
    """How a metric's numbers are written. value: a mean with its unit. number: a difference with its sign. unit: of
    differences. verb: what a condition did to the counted tasks; None for values other than counts. over: what the
    means are over, where not the tasks."""

    value: Callable[[float], str]
    number: Callable[[float], str]
    unit: str
    verb: str | None = None
    over: str = ""

    def change(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}".rstrip()

    def span(self, low: float, high: float) -> str:
        """Format two ends, and their unit once."""
        return f"{self.number(low)} to {self.change(high)}"


SMALLEST = 0.001  # a smaller p is only written as smaller
SOLVED = "solved"  # what was done to a task that passed
SHARES = DifferenceWording(
    value=lambda share: f"{percent_text(share, 1)} %",
    number=lambda share: render_signed(100 * share, 1),
    unit="points",
    verb=SOLVED,
)


def amounts(unit: str, digits: int = 1) -> DifferenceWording:
    """Return the wording of other metrics than shares: turns, tokens, USD. Numbers have thousands separators."""
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
    verdict: str = "",
    wording: DifferenceWording = SHARES,
) -> str:
    """Return one sentence: what each side reached, the difference with its interval, the verdict and its scope."""
    out = difference.dropped
    parts = [
        f"{metric}: {_sides(difference, own, other, wording)}: {_delta(difference, wording)}",
        verdict,
        _second_claim(difference, wording),
        f"{plural(out, 'task')} not scored in every run {'is' if out == 1 else 'are'} left out" if out else "",
        _missing(difference, wording),
    ]
    return "; ".join(filter(None, parts)) + "."


def _sides(difference: Difference, own: str, other: str, wording: DifferenceWording) -> str:
    n = difference.tasks
    if difference.discordant is not None and wording.verb:
        passed = round(difference.own * n), round(difference.other * n)
        again = "in " if wording.verb.endswith(" in") else ""
        same = "the same one" if n == 1 else "the same"
        return f"{own} {wording.verb} {passed[0]} of {plural(n, 'task')}, {other} {again}{passed[1]} of {n} of {same}"
    over = f" (means over {wording.over})" if wording.over else ""
    means = f"{own} {wording.value(difference.own)}, {other} {wording.value(difference.other)}{over}"
    on = f"{means} on the same {'task' if n == 1 else f'{n} tasks'}"
    first, second = difference.replicates
    if first == second:
        return on if first == 1 else f"{on}, {first} replicates each"
    return f"{on}, {first} against {second} replicates"


def _delta(difference: Difference, wording: DifferenceWording) -> str:
    change, interval = wording.change(difference.delta), difference.interval
    if interval is None:
        return f"{change} ({explain_no_test(difference)})"
    p, shown = difference.p, "" if difference.p is None else render_p(difference.p)
    ending = "" if p is None else f", p {shown}" if p < SMALLEST else f", p = {shown}"
    jointly = f" for {difference.comparisons} comparisons together" if difference.comparisons > 1 else ""
    return f"{change} (95 % interval{jointly} {wording.span(interval.low, interval.high)}{ending})"


def explain_no_test(difference: Difference) -> str:
    """Return why there is no interval."""
    if difference.claim is Claim.RERUN and difference.run is not None:
        return "nothing shows how much reruns differ"
    episodes = plural(difference.clusters, "episode")
    if min(difference.replicates) > 1:
        return f"replicates of {episodes} do not differ, so they show no error"
    return f"{episodes} with one replicate {'shows' if difference.clusters == 1 else 'show'} too little of chance"


def render_p(p: float) -> str:
    """Format p with two places, three below 0.1, never 0: "< 0.001". More where it would look equal to the level."""
    if p < SMALLEST:
        return f"< {SMALLEST}"
    if p >= 0.1:
        return f"{p:.2f}"
    places = (3, 4, 5, 6)
    return next((f"{p:.{each}f}" for each in places if p <= ALPHA or round(p, each) > ALPHA), f"{p:.7f}")


def _second_claim(difference: Difference, wording: DifferenceWording) -> str:
    """Return what reruns would show, after a claim about these runs."""
    if difference.claim is not Claim.RUN:
        return ""
    interval = difference.rerun_interval
    if interval is None:
        return "reruns: unknown"
    return f"if rerun: {wording.span(interval.low, interval.high)}"


def _missing(difference: Difference, wording: DifferenceWording) -> str:
    """Return what the trials without a verdict could change."""
    bounds = difference.missing
    if bounds is None:
        return ""
    counted = f"{plural(bounds.trials, 'trial')} {'has' if bounds.trials == 1 else 'have'} no verdict"
    alike = f"{wording.change(bounds.failed)} if failed, {wording.change(bounds.passed)} if passed"
    if {bounds.low, bounds.high} == {bounds.failed, bounds.passed}:  # on one side alone
        return f"{counted}: {alike}"
    return f"{counted}: {alike}, and in any case {wording.span(bounds.low, bounds.high)}"

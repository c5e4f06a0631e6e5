"""The condition table as LaTeX, for papers: booktabs, counts under every share, differences with their intervals."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.stats.comparing.answer import judge_groups
from benchapp.stats.comparing.comparison import GroupComparison, MetricCell
from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.groups import MODEL, Group
from benchapp.stats.comparing.hypotheses import judge_difference
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, half_up, percent_text
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after the end of a line, LaTeX would read a bracket as its argument
    "]": "{]}",
}
END = r" \\"


def escape(text: str) -> str:
    """Escape any text for LaTeX: no command, comment or end of line; controls become spaces."""
    shown = (character if character.isprintable() else " " for character in text)
    return "".join(ESCAPES.get(character, character) for character in shown)


_STAND_IN_MARKS = {StandIn.SCRIPTED: r"\dagger", StandIn.SMALL: r"\S"}


def condition_table(comparison: GroupComparison, metrics: Sequence[TrialMetric]) -> str:
    r"""A `table` of groups x metrics. Needs \usepackage{booktabs}, and a Unicode engine for names beyond ASCII.

    Each group takes two lines: values with k/n, and beneath them the difference to its baseline with the 95 % interval.
    A dagger marks groups of scripted models, a section sign those of very small ones, a double dagger groups whose
    setup is unknown or differs from others.
    """
    lines = [
        "% needs \\usepackage{booktabs}",
        f"% choices: {_comment(comparison.choices.query())}",
        f"% fingerprint: {comparison.fingerprint}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_caption(comparison, metrics)}}}",
        rf"\begin{{tabular}}{{l{'r' * len(metrics)}}}",
        r"\toprule",
        " & ".join(["Condition", *(escape(name_metric(metric).short) for metric in metrics)]) + END,
        " & ".join(["", *(rf"{{\scriptsize {escape(metric.key)}}}" for metric in metrics)]) + END,
        r"\midrule",
    ]
    shown = [
        group
        for group in comparison.groups.all
        if any(comparison.cell(group, metric).rate.planned for metric in metrics)
    ]
    clear = {
        (judged.group.identity, metric.key)
        for metric in metrics
        for judged in judge_groups(comparison, metric)
        if judged.effect.is_clear
    }
    for group in shown:
        lines += _group(comparison, group, metrics, clear)
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = _notes(comparison, shown)
    lines += [r"\par\smallskip\footnotesize\raggedright"] + [f"{note}\\\\" for note in notes] if notes else []
    return "\n".join([*lines, r"\end{table}", ""])


def _group(
    comparison: GroupComparison,
    group: Group,
    metrics: Sequence[TrialMetric],
    clear: Collection[tuple[tuple[object, ...], str]],
) -> list[str]:
    marks = [_STAND_IN_MARKS[each] for each in StandIn if each in group.stand_ins]
    marks += [r"\ddagger"] if _incomparable(comparison, group) else []
    name = escape(say_label(group.label)) + (f"$^{{{''.join(marks)}}}$" if marks else "")
    values = " & ".join([name, *(_value(comparison.cell(group, metric)) for metric in metrics)])
    if comparison.groups.baseline_of(group) is None:
        return [values + END]
    differences = [
        _difference(judge_difference(comparison, group, metric), metric, is_clear=(group.identity, metric.key) in clear)
        for metric in metrics
    ]
    return [values + END, " & ".join(["", *differences]) + END]


def _value(cell: MetricCell) -> str:
    if cell.value is None:
        return "--"
    if not cell.metric.is_share:
        return f"{_amount(cell.value, cell.metric)} ({cell.rate.scored})"
    count = f"{cell.rate.passed}/{cell.rate.scored}"
    is_count = cell.rate.scored < MIN_FOR_INTERVAL and not cell.metric.macro  # a mean over families is not k of n
    return count if is_count else f"{percent_text(cell.value, 1)} ({count})"


def _difference(difference: Difference | None, metric: TrialMetric, *, is_clear: bool) -> str:
    if difference is None:
        return ""
    delta = _render_signed(difference.delta, metric)
    if difference.interval is None:
        return rf"\textbf{{{delta}}}" if is_clear else delta
    ends = f"[{_render_signed(difference.interval.low, metric)}, {_render_signed(difference.interval.high, metric)}]"
    return rf"\textbf{{{delta}}} {ends}" if is_clear else f"{delta} {ends}"


def _render_signed(value: float, metric: TrialMetric) -> str:
    text = _amount(abs(value), metric)
    if not any(digit in text for digit in "123456789"):
        return f"${text}$"
    return f"${'+' if value > 0 else '-'}{text}$"


def _amount(value: float, metric: TrialMetric) -> str:
    if metric.is_share:
        return str(half_up(100 * value, 1))
    digits = {MetricUnit.USD: 4, MetricUnit.SCORE: 2}.get(metric.unit, 0 if abs(value) >= 100 else 1)
    return f"{value:.{digits}f}"


def _incomparable(comparison: GroupComparison, group: Group) -> bool:
    return bool(comparison.setups.differs) or any(not run.setup_digest or not run.setup for run in group.runs)


def _notes(comparison: GroupComparison, groups: Sequence[Group]) -> list[str]:
    notes: list[str] = []
    took_part = join_stand_ins(groups)
    notes += [f"$^{{{_STAND_IN_MARKS[each]}}}$ {each.sentence}" for each in StandIn if each in took_part]
    if comparison.setups.differs:
        differs = ", ".join(map(escape, comparison.setups.differs))
        notes.append(rf"$^{{\ddagger}}$ Not comparable as they stand: the setups differ in {differs}, or are unknown.")
    elif any(_incomparable(comparison, group) for group in groups):
        notes.append(r"$^{\ddagger}$ Setup unknown, so that it is equal to the others' cannot be claimed.")
    if comparison.unfinished:
        notes.append(escape(comparison.unfinished))
    if left_out := len(comparison.groups.all) - len(groups):
        notes.append(f"Not shown: {left_out} without a trial that these metrics cover.")
    return notes


def _caption(comparison: GroupComparison, metrics: Sequence[TrialMetric]) -> str:
    shares = any(metric.is_share for metric in metrics)
    sentences = ["Share of scored tasks that passed, in \\%, with counts." if shares else "Means, with counts."]
    units = dict.fromkeys(metric.unit.value for metric in metrics if not metric.is_share)
    if shares and units:
        sentences.append(f"Other columns: means in {', '.join(map(escape, units))}.")
    sentences.append(
        f"Second lines: difference to {escape(say_label(comparison.groups.baseline.removeprefix(MODEL)))} on the tasks scored on both sides, with the"  # noqa: E501
        rf" 95\,\% interval for all groups of its experiment together; bold where it is {Effect.BETTER.words} or worse."
    )
    if comparison.choices.as_of:
        sentences.append(f"As of {comparison.choices.as_of:%Y-%m-%d %H:%M} UTC.")
    return " ".join(sentences)


def _comment(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)

"""The head of an experiment and of a comparison: what the numbers answer, in words."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from benchapp.stats.comparing.answer import AcrossModels, Answer
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.group_passes import has_samples
from benchapp.stats.inference.difference import Claim
from benchapp.stats.inference.sentences import explain_no_test
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_metric
from benchapp.stats.metrics.catalogue import MetricName, name_metric
from inspector.charts.drawing.forest_rows import list_across_models
from inspector.charts.sheet import ChartSheet
from runner.protocols.conditions import conditions_without_library

COUNTED_UP_TO = 60  # trials of a side that are written as k of n; more as a percentage


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """`answer` in words. `library`: where the best group's is read, empty where none is best."""

    answer: Answer
    name: MetricName
    headline: str
    lede: str
    library: str
    across: tuple[AcrossModels, ...]


def build_head(sheet: ChartSheet) -> AnswerHead | None:
    """None where no trial of these runs is covered by a metric."""
    if sheet.metric is None:
        return None
    answer = Answer(sheet.comparison, sheet.metric)
    return AnswerHead(
        answer,
        name_metric(sheet.metric),
        write_headline(answer),
        _write_lede(answer),
        _find_library(answer),
        tuple(list_across_models(sheet, sheet.metric)),
    )


def write_headline(answer: Answer) -> str:
    """The best against its baseline, in tasks: "Self-written, always revised solved 9 of 12 new tasks; no skill solved 4.". In
    quotation marks where it is worse than the baseline, or where no direction is better: then nothing is praised."""
    best, metric = answer.best, answer.metric
    if best is None:
        return _write_alone(answer)
    name, found = name_metric(metric), best.difference
    is_estimate = best.effect is Effect.ESTIMATE
    is_praised = best.effect is not Effect.WORSE and metric.has_better and (not is_estimate or answer.is_ahead(best))
    who = f"“{name_condition(best.group.condition).title}”"
    if is_praised:
        who = name_condition(best.group.condition).title if len(answer.alike) == 1 else "the best conditions"
    if best.group.side and not answer.tested and len(answer.judged) > 1:
        return f"{len(answer.judged)} pairs, each too small to test."
    base = "no skill" if answer.comparison.groups.compares_with_no_skill else "the baseline"
    if not metric.is_share:
        own, other = (render_metric(value, metric.unit) for value in (found.own, found.other))
        return f"{name.title}: {own} with {who}, {other} with {base}."
    tasks = f"{found.tasks} shared {name.count(found.tasks)}" if best.group.side else name.tasks
    of = found.tasks * found.replicates[0]
    counts = [value * side for value, side in ((found.own, of), (found.other, found.tasks * found.replicates[1]))]
    if name.did.endswith(" in"):  # "no skill used a skill" would be a riddle
        base, again = "the baseline", "in"
    else:
        again = name.did
    is_counted = found.replicates[0] == found.replicates[1] and of <= COUNTED_UP_TO and not metric.macro
    is_counted = is_counted and not has_samples(answer.comparison)  # several tries of a task do not make a k of n
    who = who[0].upper() + who[1:]
    if is_counted and all(abs(count - round(count)) < 1e-6 for count in counts):
        # Replicates try the same tasks again: what is counted is trials then.
        did, counted = name.did, name.count(of)
        if of > found.tasks:
            did, counted = ("passed" if metric.is_of_verdicts else did), f"trials on {name.tasks}"
            again = did if metric.is_of_verdicts else again
        return f"{who} {did} {counts[0]:.0f} of {of} {counted}; {base} {again} {counts[1]:.0f}."
    own, other = (percent_text(share, 0) for share in (found.own, found.other))
    return f"{who} {name.did} {own} % of {tasks}; {base} {again} {other} %."


def _write_alone(answer: Answer) -> str:
    """What can be said without a baseline: the value of the only group, or of the best one."""
    cells = [answer.comparison.cell(group, answer.metric) for group in answer.comparison.groups.all]
    known = [cell for cell in cells if cell.value is not None]
    if not known:
        return ""
    best, name = max(known, key=lambda cell: cell.value or 0), name_metric(answer.metric)
    if not answer.metric.is_share:
        return f"{name.title}: {render_metric(best.value or 0, answer.metric.unit)}."
    if len(best.replicates) == 1 and not answer.metric.macro and best.rate.scored <= COUNTED_UP_TO:
        return f"{best.rate.passed} of {best.rate.scored} {name.count(best.rate.scored)} {name.done}."
    return f"{percent_text(best.value or 0.0, 0)} % of {name.tasks} {name.done}."


def _write_lede(answer: Answer) -> str:
    """How sure the best is, and of what."""
    best = answer.best
    if best is None:
        return _write_missing(answer.comparison)
    found = best.difference
    why = explain_no_test(found)
    parts = [f"{why[:1].upper()}{why[1:]}."] if found.interval is None else []
    if found.interval is not None and found.comparisons > 1:
        parts.append(f"Intervals hold for {found.comparisons} comparisons together.")
    if found.claim is Claim.RUN and found.rerun_interval is None:
        parts.append("If rerun: unknown.")
    if best.interim:
        parts.append(best.interim.sentence)
    if best.declaration:
        parts.append("Declared before the run." if best.declaration.is_declared else "Not declared before the run.")
    return " ".join(parts)


def _write_missing(comparison: GroupComparison) -> str:
    """Why nothing could be compared, and what to add."""
    groups = comparison.groups
    if comparison.unfinished:
        return "Not all trials have ended yet."
    if comparison.is_without_model:
        return "No model took part. Next, launch these tasks with one."
    if any(map(groups.baseline_of, groups.all)):
        return "No task was scored on both sides."
    if not groups.compares_with_no_skill:
        return "Add runs to compare with the baseline, with the same tasks."
    what = "a condition with skills" if all(map(groups.is_baseline, groups.all)) else "runs without a skill"
    return f"Add {what}, with the same models and tasks."


def _find_library(answer: Answer) -> str:
    """The library of the best group's first run; empty where it has none, where others are as good, and where it does no
    better than the baseline or could not be tested."""
    best = answer.best
    if best is None or best.group.side or len(answer.alike) > 1 or best.group.condition in conditions_without_library():
        return ""
    if best.difference.test is None or not answer.is_ahead(best):
        return ""
    if name_condition(best.group.condition).origin is None:
        return ""
    return reverse("library", args=[best.group.first.public_id])

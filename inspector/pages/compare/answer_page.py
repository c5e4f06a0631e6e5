"""What `/compare/` and the page of an experiment share: the verdict, the table that is its chart, what was declared."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS, LibraryProfile, average_profile, read_skills
from benchapp.analysis.failures.run_endings import Endings, describe_endings, read_endings
from benchapp.models import Run
from benchapp.record.json_shape import JsonShape, encode
from benchapp.stats.comparing.answer import Answer
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import drop_iteration, name_condition
from benchapp.stats.comparing.effects import Effect, difference_in_words
from benchapp.stats.comparing.group_passes import has_samples, passes_of
from benchapp.stats.comparing.groups import MODEL, Group
from benchapp.stats.comparing.hypotheses import Hypothesis, judge_difference
from benchapp.stats.inference.difference import Claim
from benchapp.stats.inference.sentences import explain_no_test
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_change, render_metric
from benchapp.stats.metrics.catalogue import TABLES, name_metric
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts import ABOVE
from inspector.charts.chart_request import card_of
from inspector.charts.drawing.forest_rows import list_across_models
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.lanes import ForestBuilder
from inspector.pages.compare.results import Permalink, begin_page, name_baseline
from inspector.web.text.row_shapes import SETUP
from runner.base.text import plural
from runner.protocols.conditions import conditions_without_library

COUNTED_UP_TO = 60  # trials of a side that are written as k of n; more as a percentage
HYPOTHESIS = "group=group.label baseline=baseline.label metric=metric.key p_holm=p sentence difference *interim"


class AnswerHead:
    """`answer` in words. `library`: where the best group's is read, empty where none is best."""

    def __init__(self, sheet: ChartSheet, metric: TrialMetric) -> None:
        self.answer = Answer(sheet.comparison, metric)
        self.name = name_metric(metric)
        self.headline, self.lede = write_headline(self.answer), _write_lede(self.answer)
        self.library = _find_library(self.answer)
        self.across = list_across_models(sheet, metric)


def build_answer_context(request: HttpRequest, sheet: ChartSheet, groups: Sequence[Group]) -> dict[str, object]:
    """Return what `_answer_page.html` needs: the verdict, the table that is its chart, and the choices."""
    comparison, choices = sheet.comparison, sheet.comparison.choices
    head, forest = _draw_numbers(sheet, groups)
    shown = {group.identity for group in groups}
    # The trials that failed where their baseline passed, of those that the heading's metric counts.
    covered = [("covered", sheet.metric.key)] if sheet.metric and sheet.metric.is_share else []
    regressions = [*choices.but(metric="").pairs(), *covered, ("outcome", "regressions")]
    return {
        **begin_page(comparison, "compare"),
        "pin": Permalink(request, comparison),
        "head": head,
        "forest": forest,
        "forest_card": card_of(ABOVE, choices),
        "all_alike": len({run.stand_ins for run in comparison.runs}) == 1,
        "several_models": len({group.agent_model for group in comparison.groups.all}) > 1,
        "baseline_title": name_baseline(comparison),
        "comparison": comparison,
        "choices": choices,
        "problems": sheet.problems,
        "chosen": sheet.metric,
        "baseline": comparison.groups.baseline.removeprefix(MODEL),
        "baselines": _list_baselines(comparison),
        "tables": TABLES,
        "table": sheet.table,
        "judged_by": comparison.judged_by,
        "regressions_query": urlencode(regressions),
        "sentences": [each for each in head.answer.judged if each.group.identity in shown] if head else [],
        **_describe_endings(groups),
        "passes": passes_of(comparison, groups),
        "profiles": _average_profiles(sheet, groups),
        "profile_groups": PROFILE_GROUPS,
        "replicated": any(group.replicates > 1 for group in comparison.groups.all),
    }


def _draw_numbers(sheet: ChartSheet, groups: Sequence[Group]) -> tuple[AnswerHead | None, dict[str, object] | None]:
    """Return the head and the forest, which are kept with the comparison."""
    metric = sheet.metric.key if sheet.metric else ""
    key = sheet.comparison.choices, sheet.table, metric, tuple(group.identity for group in groups)

    def draw() -> tuple[AnswerHead | None, dict[str, object] | None]:
        head = AnswerHead(sheet, sheet.metric) if sheet.metric else None  # else no metric covers a trial of these runs
        return head, ForestBuilder(sheet, head.answer, groups).build() if head else None

    return sheet.comparison.draw(key, draw)


def groups_twin(sheet: ChartSheet, groups: Sequence[Group]) -> list[dict[str, object]]:
    passes = {each.group.identity: each for each in passes_of(sheet.comparison, groups)}
    endings = read_endings(run for group in groups for run in group.runs)
    profiles, comparison = dict(_average_profiles(sheet, groups)), sheet.comparison
    twins = []
    for group in groups:
        baseline, differences = comparison.groups.baseline_of(group), dict[str, object]()
        for metric in sheet.metrics if baseline else ():
            difference = judge_difference(comparison, group, metric)
            if baseline and difference is not None:
                relative = metric.relate(difference.own, difference.other)
                sentence = difference_in_words(difference, group, baseline, metric)
                differences[metric.key] = {**encode(difference), "relative": relative, "sentence": sentence}
        twin = {
            **GROUP.read(group),
            "trials": comparison.tally(group),
            "runs": group.runs,
            "baseline": baseline.label if baseline else None,
            "metrics": {metric.key: comparison.cell(group, metric) for metric in sheet.metrics},
            "differences": differences,
            "pass_at_k": passes.get(group.identity),
            "skill_profile": profiles.get(group),
            "endings": sum((endings[run.pk] for run in group.runs), Endings()),
        }
        twins.append(twin)
    return twins


def answer_twin(sheet: ChartSheet) -> dict[str, object] | None:
    """Return the facts of the page's head."""
    if sheet.metric is None:
        return None
    found = ANSWER.read(Answer(sheet.comparison, sheet.metric))
    return {**found, "across_models": list_across_models(sheet, sheet.metric)}


def comparison_twin(request: HttpRequest, sheet: ChartSheet) -> dict[str, object]:
    comparison = sheet.comparison
    return {
        "choices": comparison.choices.pairs(),
        "problems": sheet.problems,
        "pin": Permalink(request, comparison),
        "fingerprint": comparison.fingerprint,
        "scripted": comparison.scripted,
        "runs": len(comparison.runs),
        "runs_not_shown": comparison.truncated,
        "setup": SETUP.read(comparison.setups),
        "tainted_episodes": comparison.tainted,
        **({"judge": comparison.judge} if comparison.judge else {}),
        "metrics": METRIC.read_all(sheet.metrics),
    }


ANSWER = JsonShape("metric=metric.key question heading judged ranks settling?")
METRIC = JsonShape("key meaning unit source")
GROUP = JsonShape(
    "label",
    ("experiment", lambda group: None if group.side else group.first.experiment),
    "condition agent_model author_model author_agent? harness scripted",
)


def _average_profiles(sheet: ChartSheet, groups: Sequence[Group]) -> list[tuple[Group, LibraryProfile]]:
    """Return the skill profiles of groups with a library, where skills are what is compared: generated from corpora
    or from seed instances."""
    if sheet.table not in ("skillgenbench", "skilllearnbench"):
        return []
    read = read_skills(run for group in groups for run in group.runs)
    found = [(group, average_profile([read[run.pk] for run in group.runs])) for group in groups]
    return [(group, profile) for group, profile in found if profile.libraries]


def _describe_endings(groups: Sequence[Group]) -> dict[str, list[tuple[Group, tuple[str, ...]]]]:
    """Return (group, sentences) of the groups whose endings a reader of the numbers must know. `without_skills`: the
    verdict names them, because in one of their runs no library has a skill."""
    found = read_endings(run for group in groups for run in group.runs)
    sentences = [(group, describe_endings([found[run.pk] for run in group.runs])) for group in groups]
    bare = {group for group in groups if any(found[run.pk].equals_no_skill for run in group.runs)}
    return {
        "without_skills": [each for each in sentences if each[0] in bare],
        "endings": [each for each in sentences if each[1] and each[0] not in bare],
    }


def _list_baselines(comparison: GroupComparison) -> list[tuple[str, str]]:
    """Return (value of the choice, name): every condition of the runs shown,
    then every agent model where there are several."""
    groups = comparison.groups.all
    conditions = dict.fromkeys(group.condition for group in groups if group.condition != Run.UNKNOWN)
    models = dict.fromkeys(group.agent_model for group in groups if group.agent_model != Run.UNKNOWN)
    named = [(f"{MODEL}{model}", f"model {model}") for model in models] if len(models) > 1 else []
    chosen = comparison.groups.baseline
    found = [*((name, name_condition(name).title) for name in conditions), *named]
    title = name_condition(chosen).title
    if chosen not in {drop_iteration(condition) for condition in conditions}:
        title = f"{title} (not among these)"
    return found if chosen in {value for value, _ in found} else [(chosen, title), *found]


# --- the head: what the numbers answer, in words ----------------------------------------------------------------------


def write_headline(answer: Answer) -> str:
    """Compare the best with its baseline, in tasks: "Self-written, always revised solved 9 of 12 new tasks; no skill
    solved 4.". In quotation marks if it is worse than the baseline, or if no direction is better: then no word of
    praise."""
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
        return f"{len(answer.judged)} pairs, each {Effect.TOO_SMALL.words}."
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
            did = "passed" if metric.is_of_verdicts else did
            counted = "trials" if name.tasks == "tasks" else f"trials on {name.tasks}"
            again = did if metric.is_of_verdicts else again
        return f"{who} {did} {counts[0]:.0f} of {of} {counted}; {base} {again} {counts[1]:.0f}."
    own, other = (percent_text(share, 0) for share in (found.own, found.other))
    return f"{who} {name.did} {own} % of {tasks}; {base} {again} {other} %."


def _write_alone(answer: Answer) -> str:
    """Write the answer without a baseline: the value of the only group, or of the best one."""
    cells = [(answer.comparison.cell(group, answer.metric), group) for group in answer.comparison.groups.all]
    known = [(cell, group) for cell, group in cells if cell.value is not None]
    if not known:
        return ""
    (best, group), name = max(known, key=lambda pair: pair[0].value or 0), name_metric(answer.metric)
    if not answer.metric.is_share:
        return f"{name.title}: {render_metric(best.value or 0, answer.metric.unit)}."
    value = f"{percent_text(best.value or 0.0, 0)} % of {name.tasks}"
    if len(best.replicates) == 1 and not answer.metric.macro and best.rate.scored <= COUNTED_UP_TO:
        value = f"{best.rate.passed} of {best.rate.scored} {name.count(best.rate.scored)}"
    if len(known) > 1:
        alike = sum(cell.value == best.value for cell, _ in known)
        if alike == len(known):
            return f"All {alike} groups {name.did} {value} each."
        who = name_condition(group.condition).title if alike == 1 else f"{alike} groups"
        return f"{who} {name.did} {value}, the most of {len(known)} groups."
    return f"{value} {name.done}."


def _write_lede(answer: Answer) -> str:
    """Say how sure the best is, and what that rests on."""
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
    if best.is_declared is not None:
        parts.append("Declared before the run." if best.is_declared else "Not declared before the run.")
    return " ".join(parts)


def _write_missing(comparison: GroupComparison) -> str:
    """Say why nothing could be compared, and what to add."""
    groups = comparison.groups
    if comparison.unfinished:
        return ""  # the note above says how many have ended
    if comparison.is_without_model:
        return "No model took part. Next, launch these tasks with one."
    if any(map(groups.baseline_of, groups.all)):
        return "No task was scored on both sides."
    if groups.names_no_condition:
        sentence = "These files name no condition."
        models = len({group.agent_model for group in groups.all})
        return f"{sentence} Choose a model in “Against” to compare models." if models > 1 else sentence
    if not groups.compares_with_no_skill:
        return "Add runs to compare with the baseline, with the same tasks."
    what = "a condition with skills" if all(map(groups.is_baseline, groups.all)) else "runs without a skill"
    return f"Add {what}, with the same models and tasks."


def _find_library(answer: Answer) -> str:
    """Return the library of the best group's first run; empty if it has none, if others are almost as good, and if it
    does no better than the baseline or could not be tested."""
    best = answer.best
    if best is None or best.group.side or len(answer.alike) > 1 or best.group.condition in conditions_without_library():
        return ""
    is_known = name_condition(best.group.condition).origin is not None
    if best.difference.test is None or not answer.is_ahead(best) or not is_known:
        return ""
    return reverse("library", args=[best.group.first.public_id])


def write_declared(each: Hypothesis) -> dict[str, object]:
    """Return one declared difference as `_declared_rows.html` shows it; texts are empty where there is none.

    `notes`: of a comparison that is still interim. `drawn`: the interval on a line from -50 to +50 points, with its
    mark at the estimate."""
    notes = [f"waits for {plural(each.waiting, 'trial')}"] if each.waiting else []
    if each.interim:
        notes.append(each.interim.short)
    delta, around, drawn = "", "", ""
    if each.difference:
        delta = render_change(each.difference.delta, each.metric.unit)
    if each.difference and (interval := each.difference.interval):
        ends = (interval.low, interval.high)
        around = " to ".join(render_change(end, each.metric.unit) for end in ends)
        places = (interval.low, each.difference.delta, interval.high)
        low, point, high = (min(100.0, max(0.0, 50 + 100 * value)) for value in places)
        drawn = (
            '<svg class="interval difference" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
            f'<path class="zero" d="M50 0V8"/><path class="range" d="M{low:.1f} 4H{max(high, low + 0.5):.1f}"/>'
            f'<path class="point" d="M{point:.1f} 1V7"/></svg>'
        )
    drawn = SafeString(drawn if each.metric.is_share else "")
    return {"hypothesis": each, "effect": each.effect, "delta": delta, "around": around, "drawn": drawn, "notes": notes}


def say_held(hypotheses: Sequence[Hypothesis]) -> str:
    """Say which way the hypotheses that hold differ: "1 better, 1 worse"; empty if neither way is better, and for a
    single one."""
    tones = [each.effect.tone for each in hypotheses if each.is_found and len(hypotheses) > 1]
    return ", ".join(f"{tones.count(tone)} {tone}" for tone in ("better", "worse") if tone in tones)

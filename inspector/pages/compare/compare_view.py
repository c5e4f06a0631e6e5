"""`/compare/`: runs picked by filter, and their conditions against a baseline. One experiment has a page of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS
from benchapp.analysis.diagnoses.profiles_by_run import LibraryProfile, average_profile, read_skills
from benchapp.analysis.failures.run_endings import Endings, describe_endings, read_endings
from benchapp.models import Experiment, Run
from benchapp.papers.loading import PAPERS
from benchapp.record.json_shape import JsonShape, encode
from benchapp.stats.comparing.answer import Answer, arrange
from benchapp.stats.comparing.choices import Choices, parse_choices
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.effects import difference_in_words
from benchapp.stats.comparing.group_passes import passes_of
from benchapp.stats.comparing.groups import MODEL, Group
from benchapp.stats.comparing.hypotheses import judge_difference
from benchapp.stats.comparing.selection import facets_of
from benchapp.stats.metrics.catalogue import TABLES
from inspector.charts import ABOVE
from inspector.charts.cards import card_of
from inspector.charts.chart_request import sheet_of
from inspector.charts.drawing.forest_rows import list_across_models
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.answer_head import AnswerHead, build_head
from inspector.pages.compare.forest_lanes import Forest, build_forest
from inspector.pages.compare.results import begin_page, find_answer, name_baseline, read_parent
from inspector.pages.compare.sides_view import build_sides, choose_sides
from inspector.web.permalinks import build_permalink
from inspector.web.responses import next_url, paginate, render_page
from inspector.web.text.row_shapes import SETUP

GROUPS_PER_PAGE = 30
OF_QUESTIONS = {  # `q=` of old addresses -> the page that answers it now
    "where": "compare-where",
    "cost": "compare-cost",
    "grow": "compare-libraries",
    "write": "compare-libraries",
    "fail": "compare-failures",
}


@require_safe
def compare(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    choices, problems = parse_choices(request.GET)
    parent = read_parent(choices)
    if parent is not None or choices.q:
        return redirect(find_new_address(choices, parent, as_json=as_json))
    if not choices.pairs():
        return choose_sides(request, as_json=as_json)
    sheet = sheet_of(request)
    comparison = sheet.comparison
    groups = paginate(request, arrange(comparison.groups.all), per_page=GROUPS_PER_PAGE)
    data = {**comparison_twin(request, sheet), "next": next_url(request, groups)}
    if as_json:
        data |= {"answer": answer_twin(sheet), "groups": groups_twin(sheet, list(groups))}
        return render_page(request, "compare/compare.html", data=data, as_json=True)
    context = {
        **build_answer_context(request, sheet, list(groups)),
        **(build_sides(comparison) if choices.sides else {}),
        "page": groups,
        "page_name": "page",
        "facets": facets_of(choices),
        "papers": PAPERS,
        "experiments_total": len({run.experiment_id for run in comparison.runs}),
    }
    return render_page(request, "compare/compare.html", data=data, context=context, as_json=False)


def find_new_address(choices: Choices, parent: Experiment | None, *, as_json: bool) -> str:
    """Of an address from before results had tabs: `q=` asked a question, and an experiment had a second page here."""
    name = OF_QUESTIONS.get(choices.q)
    choices = choices.but(q="")
    if name is None:
        address = find_answer(choices, parent)
        return re.sub(r"/(?=\?|$)", ".json", address, count=1) if as_json else address
    return f"{reverse(f'{name}-json' if as_json else name)}?{choices.query()}"


def build_answer_context(request: HttpRequest, sheet: ChartSheet, groups: Sequence[Group]) -> dict[str, object]:
    """What `_answer_page.html` needs: the verdict, the table that is its chart, and the choices."""
    comparison = sheet.comparison
    head, drawn = _draw_numbers(sheet, groups)
    shown = {group.identity for group in groups}
    return {
        **begin_page(comparison, "compare"),
        "pin": build_permalink(request, comparison),
        "sheet": sheet,
        "head": head,
        "forest": drawn,
        "forest_card": card_of(ABOVE, comparison.choices),
        "all_alike": len({run.stand_ins for run in comparison.runs}) == 1,
        "several_models": len({group.agent_model for group in comparison.groups.all}) > 1,
        "baseline_title": name_baseline(comparison),
        "comparison": comparison,
        "choices": comparison.choices,
        "problems": sheet.problems,
        "chosen": sheet.metric,
        "baseline": comparison.groups.baseline.removeprefix(MODEL),
        "baselines": _baselines(comparison),
        "tables": TABLES,
        "table": sheet.table,
        "judged_by": comparison.judged_by,
        "regressions_query": _write_regressions(sheet),
        "sentences": [each for each in head.answer.judged if each.group.identity in shown] if head else [],
        **_read_endings(groups),
        "passes": passes_of(comparison, groups),
        "profiles": _profiles(sheet, groups),
        "profile_groups": PROFILE_GROUPS,
        "replicated": any(group.replicates > 1 for group in comparison.groups.all),
    }


def _draw_numbers(sheet: ChartSheet, groups: Sequence[Group]) -> tuple[AnswerHead | None, Forest | None]:
    """Kept with the comparison."""
    kept, metric = sheet.comparison.drawn, sheet.metric.key if sheet.metric else ""
    key = sheet.comparison.choices, sheet.table, metric, tuple(group.identity for group in groups)
    found = cast(tuple[AnswerHead | None, Forest | None] | None, kept.get(key))
    if found is None:
        head = build_head(sheet)
        found = head, build_forest(sheet, head.answer, groups) if head else None
        kept.put(key, found)
    return found


def _write_regressions(sheet: ChartSheet) -> str:
    """The trials that failed where their baseline passed, of those that the heading's metric counts."""
    covered = [("covered", sheet.metric.key)] if sheet.metric and sheet.metric.is_share else []
    return urlencode([*sheet.comparison.choices.but(metric="").pairs(), *covered, ("outcome", "regressions")])


def groups_twin(sheet: ChartSheet, groups: Sequence[Group]) -> list[dict[str, object]]:
    passes = {each.group.identity: each for each in passes_of(sheet.comparison, groups)}
    endings = read_endings(run for group in groups for run in group.runs)
    profiles = {group.identity: profile for group, profile in _profiles(sheet, groups)}
    return [
        {
            **_group_twin(sheet, group),
            "pass_at_k": passes.get(group.identity),
            "skill_profile": profiles.get(group.identity),
            "endings": sum((endings[run.pk] for run in group.runs), Endings()),
        }
        for group in groups
    ]


def answer_twin(sheet: ChartSheet) -> dict[str, object] | None:
    """What the page says in its head."""
    if sheet.metric is None:
        return None
    answer = ANSWER.read(Answer(sheet.comparison, sheet.metric))
    return {**answer, "across_models": list_across_models(sheet, sheet.metric)}


def comparison_twin(request: HttpRequest, sheet: ChartSheet) -> dict[str, object]:
    comparison = sheet.comparison
    return {
        "choices": comparison.choices.pairs(),
        "problems": sheet.problems,
        "pin": build_permalink(request, comparison),
        **COMPARISON.read(comparison),
        **({"judge": comparison.judge} if comparison.judge else {}),
        "metrics": METRIC.read_all(sheet.metrics),
    }


COMPARISON = JsonShape(
    *("fingerprint", "scripted", ("runs", lambda comparison: len(comparison.runs)), "runs_not_shown=truncated"),
    *(("setup", lambda comparison: SETUP.read(comparison.setups)), "tainted_episodes=tainted"),
)
ANSWER = JsonShape("metric=metric.key", "question", "heading", "judged", "ranks", "settling?")
METRIC = JsonShape("key", "meaning", "unit", "source")
GROUP = JsonShape(
    *("label", ("experiment", lambda group: None if group.side else group.first.experiment)),
    *("condition", "agent_model", "author_model", "author_agent?", "harness", "scripted"),
)


def _group_twin(sheet: ChartSheet, group: Group) -> dict[str, object]:
    comparison = sheet.comparison
    baseline = comparison.groups.baseline_of(group)
    return {
        **GROUP.read(group),
        "trials": comparison.tally(group),
        "runs": group.runs,
        "baseline": baseline.label if baseline else None,
        "metrics": {metric.key: comparison.cell(group, metric) for metric in sheet.metrics},
        "differences": {
            metric.key: {
                **encode(difference),
                "relative": metric.relate(difference.own, difference.other),
                "sentence": difference_in_words(difference, group, baseline, metric),
            }
            for metric in sheet.metrics
            if baseline and (difference := judge_difference(comparison, group, metric)) is not None
        },
    }


def _profiles(sheet: ChartSheet, groups: Sequence[Group]) -> list[tuple[Group, LibraryProfile]]:
    """Of groups with a library, where skills are what is compared: generated from corpora or from seed instances."""
    if sheet.table not in ("skillgenbench", "skilllearnbench"):
        return []
    read = read_skills(run for group in groups for run in group.runs)
    found = [(group, average_profile([read[run.pk] for run in group.runs])) for group in groups]
    return [(group, profile) for group, profile in found if profile.libraries]


def _read_endings(groups: Sequence[Group]) -> dict[str, list[tuple[Group, tuple[str, ...]]]]:
    """(group, sentences) of those whose endings a reader of the numbers must know. `without_skills`: the verdict names them,
    as in a run of theirs no library holds a skill."""
    found = read_endings(run for group in groups for run in group.runs)
    sentences = {group: describe_endings([found[run.pk] for run in group.runs]) for group in groups}
    bare = {group for group in groups if any(found[run.pk].equals_no_skill for run in group.runs)}
    return {
        "without_skills": [(group, sentences[group]) for group in groups if group in bare],
        "endings": [(group, said) for group, said in sentences.items() if said and group not in bare],
    }


def _baselines(comparison: GroupComparison) -> list[tuple[str, str]]:
    """(value of the choice, name): every condition of the runs shown, then every agent model where there are several."""
    groups = comparison.groups.all
    conditions = dict.fromkeys(group.condition for group in groups if group.condition != Run.UNKNOWN)
    models = dict.fromkeys(group.agent_model for group in groups if group.agent_model != Run.UNKNOWN)
    named = [(f"{MODEL}{model}", f"model {model}") for model in models] if len(models) > 1 else []
    chosen = comparison.choices.baseline
    found = [*((name, name_condition(name).title) for name in conditions), *named]
    missing = f"{name_condition(chosen).title} (not among these)"
    return found if chosen in {value for value, _ in found} else [(chosen, missing), *found]

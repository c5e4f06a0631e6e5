"""`/compare/cost/`, `/compare/certainty/` and `/compare/runs/`: tabs of results that are little more than a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.core.paginator import Page
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from benchapp.experiments.foresight import Amount
from benchapp.experiments.library_probes import read_left_out
from benchapp.models import Experiment, Square, Task
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.answer import Answer, JudgedGroup, rank_groups
from benchapp.stats.comparing.certainty import GroupCost, assess, list_costs
from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.comparison import GroupComparison, MetricCell
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.inference.interval import ZERO
from benchapp.stats.inference.shares import half_up
from benchapp.stats.inference.sides import pair
from benchapp.stats.learning.replay_gains import ReplayPairs, ReplayResult
from benchapp.stats.metrics.amounts import render_change
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from benchapp.stats.metrics.spending import RunSpending, Spending, spending_of
from inspector.charts import OF_PAGES
from inspector.charts.chart_request import Gallery, sheet_of
from inspector.charts.sheet import WITHOUT_LIBRARY, ChartSheet
from inspector.pages.compare.lanes import BAR_HEIGHT, draw_bar, draw_lane
from inspector.pages.compare.members import MEMBER, RUNS_PER_PAGE, build_members, sum_up
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import address_of_any_trial, next_url, paginate, render_page

TASKS_PER_PAGE = 40
SQUARES_PER_PAGE = 8
MOST_SQUARES = 12  # of one task in one group; more are counted
REPLAYS_PER_PAGE = 30
ROOM = 1.04  # of the longest bar: some air behind it
LEAST = 0.05  # least share of an axis on either side of zero: an empty bar needs a zero to start at
CELLS = ("fail_fail", "fail_pass", "pass_fail", "pass_pass")
SOURCES = {
    "samples": "samples of one run",
    "phases": "a replay and its first try, with the same library",
    "replicates": "replicates of one cell",
    "conditions": "two conditions, before they differ",
}
ITEMS_PER_PAGE = 60


class TaskCell:
    """The trials of one task in one group."""

    def __init__(self, group: Group, squares: list[Square]) -> None:
        self.group, self.squares = group, squares
        self.passed = sum(square.success is True for square in squares)
        self.scored = sum(square.success is not None for square in squares)
        self.is_drawn = 0 < len(squares) <= MOST_SQUARES


class TaskRow(NamedTuple):
    """`gain`: of the best condition over its baseline, in the metric's unit;
    None where the two do not share the task. `change`: that in words."""

    task: Task
    cells: list[TaskCell]
    gain: float | None
    change: str


CELL = JsonShape("label=group.label passed scored", ("trials", lambda cell: len(cell.squares)))
ROW = JsonShape(
    "task=task.key",
    ("family", lambda row: row.task.family.key if row.task.family else None),
    "role=task.role gain",
    ("groups", lambda row: CELL.read_all(row.cells)),
)


def where(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison, metric = sheet.comparison, sheet.metric
    covered = [each for each in sheet.groups if metric and comparison.cell(each, metric).rate.planned]
    groups = paginate(request, covered, per_page=SQUARES_PER_PAGE, name="groups")
    tasks = paginate(request, _list_tasks(comparison, metric), per_page=TASKS_PER_PAGE)
    best = Answer(comparison, metric).best if metric else None
    # Task pk -> what the best condition gains on it, over the tasks that it shares with its baseline.
    paired = pair(*comparison.sides(best.group, best.baseline, best.metric)) if best else None
    gains = dict(zip(paired.task.tolist(), paired.delta.tolist(), strict=True)) if paired else {}
    rows = _read_rows(comparison, metric, groups, tasks, gains) if metric else []
    data = {
        **begin_twin(request, sheet),
        "metric": metric.key if metric else None,
        "tasks": ROW.read_all(rows),
        "groups_next": next_url(request, groups, name="groups"),
        "next": next_url(request, tasks),
    }
    context = {
        **begin_page(comparison, "compare-where"),
        "answer": _write_answer(best, gains),
        "best": best,
        "has_unscored": any(cell.scored < len(cell.squares) for row in rows for cell in row.cells),
        "name": name_metric(metric) if metric else None,
        "groups": groups,
        "tasks": tasks,
        "rows": rows,
        "several_models": len({group.agent_model for group in comparison.groups.all}) > 1,
        "trial_address": address_of_any_trial(),
        "gallery": Gallery(OF_PAGES["compare-where"], sheet),
    }
    return render_page(request, "compare/compare_where.html", data=data, context=context, as_json=as_json)


def _list_tasks(comparison: GroupComparison, metric: TrialMetric | None) -> list[Task]:
    """Return the tasks that the metric counts, family by family."""
    if metric is None:
        return []
    covered = [metric.select_covered(outcomes).task for outcomes in comparison.outcomes.values()]
    keys = np.unique(np.concatenate(covered)).tolist() if covered else []
    found = Task.objects.select_related("family").in_bulk(keys)

    def place(task: Task) -> tuple[object, ...]:
        family = task.family
        return family is None, (family.ordinal, family.key) if family else (0, ""), task.ordinal, task.key

    return sorted(found.values(), key=place)


def _read_rows(
    comparison: GroupComparison, metric: TrialMetric, groups: Page[Group], tasks: Page[Task], gains: Mapping[int, float]
) -> list[TaskRow]:
    """Read the trials of these tasks in one query."""
    group_of = {
        trial: group
        for group in groups
        for outcomes in comparison.of_group(group)
        for trial in metric.select_covered(outcomes).trial.tolist()
    }
    found: dict[tuple[int, object], list[Square]] = {}
    shown = trials_behind(comparison.choices, Narrowing(covered=metric.key)).filter(task__in=list(tasks))
    for square in shown.for_grid():
        if group := group_of.get(square.pk):
            found.setdefault((square.task_id, group.identity), []).append(square)
    return [
        TaskRow(
            task,
            [TaskCell(group, found.get((task.pk, group.identity), [])) for group in groups],
            gain := gains.get(task.pk),
            "" if gain is None else render_change(gain, metric.unit).removesuffix(".0"),
        )
        for task in tasks
    ]


def _write_answer(best: JudgedGroup | None, gains: Mapping[int, float]) -> str:
    """Say on how many tasks the best condition gains and loses; empty where nothing has a baseline."""
    if best is None or not gains:
        return ""
    more, less = (sum(sign * gain > ZERO for gain in gains.values()) for sign in (1, -1))
    who, tasks = name_condition(best.group.condition).title, name_metric(best.metric).tasks
    return f"{who} gains on {more} of {len(gains)} {tasks} and loses on {less or 'none'}."


class ReplayedGroup(Shaped):
    """A group that replayed something. `squares`: each cell of its 2x2 against acquisition, with its list of trials."""

    json_shape = JsonShape(
        "label=group.label runs=group.runs",
        ("own", lambda shown: _rates(shown.replay.own)),
        ("placebo", lambda shown: _rates(shown.replay.placebo)),
        "minus=replay.label net_recovery=replay.net_recovery net_regression=replay.net_regression",
        "net_lift=replay.net_lift",
    )

    def __init__(self, sheet: ChartSheet, group: Group, replay: ReplayResult, axis: tuple[float, float]) -> None:
        self.group, self.replay, own = group, replay, replay.own
        self.squares = {
            cell: {"count": len(getattr(own, cell)), "url": sheet.trials_url(group, replay=cell)} for cell in CELLS
        }
        label = f"{len(own.fail_pass)} fixed, {len(own.pass_fail)} broken, of {own.total}"
        luck = _share_sides(replay.placebo) if replay.placebo else None
        self.drawn = draw_two_sided(axis, group.condition, _share_sides(own), luck, label)


def replay(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    replays = {group: found for group in sheet.groups if (found := comparison.replay(group)) is not None}
    page = paginate(request, list(replays), per_page=REPLAYS_PER_PAGE)
    results = [replays[group] for group in page]
    sides = [_share_sides(pairs) for each in results for pairs in (each.own, each.placebo) if pairs]
    axis = (ROOM * max([LEAST, *(broke for broke, _ in sides)]), ROOM * max([LEAST, *(fixed for _, fixed in sides)]))
    shown = [ReplayedGroup(sheet, group, replays[group], axis) for group in page]
    noise = comparison.noise
    data = {**begin_twin(request, sheet), "noise": noise, "groups": shown}
    context = {
        **begin_page(comparison, "compare-replay"),
        "pin": data["pin"],
        "placebo": any(each.replay.placebo for each in shown),
        "answer": _answer(sheet, replays),
        "swatch": _choose_colour(shown[0].group.condition) if shown else "ink",
        "sources": [(title, flips) for name, title in SOURCES.items() if (flips := getattr(noise, name)).pairs],
        "baseline": comparison.groups.baseline,
        "not_replayed": len(comparison.groups.all) - len(replays),
    }
    return render_page(request, "compare/compare_replay.html", data=data, context=context, page=page, as_json=as_json)


def _share_sides(pairs: ReplayPairs) -> tuple[float, float]:
    """Return what broke and what was fixed, as shares of all pairs."""
    whole = pairs.total or 1
    return len(pairs.pass_fail) / whole, len(pairs.fail_pass) / whole


def _choose_colour(condition: str) -> str:
    return name_condition(condition).colour or "ink"


def draw_two_sided(
    axis: tuple[float, float], condition: str, own: tuple[float, float], luck: tuple[float, float] | None, label: str
) -> SafeString:
    """Draw what broke to the left of zero, and what was fixed to the right; `axis`: how far each side reaches, as
    shares.

    `luck`: the same of a second try where nothing was learned, as a tick on either side."""

    def place(share: float) -> float:
        return 100 * (axis[0] + share) / (axis[0] + axis[1])

    colour, zero = _choose_colour(condition), place(0)
    parts = [
        f'<line class="zero-line" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="{BAR_HEIGHT}"/>',
        draw_bar(place(-own[0]), zero, f"soft c-{colour}"),
        draw_bar(zero, place(own[1]), f"c-{colour}"),
    ]
    for at in (place(-luck[0]), place(luck[1])) if luck else ():
        parts.append(f'<line class="luck" x1="{at:.2f}%" x2="{at:.2f}%" y1="2" y2="{BAR_HEIGHT - 2}"/>')
    return draw_lane(parts, label)


def _answer(sheet: ChartSheet, replays: Mapping[Group, ReplayResult]) -> list[str]:
    """Return two sentences: what replay changed over all groups that learned,
    and what a second try changes by luck alone."""
    learned = [found.own for group, found in replays.items() if group.condition not in WITHOUT_LIBRARY]
    bare = [found.own for group, found in replays.items() if group.condition == NO_SKILL]
    sentences = [_write_pairs("Replay", sum(learned, ReplayPairs()))] if learned else []
    if bare:
        return [*sentences, _write_pairs("A second try without skills", sum(bare, ReplayPairs()))]
    rate = sheet.comparison.noise.rate
    if rate is not None:
        sentences.append(f"{half_up(100 * rate)} % of repeats end differently by chance.")
    return sentences


def _write_pairs(who: str, pairs: ReplayPairs) -> str:
    fixed, broken = len(pairs.fail_pass), len(pairs.pass_fail)
    if not pairs.total:
        return f"{who} repeated nothing that was scored."
    return f"{who} fixed {fixed} of {pairs.failed_first} failures and broke {broken} of {pairs.passed_first} passes."


def _rates(pairs: ReplayPairs | None) -> dict[str, object] | None:
    if not pairs:
        return None
    counts = {cell: len(getattr(pairs, cell)) for cell in CELLS}
    return {**counts, **{name: getattr(pairs, name) for name in ("unpaired", "recovery", "regression", "lift")}}


# --- what a trial and a passed trial cost, and what writing the libraries took ----------------------------------------


@dataclass(frozen=True, slots=True)
class CostRow(Shaped):
    """What one group spent."""

    of_group: GroupCost
    cell: MetricCell
    writing: float | None  # on its library, per run, in the unit of the cost; None: nobody wrote, or it is unknown
    times: float | None  # per trial, over that of the baseline

    json_shape = JsonShape("*of_group passed=cell.rate.passed scored=cell.rate.scored writing times")


def cost(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    spending = spending_of(comparison.runs, comparison.choices.as_of)
    rows = list(_list_costs(sheet, spending))
    data = {**begin_twin(request, sheet), "groups": rows, "spent": sum_up(spending.values())}
    begun = begin_page(comparison, "compare-cost")
    # The estimate of the launch; there is none for what was not launched here.
    whole = parent.estimate.get("whole") if isinstance(parent := begun["parent"], Experiment) else None
    context = {
        **begun,
        "answer": _compare_costs(comparison, rows),
        "estimated": whole and {name: Amount(**whole[name]) for name in ("cost_usd", "tokens")},
        "gallery": Gallery(OF_PAGES["compare-cost"], sheet),
    }
    return render_page(request, "compare/compare_cost.html", data=data, context=context, as_json=as_json)


def _list_costs(sheet: ChartSheet, spending: Mapping[int, RunSpending]) -> Iterator[CostRow]:
    comparison, metric = sheet.comparison, sheet.metric
    if metric is None:
        return
    costs = list_costs(comparison, metric)
    per_trial = {each.group.identity: each.cost.per_trial for each in costs}
    for each in costs:
        baseline = comparison.groups.baseline_of(each.group)
        base = per_trial.get(baseline.identity) if baseline else None
        authors = sum((spending[run.pk].author for run in each.group.runs), Spending())
        whole = authors.cost_usd
        if each.unit is not MetricUnit.USD:
            known = [part for part in (authors.input_tokens, authors.output_tokens) if part is not None]
            whole = float(sum(known)) if known else None
        writing = whole / each.group.replicates if authors.things and whole is not None else None
        times = each.cost.per_trial / base if base else None
        yield CostRow(each, comparison.cell(each.group, metric), writing, times)


def _compare_costs(comparison: GroupComparison, rows: list[CostRow]) -> str:
    """Say how the cost of a passed trial compares with the baseline's; empty where it does not."""
    of_baseline = [row for row in rows if comparison.groups.is_baseline(row.of_group.group)]
    others = [row for row in rows if row not in of_baseline and row.times is not None]
    if len(of_baseline) != 1 or not others:
        return ""
    times = sorted(round(row.times or 0.0, 1) for row in others)
    span = f"{times[0]:g}" if times[0] == times[-1] else f"{times[0]:g} to {times[-1]:g}"
    what = "tokens" if rows[0].of_group.unit is MetricUnit.TOKENS else "dollars"
    return f"A trial takes {span} times the {what} of the baseline. {_compare_passes(of_baseline[0], others)}"


def _compare_passes(of_baseline: CostRow, others: list[CostRow]) -> str:
    """Say only what intervals that do not overlap show; writing the library is not in them."""
    base = of_baseline.of_group.cost.interval
    known = [(row.of_group.group.condition, row.of_group.cost.interval) for row in others]
    more = [name_condition(code).title for code, own in known if base and own and own.low > base.high]
    less = [name_condition(code).title for code, own in known if base and own and own.high < base.low]
    parts = [f"{word} with “{'”, “'.join(names)}”" for word, names in (("less", less), ("more", more)) if names]
    return (
        f"A pass costs clearly {' and clearly '.join(parts)}."
        if parts
        else "What a pass costs is not clearly different."
    )


# --- how sure the differences are, and of what ------------------------------------------------------------------------


def certainty(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison, metric = sheet.comparison, sheet.metric
    found = assess(comparison, metric) if metric else None
    page = paginate(request, list(found.items) if found else [], per_page=ITEMS_PER_PAGE)
    ranks = rank_groups(comparison, metric) if metric else None
    left_out = read_left_out(comparison.runs)
    data = {
        **begin_twin(request, sheet),
        "metric": metric.key if metric else None,
        "measured": found.measured if found else None,
        "factor": found.factor if found else None,
        "groups": found.groups if found else (),
        "transfer": found.transfer if found else None,
        "ranks": ranks,
        "left_out": left_out,
        "items": list(page),
    }
    context = {
        **begin_page(comparison, "compare-certainty"),
        "chosen": metric,
        "found": found,
        "baseline": comparison.groups.baseline,
    }
    return render_page(
        request, "compare/compare_certainty.html", data=data, context=context, page=page, as_json=as_json
    )


# --- the runs behind the numbers, with what each took and how it ended ------------------------------------------------


def compared_runs(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    page = paginate(request, list(comparison.runs), per_page=RUNS_PER_PAGE)
    members = build_members(list(page), comparison.outcomes, comparison.choices.as_of)
    data = {**begin_twin(request, sheet), "runs": MEMBER.read_all(members)}
    context = {
        **begin_page(comparison, "compare-runs"),
        "members": members,
        "several": len({run.experiment_id for run in comparison.runs}) > 1,
    }
    return render_page(request, "compare/compare_runs.html", data=data, context=context, page=page, as_json=as_json)

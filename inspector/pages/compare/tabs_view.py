"""`/compare/cost/`, `/compare/certainty/` and `/compare/runs/`: tabs of results that are little more than a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.analysis.failures.run_endings import Endings, read_endings
from benchapp.experiments.estimate import Amount
from benchapp.experiments.library_probes import read_left_out
from benchapp.experiments.work.progress import WorkProgress
from benchapp.models import Experiment, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.answer import rank_groups
from benchapp.stats.comparing.certainty import GroupCost, assess, list_costs
from benchapp.stats.comparing.comparison import GroupComparison, MetricCell
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.metric import MetricUnit
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import RunSpending, Spending, spending_of
from benchapp.stats.metrics.tally import TrialTally
from inspector.charts import OF_PAGES
from inspector.charts.cards import build_gallery
from inspector.charts.chart_request import sheet_of
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import link_to, next_url, paginate, render_page

ITEMS_PER_PAGE = 60
RUNS_PER_PAGE = 25


# --- what a trial and a passed trial cost, and what writing the libraries took ----------------------------------------


@dataclass(frozen=True, slots=True)
class CostRow(Shaped):
    """What one group spent. `writing`: on its library, per run, in the unit of the cost; None: nobody wrote, or it is unknown.
    `times`: per trial, over that of the baseline."""

    of_group: GroupCost
    cell: MetricCell
    writing: float | None
    times: float | None

    json_shape = JsonShape("*of_group", "passed=cell.rate.passed", "scored=cell.rate.scored", "writing", "times")


@require_safe
def cost(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    spending = spending_of(comparison.runs, comparison.choices.as_of)
    rows = list(_list_costs(sheet, spending))
    data = {**begin_twin(request, sheet), "groups": rows, "spent": sum_up(spending.values()), "next": None}
    begun = begin_page(comparison, "compare-cost")
    # The estimate of the launch; there is none for what was not launched here.
    whole = parent.estimate.get("whole") if isinstance(parent := begun["parent"], Experiment) else None
    context = {
        **begun,
        "rows": rows,
        "answer": _compare_costs(comparison, rows),
        "estimated": whole and {name: Amount(**whole[name]) for name in ("cost_usd", "tokens")},
        "gallery": build_gallery(OF_PAGES["compare-cost"], sheet),
    }
    return render_page(request, "compare/compare_cost.html", data=data, context=context, as_json=as_json)


def sum_up(spending: Iterable[RunSpending]) -> dict[str, object]:
    """Return what agents, authors and judges used; None where it is unknown."""
    bill = WorkProgress(spent=tuple(spending))
    return {
        "usd": bill.spent_usd,
        "estimated_usd": bill.estimated_usd,
        "tokens": bill.spent_tokens,
        "unknown_cost": bill.unknown_cost,
        "unknown_tokens": bill.unknown_tokens,
    }


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
    said = [f"{word} with “{'”, “'.join(names)}”" for word, names in (("less", less), ("more", more)) if names]
    return (
        f"A pass costs clearly {' and clearly '.join(said)}." if said else "What a pass costs is not clearly different."
    )


# --- how sure the differences are, and of what ------------------------------------------------------------------------


@require_safe
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
        "next": next_url(request, page),
    }
    context = {
        **begin_page(comparison, "compare-certainty"),
        "chosen": metric,
        "found": found,
        "page": page,
        "baseline": comparison.groups.baseline,
    }
    return render_page(request, "compare/compare_certainty.html", data=data, context=context, as_json=as_json)


# --- the runs behind the numbers, with what each took and how it ended ------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberRun:
    """A run as the list of members shows it."""

    run: Run
    tally: TrialTally
    spent: Spending
    mean_reward: float | None
    rewards: int  # trials that have one
    endings: Endings


@require_safe
def compared_runs(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison = sheet.comparison
    page = paginate(request, list(comparison.runs), per_page=RUNS_PER_PAGE)
    members = build_members(list(page), comparison.outcomes, comparison.choices.as_of)
    data = {**begin_twin(request, sheet), "runs": MEMBER.read_all(members), "next": next_url(request, page)}
    context = {
        **begin_page(comparison, "compare-runs"),
        "page": page,
        "members": members,
        "several": len({run.experiment_id for run in comparison.runs}) > 1,
    }
    return render_page(request, "compare/compare_runs.html", data=data, context=context, as_json=as_json)


def build_members(
    runs: Sequence[Run], outcomes: Mapping[int, Outcomes], as_of: datetime | None = None
) -> list[MemberRun]:
    """Read what was spent, as the record knew it at `as_of`."""
    spending, endings = spending_of(runs, as_of), read_endings(runs)
    members = []
    for run in runs:
        rewards = outcomes[run.pk].reward[~np.isnan(outcomes[run.pk].reward)]
        mean = float(rewards.mean()) if len(rewards) else None
        tally, spent = TrialTally.of(outcomes[run.pk]), spending[run.pk].agent
        members.append(MemberRun(run, tally, spent, mean, len(rewards), endings[run.pk]))
    return members


MEMBER = JsonShape(
    *("id=run", "condition=run.condition", "replicate=run.replicate", "harness=run.harness"),
    *("harness_version=run.harness_version?", "agent_model=run.agent_model", "author_agent=run.author_agent?"),
    *("author_model=run.author_model",),
    *("scripted=run.scripted", "status=run.status", "setup_digest=run.setup_digest?", "trials=tally"),
    *("mean_reward", "rewards", "spent", "endings"),
    link_to("run-json", "run.public_id"),
)

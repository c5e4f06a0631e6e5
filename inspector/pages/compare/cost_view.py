"""`/compare/cost/`: what a trial and a passed trial cost, and what writing the libraries took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.experiments.estimate import Amount
from benchapp.experiments.work.progress import WorkProgress
from benchapp.models import Experiment
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.certainty import GroupCost, list_costs
from benchapp.stats.comparing.comparison import GroupComparison, MetricCell
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.metrics.metric import MetricUnit
from benchapp.stats.metrics.spending import RunSpending, Spending, spending_of
from inspector.charts import OF_PAGES
from inspector.charts.cards import build_gallery
from inspector.charts.chart_request import sheet_of
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import render_page


@dataclass(frozen=True, slots=True)
class CostRow(Shaped):
    """What one group spent. writing: on its library, per run, in the unit of the cost; None: nobody wrote, or it is unknown.
    times: per trial, over that of the baseline."""

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
    rows = list(_list_rows(sheet, spending))
    begun = begin_page(comparison, "compare-cost")
    spent = sum_up(spending.values())
    data = {**begin_twin(request, sheet), "groups": rows, "spent": spent, "next": None}
    parent = begun["parent"]
    context = {
        **begun,
        "problems": sheet.problems,
        "pin": data["pin"],
        "rows": rows,
        "answer": _write_answer(comparison, rows),
        "spent": spent,
        "estimated": _read_estimate(parent) if isinstance(parent, Experiment) else None,
        "gallery": build_gallery(OF_PAGES["compare-cost"], sheet),
    }
    return render_page(request, "compare/compare_cost.html", data=data, context=context, as_json=as_json)


def sum_up(spending: Iterable[RunSpending]) -> dict[str, object]:
    """What agents, authors and judges used; None where it is unknown."""
    bill = WorkProgress(spent=tuple(spending))
    return {
        "usd": bill.spent_usd,
        "estimated_usd": bill.estimated_usd,
        "tokens": bill.spent_tokens,
        "unknown_cost": bill.unknown_cost,
        "unknown_tokens": bill.unknown_tokens,
    }


def _list_rows(sheet: ChartSheet, spending: Mapping[int, RunSpending]) -> Iterator[CostRow]:
    comparison, metric = sheet.comparison, sheet.metric
    costs = list_costs(comparison, metric) if metric else []
    per_trial = {each.group.identity: each.cost.per_trial for each in costs}
    for each in costs:
        assert metric is not None
        baseline = comparison.groups.baseline_of(each.group)
        base = per_trial.get(baseline.identity) if baseline else None
        authors = sum((spending[run.pk].author for run in each.group.runs), Spending())
        whole = authors.cost_usd if each.unit is MetricUnit.USD else _add_tokens(authors)
        writing = whole / each.group.replicates if authors.things and whole is not None else None
        times = each.cost.per_trial / base if base else None
        yield CostRow(each, comparison.cell(each.group, metric), writing, times)


def _add_tokens(spent: Spending) -> float | None:
    known = [part for part in (spent.input_tokens, spent.output_tokens) if part is not None]
    return float(sum(known)) if known else None


def _write_answer(comparison: GroupComparison, rows: list[CostRow]) -> str:
    """How the cost of a passed trial compares with the baseline's; empty where it does not."""
    of_baseline = [row for row in rows if comparison.groups.is_baseline(row.of_group.group)]
    others = [row for row in rows if row not in of_baseline and row.times is not None]
    if len(of_baseline) != 1 or not others:
        return ""
    times = sorted(round(row.times or 0.0, 1) for row in others)
    span = f"{times[0]:g}" if times[0] == times[-1] else f"{times[0]:g} to {times[-1]:g}"
    what = "tokens" if rows[0].of_group.unit is MetricUnit.TOKENS else "dollars"
    return f"A trial takes {span} times the {what} of the baseline. {_compare_passes(of_baseline[0], others)}"


def _compare_passes(of_baseline: CostRow, others: list[CostRow]) -> str:
    """Only what intervals that do not overlap say; writing the library is not in them."""
    base = of_baseline.of_group.cost.interval
    known = [(row.of_group.group.condition, row.of_group.cost.interval) for row in others]
    more = [name_condition(code).title for code, own in known if base and own and own.low > base.high]
    less = [name_condition(code).title for code, own in known if base and own and own.high < base.low]
    said = [f"{word} with “{'”, “'.join(names)}”" for word, names in (("less", less), ("more", more)) if names]
    return (
        f"A pass costs clearly {' and clearly '.join(said)}." if said else "What a pass costs is not clearly different."
    )


def _read_estimate(found: Experiment) -> dict[str, Amount] | None:
    """Return the estimate of the launch; None for what was not launched here."""
    whole = found.estimate.get("whole")
    return {name: Amount(**whole[name]) for name in ("cost_usd", "tokens")} if whole else None

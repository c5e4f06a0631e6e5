"""`/compare/runs/`: the runs behind the numbers, with what each took and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.analysis.failures.run_endings import Endings, read_endings
from benchapp.models import Run
from benchapp.record.json_shape import JsonShape
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import Spending, spending_of
from benchapp.stats.metrics.tally import TrialTally
from inspector.charts.chart_request import sheet_of
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import link_to, next_url, paginate, render_page

RUNS_PER_PAGE = 25


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
        "problems": sheet.problems,
        "pin": data["pin"],
        "page": page,
        "members": members,
        "several": len({run.experiment_id for run in comparison.runs}) > 1,
    }
    return render_page(request, "compare/compare_runs.html", data=data, context=context, as_json=as_json)


def build_members(
    runs: Sequence[Run], outcomes: Mapping[int, Outcomes], as_of: datetime | None = None
) -> list[MemberRun]:
    """What was spent, as the record knew it at `as_of`."""
    spending, endings = spending_of(runs, as_of), read_endings(runs)
    return [_build_member(run, outcomes[run.pk], spending[run.pk].agent, endings[run.pk]) for run in runs]


def _build_member(run: Run, outcomes: Outcomes, spent: Spending, endings: Endings) -> MemberRun:
    rewards = outcomes.reward[~np.isnan(outcomes.reward)]
    mean = float(rewards.mean()) if len(rewards) else None
    return MemberRun(run, TrialTally.of(outcomes), spent, mean, len(rewards), endings)


MEMBER = JsonShape(
    *("id=run", "condition=run.condition", "replicate=run.replicate", "harness=run.harness"),
    *("harness_version=run.harness_version?", "agent_model=run.agent_model", "author_agent=run.author_agent?"),
    *("author_model=run.author_model",),
    *("scripted=run.scripted", "status=run.status", "setup_digest=run.setup_digest?", "trials=tally"),
    *("mean_reward", "rewards", "spent", "endings"),
    link_to("run-json", "run.public_id"),
)

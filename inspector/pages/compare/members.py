"""The runs behind the numbers, with what each took and how it ended; and what they took together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np

from benchapp.analysis.failures.run_endings import Endings, read_endings
from benchapp.experiments.work.progress import WorkProgress
from benchapp.models import Run
from benchapp.record.json_shape import JsonShape
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import RunSpending, Spending, spending_of
from benchapp.stats.metrics.tally import TrialTally
from inspector.web.responses import link_to

RUNS_PER_PAGE = 25


class MemberRun:
    """A run as the list of members shows it. `rewards`: trials that have one."""

    def __init__(self, run: Run, outcomes: Outcomes, spent: Spending, endings: Endings) -> None:
        self.run, self.tally, self.spent, self.endings = run, TrialTally.of(outcomes), spent, endings
        known = outcomes.reward[~np.isnan(outcomes.reward)]
        self.mean_reward, self.rewards = float(known.mean()) if len(known) else None, len(known)


def build_members(
    runs: Sequence[Run], outcomes: Mapping[int, Outcomes], as_of: datetime | None = None
) -> list[MemberRun]:
    """Read what was spent, as the record knew it at `as_of`."""
    spending, endings = spending_of(runs, as_of), read_endings(runs)
    return [MemberRun(run, outcomes[run.pk], spending[run.pk].agent, endings[run.pk]) for run in runs]


MEMBER = JsonShape(
    "id=run condition=run.condition replicate=run.replicate harness=run.harness harness_version=run.harness_version?",
    "agent_model=run.agent_model author_agent=run.author_agent? author_model=run.author_model scripted=run.scripted",
    "status=run.status setup_digest=run.setup_digest? trials=tally mean_reward rewards spent endings",
    link_to("run-json", "run.public_id"),
)


BILL = JsonShape("usd=spent_usd estimated_usd tokens=spent_tokens unknown_cost unknown_tokens")


def sum_up(spending: Iterable[RunSpending]) -> dict[str, object]:
    """Return what agents, authors and judges used; None if unknown."""
    return BILL.read(WorkProgress(spent=tuple(spending)))

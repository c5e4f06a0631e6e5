"""What a solved task cost: over the whole bill, or not at all."""

from __future__ import annotations

from hypothesis import given, settings

from benchapp.stats.learning.libraries import Churn
from benchapp.stats.metrics.catalogue import RUN_METRICS
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.run_metrics import RunFacts, RunValue, count_solved_tasks
from benchapp.stats.metrics.spending import RunSpending, Spending
from tests.benchapp.stats.plain_rows import Row, as_columns, is_rehearsal, plain_row, runs_of_rows

AGENT = Spending(things=4, tokens_known=4, cost_known=4, input_tokens=900, output_tokens=100, cost_usd=3.0)
AUTHOR = Spending(things=1, tokens_known=1, cost_known=1, input_tokens=190, output_tokens=10, cost_usd=1.0)
REPLAYED = Spending(things=3, tokens_known=3, cost_known=3, input_tokens=540, output_tokens=60, cost_usd=9.0)
SOLVED_TWO = [plain_row(1, success=True), plain_row(2, task=2, success=True), plain_row(3, task=3, success=False)]


def price(key: str, outcomes: Outcomes, spending: RunSpending) -> RunValue:
    return RUN_METRICS[key].compute(RunFacts(outcomes, (), Churn(), spending))


@given(rows=runs_of_rows())
@settings(deadline=None, max_examples=40)
def test_it_counts_each_solved_task_once(rows: list[Row]) -> None:
    solved = {r["task"] for r in rows if r["success"] and r["phase"] != "replay" and not is_rehearsal(r, rows)}
    assert count_solved_tasks(as_columns(rows)) == len(solved)


def test_failures_and_the_author_are_paid_for() -> None:
    outcomes, spending = as_columns(SOLVED_TWO), RunSpending(AGENT, AUTHOR)
    assert price("cost-per-solved", outcomes, spending).value == 2.0
    assert price("tokens-per-solved", outcomes, spending).value == 600.0
    assert price("cost-per-solved", outcomes, spending).over == 2


def test_replays_are_on_neither_side() -> None:
    """A replayed condition costs no more per solved task than the same without replay,
    and solves no more tasks by it."""
    replays = [plain_row(number, task=number - 10, phase="replay", success=True) for number in (11, 12, 13)]
    spent = RunSpending(AGENT, AUTHOR, replays=REPLAYED)
    found = price("cost-per-solved", as_columns([*SOLVED_TWO, *replays]), spent)
    assert (found.value, found.over) == (2.0, 2)


def test_an_attempted_task_pays_for_all_phases_and_the_author() -> None:
    """Three first tries and three replays for 3 + 9 USD, and 1 USD for the author."""
    replays = [plain_row(number, task=number - 10, phase="replay", success=True) for number in (11, 12, 13)]
    spent = RunSpending(AGENT, AUTHOR, replays=REPLAYED)
    found = price("cost-per-attempted", as_columns([*SOLVED_TWO, *replays]), spent)
    assert (found.value, found.over) == (13 / 6, 6)
    assert price("tokens-per-attempted", as_columns([*SOLVED_TWO, *replays]), spent).value == (1000 + 200 + 600) / 6


def test_what_solves_cheaper_can_cost_more_per_attempt() -> None:
    """The author's dollar is spread over what was tried, or over what was solved by it."""
    all_solved = [plain_row(number, task=number, success=True) for number in (1, 2, 3)]
    with_skills, without = RunSpending(AGENT, AUTHOR), RunSpending(AGENT)
    one_solved = [plain_row(number, task=number, success=number == 1) for number in (1, 2, 3)]
    own, other = as_columns(all_solved), as_columns(one_solved)
    assert (price("cost-per-attempted", own, with_skills).value or 0) > (
        price("cost-per-attempted", other, without).value or 0
    )
    assert (price("cost-per-solved", own, with_skills).value or 0) < (
        price("cost-per-solved", other, without).value or 0
    )


def test_unknown_replays_hide_what_an_attempted_task_cost_and_not_a_solved_one() -> None:
    unpriced = Spending(things=3)
    spent = RunSpending(AGENT, AUTHOR, replays=unpriced)
    found = price("cost-per-attempted", as_columns(SOLVED_TWO), spent)
    assert (found.value, found.note) == (None, "the cost of 3 attempts or calls is unknown")
    assert (
        price("tokens-per-attempted", as_columns(SOLVED_TWO), spent).note == "3 of 8 attempts or calls report no tokens"
    )
    assert price("cost-per-solved", as_columns(SOLVED_TWO), spent).value == 2.0


def test_a_waiting_trial_is_not_attempted() -> None:
    waiting = plain_row(9, task=9, done=False, success=None)
    assert price("cost-per-attempted", as_columns([*SOLVED_TWO, waiting]), RunSpending(AGENT)).over == 3
    assert price("cost-per-attempted", as_columns([]), RunSpending()).note == "nothing was run"
    tainted = [*SOLVED_TWO, plain_row(9, episode=2, tainted=True)]
    assert "skipped" in price("cost-per-attempted", as_columns(tainted), RunSpending(AGENT)).note


def test_an_unknown_cost_is_not_free() -> None:
    partly = Spending(things=4, tokens_known=3, cost_known=3, input_tokens=900, output_tokens=100, cost_usd=3.0)
    found = price("cost-per-solved", as_columns(SOLVED_TWO), RunSpending(partly, AUTHOR))
    assert found.value is None
    assert "1 attempt" in found.note
    assert price("tokens-per-solved", as_columns(SOLVED_TWO), RunSpending(partly, AUTHOR)).value is None


def test_a_run_without_an_author_has_the_agents_bill() -> None:
    assert price("cost-per-solved", as_columns(SOLVED_TWO), RunSpending(AGENT)).value == 1.5


def test_nothing_solved_has_no_price() -> None:
    failed = as_columns([plain_row(1, success=False)])
    assert (
        price("cost-per-solved", failed, RunSpending(AGENT)).value,
        price("cost-per-solved", failed, RunSpending(AGENT)).note,
    ) == (
        None,
        "no task was solved",
    )
    assert price("cost-per-solved", as_columns([]), RunSpending()).note == "nothing was run"


def test_it_gives_no_price_where_a_tainted_episode_is_in_the_bill() -> None:
    rows = [*SOLVED_TWO, plain_row(9, episode=2, tainted=True)]
    found = price("cost-per-solved", as_columns(rows), RunSpending(AGENT))
    assert found.value is None
    assert "skipped" in found.note

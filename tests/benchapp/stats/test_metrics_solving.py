"""What a solved task cost: over the whole bill, or not at all."""

from __future__ import annotations

from hypothesis import given, settings

from benchapp.stats.metrics.run_metrics import cost_per_solved, count_solved_tasks, tokens_per_solved
from benchapp.stats.metrics.spending import RunSpending, Spending
from tests.benchapp.stats.plain_rows import Row, as_columns, is_rehearsal, plain_row, runs_of_rows

AGENT = Spending(things=4, tokens_known=4, cost_known=4, input_tokens=900, output_tokens=100, cost_usd=3.0)
AUTHOR = Spending(things=1, tokens_known=1, cost_known=1, input_tokens=190, output_tokens=10, cost_usd=1.0)
SOLVED_TWO = [plain_row(1, success=True), plain_row(2, task=2, success=True), plain_row(3, task=3, success=False)]


@given(rows=runs_of_rows())
@settings(deadline=None, max_examples=40)
def test_it_counts_each_solved_task_once(rows: list[Row]) -> None:
    solved = {r["task"] for r in rows if r["success"] and r["phase"] != "replay" and not is_rehearsal(r, rows)}
    assert count_solved_tasks(as_columns(rows)) == len(solved)


def test_failures_and_the_author_are_paid_for() -> None:
    outcomes, spending = as_columns(SOLVED_TWO), RunSpending(AGENT, AUTHOR)
    assert cost_per_solved(outcomes, spending).value == 2.0
    assert tokens_per_solved(outcomes, spending).value == 600.0
    assert cost_per_solved(outcomes, spending).over == 2


def test_replays_are_on_neither_side() -> None:
    """A replayed condition costs no more per solved task than the same without replay, and solves no more tasks by it."""
    replays = [plain_row(number, task=number - 10, phase="replay", success=True) for number in (11, 12, 13)]
    spent = RunSpending(AGENT, AUTHOR, replays=Spending(things=3, tokens_known=3, cost_known=3, cost_usd=9.0))
    found = cost_per_solved(as_columns([*SOLVED_TWO, *replays]), spent)
    assert (found.value, found.over) == (2.0, 2)


def test_an_unknown_cost_is_not_free() -> None:
    partly = Spending(things=4, tokens_known=3, cost_known=3, input_tokens=900, output_tokens=100, cost_usd=3.0)
    found = cost_per_solved(as_columns(SOLVED_TWO), RunSpending(partly, AUTHOR))
    assert found.value is None
    assert "1 attempt" in found.note
    assert tokens_per_solved(as_columns(SOLVED_TWO), RunSpending(partly, AUTHOR)).value is None


def test_a_run_without_an_author_has_the_agents_bill() -> None:
    assert cost_per_solved(as_columns(SOLVED_TWO), RunSpending(AGENT)).value == 1.5


def test_nothing_solved_has_no_price() -> None:
    failed = as_columns([plain_row(1, success=False)])
    assert (cost_per_solved(failed, RunSpending(AGENT)).value, cost_per_solved(failed, RunSpending(AGENT)).note) == (
        None,
        "no task was solved",
    )
    assert cost_per_solved(as_columns([]), RunSpending()).note == "nothing was run"


def test_it_gives_no_price_where_a_tainted_episode_is_in_the_bill() -> None:
    rows = [*SOLVED_TWO, plain_row(9, episode=2, tainted=True)]
    found = cost_per_solved(as_columns(rows), RunSpending(AGENT))
    assert found.value is None
    assert "skipped" in found.note

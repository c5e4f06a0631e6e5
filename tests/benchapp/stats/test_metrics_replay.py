"""Replay against acquisition: the 2x2 by hand and against an obvious count over plain rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from benchapp.stats.learning.replay_gains import RETEST, ReplayPairs, pairs_of, replay_of
from tests.benchapp.stats.plain_rows import Row, as_columns, plain_row, runs_of_rows

T, F = True, False


def tries(*outcomes: tuple[bool | None, bool | None], start: int = 1) -> list[Row]:
    """Per task its acquisition and its replay."""
    rows = []
    for place, (first, again) in enumerate(outcomes):
        trial = start + 2 * place
        rows.append(plain_row(trial, task=place + 1, success=first))
        rows.append(plain_row(trial + 1, task=place + 1, phase="replay", success=again))
    return rows


def obvious_pairs(rows: list[Row]) -> tuple[dict[tuple[bool, bool], set[int]], int]:
    cells: dict[tuple[bool, bool], set[int]] = {(a, b): set() for a in (T, F) for b in (T, F)}
    unpaired = 0
    for again in rows:
        if again["phase"] != "replay" or again["tainted"]:
            continue
        first = [
            row
            for row in rows
            if row["phase"] == "acquisition"
            and all(row[name] == again[name] for name in ("episode", "task", "sample"))
            and row["success"] is not None
        ]
        if first and again["success"] is not None:
            cells[first[0]["success"], again["success"]].add(again["trial"])
        else:
            unpaired += 1
    return cells, unpaired


@given(rows=runs_of_rows())
@settings(deadline=None, max_examples=60)
def test_it_equals_the_obvious_pairs(rows: list[Row]) -> None:
    pairs = pairs_of(as_columns(rows))
    cells, unpaired = obvious_pairs(rows)
    assert set(pairs.fail_pass) == cells[F, T]
    assert set(pairs.pass_pass) == cells[T, T]
    assert set(pairs.pass_fail) == cells[T, F]
    assert set(pairs.fail_fail) == cells[F, F]
    assert pairs.unpaired == unpaired
    failed, passed = len(cells[F, T]) + len(cells[F, F]), len(cells[T, T]) + len(cells[T, F])
    assert pairs.recovery == (len(cells[F, T]) / failed if failed else None)
    assert pairs.regression == (len(cells[T, F]) / passed if passed else None)


def test_it_counts_recovery_and_regression() -> None:
    pairs = pairs_of(as_columns(tries((F, T), (F, F), (F, F), (T, T), (T, F), (None, T), (T, None))))
    assert (len(pairs.fail_pass), len(pairs.fail_fail), len(pairs.pass_pass), len(pairs.pass_fail)) == (1, 2, 1, 1)
    assert pairs.unpaired == 2
    assert pairs.recovery == pytest.approx(1 / 3)
    assert pairs.regression == pytest.approx(1 / 2)
    assert pairs.lift == pytest.approx(0.0)


def test_it_names_the_replay_trials_of_each_cell() -> None:
    pairs = pairs_of(as_columns(tries((F, T), (T, T))))
    assert (pairs.fail_pass, pairs.pass_pass) == ((2,), (4,))


def test_it_has_no_rate_over_nothing() -> None:
    assert (ReplayPairs().recovery, ReplayPairs().regression, ReplayPairs().lift) == (None, None, None)
    assert pairs_of(as_columns(tries((T, T)))).recovery is None


def test_it_takes_away_what_the_placebo_recovers_too() -> None:
    own = as_columns(tries((F, T), (F, T), (F, F), (F, F)))
    placebo = as_columns(tries((F, T), (F, F), (F, F), (F, F), start=100))
    found = replay_of([own], [placebo])
    assert found is not None
    assert found.placebo is not None
    assert (found.own.recovery, found.placebo.recovery) == (0.5, 0.25)
    assert found.net_recovery == pytest.approx(0.25)
    assert found.net_lift == pytest.approx(0.25)
    assert found.label != RETEST


def test_it_says_that_retest_noise_is_in_it_where_there_is_no_placebo() -> None:
    own = as_columns(tries((F, T)))
    baseline = as_columns([plain_row(9, task=1, success=F)])
    found = replay_of([own], [baseline])
    assert found is not None
    assert (found.label, found.placebo, found.net_recovery) == (RETEST, None, None)


def test_it_compares_only_tasks_that_both_replayed() -> None:
    own = as_columns(tries((F, T), (F, T)))
    placebo = as_columns(tries((F, F), start=100))
    found = replay_of([own], [placebo])
    assert found is not None
    assert (found.own.total, found.placebo and found.placebo.total) == (1, 1)


def test_it_says_nothing_where_nothing_was_replayed() -> None:
    assert replay_of([as_columns([plain_row(1, success=T)])]) is None
    unscored = replay_of([as_columns(tries((T, None)))])
    assert unscored is not None
    assert (unscored.own.total, unscored.own.unpaired) == (0, 1)

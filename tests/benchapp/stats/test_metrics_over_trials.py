"""Every metric over trials against a slow, obvious second implementation that knows nothing of `Metric` or columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from benchapp.stats.metrics import passk
from benchapp.stats.metrics.catalogue import METRICS, TABLES, table_for
from benchapp.stats.metrics.metric import TrialMetric
from tests.benchapp.stats.plain_rows import Row, as_columns, is_rehearsal, plain_row, runs_of_rows

Value = Callable[[Row], float | None]


# --- the second implementation ------------------------------------------------------------------------------------


def first_try(row: Row) -> bool:
    return row["phase"] in ("acquisition", "deployment", "evaluation")


def deployed(row: Row, role: str = "") -> bool:
    return row["phase"] == "deployment" and role in ("", row["role"])


def evaluated(row: Row) -> bool:
    return row["phase"] in ("evaluation", "deployment")


def is_of_first_task(row: Row, rows: list[Row]) -> bool:
    """Was this task the first that was learned from in its episode?"""
    learned = [other for other in rows if other["episode"] == row["episode"]]
    learned = [other for other in learned if other["phase"] in ("acquisition", "evaluation")]
    if not learned or row not in learned:
        return False
    phase = "acquisition" if any(other["phase"] == "acquisition" for other in learned) else "evaluation"
    candidates = [other for other in learned if other["phase"] == phase]
    first = min(candidates, key=lambda other: (other["finished"] is None, other["finished"] or 0, other["trial"]))
    return bool(row["task"] == first["task"])


def past_first(row: Row, rows: list[Row]) -> bool:
    return first_try(row) and not is_rehearsal(row, rows) and row["ordered"] and not is_of_first_task(row, rows)


def used(row: Row) -> float | None:
    return None if row["skills_read"] is None else float(row["skills_read"] > 0)


def usage(row: Row) -> float | None:
    if row["skills_read"] is None or not row["skills_mounted"]:
        return None
    return min(1.0, row["skills_read"] / row["skills_mounted"])


def usage_rate(row: Row) -> float | None:
    if row["skills_invoked"] is None or not row["skills_mounted"]:
        return None
    return min(1.0, row["skills_invoked"] / row["skills_mounted"])


def learned_from(row: Row) -> bool:
    return row["ordinal"] in range(1, row["seeds"] + 1)


def all_tokens(row: Row) -> float | None:
    told = row["input_tokens"], row["output_tokens"]
    return None if None in told else sum(told)


def column(name: str) -> Value:
    return lambda row: None if row[name] is None else float(row[name])


SUCCESS = column("success")

# key -> (is the trial counted?, its value, by family first?)
OBVIOUS: dict[str, tuple[Callable[[Row, list[Row]], bool], Value, bool]] = {
    "LSR": (lambda row, rows: row["phase"] == "acquisition", SUCCESS, False),
    "RSR": (lambda row, rows: row["phase"] == "replay", SUCCESS, False),
    "ESR": (lambda row, rows: deployed(row), SUCCESS, False),
    "CSSR": (lambda row, rows: deployed(row, "context-shift"), SUCCESS, False),
    "ARSR": (lambda row, rows: deployed(row, "adversarial"), SUCCESS, False),
    "CompSR": (lambda row, rows: deployed(row, "composition"), SUCCESS, False),
    **{
        f"mean-{name}": (lambda row, rows: first_try(row) and not is_rehearsal(row, rows), column(name), False)
        for name in ("outcome", "process", "overall")
    },
    **{
        f"deployment-{name}": (lambda row, rows: deployed(row), column(name), False)
        for name in ("outcome", "process", "overall")
    },
    "completion": (lambda row, rows: first_try(row) and not is_rehearsal(row, rows), SUCCESS, False),
    "completion-past-first": (past_first, SUCCESS, False),
    "turns": (lambda row, rows: first_try(row) and not is_rehearsal(row, rows), column("turns"), False),
    "turns-past-first": (past_first, column("turns"), False),
    "cost": (lambda row, rows: first_try(row) and not is_rehearsal(row, rows), column("cost_usd"), False),
    "cost-past-first": (past_first, column("cost_usd"), False),
    "output-tokens": (lambda row, rows: first_try(row) and not is_rehearsal(row, rows), column("output_tokens"), False),
    "output-tokens-past-first": (past_first, column("output_tokens"), False),
    "use": (lambda row, rows: first_try(row) and not is_rehearsal(row, rows), used, False),
    "use-past-first": (past_first, used, False),
    "accuracy": (lambda row, rows: evaluated(row), SUCCESS, True),
    "accuracy-seed": (lambda row, rows: evaluated(row) and learned_from(row), SUCCESS, True),
    "accuracy-held-out": (
        lambda row, rows: evaluated(row) and row["ordinal"] > 0 and not learned_from(row),
        SUCCESS,
        True,
    ),
    "solving-tokens": (lambda row, rows: evaluated(row), all_tokens, True),
    "usage": (lambda row, rows: evaluated(row), usage, True),
    "skill-usage-rate": (lambda row, rows: evaluated(row), usage_rate, True),
    "input-per-trial": (lambda row, rows: True, column("input_tokens"), False),
    "cached-per-trial": (lambda row, rows: True, column("cached_tokens"), False),
    "output-per-trial": (lambda row, rows: True, column("output_tokens"), False),
    "cost-per-trial": (lambda row, rows: True, column("cost_usd"), False),
    "seconds-per-trial": (lambda row, rows: True, column("seconds"), False),
    "mounted-per-trial": (lambda row, rows: True, column("skills_mounted"), False),
    "read-per-trial": (lambda row, rows: True, column("skills_read"), False),
}


def counted(key: str, rows: list[Row]) -> list[Row]:
    belongs, _, _ = OBVIOUS[key]
    return [row for row in rows if not row["tainted"] and belongs(row, rows)]


def values_by_task(key: str, rows: list[Row]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for row in counted(key, rows):
        value = OBVIOUS[key][1](row)
        if value is not None:
            found[row["task"]].append(value)
    return found


def obvious_mean(key: str, rows: list[Row]) -> float | None:
    by_task = values_by_task(key, rows)
    if not by_task:
        return None
    if not OBVIOUS[key][2]:
        return fmean(value for values in by_task.values() for value in values)
    by_family: dict[object, list[float]] = defaultdict(list)
    for task, values in by_task.items():
        family = next(row["family"] for row in rows if row["task"] == task)
        by_family[("alone", task) if family is None else family].append(fmean(values))
    return fmean(fmean(values) for values in by_family.values())


# --- ours against it ----------------------------------------------------------------------------------------------


def test_it_knows_the_obvious_answer_for_every_metric() -> None:
    over_tasks = {metric.key for metric in passk.METRICS}  # test_metrics_passk
    judged = {metric.key for metric in METRICS.values() if metric.is_judged}  # test_judged_metrics
    assert set(OBVIOUS) == set(METRICS) - over_tasks - judged
    assert all(METRICS[metric.key] is metric for metrics in TABLES.values() for metric in metrics), (
        "a key stands for one metric"
    )


@given(rows=runs_of_rows())
@settings(deadline=None, max_examples=60)
def test_it_equals_the_obvious_answer(rows: list[Row]) -> None:
    outcomes = as_columns(rows)
    for key, metric in METRICS.items():
        if key not in OBVIOUS:
            continue
        assert metric.mean(outcomes) == pytest.approx(obvious_mean(key, rows)), key
        by_task = values_by_task(key, rows)
        values = [value for values in by_task.values() for value in values]
        rate = metric.rate(outcomes)
        assert (rate.scored, rate.planned) == (len(values), len(counted(key, rows))), key
        if metric.is_share:
            assert rate.passed == sum(value >= 1 for value in values), key
        means = metric.task_means(outcomes)
        assert dict(zip(means.task.tolist(), means.value.tolist(), strict=True)) == pytest.approx(
            {task: fmean(values) for task, values in by_task.items()}
        ), key


@given(rows=runs_of_rows(max_trials=10))
@settings(deadline=None, max_examples=30)
def test_the_order_of_rows_says_nothing(rows: list[Row]) -> None:
    ahead, back = as_columns(rows), as_columns(rows[::-1])
    for key, metric in METRICS.items():
        assert metric.mean(ahead) == pytest.approx(metric.mean(back)), key


# --- by hand ------------------------------------------------------------------------------------------------------


def mean(key: str, *rows: Row) -> float | None:
    return METRICS[key].mean(as_columns(list(rows)))


def test_it_does_not_take_a_missing_verdict_for_a_failure() -> None:
    rows = [plain_row(1, success=True), plain_row(2, task=2, success=None), plain_row(3, task=3, success=False)]
    assert mean("LSR", *rows) == 0.5
    rate = METRICS["LSR"].rate(as_columns(rows))
    assert (rate.passed, rate.scored, rate.planned, rate.missing) == (1, 2, 3, 1)


def test_it_has_no_mean_of_nothing() -> None:
    assert mean("ESR", plain_row(1, success=True)) is None
    assert mean("LSR") is None


def test_it_leaves_tainted_episodes_out() -> None:
    assert mean("LSR", plain_row(1, success=True), plain_row(2, episode=2, tainted=True, success=False)) == 1.0


def test_it_weighs_families_alike_whatever_their_size() -> None:
    """2 of 2 instances of one family, 1 of 4 of another, and three tasks that are families of their own, 1 passed."""
    small = [plain_row(n, task=n, family=1, phase="evaluation", success=True) for n in (1, 2)]
    large = [plain_row(n, task=n, family=2, phase="evaluation", success=n == 3) for n in (3, 4, 5, 6)]
    alone = [plain_row(n, task=n, phase="evaluation", success=n == 7) for n in (7, 8, 9)]
    assert mean("accuracy", *small, *large, *alone) == pytest.approx((1 + 1 / 4 + 1 + 0 + 0) / 5)
    assert mean("completion", *small, *large, *alone) == pytest.approx(4 / 9)


def test_it_takes_the_mean_of_the_samples_before_that_of_the_instances() -> None:
    """Instance 1 passed 1 of 3, instance 2 passed 1 of 1: 2/3, not 2/4."""
    samples = [plain_row(n, task=1, family=1, sample=n, phase="evaluation", success=n == 1) for n in (1, 2, 3)]
    single = plain_row(4, task=2, family=1, phase="evaluation", success=True)
    assert mean("accuracy", *samples, single) == pytest.approx(2 / 3)


def test_a_mean_over_families_has_students_interval_over_them() -> None:
    """Six families passed 2, 1, 0, 2, 1 and 2 of their 2 instances; five are too few."""
    passed = (2, 1, 0, 2, 1, 2)
    rows = [
        plain_row(2 * family + n, task=2 * family + n, family=family, phase="evaluation", success=n < count)
        for family, count in enumerate(passed)
        for n in (0, 1)
    ]
    outcomes = as_columns(rows)
    expected = stats.ttest_1samp(np.array(passed) / 2, 0).confidence_interval()
    found = METRICS["accuracy"].interval(outcomes)
    assert found is not None
    assert found == pytest.approx((max(0.0, expected.low), min(1.0, expected.high)))
    assert METRICS["accuracy"].interval(as_columns(rows[:10])) is None


def test_it_tells_seed_from_held_out_and_neither_where_the_place_is_not_told() -> None:
    rows = [
        plain_row(1, task=1, family=1, ordinal=1, phase="evaluation", success=True),
        plain_row(2, task=2, family=1, ordinal=2, phase="evaluation", success=False),
        plain_row(3, task=3, family=1, ordinal=0, phase="evaluation", success=False),
    ]
    assert (mean("accuracy-seed", *rows), mean("accuracy-held-out", *rows)) == (1.0, 0.0)
    assert mean("accuracy", *rows) == pytest.approx(1 / 3)


def test_it_leaves_out_the_first_task_of_each_episode_with_all_its_samples() -> None:
    rows = [
        plain_row(1, task=1, finished=1, success=False),
        plain_row(2, task=1, sample=1, finished=4, success=False),
        plain_row(3, task=2, finished=2, success=True),
        plain_row(4, task=3, finished=3, success=True, phase="deployment"),
        plain_row(5, task=9, episode=2, finished=9, success=False),
    ]
    assert mean("completion", *rows) == pytest.approx(2 / 5)
    assert mean("completion-past-first", *rows) == 1.0
    assert METRICS["completion-past-first"].rate(as_columns(rows)).planned == 2


def test_it_knows_no_first_task_where_tasks_have_no_order() -> None:
    rows = [plain_row(n, task=n, phase="evaluation", ordered=False, success=True) for n in (1, 2)]
    assert mean("completion", *rows) == 1.0
    assert mean("completion-past-first", *rows) is None


def test_use_over_all_tasks_has_a_ceiling_that_use_past_the_first_has_not() -> None:
    """A family of four: the first has no skill to use, the other three use one."""
    rows = [plain_row(n, task=n, skills_read=int(n > 1), phase="evaluation") for n in (1, 2, 3, 4)]
    assert (mean("use", *rows), mean("use-past-first", *rows)) == (0.75, 1.0)


def test_usage_is_unknown_where_no_skill_was_mounted() -> None:
    rows = [
        plain_row(1, phase="evaluation", skills_mounted=0, skills_read=1),
        plain_row(2, task=2, phase="evaluation", skills_mounted=4, skills_read=1),
    ]
    assert mean("usage", *rows) == 0.25


def test_it_has_no_cost_where_none_is_told() -> None:
    assert mean("cost", plain_row(1, success=True, turns=3)) is None
    assert mean("cost", plain_row(1, cost_usd=0.0)) == 0.0


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ([plain_row(1, role="canonical")], "success"),
        ([plain_row(1, phase="deployment", role="adversarial")], "success"),
        ([plain_row(1), plain_row(2, phase="deployment")], "skilllearnbench"),
        ([plain_row(1, phase="evaluation", family=1, ordinal=2, ordered=False)], "skilllearnbench"),
        ([plain_row(1, phase="evaluation", family=1, ordinal=2)], "skillflow"),
        ([plain_row(1, phase="evaluation", ordered=False)], "skillflow"),
        ([], "skillflow"),
    ],
)
def test_it_picks_the_table_that_fits(rows: list[Row], table: str) -> None:
    assert table_for([as_columns(rows)]) == table


def test_every_metric_says_what_it_is() -> None:
    for metric in METRICS.values():
        assert metric.meaning, metric.key
        assert metric.source, metric.key
        assert isinstance(metric, TrialMetric)


def test_it_keeps_nothing_of_an_empty_run() -> None:
    outcomes = as_columns([])
    assert not outcomes.first.any()
    assert len(METRICS["accuracy"].task_means(outcomes).task) == 0
    assert np.isnan(outcomes.column("used")).all()

"""Rows, composites and means against values worked out by hand."""

from __future__ import annotations

import pytest

from benchapp.judges.judge_passes import judge_run
from benchapp.judges.judge_scores import contradictions
from benchapp.judges.robustness import over_replicates, over_samples, replicates_of, retest
from benchapp.record.slices import Budget
from benchapp.stats.judged import ALIGNMENT, JudgedItem, mean_over_tasks, read_judged_rows, rows_of
from runner.base.types import ModelRequest
from runner.judging.metrics import Metric, normalise_score
from tests.worlds.judging_worlds import Judge, add_run, fitting, make_world, metric_of


def told(metric: Metric, item: str, value: float, *, task: int = 1, family: int = 1, attempt: int = 1) -> JudgedItem:
    return JudgedItem(metric, (task, None, "", attempt), family, 0, item, "", value)


def values(rows: list, measure: str) -> list[float]:
    return [row.value for row in rows if row.measure == measure]


def test_scores_from_1_to_5_become_0_to_100() -> None:
    assert [normalise_score(score) for score in (1, 2, 3, 4, 5)] == [0, 25, 50, 75, 100]


def test_a_composite_needs_all_of_its_parts() -> None:
    parts = ("completeness", "determinism", "consistency", "usability")
    whole = [told(Metric.EXECUTABILITY, part, value) for part, value in zip(parts, (100, 50, 75, 0), strict=True)]
    assert values(rows_of(whole), "executability") == [56.25]
    assert values(rows_of(whole[1:]), "executability") == []
    assert values(rows_of(whole[1:]), "executability.determinism") == [50]


def test_alignment_is_the_mean_of_order_recall_and_completeness_of_one_attempt() -> None:
    points = [told(Metric.RECALL, "label", value) for value in (100, 0, 100)]
    whole = [
        told(Metric.ORDER, "execution_order", 75),
        told(Metric.COMPLETENESS, "completeness", 25),
        *points,
    ]
    assert values(rows_of(whole), "key-point-recall") == [pytest.approx(66.6667, abs=1e-3)]
    assert values(rows_of(whole), ALIGNMENT) == [pytest.approx((75 + 25 + 200 / 3) / 3)]
    assert values(rows_of(whole[:2]), ALIGNMENT) == []


def test_a_task_with_many_rows_weighs_as_much_as_one_with_few() -> None:
    rows = rows_of(
        [told(Metric.ORDER, "execution_order", value, attempt=place) for place, value in enumerate((0, 50, 100))]
        + [told(Metric.ORDER, "execution_order", 100, family=2, task=9, attempt=9)]
    )
    mean = mean_over_tasks(rows)
    assert mean is not None
    assert (mean.value, mean.rows, mean.tasks) == (75, 4, 2)
    assert mean_over_tasks([]) is None


def test_a_retest_pairs_by_unit_and_tells_what_has_no_partner() -> None:
    first = [
        told(Metric.ORDER, "execution_order", value, attempt=place) for place, value in enumerate((0, 25, 100, 50))
    ]
    second = [told(Metric.ORDER, "execution_order", value, attempt=place) for place, value in enumerate((25, 0, 75))]
    (found,) = retest(rows_of(first), rows_of(second), ["execution-order", "safety"])
    # Ranks 1 2 3 against 2 1 3: rho = 1 - 6 * (1 + 1 + 0) / (3 * 8) = 0.5; errors 25, 25, 25.
    assert (found.n, found.rho, found.mae, found.alone) == (3, pytest.approx(0.5), 25, 1)


@pytest.mark.django_db
def test_the_whole_of_a_run_equals_a_calculation_by_hand() -> None:
    world = make_world()

    def says(request: ModelRequest) -> str:
        metric, text = metric_of(request), request.messages[1]["content"]
        if metric is Metric.COVERAGE:
            return fitting(metric, place=2 if "Count the pieces." in text.split("## Key point")[1] else 0)
        if metric is Metric.EXECUTABILITY:
            return fitting(metric, score=5 if "splitting" in text else 2)
        return fitting(metric, score=3)

    judging = judge_run(world.run, Judge(says), budget=Budget()).judging
    rows = read_judged_rows([judging])[judging.pk]
    means = {measure: mean_over_tasks(r for r in rows if r.measure == measure) for measure in {r.measure for r in rows}}
    assert {name: (mean.value, mean.rows, mean.tasks) for name, mean in means.items() if "." not in name} == {
        "coverage": (50, 2, 1),  # one of two points mentioned, the other contradicted
        "executability": (62.5, 4, 1),  # (100 + 25) / 2
        "safety": (50, 4, 1),
        "execution-order": (50, 2, 1),
        "completeness": (50, 2, 1),
        "key-point-recall": (100, 2, 1),
        ALIGNMENT: (pytest.approx(200 / 3), 2, 1),
        "skill-usage": (50, 2, 1),
    }
    assert contradictions(judging) == {Metric.COVERAGE: 2}


@pytest.mark.django_db
def test_human_authored_rows_never_enter_those_of_a_generated_library() -> None:
    world = make_world()
    high, low = (Judge(lambda r, s=score: fitting(metric_of(r), score=s)) for score in (5, 1))
    judge_run(world.human, high, budget=Budget())
    judging = judge_run(world.run, low, budget=Budget()).judging
    assert {row.value for row in read_judged_rows([judging])[judging.pk] if row.measure == "executability"} == {0}


@pytest.mark.django_db
def test_samples_and_replicates_spread_around_their_mean() -> None:
    world = make_world(samples=3, replicate=1)
    judging = judge_run(world.run, Judge(), [Metric.ORDER], budget=Budget()).judging
    rows = read_judged_rows([judging])[judging.pk]
    assert {row.sample for row in rows} == {0, 1, 2}
    assert over_samples(rows)["execution-order"].sd == 0
    other = add_run(world, replicate=2)
    judge_run(other, Judge(lambda request: fitting(metric_of(request), score=2)), [Metric.ORDER], budget=Budget())
    judge_run(add_run(world, condition="self-feedback"), Judge(), [Metric.ORDER], budget=Budget())
    alike = replicates_of(judging)
    assert [each.run.replicate for each in alike] == [1, 2]
    spread = over_replicates(read_judged_rows(alike))["execution-order"]
    assert (spread.n, spread.mean, spread.sd) == (2, 50, pytest.approx(35.3553, abs=1e-3))  # of 75 and 25

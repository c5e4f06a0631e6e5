"""SkillGenBench's pass@k counted by hand, and against the obvious answer over plain rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings

from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.passk import (
    SOLVED,
    SOLVED_CODE,
    SOLVED_DOC,
    draw_difference,
    draw_mean,
    name_of,
    pass_curve,
    samples_of,
)
from tests.benchapp.stats.plain_rows import Row, as_columns, plain_row, runs_of_rows

T, F = True, False
Samples = Sequence[bool | None]


def run_of(tasks: Mapping[int, Samples], *, kinds: Mapping[int, str] | None = None, corpora: int = 2) -> Outcomes:
    """Task -> success of its samples. Task t is of corpus t % corpora; the corpus' kind as given."""
    slots = [(task, sample, success) for task, tries in tasks.items() for sample, success in enumerate(tries)]
    return as_columns(
        [
            plain_row(
                number,
                task=task,
                episode=task,
                family=task % corpora,
                environment=task % corpora,
                corpus=(kinds or {}).get(task % corpora, ""),
                phase="deployment",
                sample=sample,
                success=success,
            )
            for number, (task, sample, success) in enumerate(slots, start=1)
        ]
    )


def test_a_task_is_solved_by_any_of_its_samples() -> None:
    outcomes = run_of({1: (F, F, T), 2: (T, T, T), 3: (F, F, F), 4: (F, T, F)})
    assert SOLVED.rate(outcomes) == Rate(3, 4, 4)
    assert SOLVED.mean(outcomes) == 0.75
    assert samples_of([outcomes]) == (3, 3)
    assert name_of((3, 3)) == "pass@3"


def test_where_every_task_has_k_samples_it_is_the_unbiased_estimate_too() -> None:
    outcomes = run_of({1: (F, F, T), 2: (T, T, T), 3: (F, F, F)})
    assert SOLVED.mean(outcomes) == pytest.approx(pass_curve(outcomes, (3,))[0].value)


def test_a_task_with_an_unscored_sample_counts_neither_way_and_is_told() -> None:
    outcomes = run_of({1: (T, None, F), 2: (F, None, F), 3: (T, F, F), 4: (F, F, F)})
    assert SOLVED.rate(outcomes) == Rate(1, 2, 4)
    found = draw_mean([outcomes])
    assert found is not None
    assert (found.value, found.tasks, found.left_out) == (0.5, 2, 2)


def test_unequal_samples_take_the_k_out_of_the_name() -> None:
    outcomes = run_of({1: (F, T), 2: (F, F, T)})
    assert name_of(samples_of([outcomes])) == "pass@k, k 2 to 3"
    assert SOLVED.rate(outcomes) == Rate(2, 2, 2)


def test_code_and_doc_stand_apart() -> None:
    kinds = {0: "repository", 1: "code-document", 2: "domain-document"}
    outcomes = run_of({3: (T,), 6: (F,), 1: (T,), 2: (F,), 4: (T,)}, kinds=kinds, corpora=3)
    assert SOLVED_CODE.rate(outcomes) == Rate(1, 2, 2)
    assert SOLVED_DOC.rate(outcomes) == Rate(2, 3, 3)


def test_what_was_tried_before_the_library_was_sealed_is_no_sample() -> None:
    rows = [
        plain_row(1, phase="acquisition", success=True),
        plain_row(2, phase="deployment", success=False),
        plain_row(3, phase="replay", success=True),
    ]
    assert SOLVED.rate(as_columns(rows)) == Rate(0, 1, 1)


@given(rows=runs_of_rows())
@settings(deadline=None, max_examples=60)
def test_it_equals_counting_tasks(rows: list[Row]) -> None:
    tasks: dict[int, list[bool | None]] = defaultdict(list)
    for row in rows:
        if row["phase"] in ("deployment", "evaluation") and not row["tainted"]:
            tasks[row["task"]].append(row["success"])
    complete = [tries for tries in tasks.values() if None not in tries]
    outcomes = as_columns(rows)
    assert SOLVED.rate(outcomes) == Rate(sum(map(any, complete)), len(complete), len(tasks))
    means = SOLVED.task_means(outcomes)
    assert dict(zip(means.task.tolist(), means.value.tolist(), strict=True)) == {
        task: float(any(tries)) for task, tries in tasks.items() if None not in tries
    }


def test_a_difference_is_over_the_tasks_complete_on_both_sides() -> None:
    own = run_of({1: (T, F), 2: (T, T), 3: (F, F), 4: (F, T), 5: (T, T)})
    other = run_of({1: (F, F), 2: (F, T), 3: (F, F), 4: (F, None), 6: (T, T)})
    found = draw_difference([own], [other])
    assert found is not None
    assert found.value == pytest.approx(1 / 3)  # tasks 1, 2 and 3: only the first differs
    assert (found.tasks, found.left_out) == (3, 3)
    assert draw_difference([own], [run_of({9: (T,)})]) is None


def test_pairing_makes_the_interval_of_a_difference_narrower() -> None:
    """Both sides solve the same half; own solves two more. Unpaired, the spread between tasks would drown that."""
    base = {task: (task % 2 == 0,) for task in range(1, 41)}
    own, other = run_of({**base, 1: (T,), 3: (T,)}), run_of(base)
    paired, single = draw_difference([own], [other]), draw_mean([other])
    assert paired is not None
    assert single is not None
    assert paired.by_task is not None
    assert single.by_task is not None
    assert paired.by_task.high - paired.by_task.low < 0.5 * (single.by_task.high - single.by_task.low)


def test_replicates_are_averaged_on_the_tasks_complete_in_all() -> None:
    first, second = run_of({1: (T,), 2: (T,), 3: (F,)}), run_of({1: (T,), 2: (F,), 3: (None,)})
    found = draw_mean([first, second])
    assert found is not None
    assert (found.value, found.tasks, found.left_out) == (0.75, 2, 1)


@pytest.mark.parametrize(("corpora", "trusted"), [(29, False), (30, True)])
def test_it_does_not_trust_an_interval_over_few_corpora(corpora: int, trusted: bool) -> None:
    tasks = {task: (task % corpora < 2,) for task in range(1, 4 * corpora + 1)}
    found = draw_mean([run_of(tasks, corpora=corpora)])
    assert found is not None
    assert found.corpora == corpora
    assert found.by_corpus is not None
    assert any("not to be trusted" in note for note in found.notes) is not trusted

"""A task that was worked on while learning and is deployed too counts where it is deployed."""

from __future__ import annotations

from benchapp.stats.metrics.metric import FIRST_TRIES
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.passk import pass_curve
from tests.benchapp.stats.plain_rows import as_columns, plain_row

SEED, OTHER, LEARNED_ONLY = 1, 2, 3


def run_of(*trials: tuple[int, str, int, bool]) -> Outcomes:
    return as_columns(
        [
            plain_row(number, task=task, episode=1, family=1, phase=phase, sample=sample, success=success)
            for number, (task, phase, sample, success) in enumerate(trials, start=1)
        ]
    )


LEARNED = run_of(
    (SEED, "acquisition", 0, False),
    (SEED, "acquisition", 1, False),
    (LEARNED_ONLY, "acquisition", 0, True),
    (SEED, "deployment", 0, True),
    (OTHER, "deployment", 0, False),
)


def test_first_tries_leave_the_rehearsals_out_and_keep_what_was_only_learned_on() -> None:
    kept = LEARNED.where(LEARNED.covering(FIRST_TRIES))
    assert sorted(zip(kept.task.tolist(), kept.success.tolist(), strict=True)) == [
        (SEED, 1.0),
        (OTHER, 0.0),
        (LEARNED_ONLY, 1.0),
    ]


def test_acquisition_by_itself_still_has_them() -> None:
    assert LEARNED.covering(("acquisition",)).sum() == 3


def test_pass_at_k_counts_no_rehearsal_as_a_try() -> None:
    assert pass_curve(LEARNED, (1,))[0].value == 0.5
    assert pass_curve(LEARNED, (2,))[0].tasks == 0


def test_a_run_that_deploys_no_task_it_learned_on_keeps_all() -> None:
    plain = run_of((SEED, "acquisition", 0, True), (OTHER, "deployment", 0, False))
    assert plain.covering(FIRST_TRIES).all()

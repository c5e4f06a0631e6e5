"""Flip rates against comparing every two trials with each other."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.models import Run, Snapshot
from benchapp.stats.metrics.noise import Flips, flips_among, noise_of
from tests.benchapp.stats.plain_rows import Row, as_columns, plain_row, runs_of_rows
from tests.worlds.factories import (
    make_episode,
    make_experiment,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
)

EMPTY = 4  # the generated trials have libraries 1 to 4, or none


def a_run(pk: int, **facts: object) -> Run:
    return Run(
        **{"pk": pk, "experiment_id": 1, "condition": "selfgen-always", "harness": "shell", "agent_model": "m", **facts}
    )


def shown(run: Run, row: Row) -> object:
    """What the trial was shown, or None where it is not known."""
    if row["library"] == EMPTY:
        return "nothing"
    if row["library"] is not None:
        return row["library"]
    if run.condition == "no-skill":
        return "nothing"
    return None if row["ordered"] else ("this run", run.pk)


def source(a: tuple[Run, Row], b: tuple[Run, Row]) -> str:
    if a[0].pk == b[0].pk:
        return "samples" if a[1]["phase"] == b[1]["phase"] else "phases"
    same_cell = (a[0].condition, a[0].author_model) == (b[0].condition, b[0].author_model)
    return "replicates" if same_cell else "conditions"


def every_pair(trials: list[tuple[Run, Row]]) -> tuple[dict[str, list[bool]], dict[object, list[bool]]]:
    """By source, and by place: did the two end differently?"""
    by_source: dict[str, list[bool]] = defaultdict(list)
    by_place: dict[object, list[bool]] = defaultdict(list)
    for a, b in combinations(trials, 2):
        places = {
            (run.experiment_id, run.harness, run.agent_model, row["task"], shown(run, row)) for run, row in (a, b)
        }
        if len(places) == 1:
            flipped = a[1]["success"] != b[1]["success"]
            by_source[source(a, b)].append(flipped)
            by_place[places.pop()].append(flipped)
    return by_source, by_place


RUNS = st.tuples(
    st.sampled_from(("no-skill", "selfgen-always", "curated-static")),
    st.sampled_from(("m", "m", "n")),
    runs_of_rows(12),
)


@given(given_runs=st.lists(RUNS, min_size=1, max_size=3), retrieved=st.sets(st.integers(1, 12), max_size=2))
@settings(deadline=None, max_examples=60)
def test_it_equals_comparing_every_two_trials(
    given_runs: list[tuple[str, str, list[Row]]], retrieved: set[int]
) -> None:
    runs = [a_run(pk, condition=told[0], agent_model=told[1]) for pk, told in enumerate(given_runs, start=1)]
    outcomes = {run.pk: as_columns(rows) for run, (_, _, rows) in zip(runs, given_runs, strict=True)}
    noise = flips_among(runs, outcomes, EMPTY, retrieved)
    usable = [
        (run, row)
        for run, (_, _, rows) in zip(runs, given_runs, strict=True)
        for row in rows
        if row["success"] is not None and not row["tainted"] and row["trial"] not in retrieved
    ]
    known = [(run, row) for run, row in usable if shown(run, row) is not None]
    by_source, by_place = every_pair(known)
    for name in ("samples", "phases", "replicates", "conditions"):
        assert getattr(noise, name) == Flips(sum(by_source[name]), len(by_source[name])), name
    assert noise.total.pairs == sum(map(len, by_place.values()))
    assert noise.unknown == len(usable) - len(known)
    assert noise.rate == (pytest.approx(fmean(map(fmean, by_place.values()))) if by_place else None)
    assert noise.places == len(by_place)
    bare = [flip for place, flips in by_place.items() if place[-1] == "nothing" for flip in flips]
    assert noise.without_library == Flips(sum(bare), len(bare))


def test_one_place_with_many_trials_weighs_no_more_than_one_with_two() -> None:
    rows = [plain_row(n, task=1, sample=n, library=EMPTY, success=n < 3) for n in range(1, 5)]
    rows += [plain_row(n, task=2, sample=n, library=EMPTY, success=True) for n in (5, 6)]
    noise = flips_among([a_run(1)], {1: as_columns(rows)}, EMPTY, set())
    assert noise.samples == Flips(4, 7)
    assert noise.rate == pytest.approx((4 / 6 + 0) / 2)


@pytest.mark.django_db
def test_it_pairs_first_tasks_across_conditions_and_no_trial_that_was_shown_trajectories() -> None:
    suite, experiment = make_suite(), make_experiment()
    task = make_task(suite=suite)
    empty, filled = make_snapshot({}), make_snapshot()

    def trial(condition: str, snapshot: Snapshot, success: bool):
        episode = make_episode(make_run(experiment, condition=condition))
        return make_trial(episode, task, snapshot=snapshot, success=success)

    trials = [
        trial("no-skill", empty, True),
        trial("selfgen-always", empty, False),
        trial("curated-static", filled, False),
        trial("raw-trajectory", empty, False),
    ]
    trials[3].remember_retrieved([trials[0]])
    runs = [trial.episode.run for trial in trials]
    outcomes = {
        run.pk: as_columns(
            [plain_row(trial.pk, task=task.pk, library=trial.snapshot_id, success=trial.success)],
        )
        for run, trial in zip(runs, trials, strict=True)
    }
    noise = noise_of(runs, outcomes)
    assert (noise.conditions, noise.total) == (Flips(1, 1), Flips(1, 1))
    assert noise.without_library == Flips(1, 1)

"""Numbers of whole runs, on recorded rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.models import Episode, Run
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.learning.libraries import Churn
from benchapp.stats.learning.replay_gains import RETEST
from benchapp.stats.metrics.catalogue import RUN_METRICS
from benchapp.stats.metrics.run_metrics import RunFacts, RunValue, facts_of, mean_of
from benchapp.stats.metrics.spending import RunSpending
from tests.benchapp.stats.plain_rows import as_columns, plain_row
from tests.worlds.factories import make_learning_run, make_run, make_snapshot, make_unordered_episode

pytestmark = pytest.mark.django_db

T, F = True, False


def values(run: Run) -> dict[str, float | None]:
    facts = facts_of([run], outcomes_of([run]))[run.pk]
    return {key: metric.compute(facts).value for key, metric in RUN_METRICS.items()}


def test_it_computes_each_of_a_learning_run() -> None:
    run = make_learning_run(families=2, outcomes=(T, F, F, T, F, F, T, T, F))
    text = "---\nname: {}\ndescription: Round 1.\n---\n\n" + "- a rule\n" * 2
    slugs = [family.slug for family in run.experiment.suite.families.all()]
    assert values(run) == pytest.approx(
        {
            "recovery": 0.5,
            "regression": 0.0,
            "skills-retained": 2.0,
            "skills-ever": 2.0,
            "pass@1": 1 / 3,
            "pass@2": None,
            "pass@3": None,
            "cost-per-solved": 0.0,
            "tokens-per-solved": 12 * (4200 + 310) / 4,  # of 18 trials 6 are replays
            "cost-per-attempted": 0.0,
            "tokens-per-attempted": 4200 + 310,
            "library-files": 2.0,
            "library-bytes": float(sum(len(text.format(slug)) for slug in slugs)),
            "decisions-applied": 4 / 6,
        }
    )


def test_what_cannot_be_said_says_why() -> None:
    run = make_run()
    facts = facts_of([run], outcomes_of([run]))[run.pk]
    found = [metric.compute(facts) for metric in RUN_METRICS.values()]
    assert all(each.value is None for each in found)
    assert all(each.note for each in found)


def test_an_imported_library_does_not_count_as_written_by_the_author() -> None:
    episode = make_unordered_episode()
    episode.library = make_snapshot()
    episode.save(update_fields=["library"])
    found = values(episode.run)
    assert (found["skills-retained"], found["skills-ever"]) == (1.0, None)


def test_libraries_of_tainted_episodes_are_left_out() -> None:
    run = make_learning_run(environments=2, families=1)
    Episode.objects.filter(pk=run.episodes.first().pk).update(is_tainted=True)
    facts = facts_of([run], outcomes_of([run]))[run.pk]
    assert [library.title for library in facts.libraries] == [run.episodes.last().title]
    assert RUN_METRICS["skills-retained"].compute(facts).over == 1


def test_recovery_of_one_run_says_that_retest_noise_is_in_it() -> None:
    rows = [plain_row(1, success=False), plain_row(2, phase="replay", success=True)]
    facts = RunFacts(as_columns(rows), (), Churn(), RunSpending())
    assert RUN_METRICS["recovery"].compute(facts).note == RETEST
    assert RUN_METRICS["regression"].compute(facts).value is None
    assert RUN_METRICS["pass@1"].compute(replace(facts, outcomes=as_columns([]))).value is None


def test_the_number_of_queries_does_not_grow_with_the_runs() -> None:
    for count in (1, 3):
        runs = [make_learning_run(families=1) for _ in range(count)]
        outcomes = outcomes_of(runs)
        with CaptureQueriesContext(connection) as captured:
            facts_of(runs, outcomes)
        assert len(captured) == 7


def test_the_value_of_a_group_is_the_mean_of_its_replicates_that_have_one() -> None:
    found = mean_of(
        [RunValue(1.0, 2, "episodes"), RunValue(None, note="no episode owns a library"), RunValue(2.0, 3, "episodes")]
    )
    assert (found.value, found.over, found.of) == (1.5, 5, "episodes")
    assert found.note == "2 of 3 replicates report it; no episode owns a library"
    assert mean_of([RunValue(None, note="no task was solved")] * 2) == RunValue(None, note="no task was solved")
    assert mean_of([]).value is None

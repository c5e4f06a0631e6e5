from __future__ import annotations

from collections import Counter

import pytest
from django.core.management import call_command

from benchapp.experiments.example_experiment import EXAMPLE, read_outcome, run_example
from benchapp.experiments.launch import experiment_id
from benchapp.imports.shipped_example import NAMES, take_in_example
from benchapp.models import Decision, Experiment, Run
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.experiment_verdicts import judge_experiments

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def find_example() -> Experiment:
    return Experiment.objects.get(public_id=experiment_id(str(EXAMPLE["key"])))


def test_it_comes_in_once_and_stays_deleted() -> None:
    assert take_in_example() == len(NAMES)
    assert take_in_example() == 0
    assert Experiment.objects.count() == len(NAMES)
    for experiment in Experiment.objects.all():
        experiment.entomb(actor=None, reason="seen it")
    assert take_in_example() == 0
    call_command("sweep", verbosity=0)
    assert take_in_example() == 0


def test_it_shows_a_win_a_null_and_a_regression_by_a_scripted_model() -> None:
    take_in_example()
    found = find_example()
    runs = list(found.runs.all())
    verdict = judge_experiments({found: runs})[found.pk]
    assert {way.condition: way.effect for way in verdict.ways} == {
        "curated-static": Effect.OPEN,
        "selfgen-zero-shot": Effect.DOWN,
        "selfgen-always": Effect.UP,
    }
    assert Counter(run.condition for run in runs).most_common(1)[0][1] >= 3
    assert not Run.objects.exclude(scripted=True).exists()
    assert Decision.objects.filter(episode__run__experiment=found, lines_removed__gt=0).exists()


def test_a_rebuild_gives_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive is no frozen fake: the same file, run anew, ends the same way."""
    monkeypatch.setattr("benchapp.experiments.work.advance.hint", lambda _: True)
    monkeypatch.setattr("benchapp.experiments.work.advance._drop_hints", lambda _: None)
    take_in_example()
    shipped = [read_outcome(find_example()), *sorted(map(read_outcome, Experiment.objects.probes()), key=repr)]
    Experiment.objects.filter(public_id=experiment_id(str(EXAMPLE["key"]))).update(public_id=experiment_id("shipped"))
    made, *probes = run_example()
    assert [read_outcome(made), *sorted(map(read_outcome, probes), key=repr)] == shipped

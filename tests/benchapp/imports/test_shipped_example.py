from __future__ import annotations

from collections import Counter

import pytest
from django.core.management import call_command
from django.db.models import Q

from benchapp.experiments.example_experiment import EXAMPLE, list_episodes, read_outcome, run_probes, work_off
from benchapp.experiments.launch import experiment_id, launch
from benchapp.imports.batch import import_paths
from benchapp.imports.shipped_example import FOLDER, NAMES, take_in_example
from benchapp.models import Decision, Experiment, Probe, Run
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.experiment_verdicts import judge_experiments
from benchapp.stats.metrics.no_skill_sibling import BASELINE

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


def test_its_probes_find_what_they_reran_in_whatever_order_they_come() -> None:
    assert list(import_paths([FOLDER / name for name in reversed(NAMES)]).problems) == []
    assert not Probe.objects.filter(origin=None).exists()


def test_it_shows_a_win_a_null_and_a_regression_by_a_scripted_model() -> None:
    take_in_example()
    found = find_example()
    runs = list(found.runs.all())
    verdict = judge_experiments({found: runs})[found.pk]
    assert {way.condition: way.effect for way in verdict.ways} == {
        "curated-static": Effect.OPEN,
        "selfgen-zero-shot": Effect.WORSE,
        "selfgen-always": Effect.BETTER,
    }
    assert {way.words for way in verdict.ways} == {
        "not settled",
        "clearly worse, in these runs",
        "clearly better, in these runs",
    }
    assert Counter(run.condition for run in runs).most_common(1)[0][1] >= 3
    assert not Run.objects.exclude(scripted=True).exists()
    assert Decision.objects.filter(episode__run__experiment=found, lines_removed__gt=0).exists()


def is_rebuilt(outcome: tuple[object, ...]) -> bool:
    """One replicate of each condition, and every one of the baseline: by these the probe chooses its change."""
    condition, replicate = outcome[:2]
    return replicate == 1 or condition == BASELINE


@pytest.mark.full
def test_a_rebuild_gives_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive is no frozen fake: run anew, it ends the same way, and so do the probes of the change it leads to."""
    monkeypatch.setattr("benchapp.experiments.work.advance.hint", lambda _, **named: True)
    monkeypatch.setattr("benchapp.experiments.work.advance._drop_hints", lambda _: None)
    take_in_example()
    shipped, probes = find_example(), [read_outcome(each) for each in Experiment.objects.probes()]
    expected = list(filter(is_rebuilt, read_outcome(shipped)))
    Experiment.objects.filter(pk=shipped.pk).update(public_id=experiment_id("shipped"))
    made = launch(EXAMPLE)
    work_off(list_episodes(made).filter(Q(run__replicate=1) | Q(run__condition=BASELINE)))
    assert list(filter(is_rebuilt, read_outcome(made))) == expected
    assert sorted(map(read_outcome, run_probes(made)), key=repr) == sorted(probes, key=repr)

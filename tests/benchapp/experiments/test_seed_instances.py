"""One-shot from several seed instances, launched and worked on for real: what its author saw,
what is scored and compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchapp.experiments.foresight import estimate
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable
from benchapp.experiments.preparation import prepare
from benchapp.experiments.work import advance
from benchapp.models import Blob, Experiment, ModelCall, Run, Trial
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.comparability import Comparability
from runner.base.types import Task
from runner.suites import load_suite
from runner.suites.tasks.task_files import read_test_files

pytestmark = pytest.mark.django_db

FAMILY = "joined-tables"
ONE, TWO, THREE = (f"{FAMILY}-{number}" for number in (1, 2, 3))
SPEC: dict[str, Any] = {
    "name": "Seeds",
    "suite": "starter-learning",
    "protocol": "skilllearnbench",
    "environments": [FAMILY],
    "conditions": ["no-skill", "one-shot", "one-shot@2"],
    "replicates": 1,
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


@pytest.fixture
def done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, django_capture_on_commit_callbacks: Callable[..., Any]
) -> Experiment:
    """Launched, and worked on until no episode wants more."""
    queue: list[str] = []
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    monkeypatch.setattr(advance, "put_hint", lambda episode, needs, **_: queue.append(episode) or True)
    with django_capture_on_commit_callbacks(execute=True):
        experiment = launch(SPEC)
    while queue:
        advance.advance(queue.pop(0))
    assert not Trial.objects.filter(is_done=False).exists()
    return experiment


def run_of(experiment: Experiment, condition: str) -> Run:
    return experiment.runs.get(condition=condition)


def seen_by_author(run: Run) -> str:
    (call,) = ModelCall.objects.filter(episode__run=run, purpose="author")
    return Blob.objects.read_text(call.request_id)


def tasks() -> dict[str, Task]:
    families = [family for part in load_suite("starter-learning").environments for family in part.families]
    return {task.key: task for family in families if family.key == FAMILY for task in family.tasks}


# --- before anything runs -------------------------------------------------------------------------------------------


def test_every_task_with_too_few_instances_is_told_and_nothing_is_launched() -> None:
    with pytest.raises(Unlaunchable) as refused:
        prepare({**SPEC, "environments": [], "conditions": ["no-skill", "one-shot@3", "one-shot@4"]})
    assert [str(problem) for problem in refused.value.problems] == [
        f"conditions: one-shot@4 learns from 4 instances; {family} has 3 (expected a lower number, or environments "
        "without this one)"
        for family in ("group-averages", "joined-tables", "merged-timeline")
    ]


def test_the_number_is_of_the_condition_and_changes_neither_setups_nor_trials() -> None:
    prepared = prepare(SPEC)
    setups = {arm.condition: setup for arm, setup in prepared.setups.items()}
    assert setups["no-skill"] == setups["one-shot"] == setups["one-shot@2"]
    assert len({plan.setup_digest for plans in prepared.plans.values() for plan in plans}) == 1
    planned = {arm.condition: (found.trials, found.tokens.parts) for arm, found in estimate(prepared).arms.items()}
    assert planned == {"no-skill": (3, 3), "one-shot": (3, 4), "one-shot@2": (3, 4)}  # and an author


# --- what its author saw --------------------------------------------------------------------------------------------


def test_an_author_sees_the_texts_of_its_seeds_and_neither_tests_nor_any_other_instance(done: Experiment) -> None:
    one, two = (seen_by_author(run_of(done, condition)) for condition in ("one-shot", "one-shot@2"))
    told = {key: task.instruction.splitlines()[0] for key, task in tasks().items()}
    assert len(set(told.values())) == 3
    assert [told[key] in one for key in (ONE, TWO, THREE)] == [True, False, False]
    assert [told[key] in two for key in (ONE, TWO, THREE)] == [True, True, False]
    assert ("of which you see one example" in one, "of which you see 2 examples" in two) == (True, True)
    for task in tasks().values():
        for path, file in read_test_files(task).items():
            lines = [line for line in file.content.decode("utf-8", "replace").splitlines() if len(line) > 40]
            assert not [line for line in lines if line in two], path


# --- what is scored -------------------------------------------------------------------------------------------------


def test_the_same_instances_are_scored_whatever_was_seen_and_held_out_are_those_that_were_not(done: Experiment) -> None:
    tried = {
        condition: set(Trial.objects.filter(episode__run=run_of(done, condition)).values_list("task__key", flat=True))
        for condition in SPEC["conditions"]
    }
    assert set(map(frozenset, tried.values())) == {frozenset((ONE, TWO, THREE))}
    for key, seen in (
        ("accuracy", {"no-skill": 3, "one-shot": 3, "one-shot@2": 3}),
        ("accuracy-seed", {"no-skill": 1, "one-shot": 1, "one-shot@2": 2}),
        ("accuracy-held-out", {"no-skill": 2, "one-shot": 2, "one-shot@2": 1}),
    ):
        comparison = comparison_of(Choices())
        cells = {group.condition: comparison.cell(group, METRICS[key]).rate for group in comparison.groups.all}
        assert {condition: rate.planned for condition, rate in cells.items()} == seen, key
        for condition, rate in cells.items():
            behind = trials_behind(Choices(condition=(condition,)), Narrowing(covered=key))
            passed = trials_behind(Choices(condition=(condition,)), Narrowing(covered=key, outcome="passed"))
            assert (behind.count(), passed.count()) == (rate.planned, rate.passed), key


def test_a_difference_is_over_the_instances_that_count_on_both_sides(done: Experiment) -> None:
    comparison = comparison_of(Choices(baseline="one-shot"))
    (group,) = (group for group in comparison.groups.all if group.condition == "one-shot@2")
    both = {
        key: comparison.family_difference(group, METRICS[key])
        for key in ("accuracy", "accuracy-seed", "accuracy-held-out")
    }
    assert {key: found and found.tasks for key, found in both.items()} == {
        "accuracy": 3, "accuracy-seed": 1, "accuracy-held-out": 1,
    }  # fmt: skip
    assert Comparability(list(done.runs.select_related("experiment"))).is_comparable

"""What a queue is drawn from, and how it is made of that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.http import QueryDict
from django.utils import timezone

from benchapp.models import Activity, Experiment, Queue, QueueItem, Run, Slot, Trial, User
from benchapp.review.queues.item_drawing import Draw
from benchapp.review.queues.populations import PRESETS, Population, parse_population, reopen
from benchapp.review.queues.queue_making import (
    QueueRefused,
    QueueSpec,
    Sketch,
    assign,
    close,
    make_queue,
    seconds_per_item,
    withdraw,
)
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
    make_user,
)
from tests.worlds.review_factories import make_queue as make_small_queue
from tests.worlds.review_factories import make_review, make_version

pytestmark = pytest.mark.django_db


def parsed(query: str) -> Population:
    population, problems = parse_population(QueryDict(query))
    assert problems == []
    return population


def found(query: str) -> set[Trial]:
    return set(parsed(query).rows())


def reviewer() -> User:
    return make_user(level=User.Level.REVIEWER)


def spec_of(query: str = "preset=failed", how: Draw | None = None, people: int = 2, **fields: object) -> QueueSpec:
    given = {
        "name": "first pass",
        "version": make_version(),
        "population": parsed(query),
        "draw": how or Draw(),
        "reviewers": tuple(reviewer() for _ in range(people)),
    }
    return QueueSpec(**{**given, **fields})


# --- presets --------------------------------------------------------------------------------------------------------


def test_it_takes_what_ran_by_its_result() -> None:
    passed, failed, unscored = (make_trial(success=success) for success in (True, False, None))
    make_trial(finished=False)
    assert found("") == {passed, failed, unscored}
    assert found("preset=passed") == {passed}
    assert found("preset=failed") == {failed}
    assert found("preset=unscored") == {unscored}


def test_a_silent_bypass_failed_with_a_skill_at_hand_that_nobody_read() -> None:
    bypassed = make_trial(success=False, mounted=["a"])
    make_trial(success=True, mounted=["a"])
    make_trial(success=False, mounted=["a"], read=["a"])
    make_trial(success=False)
    assert found("preset=silent-bypass") == {bypassed}


def test_it_narrows_as_compare_does_and_leaves_out_what_was_deleted() -> None:
    kept = make_trial(make_episode(make_run(condition="selfgen-always")), success=False)
    make_trial(make_episode(make_run(condition="no-skill")), success=False)
    gone = make_trial(make_episode(make_run(condition="selfgen-always")), success=False)
    Experiment.objects.filter(runs__episodes=gone.episode).update(deleted_at=timezone.now())
    assert found("preset=failed&condition=selfgen-always") == {kept}
    assert found(f"preset=failed&condition=selfgen-always&task={kept.task.key}") == {kept}
    assert found("preset=failed&condition=selfgen-always&outcome=passed") == set()


class Pair:
    """A task tried under a condition and under its baseline, in runs that differ in nothing else."""

    def __init__(self, **axes: object) -> None:
        self.experiment, self.task = make_experiment(), make_task()
        self.axes = axes

    def trial(self, condition: str, *, success: bool | None, experiment: Experiment | None = None, **fields) -> Trial:
        run_axes = {**self.axes, **fields.pop("run", {})}
        run = make_run(experiment or self.experiment, condition=condition, **run_axes)
        return make_trial(make_episode(run), self.task, success=success, **fields)


def test_a_regression_failed_where_the_baseline_passed() -> None:
    pair = Pair()
    pair.trial("no-skill", success=True)
    regressed = pair.trial("selfgen-always", success=False)
    pair.trial("curated-static", success=True)
    pair.trial("raw-trajectory", success=None)
    assert found("preset=regressions") == {regressed}
    assert found("preset=improvements") == set()
    assert found("preset=regressions&baseline=curated-static") == {regressed}
    assert found("preset=regressions&baseline=raw-trajectory") == set()


def test_an_improvement_passed_where_the_baseline_failed() -> None:
    pair = Pair()
    pair.trial("no-skill", success=False)
    improved = pair.trial("selfgen-always", success=True)
    pair.trial("curated-static", success=False)
    assert found("preset=improvements") == {improved}


def test_the_baseline_need_not_be_selected() -> None:
    pair = Pair()
    pair.trial("no-skill", success=True)
    regressed = pair.trial("selfgen-always", success=False)
    pair.trial("curated-static", success=False)
    assert found("preset=regressions&condition=selfgen-always") == {regressed}


@pytest.mark.parametrize(
    "other",
    [
        {"run": {"replicate": 2}},
        {"run": {"agent_model": "another"}},
        {"run": {"harness": "another"}},
        {"phase": "replay"},
    ],
    ids=str,
)
def test_a_counterpart_is_equal_in_all_but_the_condition(other: dict) -> None:
    pair = Pair(replicate=1)
    pair.trial("no-skill", success=True)
    pair.trial("selfgen-always", success=False, **other)
    assert found("preset=regressions") == set()


def test_another_task_is_no_counterpart() -> None:
    pair = Pair()
    pair.trial("no-skill", success=True)
    pair.task = make_task()
    pair.trial("selfgen-always", success=False)
    assert found("preset=regressions") == set()


def test_a_model_can_be_the_baseline() -> None:
    pair = Pair()
    pair.trial("selfgen-always", success=True, run={"agent_model": "strong", "author_model": "x"})
    regressed = pair.trial("selfgen-always", success=False, run={"agent_model": "weak", "author_model": "x"})
    assert found("preset=regressions&baseline=model:strong&agent_model=weak") == {regressed}


def test_a_pin_keeps_what_was_settled_later_out_of_the_results() -> None:
    trial = make_trial(success=False)
    moment = timezone.now()
    Run.objects.update(created_at=moment - timezone.timedelta(days=2))
    Trial.objects.update(settled_at=moment)
    before = (moment - timezone.timedelta(days=1)).isoformat().replace("+00:00", "Z")
    assert found(f"preset=failed&as_of={before}") == set()
    assert found("preset=failed") == {trial}


# --- decisions and libraries ----------------------------------------------------------------------------------------


def test_decisions_by_what_came_of_them() -> None:
    make_learning_run(make_experiment(suite=make_suite(environments=1, families=2)), condition="selfgen-always")
    assert len(found("unit=decision")) == 6
    assert {decision.status for decision in found("unit=decision&preset=rejected")} == {"rejected"}
    assert len(found("unit=decision&preset=applied&family=E1-F2")) == 2
    assert found("unit=decision&preset=applied&condition=no-skill") == set()


def test_final_libraries_that_hold_something() -> None:
    episode = make_episode()
    make_decision(episode, make_family(), after=make_snapshot({"a/SKILL.md": "x"}))
    make_episode()
    assert found("unit=snapshot") == {episode}
    assert found(f"unit=snapshot&condition={episode.run.condition}x") == set()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("unit=step", "unit: 'step' is unknown"),
        ("preset=odd", "preset: 'odd' is unknown"),
        ("unit=decision&preset=silent-bypass", "unknown"),
        ("unit=decision&phase=replay", "phase: narrows trials alone"),
        ("unit=snapshot&outcome=failed", "outcome: narrows trials alone"),
        ("color=red", "color: no such choice"),
        ("phase=odd", "phase: 'odd' is unknown"),
    ],
)
def test_a_part_that_means_nothing_is_said(query: str, says: str) -> None:
    _, problems = parse_population(QueryDict(query))
    assert says in " ".join(problems)


@pytest.mark.parametrize("unit", PRESETS)
def test_every_preset_can_be_asked_for_and_comes_back_from_its_address(unit: str) -> None:
    for preset in PRESETS[unit]:
        population = parsed(f"unit={unit}&preset={preset}&condition=no-skill&family=")
        assert parsed(population.query()) == population
        assert list(reopen(unit, population.query()).rows()) == []
        assert population.noun()


def test_strata_say_unknown_where_the_record_tells_nothing() -> None:
    suite = make_suite(environments=2, families=1)
    families = [environment.families.get() for environment in suite.environments.all()]
    for family in families:
        make_trial(task=family.tasks.first(), success=False)
    alone = make_trial(success=False)
    alone.task.family = None
    alone.task.save()
    strata = parsed("preset=failed").by_stratum("environment")
    assert {name: len(ids) for name, ids in strata.items()} == {"E1": 1, "E2": 1, "unknown": 1}


# --- making ---------------------------------------------------------------------------------------------------------


def test_it_becomes_items_and_slots_that_are_fixed() -> None:
    trials = [make_trial(success=False) for _ in range(10)]
    admin = make_user(level=User.Level.ADMIN)
    queue = make_queue(spec_of(how=Draw("random", size=6, reviews=2, overlap=0.5, seed=3)), user=admin)
    items = list(queue.items.all())
    assert [item.ordinal for item in items] == list(range(6))
    assert {item.trial for item in items} < set(trials)
    assert {item.inclusion for item in items} == {0.6}
    assert sum(item.is_overlap for item in items) == 3
    assert {item.pk: item.slots.count() for item in items} == {item.pk: item.reviews_needed for item in items}
    assert (queue.population_total, queue.seed, queue.sampling, queue.created_by) == (10, 3, "random", admin)
    noted = Activity.objects.get(verb="queue.created")
    assert (noted.actor, noted.detail["items"], noted.detail["population_total"]) == (admin, 6, 10)


def test_the_same_seed_makes_the_same_queue() -> None:
    for _ in range(12):
        make_trial(success=False)
    spec = spec_of(how=Draw("random", size=5, reviews=2, overlap=0.4, seed=11))
    one, other = (make_queue(spec, user=reviewer()) for _ in range(2))
    columns = ("ordinal", "trial", "is_overlap", "inclusion")
    assert list(one.items.values_list(*columns)) == list(other.items.values_list(*columns))


def test_what_comes_later_does_not_change_what_it_was_drawn_from() -> None:
    make_trial(success=False)
    queue = make_queue(spec_of(), user=reviewer())
    make_trial(success=False)
    assert reopen(queue.unit, queue.population).rows().count() == queue.population_total == 1


def test_decisions_and_libraries_become_items() -> None:
    make_learning_run(make_experiment(suite=make_suite(environments=2, families=1)), condition="selfgen-always")
    decisions = make_queue(spec_of("unit=decision&preset=rejected"), user=reviewer())
    assert {item.decision.status for item in decisions.items.all()} == {"rejected"}
    libraries = make_queue(spec_of("unit=snapshot"), user=reviewer())
    assert {(item.snapshot, item.episode.library) for item in libraries.items.all()} == {
        (item.snapshot, item.snapshot) for item in libraries.items.all()
    }
    assert libraries.items.count() == 2


def test_passes_stand_in_as_controls() -> None:
    for place in range(12):
        make_trial(success=place < 8)
    queue = make_queue(spec_of(how=Draw(controls=2)), user=reviewer())
    controls = queue.items.filter(is_control=True)
    assert {item.trial.success for item in controls} == {True}
    assert {item.inclusion for item in controls} == {2 / 8}
    assert queue.population_total == queue.items.filter(is_control=False).count() == 4


def test_strata_are_kept_with_their_own_probability() -> None:
    for condition, total in (("no-skill", 6), ("selfgen-always", 3)):
        episode = make_episode(make_run(condition=condition))
        for _ in range(total):
            make_trial(episode, success=False)
    queue = make_queue(spec_of(how=Draw("stratified", size=3, facet="condition")), user=reviewer())
    assert set(queue.items.values_list("stratum", "inclusion")) == {("no-skill", 0.5), ("selfgen-always", 1.0)}
    assert queue.strata == "condition"


@pytest.mark.parametrize(
    ("query", "how", "people", "says"),
    [
        ("preset=unscored", Draw(), 1, "No trials without a verdict match"),
        ("preset=failed", Draw("random", size=0), 1, "At least one item"),
        ("preset=failed", Draw(reviews=3), 2, "3 reviews of one item take 3 reviewers, and you assigned 2"),
        ("preset=passed", Draw(controls=1), 1, "choose failed trials"),
        ("preset=all", Draw(controls=1), 1, "choose failed trials"),
    ],
)
def test_what_cannot_be_reviewed_is_refused_in_words(query: str, how: Draw, people: int, says: str) -> None:
    make_trial(success=False)
    make_trial(success=True)
    with pytest.raises(QueueRefused, match=says):
        make_queue(spec_of(query, how, people), user=reviewer())
    assert not Queue.objects.exists()
    assert not Activity.objects.exists()


def test_a_draft_codebook_is_refused() -> None:
    make_trial(success=False)
    with pytest.raises(QueueRefused, match="freeze it first"):
        make_queue(spec_of(version=make_version(frozen=False)), user=reviewer())


def test_a_viewer_cannot_be_assigned() -> None:
    make_trial(success=False)
    viewer = make_user(username="vera")
    with pytest.raises(QueueRefused, match="vera may not review: the account is viewer"):
        make_queue(spec_of(reviewers=(viewer,)), user=reviewer())


def test_a_sketch_says_what_would_be_made() -> None:
    for _ in range(8):
        make_trial(success=False)
    sketch = Sketch(parsed("preset=failed"), Draw("random", size=4, reviews=2, overlap=0.5), people=3)
    assert (sketch.total, len(sketch.items), sketch.overlap, sketch.reviews) == (8, 4, 2, 6)
    assert sketch.per_person == 2
    assert sketch.by_stratum == [("", 4, 8)]
    assert not QueueItem.objects.exists()


def test_how_long_an_item_takes_is_unknown_until_somebody_did_one() -> None:
    assert seconds_per_item("trial") is None
    queue = make_small_queue()
    for item, seconds in zip(queue.items.all(), (30, 90), strict=True):
        make_review(item, reviewer(), seconds=seconds)
    assert seconds_per_item("trial") == 60
    assert seconds_per_item("decision") is None


# --- afterwards -----------------------------------------------------------------------------------------------------


def test_people_come_and_go_and_it_is_written_down() -> None:
    ann, admin = reviewer(), make_user(level=User.Level.ADMIN)
    queue = make_small_queue()
    assert assign(queue, ann, user=admin)
    assert not assign(queue, ann, user=admin)
    Slot.objects.filter(pk=Slot.objects.first().pk).update(holder=ann)
    assert withdraw(queue, ann, user=admin)
    assert not withdraw(queue, ann, user=admin)
    assert not Slot.objects.filter(holder=ann).exists()
    assert set(Activity.objects.values_list("verb", flat=True)) == {"queue.assigned", "queue.withdrawn"}


def test_a_queue_is_closed_once() -> None:
    queue, admin = make_small_queue(), make_user(level=User.Level.ADMIN)
    assert close(queue, user=admin, reason="the paper is out")
    assert not close(queue, user=admin)
    assert not queue.is_open
    assert Activity.objects.get(verb="queue.closed").reason == "the paper is out"


def test_a_spec_is_a_value() -> None:
    spec = spec_of()
    assert replace(spec, name="second pass").population == spec.population

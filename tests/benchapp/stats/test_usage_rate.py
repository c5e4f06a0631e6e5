"""The paper's skill usage rate beside ours: what each counts as used, and where only one of them is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchapp.models import Episode, Run, SkillUse, Task, Trial
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.metrics.catalogue import METRICS
from tests.worlds.factories import make_episode, make_run, make_snapshot, make_suite, make_task, make_trial

pytestmark = pytest.mark.django_db

OURS, PAPERS = METRICS["usage"], METRICS["skill-usage-rate"]
LIBRARY = {"merge/SKILL.md": "Merge.", "sort/SKILL.md": "Sort."}


def make_tried(
    episode: Episode, task: Task, *, called: Sequence[str] = (), read: Sequence[str] = (), **fields: object
) -> Trial:
    """A trial that was given both skills. `called`: by the harness' skill tool."""
    trial = make_trial(episode, task, phase="evaluation", mounted=("merge", "sort"), read=read, **fields)  # type: ignore[arg-type]
    attempt = trial.counting_attempt()
    assert attempt is not None
    uses = [SkillUse(attempt=attempt, step=place, skill=skill, kind="invoked") for place, skill in enumerate(called, 2)]
    SkillUse.objects.bulk_create(uses)
    if trial.skills_read is not None:
        Trial.objects.filter(pk=trial.pk).update(skills_read=len({*called, *read}))
    return trial


def rates(run: Run) -> tuple[float | None, float | None]:
    """Ours, and the paper's."""
    outcomes = outcomes_of([Run.objects.get(pk=run.pk)])[run.pk]
    return OURS.mean(outcomes), PAPERS.mean(outcomes)


def make_world(harness: str = "claude-code") -> tuple[Run, Episode, Task]:
    run = make_run(condition="one-shot", harness=harness)
    episode = make_episode(run, library=make_snapshot(LIBRARY))
    return run, episode, make_task(suite=make_suite())


def test_a_skill_read_as_a_file_is_used_here_and_not_in_the_paper() -> None:
    run, episode, task = make_world()
    make_tried(episode, task, called=["merge"], read=["sort"])
    assert rates(run) == (1.0, 0.5)


def test_both_are_equal_where_skills_are_opened_by_the_tool_alone() -> None:
    run, episode, task = make_world()
    make_tried(episode, task, called=["merge", "merge"])
    assert rates(run) == (0.5, 0.5)


def test_a_skill_is_counted_once_and_only_where_it_is_of_the_library() -> None:
    run, episode, task = make_world()
    trial = make_tried(episode, task, called=["merge", "merge", "pdf"], snapshot=make_snapshot(LIBRARY))
    assert outcomes_of([run])[run.pk].skills_invoked.tolist() == [1.0]
    Trial.objects.filter(pk=trial.pk).update(snapshot=None)  # then what was seen to be mounted is the library
    assert rates(run)[1] == 0.5


def test_it_is_a_mean_over_tasks_of_means_over_their_instances() -> None:
    """Equation 3, with the share of each instance as the released program takes it: (1 + 0) / 2 of one task,
    1/2 of the other."""
    run, episode, _ = make_world()
    suite = make_suite(environments=1, families=2)
    first, second = suite.families.order_by("ordinal")
    instances = [
        make_task(family=first, ordinal=1),
        make_task(family=first, ordinal=2),
        make_task(family=second, ordinal=1),
    ]
    for task, called in zip(instances, (["merge", "sort"], [], ["sort"]), strict=True):
        make_tried(episode, task, called=called)
    assert rates(run) == (0.5, 0.5)


def test_of_a_harness_without_such_a_tool_it_is_unknown_and_not_zero() -> None:
    run, episode, task = make_world("codex")
    make_tried(episode, task, read=["merge"])
    assert rates(run) == (0.5, None)


def test_a_harness_that_nobody_here_knows_has_one_where_it_was_seen_to_use_it() -> None:
    run, episode, task = make_world("somebodys-agent")
    make_tried(episode, task, read=["merge"])
    assert rates(run) == (0.5, None)
    run, episode, task = make_world("somebodys-agent")
    make_tried(episode, task, read=["merge"])
    make_tried(episode, make_task(family=task.family, suite=task.suite), called=["merge", "sort"])
    assert rates(run)[1] == 0.5  # (0 + 1) / 2


def test_a_trial_whose_calls_nobody_can_see_is_unknown() -> None:
    run, episode, task = make_world()
    trial = make_tried(episode, task)
    Trial.objects.filter(pk=trial.pk).update(skills_read=None)
    assert rates(run) == (None, None)


def test_saved_comparisons_keep_the_fingerprint_that_they_had_before_it() -> None:
    run, episode, task = make_world()
    trial = make_tried(episode, task, read=["merge"])
    before = comparison_of(Choices()).fingerprint
    SkillUse.objects.filter(attempt__trial=trial, kind="read").update(kind="invoked")
    Run.objects.touch()
    after = comparison_of(Choices())
    assert after.outcomes[run.pk].skills_invoked.tolist() == [1.0]
    assert after.fingerprint == before

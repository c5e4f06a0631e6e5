"""Who read which skill, against going through every trial's uses one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchapp.models import Episode, Run
from benchapp.stats.learning.reuse import KEPT, PhaseReuse, SkillReuse, reuse
from tests.worlds.factories import (
    make_episode,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
)

pytestmark = pytest.mark.django_db

SKILLS = ("a", "b", "built-in")
NAMES = st.lists(st.sampled_from(SKILLS), max_size=3)
USES = st.tuples(
    st.sampled_from(("acquisition", "deployment")), st.booleans(), st.sampled_from((None, 8)), NAMES, NAMES
)


@given(plan=st.lists(USES, max_size=5))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_equals_going_through_every_trial(
    plan: list[tuple[str, bool, int | None, list[str], list[str]]],
) -> None:
    run, suite = make_run(), make_suite()
    episode = make_episode(run)
    snapshot = make_snapshot({"a/SKILL.md": "text", "b/SKILL.md": "text"})
    for phase, with_snapshot, steps, mounted, read in plan:
        given_library = snapshot if with_snapshot else None
        task = make_task(suite=suite)
        make_trial(
            episode, task, phase=phase, mounted=mounted, read=read, snapshot=given_library, attempt={"steps": steps}
        )
    found = reuse([run])[run.pk]
    for phase in ("acquisition", "deployment"):
        trials = [told for told in plan if told[0] == phase]
        known = [told for told in trials if told[2] is not None]
        own = [told for told in trials if set(told[4]) & ({"a", "b"} if told[1] else set(told[3]))]
        counts = found.phases.get(phase, PhaseReuse())
        assert (counts.trials, counts.known) == (len(trials), len(known))
        assert counts.read == sum(bool(told[4]) for told in known)
        assert counts.read_own == len(own)
    expected = [
        SkillReuse(skill, sum(skill in told[3] for told in plan), sum(skill in told[4] for told in plan))
        for skill in SKILLS
        if any(skill in told[3] or skill in told[4] for told in plan)
    ]
    assert list(found.skills) == expected


def test_it_tells_a_skill_of_the_library_from_a_built_in_one() -> None:
    run = make_run()
    episode = make_episode(run)
    library = make_snapshot({"a/SKILL.md": "text"})
    make_trial(episode, mounted=["a"], read=["built-in"], snapshot=library)
    make_trial(episode, mounted=["a"], read=["a", "built-in"], snapshot=library)
    counts = reuse([run])[run.pk].phases["acquisition"]
    assert (counts.read, counts.read_own, counts.share) == (2, 1, 0.5)


def test_it_names_skills_that_nobody_read() -> None:
    run = make_run()
    make_trial(make_episode(run), mounted=["a", "b"], read=["b"])
    assert [skill.skill for skill in reuse([run])[run.pk].never_read] == ["a"]


def test_it_leaves_out_tainted_episodes_and_what_was_settled_after_the_pin() -> None:
    run = make_learning_run(families=1)
    assert reuse([run], timezone.now() - timedelta(days=1))[run.pk].phases == {}
    assert reuse([run])[run.pk].phases["replay"].trials == 3
    Episode.objects.update(is_tainted=True)
    Run.objects.all().touch()
    assert reuse([Run.objects.get(pk=run.pk)])[run.pk].phases == {}


def test_the_number_of_queries_does_not_grow_with_the_runs() -> None:
    for count in (1, 3):
        runs = [make_learning_run(families=1) for _ in range(count)]
        with CaptureQueriesContext(connection) as captured:
            reuse(runs)
        assert len(captured) == 3
        with CaptureQueriesContext(connection) as captured:
            reuse(runs)
        assert len(captured) == 0


def test_a_new_process_finds_the_same_without_a_query() -> None:
    run = make_learning_run(families=1)
    first = reuse([run])
    KEPT.clear()
    with CaptureQueriesContext(connection) as captured:
        assert reuse([run]) == first
    assert len(captured) == 0

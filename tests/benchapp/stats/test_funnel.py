from __future__ import annotations

import pytest

from benchapp.models import Episode, Run, Trial
from benchapp.stats.learning import funnel
from benchapp.stats.learning.funnel import (
    by_skill,
    chances_of,
    funnel_of,
    look_for_following,
    rivals,
    select_bypassed,
    select_read_and_failed,
    with_following,
)
from tests.reading_trials import skill, trial_of
from tests.worlds.factories import make_episode, make_family, make_run, make_snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def episode() -> Episode:
    return make_episode(make_run())


def of(run: Run) -> list:
    chances = chances_of(run)
    return with_following(chances, look_for_following(chances).found)


def test_it_counts_trials_from_available_to_passed(episode: Episode) -> None:
    library = make_snapshot({**skill("sums"), **skill("prose", "Think twice.")})
    trial_of(episode, snapshot=library, success=True)
    trial_of(episode, snapshot=library, success=False, read=["sums"])
    trial_of(episode, snapshot=library, success=True, read=["sums", "prose"], commands=["the_tool now"])
    trial_of(episode, snapshot=library, success=None, read=["prose"], commands=["the_tool now"])
    found = funnel_of(of(episode.run))
    counts = [(each.total, each.scored, each.passed) for each in (found.available, found.read, found.judged)]
    assert counts == [(4, 3, 2), (3, 2, 1), (2, 2, 1)]
    assert (found.followed.total, found.followed.passed, found.unknown) == (1, 1, 1)
    assert (found.unread.total, found.unread.passed) == (1, 1)


def test_a_skill_that_is_only_read_and_not_in_the_library_is_not_available(episode: Episode) -> None:
    trial_of(episode, snapshot=make_snapshot(skill("sums")), read=["harness-own"])
    assert [chance.skill for chance in chances_of(episode.run)] == ["sums"]


def test_without_a_recorded_library_mounted_is_available_and_following_unknown(episode: Episode) -> None:
    trial_of(episode, mounted=["sums"], read=["sums"], commands=["the_tool now"])
    (chance,) = of(episode.run)
    assert (chance.skill, chance.reading.step, chance.has_followed(0.25)) == ("sums", 2, None)


def test_the_lists_count_the_family_whose_skill_it_is() -> None:
    episode = make_episode(make_run())
    mine, other = (make_family(key=f"F{number}", slug=f"skill-{number}") for number in (91, 92))
    library = make_snapshot({**skill("skill-91"), **skill("skill-92")})
    tasks = list(mine.tasks.all())
    silent = trial_of(episode, task=tasks[0], snapshot=library, success=False)
    rival = trial_of(episode, task=tasks[1], snapshot=library, success=True, read=["skill-92"])
    failed = trial_of(episode, task=other.tasks.first(), snapshot=library, success=False, read=["skill-92"])
    chances = chances_of(episode.run)
    assert [(chance.trial, chance.skill) for chance in select_bypassed(chances)] == [(silent.pk, "skill-91")]
    assert [(chance.trial, chance.skill, chance.others) for chance in rivals(chances)] == [
        (rival.pk, "skill-91", ("skill-92",))
    ]
    assert [(chance.trial, chance.skill) for chance in select_read_and_failed(chances)] == [(failed.pk, "skill-92")]
    first, second = by_skill(chances)
    assert (first.funnel.available.total, first.own.available.total, first.own.read.total) == (3, 2, 0)
    assert (second.funnel.read.total, second.own.read.total) == (2, 1)


def test_whose_a_skill_is_the_whole_run_decides_whatever_is_left_out() -> None:
    episode = make_episode(make_run())
    mine, other = (make_family(key=f"F{number}", slug=f"skill-{number}") for number in (91, 92))
    library = make_snapshot({**skill("skill-91"), **skill("skill-92")})
    trial = trial_of(episode, task=mine.tasks.first(), snapshot=library, success=False)
    trial_of(episode, task=other.tasks.first(), snapshot=library, success=False)
    narrowed = chances_of(episode.run, Trial.objects.filter(pk=trial.pk))
    assert [(chance.skill, chance.is_own) for chance in narrowed] == [("skill-91", True), ("skill-92", False)]


def test_where_no_skill_is_named_after_a_family_all_trials_count(episode: Episode) -> None:
    trial_of(episode, snapshot=make_snapshot(skill("sums")), success=False)
    (chance,) = chances_of(episode.run)
    assert (chance.is_own, select_bypassed([chance])) == (None, [chance])
    assert by_skill([chance])[0].own is None


def test_tainted_episodes_and_attempts_that_do_not_count_are_left_out() -> None:
    run = make_run()
    trial_of(make_episode(run, is_tainted=True), snapshot=make_snapshot(skill("sums")), read=["sums"])
    trial = trial_of(make_episode(run), snapshot=make_snapshot(skill("sums")), read=["sums"])
    trial.attempts.update(counts=False)
    assert [chance.reading for chance in chances_of(run)] == [None]


def test_what_there_is_no_room_for_is_told_and_found_later(episode: Episode) -> None:
    funnel.KEPT.clear()
    for number in range(3):
        commands = [f"the_tool {number} {'x' * 1000}"]
        trial_of(episode, snapshot=make_snapshot(skill("sums")), read=["sums"], commands=commands)
    chances = chances_of(episode.run)
    first = look_for_following(chances, max_bytes=1_600)
    assert (len(first.found), first.left) == (1, 2)
    assert look_for_following(chances, max_bytes=3_200).left == 0  # the first is known by now
    assert all(found.found == ("the_tool",) for found in look_for_following(chances).found.values())


def test_a_trajectory_too_long_is_searched_in_part(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    funnel.KEPT.clear()
    monkeypatch.setattr(funnel, "MAX_TRAJECTORY_BYTES", 400_000)
    monkeypatch.setattr("benchapp.record.trajectory_store.MAX_CHUNK_BYTES", 50_000)
    commands = [f"say {'x' * 20_000}"] * 40 + ["the_tool"]
    trial_of(episode, snapshot=make_snapshot(skill("sums")), read=["sums"], commands=commands)
    looked = look_for_following(chances_of(episode.run))
    assert looked.cut == 1
    assert [found.found for found in looked.found.values()] == [()]

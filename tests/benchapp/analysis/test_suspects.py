"""Lines whose later readers did worst beside no-skill: joined by text over libraries, counted as blame counts."""

from __future__ import annotations

import pytest

from benchapp.analysis.lineage.attribution import Ended, SuspectLines, list_advice, rank_suspects
from benchapp.models import Run, SkillUse, Trial
from benchapp.stats.inference.shares import Rate
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

LOST = (False,) * 9
WON = (True,) * 9


def test_advice_is_what_is_no_frontmatter_no_heading_and_has_letters() -> None:
    text = b"---\nname: tables\n---\n\n# Tables\n\n- Sort first.\n---\n1.\n"
    assert list_advice(text) == [(7, "- Sort first.")]


def test_a_file_that_is_no_text_advises_nothing() -> None:
    assert list_advice(b"\0a\nb") == []
    assert list_advice(b"") == []


def make_runs(outcomes: tuple[bool, ...], beside: tuple[bool, ...] | None) -> list[Run]:
    """Two replicates of one condition whose every trial read every skill, and no-skill where `beside` is given."""
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    if beside is not None:
        make_learning_run(experiment, condition="no-skill", author_model="", outcomes=beside)
    runs = [make_learning_run(experiment, replicate=number, outcomes=outcomes) for number in (1, 2)]
    for trial in Trial.objects.filter(episode__run__in=runs, is_done=True, snapshot__isnull=False):
        slugs = {path.partition("/")[0] for path in trial.snapshot.files.values_list("path", flat=True)}
        attempt = trial.attempts.get(counts=True)
        for slug in slugs:
            SkillUse.objects.get_or_create(attempt=attempt, skill=slug, kind="read", defaults={"step": 1})
        Trial.objects.filter(pk=trial.pk).update(skills_read=len(slugs))
    return runs


@pytest.mark.django_db
def test_lines_of_all_replicates_are_joined_by_their_text() -> None:
    first, *_ = rank_suspects(make_runs(LOST, WON))
    assert first.libraries == 2
    assert first.ended.own.passed == 0
    assert first.ended.own.scored >= 4
    assert first.ended.no_skill.passed == first.ended.no_skill.scored > 0


@pytest.mark.django_db
def test_a_line_opens_where_it_stands() -> None:
    first, *_ = rank_suspects(make_runs(LOST, WON))
    place = first.lines[0].place
    content = place.state.snapshot.read()[place.path].content.decode().splitlines()
    assert content[place.number - 1].strip() == first.lines[0].text
    assert place.decision is not None


@pytest.mark.django_db
def test_readers_of_a_skill_without_the_line_are_counted_beside() -> None:
    found = rank_suspects(make_runs(LOST, WON))
    everybody = max(each.ended.own.scored for each in found)
    for each in found:
        assert each.ended.own.scored + each.without.own.scored == everybody
        assert len(each.lines[0].places) == each.libraries == 2


@pytest.mark.django_db
def test_the_surest_loss_comes_first() -> None:
    found = rank_suspects(make_runs((True, False, False) * 3, WON))
    places = [(each.is_apart, each.surety) for each in found]
    assert places == sorted(places, reverse=True)
    assert all(each.surety > 0 for each in found)


def rate(passed: int, of: int) -> Rate:
    return Rate(passed, of, of)


@pytest.mark.parametrize(
    ("readers", "without", "is_apart"),
    [((1, 27), (9, 66), True), ((3, 29), (7, 64), False), ((4, 26), (6, 67), False), ((1, 27), (0, 0), True)],
)
def test_a_line_is_accused_where_others_did_better_without_it(
    readers: tuple[int, int], without: tuple[int, int], is_apart: bool
) -> None:
    own, other = (Ended(own=rate(*each), no_skill=rate(14, 28)) for each in (readers, without))
    assert SuspectLines({}, own, other).is_apart is is_apart


@pytest.mark.django_db
def test_lines_without_which_others_did_no_better_come_last() -> None:
    found = rank_suspects(make_runs(LOST, WON))
    assert [each.is_apart for each in found] == sorted((each.is_apart for each in found), reverse=True)


@pytest.mark.django_db
def test_readers_who_did_as_well_as_no_skill_accuse_nothing() -> None:
    assert rank_suspects(make_runs(WON, WON)) == []


@pytest.mark.django_db
def test_without_no_skill_nothing_is_said() -> None:
    assert rank_suspects(make_runs(LOST, None)) == []

"""Which group another is held against where several could be meant, and what groups are called apart."""

from __future__ import annotations

import pytest

from benchapp.models import Run
from benchapp.stats.comparing.groups import Group, Groups
from tests.worlds.factories import make_experiment, make_run, make_suite

pytestmark = pytest.mark.django_db


def grouped(baseline: str) -> Groups:
    return Groups.of(Run.objects.select_related("experiment").order_by("pk"), baseline)


def only(groups: Groups, **facts: str) -> Group:
    (found,) = (group for group in groups.all if all(getattr(group, name) == value for name, value in facts.items()))
    return found


@pytest.mark.parametrize("authors", [("a1", "a2"), ("a2", "a1")])
def test_it_means_the_one_with_the_same_author(authors: tuple[str, str]) -> None:
    experiment = make_experiment()
    for author in authors:
        make_run(experiment, condition="curated-always", author_model=author)
        make_run(experiment, condition="selfgen-always", author_model=author)
    groups = grouped("curated-always")
    for author in authors:
        group = only(groups, condition="selfgen-always", author_model=author)
        assert groups.baseline_of(group).author_model == author


def test_it_picks_none_where_several_authors_leave_a_choice() -> None:
    experiment = make_experiment()
    for author in ("a1", "a2"):
        make_run(experiment, condition="curated-always", author_model=author)
    make_run(experiment, condition="selfgen-always", author_model="a3")
    groups = grouped("curated-always")
    assert groups.baseline_of(only(groups, condition="selfgen-always")) is None


def test_it_picks_none_where_several_experiments_could_lend_theirs() -> None:
    suite = make_suite(environments=1)
    for _ in range(2):
        make_run(make_experiment(suite=suite), condition="no-skill", author_model="")
    make_run(make_experiment(suite=suite), condition="selfgen-always")
    groups = grouped("no-skill")
    assert groups.baseline_of(only(groups, condition="selfgen-always")) is None


def test_experiments_of_one_name_are_told_apart() -> None:
    suite = make_suite(environments=1)
    experiments = [make_experiment(suite=suite, name="same") for _ in range(2)]
    for experiment in experiments:
        make_run(experiment, condition="selfgen-always")
    labels = [group.label for group in grouped("no-skill").all]
    assert labels == [f"selfgen-always · same ({str(each.public_id)[:8]})" for each in experiments]


def test_no_author_and_the_agent_as_its_own_author_are_told_apart() -> None:
    experiment = make_experiment()
    for author in ("", "m"):
        make_run(experiment, condition="curated-always", agent_model="m", author_model=author)
    labels = [group.label for group in grouped("no-skill").all]
    assert labels == ["curated-always · author none", "curated-always · author m"]

"""Two libraries of the same tasks side by side: skill by skill, line by line, task by task."""

from __future__ import annotations

import pytest
from django.test import Client

from benchapp.models import Run, Trial
from benchapp.stats.inference.shares import Rate
from inspector.pages.library.beside_view import SkillFacts, align_lines, pair_skills
from inspector.web.text.diff import DiffRow, LinePiece, LineSign
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_trial,
)

HOSTILE = '</td><script>alert(1)</script><img src=x onerror="alert(2)">'


def skill(name: str, words: str) -> SkillFacts:
    return SkillFacts(name, f"{name}/SKILL.md", 1, frozenset(words.split()), Rate())


def line(number: int, text: str) -> DiffRow:
    return DiffRow(LineSign.SAME, None, number, (LinePiece(text),))


def test_skills_are_paired_most_alike_first_and_nothing_is_lost() -> None:
    left = [skill("a", "csv rows mean"), skill("b", "dates zones")]
    right = [skill("x", "csv rows mean median"), skill("y", "ports")]
    found = [
        (pair.left and pair.left.name, pair.right and pair.right.name, pair.likeness)
        for pair in pair_skills(left, right)
    ]
    assert found == [("a", "x", 0.75), ("b", None, None), (None, "y", None)]


def test_lines_stand_in_one_row_where_a_third_of_their_words_agree() -> None:
    left = [line(1, "# Steps"), line(2, "Read the codebook first"), line(3, "Round when writing")]
    right = [line(1, "# Steps"), line(2, "Plot the distribution"), line(3, "Read codebook and header first")]
    rows = [(row.left and row.left.new, row.right and row.right.new) for row in align_lines(left, right)]
    assert sorted(rows, key=str) == sorted([(1, 1), (None, 2), (2, 3), (3, None)], key=str)
    assert rows.index((2, 3)) > rows.index((1, 1))


def test_an_empty_side_leaves_the_other_whole() -> None:
    assert [row.left for row in align_lines([], [line(1, "one"), line(2, "two")])] == [None, None]


pytest_db = pytest.mark.django_db


@pytest.fixture
def runs(db: None) -> tuple[Run, Run]:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    own = make_learning_run(experiment, outcomes=(True, False, False, True, False, True, True, True, False))
    other = make_learning_run(
        experiment, condition="curated-always", outcomes=(True, False, False, True, True, True, True, True, False)
    )
    return own, other


def test_it_lays_the_other_condition_beside_and_lists_tasks_that_differ(client: Client, runs: tuple[Run, Run]) -> None:
    own, other = runs
    text = client.get(f"/runs/{own.public_id}/library/beside/").text
    assert "2/3</b> and <b>3/3</b> passed; they differ on 1" in text
    assert "Human-written, always revised" in text
    assert text.count('class="evo-svg"') == 2
    data = client.get(f"/runs/{own.public_id}/library/beside.json").json()
    assert data["right"]["run"] == str(other.public_id)
    assert data["likeness"] == 1.0
    (pair,) = data["skills"]
    assert pair["left"]["name"] == pair["right"]["name"]
    assert [task["left_passed"] for task in data["tasks"]] == [True, False, True]


def test_only_what_differs(client: Client, runs: tuple[Run, Run]) -> None:
    text = client.get(f"/runs/{runs[0].public_id}/library/beside/?show=differs").text
    assert "Both sides have the same lines." in text


@pytest_db
def test_a_library_without_another_says_so(client: Client) -> None:
    run = make_learning_run()
    assert "No other run of this experiment has a library" in client.get(f"/runs/{run.public_id}/library/beside/").text
    empty = make_run()
    assert client.get(f"/runs/{empty.public_id}/library/beside/").status_code == 200


@pytest.mark.parametrize("query", ["?other=x", "?skill=%01", "?episode=1&other=1", "?show=nonsense"])
def test_it_answers_nonsense_with_a_page(client: Client, runs: tuple[Run, Run], query: str) -> None:
    assert client.get(f"/runs/{runs[0].public_id}/library/beside/{query}").status_code == 200


def test_it_disarms_what_authors_wrote(client: Client, runs: tuple[Run, Run]) -> None:
    for run in runs:
        episode = run.episodes.get()
        family = episode.environment.families.get()
        make_decision(episode, family, after=make_snapshot({"a/SKILL.md": f"# {HOSTILE}\n{HOSTILE} {run.condition}\n"}))
    text = client.get(f"/runs/{runs[0].public_id}/library/beside/").text
    assert "<script>alert" not in text
    assert "<img src=x" not in text


@pytest_db
def test_its_queries_do_not_grow(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    family = experiment.suite.families.get()
    episodes = [make_episode(make_run(experiment, condition=name), environment=family.environment) for name in "ab"]

    def add(count: int) -> None:
        for episode in episodes:
            for _ in range(count):
                place = episode.decisions.count()
                trial = make_trial(episode, success=False, read=["s0"], snapshot=episode.library)
                files = {f"s{number}/SKILL.md": f"round {place}\n" for number in range(place + 1)}
                make_decision(episode, family, after_trial=trial, after=make_snapshot(files))

    assert assert_queries_flat(client, f"/runs/{episodes[0].run.public_id}/library/beside/", add) <= 32
    assert Trial.objects.exists()

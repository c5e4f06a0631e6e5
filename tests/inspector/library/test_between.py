"""A range of a library's states: its decisions, what of them still stands, and what came and went."""

from __future__ import annotations

import pytest
from django.test import Client

from benchapp.models import Run
from tests.worlds.factories import make_decision, make_episode, make_family, make_snapshot, make_trial

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    """Created a, created b, lost one, b went into a, no change."""
    episode, family = make_episode(), make_family()
    trial = make_trial(episode, family.tasks.first(), success=False)
    states = [
        {"a/SKILL.md": "one\ntwo\n"},
        {"a/SKILL.md": "one\ntwo\n", "b/SKILL.md": "three\nfour\n"},
        None,
        {"a/SKILL.md": "one\nfive\n"},
    ]
    for files in states:
        applied = {"after": make_snapshot(files)} if files else {"status": "rejected"}
        make_decision(episode, family, after_trial=trial, **applied)
    make_decision(episode, family, after_trial=trial, status="no-op")
    return episode.run


def read(client: Client, run: Run, query: str) -> str:
    return " ".join(client.get(f"/runs/{run.public_id}/library/{query}").text.split())


def test_it_lists_its_decisions_and_what_of_their_lines_stands(client: Client, run: Run) -> None:
    text = read(client, run, "?from=R0&to=R3")
    assert "R0 → R3: 2 decisions wrote the text at R3" in text
    assert "4 decisions lie between: 3 changed files, 1 was not taken" in text
    for surviving in ("1/2", "0/2", "1/1"):
        assert f'<td class="num">{surviving}</td>' in text


def test_it_tells_what_no_difference_of_the_ends_shows(client: Client, run: Run) -> None:
    text = read(client, run, "?from=R1&to=R3")
    assert "Added and removed again" in text
    assert "<code>b/SKILL.md</code>: came with" in text
    assert "Added and removed" not in read(client, run, "?from=R0&to=R2")


def test_a_line_names_the_decision_that_wrote_it(client: Client, run: Run) -> None:
    text = read(client, run, "?from=R0&to=R3")
    assert 'decision=4">d4</a></td>' in text.replace("&amp;", "&") or ">d4</a></td>" in text
    assert 'class="by"' not in read(client, run, "?decision=1")


def test_a_range_that_runs_backwards_lists_nothing(client: Client, run: Run) -> None:
    assert "None: R1 comes before R3." in read(client, run, "?from=R3&to=R1")

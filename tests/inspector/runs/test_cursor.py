"""The evolution on a run's page: where the cursor stands, and what lies under it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from benchapp.models import Decision, Run, Trial
from tests.worlds.factories import make_experiment, make_learning_run, make_suite, make_user
from tests.worlds.review_factories import make_item, make_queue

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    experiment = make_experiment(suite=make_suite(environments=2, families=1))
    make_learning_run(experiment, condition="no-skill", outcomes=(False,) * 9)
    return make_learning_run(experiment)


def page(client: Client, run: Run, query: str = "", **headers: str) -> str:
    response = client.get(f"{run.get_absolute_url()}{query}", headers=headers)
    assert response.status_code == 200
    return " ".join(response.text.split())


def here(text: str) -> list[str]:
    return re.findall(r'data-stop="(\w+)"[^>]*aria-current', text)


def test_it_answers_first(client: Client, run: Run) -> None:
    text = page(client, run)
    heading = re.sub(r"<[^>]+>", "", re.search(r"<h1>(.*?)</h1>", text)[1])
    assert "Self-written, always revised" in heading
    assert ": 4 of 6 new tasks passed, 0 without a skill" in heading
    assert (
        text.index("<h1>") < text.index('class="numbers ') < text.index('id="evolution"') < text.index('class="grid"')
    )


def test_the_cursor_begins_where_the_library_opens(client: Client, run: Run) -> None:
    assert here(page(client, run)) == ["d2"]
    assert "3 later trials read skill-e1-f1: 3 passed" in page(client, run)
    assert "Same family 3/3, no skill in the same replicate 0/3 on the same tasks" in page(client, run)


def test_a_decision_brings_its_trial_and_a_trial_its_decision(client: Client, run: Run) -> None:
    text = page(client, run, "?at=d3")
    assert here(text) == ["d3"]
    assert "Breaks a rule: " in text
    assert "tier3-cited" in text
    trial = Trial.objects.filter(episode=run.episodes.first(), task__role="canonical", phase="acquisition").get()
    text = page(client, run, f"?at={trial.public_id}")
    assert here(text) == ["d1"]
    assert "Trial 1 of 9" in text


def test_while_a_run_goes_on_the_cursor_stands_at_what_happened_last(client: Client, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status="running")
    text = page(client, run)
    assert here(text) == ["d3"]
    assert 'hx-include="#evolution"' in text
    assert 'name="at"' not in text
    assert 'name="at" value="d1"' in page(client, run, "?at=d1")


@pytest.mark.parametrize("query", ["?at=x", "?at=d99&episode=1", "?at=%7F", "?episode=../.."])
def test_nonsense_falls_back(client: Client, run: Run, query: str) -> None:
    assert here(page(client, run, query)) == ["d2"]


def test_a_move_of_the_cursor_brings_only_the_evolution(client: Client, run: Run) -> None:
    part = page(client, run, "?at=d1", **{"HX-Request": "true", "HX-Target": "evolution"})
    assert here(part) == ["d1"]
    assert "<h1>" not in part
    assert 'class="grid"' not in part


def test_the_other_episodes_have_their_own_strips(client: Client, run: Run) -> None:
    text = page(client, run)
    assert text.count('class="evo-svg"') == 2
    other = run.episodes.last()
    assert f"?episode={other.public_id}" in text
    assert "skill-e2-f1" in page(client, run, f"?episode={other.public_id}")


@pytest.mark.parametrize("unit", ["trial", "decision", "snapshot"])
def test_a_blind_reviewer_sees_the_shape_and_no_word(client: Client, run: Run, settings: Any, unit: str) -> None:
    """Also after somebody else saw them, and nobody else loses them."""
    settings.SINGLE_USER = False
    reader, admin = make_user(level="reviewer"), make_user(level="admin")
    episode = run.episodes.first()
    decision = episode.decisions.get(number=2)
    Decision.objects.filter(pk=decision.pk).update(summary="Round nonsense up.")
    units = {"trial": decision.after_trial, "decision": decision, "snapshot": decision.after}
    queue = make_queue([], reviewers=[reader], unit=unit, name="Spring")
    make_item(queue, **{unit: units[unit]}, **({"episode": episode} if unit == "snapshot" else {}))
    words = ("Round nonsense up", "- a rule", "missing cells are left out", "skill-e1-f1")
    for person, opens in ((admin, True), (reader, False), (admin, True)):
        client.force_login(person)
        text = page(client, run, "?at=d2")
        assert [word in text for word in words] == [opens] * len(words)
        assert text.count('class="evo-svg"') == 2
        assert ("hidden until you finish “Spring”" in text) is not opens
    client.force_login(reader)
    assert "skill-e2-f1" in page(client, run, f"?episode={run.episodes.last().public_id}")

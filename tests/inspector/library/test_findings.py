"""The page of findings: the alarm first, every hit in its lines, nothing of it to a blind reviewer."""

from __future__ import annotations

import pytest
from django.test import Client

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode
from benchapp.models import Episode, LibraryDiagnosis, LibraryFinding, Run
from inspector.web.access import local_user
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_trial,
    make_unordered_episode,
    make_user,
)
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

HOSTILE = "TODO </pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m"
HEAD = "---\nname: a\ndescription: Merge supplier records by tax number when two lists overlap.\n---\n\n"


def library_of(*texts: str) -> Episode:
    """An episode whose author wrote these one after the other into a/SKILL.md."""
    episode = make_episode()
    family = make_family()
    trial = make_trial(episode, family.tasks.first())
    for text in texts:
        make_decision(episode, family, after_trial=trial, after=make_snapshot({"a/SKILL.md": HEAD + text}))
    diagnose_episode(episode)
    return episode


def page(client: Client, episode: Episode, query: str = "") -> str:
    response = client.get(f"/runs/{episode.run.public_id}/library/findings/{query}")
    assert response.status_code == 200
    return response.text


def twin(client: Client, episode: Episode, query: str = "") -> dict:
    return client.get(f"/runs/{episode.run.public_id}/library/findings.json{query}").json()


def test_it_opens_at_the_last_state_and_shows_the_span_in_its_line(client):
    episode = library_of("One.\n", "Before.\nKey ghp_abcdefghijklmnopqrstuvwxyz0123456789 here.\nAfter.\n")
    text = page(client, episode)
    assert "1 alarm" in text
    assert '<span class="n">7</span>Key <mark class="ink">ghp_abcdefghijklmnopqrstuvwxyz0123456789</mark> here.' in text
    assert "Before." in text
    assert "After." in text
    assert "from=R2&amp;to=R2&amp;file=a%2FSKILL.md&amp;view=source#f0-R7" in text
    found = twin(client, episode)["findings"][0]
    assert (found["rule"], found["severity"], found["line"]) == ("secret", "alarm", 7)


def test_the_link_to_the_line_leads_there(client):
    episode = library_of("Set TODO here.\n")
    url = twin(client, episode)["findings"][0]["url"]
    address, _, anchor = url.partition("#")
    assert f'id="{anchor}"' in client.get(address).text


def test_alarms_stand_before_warnings_of_earlier_groups(client):
    episode = library_of("The verifier expects a sum.\nghp_abcdefghijklmnopqrstuvwxyz0123456789\n")
    assert [one["rule"] for one in twin(client, episode)["findings"]] == ["secret", "talk-of-checking"]


def test_it_goes_to_any_round_and_group(client):
    episode = library_of("Set TODO here.\nsudo reboot\n", "Fine.\n")
    assert twin(client, episode)["findings"] == []
    for query in ("?round=R1", "?round=1"):
        assert {one["rule"] for one in twin(client, episode, query)["findings"]} == {"placeholder", "risky-command"}
    assert [one["rule"] for one in twin(client, episode, "?round=R1&group=safety")["findings"]] == ["risky-command"]
    trend = [(one["round"], one["warnings"]) for one in twin(client, episode)["trend"]]
    assert trend == [("R1", 2), ("R2", 0)]


@pytest.mark.parametrize("query", ["?round=x&group=y&page=z", "?episode=%01", "?round=R0", "?page=999&group=leak"])
def test_nonsense_falls_back_to_a_page(client, query):
    assert "Findings in the library" in page(client, library_of("One.\n"), query)


def test_not_read_is_not_clean(client):
    episode = library_of("Set TODO here.\n")
    LibraryDiagnosis.objects.all().delete()
    text = page(client, episode)
    assert "No rule has checked this library" in text
    assert "No alarm" not in text
    assert twin(client, episode)["diagnosis"] is None


def test_a_run_without_a_library_says_so(client):
    episode = make_unordered_episode()
    assert "keeps no library" in page(client, episode)


def test_text_of_authors_stays_text(client):
    episode = library_of(HOSTILE + "\n")
    text = page(client, episode)
    assert "<script>alert(1)" not in text
    assert "<img src=x" not in text
    assert "\u202e" not in text
    assert '<mark class="ink">TODO</mark>' in text


def test_a_long_line_is_cut_around_the_span(client):
    episode = library_of("x " * 5_000 + "sudo reboot" + " y" * 5_000 + "\n")
    text = page(client, episode)
    assert '<mark class="ink">sudo reboot</mark>' in text
    assert len(text) < 40_000


def test_the_rail_of_the_time_machine_tells_of_alarms(client):
    episode = library_of("ghp_abcdefghijklmnopqrstuvwxyz0123456789\n", "TODO\n", "Fine.\n")
    text = client.get(f"/runs/{episode.run.public_id}/library/").text
    assert "1 alarm<" in text
    assert "1 warning<" in text
    assert text.count('class="found"') == 2


def test_its_queries_do_not_grow(client):
    run = make_run(make_experiment())
    family = make_family()

    def add(count: int) -> None:
        for _ in range(count):
            episode = make_episode(run)
            trial = make_trial(episode, family.tasks.first())
            for number in range(count):
                text = HEAD + "TODO\n" * (number + count)
                make_decision(episode, family, after_trial=trial, after=make_snapshot({"a/SKILL.md": text}))
            diagnose_episode(episode)

    assert assert_queries_flat(client, f"/runs/{run.public_id}/library/findings/", add) <= 14


def test_the_time_machine_asks_once_for_all_states(client):
    few = library_of("TODO\n")
    many = library_of(*(f"TODO {number}\n" for number in range(8)))
    local_user()
    counts = {count_queries(client, f"/runs/{episode.run.public_id}/library/") for episode in (few, many)}
    assert len(counts) == 1


# --- who may see it -------------------------------------------------------------------------------------------------


def test_it_is_closed_to_whoever_reviews_a_trial_of_the_run_blind(client, settings):
    settings.SINGLE_USER = False
    run = make_learning_run(families=1)
    reader = make_user(username="ada", level="reviewer")
    make_queue(list(run.episodes.first().trials.all()[:1]), reviewers=[reader])
    client.force_login(reader)
    for url in (f"/runs/{run.public_id}/library/findings/", f"/runs/{run.public_id}/library/findings.json"):
        assert client.get(url).status_code == 403


def test_findings_that_point_at_a_closed_trial_are_withheld(client, settings):
    settings.SINGLE_USER = False
    episode = library_of("ghp_abcdefghijklmnopqrstuvwxyz0123456789\n")
    other = make_learning_run(families=1)
    hidden = other.episodes.first().trials.first()
    LibraryFinding.objects.update(trial=hidden)
    reader = make_user(username="ada", level="reviewer")
    client.force_login(reader)
    assert "ghp_" in page(client, episode)
    make_queue([hidden], reviewers=[reader])
    text = page(client, episode)
    assert "ghp_" not in text
    assert str(hidden.public_id) not in text
    assert "1 finding withheld" in text
    assert twin(client, episode)["diagnosis"]["alarms"] == 0


def test_only_operators_have_it_read_again(client, settings):
    settings.SINGLE_USER = False
    run: Run = library_of("One.\n").run
    url = f"/runs/{run.public_id}/library/findings/ask/"
    client.force_login(make_user(username="ada", level="reviewer"))
    assert client.post(url).status_code == 403
    assert "Check again" not in client.get(f"/runs/{run.public_id}/library/findings/").text
    client.force_login(make_user(username="bo", level="operator"))
    assert client.post(url).status_code == 302
    assert client.get(url).status_code == 405

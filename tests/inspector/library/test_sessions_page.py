"""The sessions that could see a skill in git, on the skill's page and on their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from benchapp.imports.batch import import_paths
from benchapp.models import Episode, Run, Trial
from tests.benchapp.log_files import claude_session
from tests.benchapp.skill_repository import Repository, make_skills
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import make_user
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db
READ = {"command": "cat .claude/skills/sort/SKILL.md", "output": "# sort\n" * 60}
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def team(tmp_path: Path) -> Repository:
    return make_skills(tmp_path / "me" / "toolbox")


@pytest.fixture
def bring(team: Repository, tmp_path: Path) -> Callable[..., str]:
    """Import these sessions as well, and return the address of the page."""

    def make(**sessions: dict[str, object]) -> str:
        for name, facts in sessions.items():
            facts = {"cwd": str(team.folder), "prompt": name, "started": "2026-03-03T00:00:00Z", **facts}
            claude_session(tmp_path / "logs" / f"{name}.jsonl", name, **facts)
        import_paths([team.folder, tmp_path / "logs"])
        skill = Episode.objects.get(key="sort")
        return f"/runs/{skill.run.public_id}/library/sessions/?episode={skill.public_id}"

    return make


def test_it_shows_each_version_with_links_to_its_sessions(client: Client, bring: Callable[..., str]) -> None:
    url = bring(
        reads=READ,
        looks={"prompt": HOSTILE, "is_error": True},
        across={"started": "2026-03-04T09:59:55Z"},
        late={"started": ""},
    )
    text = client.get(url).text
    assert "1 of 3 sessions with R1 read it; median 2 steps. These are signals, not verdicts." in text
    assert "No session has R" not in text  # the newest commit deleted it
    assert "<script>alert" not in text
    assert "1 session without a start time: no version." in text
    assert text.index(">R4</a>") < text.index(">R1</a>")
    for trial in Trial.objects.exclude(task__title="late"):
        assert f'href="{trial.get_absolute_url()}"' in text
    for show, titles in {
        "read": {"reads"},
        "unread": {"across", HOSTILE},
        "failed": {HOSTILE},
        "changed": {"across"},
        "x": {"reads", "across", HOSTILE},
    }.items():
        twin = client.get(f"{url}&version=R1&show={show}".replace("/?", ".json?")).json()
        assert {each["title"] for each in twin["sessions"]} == titles, show
    for show in ("read", "failed", "changed"):
        assert f"version=R1&amp;show={show}#sessions" in text
    assert client.get(f"{url}&version=R2".replace("/?", ".json?")).json()["sessions"] == []


def test_the_twin_has_the_same_numbers(client: Client, bring: Callable[..., str]) -> None:
    url = bring(reads=READ, early={"started": "2026-03-01T00:00:00Z"}, moved={"cwd": "/mnt/toolbox", "follow_ups": 3})
    twin = client.get(url.replace("/?", ".json?")).json()
    first = twin["versions"][-1]
    assert [row["key"] for row in twin["versions"]] == ["R4", "R3", "R2", "R1"]
    assert (first["sessions"], first["read"], first["failed_call"]) == (2, 1, {"sessions": 0, "known": 2})
    assert first["medians"]["tokens"] == {"median": 110, "known": 2}
    assert first["medians"]["follow_ups"] == {"median": 1.5, "known": 2}
    assert {each["title"]: each["follow_ups"] for each in twin["sessions"]} == {"reads": 0, "moved": 3}
    assert len(first["commit"]) == 10
    assert (twin["without_version"]["before_first_commit"], twin["matched_by_name"]) == (1, 1)
    assert {each["title"]: each["matched_by_name"] for each in twin["sessions"]} == {"reads": False, "moved": True}
    assert "1 session matched by a guess" in client.get(url).text


def test_sessions_closed_to_a_blind_reviewer_are_left_out(
    client: Client, bring: Callable[..., str], settings: pytest.FixtureRequest
) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    person = make_user(level="reviewer")
    url = bring(reads=READ, closed=READ)
    make_queue([Trial.objects.get(task__title="closed")], reviewers=[person])
    client.force_login(person)
    twin = client.get(url.replace("/?", ".json?")).json()
    assert [each["title"] for each in twin["sessions"]] == ["reads"]
    assert twin["versions"][-1]["read"] == 1
    assert ">closed<" not in client.get(url).text


def test_more_sessions_and_versions_need_no_more_queries(client: Client, bring: Callable[..., str]) -> None:
    made = []

    def more(count: int) -> None:
        names = [f"s{len(made) + number}" for number in range(count)]
        made.extend(names)
        bring(**dict.fromkeys(names, READ))

    url = bring()
    assert assert_queries_flat(client, url, more) <= 10


def test_a_library_leads_to_its_sessions_only_if_it_is_in_git(client: Client, bring: Callable[..., str]) -> None:
    url = bring(reads=READ)
    library = url.replace("sessions/", "")
    assert f'href="{url}"' in client.get(library).text
    Run.objects.filter(setup__source=Run.GIT_SKILLS).update(setup={})
    assert f'href="{url}"' not in client.get(library).text
    assert "Not a skill in git" in client.get(url).text
    assert client.get(url.replace("/?", ".json?")).json()["versions"] == []


def test_a_session_names_what_it_could_see(client: Client, bring: Callable[..., str]) -> None:
    bring(
        across={**READ, "started": "2026-03-04T09:59:55Z"}, outside={"cwd": "/elsewhere"}, moved={"cwd": "/mnt/toolbox"}
    )
    skill = Episode.objects.get(key="sort")
    trials = {trial.task.title: trial.get_absolute_url() for trial in Trial.objects.select_related("task")}
    text = client.get(trials["across"]).text
    state = f"/runs/{skill.run.public_id}/library/?episode={skill.public_id}&amp;from=R1&amp;to=R1"
    assert f'It could see <a href="{state}">sort R1</a> (commit <code>' in text
    assert "</code>) and read it, which changed to R2 while it ran; <a" in text
    assert client.get(state.replace("&amp;", "&")).status_code == 200
    assert "A guess" not in text
    first, second = client.get(f"{trials['across'].rstrip('/')}.json").json()["could_see"]
    assert (first["skill"], first["key"], first["read"], first["changed_while_it_ran"]) == ("sort", "R1", True, ["R2"])
    assert (second["skill"], second["read"], second["matched_by_name"]) == ("plot", False, False)
    assert "It could see" not in client.get(trials["outside"]).text
    assert "A guess: only the name of its folder matches." in client.get(trials["moved"]).text
    # Its folder, the skills there and their versions are three queries.
    assert count_queries(client, trials["across"]) - count_queries(client, trials["outside"]) == 2

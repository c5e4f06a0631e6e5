"""The blame page: who wrote each line, from what, and how the later trials ended that had it."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils.html import escape

from benchapp.models import Episode, Run
from runner.base.types import Observation, Source, Step, ToolCall
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    add_entry,
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
    make_unordered_episode,
    record_steps,
)

pytestmark = pytest.mark.django_db

HOSTILE = '</td></table><script>alert(1)</script><img src=x onerror="alert(2)">\u202e\x1b[31m'


def page(client: Client, run: Run, query: str = "") -> str:
    response = client.get(f"/runs/{run.public_id}/library/blame/{query}")
    assert response.status_code == 200
    return response.text


def twin(client: Client, run: Run, query: str = "") -> dict:
    response = client.get(f"/runs/{run.public_id}/library/blame.json{query}")
    assert response.status_code == 200
    return response.json()


def states(*libraries: dict[str, str | bytes], **fields: object) -> Run:
    """A run whose author turned one library into the next; the first was there at the start."""
    episode = make_episode(library=make_snapshot(libraries[0]))
    family = make_family()
    for number, library in enumerate(libraries[1:], start=1):
        trial = make_trial(episode, family.tasks.all()[number], success=False, snapshot=episode.library)
        add_entry(episode, "trial", attempt=trial.counting_attempt())
        make_decision(episode, family, after_trial=trial, after=make_snapshot(library), evidence=[trial], **fields)
        episode.refresh_from_db()
    return episode.run


@pytest.fixture
def run() -> Run:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    make_learning_run(experiment, condition="no-skill", author_model="")
    return make_learning_run(experiment)


def test_it_opens_at_the_last_state_with_every_line_and_its_origin(client, run):
    found = twin(client, run)
    assert found["at"] == "R2"
    assert found["file"] == "skill-e1-f1/SKILL.md"
    assert [(one["state"], one["lines"]) for one in found["origins"]] == [("R2", 2), ("R1", 5)]
    assert len(found["lines"]) == 7
    assert [(one["first"], one["last"], one["origin"]) for one in found["spans"]][0] == (1, 2, "R1")


def test_it_shows_an_earlier_state_by_its_key_or_its_number(client, run):
    for at in ("R1", "1"):
        found = twin(client, run, f"?at={at}")
        assert found["at"] == "R1"
        assert [one["state"] for one in found["origins"]] == ["R1"]


def test_it_tells_of_a_line_its_decision_its_evidence_and_its_later_trials(client, run):
    text = page(client, run, "?line=1")
    for words in (
        "Line 1",
        "decision 1",
        "Leave missing cells",
        "Later trials with this line",
        "association, not effect",
        "Evidence its author was shown",
        "Ledger",
        "same family",
        "new context",
        "no-skill",
    ):
        assert words in text, words
    line = twin(client, run, "?line=1")["line"]
    assert line["origin"] == "R1"
    assert line["stands_until"] is None
    later = line["later_trials"]
    assert later["mounted"] == 8
    assert later["read"]["planned"] + later["not_read"]["planned"] == 8
    assert later["beside_no_skill"]["tasks"] == later["read"]["scored"]
    assert [one["role"] for one in later["by_phase_and_role"]][:2] == ["enriched", "variant"]


def test_it_follows_a_skill_through_a_rename_and_says_so(client):
    body = "".join(f"- a rule of some length, number {number}\n" for number in range(8))
    run = states({}, {"old/SKILL.md": f"name: old\n{body}"}, {"new/SKILL.md": f"name: new\n{body}"})
    found = twin(client, run)
    assert [(one["state"], one["lines"]) for one in found["origins"]] == [("R2", 1), ("R1", 8)]
    assert [(one["from"], one["to"]) for one in found["moves"]] == [("old/SKILL.md", "new/SKILL.md")]
    assert "Moved at R2 from <code>old/SKILL.md</code>" in page(client, run)


def test_it_says_when_nobody_knows_who_wrote_a_line(client):
    run = states({"a/SKILL.md": "one\n"}, {"a/SKILL.md": "one\ntwo\n"})
    text = page(client, run, "?line=1")
    assert "The author is not recorded" in text
    assert "There was no author." in text


def test_it_links_steps_by_overlap_and_labels_them_so(client):
    run = states({}, {"a/SKILL.md": "- Treat the code -999 as missing depth before averaging\n"})
    decision = run.episodes.get().decisions.get()
    steps = [
        Step(1, Source.USER, "Average the column."),
        Step(2, Source.AGENT, "", tool_calls=(ToolCall("1", "shell", {"command": "cat a"}),),
             observations=(Observation("depth -999 is a missing code; averaging fails", "1"),)),
    ]  # fmt: skip
    trajectory = record_steps(decision.after_trial.counting_attempt(), steps)
    decision.evidence.update(compaction=trajectory.compactions.get(kind="rich"))
    text = page(client, run, "?line=1")
    assert "by overlap" in text
    (alike,) = twin(client, run, "?line=1")["line"]["by_overlap"]
    assert alike["step"] == 2
    assert {"999", "missing", "depth", "averaging"} <= set(alike["shared_words"])
    assert f"{decision.after_trial.get_absolute_url()}?step=2#step-2" in text


def test_a_line_of_a_state_that_later_lost_it_counts_trials_only_until_then(client):
    run = states({}, {"a/SKILL.md": "gone\n"}, {"a/SKILL.md": "other\n"}, {"a/SKILL.md": "third\n"})
    line = twin(client, run, "?at=R1&line=1")["line"]
    assert line["stands_until"] == "R1"
    assert line["later_trials"]["mounted"] == 1


@pytest.mark.parametrize(
    "query",
    [
        "?at=R99&line=x",
        "?line=99999999999999",
        "?line=0&file=%01",
        "?skill=../..&file=..",
        "?episode=1",
        "?line=%C2%B2",
    ],
)
def test_it_answers_nonsense_with_a_page(client, run, query):
    assert "Who wrote this file" in page(client, run, query)


@pytest.mark.parametrize(
    ("files", "words"),
    [({}, "The library is empty"), ({"a/SKILL.md": ""}, "The file is empty"), ({"a/SKILL.md": b"\0\1"}, "Binary file")],
)
def test_it_says_why_there_are_no_lines(client, files, words):
    assert words in page(client, states({"a/SKILL.md": "x\n"}, files))


def test_it_shows_a_library_without_history_and_a_run_without_library(client):
    episode = make_unordered_episode(library=make_snapshot({"a/SKILL.md": "x\n"}))
    assert twin(client, episode.run)["origins"][0]["word"] == "Library at the start"
    assert "has no episode yet" in page(client, make_run())
    assert "The library is empty" in page(client, make_unordered_episode().run)


def test_nothing_a_trial_or_author_wrote_is_markup(client):
    run = states({}, {"a/SKILL.md": f"# {HOSTILE}\n", "a/references/<b>.md": HOSTILE}, summary=HOSTILE)
    Episode.objects.update(title=HOSTILE)
    for query in ("", "?line=1", "?file=a/references/<b>.md"):
        text = page(client, run, query)
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "\x1b" not in text
        assert "<b>.md" not in text
        assert escape("<script>alert(1)</script>") in text


def test_it_asks_the_same_number_of_queries_for_any_history(client):
    episode, family = make_episode(), make_family()

    def add(count: int) -> None:
        for _ in range(count):
            number = episode.decisions.count()
            trial = make_trial(episode, make_task(family=family), mounted=["a"], snapshot=episode.library)
            add_entry(episode, "trial", attempt=trial.counting_attempt())
            text = "".join(f"line {line}\n" for line in range(number + 1))
            make_decision(episode, family, after_trial=trial, evidence=[trial],
                          after=make_snapshot({f"a{number % 3}/SKILL.md": text}))  # fmt: skip
            episode.refresh_from_db()

    add(1)
    assert assert_queries_flat(client, f"/runs/{episode.run.public_id}/library/blame/", add) <= 14


def test_it_draws_a_long_file_in_part(client):
    run = states({}, {"a/SKILL.md": "".join(f"line {number}\n" for number in range(1500))})
    text = page(client, run)
    link = re.search(r'300 more lines are in <a href="([^"]+)"', text)[1].replace("&amp;", "&")
    assert client.get(link).text.endswith("line 1499\n")
    assert twin(client, run)["lines_left_out"] == 300


def test_the_time_machine_leads_here_and_back(client, run):
    library = client.get(f"/runs/{run.public_id}/library/").text
    address = re.search(r'href="(/runs/[^"]+/library/blame/[^"]+)"', library)
    assert address
    text = client.get(address[1].replace("&amp;", "&")).text
    assert f'href="/runs/{run.public_id}/library/?' in text
    assert "view=source" in text


def test_the_time_machine_has_the_ledger_of_the_decision(client, run):
    text = client.get(f"/runs/{run.public_id}/library/?decision=2").text
    assert "Ledger" in text
    ledger = client.get(f"/runs/{run.public_id}/library.json?decision=2").json()["ledger"]
    assert ledger["lines_written"] == 2
    assert ledger["same_family"]["mounted"] == 7
    assert set(ledger["deployment"]) == {"context-shift", "adversarial", "composition"}
    assert client.get(f"/runs/{run.public_id}/library.json?decision=3").json()["ledger"] is None


@pytest.mark.parametrize(
    ("query", "path", "missing"),
    [
        ("?skill=b", "b/SKILL.md", None),
        ("?skill=c", "c/notes.md", None),  # a folder without SKILL.md
        ("?skill=b&file=x.md&line=1", "b/SKILL.md", "x.md"),
        ("?skill=gone", "a/SKILL.md", "gone"),
        ("?file=gone/SKILL.md", "a/SKILL.md", "gone/SKILL.md"),
    ],
)
def test_it_says_what_is_not_there_and_what_is_shown_instead(
    client: Client, query: str, path: str, missing: str | None
) -> None:
    run = states({}, {"a/SKILL.md": "a\n", "b/SKILL.md": "b\n", "c/notes.md": "c\n"})
    told = twin(client, run, query)
    assert (told["file"], told["not_there"], told["line"]) == (path, missing, None)
    said = f"has no <code>{missing}</code>: showing <code>{path}</code>"
    assert (said in page(client, run, query)) is bool(missing)

"""Comments on steps, lines and charts: places, threads, mentions, who may read and write them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.models import Activity, Comment, Experiment, Mention, Queue, Run, Trajectory, Trial, User
from benchapp.review.comments import (
    MAX_CHARS,
    THREAD_CHARS,
    THREAD_COMMENTS,
    CommentPlace,
    CommentRefused,
    NoSuchPlace,
    chart_name,
    counts_below,
    mentions_in,
    mentions_of,
    place_of,
    read_mentions,
    retract_comment,
    unread_mentions,
    write_comment,
)
from benchapp.stats.comparing.choices import Choices
from runner.base.types import Source, Step
from tests.cases import every
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import make_learning_run, make_trial, make_user, record_steps
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
DIGEST = "ab" * 32


@pytest.fixture
def trajectory() -> Trajectory:
    trial = make_trial(success=False)
    return record_steps(trial.counting_attempt(), [Step(n, Source.AGENT, message=f"did {n}") for n in range(1, 4)])


@pytest.fixture
def ada(client: Client, settings: Any) -> User:
    settings.SINGLE_USER = False
    user = make_user(username="ada", level=User.Level.REVIEWER)
    client.force_login(user)
    return user


def at(**parts: object) -> CommentPlace:
    return place_of(QueryDict(urlencode(parts)))


def step(trajectory: Trajectory, number: int = 2) -> dict[str, object]:
    return {"on": "step", "trajectory": trajectory.public_id, "step": number}


def line(run: Run, **parts: object) -> dict[str, object]:
    episode = run.episodes.first()
    where = {"run": run.public_id, "episode": episode.public_id, "from": "R0", "to": "R1"}
    return {"on": "line", **where, "digest": DIGEST, "file": "tidy/SKILL.md", "line": 7, **parts}


def write(client: Client, parts: dict[str, object], text: str = "Why?", **fields: object) -> Any:
    return client.post(f"/comments/write/?{urlencode(parts)}", {"text": text, **fields}, headers=HTMX)


def about(client: Client, parts: dict[str, object]) -> str:
    response = client.get(f"/comments/about/?{urlencode(parts)}", headers=HTMX)
    assert response.status_code == 200
    return response.text


# --- places -----------------------------------------------------------------------------------------------------


def test_a_step_is_named_by_trial_and_trajectory_and_leads_to_its_page(client: Client, trajectory: Trajectory) -> None:
    place, trial = at(**step(trajectory)), trajectory.attempt.trial
    assert place.name == f"trial {trial.public_id} {trajectory.public_id} step 2"
    assert place.trial == trial
    assert 'class="step agent pointed"' in client.get(place.address).text


def test_a_line_is_named_by_its_file_so_it_stands_wherever_that_text_is_shown() -> None:
    run = make_learning_run(families=1)
    place = at(**line(run))
    assert place.name == f"run {run.public_id} file {DIGEST} tidy/SKILL.md line 7"
    assert at(**line(run, **{"from": "R1", "to": "R3", "side": "old"})).name == place.name
    assert place.address.endswith("&from=R0&to=R1&file=tidy%2FSKILL.md&view=unified#f0-R7")


def test_a_chart_is_named_without_the_moment_and_leads_to_the_numbers_of_that_moment() -> None:
    place = at(on="chart", key="forest", condition="no-skill", metric="ESR")
    later = at(on="chart", key="forest", metric="ESR", condition="no-skill", as_of="2026-03-01T00:00:00Z", seen="x")
    assert place.name == later.name == "chart forest?condition=no-skill&metric=ESR"
    assert "as_of=" in place.address
    assert "as_of=2026-03-01" in later.address


def test_a_chart_with_very_many_choices_still_has_one_name() -> None:
    names = {
        chart_name("forest", Choices(condition=tuple(f"condition-{n}" for n in range(count)))) for count in (90, 91)
    }
    assert len(names) == 2
    assert all(len(name) < 200 for name in names)


@every(
    ({}, "on: '' is not one of"),
    ({"on": "moon"}, "on: 'moon'"),
    ({"on": "step"}, "trajectory: expected an id"),
    ({"on": "step", "trajectory": "00000000-0000-0000-0000-000000000000"}, "trajectory: there is none"),
    ({"on": "line", "run": "x"}, "run: expected an id"),
    ({"on": "chart", "key": "../x"}, "key: expected the key of a chart"),
    ({"on": "chart", "key": "forest", "condition": [f"c{n}" * 40 for n in range(60)]}, "too long"),
)
def test_it_says_which_part_names_no_place(parts: dict[str, object], said: str) -> None:
    with pytest.raises(NoSuchPlace, match=said):
        place_of(QueryDict(urlencode(parts, doseq=True)))


@pytest.mark.parametrize("number", ["0", "4", "-1", "x", "", "²", "9" * 30])
def test_a_step_must_be_there(client: Client, trajectory: Trajectory, number: str) -> None:
    with pytest.raises(NoSuchPlace, match="step: expected a whole number from 1 to 3"):
        at(**step(trajectory, number))  # type: ignore[arg-type]
    assert client.get(f"/comments/about/?{urlencode(step(trajectory, number))}").status_code == 404  # type: ignore[arg-type]


@every(
    ({"digest": "ab"}, "digest"),
    ({"file": ""}, "file"),
    ({"line": 0}, "line"),
    ({"from": "https://elsewhere.example"}, "from, to, decision"),
    ({"episode": "00000000-0000-0000-0000-000000000000"}, "episode"),
)
def test_a_line_must_be_named_whole(parts: dict[str, object], said: str) -> None:
    with pytest.raises(NoSuchPlace, match=said):
        at(**line(make_learning_run(families=1), **parts))


# --- threads ----------------------------------------------------------------------------------------------------


def test_one_writes_and_another_answers(client: Client, ada: User, trajectory: Trajectory) -> None:
    assert "Here it forgot the header." in write(client, step(trajectory), "Here it forgot the header.").text
    first = Comment.objects.get()
    grace = make_user(username="grace", level=User.Level.REVIEWER)
    client.force_login(grace)
    write(client, step(trajectory), "Because the skill says so.", parent=first.public_id)
    answer = Comment.objects.get(author=grace)
    write(client, step(trajectory), "Then the skill is wrong.", parent=answer.public_id)
    assert set(first.replies.values_list("text", flat=True)) == {
        "Because the skill says so.",
        "Then the skill is wrong.",
    }
    text = about(client, step(trajectory))
    assert text.index("forgot the header") < text.index("skill says so") < text.index("skill is wrong")
    assert 'data-total="3"' in text
    assert "forgot" not in about(client, step(trajectory, 3))
    assert Activity.objects.filter(verb="comment.written").count() == 3


def test_a_thread_shows_its_newest_comments_and_names_the_rest(
    client: Client, ada: User, trajectory: Trajectory
) -> None:
    place = at(**step(trajectory))
    oldest = write_comment(place, ada, "the very first")
    for number in range(THREAD_CHARS // MAX_CHARS):
        write_comment(place, ada, f"comment {number}: ".ljust(MAX_CHARS, "x"), parent=oldest)
    text = about(client, step(trajectory))
    assert "the very first" not in text
    assert "comment 0" in text
    assert 'data-total="11"' in text
    assert "1 earlier comment not shown here" in text
    assert text.index("comment 0") < text.index("comment 9")


def test_many_short_comments_are_one_bounded_page(client: Client, ada: User, trajectory: Trajectory) -> None:
    place = at(**step(trajectory))
    fields = {"on": place.on, "place": place.name, "address": place.address, "trial": place.trial, "author": ada}
    bomb = "[a]: " + "b" * 200 + "\n\n" + "[a]" * 60
    Comment.objects.bulk_create(Comment(text=bomb, **fields) for _ in range(THREAD_COMMENTS + 5))
    text = about(client, step(trajectory))
    assert text.count("<article") == THREAD_COMMENTS
    assert "5 earlier comments not shown here" in text
    assert len(text) < 5_000_000


def test_hostile_text_stays_text(client: Client, ada: User, trajectory: Trajectory) -> None:
    hostile = "<script>alert(1)</script> [x](javascript:alert(2)) ![i](https://e.example/i.png) **bold** \u202eevil"
    write(client, step(trajectory), hostile)
    for text in (about(client, step(trajectory)), client.get("/comments/").text):
        assert "<script>alert" not in text
        assert 'href="javascript' not in text
        assert "<img" not in text
        assert "\u202e" not in text
    assert "<strong>bold</strong>" in about(client, step(trajectory))


@pytest.mark.parametrize(("text", "said"), [("  \n ", "nothing in it"), ("x" * 10_001, "At most 10,000 characters")])
def test_it_refuses_nothing_and_too_much_and_keeps_the_text(
    client: Client, ada: User, trajectory: Trajectory, text: str, said: str
) -> None:
    answer = write(client, step(trajectory), text)
    assert said in answer.text
    assert text.strip() in answer.text
    assert not Comment.objects.exists()


def test_an_answer_stays_at_its_place(ada: User, trajectory: Trajectory) -> None:
    first = write_comment(at(**step(trajectory)), ada, "one")
    with pytest.raises(CommentRefused, match="another place"):
        write_comment(at(**step(trajectory, 3)), ada, "two", parent=first)


def test_only_its_author_retracts_it_and_that_shows(client: Client, ada: User, trajectory: Trajectory) -> None:
    comment = write_comment(at(**step(trajectory)), make_user(username="grace"), "A hasty word.")
    retract = f"/comments/{comment.public_id}/retract/?{urlencode(step(trajectory))}"
    assert client.post(retract).status_code == 403
    client.force_login(comment.author)
    assert client.post(retract, headers=HTMX).status_code == 403  # a viewer by now
    User.objects.filter(pk=comment.author_id).update(level=User.Level.REVIEWER)
    text = client.post(retract, headers=HTMX).text
    assert "Retracted by its author." in text
    assert "hasty" not in text + client.get("/comments/").text + client.get("/comments.json").text
    assert not retract_comment(comment, comment.author)
    assert counts_below("trial ") == {}


def test_a_viewer_reads_and_does_not_write(client: Client, ada: User, trajectory: Trajectory) -> None:
    write_comment(at(**step(trajectory)), ada, "To be read.")
    client.force_login(make_user(level=User.Level.VIEWER))
    text = about(client, step(trajectory))
    assert "To be read." in text
    assert "<textarea" not in text
    assert write(client, step(trajectory)).status_code == 403


def test_without_a_script_the_thread_is_a_page(client: Client, ada: User, trajectory: Trajectory) -> None:
    sent = client.post(f"/comments/write/?{urlencode(step(trajectory))}", {"text": "Plain."}, follow=True)
    assert sent.status_code == 200
    assert "<h1>Comments</h1>" in sent.text
    assert "Plain." in sent.text
    empty = client.post(f"/comments/write/?{urlencode(step(trajectory))}", {"text": " "})
    assert (empty.status_code, "nothing in it" in empty.text) == (422, True)


# --- mentions ---------------------------------------------------------------------------------------------------


@every(
    ("@grace, look. And @linus.", ["grace", "linus"]),
    ("@grace @grace", ["grace"]),
    ("mail me@example.org", []),
    ("(@a.b-c_d+e)", ["a.b-c_d+e"]),
    ("@ nobody @", []),
    ("`@decorator`", ["decorator"]),
)
def test_it_finds_names_and_no_addresses(text: str, names: list[str]) -> None:
    assert mentions_in(text) == names


def test_a_mention_waits_until_it_is_read(client: Client, ada: User, trajectory: Trajectory) -> None:
    grace = make_user(username="Grace", level=User.Level.VIEWER)
    make_user(username="off", is_active=False)
    write(client, step(trajectory), "@grace @off @ada @nobody: is this the cause?")
    assert [found.user for found in Mention.objects.all()] == [grace]
    assert unread_mentions(ada) == 0
    client.force_login(grace)
    assert 'title="Unread mentions">1<' in client.get("/people/me/").text
    assert client.get("/comments.json").json()["mentions"][0]["text"].startswith("@grace")
    assert "mentions you" in about(client, step(trajectory))
    assert unread_mentions(grace) == 1  # looking is not reading until the page says so
    assert client.post(f"/comments/read/?{urlencode(step(trajectory))}", headers=HTMX).status_code == 204
    assert unread_mentions(grace) == 0
    assert "mentioned" not in client.get("/people/me/").text


def test_mentions_are_read_place_by_place_or_all_at_once(ada: User, trajectory: Trajectory) -> None:
    grace = make_user(username="grace")
    for number in (1, 2, 3):
        write_comment(at(**step(trajectory, number)), ada, "@grace")
    assert read_mentions(grace, place=at(**step(trajectory, 1)).name) == 1
    assert [found.read_at is None for found in mentions_of(grace)] == [True, True, False]
    assert read_mentions(grace) == 2


def test_what_is_retracted_mentions_nobody(ada: User, trajectory: Trajectory) -> None:
    grace = make_user(username="grace")
    retract_comment(write_comment(at(**step(trajectory)), ada, "@grace"), ada)
    assert unread_mentions(grace) == 0


# --- pages ------------------------------------------------------------------------------------------------------


def test_the_trial_says_how_often_each_step_was_spoken_of(client: Client, ada: User, trajectory: Trajectory) -> None:
    trial = trajectory.attempt.trial
    url = f"/trials/{trial.public_id}/"
    client.get(url)  # the index of its steps is read once
    before = count_queries(client, url)
    for _ in range(2):
        write_comment(at(**step(trajectory)), ada, "Hm.")
    assert 'aria-label="2 comments on step 2">2 comments</a>' in client.get(url).text
    assert 'aria-label="comment on step 3">comment</a>' in client.get(url).text
    assert count_queries(client, url) == before


def test_the_library_gives_the_counts_of_its_lines(client: Client, ada: User) -> None:
    run = make_learning_run(families=1)
    write_comment(at(**line(run)), ada, "Too specific.")
    text = client.get(f"/runs/{run.public_id}/library/").text
    assert f'{{"{DIGEST} tidy/SKILL.md line 7": 1}}' in text
    assert "data-line-comments" in text


def test_a_chart_says_how_often_it_was_spoken_of(client: Client, ada: User) -> None:
    experiment = make_learning_run(families=1, condition="no-skill").experiment
    make_learning_run(experiment, families=1)
    chart = "/compare/charts/forest/"
    write_comment(at(on="chart", key="forest", metric="ESR"), ada, "Odd.")
    assert "1 comment on this chart" in client.get(f"{chart}?metric=ESR").text
    assert (
        "1 comment on this chart" in client.get(f"{chart}?metric=ESR&as_of={timezone.now():%Y-%m-%dT%H:%M:%S.%fZ}").text
    )
    assert "comment on this chart" in client.get(f"{chart}?metric=LSR").text
    assert "1 comment on this chart" not in client.get(f"{chart}?metric=LSR").text


def test_the_list_asks_no_more_of_the_database_for_more(client: Client, ada: User, trajectory: Trajectory) -> None:
    grace = make_user(username="grace")

    def make(count: int) -> None:
        for _ in range(count):
            write_comment(at(**step(trajectory)), grace, "@ada")

    assert_queries_flat(client, "/comments/", make)


def test_the_frame_asks_once_for_mentions(client: Client, ada: User) -> None:
    with CaptureQueriesContext(connection) as captured:
        client.get("/people/me/")
    assert sum("benchapp_mention" in query["sql"] for query in captured.captured_queries) == 1


# --- blind reviews ----------------------------------------------------------------------------------------------


def make_blind(trial: Trial, reviewer: User) -> None:
    make_queue([trial], reviewers=[reviewer])


def test_a_hidden_mention_waits_until_it_can_be_read(client: Client, ada: User, trajectory: Trajectory) -> None:
    write_comment(at(**step(trajectory)), make_user(username="grace", level=User.Level.REVIEWER), "@ada, see this")
    make_blind(trajectory.attempt.trial, ada)
    assert "0 mentions marked as read" in client.post("/comments/read/", follow=True).text
    Queue.objects.update(closed_at=timezone.now())
    assert unread_mentions(ada) == 1


def test_comments_are_closed_to_who_reviews_their_trial_blindly(
    client: Client, ada: User, trajectory: Trajectory
) -> None:
    trial, grace = trajectory.attempt.trial, make_user(username="grace", level=User.Level.REVIEWER)
    write_comment(at(**step(trajectory)), grace, "@ada: selfgen always does this.")
    assert unread_mentions(ada) == 1
    make_blind(trial, ada)
    assert unread_mentions(ada) == 0
    listed = client.get("/comments/").text + client.get("/comments.json").text
    assert "selfgen always" not in listed
    for response in (
        client.get(f"/comments/about/?{urlencode(step(trajectory))}", headers=HTMX),
        write(client, step(trajectory)),
        client.post(f"/comments/{Comment.objects.get().public_id}/retract/"),
    ):
        assert response.status_code in {403, 404}
        assert "selfgen always" not in response.text
    client.force_login(grace)
    assert "selfgen always" in about(client, step(trajectory))


def test_comments_of_a_deleted_experiment_are_gone(client: Client, ada: User, trajectory: Trajectory) -> None:
    write_comment(at(**step(trajectory)), ada, "Said of what is gone.")
    run = trajectory.attempt.trial.episode.run
    Experiment.objects.filter(pk=run.experiment_id).update(deleted_at=timezone.now())  # by hand: entomb() refuses it
    assert "Said of what is gone" not in client.get("/comments/").text
    assert client.get(f"/comments/about/?{urlencode(step(trajectory))}").status_code == 404

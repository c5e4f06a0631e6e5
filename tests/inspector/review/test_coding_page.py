"""The coding screen: what it shows before and after an answer, what it takes, how it refuses."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import QueueItem, Review, Slot, User
from inspector.pages.review.coding.coding_view import code_lines
from runner.base.types import Source, Step
from tests.queries import count_queries
from tests.worlds.factories import make_trial, make_user, record_steps
from tests.worlds.review_factories import make_code, make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

TEXT = "The column was summed twice.\nNobody looked."


def make_read_trial(text: str = TEXT, steps: int = 3) -> Any:
    trial = make_trial(success=False, attempt={"steps": None})
    record_steps(trial.counting_attempt(), [Step(n, Source.AGENT, message=f"{text} {n}") for n in range(1, steps + 1)])
    return trial


@pytest.fixture
def user(settings: Any) -> User:
    settings.SINGLE_USER = False
    return make_user(username="ada", level=User.Level.REVIEWER)


@pytest.fixture
def item(user: User) -> QueueItem:
    queue = make_queue([make_read_trial(), make_read_trial()], reviewers=[user])
    item = queue.items.first()
    Slot.objects.filter(item=item, place=0).update(holder=user)
    return item


@pytest.fixture
def client(client: Client, user: User) -> Client:
    client.force_login(user)
    return client


def address(item: QueueItem, name: str = "item") -> str:
    return reverse(f"review-{name}", args=[item.public_id])


def said(item: QueueItem, *marks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"reviewer": "ada", "revision": 0, "draft": {"marks": list(marks), **fields}}


def mark(item: QueueItem, **fields: Any) -> dict[str, Any]:
    code = item.queue.version.codes.first()
    return {"id": str(uuid4()), "step": 2, "labels": [{"code": str(code.public_id)}], **fields}


def post(client: Client, item: QueueItem, name: str, body: dict[str, Any]) -> Any:
    headers = {"accept": "application/json"}
    return client.post(address(item, name), json.dumps(body), content_type="application/json", headers=headers)


# --- keys ----------------------------------------------------------------------------------------------------------


def test_a_key_is_the_place_in_the_tree() -> None:
    version = make_version([])
    group = make_code(version, "group", ordinal=0)
    for place in range(1, 12):
        make_code(version, f"code {place}", ordinal=place, parent=group)
    lines = code_lines(version, without_skills=True)
    assert [(line.code.name, line.depth, line.key) for line in lines[:3]] == [
        ("group", 0, "1"),
        ("code 1", 1, "11"),
        ("code 2", 1, "12"),
    ]
    assert [line.key for line in lines[9:]] == ["19", "1a", "1b"]
    assert len({line.key for line in lines}) == 12


def test_codes_beyond_the_keys_are_found_by_name() -> None:
    version = make_version([f"code {place:02}" for place in range(12)])
    keys = [line.key for line in code_lines(version, without_skills=False)]
    assert keys[7:] == ["8", "9", "", "", ""]


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_prints_every_key_on_its_button(client: Client, item: QueueItem) -> None:
    html = client.get(address(item)).text
    assert (
        '<kbd>1</kbd></span><span class="code-text shrinks"><span class="code-name breaks strong">over-specific</span>'
        in html
    )
    assert "What over-specific means." in html
    for key in ("m", "v", "M", "i", "#", "f", "⌫", "w", "W", "0", "z", "Z", "-", "h", "Ctrl"):
        assert f"<kbd>{key}</kbd>" in html


def test_a_mark_made_on_the_page_comes_back_as_it_was(client: Client, item: QueueItem) -> None:
    given = mark(item, field="message", start=4, end=10, quote="column", attribution="agent", first=True, memo="<b>")
    answer = post(client, item, "save", said(item, given, memo="</script>", confidence=2)).json()
    assert (answer["revision"], answer["held"]) == (1, True)
    kept = client.get(f"{address(item).rstrip('/')}.json").json()["draft"]
    assert kept["memo"] == "</script>"
    [stored] = kept["marks"]
    assert {name: stored[name] for name in given if name != "labels"} == {
        name: value for name, value in given.items() if name != "labels"
    }
    assert "</script></script>" not in client.get(address(item)).text


def test_an_item_of_a_stranger_is_read_and_not_written(client: Client, item: QueueItem) -> None:
    other = make_queue([make_read_trial()]).items.get()
    html = client.get(address(other)).text
    assert "You do not review in this queue" in html
    assert "data-toggle" not in html
    assert post(client, other, "save", said(other)).status_code == 403
    assert post(client, other, "submit", said(other)).status_code == 403


def test_a_viewer_writes_nothing(client: Client, item: QueueItem, user: User) -> None:
    User.objects.filter(pk=user.pk).update(level=User.Level.VIEWER)
    for name in ("save", "submit", "skip", "release", "ahead", "guess"):
        assert post(client, item, name, said(item)).status_code == 403, name
    assert not Review.objects.exists()


def test_a_closed_queue_is_read_only(client: Client, item: QueueItem) -> None:
    item.queue.closed_at = item.queue.created_at
    item.queue.save()
    assert "This queue is closed" in client.get(address(item)).text
    assert post(client, item, "save", said(item, memo="x")).status_code == 200
    assert post(client, item, "submit", {**said(item), "revision": 1, "nothing_wrong": True}).status_code == 422


def test_what_others_said_shows_once_one_answered(client: Client, item: QueueItem) -> None:
    other = make_user(username="grace", level=User.Level.REVIEWER)
    make_review(item, other, ["misapplied"], memo="grace wrote this")
    for url in (address(item), f"{address(item).rstrip('/')}.json"):
        assert "grace" not in client.get(url).text
    assert post(client, item, "submit", {**said(item), "nothing_wrong": True}).status_code == 200
    for url in (address(item), f"{address(item).rstrip('/')}.json"):
        assert "grace wrote this" in client.get(url).text


def test_a_queue_may_show_what_others_said_before(client: Client, item: QueueItem) -> None:
    item.queue.hides_labels = False
    item.queue.save()
    make_review(item, make_user(level=User.Level.REVIEWER), ["misapplied"], memo="said before")
    make_review(item, make_user(level=User.Level.REVIEWER), [], state=Review.State.DRAFT, memo="only a draft")
    html = client.get(address(item)).text
    assert "said before" in html
    assert "only a draft" not in html


def test_a_condition_is_guessed_before_it_is_shown(client: Client, item: QueueItem) -> None:
    make_item(item.queue, trial=make_trial(success=False))
    run = item.trial.episode.run
    run.condition = "curated-static"
    run.save()
    answer = post(client, item, "submit", {**said(item), "nothing_wrong": True}).json()
    assert [value for value, _ in answer["guess"]] == ["curated-static", "selfgen-always"]
    html = client.get(address(item)).text
    assert "Which condition was that?" in html
    assert "summed twice" not in html
    assert post(client, item, "guess", {"guess": "selfgen-always"}).json() == {"guess": "selfgen-always"}
    assert (
        'Your guess of the condition: <span class="condition" title="selfgen-always">' in client.get(address(item)).text
    )
    assert post(client, item, "guess", {"guess": "curated-static"}).status_code == 422


# --- saving --------------------------------------------------------------------------------------------------------


def test_an_old_revision_gets_what_stands_now(client: Client, item: QueueItem) -> None:
    post(client, item, "save", said(item, memo="one tab"))
    answer = post(client, item, "save", said(item, memo="other tab"))
    assert answer.status_code == 409
    assert (answer.json()["draft"]["memo"], answer.json()["revision"]) == ("one tab", 1)


def test_a_draft_of_somebody_else_is_not_saved_under_this_login(client: Client, item: QueueItem) -> None:
    answer = post(client, item, "save", {**said(item, memo="mine"), "reviewer": "grace"})
    assert answer.status_code == 403
    assert answer.json()["error"] == "You are logged in as ada; this was written by grace."
    assert not Review.objects.exists()


def test_who_is_logged_out_is_told_where_to_log_in(client: Client, item: QueueItem) -> None:
    client.logout()
    answer = post(client, item, "save", said(item))
    assert answer.status_code == 401
    assert answer.json()["login"] == "/login/"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "JSON"),
        ("[]", "request"),
        ('{"reviewer": "ada"}', "revision"),
        ('{"reviewer": "ada", "revision": 0}', "draft"),
    ],
)
def test_nonsense_is_refused_in_words(client: Client, item: QueueItem, body: str, words: str) -> None:
    answer = client.post(address(item, "save"), body, content_type="application/json")
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_a_place_that_is_not_there_is_refused_in_words(client: Client, item: QueueItem) -> None:
    answer = post(client, item, "save", said(item, mark(item, step=99)))
    assert answer.status_code == 422
    assert "no step 99" in answer.json()["error"]


def test_a_reservation_that_went_to_others_is_said_and_the_draft_kept(client: Client, item: QueueItem) -> None:
    make_review(item, make_user(username="x"), [])
    item.slots.filter(review=None).update(
        holder=make_user(username="y"), held_until=timezone.now() + timedelta(hours=1)
    )
    answer = post(client, item, "save", said(item, memo="still mine")).json()
    assert answer["held"] is False
    assert Review.objects.get(reviewer__username="ada").memo == "still mine"


def test_an_answer_leads_to_the_next_item(client: Client, item: QueueItem) -> None:
    ahead = post(client, item, "ahead", {}).json()["next"]
    assert ahead == item.queue.items.last().get_absolute_url()
    answer = post(client, item, "submit", said(item, mark(item))).json()
    assert answer == {"state": "submitted", "next": ahead, "guess": None}
    last = item.queue.items.last()
    assert post(client, last, "skip", {**said(last), "reason": "no log"}).json()["next"] is None
    again = post(client, item, "submit", said(item, mark(item)))
    assert again.status_code == 410
    assert again.json()["state"] == "submitted"


def test_what_was_kept_ready_is_given_back(client: Client, item: QueueItem, user: User) -> None:
    following = item.queue.items.last()
    post(client, item, "ahead", {})
    assert following.slots.filter(holder=user).exists()
    assert client.post(address(following, "release")).json()["released"] is True
    assert not following.slots.filter(holder=user).exists()
    assert item.slots.filter(holder=user).exists()


def test_nothing_is_kept_ready_for_who_holds_nothing(client: Client, item: QueueItem, user: User) -> None:
    Slot.objects.filter(holder=user).update(holder=None)
    assert post(client, item, "ahead", {}).json() == {"next": None}


def test_every_missing_thing_is_said_at_once(client: Client, item: QueueItem) -> None:
    answer = post(client, item, "submit", said(item, mark(item, labels=[])))
    assert answer.status_code == 422
    assert len(answer.json()["problems"]) == 2


def test_an_item_asks_for_as_many_queries_however_much_was_said(client: Client, item: QueueItem) -> None:
    post(client, item, "save", said(item, mark(item)))
    few = count_queries(client, address(item))
    post(client, item, "save", {**said(item, *[mark(item, step=n % 3 + 1) for n in range(30)]), "revision": 1})
    assert count_queries(client, address(item)) == few


def test_a_third_reviewer_of_an_answered_item_reads_and_writes_nothing(client: Client, item: QueueItem) -> None:
    Slot.objects.filter(item=item).update(holder=None)
    for name in ("bert", "cleo"):
        make_review(item, make_user(username=name, level="reviewer"), memo=f"said by {name}")
    text = client.get(address(item)).text
    assert "said by bert" in text
    assert "Others took every place of this item" in text
    assert post(client, item, "save", said(item, mark(item))).status_code == 422
    assert not Review.objects.filter(reviewer__username="ada").exists()


def test_half_of_a_surrogate_pair_does_not_lose_the_draft(client: Client, item: QueueItem) -> None:
    """What a browser sends for it is an escape, which no strict reader of JSON takes."""
    assert post(client, item, "save", said(item, mark(item, memo="a\udc4d"), memo="kept \ud83d")).status_code == 200
    assert Review.objects.get().memo == "kept ?"


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"null", b'{"draft": {"memo": NaN}}'])
def test_what_is_no_draft_is_refused_in_words(client: Client, item: QueueItem, body: bytes) -> None:
    answer = client.post(address(item, "save"), body, content_type="application/json")
    assert answer.status_code == 422
    assert answer.json()["error"]


@pytest.mark.parametrize("name", ["save", "submit", "skip", "guess", "propose"])
def test_a_form_is_no_draft(client: Client, item: QueueItem, name: str) -> None:
    answer = client.post(address(item, name), {"draft": "{}"})  # as multipart, whose body is read once only
    assert (answer.status_code, answer.json()) == (415, {"error": "Send application/json."})


def test_a_long_review_is_kept(client: Client, item: QueueItem) -> None:
    marks = [mark(item, memo="a" * 5_000) for _ in range(20)]
    assert post(client, item, "save", said(item, *marks)).status_code == 200
    padded = json.dumps(said(item)) + " " * 3_000_000
    answer = client.post(address(item, "save"), padded, content_type="application/json")
    assert answer.status_code == 409  # read, and found to be of an earlier revision


# --- a code that the codebook lacks --------------------------------------------------------------------------------


def propose(client: Client, item: QueueItem, name: str, **place: Any) -> Any:
    """Saves a draft with one mark without a code, and proposes one from it."""
    placed = mark(item, labels=[], **place)
    revision = (
        Review.objects.filter(item=item, reviewer__username="ada").values_list("revision", flat=True).first() or 0
    )
    assert post(client, item, "save", {**said(item, placed), "revision": revision}).status_code == 200
    return post(client, item, "propose", {"mark": placed["id"], "name": name})


def test_a_proposed_code_stands_in_the_draft_with_the_place_it_came_from(client: Client, item: QueueItem) -> None:
    answer = propose(client, item, " off  by one", field="message", start=4, end=10, quote="column", memo="rows 1 to n")
    draft = item.queue.version.codebook.versions.drafts().get()
    assert answer.json() == {"name": "off by one", "version": str(draft), "url": draft.get_absolute_url()}
    example = draft.codes.get(name="off by one").examples.get()
    assert (example.trial, example.step, example.field, example.start, example.end, example.quote, example.note) == (
        *(item.trial, 2, "message", 4, 10, "column", "rows 1 to n"),
    )
    assert example.added_by == User.objects.get(username="ada")
    assert not item.queue.version.codes.filter(name="off by one").exists()  # what the queue codes with never changes


def test_a_second_place_of_a_proposed_code_is_one_more_example(client: Client, item: QueueItem) -> None:
    propose(client, item, "off by one")
    assert propose(client, item, "Off by one", step=3).status_code == 200
    [code] = item.queue.version.codebook.versions.drafts().get().codes.filter(origins=None)
    assert [example.step for example in code.examples.all()] == [2, 3]


def test_the_example_of_a_proposal_is_hidden_from_whoever_codes_the_item_unseen(
    client: Client, user: User, settings: Any
) -> None:
    other = make_user(username="bob", level=User.Level.REVIEWER)
    outside = make_user(username="cy", level=User.Level.REVIEWER)
    queue = make_queue([make_read_trial()], reviewers=[user, other])
    item = queue.items.get()
    Slot.objects.filter(item=item, place=0).update(holder=user)
    url = propose(client, item, "off by one", memo="rows 1 to n").json()["url"]
    shown = {}
    for person in (user, other, outside):
        client.force_login(person)
        shown[person.username] = "rows 1 to n" in client.get(url).content.decode()
    assert shown == {"ada": False, "bob": False, "cy": True}


def test_a_code_that_the_version_has_is_no_proposal(client: Client, item: QueueItem) -> None:
    known = item.queue.version.codes.first()
    answer = propose(client, item, known.name.upper())
    assert answer.status_code == 422
    assert "There is a code" in answer.json()["error"]
    assert not item.queue.version.codebook.versions.drafts().exists()  # and no draft was begun for it


def test_nobody_proposes_from_the_mark_of_somebody_else(client: Client, item: QueueItem) -> None:
    placed = mark(item, labels=[])
    post(client, item, "save", said(item, placed))
    client.force_login(make_user(username="bob", level=User.Level.REVIEWER))
    assert post(client, item, "propose", {"mark": placed["id"], "name": "off by one"}).status_code == 422
    client.force_login(make_user(username="vi", level=User.Level.VIEWER))
    assert post(client, item, "propose", {"mark": placed["id"], "name": "off by one"}).status_code == 403
    assert not item.queue.version.codebook.versions.drafts().exists()


# --- codes about skills ---------------------------------------------------------------------------------------------


@pytest.fixture
def bare_item(user: User) -> QueueItem:
    """A failed trial of the condition that mounts no skill, in a queue that hides nothing."""
    trial = make_read_trial()
    trial.episode.run.condition = "no-skill"
    trial.episode.run.save(update_fields=["condition"])
    codes = ["arithmetic slip", "ignored the skill"]
    queue = make_queue([trial], version=make_version(codes), reviewers=[user], hides_conditions=False)
    item = queue.items.get()
    Slot.objects.filter(item=item, place=0).update(holder=user)
    return item


def test_codes_about_skills_are_out_of_reach_where_none_was_mounted(client: Client, bare_item: QueueItem) -> None:
    page = client.get(f"{address(bare_item).rstrip('/')}.json").json()
    assert [(code["name"], code["waits_for_skills"]) for code in page["codes"]] == [
        ("arithmetic slip", False),
        ("ignored the skill", True),
    ]
    assert "no skill was mounted in this trial" in client.get(address(bare_item)).text


def test_an_answer_with_a_code_about_skills_is_refused_and_kept(client: Client, bare_item: QueueItem) -> None:
    wrong = bare_item.queue.version.codes.get(name="ignored the skill")
    given = mark(bare_item, labels=[{"code": str(wrong.public_id)}])
    post(client, bare_item, "save", said(bare_item, given))
    answer = post(client, bare_item, "submit", {**said(bare_item, given), "revision": 1})
    assert answer.status_code == 422
    assert answer.json()["problems"] == [
        "Mark 1: “ignored the skill” is about skills, and no skill was mounted in this trial."
    ]
    review = Review.objects.get(item=bare_item)
    assert (review.state, review.marks.get().labels.count()) == (Review.State.DRAFT, 1)


def test_a_hidden_condition_is_not_revealed_by_a_refusal(client: Client, bare_item: QueueItem) -> None:
    type(bare_item.queue).objects.filter(pk=bare_item.queue_id).update(hides_conditions=True)
    wrong = bare_item.queue.version.codes.get(name="ignored the skill")
    answer = post(
        client, bare_item, "submit", said(bare_item, mark(bare_item, labels=[{"code": str(wrong.public_id)}]))
    )
    assert answer.status_code == 200

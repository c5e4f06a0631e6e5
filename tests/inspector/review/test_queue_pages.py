"""The pages of review queues: what waits, how far it is, who sees what."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from benchapp.models import Activity, Queue, Review, Slot, User
from benchapp.review.queues.claims import claim
from benchapp.review.queues.item_drawing import Draw
from benchapp.review.queues.populations import Population
from benchapp.review.queues.queue_making import QueueSpec, make_queue
from inspector.web.access import local_user
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_trial,
    make_user,
)
from tests.worlds.review_factories import make_item, make_review, make_version
from tests.worlds.review_factories import make_queue as make_small_queue

pytestmark = pytest.mark.django_db
NEW = "/review/queues/new/"


def reviewer(**fields: Any) -> User:
    return make_user(level=User.Level.REVIEWER, **fields)


@pytest.fixture
def people(settings: Any) -> None:
    """Accounts instead of the one local user."""
    settings.SINGLE_USER = False


def as_person(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


# --- /review/ -------------------------------------------------------------------------------------------------------


def test_an_empty_record_is_told_how_a_review_goes(client: Client) -> None:
    page = client.get("/review/").text
    assert "Why do trials fail?" in page
    assert reverse("queue-new") in page
    assert "Yours to code" not in page


def test_items_that_are_held_are_told_apart_from_drafts(client: Client) -> None:
    me = local_user()
    queue = make_small_queue(reviewers=[me], reviews_per_item=1)
    claim(queue, me)
    claim(queue, me, besides=1)
    assert "open with a reviewer" not in client.get(queue.get_absolute_url()).text  # the reader's own
    text = as_person(reviewer()).get(queue.get_absolute_url()).text
    assert "2 open with a reviewer" in text
    assert "the last hold ends <time" in text
    assert ">in 30 m" in text or ">in 29 m" in text
    assert "2 open with a reviewer" in client.get("/review/").text


def test_the_list_says_which_codes_the_reader_gave(client: Client) -> None:
    me, ann = local_user(), reviewer()
    queue = make_small_queue([make_trial(success=False) for _ in range(4)], reviewers=[me, ann])
    first, clean, draft, other = queue.items.all()
    make_review(first, me, ["misapplied", "over-specific"])
    make_review(clean, me)
    make_review(draft, me, ["misapplied"], state=Review.State.DRAFT)
    make_review(other, ann, ["silent bypass"])
    page = client.get(queue.get_absolute_url())
    assert [row.own_codes for row in page.context["rows"]] == [["over-specific", "misapplied"], [], None, None]
    listed = page.text.partition('class="rows blocks items"')[2].partition("</table>")[0]
    assert '<span class="badge">over-specific</span>' in listed
    assert "nothing wrong" in listed
    assert "silent bypass" not in listed


def test_what_waits_comes_first_with_a_button_and_its_key(client: Client) -> None:
    queue = make_small_queue(reviewers=[local_user()], name="first pass")
    make_small_queue(name="not mine")
    found = client.get("/review.json").json()
    assert [(each["name"], each["own"]["left"]) for each in found["waiting"]] == [("first pass", 2)]
    assert {each["name"] for each in found["queues"]} == {"first pass", "not mine"}
    page = client.get("/review/").text
    assert f'action="{reverse("queue-next", args=[queue.public_id])}"' in page
    assert 'data-key="Enter">Code next <kbd>Enter</kbd>' in page


def test_nothing_waits_where_all_is_done_closed_or_held_by_others(client: Client) -> None:
    me, ann = local_user(), reviewer()
    done = make_small_queue(reviewers=[me], reviews_per_item=1)
    for item in done.items.all():
        make_review(item, me)
    make_small_queue(reviewers=[me], closed_at=timezone.now())
    held = make_small_queue(reviewers=[me, ann], reviews_per_item=1)
    while (item := claim(held, ann, besides=held.items.filter(slots__holder=ann).count())) is not None:
        pass
    assert client.get("/review.json").json()["waiting"] == []
    assert "You have nothing to code" in client.get("/review/").text


def test_the_start_shows_what_results_look_like_and_then_leads_to_them(client: Client) -> None:
    me = local_user()
    start = client.get("/review/").text
    for name in ("review-results-light", "review-results-dark"):
        address = reverse("document-picture", args=[name])
        assert f'"{address}"' in start
        assert client.get(address).status_code == 200
    done = make_small_queue(reviewers=[me], reviews_per_item=1)
    results = f'href="{reverse("results", args=[done.public_id])}"'
    assert results not in client.get("/review/").text
    for item in done.items.all():
        make_review(item, me)
    page = client.get("/review/").text
    assert results in page
    assert "What results look like" not in page


def test_drafts_say_what_became_of_their_place(client: Client) -> None:
    me, ann = local_user(), reviewer()
    queue = make_small_queue([make_trial(success=False) for _ in range(3)], reviewers=[me, ann], reviews_per_item=1)
    for item in queue.items.all():
        make_review(item, me, state=Review.State.DRAFT)
    held, taken, _ = queue.items.all()
    Slot.objects.filter(item=held).update(holder=me, held_until=timezone.now() + timezone.timedelta(hours=1))
    Slot.objects.filter(item=taken).update(holder=ann, held_until=timezone.now() + timezone.timedelta(hours=1))
    page = client.get("/review/").text
    assert len(client.get("/review.json").json()["drafts"]) == 3
    assert page.count("Open it to reserve it again") == 1
    assert page.count("Somebody else took it") == 1


def test_the_list_of_queues_asks_no_more_for_more_queues(client: Client) -> None:
    me = local_user()
    version = make_version()

    def make(total: int) -> None:
        for _ in range(total):
            make_small_queue([make_trial(success=False)], version=version, reviewers=[me])

    assert_queries_flat(client, "/review/", make)


# --- one queue ------------------------------------------------------------------------------------------------------


def test_a_queue_says_how_far_everybody_is(client: Client) -> None:
    ann, ben = reviewer(username="ann"), reviewer(username="ben")
    queue = make_small_queue([make_trial(success=False) for _ in range(3)], reviewers=[ann, ben])
    one, two, _ = queue.items.all()
    make_review(one, ann, ["misapplied"], seconds=60)
    make_review(one, ben, ["over-specific"], seconds=20)
    make_review(two, ann, state=Review.State.SKIPPED)
    found = client.get(f"/review/queues/{queue.public_id}.json").json()
    assert found["people"] == [
        {"name": "ann", "assigned": True, "submitted": 1, "drafts": 0, "skipped": 1, "left": 1, "median_seconds": 60},
        {"name": "ben", "assigned": True, "submitted": 1, "drafts": 0, "skipped": 0, "left": 2, "median_seconds": 20},
    ]
    assert found["reviews"] == {"submitted": 3, "needed": 6, "held": 0}
    assert [row["status"] for row in found["rows"]] == ["awaiting resolution", "in progress", "waiting"]
    assert found["statuses"]["awaiting resolution"] == 1


def test_items_are_filtered_by_status(client: Client) -> None:
    queue = make_small_queue()
    make_review(queue.items.first(), reviewer())
    found = client.get(f"/review/queues/{queue.public_id}.json?status=waiting").json()
    assert [row["number"] for row in found["rows"]] == [2]
    assert "No item has this status" in client.get(f"{queue.get_absolute_url()}?status=resolved").text


def test_columns_without_a_difference_are_left_out(client: Client) -> None:
    me = local_user()
    queue = make_small_queue([make_trial(success=False) for _ in range(2)], reviewers=[me])
    text = client.get(queue.get_absolute_url()).text
    assert '<th scope="col">Status</th>' not in text
    assert '<th scope="col">Yours</th>' not in text
    make_review(queue.items.first(), me, ["misapplied"], state=Review.State.DRAFT)
    text = client.get(queue.get_absolute_url()).text
    assert '<th scope="col">Status</th>' in text
    assert '<th scope="col">Yours</th>' in text


def test_items_come_in_pages(client: Client) -> None:
    queue = make_small_queue([])
    episode = make_episode()
    for _ in range(101):
        make_item(queue, trial=make_trial(episode, finished=False))
    first = client.get(f"/review/queues/{queue.public_id}.json").json()
    assert len(first["rows"]) == 100
    assert [row["number"] for row in client.get(first["next"]).json()["rows"]] == [101]


def test_a_queue_asks_no_more_for_more_items(client: Client) -> None:
    me, ann = local_user(), reviewer()
    queue = make_small_queue(reviewers=[me, ann])
    make_review(queue.items.first(), me, ["misapplied"])
    make_review(queue.items.first(), ann, ["misapplied"])

    def make(total: int) -> None:
        for _ in range(total):
            make_review(make_item(queue, trial=make_trial(success=False)), ann, ["misapplied"])

    assert_queries_flat(client, queue.get_absolute_url(), make)


@pytest.mark.parametrize("unit", ["decision", "snapshot"])
def test_decisions_and_libraries_are_named(client: Client, unit: str) -> None:
    episode = make_episode(title="Spreadsheets")
    decision = make_decision(episode, make_family(name="Totals"), after=make_snapshot({"a/SKILL.md": "x"}))
    queue = make_queue(
        QueueSpec("q", make_version(), Population(unit=unit), Draw(), (local_user(),), hides_conditions=False),
        user=local_user(),
    )
    row = client.get(f"/review/queues/{queue.public_id}.json").json()["rows"][0]
    assert row["title"] == ("decision 1" if unit == "decision" else "Spreadsheets")
    assert decision.family.name in client.get(queue.get_absolute_url()).text or unit == "snapshot"


def test_hostile_texts_stay_texts(client: Client) -> None:
    queue = make_small_queue(name="<script>x</script>", instructions="<img src=x onerror=alert(1)>")
    page = client.get(queue.get_absolute_url()).text
    assert "<script>x" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;x" in page
    assert "&lt;img src=x" in page


# --- coding next ----------------------------------------------------------------------------------------------------


def test_code_next_holds_an_item_and_opens_it(client: Client) -> None:
    queue = make_small_queue(reviewers=[local_user()])
    response = client.post(reverse("queue-next", args=[queue.public_id]))
    item = queue.items.first()
    assert response.url == item.get_absolute_url()
    assert item.slots.filter(holder=local_user()).count() == 1
    assert client.get(reverse("queue-next", args=[queue.public_id])).status_code == 405


def test_code_next_says_why_there_is_nothing(client: Client) -> None:
    queue = make_small_queue(reviewers=[])
    url = reverse("queue-next", args=[queue.public_id])
    assert "You do not review in this queue" in client.post(url, follow=True).text
    queue.reviewers.add(local_user())
    for item in queue.items.all():
        make_review(item, local_user())
    assert "Nothing is left for you" in client.post(url, follow=True).text
    Queue.objects.update(closed_at=timezone.now())
    assert "This queue is closed" in client.post(url, follow=True).text


# --- who may --------------------------------------------------------------------------------------------------------


def test_a_viewer_reads_and_takes_nothing(people: None) -> None:
    viewer = as_person(make_user(level=User.Level.VIEWER))
    queue = make_small_queue()
    assert viewer.get(queue.get_absolute_url()).status_code == 200
    assert viewer.get("/review/").status_code == 200
    assert viewer.get(NEW).status_code == 403
    for name in ("queue-next", "queue-people", "queue-close"):
        assert viewer.post(reverse(name, args=[queue.public_id])).status_code == 403


def test_only_its_maker_and_admins_manage_a_queue(people: None) -> None:
    maker, other, admin = reviewer(), reviewer(username="other"), make_user(level=User.Level.ADMIN)
    queue = make_small_queue(created_by=maker)
    add = reverse("queue-people", args=[queue.public_id])
    assert as_person(other).post(add, {"add": "other"}).status_code == 403
    assert "Only the person who made this queue" in as_person(other).post(add, {"add": "other"}).text
    assert as_person(maker).post(add, {"add": "other"}).status_code == 302
    assert list(queue.reviewers.all()) == [other]
    assert as_person(admin).post(add, {"remove": "other"}).status_code == 302
    assert not queue.reviewers.exists()
    assert as_person(maker).post(add, {"add": "nobody"}).status_code == 404
    assert as_person(other).post(reverse("queue-close", args=[queue.public_id])).status_code == 403
    as_person(maker).post(reverse("queue-close", args=[queue.public_id]), {"reason": "done"})
    queue.refresh_from_db()
    assert not queue.is_open


def test_a_viewer_cannot_be_made_a_reviewer_by_assigning(people: None) -> None:
    admin, queue = make_user(level=User.Level.ADMIN), make_small_queue()
    make_user(username="vera")
    page = as_person(admin).post(reverse("queue-people", args=[queue.public_id]), {"add": "vera"}, follow=True).text
    assert "vera may not review" in page
    assert not queue.reviewers.exists()


# --- what the blind do not see --------------------------------------------------------------------------------------


def blind_queue(ann: User, condition: str, facet: str = "condition") -> Queue:
    experiment = make_experiment()
    for _ in range(3):
        make_trial(make_episode(make_run(experiment, condition=condition)), success=False)
        make_trial(make_episode(make_run(experiment, condition=condition)), success=True)
    from benchapp.stats.comparing.choices import Choices

    population = Population(
        choices=Choices(experiment=(experiment.public_id,), condition=(condition,)), preset="failed"
    )
    how = Draw("stratified", size=3, facet=facet, controls=2)
    return make_queue(QueueSpec("blind", make_version(), population, how, (ann,)), user=make_user(level="admin"))


def test_nothing_tells_a_blind_reviewer_the_condition(people: None) -> None:
    ann = reviewer()
    queue = blind_queue(ann, "selfgen-always")
    client = as_person(ann)
    for url in (queue.get_absolute_url(), f"/review/queues/{queue.public_id}.json", "/review/", "/review.json"):
        text = client.get(url).text
        assert "selfgen-always" not in text
        assert str(queue.items.first().trial.public_id) not in text
        assert str(queue.items.first().trial.episode.run.public_id) not in text
    assert "Code your items to see the whole selection" in client.get(queue.get_absolute_url()).text
    assert client.get(f"/review/queues/{queue.public_id}.json").json()["drawing"]["strata"] == []


@pytest.mark.parametrize(
    ("population", "says", "tells"),
    [
        ("preset=silent-bypass", "trials that failed", "none read"),
        ("preset=regressions", "trials that failed", "baseline"),
        ("preset=improvements", "trials that passed", "baseline"),
        ("preset=gone&condition=selfgen-always", "trial", "selfgen-always"),
    ],
)
def test_what_a_queue_was_drawn_from_does_not_tell_the_condition(
    people: None, population: str, says: str, tells: str
) -> None:
    ann, queue = reviewer(), make_small_queue()
    queue.reviewers.add(ann)
    Queue.objects.filter(pk=queue.pk).update(population=f"unit=trial&{population}", hides_conditions=True)
    blind, other = as_person(ann).get(queue.get_absolute_url()), as_person(reviewer()).get(queue.get_absolute_url())
    assert tells not in blind.text
    assert re.search(rf"All \d+ {says}\.", blind.text, re.IGNORECASE)
    assert tells in other.text


def test_who_has_nothing_left_to_code_sees_how_it_was_drawn(people: None) -> None:
    ann = reviewer()
    queue = blind_queue(ann, "selfgen-always")
    for item in queue.items.all():
        make_review(item, ann)
    found = as_person(ann).get(f"/review/queues/{queue.public_id}.json").json()["drawing"]
    assert found["strata"] == [{"stratum": "selfgen-always", "drawn": 3, "inclusion": 1.0}]
    assert "condition Self-written, always revised" in found["selection"]


def test_who_reviews_nothing_sees_how_it_was_drawn(people: None) -> None:
    queue = blind_queue(reviewer(), "selfgen-always")
    assert "selfgen-always" in as_person(make_user(level="admin")).get(queue.get_absolute_url()).text


def test_no_list_tells_a_control_from_a_failure(people: None) -> None:
    ann = reviewer()
    queue = blind_queue(ann, "selfgen-always")
    rows = as_person(ann).get(f"/review/queues/{queue.public_id}.json").json()["rows"]
    controls = set(queue.items.filter(is_control=True).values_list("ordinal", flat=True))
    shapes = [
        {key: value for key, value in row.items() if key not in ("number", "url", "title", "family")} for row in rows
    ]
    assert len(controls) == 2
    assert all(shape == shapes[0] for shape in shapes)


def test_a_reviewed_queue_opens_on_what_is_to_settle_with_what_each_found(client: Client) -> None:
    queue = make_small_queue([make_trial(success=False) for _ in range(3)], version=make_version(codes=("Slip", "Gap")))
    people = [make_user(username=name) for name in ("ann", "bea")]
    for place, item in enumerate(queue.items.all()):
        for person in people:
            make_review(item, person, ["Gap" if place == 1 and person == people[1] else "Slip"])

    def read(query: str) -> str:
        table = client.get(f"{queue.get_absolute_url()}{query}").text.partition("What was found")[2]
        return " ".join(strip_tags(table.partition("</table>")[0]).split())

    assert "Slip annGap bea" in read("")
    assert "ann, bea" not in read("")  # reviewers agree there
    assert read("?status=all").count("Slip ann, bea") == 2
    assert Activity.objects.filter(verb="labels.seen", target_id=queue.public_id).count() == 1


def test_nobody_reads_codes_in_the_list_before_every_review_is_in(client: Client) -> None:
    queue = make_small_queue(version=make_version(codes=("Slip",)))
    for item in queue.items.all():
        make_review(item, make_user(), ["Slip"])
    assert "What was found" not in client.get(queue.get_absolute_url()).text
    assert not Activity.objects.exists()

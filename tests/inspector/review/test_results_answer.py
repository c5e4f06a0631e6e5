"""The results page answers first: one sentence by rule, ranked causes, squares while they are few."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Code, Queue, Resolution
from benchapp.stats.inference.interval import Interval
from inspector.pages.review.results.causes import count_text, ends_text, per_hundred
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review
from tests.worlds.review_worlds import make_reviewed_world, say

pytestmark = pytest.mark.django_db


def text_of(client: Client, queue: Queue) -> str:
    return client.get(reverse("results", args=[queue.public_id])).text


def make_many(first: int, second: int) -> Queue:
    queue = make_queue([make_trial(success=False) for _ in range(first + second)], reviews_per_item=1)
    reviewer = make_user()
    for place, item in enumerate(queue.items.all()):
        make_review(item, reviewer, ["over-specific" if place < first else "misapplied"])
    return queue


def test_few_items_are_drawn_one_by_one(client: Client) -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"], ["tool"])
    say(world, 1, ["stale"], ["stale"])
    text = text_of(client, world.queue)
    assert "<h1>2 trials reviewed. Most common so far: “skill” (1 to 2 of 2).</h1>" in text
    assert "More reviews may change the order." in text
    assert "leads" not in text, "of two nothing leads"
    assert 'aria-label="1 to 2 of 2"' in text
    table = text.partition('class="rows taxonomy"')[2]
    assert "too few" not in table
    head = text.partition(">Every cause with its counts")[2].partition("</thead>")[0]
    assert head.count("<th ") == 3, "one rule: shares come with 30 reviews, here too"
    assert "5 charts wait for more reviews" in text
    assert "14 more reviews" in text
    assert "4 of 18 reviews" in text


def test_many_items_are_ranked_with_intervals(client: Client) -> None:
    text = text_of(client, make_many(24, 8))
    assert "“over-specific” leads with 75 of 100 failures." in text
    assert "“misapplied” comes next: 25." in text
    assert "charts wait" not in text
    assert "Every item drawn is reviewed." in text


def test_a_lead_within_the_intervals_is_none(client: Client) -> None:
    text = text_of(client, make_many(17, 15))
    assert "“over-specific” and “misapplied” come first." in text
    assert "Which of them leads is not settled." in text


def test_nothing_reviewed_is_said_and_nothing_drawn(client: Client) -> None:
    text = text_of(client, make_reviewed_world().queue)
    assert "No trial is reviewed yet." in text
    assert "Squares appear with the first review." in text


def test_a_cause_stands_with_its_key_and_its_examples(client: Client) -> None:
    world = make_reviewed_world()
    say(world, 0, ["misapplied"], ["misapplied"])
    text = text_of(client, world.queue)
    assert text.index("<kbd>1</kbd><kbd>2</kbd>") > text.index(", most frequent first")
    assert world.items[0].trial.task.title in text


def test_counts_and_intervals_are_written_short() -> None:
    assert [count_text(count) for count in (6, 6.5, 0.5, 1 / 3, 1200)] == ["6", "6½", "½", "0.3", "1,200"]
    assert ends_text(Interval(0.361, 0.456, 0.95, "")) == "36 to 46"
    assert (ends_text(Interval(0.5, 0.5, 0.95, "")), ends_text(None)) == ("exact", "")


def test_a_closed_queue_asks_for_no_more_reviews(client: Client) -> None:
    world = make_reviewed_world()
    say(world, 0, ["stale"])
    text = client.get(reverse("results", args=[world.queue.public_id])).text
    assert "17 more reviews" in text
    assert "Open the queue" in text
    Queue.objects.filter(pk=world.queue.pk).update(closed_at=timezone.now())
    text = client.get(reverse("results", args=[world.queue.public_id])).text
    assert "The queue is closed." in text
    assert "8 items stay unreviewed" in text
    assert "more reviews</b>" not in text
    assert "wait for more reviews" not in text
    assert "Open the queue" not in text


def test_a_label_of_a_whole_trial_is_an_example_after_those_with_a_step(client: Client) -> None:
    world = make_reviewed_world()
    make_review(world.items[0], world.people[0], ["stale"], mark={"step": None, "field": ""})
    first = world.items[0].trial.get_absolute_url()
    text = client.get(reverse("results", args=[world.queue.public_id])).text
    assert f'class="example column tight ruled ink" href="{first}"' in text
    assert "You cannot see examples yet" not in text
    make_review(world.items[1], world.people[0], ["stale"])
    text = client.get(reverse("results", args=[world.queue.public_id])).text
    assert text.index(f'href="{world.items[1].trial.get_absolute_url()}?step=1"') < text.index(f'href="{first}"')


def test_a_cause_that_only_the_adjudicator_named_hides_no_example(client: Client) -> None:
    world = make_reviewed_world()
    say(world, 0, ["tool"])
    resolution = Resolution.objects.create(item=world.items[0], adjudicator=world.people[1], resolved_at=timezone.now())
    resolution.codes.add(Code.objects.get(version=world.queue.version, name="stale"))
    text = client.get(reverse("results", args=[world.queue.public_id])).text
    assert "No review holds an example." in text


def test_an_item_that_lacks_its_second_review_is_neither_reviewed_nor_settled(client: Client) -> None:
    one, other = make_user(), make_user()
    queue = make_queue(reviewers=[one, other])
    for item in queue.items.all():
        make_review(item, one, ["misapplied"])
    text = text_of(client, queue)
    assert "Every item drawn is reviewed." not in text
    assert '<span class="badge acc">2 of 4 reviews</span>' in text
    assert "2 more reviews" in text
    assert "every item has one, and agreement waits for the rest" in text
    assert "<b>2</b> items</dd>" in text
    told = client.get(reverse("results-json", args=[queue.public_id])).json()
    assert (told["reviews"], told["items_shared"]) == ({"submitted": 2, "needed": 4}, 2)
    assert client.get(f"/review/queues/{queue.public_id}.json").json()["reviews"]["submitted"] == 2
    for item in queue.items.all():
        make_review(item, other, ["misapplied"])
    assert "Every item drawn is reviewed." in text_of(client, queue)


def test_a_label_that_the_adjudicator_left_out_is_no_example(client: Client) -> None:
    world = make_reviewed_world()
    say(world, 0, ["tool"], ["stale"])
    address = reverse("results", args=[world.queue.public_id])
    row = f'id="code-{Code.objects.get(version=world.queue.version, name="tool").public_id}"'
    assert "?step=1" in client.get(address).text.partition(row)[2].partition("</tr>")[0]
    made = Resolution.objects.create(item=world.items[0], adjudicator=world.people[1], resolved_at=timezone.now())
    made.codes.add(Code.objects.get(version=world.queue.version, name="stale"))
    told = client.get(address).text.partition(row)[2].partition("</tr>")[0]
    assert "0/1" in told
    assert "?step=1" not in told
    above = f'id="code-{Code.objects.get(version=world.queue.version, name="stale").public_id}"'
    assert "?step=1" in client.get(address).text.partition(above)[2].partition("</tr>")[0]


def test_who_reviews_alone_waits_for_nobody(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    world = make_reviewed_world()
    say(world, 0, ["stale"])
    client.force_login(world.people[0])
    address = reverse("results", args=[world.queue.public_id])
    assert "You still have 8 items to code here before you see what others said." in client.get(address).text
    world.queue.reviewers.set([world.people[0]])
    text = client.get(address).text
    assert "You still have 8 items to code here. Results open when these are done, or when the queue is closed." in text


def test_percentages_round_half_up() -> None:
    assert [per_hundred(share) for share in (0.625, 0.385, 0.0045)] == ["63", "39", "0.5"]
    assert ends_text(Interval(0.105, 0.625)) == "11 to 63"

"""Codes that judge skills wait while skills are hidden, and come in a second pass over the same items."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Queue, User
from benchapp.review.codebooks.codebook_versions import draft_of
from benchapp.review.queues.passes import first_pass_of, second_pass_of
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def maker(client: Client, settings: Any) -> User:
    settings.SINGLE_USER = False
    found = make_user(username="mia", level=User.Level.REVIEWER)
    client.force_login(found)
    return found


@pytest.fixture
def queue(maker: User) -> Queue:
    version = make_version(["silent bypass of a skill", "slip"])
    population = "unit=trial&preset=failed&as_of=2026-01-01T00:00:00"
    trials = [make_trial(success=False) for _ in range(2)]
    return make_queue(
        trials, version=version, reviewers=[maker], reviews_per_item=1, population=population, created_by=maker
    )


def open_second(client: Client, queue: Queue) -> Queue:
    client.post(reverse("queue-second-pass", args=[queue.public_id]))
    found = second_pass_of(queue)
    assert found is not None
    return found


def twin(client: Client, queue: Queue, place: int) -> dict[str, Any]:
    item = queue.items.get(ordinal=place)
    return client.get(reverse("review-item-json", args=[item.public_id])).json()


def test_a_code_that_judges_skills_waits_with_its_key(client: Client, queue: Queue) -> None:
    codes = {code["name"]: (code["keys"], code["waits_for_skills"]) for code in twin(client, queue, 0)["codes"]}
    assert codes == {"silent bypass of a skill": ("1", True), "slip": ("2", False)}
    text = client.get(queue.items.first().get_absolute_url()).text
    assert "1 of 2 codes need what this queue hides" in text
    assert "Submit pass 1" in text
    assert text.count("data-toggle=") == 1


def test_nothing_waits_where_the_condition_shows(client: Client, queue: Queue) -> None:
    Queue.objects.update(hides_conditions=False)
    assert not any(code["waits_for_skills"] for code in twin(client, queue, 0)["codes"])
    assert client.get(reverse("queue-json", args=[queue.public_id])).json()["codes_that_wait"] == []


def test_the_second_pass_has_the_same_items_with_skills_shown(client: Client, queue: Queue) -> None:
    second = open_second(client, queue)
    assert first_pass_of(second) == queue
    assert not second.hides_conditions
    names = ("trial", "ordinal", "inclusion", "stratum", "reviews_needed")
    assert list(second.items.values_list(*names)) == list(queue.items.values_list(*names))
    client.post(reverse("queue-second-pass", args=[queue.public_id]))
    assert Queue.objects.count() == 2


def test_the_second_pass_opens_for_a_person_once_their_first_is_done(client: Client, queue: Queue, maker: User) -> None:
    second = open_second(client, queue)
    answer = client.post(reverse("queue-next", args=[second.public_id]), follow=True)
    assert "Finish pass 1 first: 2 items left for you." in answer.text
    assert {code["waits_for_skills"] for code in twin(client, second, 0)["codes"]} == {True, False}
    for item in queue.items.all():
        make_review(item, maker, ["slip"])
    assert client.post(reverse("queue-next", args=[second.public_id])).url == second.items.first().get_absolute_url()
    assert {code["waits_for_skills"] for code in twin(client, second, 0)["codes"]} == {False}
    assert not second.items.filter(reviews__isnull=False).exists()  # what was said in pass 1 lies apart


def test_nobody_opens_a_second_pass_of_what_is_not_theirs(client: Client, queue: Queue) -> None:
    client.force_login(make_user(level=User.Level.REVIEWER))
    assert client.post(reverse("queue-second-pass", args=[queue.public_id])).status_code == 403
    assert second_pass_of(queue) is None


def test_making_a_queue_says_which_codes_would_wait(client: Client, queue: Queue) -> None:
    sent = {"what": "trial:failed", "version": str(queue.version.public_id), "show": "1"}
    blind = client.post(reverse("queue-new"), {**sent, "hides_conditions": "on"})
    assert "1 of 2 codes judge skills, which this queue hides." in blind.text
    assert blind.context["codes_that_wait"] == ["silent bypass of a skill"]
    assert "which this queue hides" not in client.post(reverse("queue-new"), sent).text


def test_a_filter_is_kept_through_making_a_codebook(client: Client, maker: User) -> None:
    make_trial(success=False)
    page = f"{reverse('queue-new')}?condition=no-skill&unit=trial&preset=failed"
    assert "Your filter is kept." in client.get(page).text
    assert "Freeze a codebook first. Your filter is kept." in client.get(reverse("codebooks")).text
    client.post(reverse("codebook-new"), {"starter": "skillgenbench", "name": "Mine"})
    version = make_version()
    text = client.get(version.get_absolute_url()).text
    assert "You are making a queue of trials that failed" in text
    assert f'href="{reverse("queue-new")}?condition=no-skill&amp;unit=trial&amp;preset=failed"' in text


def test_the_filter_can_be_dropped_and_a_draft_offers_no_queue(client: Client, maker: User, queue: Queue) -> None:
    client.get(f"{reverse('queue-new')}?condition=no-skill&unit=trial&preset=failed")
    version = queue.version
    draft = draft_of(version.codebook, maker)
    offer = "Make one in two passes"
    assert offer in client.get(version.get_absolute_url()).text
    text = client.get(draft.get_absolute_url()).text
    assert "1 of 2 codes judge skills" in text
    assert offer not in text
    assert "Forget the filter" in text
    assert client.post(reverse("queue-forget")).url == reverse("codebooks")
    assert "You are making a queue" not in client.get(reverse("codebooks")).text


@pytest.mark.parametrize("kept", ["condition=%FF&preset=dozen", "x" * 4000, "<script>"])
def test_a_kept_filter_that_means_nothing_is_left_out(client: Client, maker: User, kept: str) -> None:
    client.cookies["queue_filter"] = kept
    text = client.get(reverse("codebooks")).text
    assert "<script>&" not in text
    assert kept not in text

"""No other address tells what a blind item hides, and all of them open once it is answered."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import QueueItem, Review, Trial, User
from runner.base.types import Source, Step, ToolCall
from tests.queries import assert_queries_flat
from tests.worlds.blind_worlds import ITEM, QUEUE, A, build
from tests.worlds.factories import START, make_episode, make_run, make_trial, make_user, record_steps
from tests.worlds.review_factories import make_item, make_queue, make_review

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(settings: pytest.FixtureRequest) -> User:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    return make_user(username="ada", level="reviewer")


def routes(trial: Trial) -> list[str]:
    page = reverse("trial", args=[trial.public_id])
    run = trial.episode.run.public_id
    library = reverse("library", args=[run])
    blame = reverse("blame", args=[run])
    field = reverse("trial-field", args=[trial.public_id])
    return [
        page,
        f"{page[:-1]}.json",
        f"{field}?step=3&field=message",
        library,
        f"{library[:-1]}.json",
        blame,
        f"{blame[:-1]}.json",
    ]


def beside(trial: Trial) -> list[str]:
    """The trial beside itself: refused for that reason only where it is open."""
    pair = reverse("compare-pair", args=[trial.public_id, trial.public_id])
    return [pair, f"{pair[:-1]}.json"]


def test_every_other_route_to_an_open_item_is_closed(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    trial = Trial.objects.get(public_id=A.trial_id)
    image = reverse("trial-image", args=[trial.public_id, "0" * 64])
    said = [client.get(url) for url in [*routes(trial), *beside(trial), image]]
    assert [response.status_code for response in said] == [403] * 10
    for response in said:
        assert "Spring" in response.text
        for secret in (A.condition, A.model, A.slug, A.experiment):
            assert secret not in response.text
    assert reverse("queue", args=[QUEUE]) in said[0].text
    assert said[1].json()["next"] is None


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("unit", ["trial", "decision", "snapshot"])
def test_no_other_queue_shows_the_item(client: Client, reader: User, unit: str, *, is_closed: bool) -> None:
    """One that was closed or carried over, and one that is none of the reader's, hold the same units."""
    client.force_login(reader)
    build(A, reader, unit=unit)
    item = QueueItem.objects.get(public_id=ITEM)
    people = [reader] if is_closed else []
    other = make_queue(
        [], version=item.queue.version, reviewers=people, unit=unit, closed_at=START if is_closed else None
    )
    units = {"trial": item.trial, "decision": item.decision, "snapshot": item.snapshot, "episode": item.episode}
    again = make_item(other, **{name: row for name, row in units.items() if row})
    make_review(again, make_user(level="reviewer"), ["over-specific"], memo="It overfits to March.")
    page = reverse("review-item", args=[again.public_id])
    piece = f"{reverse('review-field', args=[again.public_id])}?step=5&field=message"
    for url in (page, f"{page[:-1]}.json", piece, reverse("resolve-json", args=[again.public_id])):
        answer = client.get(url)
        assert answer.status_code == 403, url
        for secret in (A.condition, A.model, A.slug, "It overfits"):
            assert secret not in answer.text
    make_review(item, reader)
    assert client.get(page).status_code == 200


def test_what_one_answered_before_is_masked_while_another_queue_hides_it(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    item = QueueItem.objects.get(public_id=ITEM)
    shown = {"hides_conditions": False, "hides_models": False}
    earlier = make_queue([item.trial], version=item.queue.version, reviewers=[reader], **shown).items.get()
    make_review(earlier, reader, ["over-specific"])
    page = client.get(reverse("review-item", args=[earlier.public_id]))
    assert page.status_code == 200
    for secret in (A.condition, A.model, A.slug, str(A.trial_id)):
        assert secret not in page.text


@pytest.mark.parametrize("state", [Review.State.SUBMITTED, Review.State.SKIPPED])
def test_the_routes_open_once_the_item_is_answered(client: Client, reader: User, state: str) -> None:
    client.force_login(reader)
    build(A, reader)
    make_review(QueueItem.objects.get(public_id=ITEM), reader, state=state)
    for url in routes(Trial.objects.get(public_id=A.trial_id)):
        assert client.get(url).status_code == 200


def test_a_draft_opens_nothing(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    make_review(QueueItem.objects.get(public_id=ITEM), reader, state=Review.State.DRAFT)
    assert client.get(routes(Trial.objects.get(public_id=A.trial_id))[0]).status_code == 403


def test_trying_trials_of_the_task_does_not_find_the_item(client: Client, reader: User) -> None:
    """The same task under another condition answers as the item's own trial does."""
    client.force_login(reader)
    build(A, reader)
    trial = Trial.objects.get(public_id=A.trial_id)
    twin = make_trial(make_episode(make_run(condition="no-skill"), key="E1"), trial.task)
    other = make_trial(make_episode(make_run(condition="no-skill"), key="E9"))
    assert client.get(routes(twin)[0]).content == client.get(routes(trial)[0]).content.replace(
        str(trial.public_id).encode(), str(twin.public_id).encode()
    )
    assert client.get(routes(twin)[3]).status_code == 403
    assert client.get(routes(other)[0]).status_code == 200
    assert client.get(routes(other)[3]).status_code == 200


def test_whoever_reviews_nothing_is_not_kept_out(client: Client, reader: User) -> None:
    build(A, reader)
    client.force_login(make_user(level="admin"))
    for url in routes(Trial.objects.get(public_id=A.trial_id)):
        assert client.get(url).status_code == 200


def test_the_coding_page_asks_the_same_of_the_database_for_any_number_of_steps(client: Client, reader: User) -> None:
    client.force_login(reader)
    build(A, reader)
    attempt = Trial.objects.get(public_id=A.trial_id).counting_attempt()
    count = [0]

    def lengthen(by: int) -> None:
        count[0] += by
        call = [ToolCall("1", "bash", {"command": "ls"})]
        made = [Step(n, Source.AGENT, "look", None, tuple(call)) for n in range(1, 3 * count[0] + 1)]
        record_steps(attempt, made)

    assert_queries_flat(client, reverse("review-item", args=[ITEM]), lengthen)

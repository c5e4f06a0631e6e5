"""Ways to learn what others said of an item before answering it, and what becomes of the answers of who took one."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Activity, Comment, Label, Queue, Resolution, Trial, User
from benchapp.review.codebooks import codes
from benchapp.review.codebooks.carried_labels import carry
from benchapp.review.codebooks.codebook_versions import draft_of, freeze
from benchapp.review.codebooks.codes import Wording
from benchapp.review.codebooks.examples import add_example, add_from_mark
from benchapp.review.coding.disagreements import AdjudicatorVerdict, resolve
from benchapp.review.coding.queue_agreement import Agreement, Occasion, answered_items, take_report
from benchapp.review.seeing import SEEN, informed_reviews
from benchapp.review.suggestions.suggestion_runs import suggest
from inspector.pages.review.results.results_charts import FIGURES
from tests.worlds.factories import make_family, make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

CODE, OTHER = "misapplied", "over-specific"
LABELS_ONLY = {"hides_conditions": False, "hides_models": False, "hides_suggestions": False}


@pytest.fixture(autouse=True)
def _with_accounts(settings: Any) -> None:
    settings.SINGLE_USER = False


@pytest.fixture
def ann() -> User:
    return make_user(username="ann", level="reviewer")


@pytest.fixture
def bob() -> User:
    return make_user(username="bob", level="reviewer")


@pytest.fixture
def cas() -> User:
    return make_user(username="cas", level="reviewer")


@pytest.fixture
def client(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


def splitting(queue: Queue) -> str:
    """The page of carrying it over to a version in which one code alone is split."""
    draft = draft_of(queue.version.codebook, None)
    codes.split_code(draft.codes.get(name=CODE), [Wording("left"), Wording("right")], None)
    version = freeze(draft, None)
    return f"/review/versions/{version.public_id}/carry/{queue.public_id}/"


def pages_of(queue: Queue) -> list[str]:
    """Every address that tells what people said in a queue."""
    key = [queue.public_id]
    item = [queue.items.first().public_id]
    named = ["results", "results-json", "agreement", "agreement-json", "disagreements", "disagreements-json"]
    addresses = [reverse(name, args=key) for name in [*named, "suggestions", "suggestions-json"]]
    addresses += [reverse("results-export", args=[*key, form]) for form in ("csv", "tex")]
    addresses += [reverse("results-chart", args=[*key, next(iter(FIGURES)), form]) for form in ("json", "csv")]
    addresses += [reverse("labels-export", args=[*key, form]) for form in ("csv", "json", "jsonl")]
    return [*addresses, reverse("resolve-json", args=item)]


def statuses(client: Client, addresses: list[str]) -> dict[str, int]:
    return {address: client.get(address).status_code for address in addresses}


def asked(bob: User, trial: Trial, **fields: Any) -> Queue:
    """The open queue in which bob has still to code the trial without knowing what others said."""
    return make_queue([trial], reviewers=[bob], **{**LABELS_ONLY, **fields})


def told(queue: Queue, *people: User, code: str = CODE) -> Queue:
    for item in queue.items.all():
        for person in people:
            make_review(item, person, [code])
    return queue


# --- numbers made of labels -----------------------------------------------------------------------------------------


def addresses_of_numbers(queue: Queue) -> list[str]:
    version = queue.version.public_id
    return [
        f"{splitting(queue)[:-1]}.json",
        f"/review/versions/{version}.json",
        "/review.json",
        f"/review/queues/{queue.public_id}.json",
        "/activity.json",
    ]


def test_no_number_tells_which_code_a_colleague_gave(client: Client, ann: User, bob: User) -> None:
    queue = make_queue(reviewers=[ann, bob], reviews_per_item=3)
    other = make_user(level="reviewer")
    addresses = addresses_of_numbers(queue)
    make_review(queue.items.first(), ann, [OTHER])
    make_review(queue.items.first(), other, [OTHER])
    before = [client.get(address).json() for address in addresses]
    given = Label._base_manager.filter(mark__review__reviewer=ann)  # past the guard of submitted reviews
    assert given.update(code=queue.version.codes.get(name=CODE)) == 1
    assert [client.get(address).json() for address in addresses] == before
    assert before[0]["counts"] is None
    assert {row["labels"] for row in before[0]["codes"]} == {None}


def test_who_has_a_draft_of_a_full_item_is_not_told_whether_the_others_agree(
    client: Client, ann: User, bob: User, cas: User
) -> None:
    queue = make_queue([make_trial(success=False)], reviewers=[ann, bob, cas])
    make_review(queue.items.get(), bob, state="draft")
    make_review(queue.items.get(), ann, [CODE])
    make_review(queue.items.get(), cas, [OTHER])
    assert client.get("/review.json").json()["queues"][0]["awaiting_resolution"] == 0
    row = client.get(f"/review/queues/{queue.public_id}.json").json()["rows"][0]
    assert (row["status"], row["reviews"]) == ("in progress", None)


def test_carrying_over_does_not_show_whose_review_carried_the_code_that_was_split(
    client: Client, ann: User, bob: User
) -> None:
    queue = make_queue(reviewers=[ann, bob], created_by=bob)
    first, second = queue.items.all()
    make_review(first, ann, [CODE])
    make_review(second, ann, [OTHER])
    client.post(splitting(queue))
    rows = client.get(f"/review/queues/{queue.carried_to.get().public_id}.json").json()["rows"]
    assert [(row["status"], row["reviews"]) for row in rows] == [("waiting", None)] * 2
    act = next(act for act in client.get("/activity.json").json()["acts"] if act["verb"] == "queue.carried")
    assert act["detail"] == {}
    assert not {"labels", "touched"} & Activity.objects.get(verb="queue.carried").detail.keys()


# --- another queue --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="none-of-theirs"),
        pytest.param({"hides_labels": False}, id="hides-no-labels"),
        pytest.param({"closed_at": "2026-01-01T00:00:00Z"}, id="closed"),
    ],
)
def test_no_other_queue_tells_what_was_said_of_the_same_unit(
    client: Client, ann: User, bob: User, cas: User, fields: dict[str, Any]
) -> None:
    trial = make_trial(success=False)
    other = told(make_queue([trial], reviewers=[ann, cas], **LABELS_ONLY, **fields), ann, cas)
    take_report(other, Occasion.DISCUSSION, ann)
    suggest(other)
    mine = asked(bob, trial)
    assert statuses(client, pages_of(other)) == dict.fromkeys(pages_of(other), 403)
    make_review(mine.items.get(), bob, [CODE])
    assert statuses(client, pages_of(other)) == dict.fromkeys(pages_of(other), 200)


def test_their_own_answer_in_one_queue_opens_nothing_while_another_one_asks(
    client: Client, ann: User, bob: User
) -> None:
    trial = make_trial(success=False)
    first = told(make_queue([trial], reviewers=[ann, bob], **LABELS_ONLY), ann, bob)
    asked(bob, trial)
    assert set(statuses(client, pages_of(first)).values()) == {403}
    assert client.get(f"/review/items/{first.items.get().public_id}.json").json()["others"] == []


def test_another_queue_is_not_told_through_a_third_one(client: Client, ann: User, bob: User) -> None:
    trial, elsewhere = make_trial(success=False), make_trial(success=False)
    version = make_version()
    told_of = told(make_queue([trial], version=version, reviewers=[ann], **LABELS_ONLY), ann)
    harmless = told(make_queue([elsewhere], version=version, reviewers=[ann], **LABELS_ONLY), ann)
    asked(bob, trial)
    address = reverse("results", args=[harmless.public_id])
    assert statuses(client, [address, f"{address}?also={told_of.public_id}"]) == {
        address: 200,
        f"{address}?also={told_of.public_id}": 403,
    }


def test_the_refusal_does_not_tell_which_trial_a_blind_item_is_about(client: Client, ann: User, bob: User) -> None:
    """A queue of the same task's other trials answers alike, else its selection would tell the condition."""
    task = make_family().tasks.first()
    mine, another = make_trial(task=task, success=False), make_trial(task=task, success=False)
    queues = [told(make_queue([trial], reviewers=[ann]), ann) for trial in (mine, another)]
    asked(bob, mine, hides_conditions=True)
    said = [client.get(reverse("labels-export", args=[queue.public_id, "json"])) for queue in queues]
    assert [answer.status_code for answer in said] == [403, 403]
    assert said[0].json() == said[1].json()


def test_comments_and_examples_of_others_wait_as_well(client: Client, ann: User, bob: User) -> None:
    trial = make_trial(success=False)
    run = trial.episode.run
    place = {"on": "step", "place": "p", "address": "/", "trial": trial, "run": run}
    Comment.objects.create(author=ann, text="clearly misapplied", **place)
    Comment.objects.create(author=bob, text="what I noted", **place)
    queue = asked(bob, trial)
    other = told(make_queue(reviewers=[ann], version=make_version(frozen=False), hides_labels=False), ann)
    add_example(other.version.codes.get(name=CODE), ann, trial=trial, step=1, quote="look here")
    assert [each["text"] for each in client.get("/comments.json").json()["comments"]] == ["what I noted"]
    assert trial.get_absolute_url() not in client.get(reverse("results", args=[other.public_id])).text
    make_review(queue.items.get(), bob, [CODE])
    assert len(client.get("/comments.json").json()["comments"]) == 2
    assert trial.get_absolute_url() in client.get(reverse("results", args=[other.public_id])).text


def test_the_log_does_not_tell_the_agreement_of_another_queue_on_the_same_unit(
    client: Client, ann: User, bob: User, cas: User
) -> None:
    trial = make_trial(success=False)
    other = told(make_queue([trial], reviewers=[ann, cas]), ann, cas)
    asked(bob, trial)
    take_report(other, Occasion.ASKED, ann)
    assert client.get("/activity.json").json()["acts"][0]["detail"] == {}


# --- lifting one's own blindness ------------------------------------------------------------------------------------


def answers_counted(queue: Queue) -> tuple[int, int]:
    """(items that two independent people answered, reviews left out)."""
    found = Agreement(queue)
    return found.double, found.informed


def test_who_leaves_a_queue_reads_it_and_comes_back_is_not_independent(client: Client, ann: User, bob: User) -> None:
    queue = make_queue([make_trial(success=False)], reviewers=[ann, bob], created_by=bob)
    make_review(queue.items.get(), ann, [CODE])
    address = reverse("queue-people", args=[queue.public_id])
    client.post(address, {"remove": "bob"})
    assert client.get(reverse("labels-export", args=[queue.public_id, "csv"])).status_code == 200
    client.post(address, {"add": "bob"})
    make_review(queue.items.get(), bob, [CODE])
    assert answers_counted(queue) == (0, 1)
    assert Activity.objects.get(verb=SEEN).actor == bob
    said = client.get(reverse("agreement-json", args=[queue.public_id])).json()
    assert "1 review left out: their authors saw" in " ".join(said["cautions"])
    assert said["now"]["informed_reviews"] == 1


@pytest.mark.parametrize("page", range(15))
def test_whatever_page_an_admin_read_is_remembered_when_they_code_later(
    client: Client, ann: User, cas: User, page: int
) -> None:
    boss = make_user(level="admin")
    queue = told(make_queue([make_trial(success=False)], reviewers=[ann, cas], reviews_per_item=3), ann, cas)
    take_report(queue, Occasion.DISCUSSION, ann)
    client.force_login(boss)
    addresses = [*pages_of(queue)[:-1], f"/review/items/{queue.items.get().public_id}/"]
    assert client.get(addresses[page]).status_code == 200
    queue.reviewers.add(boss)
    make_review(queue.items.get(), boss, [CODE])
    assert answers_counted(queue) == (1, 1)


def test_closing_reading_and_carrying_over_is_remembered(client: Client, ann: User, bob: User) -> None:
    queue = make_queue([make_trial(success=False)], reviewers=[ann, bob], created_by=bob, reviews_per_item=3)
    make_review(queue.items.get(), ann, [CODE])
    client.post(reverse("queue-close", args=[queue.public_id]))
    assert client.get(reverse("results", args=[queue.public_id])).status_code == 200
    draft = draft_of(queue.version.codebook, None)
    made = carry(queue, freeze(draft, None), bob)
    assert client.get(reverse("results", args=[queue.public_id])).status_code == 403
    make_review(made.items.get(), bob, [CODE])
    answers = [answer for item in answered_items(made) for answer in item.answers]
    assert [answer.informed for answer in answers if answer.reviewer == bob.pk] == [True]


def elsewhere(trial: Trial, queue: Queue, cas: User, bob: User) -> Queue:
    """Another queue of the same trial, where both answer."""
    made = make_queue([trial], version=queue.version, reviewers=[cas, bob])
    for user in (cas, bob):
        make_review(made.items.get(), user, [CODE])
    return made


def test_to_skip_an_item_is_to_say_nothing_of_it(client: Client, ann: User, bob: User, cas: User) -> None:
    trial = make_trial(success=False)
    queue = told(make_queue([trial], reviewers=[ann, bob, cas], reviews_per_item=3), ann)
    item = queue.items.get()
    sent = {"reviewer": "bob", "revision": 0, "draft": {}, "reason": "tomorrow"}
    skipped = client.post(reverse("review-skip", args=[item.public_id]), sent, content_type="application/json")
    assert skipped.json()["state"] == "skipped"
    assert len(client.get(f"/review/items/{item.public_id}.json").json()["others"]) == 1
    assert answers_counted(elsewhere(trial, queue, cas, bob)) == (0, 1)


@pytest.mark.parametrize("page", range(16))
def test_a_queue_that_hides_no_labels_is_remembered_in_one_that_does(
    client: Client, ann: User, bob: User, cas: User, page: int
) -> None:
    trial = make_trial(success=False)
    queue = told(make_queue([trial], reviewers=[ann, cas], hides_labels=False, reviews_per_item=3), ann, cas)
    take_report(queue, Occasion.DISCUSSION, ann)
    addresses = [*pages_of(queue)[:-1], f"/review/items/{queue.items.get().public_id}/"]
    assert client.get(addresses[page]).status_code == 200
    assert answers_counted(elsewhere(trial, queue, cas, bob))[1] == 1
    queue.reviewers.add(bob)
    make_review(queue.items.get(), bob, [CODE])
    assert answers_counted(queue) == (1, 0), "there everybody reads along"


def test_an_admin_who_read_a_resolution_in_the_log_is_not_independent(
    client: Client, ann: User, bob: User, cas: User
) -> None:
    boss = make_user(level="admin")
    queue = told(make_queue([make_trial(success=False)], reviewers=[ann, bob], reviews_per_item=3), ann, bob)
    take_report(queue, Occasion.DISCUSSION, ann)
    item = queue.items.get()
    code = queue.version.codes.get(name=CODE)
    resolve(
        item,
        cas,
        AdjudicatorVerdict(frozenset({code.public_id}), Resolution.Category.AGREED, memo="they agreed"),
        seen=None,
    )
    client.force_login(boss)
    assert "they agreed" in client.get("/activity/").text
    queue.reviewers.add(boss)
    make_review(item, boss, [CODE])
    assert answers_counted(queue) == (1, 1)


@pytest.mark.parametrize("page", ["codebook-version", "codebook-version-json", "codebook-export"])
def test_who_read_an_example_from_an_item_is_not_independent(client: Client, ann: User, bob: User, page: str) -> None:
    trial = make_trial(success=False)
    queue = told(make_queue([trial, make_trial(success=False)], reviewers=[ann]), ann)
    first, second = queue.items.all()
    [example] = add_from_mark(first.reviews.get().marks.get(), queue.version.codes.get(name=CODE), ann)
    address = [example.code.version.public_id, *(["yaml"] if page == "codebook-export" else [])]
    assert str(trial.public_id) in client.get(reverse(page, args=address)).text
    queue.reviewers.add(bob)
    for item in (first, second):
        make_review(item, bob, [CODE])
    assert answers_counted(queue) == (1, 1)


def test_what_nobody_had_said_yet_is_still_coded_independently(client: Client, ann: User, bob: User) -> None:
    queue = make_queue(reviewers=[ann], reviews_per_item=2)
    first, second = queue.items.all()
    make_review(first, ann, [CODE])
    client.get(reverse("results", args=[queue.public_id]))
    queue.reviewers.add(bob)
    make_review(first, bob, [CODE])
    make_review(second, bob, [CODE])
    make_review(second, ann, [CODE])
    assert answers_counted(queue) == (1, 1)


def test_reading_on_after_ones_own_answer_is_nobodys_loss(client: Client, ann: User, bob: User) -> None:
    queue = make_queue(reviewers=[ann, bob])
    first, second = queue.items.all()
    for item in (first, second):
        make_review(item, ann, [CODE])
    make_review(first, bob, [CODE])
    assert len(client.get(f"/review/items/{first.public_id}.json").json()["others"]) == 1
    make_review(second, bob, [CODE])
    client.get(reverse("agreement", args=[queue.public_id]))
    assert answers_counted(queue) == (2, 0)
    assert not Activity.objects.filter(verb=SEEN).exists()


def test_it_is_written_down_once(client: Client, ann: User) -> None:
    queue = told(make_queue(reviewers=[ann]), ann)
    for _ in range(3):
        client.get(reverse("results", args=[queue.public_id]))
    assert Activity.objects.filter(verb=SEEN, target_id=queue.public_id).count() == 1


def test_it_costs_one_query_where_nobody_read_ahead(ann: User, bob: User, django_assert_num_queries: Any) -> None:
    queue = told(make_queue(reviewers=[ann, bob]), ann, bob)
    with django_assert_num_queries(1):
        assert informed_reviews(queue) == frozenset()


def test_the_refusal_leads_to_the_queue_that_still_asks(client: Client, ann: User, bob: User) -> None:
    trial = make_trial(success=False)
    waiting = asked(bob, trial, name="Trials that <b>failed")
    other = told(make_queue([trial], reviewers=[ann]), ann)
    refused = client.get(reverse("agreement", args=[other.public_id]))
    assert refused.status_code == 403
    assert "The queue “Trials that &lt;b&gt;failed” still asks you about this." in refused.text
    assert f'primary" href="{waiting.get_absolute_url()}">Code 1 item of Trials' in refused.text
    assert "still asks you about this" in client.get(reverse("results", args=[other.public_id])).text


def test_the_list_names_the_queue_to_code_first(client: Client, ann: User, bob: User, cas: User) -> None:
    trial = make_trial(success=False)
    waiting = asked(bob, trial, name="Trials that <b>failed")
    told(make_queue([trial], reviewers=[ann]), ann)
    page = client.get("/review/").text.partition('id="queues"')[2]
    assert f'of <a href="{waiting.get_absolute_url()}">Trials that &lt;b&gt;failed</a>' in page
    assert page.count("disagreements open after your 1 item") == 2  # in the rows of both queues
    make_review(waiting.items.get(), bob, [CODE])
    assert "disagreements open after" not in client.get("/review/").text


@pytest.mark.parametrize("hides", ["", "on"])
def test_the_form_warns_of_disagreements_nobody_can_settle_until_it_is_coded(
    client: Client, ann: User, bob: User, cas: User, hides: str
) -> None:
    trial = make_trial(success=False)
    other = make_queue([trial], reviewers=[ann, cas])
    make_review(other.items.get(), ann, [CODE])
    make_review(other.items.get(), cas)
    said = "you cannot settle 1 open disagreement "
    sent = {"what": "trial:failed", "sampling": "all", "reviews": 1, "overlap": 100, "seed": 5, "hides_labels": "on"}
    sent |= {"show": "1", "hides_models": hides} if hides else {"show": "1"}
    assert said in client.post("/review/queues/new/", {**sent, "reviewers": ["bob"]}).text
    assert said not in client.post("/review/queues/new/", {**sent, "reviewers": ["ann"]}).text

"""The pages about agreement: what they show, to whom, and what opening them leaves in the record."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import AgreementReport, Queue, QueueItem, Resolution, Review, User
from benchapp.review.coding.queue_agreement import Agreement, Occasion, take_report
from inspector.pages.review.results.agreement_view import in_words, judge_alpha
from inspector.web.access import local_user
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_code, make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

SAID = [
    (["over-specific"], ["over-specific"]),
    (["misapplied"], ["silent bypass"]),
    (["misapplied", "over-specific"], ["over-specific"]),
    (["misapplied"], ["misapplied"]),
]


@pytest.fixture
def people() -> list[User]:
    return [make_user(username=name, level="reviewer") for name in ("ann", "bob")]


@pytest.fixture
def queue(people: list[User]) -> Queue:
    made = make_queue([make_trial(success=False) for _ in SAID], reviewers=people, name="<b>Spring</b>")
    for item, answers in zip(made.items.all(), SAID, strict=True):
        for person, codes in zip(people, answers, strict=True):
            make_review(item, person, codes, mark={"quote": "<script>alert(1)</script>", "memo": "see <i>step</i> 1"})
    return made


@pytest.fixture
def opened(queue: Queue, people: list[User]) -> Queue:
    take_report(queue, Occasion.DISCUSSION, people[0])
    return queue


def page(name: str, queue: Queue, query: str = "") -> str:
    return reverse(name, args=[queue.public_id]) + query


def resolve_page(item: QueueItem, query: str = "") -> str:
    return reverse("resolve", args=[item.public_id]) + query


def answer(item: QueueItem, *codes: str, **fields: Any) -> dict[str, Any]:
    known = dict(item.queue.version.codes.values_list("name", "public_id"))
    said = {"codes": [str(known[code]) for code in codes]} if codes else {"nothing_wrong": "on"}
    return {**said, "category": "slip", "attribution": "", "memo": "", **fields}


# --- agreement --------------------------------------------------------------------------------------------------------


def test_it_shows_alpha_with_what_it_rests_on(client: Client, queue: Queue) -> None:
    text = client.get(page("agreement", queue)).text
    value = Agreement(queue).codes.estimate.value
    assert f"<b>α {value:.2f}</b>" in text
    assert "2/4" not in text.partition('class="alphas"')[2].partition("<h2")[0], "the sentence above has it"
    assert "no interval: 4 tasks, too few for an interval" in text
    assert "<h1>Two reviewers gave the same codes to 2 of 4 items: read the labels with care.</h1>" in text
    assert "Another sample could differ a lot." in text
    assert "&lt;b&gt;Spring" in text


def test_the_sentence_never_calls_a_large_share_few(queue: Queue) -> None:
    found = Agreement(queue)
    wide = SimpleNamespace(value=0.4, interval=SimpleNamespace(low=-0.1, high=0.8))
    codes = SimpleNamespace(estimate=wide, equal=SimpleNamespace(k=11, n=14))
    assert in_words(SimpleNamespace(codes=codes, reviewers=found.reviewers)) == (  # type: ignore[arg-type]
        "Two reviewers gave the same codes to 11 of 14 items, but chance alone could explain that."
    )


def test_its_twin_says_the_same_numbers(client: Client, queue: Queue) -> None:
    data = client.get(page("agreement-json", queue)).json()
    assert data["now"]["codes"]["alpha"] == pytest.approx(Agreement(queue).codes.estimate.value)
    assert data["now"]["codes"]["equal"] == {"k": 2, "n": 4, "share": 0.5}
    by_name = {row["name"]: row for row in data["now"]["by_code"]}
    assert by_name["misapplied"]["both"] == {"k": 1, "n": 3, "share": pytest.approx(1 / 3)}
    assert by_name["misapplied"]["coefficient"] == "Cohen's kappa"
    names = {row["code"]: row["name"] for row in data["now"]["by_code"]}
    cells = {(names.get(row["code"]), names.get(row["with"])): row["pairs"] for row in data["now"]["confusion"]}
    assert cells["over-specific", "over-specific"] == 2
    assert cells["misapplied", "silent bypass"] == cells["silent bypass", "misapplied"] == 1
    assert cells["misapplied", None] == 1


def test_the_matrix_leads_to_items_only_once_they_are_open(client: Client, queue: Queue, people: list[User]) -> None:
    link = page("disagreements", queue) + "?code="
    assert link not in client.get(page("agreement", queue)).text
    take_report(queue, Occasion.DISCUSSION, people[0])
    text = client.get(page("agreement", queue)).text
    assert link in text
    assert "so later reviews may be discussed" in text


def test_an_empty_queue_says_what_is_missing(client: Client) -> None:
    text = client.get(page("agreement", make_queue())).text
    assert "Agreement cannot be measured yet: no item has two answers." in text
    assert "0 of 2 shared items have all their reviews" in text
    assert "None yet. The last shared review makes one" in text
    assert text.count("button primary") == 1, "to the queue; there is no disagreement to see"
    assert 'class="alpha' not in text


def test_alone_a_queue_of_single_reviews_leads_to_where_a_second_person_is_added(client: Client) -> None:
    """Each step has its control: an account, then whom to assign, then how many reviews."""
    queue = make_queue([make_trial(success=False)], reviewers=[local_user()], reviews_per_item=1)
    make_review(queue.items.get(), local_user(), ["misapplied"])
    for text in (client.get(page("agreement", queue)).text, client.get(queue.get_absolute_url()).text):
        assert '<a href="/people/">Invite a second reviewer</a>' in text
        assert "#raise" not in text
        assert "button primary" not in text.partition("<main")[2] or "See results" in text
    bob = make_user(username="bob", level="reviewer")
    text = client.get(page("agreement", queue)).text
    assert f'{queue.get_absolute_url()}#manage">Assign a second reviewer' in text
    assert 'id="manage"' in client.get(queue.get_absolute_url()).text
    client.post(page("queue-people", queue), {"add": bob.username})
    assert f'{queue.get_absolute_url()}#raise">Ask for second reviews' in client.get(page("agreement", queue)).text
    assert 'id="raise"' in client.get(queue.get_absolute_url()).text


def test_codes_stand_as_a_tree_and_hostile_names_are_text(client: Client, people: list[User]) -> None:
    version = make_version(["<b>top</b>"])
    below = make_code(version, "below", parent=version.codes.get())
    queue = make_queue([make_trial(success=False)], version=version)
    for person in people:
        make_review(queue.items.get(), person, [below])
    text = client.get(page("agreement", queue)).text
    assert "&lt;b&gt;top" in text
    assert 'class="depth-1"' in text
    assert "Top-level codes" in text


def test_a_report_is_kept_on_asking(client: Client, queue: Queue) -> None:
    response = client.post(page("agreement-keep", queue))
    assert response.status_code == 302
    report = AgreementReport.objects.get()
    assert (report.occasion, report.is_before_discussion, report.taken_by.username) == ("asked", True, "local")
    assert "the one to publish" in client.get(page("agreement", queue)).text


def test_reports_that_say_the_same_are_one_row(client: Client, queue: Queue, people: list[User]) -> None:
    for occasion in (Occasion.COMPLETE, Occasion.DISCUSSION):
        take_report(queue, occasion, people[0])
    rows = client.get(page("agreement", queue)).text.partition('id="reports"')[2].partition("</table>")[0]
    assert rows.count('<th scope="row">') == 1
    assert "the one to publish" in rows
    assert len(client.get(page("agreement-json", queue)).json()["reports"]) == 2


def test_a_report_that_nobody_asked_for_names_nobody(client: Client, queue: Queue, people: list[User]) -> None:
    take_report(queue, Occasion.COMPLETE, people[1])
    text = client.get(page("agreement", queue)).text
    assert "by itself" in text
    assert "by bob" not in text
    assert client.get(page("agreement-json", queue)).json()["reports"][0]["taken_by"] == people[1].pseudonym


def test_reading_it_leaves_nothing_in_the_record(client: Client, queue: Queue) -> None:
    for name in ("agreement", "disagreements"):
        client.get(page(name, queue))
    assert not AgreementReport.objects.exists()


def test_a_queue_of_single_reviews_leads_to_second_ones(client: Client, accounts: None, people: list[User]) -> None:
    """Looking for the way is no look at what others said."""
    ann, bob = people
    queue = make_queue([make_trial(success=False)], reviewers=people, reviews_per_item=1, created_by=ann)
    make_review(queue.items.get(), ann, ["misapplied"])
    client.force_login(bob)
    assert "can ask for more" in client.get(page("agreement", queue)).text
    client.force_login(ann)
    way = f"{queue.get_absolute_url()}#raise"
    assert way in client.get(page("agreement", queue)).text
    assert 'min="2" max="2"' in client.get(queue.get_absolute_url()).text
    client.post(page("queue-reviews", queue), {"reviews": "2"})
    client.force_login(bob)
    assert client.post(page("queue-next", queue)).url == queue.items.get().get_absolute_url()
    make_review(queue.items.get(), bob, ["misapplied"])
    client.force_login(ann)
    text = client.get(page("agreement", queue)).text
    assert way not in text
    assert Agreement(queue).double == 1


@pytest.mark.parametrize("sent", ["1", "x", "", "9" * 30, "3"])
def test_reviews_are_raised_in_numbers_that_people_can_give(client: Client, people: list[User], sent: str) -> None:
    queue = make_queue([make_trial(success=False)], reviewers=people, reviews_per_item=1)
    assert client.post(page("queue-reviews", queue), {"reviews": sent}).status_code == 302
    queue.refresh_from_db()
    assert queue.reviews_per_item == 1


# --- disagreements ----------------------------------------------------------------------------------------------------


def test_before_anybody_opened_them_nothing_of_them_is_shown(client: Client, queue: Queue) -> None:
    text = client.get(page("disagreements", queue)).text
    assert "Keep the agreement, then discuss" in text
    assert "silent bypass" not in text
    data = client.get(page("disagreements-json", queue)).json()
    assert (data["opened"], data["items"]) == (False, [])
    item = queue.items.first()
    assert client.get(resolve_page(item)).url == page("disagreements", queue)
    assert client.get(reverse("resolve-json", args=[item.public_id])).json()["reviews"] == []


def test_opening_them_keeps_the_agreement_first(client: Client, queue: Queue) -> None:
    response = client.post(page("disagreements-open", queue), follow=True)
    assert "item 2" in response.text
    report = AgreementReport.objects.get()
    assert (report.occasion, report.is_before_discussion) == ("discussion", True)
    assert report.values["codes"]["items"] == 4


def test_they_list_what_differs_by_kind_state_and_cell(client: Client, opened: Queue) -> None:
    def numbers(query: str) -> list[int]:
        return [row["number"] for row in client.get(page("disagreements-json", opened, query)).json()["items"]]

    codes = dict(opened.version.codes.values_list("name", "public_id"))
    assert numbers("") == [2, 3]
    assert numbers("?about=any") == [1, 2, 3, 4]
    assert numbers("?about=attribution") == []
    assert numbers("?state=resolved") == []
    assert numbers(f"?code={codes['misapplied']}&with={codes['silent bypass']}") == [2]
    assert numbers(f"?code={codes['misapplied']}&with=none") == [3]
    assert numbers(f"?code={codes['misapplied']}&with={codes['misapplied']}") == [4]
    assert numbers("?about=nonsense&state=x&code=1&with=2") == [2, 3]


def test_the_twin_names_nobody(client: Client, opened: Queue, people: list[User]) -> None:
    text = client.get(page("disagreements-json", opened)).text
    assert people[0].pseudonym in text
    assert "ann" not in text


def test_its_queries_do_not_grow_with_the_items(client: Client, opened: Queue, people: list[User]) -> None:
    def more(count: int) -> None:
        for _ in range(count):
            item = make_item(opened, trial=make_trial(success=False))
            for person, code in zip(people, ("misapplied", "silent bypass"), strict=True):
                make_review(item, person, [code])

    more(1)
    client.get(
        page("disagreements", opened)
    )  # the first look at what others said is written down, by queries of its own
    assert_queries_flat(client, page("disagreements", opened), more)
    assert_queries_flat(client, page("agreement", opened), more)


def test_one_count_of_open_disputes_on_every_page(client: Client, opened: Queue, people: list[User]) -> None:
    """Two of four differ in codes; one that agrees in codes is none, though no adjudicator said a word of it."""

    def count() -> list[int]:
        index = client.get("/review.json").json()["queues"][0]["awaiting_resolution"]
        statuses = client.get(page("queue-json", opened)).json()["statuses"]["awaiting resolution"]
        rows = client.get(page("disagreements-json", opened, "?about=any")).json()["items"]
        results = client.get(page("results-json", opened)).json()["items_by_basis"]["unresolved"]
        return [index, statuses, sum(row["state"] == "open" for row in rows), results]

    def said(query: str) -> tuple[str, str]:
        listed = client.get(page("disagreements", opened, query)).text
        settle = client.get(resolve_page(opened.items.first(), query)).text
        return listed, settle

    assert count() == [2, 2, 2, 2]
    for query in ("", "?about=any", "?about=step"):
        listed, settle = said(query)
        assert "<h1>2 disagreements are open</h1>" in listed
        assert "<b>2</b> disagreements open" in settle
    listed, _ = said("?about=any&state=any")
    assert listed.count("not needed: same codes") == 2
    for item in opened.items.all()[1:3]:
        client.post(resolve_page(item, "?about=any"), answer(item, "misapplied"))
    assert count() == [0, 0, 0, 0]
    listed, settle = said("?about=any")
    assert "No disagreements are open, 2 settled</h1>" in listed
    assert "<b>0</b> disagreements open" in settle
    assert "No disagreement is open." in client.get(page("results", opened)).text


def test_five_pages_of_a_queue_lead_to_each_other(client: Client, opened: Queue) -> None:
    names = ("queue", "results", "agreement", "disagreements", "suggestions")
    for name in names:
        text = client.get(page(name, opened)).text
        tabs = text.partition('aria-label="Of this queue">')[2].partition("</nav>")[0]
        assert re.findall(r'href="([^"]+)"', tabs) == [page(each, opened) for each in names]
        assert f'href="{page(name, opened)}" aria-current="page"' in tabs


def test_what_is_to_settle_comes_first_and_alone(client: Client, opened: Queue) -> None:
    statuses = re.findall(r'class="badge (warn|ok)"', client.get(page("queue", opened, "?status=all")).text)
    assert statuses == ["warn", "warn"]
    assert client.get(page("queue", opened)).text.count('<td class="wide">') == 2
    assert client.get(page("disagreements", opened)).text.count('<span class="badge warn">open</span>') == 2
    client.post(resolve_page(opened.items.all()[1]), answer(opened.items.all()[1], "misapplied"))
    assert ">settled</span>" not in client.get(page("disagreements", opened)).text
    assert ">settled</span>" in client.get(page("disagreements", opened, "?state=any")).text


def test_a_dispute_is_open_before_the_last_review_is_in(client: Client, people: list[User]) -> None:
    queue = make_queue([make_trial(success=False)], reviews_per_item=3)
    for person, code in zip(people, ("misapplied", "over-specific"), strict=True):
        make_review(queue.items.get(), person, [code])
    take_report(queue, Occasion.DISCUSSION, people[0])
    assert client.get("/review.json").json()["queues"][0]["awaiting_resolution"] == 1
    assert client.get(page("queue-json", queue)).json()["statuses"]["awaiting resolution"] == 1
    assert "1 disagreement is open</h1>" in client.get(page("disagreements", queue)).text


def test_the_list_names_tasks(client: Client, opened: Queue) -> None:
    title = opened.items.all()[1].trial.task.title
    assert client.get(page("disagreements-json", opened)).json()["items"][0]["title"] == title
    assert f">{title}</a>" in client.get(page("disagreements", opened)).text
    assert client.get(page("queue", opened)).text.count(f">{title}</a>") == 1


def test_opening_says_that_the_agreement_is_kept_already(client: Client, queue: Queue, people: list[User]) -> None:
    assert "Keep it and open" in client.get(page("disagreements", queue)).text
    take_report(queue, Occasion.COMPLETE, people[0])
    text = client.get(page("disagreements", queue)).text
    assert "The agreement is saved: you can discuss now" in text
    assert "Keep it and open" not in text


def test_alpha_has_a_word_beside_it_and_unused_codes_are_folded(client: Client, queue: Queue) -> None:
    text = client.get(page("agreement", queue)).text
    assert "tentative from .67" in text
    make_code(queue.version, "never used")
    folded = client.get(page("agreement", queue)).text.partition('<details class="unused-codes">')[2]
    assert "1 code nobody used" in folded
    assert "never used" in folded.partition("</details>")[0]


@pytest.mark.parametrize(
    ("value", "low", "word"),
    [
        (None, None, ""),
        (0.9, None, "reliable"),
        (0.9, 0.7, "reliable"),
        (0.7, 0.1, "tentative"),
        (0.5, 0.1, "read with care"),
        (0.5, -0.1, "may be chance"),
        (-0.2, None, "may be chance"),
    ],
)
def test_the_word_follows_from_alpha(value: float | None, low: float | None, word: str) -> None:
    assert judge_alpha(value, low) == word


# --- resolving --------------------------------------------------------------------------------------------------------


def test_the_reviews_stand_side_by_side_as_text(client: Client, opened: Queue) -> None:
    text = client.get(resolve_page(opened.items.all()[1])).text
    assert "Review by ann" in text
    assert "Review by bob" in text
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert(1)" not in text
    assert "?step=1#step-1" in text


def test_an_adjudicator_reads_what_each_code_means(client: Client, opened: Queue) -> None:
    make_code(opened.version, "unread", include="Read, not followed.", exclude="<b>Never read.</b>")
    text = client.get(resolve_page(opened.items.all()[1])).text
    assert '<p class="definition muted small breaks own-line">What misapplied means.</p>' in text
    assert "<dt>Use it when</dt><dd>Read, not followed.</dd>" in text
    assert "<dt>Not when</dt><dd>&lt;b&gt;Never read.&lt;/b&gt;</dd>" in text


def test_what_all_reviews_share_is_ticked_from_the_start(client: Client, opened: Queue) -> None:
    item = opened.items.all()[2]
    text = client.get(resolve_page(item)).text
    shared = opened.version.codes.get(name="over-specific").public_id
    assert f'value="{shared}" checked' in text
    assert text.count("checked") == 2  # and "not given" of the attribution


def test_resolving_goes_on_to_the_next_open_one_of_the_same_list(client: Client, opened: Queue) -> None:
    second, third = opened.items.all()[1:3]
    before = list(Review.objects.values())
    response = client.post(resolve_page(second, "?about=codes&state=open"), answer(second, "misapplied"))
    assert response.url == resolve_page(third, "?about=codes&state=open") + "#main"
    made = Resolution.objects.get()
    assert (made.adjudicator.username, [code.name for code in made.codes.all()]) == ("local", ["misapplied"])
    assert list(Review.objects.values()) == before
    last = client.post(resolve_page(third), answer(third), follow=True)
    assert "No disagreement is open." in last.text
    assert f'primary" href="{page("results", opened)}">See results' in last.text
    assert client.get(page("disagreements-json", opened, "?state=resolved")).json()["items"][0]["category"] == "slip"


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"category": ""}, 400, "Choose why they differ."),
        ({"category": "moon"}, 400, "moon"),
        ({"category": "agreed"}, 400, "The reviewers disagreed here"),
        ({"codes": ["5c1119a5-9a2c-5d6e-8f0b-7b1d3f2e4a60"]}, 400, "not one of the available choices"),
        ({"codes": []}, 400, "No code is set. Press 0, or tick"),
        ({"seen": "5c1119a5-9a2c-5d6e-8f0b-7b1d3f2e4a60"}, 409, "Somebody else settled this item first"),
    ],
)
def test_what_cannot_stand_is_refused_and_stays_in_the_form(
    client: Client, opened: Queue, fields: dict[str, Any], status: int, said: str
) -> None:
    item = opened.items.all()[1]
    sent = {**answer(item, "misapplied", memo="kept & shown"), **fields}
    response = client.post(resolve_page(item), sent)
    assert response.status_code == status
    assert said in response.text
    assert "kept &amp; shown" in response.text
    assert not Resolution.objects.exists()


def test_nothing_wrong_is_said_aloud(client: Client, opened: Queue, people: list[User]) -> None:
    ticked = 'name="nothing_wrong" checked'
    item = opened.items.all()[1]
    text = client.get(resolve_page(item)).text
    assert ticked not in text
    assert text.count("(required)") == 2
    client.post(resolve_page(item), answer(item))
    assert Resolution.objects.get().codes.count() == 0
    assert ticked in client.get(resolve_page(item)).text, "it stands so"
    clean = make_item(opened, trial=make_trial(success=False))
    for person in people:
        make_review(clean, person)
    assert ticked in client.get(resolve_page(clean)).text, "all reviews said so"


def test_who_failed_folds_where_all_blame_the_same(client: Client, opened: Queue, people: list[User]) -> None:
    agreed, split = (make_item(opened, trial=make_trial(success=False)) for _ in range(2))
    for person, other in zip(people, ("agent", "task"), strict=True):
        make_review(agreed, person, ["misapplied"], mark={"attribution": "agent", "is_first_failure": True})
        make_review(split, person, ["misapplied"], mark={"attribution": other})
    said = client.get(resolve_page(agreed)).text
    assert "Who or what failed: <b>agent</b>" in said
    assert "First mistakes stay as each reviewer marked them." in said
    said = client.get(resolve_page(split)).text
    assert "Who or what failed: " not in said
    assert "First mistakes stay" not in said


def test_a_resolution_is_replaced_only_by_who_saw_it(client: Client, opened: Queue) -> None:
    item = opened.items.all()[1]
    client.post(resolve_page(item), answer(item, "misapplied"))
    first = Resolution.objects.get()
    assert client.post(resolve_page(item), answer(item)).status_code == 409
    client.post(resolve_page(item), answer(item, "silent bypass", seen=str(first.public_id)))
    text = client.get(resolve_page(item)).text
    assert Resolution.objects.filter(superseded_at=None).get() != first
    assert "superseded" in text


# --- who --------------------------------------------------------------------------------------------------------------

CLOSED = ["agreement", "agreement-json", "disagreements", "disagreements-json"]


@pytest.fixture
def accounts(settings: Any) -> None:
    settings.SINGLE_USER = False


@pytest.mark.parametrize("name", CLOSED)
def test_who_still_has_blind_items_gets_none_of_it(
    client: Client, accounts: None, opened: Queue, people: list[User], name: str
) -> None:
    item = make_item(opened, trial=make_trial(success=False))
    make_review(item, people[0], ["misapplied"])
    client.force_login(people[1])
    response = client.get(page(name, opened))
    assert response.status_code == 403
    assert "You still have 1 item of this queue" in response.text
    assert client.get(resolve_page(opened.items.first())).status_code == 403
    client.force_login(people[0])
    assert client.get(page(name, opened)).status_code == 200


def test_viewers_read_and_change_nothing(client: Client, accounts: None, opened: Queue) -> None:
    client.force_login(make_user(level="viewer"))
    item = opened.items.all()[1]
    assert client.get(page("agreement", opened)).status_code == 200
    text = client.get(resolve_page(item)).text
    assert "Only reviewers settle disagreements. Your level is viewer; an admin can change it." in text
    assert "<textarea" not in text
    for url in (page("agreement-keep", opened), page("disagreements-open", opened)):
        assert client.post(url).status_code == 403
    assert client.post(resolve_page(item), answer(item)).status_code == 403
    assert AgreementReport.objects.count() == 1


def test_reviewers_of_an_item_read_how_it_was_answered_but_do_not_resolve_it(
    client: Client, accounts: None, opened: Queue, people: list[User]
) -> None:
    item = opened.items.all()[1]
    client.force_login(people[0])
    assert "You reviewed this item" in client.get(resolve_page(item)).text
    assert client.post(resolve_page(item), answer(item)).status_code == 403
    listed = client.get(page("disagreements", opened)).text
    assert "You reviewed every open item. Somebody else or an admin must settle them." in listed
    assert listed.count("not yours to settle") == 2
    client.force_login(make_user(level="reviewer"))
    assert "yours to settle" not in client.get(page("disagreements", opened)).text
    assert client.post(resolve_page(item), answer(item)).status_code == 302


def test_review_offers_who_may_settle_what_is_open(
    client: Client, accounts: None, queue: Queue, people: list[User]
) -> None:
    def offered(person: User) -> bool:
        client.force_login(person)
        text = client.get("/review/").text
        assert ("You have nothing to code" in text) is ("Yours to settle" not in text)
        button = f'href="{page("disagreements", queue)}?state=open">Settle 2'
        in_queue = client.get(page("queue", queue)).text
        assert (button in in_queue) is (button in text)
        assert ("for somebody else to settle" in in_queue) is (button not in text and person != admin)
        return button in text

    other, admin = make_user(level="reviewer"), make_user(level="admin")
    assert [offered(person) for person in (people[0], make_user(level="viewer"), other, admin)] == [
        *(False, False),
        *(True, True),
    ]
    make_review(queue.items.all()[1], other, ["misapplied"])
    client.force_login(other)
    assert "Settle 1 disagreement<" in client.get("/review/").text, "one of the two is their own now"
    item = make_item(queue, trial=make_trial(success=False))
    assert not offered(admin), "a review is still to come"
    make_review(item, people[0])
    make_review(item, people[1])
    assert offered(admin)

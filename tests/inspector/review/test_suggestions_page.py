from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.analysis.trial_rules import RULES, RULES_VERSION
from benchapp.models import Activity, Blob, JudgeCall, Queue, Resolution, Suggestion, User
from benchapp.review.suggestions.suggestion_runs import suggest
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

CODES = ("numeric/formula", "silent bypass")


def make_settled(size: int = 3, **fields: Any) -> Queue:
    """Every item failed by a number; people agree about the first ones and see nothing in the last."""
    queue = make_queue([make_trial(success=False) for _ in range(size)], version=make_version(CODES), **fields)
    reviewers = [make_user(), make_user()]
    for item in queue.items.all():
        for reviewer in reviewers:
            make_review(item, reviewer, ["numeric/formula"] if item.ordinal < size - 1 else [])
    suggest(queue)
    return queue


def url(queue: Queue, name: str = "suggestions") -> str:
    return reverse(name, args=[queue.public_id])


def test_it_shows_finding_and_leaving_alone_apart(client: Client) -> None:
    queue = make_settled()
    data = client.get(url(queue, "suggestions-json")).json()
    numeric = next(row for row in data["codes"] if row["code"] == "numeric/formula")
    assert (numeric["tpr"]["k"], numeric["tpr"]["n"]) == (2, 2)
    assert (numeric["tnr"]["k"], numeric["tnr"]["n"]) == (0, 1)
    assert (numeric["precision"]["k"], numeric["precision"]["n"]) == (2, 3)
    assert data["says"] == "Compared with 3 settled items: 3 where all reviews agree."
    assert data["rules_version"] == RULES_VERSION
    page = client.get(url(queue)).text
    assert "2/3" in page
    assert "Settled items: 3. These rates need about 100" in page


def test_it_lists_the_items_behind_a_number(client: Client) -> None:
    queue = make_settled()
    only_rules = client.get(url(queue, "suggestions-json"), {"kind": "source"}).json()["listed"]
    assert [row["number"] for row in only_rules] == [3]
    assert only_rules[0]["reason"] == "Expected 41.2, got 27.5."
    matched = client.get(url(queue, "suggestions-json"), {"kind": "matched"}).json()["listed"]
    assert [row["number"] for row in matched] == [1, 2]
    silent = queue.version.codes.get(name="silent bypass").public_id
    assert client.get(url(queue, "suggestions-json"), {"kind": "matched", "code": silent}).json()["listed"] == []


@pytest.mark.parametrize("query", ["?source=nobody", "?kind=all&code=7", "?page=99", "?source=%01&code=%F0%9F"])
def test_nonsense_in_the_address_is_as_if_it_were_not_there(client: Client, query: str) -> None:
    assert client.get(url(make_settled()) + query).status_code == 200


def test_it_documents_every_rule_and_says_which_have_no_code(client: Client) -> None:
    queue = make_settled()
    data = client.get(url(queue, "suggestions-json")).json()
    shown = {row["rule"]: row for row in data["rules"]}
    assert set(shown) == {key for key in RULES if key not in ("over-specific", "skill-inflation", "clutter")}
    assert shown["agent-timeout"]["code"] is None
    assert shown["agent-timeout"]["precision"] is None
    page = client.get(url(queue)).text
    assert "Cannot see:" in page
    assert "none; proposes “agent timeout”" in page


def test_a_queue_that_nobody_looked_at_says_what_to_do(client: Client) -> None:
    queue = make_queue(version=make_version(CODES))
    page = client.get(url(queue)).text
    assert "Nothing is settled yet" in page
    assert "The rules have not read" in page
    assert "Fired, items" not in page  # no rule was tried
    assert "Run the rules" in page
    assert f"manage.py judge {queue.public_id}" in page


def test_a_judge_stands_with_its_calls_and_its_cost(client: Client) -> None:
    queue = make_settled()
    item = queue.items.first()
    for status, cost in (("answered", 0.02), ("refused", None), ("unreadable", None)):
        JudgeCall.objects.create(
            queue=queue, item=item, model="scripted/x", prompt_version="judge/1", scripted=True, status=status,
            cost_usd=cost, input_tokens=1000, request_id=Blob.objects.put(b"{}"),
        )  # fmt: skip
    data = client.get(url(queue, "suggestions-json"), {"source": "judge scripted/x judge/1"}).json()
    assert data["judges"][0]["statuses"] == {"answered": 1, "refused": 1, "unreadable": 1}
    assert (data["judges"][0]["cost_usd"], data["judges"][0]["calls_of_known_cost"]) == (0.02, 1)
    numeric = next(row for row in data["codes"] if row["code"] == "numeric/formula")
    assert (numeric["only_people"], numeric["both"]) == (1, 0)
    page = client.get(url(queue), {"source": "judge scripted/x judge/1"}).text
    assert "scripted model" in page
    assert "This judge is scripted" in page
    assert "Tune on one queue" in page
    assert "of 1/3 calls" in page
    assert "Settled items without an answer from this source: 2" in page


def test_it_says_that_reviewers_saw_the_suggestions(client: Client) -> None:
    assert "saw suggestions while they coded" in client.get(url(make_settled(hides_suggestions=False))).text
    assert "saw suggestions while they coded" not in client.get(url(make_settled())).text


def test_hostile_words_stay_words(client: Client) -> None:
    queue = make_settled()
    Suggestion.objects.update(quote="<script>alert(1)</script>", reason="<b>bold</b>\u202e")
    page = client.get(url(queue)).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "\u202e" not in page


def test_it_asks_the_database_no_more_for_more_items(client: Client) -> None:
    queue = make_queue([], version=make_version(CODES))
    people = [make_user(), make_user()]

    def add(size: int) -> None:
        for _ in range(size):
            item = make_item(queue, trial=make_trial(success=False))
            for person in people:
                make_review(item, person, [])
        suggest(queue)

    add(1)
    client.get(url(queue))  # the first look at what others said is written down, by queries of its own
    assert_queries_flat(client, url(queue), add)


# --- running the rules ------------------------------------------------------------------------------------------


def test_a_press_of_the_button_runs_the_rules_and_is_written_down(client: Client) -> None:
    queue = make_queue(version=make_version(CODES))
    response = client.post(url(queue, "suggestions-run"), follow=True)
    assert "The rules have read every item." in response.text
    assert Suggestion.objects.filter(item__queue=queue).count() == 2
    note = Activity.objects.get(verb="queue.examined")
    assert (note.target_id, note.detail["rules"]) == (queue.public_id, RULES_VERSION)


def test_a_rule_that_fired_is_given_a_code_on_the_page(client: Client) -> None:
    version = make_version(["wrong <b>sum", "other"])
    queue = make_queue([make_trial(success=False)], version=version)
    client.post(url(queue, "suggestions-run"))
    fired = Suggestion.objects.exclude(rule="").values_list("rule", flat=True).first()
    page = client.get(url(queue)).text
    assert f'name="code-{fired}" form="run-rules"' in page
    assert "rules fired on no item" in page
    assert "--names" not in page
    response = client.post(url(queue, "suggestions-run"), {f"code-{fired}": "wrong <b>sum"}, follow=True)
    assert '<option value="wrong &lt;b&gt;sum" selected>' in response.text
    assert Suggestion.objects.get(rule=fired).code == version.codes.get(name="wrong <b>sum")
    assert Activity.objects.latest("pk").detail["codes"] == {fired: "wrong <b>sum"}
    assert client.post(url(queue, "suggestions-run"), {f"code-{fired}": "none such"}).status_code == 404


def test_a_viewer_reads_and_does_not_run(client: Client, settings: Any) -> None:
    queue = make_settled()
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.VIEWER))
    page = client.get(url(queue))
    assert page.status_code == 200
    assert "Run the rules" not in page.text
    assert client.post(url(queue, "suggestions-run")).status_code == 403


# --- blindness --------------------------------------------------------------------------------------------------


def test_it_is_closed_to_whoever_still_reviews_blind(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    user = make_user(level=User.Level.REVIEWER)
    queue = make_queue(version=make_version(CODES), reviewers=[user])
    suggest(queue)
    client.force_login(user)
    for name in ("suggestions", "suggestions-json"):
        response = client.get(url(queue, name))
        assert response.status_code == 403
        assert b"numeric" not in response.content
    assert client.post(url(queue, "suggestions-run")).status_code == 403
    for item in queue.items.all():
        make_review(item, user, [])
    assert client.get(url(queue)).status_code == 200


def test_the_coding_page_shows_suggestions_only_after_submitting(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    user = make_user(level=User.Level.REVIEWER)
    queue = make_queue(version=make_version(CODES), reviewers=[user], hides_conditions=False, hides_models=False)
    suggest(queue)
    client.force_login(user)
    item = queue.items.first()
    address = reverse("review-item", args=[item.public_id])
    assert "Expected 41.2, got 27.5." not in client.get(address).text
    make_review(item, user, [])
    assert "Expected 41.2, got 27.5." in client.get(address).text


def test_a_resolution_wins_over_the_reviews(client: Client) -> None:
    queue = make_settled()
    item = queue.items.first()
    Resolution.objects.create(item=item, adjudicator=make_user(), category="slip")
    data = client.get(url(queue, "suggestions-json")).json()
    numeric = next(row for row in data["codes"] if row["code"] == "numeric/formula")
    assert (numeric["both"], numeric["only_source"]) == (1, 2)
    assert "1 settled by an adjudicator, 2 where all reviews agree" in data["says"]


def test_it_shows_how_often_after_correction(client: Client) -> None:
    """All three items have a number that is wrong, by the rules; people see it in two, which they settled all."""
    queue = make_settled()
    numeric = next(row for row in client.get(url(queue, "suggestions-json")).json()["codes"] if row["both"])
    assert (numeric["rate"]["judge"], numeric["rate"]["people"], numeric["rate"]["settled"]) == (1.0, 2 / 3, 3)
    assert numeric["rate"]["value"] == pytest.approx(2 / 3)
    page = client.get(url(queue)).text
    assert "How often, corrected" in page
    assert "3 settled, too few for an interval" in page


def test_rules_without_a_code_here_are_not_measured_by_the_codes_of_people(client: Client) -> None:
    queue = make_queue(
        [make_trial(success=False) for _ in range(3)], version=make_version(["asked for, not handed in"])
    )
    for item in queue.items.all():
        for reviewer in (make_user(), make_user()):
            make_review(item, reviewer, ["asked for, not handed in"])
    suggest(queue)
    page = client.get(url(queue)).text
    assert "rules read 3 items; none has a code in this codebook" in page
    assert "leaves alone" not in page
    assert "How often, corrected" not in page
    assert client.get(url(queue, "suggestions-json")).json()["codes"] == []


def test_a_code_without_a_rule_does_not_count_against_the_rules(client: Client) -> None:
    version = make_version(["numeric/formula", "asked for, not handed in"])
    queue = make_queue([make_trial(success=False)], version=version)
    for reviewer in (make_user(), make_user()):
        make_review(queue.items.get(), reviewer, ["numeric/formula", "asked for, not handed in"])
    suggest(queue)
    assert "found 1 of the 1 codes that people gave and that have a rule" in client.get(url(queue)).text

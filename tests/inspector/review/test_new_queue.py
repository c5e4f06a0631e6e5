"""The page of a new queue: what would be drawn, what is refused, what it makes."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Codebook, Experiment, Queue, Review, User
from benchapp.review.queues.claims import claim, fill
from inspector.web.access import local_user
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import (
    make_episode,
    make_experiment,
    make_run,
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


def form(**changes: Any) -> dict[str, Any]:
    version = make_version()
    return {
        "what": "trial:failed",
        "sampling": "all",
        "reviews": 1,
        "overlap": 100,
        "seed": 5,
        "reviewers": [local_user().username],
        "name": "first pass",
        "version": str(version.public_id),
        "reservation": 30,
        "hides_conditions": "on",
        **changes,
    }


def test_who_cannot_log_in_is_no_reviewer(people: None) -> None:
    ann, local = reviewer(), local_user()
    text = as_person(ann).get(NEW).text
    assert f'value="{ann.username}" checked' in text
    assert f'value="{local.username}"' not in text
    make_trial(success=False)
    answer = as_person(ann).post(NEW, form(reviewers=[local.username]))
    assert answer.status_code == 400
    assert not Queue.objects.exists()


def test_what_is_wrong_is_said_once(client: Client) -> None:
    make_trial(success=False)
    answer = client.post(NEW, form(sampling="random", size=""))
    assert answer.text.count("Say how many items to draw.") == 1
    shown = client.post(NEW, form(sampling="random", size="", show="1"))
    assert shown.text.count("Say how many items to draw.") == 1


def test_probes_are_folded_until_one_is_chosen(client: Client) -> None:
    make_trial(success=False)
    probe = make_run(condition="library-probe").experiment
    folded = "<summary>1 probe</summary>"
    assert folded in client.get(NEW).text
    assert folded not in client.get(NEW, {"experiment": str(probe.public_id)}).text


def test_it_says_what_it_gives_before_anything_is_saved(client: Client) -> None:
    for success in (False, False, True, None):
        make_trial(success=success)
    found = client.get("/review/queues/new.json").json()
    assert (found["population_total"], found["items"], found["median_seconds"]) == (2, 2, None)
    assert found["hours_per_person"] is None
    queue = make_small_queue([], version=make_version())
    make_review(make_item(queue, trial=make_trial()), reviewer(), seconds=120)
    page = client.post(NEW, form(what="trial:all", sampling="random", size=2, show="1")).text
    assert "<b>2 items</b>" in page
    assert "<dt>Time per person</dt><dd>about 4 min</dd>" in page
    assert page.count('name="make" value="1" form="new-queue"') == 2  # in the bill, and in sight below a narrow form
    assert Queue.objects.count() == 1


@pytest.mark.parametrize("name", ["covered", "replay", "outcome", "role", "phase", "metric", "unit", "preset", "since"])
def test_a_selection_that_means_nothing_is_refused_in_words(client: Client, name: str) -> None:
    assert client.get(f"{NEW}?{name}=x").status_code == 400
    answer = client.get(f"/review/queues/new.json?{name}=x")
    assert answer.status_code == 400
    assert answer.json()["problems"][0].startswith(f"{name}: ")


def test_it_makes_the_queue_of_its_address(client: Client) -> None:
    kept = make_trial(make_episode(make_run(condition="curated-static")), success=False)
    make_trial(success=False)
    response = client.post(f"{NEW}?condition=curated-static", form(instructions="Read first."))
    queue = Queue.objects.get()
    assert response.url == queue.get_absolute_url()
    assert [item.trial for item in queue.items.all()] == [kept]
    assert (queue.hides_conditions, queue.hides_models) == (True, False)
    assert (queue.instructions, queue.reservation_seconds, queue.seed) == ("Read first.", 1800, 5)
    assert list(queue.reviewers.all()) == [local_user()]


def test_the_list_of_trials_leads_to_a_queue_of_the_same_trials(client: Client) -> None:
    make_trial(success=False)
    make_trial(success=True)
    page = client.get("/compare/trials/?outcome=passed").text
    assert f"{NEW}?outcome=passed" in page
    assert client.get("/review/queues/new.json?outcome=passed").json()["from"] == "trials that passed"
    assert f"{NEW}?&amp;preset=all" in client.get("/compare/trials/").text
    assert client.get("/review/queues/new.json?&preset=all").json()["population_total"] == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": ""}, "Give it a name"),
        ({"reviewers": []}, "Assign at least one reviewer"),
        ({"version": ""}, "Choose a frozen version"),
        ({"sampling": "random", "size": ""}, "Say how many items to draw"),
        ({"sampling": "stratified", "size": 2, "facet": "status"}, "Choose what makes the strata"),
        ({"what": "trial:unscored"}, "there is nothing to review"),
        ({"controls": 3}, "no passed trial"),
        ({"what": "step:all"}, "Select a valid choice"),
        ({"overlap": 101}, "less than or equal to 100"),
    ],
)
def test_what_cannot_be_made_is_said_and_what_was_written_stays(client: Client, changes: dict, says: str) -> None:
    make_trial(success=False)
    response = client.post(NEW, form(instructions="keep me", **changes))
    assert response.status_code == 400
    assert says in response.text.replace("&#x27;", "'")
    assert "keep me" in response.text
    assert not Queue.objects.exists()


def test_one_reviewer_shares_with_nobody_and_the_queue_is_made(client: Client) -> None:
    """The form proposes two reviews of an item where there are two people; unticking one is no mistake."""
    ben = reviewer()
    make_trial(success=False)
    assert client.get(NEW).context["form"]["reviews"].value() == 2
    page = client.post(NEW, form(reviews=2, show="1")).text
    assert "Tick a second reviewer to share items." in page
    assert client.post(NEW, form(reviews=2)).status_code == 302
    assert [item.reviews_needed for item in Queue.objects.get().items.all()] == [1]
    refused = client.post(NEW, form(reviews=3, reviewers=["local", ben.username]))
    assert refused.status_code == 400
    assert "3 reviews of one item take 3 reviewers, and you assigned 2." in refused.text


def test_it_warns_of_pages_that_close_and_names_the_choice(client: Client) -> None:
    make_trial(success=False)
    page = client.post(NEW, form(hides_conditions="", hides_models="on", show="1")).text
    assert "Reviewers cannot open some pages until they finish." in page
    assert "You hide the models." in page
    assert 'for="id_hides_models">Let reviewers see the models</label>' in page
    assert '<span id="of-total">, of 1</span>' in page
    page = client.post(NEW, form(hides_models="on", show="1")).text
    assert "You hide the condition and the models." in page
    page = client.post(NEW, form(hides_conditions="", show="1")).text
    assert "Reviewers cannot open some pages" not in page
    assert client.get("/review/queues/new.json").json()["closes_pages_because_it_hides"] == []


def failed_of(**run: Any) -> None:
    make_trial(make_episode(make_run(**run)), success=False)


@pytest.mark.parametrize(
    ("second", "hides"),
    [
        ({}, []),
        ({"condition": "selfgen-always"}, ["conditions"]),
        ({"agent_model": "other/model"}, ["models"]),
        ({"author_model": "other/author"}, ["models"]),
        ({"author_agent": "claude_code"}, ["models"]),
        ({"harness": "codex"}, ["models"]),
        ({"condition": "curated-static", "author_model": ""}, ["conditions"]),  # nobody wrote: no other model
        ({"condition": "selfgen-always", "harness": "codex"}, ["conditions", "models"]),
    ],
)
def test_it_proposes_to_hide_what_differs_in_the_selection(client: Client, second: dict, hides: list[str]) -> None:
    first = {"condition": "no-skill", "agent_model": "a/model", "author_model": "a/author", "harness": "shell"}
    reviewer()
    make_version(("arithmetic", "format"))
    for run in (first, {**first, **second}):
        failed_of(**run)
    assert client.get("/review/queues/new.json").json()["closes_pages_because_it_hides"] == hides


def test_whoever_reviews_alone_is_kept_from_nothing_of_the_record(client: Client) -> None:
    """Hiding would close trials and libraries to the only person who reads them."""
    make_version(("arithmetic", "format"))
    for condition in ("no-skill", "selfgen-always"):
        failed_of(condition=condition, agent_model=f"model of {condition}")
    sent = sent_as_opened(client)
    assert not {"hides_conditions", "hides_models"} & sent.keys()
    assert {"hides_labels", "hides_suggestions"} < sent.keys()
    assert "As the only reviewer" in client.get(NEW).text
    client.post(NEW, {**sent, "make": "1"})
    queue = Queue.objects.get()
    assert client.get(queue.items.first().trial.get_absolute_url()).status_code == 200
    for item in queue.items.all():
        make_review(item, local_user(), ["format"])
    assert "who saw the condition" in client.get(reverse("results", args=[queue.public_id])).text


def test_without_a_second_reviewer_it_leads_to_where_one_is_added(client: Client) -> None:
    make_trial(success=False)
    page = client.get(NEW).text
    assert '<a href="/people/">Invite a second reviewer</a>' in page


def test_the_local_user_is_ticked_only_while_alone(client: Client) -> None:
    make_trial(success=False)
    assert re.findall(r'name="reviewers"[^>]*value="(\w+)" checked', client.get(NEW).text) == ["local"]
    make_user(username="ann", level="reviewer")
    assert re.findall(r'name="reviewers"[^>]*value="(\w+)" checked', client.get(NEW).text) == ["ann"]


def test_a_draft_of_a_codebook_is_not_offered(client: Client) -> None:
    draft = make_version(frozen=False)
    make_trial(success=False)
    assert str(draft.public_id) not in client.get(NEW).text
    assert client.post(NEW, form(version=str(draft.public_id))).status_code == 400


def test_an_address_that_means_nothing_draws_nothing(client: Client) -> None:
    make_trial(success=False)
    response = client.post(f"{NEW}?color=red", form())
    assert response.status_code == 400
    assert "color: no such choice" in response.text
    assert not Queue.objects.exists()


def test_strata_are_shown_before_they_are_drawn(client: Client) -> None:
    for condition, total in (("no-skill", 4), ("selfgen-always", 2)):
        for _ in range(total):
            make_trial(make_episode(make_run(condition=condition)), success=False)
    page = client.post(NEW, form(sampling="stratified", size=2, facet="condition", show="1"))
    assert page.context["strata"]
    assert page.context["sketch"].by_stratum == [("no-skill", 2, 4), ("selfgen-always", 2, 2)]


def test_the_form_asks_no_more_for_more_trials(client: Client) -> None:
    make_version()
    episode = make_episode()

    def make(total: int) -> None:
        for _ in range(total):
            make_trial(episode, success=False)

    assert_queries_flat(client, NEW, make)


def test_filling_keeps_the_list_true(client: Client) -> None:
    me = local_user()
    queue = make_small_queue(reviewers=[me], reviews_per_item=1)
    while item := claim(queue, me):
        fill(item, me, Review.objects.create(item=item, reviewer=me, state=Review.State.SUBMITTED))
    found = client.get(f"/review/queues/{queue.public_id}.json").json()
    assert found["statuses"]["reviewed"] == 2
    assert found["own"] == {"left": 0, "done": 2}
    assert count_queries(client, queue.get_absolute_url()) < 40


# --- where a newcomer starts -----------------------------------------------------------------------------------------


def finished_experiment(failed: int) -> Any:
    experiment = make_experiment(name="Ours", finished_at=timezone.now())
    episode = make_episode(make_run(experiment=experiment))
    for _ in range(failed):
        make_trial(episode, success=False)
    make_trial(success=False)  # of another experiment, which has not ended
    return experiment


def dated(name: str) -> str:
    """The default name has the day, so that two queues of one experiment differ."""
    return f"{name}, {timezone.localdate():%-d %b %Y}"


def test_a_name_that_nobody_changed_follows_what_is_chosen(client: Client) -> None:
    first, second = finished_experiment(1), finished_experiment(1)
    Experiment.objects.filter(pk=second.pk).update(name="Theirs")
    sent = sent_as_opened(client)
    other = first if sent["name"] == [dated("Trials that failed: Theirs")] else second
    other.refresh_from_db()
    chosen = {**sent, "narrowed": "1", "in.experiment": str(other.public_id)}
    passed = client.post(NEW, {**chosen, "what": "trial:passed", "show": "1"}).context["form"].data
    assert passed["name"] == dated(f"Trials that passed: {other.name}")
    shown = client.post(NEW, {**chosen, "show": "1"}).context["form"].data
    assert shown["name"] == shown["proposed"] == dated(f"Trials that failed: {other.name}")
    client.post(NEW, {**chosen, "name": "Mine", "make": "1"})
    assert Queue.objects.get().name == "Mine"


def test_review_offers_the_failures_of_the_newest_finished_experiment_ready_to_submit(client: Client) -> None:
    experiment = finished_experiment(3)
    assert f'href="{NEW}">Code the 3 failures of Ours</a>' in client.get("/review/").text
    sent = sent_as_opened(client)
    assert client.get("/review/queues/new.json").json()["population_total"] == 3
    assert sent["version"] == ["starter:skill-evolution"]
    assert not Codebook.objects.exists()  # looking writes nothing
    made = client.post(NEW, {**sent, "narrowed": "1", "in.experiment": str(experiment.public_id), "make": "1"})
    queue = Queue.objects.get()
    assert made.url == queue.get_absolute_url()
    assert (queue.name, queue.items.count()) == (dated("Trials that failed: Ours"), 3)
    assert queue.version.is_frozen
    assert "starter:skill-evolution" not in client.get(NEW).text  # its copy is there now
    assert "failures of Ours" not in client.get("/review/").text  # a queue is there: nothing to offer


def test_review_offers_the_two_experiments_that_ended_last(client: Client) -> None:
    for name in ("Oldest", "Example", "Demo"):
        made = finished_experiment(2)
        Experiment.objects.filter(pk=made.pk).update(name=name)
    text = client.get("/review/").text
    assert f'href="{NEW}">Code the 2 failures of Demo</a>' in text
    (address,) = re.findall(r'href="([^"]+)">Code the 2 failures of Example<', text)
    assert "failures of Oldest" not in text
    assert client.get(unescape(address)).context["form"].data["name"] == dated("Trials that failed: Example")


def test_a_queue_that_is_refused_leaves_no_codebook_behind(client: Client) -> None:
    experiment = finished_experiment(1)
    sent = form(version="starter:skillflow", what="trial:passed", reviews=1)
    response = client.post(NEW, {**sent, "narrowed": "1", "in.experiment": str(experiment.public_id)})
    assert "there is nothing to review" in response.text
    assert not Codebook.objects.filter(cloned_from="starter skillflow").exists()


def test_many_failures_are_sampled_until_somebody_says_otherwise(client: Client) -> None:
    """The same sample of each experiment offered, the newest or another one."""
    for name in ("Older", "Ours"):
        Experiment.objects.filter(pk=finished_experiment(41).pk).update(name=name)
    text = client.get("/review/").text
    assert client.get("/review/queues/new.json").json()["items"] == 40
    for name in ("Older", "Ours"):
        (address,) = re.findall(rf'href="([^"]+)">Code 40 of the 41 failures of {name}<', text)
        assert client.get(unescape(address)).context["items"] == 40


def test_what_is_ticked_is_counted_anew_with_the_sketch(client: Client) -> None:
    for name in ("one", "two"):
        Experiment.objects.filter(pk=finished_experiment(1).pk).update(name=name)
    page = client.get(NEW).text
    assert "#chosen-experiment" in page.partition('hx-select-oob="')[2].partition('"')[0]
    both = [str(each.public_id) for each in Experiment.objects.exclude(finished_at=None)]
    sent = {**sent_as_opened(client), "narrowed": "1", "in.experiment": both, "show": "1"}
    text = client.post(NEW, sent).text
    assert re.search(r'id="chosen-experiment">2 of \d+<', text)


def test_narrowing_keeps_the_rest_of_the_form(client: Client) -> None:
    make_trial(make_episode(make_run(condition="curated-static")), success=False)
    make_trial(make_episode(make_run(condition="no-skill")), success=False)
    sent = form(name="kept", instructions="Read first.", narrowed="1", show="1", **{"in.condition": "no-skill"})
    page = client.post(f"{NEW}?condition=curated-static", sent)
    assert '<b>1 item</b><span class="muted">from 1 ' in page.text
    assert 'value="kept"' in page.text
    assert "Read first." in page.text
    assert page.context["selection"].choices.condition == ("no-skill",)


def sent_as_opened(client: Client, address: str = NEW) -> dict[str, list[str]]:
    """Return what a browser sends of the form as it opens: each text, what is chosen, boxes that are ticked."""
    fields = client.get(address).context["form"].data.items()
    kept = {name: "on" if value is True else value for name, value in fields if value is not False}
    return {name: value if isinstance(value, list) else [str(value)] for name, value in kept.items()}


def test_the_form_does_not_warn_against_what_it_proposes(client: Client) -> None:
    finished_experiment(1)
    page = client.get(NEW).text
    assert "which this queue hides" not in page
    assert "17 of 22 codes judge skills, so reviewers see the skills" in page
    assert "hides_conditions" not in sent_as_opened(client)
    assert client.get("/review/queues/new.json").json()["codes_that_wait"] == []


def test_decisions_are_about_skills_and_stay_blind_to_the_condition(client: Client) -> None:
    reviewer()
    for condition in ("selfgen-always", "skill-evolution"):
        failed_of(condition=condition)
    assert sent_as_opened(client, f"{NEW}?&unit=decision&preset=all")["hides_conditions"] == ["on"]


def test_somebody_who_hides_the_condition_is_not_overruled(client: Client) -> None:
    """After any other choice the form is shown again, and does not propose to hide."""
    finished_experiment(1)
    page = client.post(NEW, {**sent_as_opened(client), "show": "1"}).text
    proposed = re.search(r'name="proposed_hides_conditions" value="([^"]*)"', page)
    assert proposed
    sent = {**sent_as_opened(client), "proposed_hides_conditions": proposed[1], "hides_conditions": "on", "show": "1"}
    assert client.post(NEW, sent).context["form"]["hides_conditions"].value()


def test_codes_that_judge_skills_are_named_before_anything_is_frozen_with_a_way_out(client: Client) -> None:
    finished_experiment(1)
    page = client.post(NEW, {**sent_as_opened(client), "hides_conditions": "on", "show": "1"}).text
    assert "17 of 22 codes judge skills, which this queue hides." in page
    assert 'for="id_hides_conditions">Show skills, code once</label>' in page
    assert "which this queue hides" not in client.get(f"{NEW}?shown=skills").text
    client.post(reverse("codebook-new"), {"starter": "skill-evolution", "name": "Mine"})
    draft = Codebook.objects.get().versions.get()
    offer = f'href="{NEW}?shown=skills">Make a queue that shows skills</a>'
    text = client.get(draft.get_absolute_url()).text
    assert "17 of 22 codes judge skills" in text
    assert offer not in text, "no queue can use a draft"
    client.post(reverse("codebook-freeze", args=[draft.public_id]))
    assert offer in client.get(draft.get_absolute_url()).text

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils.html import strip_tags

from benchapp.experiments.launch import launch
from benchapp.models import Activity, User
from benchapp.models.people import Appended
from benchapp.record.writing.human_acts import note_activity
from inspector.pages.people.act_words import VERBS
from inspector.web.access import local_user
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_experiment, make_run, make_user
from tests.worlds.review_factories import make_queue, make_review

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SMALL = {"agent_models": ["scripted/apprentice"], "conditions": ["no-skill"], "sandbox": "local"}


def note(**fields: Any) -> Activity:
    row = {"actor_name": "ada", "verb": "edit", "target_kind": "run", **fields}
    return Activity.objects.create(**row)


@pytest.mark.parametrize(
    "change",
    [
        lambda act: act.save(),
        lambda act: act.save(force_update=True),
        lambda act: act.delete(),
        lambda act: Activity.objects.filter(pk=act.pk).update(verb="other"),
        lambda act: Activity.objects.filter(pk=act.pk).delete(),
        lambda act: Activity.objects.all().delete(),
        lambda act: Activity.objects.bulk_update([act], ["verb"]),
        lambda act: Activity.objects.update_or_create(pk=act.pk, defaults={"verb": "other"}),
        lambda act: Activity(pk=act.pk, actor_name="eve", verb="other").save(),
    ],
)
def test_nothing_in_the_log_changes_or_goes(change: Callable[[Activity], object]) -> None:
    act = note()
    act.verb = "forged"
    with pytest.raises(Exception) as refused:
        change(act)
    assert isinstance(refused.value, Appended) or "UNIQUE" in str(refused.value).upper()


def test_it_lists_newest_first_with_what_was_and_what_is(client: Client) -> None:
    run = make_run()
    note(verb="older")
    ada = make_user(username="ada")
    detail = {"before": {"condition": "unknown"}, "after": {"condition": "<b>no-skill</b>"}}
    note_activity(ada, "run.edited", run, detail=detail, reason="the paper says so")
    page = client.get("/activity/").text
    assert page.index('<b>ada</b> <span title="run.edited">run edited a run of</span>') < page.index("older a run")
    assert "&lt;b&gt;no-skill&lt;/b&gt;" in page
    assert f'href="/runs/{run.public_id}/"' in page
    act = client.get("/activity.json").json()["acts"][0]
    assert (act["person"], act["reason"], act["detail"]) == ("ada", "the paper says so", detail)
    assert act["url"] == f"/runs/{run.public_id}/"


@pytest.mark.parametrize(
    ("query", "verbs"),
    [
        ("", ["c", "b", "a"]),
        ("person=ada", ["b", "a"]),
        ("verb=a", ["a"]),
        ("target=queue", ["c"]),
        ("person=ada&target=queue", []),
        ("person=nobody", []),
    ],
)
def test_it_filters(client: Client, query: str, verbs: list[str]) -> None:
    note(verb="a")
    note(verb="b")
    note(verb="c", actor_name="grace", target_kind="queue")
    assert [act["verb"] for act in client.get(f"/activity.json?{query}").json()["acts"]] == verbs
    assert client.get(f"/activity/?{query}").status_code == 200


def test_it_turns_pages_and_keeps_the_filter(client: Client) -> None:
    for _ in range(60):
        note()
    note(actor_name="grace")
    first = client.get("/activity.json?person=ada").json()
    assert len(first["acts"]) == 50
    assert len(client.get(first["next"]).json()["acts"]) == 10


def test_its_queries_do_not_grow(client: Client) -> None:
    assert_queries_flat(client, "/activity/", lambda n: [note(target_id=make_run().public_id) for _ in range(n)])


def test_what_somebody_said_of_an_item_is_not_told_to_other_reviewers(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    ada, grace, admin = (make_user(level=level) for level in ("reviewer", "reviewer", "admin"))
    item = make_queue().items.first()
    note_activity(ada, "review.submitted", item, detail={"codes": ["silent bypass"]}, reason="as defined")
    seen = {}
    for user in (ada, grace, admin):
        client.force_login(user)
        seen[user] = "silent bypass" in client.get("/activity/").text + client.get("/activity.json").text
    assert seen == {ada: True, grace: False, admin: True}


def test_a_viewer_reads_it_and_nobody_writes_it(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.VIEWER))
    assert client.get("/activity/").status_code == 200
    assert client.post("/activity/").status_code == 405


def test_how_a_queue_was_drawn_and_how_far_it_agrees_is_not_told_to_who_still_codes_it(
    client: Client, settings: Any
) -> None:
    settings.SINGLE_USER = False
    ada, grace = make_user(level="reviewer"), make_user(level="reviewer")
    queue = make_queue(reviewers=[ada])
    note_activity(ada, "queue.created", queue, detail={"population": "condition=selfgen-always"})
    note_activity(grace, "agreement.kept", queue, detail={"alpha": 0.7312})
    seen = {}
    for user in (ada, grace):
        client.force_login(user)
        said = client.get("/activity/").text + client.get("/activity.json").text
        assert "queue.created" in said
        seen[user] = "selfgen-always" in said or "0.7312" in said
    assert seen == {ada: False, grace: True}


def test_an_admin_who_codes_without_knowing_is_not_told_either(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    ada, admin = make_user(level="reviewer"), make_user(level="admin")
    item = make_queue(reviewers=[ada, admin]).items.first()
    note_activity(ada, "item.resolved", item, detail={"codes": ["silent bypass"]})
    client.force_login(admin)
    assert "silent bypass" not in client.get("/activity/").text + client.get("/activity.json").text


def test_a_launch_and_a_loaded_suite_are_in_it_once(client: Client, tmp_path: Path) -> None:
    call_command("load_suite", str(EXAMPLES / "suites" / "skillevolbench"), key="ours", stdout=StringIO())
    file = {"name": "Mine", "suite": "starter", "key": "once", **SMALL}
    for _ in range(2):
        launch(file, by=local_user())
    told = [(act["person"], act["verb"], act["target"]) for act in client.get("/activity.json").json()["acts"]]
    assert told == [("local", "launch", "experiment"), ("command line", "suite.loaded", "suite")]
    text = client.get("/activity/").text
    assert "launched the experiment" in text
    assert "loaded the suite" in text


def test_a_thing_that_was_acted_on_again_counts_once(client: Client) -> None:
    ada = make_user(username="ada")
    queue = make_queue()
    first, second = queue.items.all()
    for item in (first, second, first):
        note_activity(ada, "item.resolved", item)
    page = client.get("/activity/").text
    assert "settled 2 items of</span> " in page
    assert ", in 3 acts" in page
    for _ in range(2):
        note_activity(ada, "queue.examined", queue)
    assert ", 2 times" in client.get("/activity/").text


def test_who_was_assigned_stands_in_the_sentence(client: Client) -> None:
    queue, ann, bea = make_queue(), make_user(username="ann"), make_user(username="bea")
    for person in (ann, bea):
        note_activity(make_user(), "queue.assigned", queue, detail={"reviewer": person.username})
    note_activity(ann, "queue.withdrawn", queue, detail={"reviewer": "bea", "slots given back": 2})
    page = client.get("/activity/").text
    for said in ("assigned ann to the queue", "assigned bea to the queue", "took bea out of the queue"):
        assert said in page
    assert "assigned a reviewer to</option>" in page, "what to list is named without one"
    assert client.get("/activity.json").json()["acts"][0]["detail"]["reviewer"] == "bea"


def test_choices_apply_at_once_and_stand_in_the_address(client: Client) -> None:
    assert "Import runs" in client.get("/activity/").text
    assert 'hx-trigger="change"' not in client.get("/activity/").text  # nothing to choose from yet
    note()
    page = client.get("/activity/?person=nobody").text
    assert 'hx-get="/activity/" hx-trigger="change" hx-target="#acts"' in page
    assert "No act matches" in page


def test_every_act_that_is_recorded_has_words() -> None:
    layers = [EXAMPLES.parent / name for name in ("benchapp", "inspector")]
    sources = "\n".join(path.read_text() for layer in layers for path in layer.rglob("*.py"))
    recorded = set(re.findall(r'note_activity\(\s*[\w.()]+,\s*"([^"]+)"', sources))
    recorded |= set(re.findall(r'\.note\([^\n]*verb="([^"]+)"', sources))
    assert len(recorded) >= 50
    assert sorted(recorded - set(VERBS)) == []


def test_details_are_words_and_looks_at_labels_are_left_out_until_asked_for(client: Client) -> None:
    note(verb="code.redefined", detail={"texts": {"definition": {"before": "short", "after": "longer"}}})
    note(verb="labels.seen", target_kind="queue")
    note(verb="account.invited", target_kind="invitation", detail={"name": "mira"})
    text = client.get("/activity/").text
    assert 'texts, definition</span> <del class="muted">short</del> → longer' in text
    assert "{&#x27;" not in text
    assert ">invited</span> mira" in text
    assert "read the labels of others on a queue" not in text
    assert "read the labels of others on a queue" in client.get("/activity/?verb=labels.seen").text
    assert len(client.get("/activity.json").json()["acts"]) == 3


def test_experiments_that_were_joined_are_one_line_and_a_review_leads_to_its_queue(client: Client) -> None:
    for name in ("one", "two"):
        detail = {"before": {"experiment": name}, "after": {"experiment": "both"}}
        note(verb="join", target_kind="experiment", target_id=make_experiment(name=name).public_id, detail=detail)
    queue = make_queue()
    item = queue.items.first()
    assert item is not None
    note_activity(make_user(username="mira"), "review.submitted", make_review(item, make_user()))
    text = client.get("/activity/").text
    assert strip_tags(text).count("joined 2 experiments into both") == 1
    submitted = text[text.index("submitted a review in") :].partition("</li>")[0]
    assert f'href="/review/queues/{queue.public_id}/">{queue.name}</a>' in submitted

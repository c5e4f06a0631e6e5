"""Having an experiment judged from its page, and how far that is: there and among the jobs."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from benchapp.judges import judging_orders
from benchapp.judges.judging_orders import JudgingWish, judge_slice, order_judging
from benchapp.models import Activity, JudgingOrder, Run, User
from tests.worlds.factories import make_user
from tests.worlds.judging_worlds import World, make_world

pytestmark = pytest.mark.django_db

SENT = {
    "model": "scripted/careful",
    "prompts": "skillglass",
    "calls": "200",
    "usd": "",
    "metrics": ["coverage", "safety"],
}


@pytest.fixture(autouse=True)
def hinted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging_orders, "enqueue_due", lambda: 0)


@pytest.fixture
def world() -> World:
    return make_world()


def path(world: World) -> str:
    return f"/experiments/{world.experiment.public_id}/judgements/"


def twin(client: Client, world: World) -> dict:
    return client.get(path(world).removesuffix("/") + ".json").json()


def work_off() -> None:
    for public_id in JudgingOrder.objects.values_list("public_id", flat=True):
        judge_slice(str(public_id))


def test_the_button_orders_a_judge_for_every_run(client: Client, world: World) -> None:
    sent = client.post(path(world), SENT, follow=True)
    assert "scripted/careful judges 2 runs, each after its end." in sent.text
    orders = JudgingOrder.objects.values_list("run", "model", "metrics", "max_calls", "max_usd", "asked_by__username")
    who = User.objects.get().username
    assert {(run, model, tuple(metrics), *rest) for run, model, metrics, *rest in orders} == {
        (run.pk, "scripted/careful", ("coverage", "safety"), 200, None, who) for run in (world.run, world.human)
    }
    activity = Activity.objects.get(verb="experiment.judged")
    assert activity.detail["model"] == "scripted/careful"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": ""}, "Model: expected a preset"),
        ({"model": "nobody"}, "nobody"),
        ({"calls": "many"}, "expected a whole number of calls"),
        ({"calls": "0"}, "expected more than 0"),
        ({"usd": "-1"}, "expected more than 0"),
        ({"usd": "nan"}, "expected more than 0"),
        ({"metrics": []}, "expected one at least"),
        ({"metrics": ["beauty"]}, "beauty: no such metric of a judge"),
        ({"prompts": "<b>none</b>"}, "none"),
    ],
)
def test_a_faulty_wish_orders_nothing_and_is_told(
    client: Client, world: World, changes: dict[str, object], told: str
) -> None:
    sent = client.post(path(world), {**SENT, **changes})
    assert sent.status_code == 422
    assert told in sent.text
    assert "<b>none</b>" not in sent.text
    assert not JudgingOrder.objects.exists()


def test_progress_stands_there_and_among_the_jobs_until_it_is_done(client: Client, world: World) -> None:
    Run.objects.filter(pk=world.human.pk).update(status="running")
    order_judging([world.run, world.human], JudgingWish("scripted/careful"))
    work_off()
    (row,) = twin(client, world)["judging"]
    told = {name: row[name] for name in ("state", "runs", "done", "stopped", "waiting", "gone_through", "scripted")}
    assert told == {
        "state": "waiting",
        "runs": 2,
        "done": 1,
        "stopped": 0,
        "waiting": 1,
        "gone_through": 1.0,
        "scripted": True,
    }
    assert row["calls"] >= 18
    assert client.get("/jobs.json").json()["judging"] == [row]
    page = client.get("/jobs/").text
    assert "1 of 2" in page
    assert "scripted judge" in page
    Run.objects.filter(pk=world.human.pk).update(status="done")
    work_off()
    assert twin(client, world)["judging"][0]["state"] == "done"
    assert client.get("/jobs.json").json()["judging"] == []


def test_what_stopped_says_why_in_both_places(client: Client, world: World) -> None:
    order_judging([world.run], JudgingWish("scripted/careful", max_calls=3))
    work_off()
    (row,) = twin(client, world)["judging"]
    assert (row["state"], row["reasons"], row["calls"]) == ("stopped", ["the limit of 3 calls is used up"], 3)
    assert "the limit of 3 calls is used up" in client.get("/jobs/").text
    assert "the limit of 3 calls is used up" in client.get(path(world)).text


def test_a_scripted_judge_is_called_scripted_wherever_its_scores_are(client: Client, world: World) -> None:
    """The runs are of no scripted model: only the judge is."""
    order_judging([world.run, world.human], JudgingWish("scripted/careful"))
    work_off()
    address = f"?experiment={world.experiment.public_id}&table=judged&metric=coverage&baseline=human-authored"
    said = "Judged by scripted/careful (scripted: its scores say nothing)"
    pages = (f"/compare/{address}", f"/compare/charts/forest/{address}", f"/compare/charts/profiles/{address}")
    for page in (*pages, f"/compare/report/{address}"):
        assert said in client.get(page, follow=True).text, page
    for page in pages:
        assert "scripted judge</span>" in client.get(page, follow=True).text, page
    assert client.get(f"/compare/charts/profiles.json{address}").json()["scripted"] is True
    found = client.get(f"/compare.json{address}", follow=True).json()
    assert found["judge"]["scripted"] is True
    assert found["scripted"] is False


def test_a_twin_of_runs_that_nobody_judged_is_what_it_was(client: Client, world: World) -> None:
    assert "judge" not in client.get(f"/experiments/{world.experiment.public_id}.json").json()
    chart = client.get(f"/compare/charts/profiles/?experiment={world.experiment.public_id}").text
    assert "judge</span>" not in chart


def test_the_bill_of_the_experiment_holds_what_judges_cost(client: Client, world: World) -> None:
    before = client.get(f"/experiments/{world.experiment.public_id}.json").json()["spent"]
    order_judging([world.run], JudgingWish("scripted/careful"))
    work_off()
    after = client.get(f"/experiments/{world.experiment.public_id}.json").json()["spent"]
    assert after["tokens"] > (before["tokens"] or 0)


def test_a_viewer_sees_it_and_cannot_ask(client: Client, world: World, settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.VIEWER))
    assert client.get(path(world)).status_code == 200
    assert client.post(path(world), SENT).status_code == 403
    assert not JudgingOrder.objects.exists()

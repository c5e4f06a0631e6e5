"""The page of judgements: numbers as worked out by hand, failures counted, texts of strangers escaped,
nothing to the blind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.test import Client

from benchapp.judges.judge_passes import judge_run
from benchapp.models import JudgedUnit, Judging, Task
from benchapp.record.slices import Budget
from inspector.web.access import local_user
from runner.judging.metrics import Metric
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_run
from tests.worlds.judging_worlds import Judge, World, fitting, make_world, metric_of
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m"


def page(client: Client, world: World, query: str = "") -> str:
    response = client.get(f"/runs/{world.run.public_id}/judgements/{query}")
    assert response.status_code == 200
    return response.text


def twin(client: Client, world: World, query: str = "") -> dict:
    return client.get(f"/runs/{world.run.public_id}/judgements.json{query}").json()


def test_a_run_that_nobody_judged_says_how_to(client):
    run = make_run()
    text = client.get(f"/runs/{run.public_id}/judgements/").text
    assert f"manage.py judge_run {run.public_id}" in text


def test_the_run_leads_to_it(client):
    world = make_world()
    assert f'href="/runs/{world.run.public_id}/judgements/"' in client.get(world.run.get_absolute_url()).text


def test_it_shows_every_level_by_task_with_the_mean_over_tasks(client):
    world = make_world()
    judge_run(world.run, Judge(), budget=Budget())
    found = twin(client, world)
    (line,) = found["tasks"]
    assert line["task"] == "words"
    assert line["coverage"] == {"value": 100, "rows": 2, "tasks": 1}
    assert line["safety"] == {"value": 75, "rows": 4, "tasks": 1}
    assert line["trajectory-alignment"]["value"] == pytest.approx(250 / 3)
    assert line["skill-usage"]["value"] == 50
    assert line["skill-usage-rate"]["mean"] == 0  # its agents, our shell loop, read the files and called no skill tool
    assert (line["accuracy"]["mean"], line["accuracy-seed"]["mean"], line["accuracy-held-out"]["mean"]) == (0.5, 1, 0)
    assert line["solving-tokens"]["mean"] == 4510
    assert found["mean_over_tasks"] == {**line, "task": "mean over tasks"}
    text = page(client, world)
    assert "83.3 <small>2</small>" in text
    assert "50 % <small>1/2</small>" in text


def test_it_counts_the_ways_in_which_judging_failed(client):
    world = make_world()
    judge = Judge(lambda request: "no" if metric_of(request) is Metric.SAFETY else fitting(metric_of(request), place=2))
    judge_run(world.run, judge, [Metric.SAFETY, Metric.COVERAGE], budget=Budget())
    found = twin(client, world)
    assert {each["metric"]: each for each in found["endings"]} == {
        "coverage": {"metric": "coverage", "questions": 4, "contradictions": 4, "ok": 4},
        "safety": {"metric": "safety", "questions": 4, "contradictions": 0, "malformed": 4},
    }
    assert found["asked_again"] == 8
    assert found["mean_over_tasks"]["safety"] is None
    text = page(client, world)
    assert "4 questions got no usable answer" in text
    assert "4 no JSON" in text


def test_questions_are_narrowed_by_metric_ending_and_task(client):
    world = make_world()
    judge_run(world.run, Judge(), budget=Budget())
    assert len(twin(client, world)["questions"]) == 20
    assert len(twin(client, world, "?metric=coverage&status=ok")["questions"]) == 4
    assert twin(client, world, f"?family={world.family.pk + 1}")["questions"] == []
    assert len(twin(client, world, "?metric=nonsense&status=1&family=x&judging=y")["questions"]) == 20


def test_a_question_opens_its_prompt_reply_and_reason(client):
    world = make_world()
    answers = iter(["what?"])
    judge_run(world.run, Judge(lambda r: next(answers, None) or fitting(metric_of(r))), budget=Budget())
    unit = JudgedUnit.objects.order_by("pk").first()
    address = f"/runs/{world.run.public_id}/judgements/{unit.public_id}"
    found = client.get(f"{address}.json").json()
    assert [each["reply"] for each in found["tries"]] == ["what?", fitting(Metric.COVERAGE)]
    assert [message["role"] for message in found["tries"][1]["messages"]] == ["system", "user", "assistant", "user"]
    text = client.get(f"{address}/").text
    assert "Split at blanks." in text
    assert "Try 2" in text
    other = make_world().run
    assert client.get(f"/runs/{other.public_id}/judgements/{unit.public_id}/").status_code == 404


def test_a_question_says_what_was_not_sent(client):
    """And the secret that the provider's words hold is taken out, as is what only a conversation needs."""

    class Picky(Judge):
        def complete(self, request):
            left = ("temperature 0.0: no <b>, says sk-proj-4fT9xQ2LmZ8vB1nCqW3e",)
            return replace(super().complete(request), not_sent=left, carried={"reasoning_content": "hm"})

    world = make_world()
    judge_run(world.run, Picky(), budget=Budget())
    unit = JudgedUnit.objects.order_by("pk").first()
    assert (
        "Not sent: temperature 0.0: no &lt;b&gt;, says [redacted:api-key]"
        in client.get(f"/runs/{world.run.public_id}/judgements/{unit.public_id}/").text
    )
    assert b"reasoning_content" not in unit.tries.first().reply.content()


def test_what_a_judge_says_is_text_and_nothing_else(client):
    world = make_world()
    Task.objects.filter(pk=world.tasks[0].pk).update(title=HOSTILE)
    world.tasks[0].key_points.filter(kind="skill").update(text=f"point {HOSTILE}")
    reply = json.dumps({"label": "mentioned", "reason": f"reason {HOSTILE}"})
    judge_run(world.run, Judge(lambda request: reply), [Metric.COVERAGE], budget=Budget())
    Judging.objects.update(stopped=HOSTILE)
    unit = JudgedUnit.objects.filter(task=world.tasks[0]).first()
    for text in (page(client, world), client.get(f"/runs/{world.run.public_id}/judgements/{unit.public_id}/").text):
        assert "reason &lt;/pre&gt;&lt;script&gt;" in text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "\u202e" not in text


def test_a_blind_reviewer_is_told_nothing_of_it(client):
    world = make_world()
    judge_run(world.run, Judge(), budget=Budget())
    unit = JudgedUnit.objects.exclude(attempt=None).first()
    make_queue([unit.attempt.trial], reviewers=[local_user()])
    text = client.get(f"/runs/{world.run.public_id}/judgements/{unit.public_id}/").text
    assert "r-execution_order" not in text
    assert "wc -w text.txt" not in text


def test_queries_do_not_grow_with_questions(client):
    world = make_world()
    judging = judge_run(world.run, Judge(), budget=Budget()).judging

    def make(number: int) -> None:
        for _ in range(number):
            pk = judging.units.count()
            unit = judging.units.create(key=f"more-{pk}", metric="safety", task=world.tasks[0], status="ok", skill="s")
            unit.judgements.create(item="data_privacy", raw=4, value=75, reason="r")

    page(client, world)  # the run's columns are read once
    assert_queries_flat(client, f"/runs/{world.run.public_id}/judgements/", make)

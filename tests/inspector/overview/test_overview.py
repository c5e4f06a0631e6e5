from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.models import Attempt, Experiment, Run, Trial
from tests.queries import assert_queries_flat, count_queries
from tests.worlds.factories import (
    make_attempt,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_trial,
)

pytestmark = pytest.mark.django_db

T, F = True, False


def make_running_trial() -> Trial:
    run = make_run(make_experiment(status="running"), status="running")
    trial = make_trial(make_episode(run, status="running"), finished=False, status="running")
    attempt = make_attempt(trial, counts=False, worker="host-7")
    Attempt.objects.filter(pk=attempt.pk).update(status="running", finished_at=None)
    return trial


def test_it_says_how_to_begin_when_there_is_nothing(client: Client) -> None:
    text = client.get("/").text
    assert "manage.py import_runs" in text
    assert "make demo" in text


def test_it_lists_the_newest_first(client: Client) -> None:
    old, new = make_experiment(name="the old one"), make_experiment(name="the new one")
    Experiment.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=3))
    assert [row["name"] for row in client.get("/index.json").json()["experiments"]] == ["the new one", "the old one"]
    text = client.get("/").text
    assert text.index("the new one") < text.index("the old one")
    assert f"/experiments/{new.public_id}/" in text


def test_it_leaves_deleted_ones_out(client: Client) -> None:
    make_experiment(deleted_at=timezone.now())
    assert client.get("/index.json").json()["experiments"] == []


def test_it_says_which_experiment_is_a_probe(client: Client) -> None:
    run = make_learning_run(families=1)
    make_trial(make_episode(probe := make_run(make_experiment(name="one again"), condition="library-probe")))
    told = {row["name"]: row["is_probe"] for row in client.get("/index.json?probes=1").json()["experiments"]}
    assert told == {"one again": True, run.experiment.name: False}
    assert client.get("/?probes=1").text.count("no learning run") == 1
    assert "no learning run" in client.get(f"/experiments/{probe.experiment.public_id}/").text
    assert "no learning run" not in client.get(f"/experiments/{run.experiment.public_id}/").text


def test_probes_are_counted_and_listed_on_demand(client: Client) -> None:
    probe = make_run(make_experiment(name="one again"), condition="library-probe")
    assert "Only probes" in client.get("/").text
    make_experiment(name="it learns")
    told = client.get("/index.json").json()
    assert ([row["name"] for row in told["experiments"]], told["probes"]) == (["it learns"], 1)
    assert 'href="?probes=1">Show 1 probe</a>' in client.get("/").text
    Experiment.objects.filter(pk=probe.experiment_id).update(status="running")
    assert 'hx-trigger="every 3s"' in client.get("/").text  # what runs is told, listed or not


def test_a_finished_run_is_counted_once(client: Client) -> None:
    run = make_learning_run(families=1)
    client.get("/")
    with CaptureQueriesContext(connection) as captured:
        client.get("/")
    assert not [query for query in captured if "benchapp_trial" in query["sql"]]
    Trial.objects.filter(episode__run=run, success=True).update(success=False)
    Run.objects.filter(pk=run.pk).touch()
    (row,) = client.get("/index.json").json()["experiments"]
    assert row["trials"]["passed"] == 0


def test_its_twin_tells_what_scripts_wait_for(client: Client) -> None:
    run = make_learning_run(families=1, outcomes=(T, F, None, T, F, F, T, T, F))
    make_trial(run.episodes.get(), finished=False)
    (row,) = client.get("/index.json").json()["experiments"]
    assert row["id"] == str(run.experiment.public_id)
    assert row["status"] == "done"
    assert row["trials"] == {"total": 10, "done": 9, "scored": 8, "passed": 4}
    assert row["url"] == f"http://testserver/experiments/{run.experiment.public_id}.json"


def test_it_says_what_each_condition_passed_at_deployment(client: Client) -> None:
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    make_learning_run(experiment, condition="no-skill", outcomes=(T, T, T, F, F, F, T, T, T))
    make_learning_run(experiment, condition="selfgen-always", outcomes=(F, F, F, T, T, None, T, T, T))
    (row,) = client.get("/index.json").json()["experiments"]
    assert row["measure"] == "deployment"
    counts = [(found["condition"], found["passed"], found["scored"]) for found in row["results"]]
    assert counts == [("no-skill", 0, 6), ("selfgen-always", 4, 4)]


def test_it_marks_scripted_numbers(client: Client) -> None:
    run = make_run(scripted=False)
    assert "scripted model" not in client.get("/").text
    make_run(run.experiment, scripted=True)
    assert "scripted model" in client.get("/").text


def test_it_calls_a_small_model_small_and_no_other(client: Client) -> None:
    run = make_run(make_experiment(), agent_model="claude-opus-4.6", author_model="claude-opus-4.6")
    assert "small model" not in client.get("/").text
    Run.objects.filter(pk=run.pk).update(author_model="small-smollm2-135m")
    page = client.get("/").text
    assert ">small model</span>" in page
    assert "scripted model" not in page


def test_it_shows_what_is_running_and_asks_again(client: Client) -> None:
    trial = make_running_trial()
    text = client.get("/").text
    assert 'hx-trigger="every 3s"' in text
    assert "host-7" not in text, "which worker has it is a question for the jobs page"
    (running,) = client.get("/index.json").json()["running"]
    assert running["trial"] == str(trial.public_id)


def test_it_stops_asking_once_everything_is_done(client: Client) -> None:
    make_experiment(status="done")
    assert "every 3s" not in client.get("/").text


def test_it_answers_htmx_with_the_part_alone(client: Client) -> None:
    make_experiment()
    part = client.get("/", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<div id="live"')
    whole = client.get("/", headers={"HX-Request": "true", "HX-History-Restore-Request": "true"}).text
    assert "<!doctype html>" in whole


def test_it_turns_pages(client: Client) -> None:
    Experiment.objects.bulk_create(Experiment(name=f"e{index}") for index in range(60))
    first = client.get("/index.json").json()
    assert (len(first["experiments"]), first["total"]) == (50, 60)
    second = client.get(first["next"]).json()
    assert (len(second["experiments"]), second["next"]) == (10, None)


@pytest.mark.parametrize("query", ["page=0", "page=-3", "page=x", "page=99999999999999999999", "page=%01"])
def test_it_forgives_a_bad_page_number(client: Client, query: str) -> None:
    make_experiment()
    assert client.get(f"/?{query}").status_code == 200


def test_a_failing_experiment_needs_you_before_it_is_blocked(client: Client) -> None:
    run = make_run(make_experiment(status="running"), status="running")
    make_episode(run, status="running", failures=2, last_failure="SandboxError: no image\nTraceback ...")
    calm = make_experiment(status="running")
    (row,) = client.get("/index.json?show=stopped").json()["experiments"]
    assert (row["id"], row["stopped"]) == (str(run.experiment.public_id), "SandboxError: no image")
    text = client.get("/").text
    assert text.count("Failing, retrying") == 1
    assert "Traceback" not in text
    assert client.get(f"/experiments/{calm.public_id}.json").json()["standing_still"] == []
    (told,) = client.get(f"/experiments/{run.experiment.public_id}.json").json()["standing_still"]
    assert (told["status"], told["episodes"]) == ("failing, retrying", 1)
    of_run = client.get(f"/runs/{run.public_id}/").text
    assert "is failing and retries: SandboxError: no image" in of_run


def test_it_escapes_names_from_imports(client: Client) -> None:
    make_experiment(name='<script>alert("x")</script>')
    text = client.get("/").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_it_rejects_post(client: Client) -> None:
    assert client.post("/").status_code == 405


def test_its_queries_do_not_grow(client: Client) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            make_running_trial()

    # reader, counts of tabs and page, experiments with suite, runs, trials by run and phase, probes, the tour's,
    # running attempts; of the open ones what fails, runs, trials, running attempts, workable episodes, durations,
    # what agents, author and judges spent
    assert assert_queries_flat(client, "/", make) == 18


def test_a_finished_experiment_is_judged_once(client: Client) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            experiment = make_experiment(suite=make_suite(environments=1, families=2))
            make_learning_run(experiment, condition="no-skill")
            make_learning_run(experiment, condition="selfgen-always")

    # as above, without what only open ones need; for new runs also themselves, their columns and what they spent
    assert assert_queries_flat(client, "/", make) == 16
    assert count_queries(client, "/") == 7


def test_it_tells_how_far_open_experiments_have_come(client: Client) -> None:
    trial = make_running_trial()
    make_trial(trial.episode, attempt={"cost_usd": 0.25})
    text = client.get("/").text
    assert "$0.25 spent" in text
    told = client.get("/index.json").json()
    (row,) = told["experiments"]
    assert (row["progress"]["done"], row["progress"]["total"], row["progress"]["passed"]) == (1, 2, 1)
    assert row["progress"]["eta_seconds"] > 0
    (now,) = told["running"]
    assert (now["trial"], now["step"], now["stuck"]) == (str(trial.public_id), None, False)


def test_it_tells_no_progress_of_what_has_ended(client: Client) -> None:
    make_trial(make_episode(make_run()))
    assert client.get("/index.json").json()["experiments"][0]["progress"] is None


def make_compared(*, replicates: int = 3) -> Experiment:
    """No skill fails at deployment, always revised passes, one shot is as good as none."""
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    for replicate in range(1, replicates + 1):
        odd = replicate == 1
        bare, won = (F, F, F, odd, F, F, F, F, F), (T, T, T, T, T, T, T, T, not odd)
        make_learning_run(experiment, condition="no-skill", replicate=replicate, outcomes=bare)
        make_learning_run(experiment, condition="selfgen-always", replicate=replicate, outcomes=won)
    return experiment


def test_it_answers_in_one_line_whether_skills_helped(client: Client) -> None:
    make_compared()
    text = client.get("/").text
    assert "Self-written, always revised: +" in text
    (row,) = client.get("/index.json").json()["experiments"]
    assert row["verdict"]["answer"] == "Yes, skills clearly helped, also if rerun."
    assert [way["effect"] for way in row["verdict"]["ways"]] == ["better"]


def test_it_draws_outcomes_only_where_there_is_a_baseline(client: Client) -> None:
    make_learning_run(condition="selfgen-always")
    assert "No baseline" in client.get("/").text
    assert 'class="small-forest"' not in client.get("/").text
    make_learning_run(condition="no-skill")
    assert "No condition with skills yet" in client.get("/").text
    make_compared()
    assert 'class="small-forest"' in client.get("/").text


def test_it_filters_by_name_suite_model_and_condition(client: Client) -> None:
    make_run(make_experiment(name="first look"), agent_model="lab/large", condition="no-skill")
    make_run(make_experiment(name="second look"), agent_model="lab/small", condition="selfgen-always")

    def names(query: str) -> list[str]:
        return [row["name"] for row in client.get(f"/index.json?{query}").json()["experiments"]]

    assert names("q=FIRST") == ["first look"]
    assert names("q=small+look") == ["second look"]
    assert names("q=selfgen") == ["second look"]
    assert names("q=nothing+like+it") == []
    assert "No experiment fits" in client.get("/?q=nothing+like+it").text


def test_its_tabs_count_what_they_show(client: Client) -> None:
    for status in ("done", "running", "blocked", "paused"):
        make_run(make_experiment(name=status, status=status), status=status)
    make_experiment(name="brought in", origin="imported")

    def names(tab: str) -> set[str]:
        return {row["name"] for row in client.get(f"/index.json?show={tab}").json()["experiments"]}

    assert names("running") == {"running"}
    assert names("stopped") == {"blocked", "paused"}
    assert names("imported") == {"brought in"}
    assert len(names("nonsense")) == 5
    assert 'Needs you <span class="num">2</span>' in client.get("/").text


def test_it_sorts_by_gain_trials_and_name(client: Client) -> None:
    won = make_compared()
    plain = make_run(make_experiment(name="a plain one"))
    make_trial(make_episode(plain))

    def first(sort: str) -> str:
        return str(client.get(f"/index.json?sort={sort}").json()["experiments"][0]["id"])

    assert first("gain") == first("trials") == str(won.public_id)
    assert first("name") == str(plain.experiment.public_id)


def test_it_says_why_an_experiment_needs_you(client: Client) -> None:
    run = make_run(make_experiment(status="blocked"), status="blocked")
    make_episode(run, status="blocked", blocked_reason="KeyRefused: no key\nTraceback ...")
    assert "KeyRefused: no key" in client.get("/").text
    assert client.get("/index.json").json()["experiments"][0]["stopped"] == "KeyRefused: no key"

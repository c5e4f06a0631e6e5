"""What a suite's page says of its qualification, and the way to one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from benchapp.experiments.qualification import write_file
from benchapp.models import Attempt, Experiment, Run
from benchapp.record.sets.suite_files import record_suite
from inspector.pages.suites.suite_fitness import read_shipped
from runner.protocols.qualification import NO_SKILL, REFERENCE, SOLUTION, UNTOUCHED
from runner.suites import load_suite
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_episode,
    make_experiment,
    make_run,
    make_suite,
    make_task,
    make_trial,
    make_unordered_episode,
    make_user,
)

pytestmark = pytest.mark.django_db

SOUND = {SOLUTION: "ppp", UNTOUCHED: "ff", NO_SKILL: "fffff", REFERENCE: "p"}


def make_qualification(outcomes: dict[str, dict[str, str]], *, digest: str = "", **fields: Any) -> Experiment:
    """Task -> condition -> how its trials ended: p(assed) or f(ailed)."""
    suite = load_suite("starter")
    rows = record_suite(suite)
    experiment = make_experiment(suite=rows.suite, spec=write_file(suite, model="scripted/apprentice"), **fields)
    setup = {"suite": {"key": "starter", "digest": digest or suite.digest}}
    for condition in SOUND:
        model = "" if condition in (SOLUTION, UNTOUCHED) else "scripted/apprentice"
        run = make_run(
            experiment, condition=condition, agent_model=model, author_model="", scripted=bool(model), setup=setup
        )
        episode = make_episode(run, environment=rows.environments["E1"])
        for key, by_condition in outcomes.items():
            for sample, letter in enumerate(by_condition.get(condition, "")):
                make_trial(episode, rows.tasks[key], phase="deployment", success=letter == "p", sample=sample + 1)
    return experiment


def twin(client: Client) -> dict[str, Any]:
    response = client.get("/suites/starter.json")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["qualification"]
    return found


def test_a_suite_without_one_offers_it(client: Client) -> None:
    page = client.get("/suites/starter/").text
    assert "No results yet, so no task can be rated." in page
    assert "Fit to measure skills" not in page  # unknown for every task
    assert "Qualify the suite, or launch an experiment" in page
    assert 'href="/launch/?qualify=starter">Qualify</a>' in page
    assert client.get("/suites/starter.json").json()["qualification"] is None


def test_a_bundled_suite_shows_the_verdicts_that_it_brings_along_until_it_is_qualified_here(client: Client) -> None:
    page = client.get("/suites/starter-environments/").text
    assert "34 of 36 tasks can show whether skills help." in page
    assert "tried by shell with scripted/apprentice" in page
    assert client.get("/suites/starter-environments.json").json()["qualification"] is None
    read = load_suite("starter-environments")
    assert read_shipped(replace(read, digest="0" * 64)) is None
    assert read_shipped(replace(read, key="own-copy")) is None
    assert read_shipped(load_suite("starter")) is None


def test_it_shows_the_verdict_on_each_task_and_leads_to_the_trials_behind_it(client: Client) -> None:
    experiment = make_qualification({"E1-LS1-T1": {**SOUND, NO_SKILL: "pppppp"}, "E1-LS1-T2": SOUND, "E1-LS1-T3": {}})
    found = twin(client)
    assert found["id"] == str(experiment.public_id)
    assert (found["asked"], found["is_of_this_state"]) == ("shell with scripted/apprentice", True)
    assert found["counts"] == {"admit": 1, "reject": 1, "look": 0}
    first, second = found["tasks"]
    reason = "solved without a skill: 6 of 6 passed, expected at most 5 of 10"
    assert (first["verdict"], first["reasons"], first["rank"]) == ("reject", [reason], 1)
    assert (second["verdict"], second["reasons"], second["rank"]) == ("admit", [], 2)
    alone = next(each for each in first["checks"] if each["check"] == "no_skill")
    assert (alone["passed"], alone["trials"], alone["most"], alone["kept"]) == (6, 6, 5, False)
    asked = parse_qs(urlsplit(alone["url"]).query)
    assert asked == {"experiment": [str(experiment.public_id)], "condition": [NO_SKILL], "task": ["E1-LS1-T1"]}
    assert [trial["task"] for trial in client.get(alone["url"].replace("/trials/", "/trials.json")).json()["trials"]]
    page = client.get("/suites/starter/").text
    counts = page.partition('<table class="matrix')[2].partition("</table>")[0]
    assert (counts.count('"kept">3/3<'), counts.count('"kept">0/2<'), counts.count('"broken">6/6<')) == (2, 2, 1)
    assert "1 of 2 tasks is admitted, 1 rejected." in page
    assert "scripted model" in page
    assert reason in page
    assert "Qualify again" in page
    lede = strip_tags(page.partition('<p class="lede')[2].partition("</section>")[0])
    assert "Judged by the qualification, shell with scripted/apprentice" in lede
    assert "scripted model" in lede


def test_the_fit_of_a_task_is_its_verdict_in_this_state(client: Client) -> None:
    make_qualification(
        {"E1-LS1-T1": {**SOUND, NO_SKILL: "pppppp"}, "E1-LS1-T2": SOUND, "E1-LS1-T3": {**SOUND, SOLUTION: "fff"}}
    )
    page = client.get("/suites/starter.json").json()
    fits = {each["key"]: (each["fit"], each["fit_why"]) for each in page["tasks"]}
    assert fits["E1-LS1-T1"] == ("too-easy", "6 of 6 without a skill")
    assert (fits["E1-LS1-T2"], fits["E1-LS1-T3"][0], fits["E1-LS1-T4"]) == (("fit", None), "broken", ("unknown", None))
    assert page["answer"] == "3 of 24 tasks are judged so far; 1 of them can show whether skills help."
    assert page["matrix"]["source"] == "qualification"


def test_a_qualification_that_runs_hides_no_evidence_that_is_there(client: Client) -> None:
    make_qualification({"E1-LS1-T1": {**SOUND, NO_SKILL: "pppppp"}}, status="running")
    answer = client.get("/suites/starter.json").json()["answer"]
    assert answer == "1 of 24 tasks is judged so far; none of them can show whether skills help."
    rows = record_suite(load_suite("starter"))
    experiment = make_experiment(suite=rows.suite, name="with trials")
    for condition, outcomes in (("no-skill", "ff"), ("curated-static", "pf")):
        episode = make_episode(make_run(experiment, condition=condition))
        for sample, letter in enumerate(outcomes):
            make_trial(episode, rows.tasks["E1-LS1-T2"], success=letter == "p", sample=sample, phase="deployment")
    page = client.get("/suites/starter.json").json()
    assert (page["matrix"]["source"], page["answer"].partition(";")[2]) == (
        "trials",
        " 1 of them can show whether skills help.",
    )
    assert "Until it ends, fit is judged without it" in client.get("/suites/starter/").text


def test_the_list_says_what_is_qualified_and_what_is_not(client: Client) -> None:
    def said() -> str:
        return client.get("/suites/").text.partition("<tbody>")[2].partition("</tr>")[0]

    assert ">Qualify<" in said()
    make_qualification({"E1-LS1-T2": SOUND})
    assert ">qualified</a>" in said()
    make_qualification({"E1-LS1-T1": {**SOUND, NO_SKILL: "pppppp"}, "E1-LS1-T2": SOUND})
    assert "1 task not qualified" in said()
    listed = client.get("/suites.json").json()["suites"][0]
    assert listed["qualification"] == {
        "counts": {"admit": 1, "reject": 1, "look": 0},
        "is_current": True,
        "is_open": False,
    }
    Experiment.objects.qualifications().delete()
    make_qualification({"E1-LS1-T2": SOUND}, digest="0" * 64)
    assert "changed since its qualification" in said()


def test_more_qualified_suites_ask_no_more_of_the_database(client: Client) -> None:
    def make(number: int) -> None:
        for place in range(number):
            suite = make_suite(key=f"own-{number}-{place}", environments=1, families=1)
            run = make_run(make_experiment(suite=suite), condition=SOLUTION, agent_model="", author_model="")
            make_trial(make_episode(run), suite.tasks.first(), success=True)
            make_trial(
                make_unordered_episode(make_run(make_experiment(suite=suite))), suite.tasks.first(), success=True
            )

    assert_queries_flat(client, "/suites/", make)


def test_chances_are_those_of_the_rules_in_force(client: Client) -> None:
    make_qualification({"E1-LS1-T1": SOUND})
    by_check = {each["check"]: each for each in twin(client)["chances"]}
    rule = by_check["No skill"]
    assert rule["rule"] == "at most 5 of 10"
    assert {each["rate"]: round(each["kept"], 3) for each in rule["chances"]}[0.7] == 0.150
    assert "&gt;99" in client.get("/suites/starter/").text


def test_one_of_another_state_says_so(client: Client) -> None:
    make_qualification({"E1-LS1-T1": SOUND}, digest="0" * 64)
    assert twin(client)["is_of_this_state"] is False
    assert "of another state of the suite" in client.get("/suites/starter/").text


def test_of_several_the_newest_that_ended_over_this_state_is_shown(client: Client) -> None:
    shown = make_qualification({"E1-LS1-T1": SOUND})
    make_qualification({"E1-LS1-T1": SOUND}, status="running")
    make_qualification({"E1-LS1-T1": SOUND}, digest="0" * 64)
    assert twin(client)["id"] == str(shown.public_id)


def test_while_only_one_runs_the_page_says_how_far_it_is_and_lists_only_verdicts(client: Client) -> None:
    experiment = make_qualification({"E1-LS1-T1": {SOLUTION: "p"}}, status="running")
    page = client.get("/suites/starter/").text
    assert ">1 of 1 trials are done, 0 of 1 tasks judged.</h2>" in page
    assert 'class="">1/1</span>' in page.partition('<table class="matrix')[2]  # before the check is decided
    assert 'id="qualification"' not in page
    assert twin(client)["tasks"][0]["verdict"] == "look"
    experiment.delete()
    make_qualification({"E1-LS1-T1": {SOLUTION: "p"}, "E1-LS1-T2": SOUND}, status="running")
    page = client.get("/suites/starter/").text
    assert "1 of 24 tasks is judged so far" in page
    assert "trials are done. A task that is decided drops its other trials" in page
    table = page.partition('id="qualification"')[2]
    assert ("E1-LS1-T2" in table, "E1-LS1-T1" in table) == (True, False)


def test_one_that_runs_after_another_is_named_and_no_third_is_offered(client: Client) -> None:
    make_qualification({"E1-LS1-T1": SOUND})
    make_qualification({"E1-LS1-T1": {SOLUTION: "p"}}, status="running")
    page = client.get("/suites/starter/").text
    assert ("Another qualification</a> is running." in page, "Qualify again" in page) == (True, False)


def test_its_trials_do_not_count_as_tries_of_the_suite(client: Client) -> None:
    make_qualification({"E1-LS1-T1": SOUND})
    page = client.get("/suites/starter.json").json()
    assert page["says"].endswith("no trial of them is scored yet.")
    assert page["experiments"] == []


def test_hostile_models_and_titles_are_shown_and_never_run(client: Client) -> None:
    experiment = make_qualification({"E1-LS1-T1": SOUND})
    experiment.suite.tasks.update(title="<script>alert(1)</script>")  # type: ignore[union-attr]
    Run.objects.filter(experiment=experiment).exclude(agent_model="").update(agent_model="<b>m</b>")
    page = client.get("/suites/starter/").text
    assert "<script>alert(1)" not in page
    assert "<b>m</b>" not in page


def test_more_tasks_ask_no_more_of_the_database(client: Client) -> None:
    suite = load_suite("starter")
    keys = [task.key for each in suite.environments for family in each.families for task in family.tasks]

    def make(number: int) -> None:
        Experiment.objects.qualifications().delete()
        make_qualification(dict.fromkeys(keys[:number], SOUND))

    assert_queries_flat(client, "/suites/starter/", make)


def test_an_import_that_calls_its_condition_so_breaks_no_page(client: Client) -> None:
    rows = record_suite(load_suite("starter"))
    run = make_run(
        make_experiment(suite=rows.suite, origin="imported", spec={"conditions": 3}), condition=NO_SKILL, setup={}
    )
    make_trial(make_episode(run), rows.tasks["E1-LS1-T1"])
    assert "no rule is on record for it" in client.get("/suites/starter/").text
    assert twin(client)["is_of_this_state"] is False


def test_one_that_runs_shows_how_far_it_is_instead_of_tasks_without_results(client: Client) -> None:
    suite = make_suite(key="bare")
    run = make_run(
        make_experiment(suite=suite, status="running", spec=write_file(load_suite("starter"))),
        condition=SOLUTION,
        setup={"suite": {"key": "bare", "digest": suite.digest}},
        status="running",
    )
    tasks = [make_task(suite=suite, title=title, role="") for title in ("<b>one", "two")]
    trial, _ = (make_trial(make_episode(run, status="running"), task, finished=False) for task in tasks)
    Attempt.objects.create(trial=trial, number=1, status="running", started_at=timezone.now())
    page = client.get("/suites/bare/").text
    assert '<progress max="2" value="0"' in page
    assert f'<a href="{trial.get_absolute_url()}">&lt;b&gt;one</a>, own solution' in page
    assert page.count('<span class="muted">to run</span>') == 2


# --- the way there --------------------------------------------------------------------------------------------------


def test_the_button_opens_the_form_with_the_file_of_a_qualification(client: Client) -> None:
    told = client.get("/launch.json?qualify=starter").json()
    assert "protocol: qualification" in told["file"]
    assert told["problems"] == []
    assert told["checked"]["runs"] == 5
    page = client.get("/launch/?qualify=starter").text
    assert "At most 440 trials" in page
    assert "<dt>Can detect" not in page
    assert "unknown suite" in client.get("/launch/?qualify=nothing").text


def test_a_viewer_cannot_launch_one(client: Client, settings: Any) -> None:
    file = client.get("/launch.json?qualify=starter").json()["file"]
    settings.SINGLE_USER = False
    client.force_login(make_user(level="viewer"))
    assert client.get("/suites/starter/").status_code == 200
    assert client.post("/launch/", {"file": file, "act": "launch"}).status_code == 403
    assert not Experiment.objects.exists()


def test_its_own_page_leads_to_the_verdicts_and_compares_nothing(client: Client) -> None:
    experiment = make_qualification({"E1-LS1-T1": SOUND})
    page = client.get(experiment.get_absolute_url()).text
    assert 'href="/suites/starter/#qualification"' in page
    assert "1 of 1 task is admitted." in page
    assert "nobody works on the task&#x27;s files" in page
    assert "at most 5 of 10" in page  # what it expects without a skill
    assert 'id="answer"' not in page


def test_home_counts_it_with_the_probes_and_lists_it_on_demand(client: Client) -> None:
    make_qualification({"E1-LS1-T1": SOUND})
    assert "Show 1 qualification" in client.get("/").text
    told = client.get("/index.json").json()
    assert (told["experiments"], told["qualifications"]) == ([], 1)
    assert "<b>qualification</b> of its tasks" in client.get("/?probes=1").text

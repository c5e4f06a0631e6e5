"""`/suites/` and `/suites/<key>/`: what is in a suite, by group, and what was recorded of it."""

from __future__ import annotations

import re
import shutil
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from benchapp.models import Activity, Experiment, Suite, Task, TaskGroup
from benchapp.record.sets.suite_files import record_suite
from runner.protocols.probe import CONDITION as PROBE
from runner.suites import SUITES, load_suite
from tests.queries import assert_queries_flat
from tests.runner.suites.test_account import two_sets, write_task
from tests.worlds.factories import (
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_task,
    make_trial,
    make_user,
)
from tests.worlds.review_factories import make_item, make_queue

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def twin(client: Client, url: str) -> dict[str, Any]:
    response = client.get(url)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_it_lists_bundled_loaded_and_imported_suites(client: Client, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))
    (folder / "LICENSE").write_text("\n MIT License\n\nmore\n")
    call_command("load_suite", str(folder), stdout=StringIO())
    suite = make_suite(key="harbor/some set", environments=1, families=1)
    make_learning_run(make_experiment(suite=suite))
    listed = {each["key"]: each for each in twin(client, "/suites.json")["suites"]}
    assert listed["starter-environments"]["answer"] == twin(client, "/suites/starter-environments.json")["answer"]
    assert set(listed) == {*SUITES, "flow", "harbor/some set"}
    assert (listed["flow"]["format"], listed["flow"]["licence"], listed["flow"]["can_launch"]) == (
        "skillflow",
        "MIT License",
        True,
    )
    assert listed["flow"]["attributes"] == ["difficulty", "rank"]
    imported = listed["harbor/some set"]
    assert (imported["format"], imported["tasks"], imported["experiments"]) == ("imported", 6, 1)
    assert (imported["can_launch"], imported["licence"]) == (False, None)
    assert 'href="/suites/harbor/some%20set/"' in client.get("/suites/").text


def test_a_bundled_suite_that_never_ran_is_shown_from_its_folder(client: Client) -> None:
    page = twin(client, "/suites/starter.json?by=domain")
    assert page["says"] == "24 tasks in 4 families, 3 by domain; no trial of them is scored yet."
    assert page["groups"] == {"Operations": 6, "Record keeping": 12, "Statistics": 6}
    assert not Suite.objects.exists()


def test_two_splits_count_tasks_as_the_rings_of_a_figure(client: Client) -> None:
    page = twin(client, "/suites/starter.json?by=domain&within=family")
    counts = {(row["outer"], row["inner"]): row["tasks"] for row in page["composition"]}
    assert counts["Record keeping", "Merging duplicate records"] == 6
    assert sum(counts.values()) == 24
    one = twin(client, "/suites/starter.json?by=role&within=role")["composition"]
    assert [(row["inner"], row["tasks"]) for row in one][:2] == [("canonical", 4), ("enriched", 4)]
    text = client.get("/suites/starter/?by=domain&within=family").text
    assert "12 tasks: Joining tables by key 6, Merging duplicate records 6" in text
    assert "Merging duplicate records 6" not in client.get("/suites/starter/?by=domain").text


def test_columns_and_words_that_say_nothing_are_left_out(client: Client) -> None:
    text = client.get("/suites/starter-corpora/").text
    assert "What it tests</th>" not in text
    assert text.count("gaugekit, a package for water gauges") == 1
    assert "repository · reference skill" in text
    usual, _, more = client.get("/suites/starter/?by=trap").text.partition(">more</summary>")
    assert [f">{name}</a>" in usual for name in ("family", "role", "trap", "domain")] == [True] * 3 + [False]
    assert ">domain</a>" in more


def test_tasks_by_conditions_have_a_square_a_trial_and_a_fit(client: Client) -> None:
    rows = record_suite(load_suite("starter"))
    experiment = make_experiment(suite=rows.suite, name="newest")
    passed = {"E1-LS1-T1": ("ppp", "ppp"), "E1-LS1-T2": ("pff", "ppf"), "E1-LS1-T3": ("fff", "fff")}
    for place, condition in enumerate(("curated-static", "no-skill")):
        episode = make_episode(make_run(experiment, condition=condition))
        for key, outcomes in passed.items():
            for sample, letter in enumerate(outcomes[1 - place]):
                make_trial(episode, rows.tasks[key], success=letter == "p", sample=sample, phase="deployment")
        make_trial(episode, rows.tasks["E1-LS1-T3"], success=True, phase="replay")
    page = twin(client, "/suites/starter.json")
    assert page["matrix"]["conditions"] == ["no-skill", "curated-static"]
    fits = {each["key"]: (each["fit"], each["fit_why"]) for each in page["tasks"]}
    assert [fits[f"E1-LS1-T{number}"] for number in (1, 2, 3, 4)] == [
        ("too-easy", "3 of 3 without a skill"),
        ("fit", None),
        ("never-solved", "in 3 trials with a skill"),
        ("unknown", None),
    ]
    assert page["answer"] == "3 of 24 tasks are judged so far; 1 of them can show whether skills help."
    text = client.get("/suites/starter/?by=fit").text
    assert text.index(">fit <") < text.index(">too easy <") < text.index(">not solved <") < text.index(">unknown <")
    cell = text[text.index("2 of 3 passed: Waiting times of clinics, Human-written, as is") :].partition("</a>")[0]
    assert (cell.count('class="passed"'), cell.count('class="failed"')) == (2, 1)
    (link,) = set(
        re.findall(r'class="tally muted nowrap digits row" href="([^"]+)" aria-label="2 of 3 passed: Waiting', text)
    )
    assert client.get(unescape(link)).text.count('scope="row"') == 3


def test_an_experiment_of_one_trial_each_does_not_replace_one_that_can_judge(client: Client) -> None:
    rows = record_suite(load_suite("starter"))

    def add_experiment(name: str, trials: int) -> None:
        experiment = make_experiment(suite=rows.suite, name=name)
        for condition in ("no-skill", "curated-static"):
            episode = make_episode(make_run(experiment, condition=condition))
            for sample in range(trials):
                make_trial(episode, rows.tasks["E1-LS1-T1"], success=bool(sample), sample=sample, phase="deployment")

    add_experiment("small", 1)
    assert twin(client, "/suites/starter.json")["answer"] is None
    assert "Too few trials to rate a task: each needs 2 without a skill" in client.get("/suites/starter/").text
    add_experiment("full", 2)
    add_experiment("small again", 1)
    assert ">full</a>" in client.get("/suites/starter/").text.partition(">Group</span>")[0].partition("aria-current")[2]


def test_a_blind_reviewer_sees_no_outcome_of_a_task_they_still_code(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    rows = record_suite(load_suite("starter"))
    blind, other = make_user(username="blind"), make_user(username="other")
    trial = make_trial(
        make_episode(make_run(make_experiment(suite=rows.suite), condition="no-skill")),
        rows.tasks["E1-LS1-T1"],
        success=False,
    )
    make_item(make_queue([], reviewers=[blind], hides_conditions=True), trial=trial)
    for user, seen in ((other, (True, False, False)), (blind, (False, True, True))):
        client.force_login(user)
        told = twin(client, "/suites/starter.json?task=E1-LS1-T1")
        assert told["matrix"]["conditions"] == ["no-skill"]
        counted = next(each for each in told["tasks"] if each["key"] == "E1-LS1-T1")["scored"]
        listed = next(each for each in twin(client, "/suites.json")["suites"] if each["key"] == "starter")["scored"]
        tried = len(told["task"]["conditions"])
        assert (counted or 0, listed, tried) == ((1, 1, 1) if user == other else (0, 0, 0))
        task = client.get("/suites/starter/?task=E1-LS1-T1").text
        assert ("Its trials are hidden" in task) is (user == blind)
        assert "Nobody tried it yet" not in task
        page = client.get("/suites/starter/").text
        assert (
            "0 of 1 passed" in page,
            "The trials are hidden until you finish" in page,
            "You may not see results yet." in page,
        ) == seen


def test_hidden_trials_are_not_taken_for_untried_ones(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    rows, blind = record_suite(load_suite("starter")), make_user(username="blind")
    experiment, queue = make_experiment(suite=rows.suite), make_queue([], reviewers=[blind], hides_conditions=True)
    for condition, hides in (("no-skill", True), ("selfgen-always", False)):
        episode = make_episode(make_run(experiment, condition=condition))
        for key in ("E1-LS1-T1", "E1-LS1-T2"):
            trial = make_trial(episode, rows.tasks[key], success=True)
            if hides and key == "E1-LS1-T1":
                make_item(queue, trial=trial)
    client.force_login(blind)
    before, _, table = client.get("/suites/starter/").text.partition("<table")
    assert "Some trials are hidden until you finish" in before
    table = table.partition("</table>")[0]
    assert table.count(">hidden until you finish<") == 1  # of the task, under both conditions and in its fit
    fits = {each["key"]: each["fit"] for each in twin(client, "/suites/starter.json")["tasks"]}
    assert (fits["E1-LS1-T1"], fits["E1-LS1-T2"]) == ("hidden", "unknown")


def test_results_are_those_of_one_experiment(client: Client) -> None:
    rows = record_suite(load_suite("starter"))
    older, newer = (make_experiment(suite=rows.suite, name=name) for name in ("older", "newer"))
    make_trial(make_episode(make_run(older, condition="no-skill")), rows.tasks["E1-LS1-T1"], success=True)
    make_trial(make_episode(make_run(newer, condition="raw-trajectory")), rows.tasks["E1-LS1-T1"], success=True)
    assert twin(client, "/suites/starter.json")["matrix"]["conditions"] == ["raw-trajectory"]
    asked = f"/suites/starter.json?experiment={older.public_id}"
    assert twin(client, asked)["matrix"]["conditions"] == ["no-skill"]
    response = client.get("/suites/starter/?experiment=other")
    assert (response.status_code, "did not use this suite" in response.text) == (400, True)


def test_a_task_shows_what_it_is_told_checked_by_and_run_in(client: Client) -> None:
    task = twin(client, "/suites/starter.json?task=E1-LS1-T5")["task"]
    assert task["instruction"].startswith("# Energy use of our buildings")
    assert task["groups"]["trap"] == ["ready-made column"]
    assert task["environment"]["Network"] == "none"
    assert [skill["name"] for skill in task["reference_skills"]] == ["null-safe-aggregation"]
    assert not task["reference_skills"][0]["text"].startswith("---")
    names = {file["path"]: file["names"] for file in task["tests"]}
    assert "basic contract" in names["rubric.yaml"]
    assert names["verify.py"]
    page = client.get("/suites/starter/?task=E1-LS1-T5").text
    assert "<h3>Energy use of our buildings</h3>" in page


def test_each_task_counts_its_recorded_trials_without_probes_and_deleted_ones(client: Client) -> None:
    rows = record_suite(load_suite("starter"))
    experiment = make_experiment(suite=rows.suite, name="my experiment")
    task = rows.tasks["E1-LS1-T1"]
    probe = make_experiment(suite=rows.suite, name="a probe of it")
    for of, condition, success in (
        (experiment, "no-skill", True),
        (experiment, "no-skill", False),
        (probe, PROBE, True),
    ):
        make_trial(make_episode(make_run(of, condition=condition)), task=task, success=success)
    gone = make_experiment(suite=rows.suite)
    make_trial(make_episode(make_run(gone)), task=task, success=True)
    Experiment.objects.filter(pk=gone.pk).update(deleted_at=gone.created_at)
    page = twin(client, "/suites/starter.json?task=E1-LS1-T1")
    found = {each["key"]: each for each in page["tasks"]}
    assert (found["E1-LS1-T1"]["passed"], found["E1-LS1-T1"]["scored"]) == (1, 2)
    assert found["E1-LS1-T2"]["scored"] is None
    assert page["task"]["conditions"] == {
        "no-skill": {"passed": 1, "scored": 2, "planned": 2, "rate": 0.5, "low": None, "high": None}
    }
    assert [each["name"] for each in page["experiments"]] == ["my experiment"]
    (listed,) = (each for each in twin(client, "/suites.json")["suites"] if each["key"] == "starter")
    assert listed["experiments"] == 1
    assert client.get(found["E1-LS1-T1"]["trials_url"]).text.count('scope="row"') == 2


def test_a_suite_recorded_before_there_were_groups_shows_those_of_its_folder(client: Client) -> None:
    record_suite(load_suite("starter"))
    recorded = twin(client, "/suites/starter.json")["tasks"]
    TaskGroup.objects.all().delete()
    assert twin(client, "/suites/starter.json")["tasks"] == recorded
    assert any(each["groups"] for each in recorded)


def test_a_suite_is_also_found_by_its_public_id(client: Client) -> None:
    suite = make_suite(environments=1, families=1)
    assert twin(client, f"/suites/{suite.public_id}.json")["key"] == suite.key
    assert client.get("/suites/no-such/").status_code == 404
    assert client.get("/suites/00000000-0000-0000-0000-000000000000/").status_code == 404


def test_what_the_address_asks_for_in_vain_is_told(client: Client) -> None:
    response = client.get("/suites/starter/?by=colour&task=none")
    assert response.status_code == 400
    assert "by: &#x27;colour&#x27; is unknown, expected one of environment, family, role" in response.text
    assert "task: &#x27;none&#x27; is not a task of this suite" in response.text


def test_what_was_set_aside_is_listed_with_reasons(client: Client, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))
    (folder / "Ledger-Reconciliation/ledger_cash_box/instruction.md").unlink()
    call_command("load_suite", str(folder), stdout=StringIO())
    problems = twin(client, "/suites/flow.json")["set_aside"]["task ledger_cash_box"]
    assert problems[0]["place"] == "instruction.md"
    page = client.get("/suites/flow/").text
    assert "Found 4 tasks: 3 loaded, 1 set aside." in page
    assert "no instruction.md" in page
    assert str(folder) not in page[page.index("What was not loaded") :]


def test_the_account_is_in_the_headline_the_list_and_the_twins(client: Client, tmp_path: Path) -> None:
    two_sets(tmp_path / "repo")
    call_command("load_suite", str(tmp_path / "repo"), stdout=StringIO())
    page, text = twin(client, "/suites/repo.json"), client.get("/suites/repo/").text
    sentence = page["says"].partition(". ")[0]
    assert sentence.startswith("Found 16 tasks: ")
    assert sentence in text
    assert sentence in client.get("/suites/").text
    account = page["account"]
    counts = [line["count"] for name in ("set_aside", "left_out") for line in account[name]]
    assert account["found"] == account["loaded"] + sum(counts) == 16
    listed = {each["key"]: each for each in twin(client, "/suites.json")["suites"]}
    assert (listed["repo"]["account"], listed["starter"]["account"]) == (account, None)
    rows = text[text.index("What was not loaded") :]
    assert rows.count("git lfs pull") == 1
    assert rows.index("git lfs pull") < rows.index("needs a TPU")


def test_a_hostile_name_in_the_account_is_shown_and_never_run(client: Client, tmp_path: Path) -> None:
    write_task(tmp_path / "s/good")
    write_task(tmp_path / "s/<script>alert(1)<")
    call_command("load_suite", str(tmp_path / "s"), stdout=StringIO())
    assert "<script>alert(1)" not in client.get("/suites/s/").text


def test_a_folder_that_is_gone_without_files_in_the_record_leaves_the_instructions(
    client: Client, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))
    call_command("load_suite", str(folder), stdout=StringIO())
    shutil.rmtree(folder)
    Suite.objects.update(files_digest="")
    page = twin(client, "/suites/flow.json?task=ledger_cash_box")
    assert "is not on this machine" in page["absent"]
    assert page["task"]["instruction"]
    assert page["task"]["tests"] == []


def test_it_says_why_the_record_does_not_hold_its_files(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchapp.record.sets.suite_files.MAX_FILES", 1)
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "flow"))
    call_command("load_suite", str(folder), stdout=StringIO())
    why = "The record does not hold its files: it has more than 1 files"
    assert why in client.get("/suites/flow/").text
    shutil.rmtree(folder)
    page = client.get("/suites/flow/").text
    assert (why in page, "is not on this machine" in page) == (True, True)
    Suite.objects.update(account={})
    assert twin(client, "/suites/flow.json")["folder_only"] is None


def test_hostile_names_and_texts_are_shown_and_never_run(client: Client) -> None:
    nasty = "<script>alert(1)</script>"
    suite = make_suite(key="nasty", name=nasty)
    task = make_task(suite=suite, title=nasty, key="a&b=<i>")
    TaskGroup.objects.create(task=task, attribute="domain", value=nasty)
    text = client.get("/suites/nasty/?by=domain&task=a%26b%3D%3Ci%3E").text
    assert nasty not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_more_tasks_ask_no_more_of_the_database(client: Client) -> None:
    suite = make_suite(key="grows", environments=1, families=1)
    family = suite.families.get()

    def make(count: int) -> None:
        for _ in range(count):
            task = make_task(family=family)
            TaskGroup.objects.create(task=task, attribute="domain", value=task.key)
            make_trial(make_episode(), task=task, success=True)

    assert_queries_flat(client, "/suites/grows/", make)
    assert Task.objects.filter(suite=suite).count() == 18


def test_the_page_chooses_families_with_the_persons_name(client: Client, tmp_path: Path) -> None:
    for name, category in {"a": "tables", "b": "security"}.items():
        write_task(tmp_path / "s" / name, f'[metadata]\ncategory = "{category}"\n')
    call_command("load_suite", str(tmp_path / "s"), stdout=StringIO())

    def families() -> list[str]:
        return list(Task.objects.order_by("key").values_list("family__key", flat=True))

    assert 'action="/suites/s/families/"' in client.get("/suites/s/").text
    assert client.post("/suites/s/families/", {"by": "category"}).status_code == 302
    assert families() == ["tables", "security"]
    assert Activity.objects.get(verb="suite.regrouped").actor is not None
    client.post("/suites/s/families/", {"by": ""})
    assert families() == ["s", "s"]
    assert client.post("/suites/s/families/", {"by": "colour"}).status_code == 400


def test_who_may_not_regroup_is_not_shown_the_form(client: Client, tmp_path: Path, settings: Any) -> None:
    for name, category in {"a": "tables", "b": "security"}.items():
        write_task(tmp_path / "s" / name, f'[metadata]\ncategory = "{category}"\n')
    call_command("load_suite", str(tmp_path / "s"), stdout=StringIO())
    settings.SINGLE_USER = False
    client.force_login(make_user(level="reviewer"))
    assert "Families from" not in client.get("/suites/s/").text

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from benchapp.imports.audited_edits import Author, join_experiments, split_experiment
from benchapp.imports.batch import import_paths
from benchapp.models import Activity, Experiment, ImportBatch, ImportedExperiment, Run, Trial, User
from benchapp.stats.comparing.side_suggestions import CandidateRun, TrialCounts
from inspector.pages.imports.imports_view import name_folder, show_evidence
from runner.protocols.conditions import unpooled_conditions
from tests.benchapp.import_folders import job
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_batch,
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_task,
    make_trial,
    make_unordered_episode,
    make_user,
)
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db


def make_imported(**fields: object) -> Run:
    given = {"condition": "unknown", "replicate": None, "author_model": "unknown", **fields}
    return make_run(make_experiment(origin="imported"), **given)


def send(client: Client, *runs: Run, **fields: object) -> object:
    batch = make_batch(brings=[run.experiment for run in runs])
    given = {"name": "Ada", "reason": "from the paper's appendix", "batch": str(batch.public_id), **fields}
    return client.post("/imports/assign/", {"runs": [str(run.public_id) for run in runs], **given})


def test_it_says_how_to_import(client: Client) -> None:
    text = client.get("/imports/").text
    assert "For a script: <code>manage.py import_runs PATH</code>" in text
    assert "Nothing was imported yet" in text
    assert "<code>~/.claude/projects</code>" in text


def test_it_lists_batches_with_their_counts(client: Client) -> None:
    batch = make_batch(problems=2, counts={"runs": 3, "trials": 40, "created": 40, "changed": 0, "unchanged": 0})
    (found,) = client.get("/imports.json").json()["batches"]
    assert (found["id"], found["problems"], found["counts"]["trials"]) == (str(batch.public_id), 2, 40)


def test_it_shows_path_place_and_expectation_of_each_problem(client: Client) -> None:
    make_batch(problems=1)
    text = client.get("/imports/").text
    for part in (
        ">trial-0/result.json<",
        "line 1, column 5",
        "one JSON object",
        "the file ends inside a string",
    ):
        assert part in text


def test_it_says_what_came_in_before_anything_else(client: Client) -> None:
    make_batch()
    make_batch(problems=2, counts={"runs": 3, "trials": 40, "created": 40, "changed": 0, "unchanged": 0})
    text = client.get("/imports/").text
    assert "<h1>40 trials came in.</h1>" in text
    assert text.index("40 trials came in") < text.index("2 problems.") < text.index("All imports")


def test_probes_have_a_row_so_that_the_trials_sum_up(client: Client) -> None:
    run = make_imported()
    make_trial(make_unordered_episode(run))
    Run.objects.filter(pk=run.pk).update(condition=min(unpooled_conditions()))
    make_batch(brings=[run.experiment, make_imported().experiment])
    row = client.get("/imports/").text.partition("Probes")[2].partition("</tr>")[0]
    assert "1 run, in no comparison" in row
    assert "<b>1</b>" in row


def test_an_error_stands_at_its_field(client: Client) -> None:
    text = send(client, make_imported(), replicate="0", reason="").text  # type: ignore[attr-defined]
    for field, words in (("replicate", "greater than or equal to 1"), ("reason", "Say why")):
        assert words in text.partition(f'id="id_{field}_error">')[2][:80]


def test_it_opens_the_batch_that_is_asked_for(client: Client) -> None:
    first, second = make_batch(problems=1), make_batch(problems=2)
    assert client.get("/imports.json").json()["batch"] == str(second.public_id)
    data = client.get(f"/imports.json?batch={first.public_id}").json()
    assert (data["batch"], len(data["problems"])) == (str(first.public_id), 1)


@pytest.mark.parametrize("query", ["batch=zzz", "batch=00000000-0000-0000-0000-000000000000", "page=x", "batch=%01"])
def test_it_forgives_a_bad_query(client: Client, query: str) -> None:
    make_batch(problems=1)
    assert client.get(f"/imports/?{query}").status_code == 200


def test_it_turns_pages_of_problems(client: Client) -> None:
    make_batch(problems=60)
    first = client.get("/imports.json").json()
    assert len(first["problems"]) == 50
    assert len(client.get(first["next"]).json()["problems"]) == 10


def test_it_lists_replicates_in_their_order(client: Client) -> None:
    runs = [make_imported() for _ in range(3)]
    for run, replicate in zip(runs, (None, 2, 1), strict=True):
        Run.objects.filter(pk=run.pk).update(experiment=runs[0].experiment, condition="no-skill", replicate=replicate)
    make_batch(brings=[runs[0].experiment])
    found = [each["id"] for each in client.get("/imports.json").json()["runs"]]
    assert found == [str(runs[at].public_id) for at in (2, 1, 0)], "an unknown one comes last, on every database"


def test_it_offers_runs_without_a_condition_first(client: Client) -> None:
    make_learning_run(families=1)
    known, unknown = make_imported(condition="no-skill"), make_imported()
    make_batch(brings=[make_imported().experiment])  # another import's
    make_batch(brings=[known.experiment, unknown.experiment])
    listed = [found["id"] for found in client.get("/imports.json").json()["runs"]]
    assert listed == [str(unknown.public_id), str(known.public_id)]


def test_it_sets_what_the_files_did_not_tell_and_keeps_who_and_why(client: Client) -> None:
    first, second, other = make_imported(), make_imported(), make_imported()
    response = send(client, first, second, condition="no-skill", replicate=2)
    assert response.status_code == 302
    assert "2 rows changed" in client.get(response.url).text
    assert set(Run.objects.filter(condition="no-skill", replicate=2)) == {first, second}
    assert Run.objects.get(pk=other.pk).condition == "unknown"
    activity = Activity.objects.get(target_id=first.public_id)
    assert (activity.actor_name, activity.reason) == ("Ada", "from the paper's appendix")
    assert activity.detail["before"] == {"condition": "unknown", "replicate": None}


def test_it_sets_roles_of_the_tasks_that_match(client: Client) -> None:
    run = make_imported()
    episode = make_unordered_episode(run)
    trials = [make_trial(episode, phase="evaluation") for _ in range(2)]
    wanted = trials[0].task
    send(client, run, tasks=wanted.key, role="canonical", family="sums", phase="acquisition")
    changed, same = (Trial.objects.get(pk=trial.pk) for trial in trials)
    assert (changed.task.role, changed.task.family.key, changed.phase) == ("canonical", "sums", "acquisition")
    assert (same.task.role, same.task.family, same.phase) == ("", None, "evaluation")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Give at least one value to set."),
        ({"condition": "no-skill", "reason": ""}, "Say why: it is kept with the change."),
        ({"condition": "no-skill", "name": ""}, "Say who you are"),
        ({"replicate": "0"}, "greater than or equal to 1"),
    ],
)
def test_it_refuses_half_a_form_and_keeps_the_choice(client: Client, fields: dict[str, str], said: str) -> None:
    run = make_imported()
    response = send(client, run, **fields)
    assert response.status_code == 422
    assert said in response.text
    assert f'id="run-{run.public_id}" checked' in response.text
    assert not Activity.objects.exists()


def test_it_changes_no_run_that_was_launched_here(client: Client) -> None:
    run = make_run()
    assert send(client, run, condition="no-skill").status_code == 422
    assert Run.objects.get(pk=run.pk).condition == "selfgen-always"


def test_it_takes_no_form_without_its_token() -> None:
    run = make_imported()
    response = send(Client(enforce_csrf_checks=True), run, condition="no-skill")
    assert response.status_code == 403
    assert Run.objects.get(pk=run.pk).condition == "unknown"


def test_its_queries_do_not_grow(client: Client) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            run = make_imported()
            make_batch(problems=2, brings=[run.experiment])
            make_trial(make_unordered_episode(run))

    # batches with their experiments, problems, runs; what came in and what it lacks; its probes; uploads; what an
    # undo deletes; incomplete trials
    assert assert_queries_flat(client, "/imports/", make) == 22


def test_it_asks_nobody_who_is_logged_in_for_a_name(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(username="grace", level=User.Level.OPERATOR))
    run = make_imported()
    make_batch(brings=[run.experiment])
    text = client.get("/imports/").text
    assert ('id="give"' in text, 'name="name"' in text) == (True, False)
    send(client, run, condition="no-skill", name="somebody else")
    activity = Activity.objects.get()
    assert (activity.actor_name, activity.actor.username) == ("grace", "grace")


def test_the_form_is_shut_and_its_runs_are_ticked_in_the_table(client: Client) -> None:
    run = make_imported()
    make_trial(make_unordered_episode(run))
    make_batch(brings=[run.experiment])
    text = client.get("/imports/").text
    assert '<details class="fold section" id="fill"><summary id="edit">' in text
    assert f'form="give" value="{run.public_id}"' in text.partition('id="fill"')[0]
    assert '<option value="no-skill">No skill</option>' in text.partition('id="fill"')[2]


def test_a_group_without_a_condition_is_given_one(client: Client) -> None:
    batch, runs = make_jobs()
    text = client.get("/imports/").text
    assert "Condition unknown" in text
    given = {"batch": str(batch.public_id), "condition": "unknown"}
    client.post("/imports/accept/", {**given, "as": "raw-trajectory"})
    assert [Run.objects.get(pk=run.pk).condition for run in runs] == ["unknown", "unknown", "unknown", "raw-trajectory"]
    assert Activity.objects.get().reason == "Set on the page of imports."
    assert (
        "expected a name of 1 to 100"
        in client.post("/imports/accept/", {**given, "condition": "no-skill", "as": "x" * 101}, follow=True).text
    )


@pytest.mark.parametrize(
    ("name", "by", "shown"),
    [
        ("a-noskills-b", "_noskills_ in /tmp/x_noskills_y/z", ("a-", "noskills", "-b", "")),
        ("without", "-no-skills in tasks-no-skills", ("tasks-", "no-skills", "", "tasks-no-skills")),
        (
            "2026-01-29__10-03-50",
            "-no-skills in tasks-no-skills",
            ("m+code-", "no_skills", "/2026-01-29__10-03-50", ""),
        ),
        ("odd", "", None),
        ("odd", "(+ in elsewhere", None),
    ],
)
def test_the_part_of_a_name_that_suggests_a_condition_is_marked(name: str, by: str, shown: object) -> None:
    row = dict.fromkeys(CandidateRun.COLUMNS) | {
        **{"condition": "unknown", "setup__suggested_condition": "no-skill", "setup__suggested_by": by},
        **{"experiment__name": name, "experiment__source": "/data/m+code-no_skills"},
    }
    run = CandidateRun(row, TrialCounts())
    assert show_evidence(run, name_folder(run)) == shown


def make_jobs() -> tuple[ImportBatch, list[Run]]:
    """Make four jobs below one folder. Names of folders suggest the condition of three."""
    suite = make_suite()
    tasks = [make_task(suite=suite) for _ in range(2)]
    runs = []
    for name, hint in (("without", "no-skill"), ("with-a", "with-skills"), ("with-b", "with-skills"), ("odd", "")):
        experiment = make_experiment(origin="imported", name=name, source=f"/data/jobs/{name}")
        setup = {"suggested_condition": hint} if hint else {}
        run = make_run(experiment, condition="unknown", replicate=None, setup=setup)
        make_trial(make_unordered_episode(run), tasks[name == "with-b"], phase="evaluation")
        runs.append(run)
    make_imported()  # of another import
    brings = [run.experiment for run in runs]
    return make_batch(paths=["/data/jobs"], counts={"runs": 4, "trials": 4}, brings=brings), runs


def test_an_import_ends_in_its_comparison(client: Client) -> None:
    make_jobs()
    text = client.get("/imports/").text
    assert "Folder names suggest a condition for 3 of 4 runs." in text
    assert "No skill / With skills: 1 of 2 tasks on both sides" in text
    address = re.search(r'href="(/compare/\?[^"]+)">Open the comparison', text)
    assert address
    assert "With skills against no skill" in client.get(unescape(address[1])).text


def test_trials_that_lack_a_trajectory_or_a_verdict_are_named(client: Client) -> None:
    batch, runs = make_jobs()
    trials = Trial.objects.filter(episode__run__in=runs)
    trials.update(steps=3, success=True)
    assert "No problems." in client.get("/imports/").text
    first = trials.order_by("pk")[0]
    Trial.objects.filter(pk=first.pk).update(steps=None)
    text = client.get("/imports/").text
    assert "1 trial without a trajectory." in text
    assert "No problems." not in text
    assert f'<a href="/trials/{first.public_id}/">' in text.partition(">Missing<")[2]
    assert ": no trajectory" in text
    make_batch()
    assert "1 incomplete" in client.get("/imports/").text.partition("All imports")[2]


def test_trials_that_lack_the_same_are_one_line_with_their_number(client: Client) -> None:
    run = make_imported()
    episode = make_unordered_episode(run)
    lacking = [make_trial(episode, success=False) for _ in range(3)]
    Trial.objects.filter(pk__in=[trial.pk for trial in lacking]).update(steps=None)
    make_batch(brings=[run.experiment])
    text = client.get("/imports/").text
    assert "3 trials without a trajectory." in text
    assert text.count("no trajectory") == 1
    assert all(f'href="/trials/{trial.public_id}/"' in text for trial in lacking)


def test_problems_come_first_and_name_files_below_the_folder(client: Client) -> None:
    run = make_imported()
    make_trial(make_unordered_episode(run))
    batch = make_batch(brings=[run.experiment], problems=7, paths=["/data/runs"])
    batch.problems.update(path="/data/runs/one/result.json", expected="a whole number")
    batch.problems.filter(pk=batch.problems.order_by("pk").last().pk).update(expected="an id of its own")
    text = client.get("/imports/").text
    above, _, folded = text.partition("5 more problems")  # one of each kind is above
    assert above.index(">one/result.json<") < above.index("a whole number") < above.index("an id of its own")
    assert "Runs that came in" in folded
    assert "/data/runs/one" not in text


def test_runs_of_one_name_are_called_by_what_they_hold(client: Client) -> None:
    first, second = make_imported(condition="no-skill"), make_imported(condition="curated-static")
    Run.objects.filter(pk=second.pk).update(experiment=first.experiment)
    for _ in range(2):
        make_trial(make_unordered_episode(first))
    make_batch(brings=[first.experiment])
    table = client.get("/imports/").text.partition("Runs that came in")[2]
    assert ">2 trials</a>" in table
    assert first.experiment.name not in table.partition("</table>")[0]


def test_a_suggestion_that_the_trials_contradict_is_not_accepted_with_the_others(client: Client) -> None:
    _, runs = make_jobs()
    Trial.objects.filter(episode__run__in=runs).update(steps=3, success=True, skills_read=1)
    text = client.get("/imports/").text
    assert "<h1>Folder names say No skill, but 1 of 1 trial opened a skill." in text
    assert "Accept With skills" in text  # with-skills alone
    Trial.objects.filter(episode__run__in=runs).update(skills_read=0)
    assert "Folder names say With skills, but none of 2 trials opened a skill." in client.get("/imports/").text


def test_suggested_conditions_are_accepted_and_the_record_keeps_by_whom(client: Client) -> None:
    batch, runs = make_jobs()
    client.post("/imports/accept/", {"batch": str(batch.public_id), "condition": ["with-skills"]})
    conditions = list(
        Run.objects.filter(pk__in=[run.pk for run in runs]).order_by("pk").values_list("condition", flat=True)
    )
    assert conditions == ["unknown", "with-skills", "with-skills", "unknown"]
    assert set(Activity.objects.values_list("actor_name", flat=True)) == {"local"}
    client.post("/imports/accept/", {"batch": str(batch.public_id), "condition": ["no-skill", "made-up"]})
    assert Run.objects.get(pk=runs[0].pk).condition == "no-skill"
    assert not Run.objects.filter(condition="made-up").exists()


@pytest.mark.parametrize("act", ["accept", "arrange"])
def test_no_such_batch_is_404(client: Client, act: str) -> None:
    assert client.post(f"/imports/{act}/", {"batch": "nonsense"}).status_code == 404


def test_jobs_of_an_import_are_joined_renamed_and_split(client: Client) -> None:
    batch, runs = make_jobs()

    def act(verb: str, **fields: str) -> str:
        return client.post(
            "/imports/arrange/", {"batch": str(batch.public_id), "act": verb, **fields}, follow=True
        ).text

    assert 'value="jobs"' in client.get("/imports/").text
    joined = act("join", name="All jobs")
    assert "Split again" in joined
    for name in ("without", "with-a", "with-b", "odd"):
        assert re.search(rf'<a href="/runs/[^"]+">{name}</a>', joined.partition("What came in")[2])
    (whole,) = {run.experiment for run in Run.objects.filter(pk__in=[run.pk for run in runs])}
    assert (whole.name, whole.source) == ("All jobs", "/data/jobs")
    assert Experiment.objects.not_deleted().filter(name="without").count() == 0
    act("rename", name="Renamed")
    assert Experiment.objects.get(pk=whole.pk).name == "Renamed"
    assert "expected 1 to 300 characters" in act("rename", name=" ")
    act("split")
    assert [Run.objects.get(pk=run.pk).experiment_id for run in runs] == [run.experiment_id for run in runs]
    assert not Run.objects.exclude(joined_from=None).exists()
    assert Experiment.objects.not_deleted().filter(source__startswith="/data/jobs/").count() == 4


# --- undoing ----------------------------------------------------------------------------------------------------------


def undo(client: Client, batch: ImportBatch, reason: str = "the wrong folder") -> str:
    return client.post("/imports/undo/", {"batch": str(batch.public_id), "reason": reason}, follow=True).text


def test_an_undo_deletes_what_the_import_made_and_leaves_what_was_here(client: Client) -> None:
    made, before = make_imported().experiment, make_imported().experiment
    make_batch()
    batch = make_batch(brings=[made])
    ImportedExperiment.objects.create(batch=batch, experiment=before, is_new=False)
    text = client.get("/imports/").text
    assert "Yes, delete 1 experiment." in text
    assert "Kept, because it was here before this import" in text
    assert "1 experiment deleted, 1 kept that existed before." in undo(client, batch)
    assert list(Experiment.objects.not_deleted()) == [before]
    act = Activity.objects.get(verb="delete")
    assert (act.target_id, act.actor_name, act.reason) == (made.public_id, "local", "the wrong folder")
    text = client.get("/imports/").text
    assert "Undo this import" not in text
    assert (text.count("Undone by local: the wrong folder"), text.count(">undone<")) == (1, 1)


def test_an_undo_needs_a_reason(client: Client) -> None:
    batch = make_batch(brings=[make_imported().experiment])
    assert "Say why: it is kept with the deletion." in undo(client, batch, reason=" ")
    assert Experiment.objects.not_deleted().count() == 1


def test_an_undo_is_refused_whole_where_a_review_points(client: Client) -> None:
    fine, reviewed = make_imported(), make_imported()
    trial = make_trial(make_unordered_episode(reviewed), success=False)
    make_queue([trial])
    Experiment.objects.update(status="done")
    batch = make_batch(brings=[fine.experiment, reviewed.experiment])
    text = undo(client, batch)
    assert (
        f"{reviewed.experiment.name} is kept, because people&#x27;s work is about it: 1 item of a review queue" in text
    )
    assert "Nothing was deleted." in text
    assert Experiment.objects.not_deleted().count() == 2
    assert not Activity.objects.filter(verb="delete").exists()


def test_an_undo_takes_joined_experiments_and_refuses_those_with_other_runs(client: Client) -> None:
    batch, runs = make_jobs()
    stranger = make_imported(condition="no-skill").experiment
    author = {"author": Author(None, "a test"), "reason": "a test"}
    mine = [run.experiment for run in runs]
    mixed = join_experiments([mine[0], stranger], name="Mixed", **author)
    Experiment.objects.update(status="done")
    assert "Mixed also has runs of other imports: split it first." in undo(client, batch)
    split_experiment(mixed, **author)
    join_experiments(mine, name="Mine", **author)
    Experiment.objects.update(status="done")
    assert "1 experiment deleted" in undo(client, batch)
    assert not Experiment.objects.not_deleted().brought_by(batch).exists()
    assert stranger in Experiment.objects.not_deleted()


def test_an_undone_import_comes_back_and_can_be_undone_again(client: Client, tmp_path: Path) -> None:
    folder = job(tmp_path / "first")
    for _ in range(2):
        report = import_paths([folder])
        assert Experiment.objects.not_deleted().count() == 1
        undo(client, ImportBatch.objects.get(public_id=report.batch))
        assert not Experiment.objects.not_deleted().exists()
    assert Trial.objects.count() == 3


def test_a_joined_experiment_that_was_undone_comes_back_with_its_jobs(client: Client, tmp_path: Path) -> None:
    report = import_paths([job(tmp_path / "first")])
    batch = ImportBatch.objects.get(public_id=report.batch)
    author = {"author": Author(None, "a test"), "reason": "a test"}
    other = make_imported()
    whole = join_experiments([Experiment.objects.get(name="first"), other.experiment], name="Both", **author)
    Experiment.objects.filter(pk=whole.pk).update(deleted_at=whole.created_at)
    again = import_paths([tmp_path / "first"])
    assert list(Experiment.objects.not_deleted()) == [whole]
    assert list(Experiment.objects.made_by(ImportBatch.objects.get(public_id=again.batch))) == [whole]
    assert batch.arrivals.get().is_new


def test_the_history_names_each_import_and_its_experiments(client: Client) -> None:
    run = make_imported()
    make_batch()
    make_batch(brings=[run.experiment], paths=["/data/skills", "/data/more"], counts={"trials": 3, "created": 2})
    row = client.get("/imports/").text.partition("All imports")[2]
    assert ">skills, more</a>" in row, "it holds no trial"
    assert "3 trials, 2 new" in row
    assert f'<a href="{run.experiment.get_absolute_url()}">{run.experiment.name}</a>' in row


def test_the_history_names_an_import_by_what_it_holds(client: Client) -> None:
    run = make_imported()
    suite, episode = make_suite(), make_unordered_episode(run)
    for _ in range(2):
        make_trial(episode, make_task(suite=suite), phase="evaluation")
    make_batch(brings=[run.experiment], paths=["/data/2026-01-26__19-39-44"])
    make_batch()
    row = client.get("/imports/").text.partition("All imports")[2]
    assert f">{suite.name}: 2 tasks, {run.agent_model}<" in row
    assert "2026-01-26__19-39-44" in row

"""Workspaces of skill-creator, in every order in which people nest their folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchapp import audit
from benchapp.models import Activity, Attempt, Check, Decision, Entry, Episode, Experiment, Run, Task, Trial, Verdict
from benchapp.models.blobs import Blob
from benchapp.stats.comparing.condition_names import name_condition, name_run
from tests.benchapp.import_folders import bring_in, told, write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db


def grading(*answers, key="expectations", text="text", reason="evidence", **more):
    """A grading with one expectation for each answer, in the words of one of the graders."""
    items = [{text: f"States {place}", "passed": passed, reason: "page 1"} for place, passed in enumerate(answers)]
    return {key: items, **more}


def run_folder(folder: Path, *answers, tokens=1_000, seconds=12.5, **files):
    write(folder / "grading.json", grading(*answers))
    write(folder / "timing.json", {"total_tokens": tokens, "duration_ms": 1, "total_duration_seconds": seconds})
    for name, content in files.items():
        write(folder / "outputs" / name.replace("_", "."), content)
    return folder


def an_eval(folder: Path, ident, prompt="Plan the upgrade.\nIn detail."):
    write(folder / "eval_metadata.json", {"eval_id": ident, "eval_name": "", "prompt": prompt, "assertions": []})
    return folder


def runs() -> dict[str, list[float | None]]:
    """The rewards of each run's trials, by its condition and replicate."""
    return {
        f"{run.condition} {run.replicate}": list(
            Trial.objects.filter(episode__run=run).order_by("task__key", "sample").values_list("reward", flat=True)
        )
        for run in Run.objects.order_by("pk")
    }


def config_of(trial: Trial) -> dict:
    return json.loads(Blob.objects.read(Attempt.objects.get(trial=trial, counts=True).source_config_id))


@pytest.fixture
def workspace(tmp_path) -> Path:
    """Two iterations of two evals, the documented way."""
    folder = tmp_path / "skills" / "upgrades-workspace"
    for iteration in (1, 2):
        for number in (1, 2):
            place = an_eval(folder / f"iteration-{iteration}" / f"eval-{number}", number, f"Task {number}.\nMore.")
            run_folder(place / "with_skill" / "run-1", True, iteration > 1, transcript_md="Looked.\n\nDone.")
            run_folder(place / "without_skill" / "run-1", True, False, False, False)
    return folder


def test_a_condition_of_an_iteration_is_a_run(workspace):
    report = bring_in(workspace)
    assert told(report, "upgrades-workspace") == [": the text of the skill that an iteration ran"]
    assert runs() == {
        "with-skills@1 1": [0.5, 0.5],
        "no-skill@1 1": [0.25, 0.25],
        "with-skills@2 2": [1.0, 1.0],
        "no-skill@2 2": [0.25, 0.25],
    }
    assert Experiment.objects.get().name == "skill-creator skills/upgrades-workspace"
    assert list(Task.objects.order_by("key").values_list("key", "title")) == [
        ("skills/upgrades-workspace/1", "Task 1."),
        ("skills/upgrades-workspace/2", "Task 2."),
    ]
    trial = Trial.objects.filter(episode__run__condition="with-skills@1").first()
    assert (trial.success, trial.duration_seconds, trial.input_tokens, trial.skills_mounted) == (False, 12.5, None, 1)
    assert config_of(trial)["total_tokens"] == 1_000
    verdict = Verdict.objects.get(attempt__trial=trial)
    assert verdict.source == "grader"
    assert list(verdict.checks.values_list("name", "status", "message")) == [
        ("States 0", "passed", "page 1"),
        ("States 1", "failed", "page 1"),
    ]
    assert Attempt.objects.get(trial=trial).trajectories.get().steps_total == 2
    assert list(audit.flaws()) == []


def test_folder_parent_and_one_iteration_are_the_same_experiment(workspace):
    first = bring_in(workspace)
    for again in (workspace, workspace.parent, workspace.parent.parent, workspace / "iteration-2"):
        counts = bring_in(again).counts
        assert (counts["created"], counts["changed"]) == (0, 0)
    assert first.counts["created"] == 8
    assert Experiment.objects.count() == 1


def test_an_iteration_alone_comes_first(workspace):
    assert bring_in(workspace / "iteration-1").counts["created"] == 4
    assert bring_in(workspace).counts["created"] == 4
    assert (Experiment.objects.count(), Run.objects.count()) == (1, 4)


def test_a_round_of_another_name_and_one_eval_alone(workspace):
    round_one = workspace / "iteration-1"
    bring_in(round_one.rename(workspace.parent / "round one"))
    assert runs() == {"with-skills None": [0.5, 0.5], "no-skill None": [0.25, 0.25]}
    Experiment.objects.all().delete()
    bring_in(workspace / "iteration-2" / "eval-2")
    assert runs() == {"with-skills None": [1.0], "no-skill None": [0.25]}
    assert Task.objects.latest("pk").title.startswith("Task 2.")


def test_a_file_of_a_workspace_names_the_folder_to_import(workspace):
    path = workspace / "iteration-1" / "eval-1" / "with_skill" / "grading.json"
    (workspace / "iteration-1" / "benchmark.json").write_text("{}")
    shutil.move(workspace / "iteration-1/eval-1/with_skill/run-1/grading.json", path)
    for file, folder in ((path, "eval-1"), (workspace / "iteration-1" / "benchmark.json", "iteration-1")):
        *_, last = bring_in(file).problems
        assert last.message == f"a part of {folder}; import that folder"


def test_evals_that_a_benchmark_is_about_are_not_reported(tmp_path):
    folder = tmp_path / "tests" / "second"
    result = {"pass_rate": 0.5, "passed": 1, "total": 2}
    rows = [{"eval_id": 1, "configuration": "with_skill", "result": result}]
    write(folder / "benchmark.json", {"metadata": {"skill_name": "sums"}, "runs": rows})
    an_eval(folder / "first-sum", 1)
    report = bring_in(tmp_path)
    assert [problem.expected for problem in report.problems] == ["the text of the skill that an iteration ran"]
    assert runs() == {"with-skills None": [0.5]}


def test_workspaces_of_several_skills_with_one_name_stay_apart(tmp_path):
    for skill in ("tables", "charts"):
        run_folder(tmp_path / skill / "evals" / "workspace" / "iteration-1" / "eval-1" / "with_skill", True)
    bring_in(tmp_path)
    assert sorted(Experiment.objects.values_list("name", flat=True)) == [
        "skill-creator charts/evals/workspace",
        "skill-creator tables/evals/workspace",
    ]
    assert Task.objects.count() == 2


FLAT = {"plan/with_skill/grading.json": grading(True, False), "plan/with_skill/timing.json": {"total_tokens": None}}


@pytest.mark.parametrize(
    ("files", "key"),
    [
        (FLAT, "plan"),
        ({"plan/with_skill/outputs/grading.json": grading(True, False)}, "plan"),
        ({"with_skill/eval-3-grading.json": grading(True, False), "with_skill/eval-3-output.md": "Text"}, "3"),
        ({"with_skill/plan/grading.json": grading(True, False)}, "plan"),
        ({"eval-3/with_skill/run-1/grading.json": grading(True, False)}, "3"),
        ({"eval-3-upgrade/new_skill/grading.json": grading(True, False)}, "3"),
        ({"plan/with_skill/grading.json": grading(True, False, key="assertions", text="assertion")}, "plan"),
        (
            {
                "plan/with_skill/grading.json": grading(
                    True, False, key="assertion_results", text="expectation", reason="reason"
                )
            },
            "plan",
        ),
        ({"plan/with_skill/grading.json": grading(True, False, key="assertion_details")}, "plan"),
        (
            {"plan/with_skill/grading.json": {"summary": {"passed": 1, "failed": 1, "total": 2, "pass_rate": 0.5}}},
            "plan",
        ),
        ({"plan/with_skill/grading.json": {"pass_count": 1, "total_count": 2}}, "plan"),
        ({"plan/grading.json": grading(True, False), "plan/with_skill/outputs/plan.md": "Text"}, "plan"),
        ({"plan/grading_with_skill.json": grading(True, False), "plan/with_skill/outputs/plan.md": "Text"}, "plan"),
        ({"plan/grading.json": {"with_skill": [{"run": 1, **grading(True, False)}]}}, "plan"),
        ({"plan/with_skill/grading.json": {"runs": [{"run": 1, **grading(True, False)}]}}, "plan"),
        ({"plan/with_skill/grading.json": grading(True, False, key="evaluations")}, "plan"),
    ],
)
def test_it_finds_results_in_any_order_of_folders(tmp_path, files, key):
    folder = tmp_path / "skills" / "upgrades-workspace"
    for name, content in files.items():
        write(folder / "iteration-1" / name, content)
    bring_in(folder)
    assert runs() == {"with-skills@1 1": [0.5]}
    assert Task.objects.get().key == f"skills/upgrades-workspace/{key}"
    assert Trial.objects.get().success is False
    check = Check.objects.first()
    assert check is None or (check.name, check.message) == ("States 0", "page 1")


def test_samples_are_the_run_folders(tmp_path):
    for number, answer in ((1, True), (2, False), (10, True)):
        run_folder(tmp_path / "a-workspace" / "iteration-1" / "eval-1" / "with_skill" / f"run-{number}", answer)
    bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [1.0, 0.0, 1.0]}
    assert list(Trial.objects.values_list("sample", flat=True)) == [0, 1, 2]


def test_one_grading_of_several_runs_and_conditions_is_divided(tmp_path):
    """One file for an eval, and one for each condition; a model wrote a line break into one."""
    folder = tmp_path / "a-workspace" / "iteration-1"
    runs_of = [{"run": number, **grading(True, number > 1)} for number in (1, 2)]
    write(folder / "eval-1" / "grading.json", {"eval_id": 1, "with_skill": runs_of, "without_skill": runs_of[:1]})
    text = json.dumps({"eval_id": 2, "condition": "with_skill", "runs": runs_of})
    write(folder / "eval-2" / "with_skill" / "grading.json", text.replace("page 1", "page\n1", 1))
    one = {"runs": [{"run": 1, **grading(True)}]}
    write(folder / "eval-3" / "with_skill" / "grading.json", one)
    write(folder / "eval-3" / "with_skill" / "timing.json", {"total_duration_seconds": 7.5})
    report = bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [0.5, 1.0, 0.5, 1.0, 1.0], "no-skill@1 1": [0.5]}
    assert Trial.objects.get(task__key__endswith="/3").duration_seconds == 7.5
    assert "read all the same" in str(list(report.problems))
    assert "page\n1" in Check.objects.values_list("message", flat=True)


def test_a_grading_in_the_folder_of_its_eval_is_of_the_condition_with_a_result(tmp_path):
    place = tmp_path / "a-workspace" / "iteration-1"
    write(place / "plan" / "grading.json", grading(True, False))
    for condition in ("with_skill", "without_skill"):
        write(place / "plan" / condition / "outputs" / "plan.md", "Text")
    sides = {"with_skill": {"pass_rate": 0.5, "passed": 1, "total": 2}, "without_skill": {"pass_rate": None}}
    write(place / "benchmark.json", {"evals": [{"eval_name": "plan", **sides}]})
    report = bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [0.5], "no-skill@1 1": [None]}
    assert "the only one with a result in benchmark.json" in str(list(report.problems))


def test_what_an_eval_brings_is_no_run_of_it(tmp_path):
    place = tmp_path / "a-workspace" / "iteration-1"
    write(place / "plan" / "fixture" / "outputs" / "stdout.txt", "Text")
    run_folder(place / "plan" / "with_skill", True)
    write(place / "plan" / ".DS_Store", "x")
    report = bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [1.0]}
    assert "plan/fixture/outputs/stdout.txt" in str(list(report.problems))
    assert ".DS_Store" not in str(list(report.problems))


def test_a_copy_inside_its_own_folder_counts_once(tmp_path):
    outer = run_folder(tmp_path / "a-workspace" / "iteration-1" / "plan" / "without_skill", True)
    shutil.copytree(outer, outer / "without_skill")
    report = bring_in(tmp_path)
    assert runs() == {"no-skill@1 1": [1.0]}
    assert "every run folder once" in str(list(report.problems))


def test_a_grading_in_the_folder_of_its_eval_may_be_of_either(tmp_path):
    place = tmp_path / "a-workspace" / "iteration-1" / "plan"
    write(place / "grading.json", grading(True))
    for condition in ("with_skill", "without_skill"):
        write(place / condition / "outputs" / "plan.md", "Text")
    report = bring_in(tmp_path)
    assert runs() == {"no-skill@1 1": [None], "unknown 1": [1.0], "with-skills@1 1": [None]}
    assert "its condition is unknown" in str(list(report.problems))


@pytest.mark.parametrize(
    ("others", "condition"), [(["with_skill"], "no-skill"), (["with_skill", "old_skill"], "baseline")]
)
def test_a_baseline_is_without_a_skill_unless_there_is_another_one(tmp_path, others, condition):
    for name in ("baseline", *others):
        run_folder(tmp_path / "a-workspace" / "iteration-1" / "plan" / name, True)
    report = bring_in(tmp_path)
    assert f"{condition}@1 1" in runs()
    assert len(runs()) == len(others) + 1
    assert ("taken as without a skill" in str(list(report.problems))) == (condition == "no-skill")


def test_other_iterations_and_conditions_keep_their_names(tmp_path):
    folder = tmp_path / "a-workspace"
    for iteration in ("iteration-5", "iteration-5b", "iteration-master"):
        for condition in ("claude_with_skill", "without_skill", "old_skill"):
            run_folder(folder / iteration / "plan" / condition, True)
    bring_in(folder)
    named = ("claude_with_skill", "no-skill", "old-skill")
    assert sorted(runs()) == [f"{name}@{each}" for name in named for each in ("5 5", "5b 5", "master None")]


def test_the_iteration_is_in_the_name_of_a_condition():
    assert name_condition("with-skills@5b").title == "With skills, iteration 5b"
    assert name_run("old-skill@2", 2) == "Old skill, iteration 2"
    assert name_run("no-skill@2", 2) == "No skill, iteration 2"


def test_what_was_not_graded_has_no_verdict(tmp_path):
    place = tmp_path / "a-workspace" / "iteration-1" / "plan"
    write(place / "with_skill" / "outputs" / "plan.md", "Text")  # interrupted before the grader
    write(place / "without_skill" / "grading.json", grading(True, None))
    report = bring_in(tmp_path)
    assert list(Trial.objects.order_by("episode__run__condition").values_list("success", "reward")) == [
        (None, 1.0),
        (None, None),
    ]
    assert Check.objects.filter(status="error").count() == 1
    assert "not judged" in str(list(report.problems))


def test_several_evals_with_one_id_are_named_by_their_folders(tmp_path):
    for name in ("plan", "check"):
        run_folder(an_eval(tmp_path / "a-workspace" / "iteration-1" / name, 0) / "with_skill", True)
    report = bring_in(tmp_path)
    assert sorted(key.rpartition("/")[2] for key in Task.objects.values_list("key", flat=True)) == ["check", "plan"]
    assert "another id for each eval" in str(list(report.problems))


# --- benchmark.json -----------------------------------------------------------------------------------------------


def row(number, condition, passed, total=2, **more):
    return {
        "eval_id": number,
        "eval_name": f"Eval no. {number}",
        "configuration": condition,
        "run_number": 1,
        "result": {"pass_rate": passed / total, "passed": passed, "total": total, "time_seconds": 4.5, "tokens": 900},
        "expectations": [
            {"text": f"States {place}", "passed": place < passed, "evidence": "page 1"} for place in range(total)
        ],
        **more,
    }


PERCENT = {"with_skill": 100, "without_skill": "50%"}
ANSWERS = {"with_skill": (True, True), "without_skill": (True, False)}
BOTH = {"with_skill": {"passed": 2, "total": 2}, "without_skill": {"passed": 1, "total": 2}}


@pytest.mark.parametrize(
    "benchmark",
    [
        {"metadata": {"executor_model": "<model-name>"}, "runs": [row(1, "with_skill", 2), row(1, "without_skill", 1)]},
        {
            "with_skill": {"evals": [{"eval_id": 1, "pass_rate": 1.0, "pass_count": 2, "total": 2}]},
            "without_skill": {"evals": [{"eval_id": 1, "pass_rate": 0.5, "pass_count": 1, "total": 2}]},
        },
        {"evals": [{"id": 1, "name": "Plan", **BOTH}]},
        {"configurations": [{"name": name, "evals": [{"id": 1, **found}]} for name, found in BOTH.items()]},
        {"results": {"1": BOTH}},
        {
            "with_skill": {"results": {"1": BOTH["with_skill"]}},
            "without_skill": {"results": {"1": BOTH["without_skill"]}},
        },
        {
            "runs": [
                {"eval_id": 1, "run_index": 0, "with_skill": BOTH["with_skill"], "without_skill": BOTH["without_skill"]}
            ]
        },
        {"evaluations": {f"eval-1-{name}": {"eval_id": 1, **found} for name, found in BOTH.items()}},
        {  # sums of evals and of dimensions, and the lists that they are made from
            "scenarios": {"eval-1": BOTH},
            "dimensions": {"Plan": BOTH},
            "grading": {"eval-1": {name: grading(*ANSWERS[name])["expectations"] for name in BOTH}},
        },
        {
            "by_case": {"1": BOTH},
            "runs": [{"case_id": 1, "condition": name, "pass_rate": rate} for name, rate in PERCENT.items()],
        },
    ],
)
def test_a_benchmark_alone_gives_its_rows(tmp_path, benchmark):
    write(tmp_path / "a-workspace" / "iteration-3" / "benchmark.json", benchmark)
    bring_in(tmp_path)
    assert runs() == {"with-skills@3 3": [1.0], "no-skill@3 3": [0.5]}
    assert set(Run.objects.values_list("agent_model", flat=True)) == {"unknown"}


@pytest.mark.parametrize("written", ["<model-name>", "—", "model-name", "N/A", " "])
def test_a_placeholder_is_no_model(tmp_path, written):
    benchmark = {"metadata": {"executor_model": written}, "runs": [row(1, "with_skill", 2)]}
    write(tmp_path / "a-workspace" / "iteration-1" / "benchmark.json", benchmark)
    bring_in(tmp_path)
    assert Run.objects.get().agent_model == "unknown"
    assert Task.objects.get().key.endswith("a-workspace/1")


def test_a_map_of_answers_is_what_was_judged_and_a_time_of_zero_is_unknown(tmp_path):
    """As in baiqiaw/flow-go; the zeros are the official script's, where no time was measured."""
    answers = {"assertions": {"Reads the state first": True, "Names the root cause": False}}
    sides = {"with_skill": {**answers, "duration_seconds": 2.5}, "without_skill": {**answers, "time_seconds": 0.0}}
    write(tmp_path / "a-workspace" / "iteration-1" / "benchmark.json", {"evals": [{"eval_name": "plan", **sides}]})
    bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [0.5], "no-skill@1 1": [0.5]}
    assert set(Check.objects.values_list("name", "status")) == {
        ("Reads the state first", "passed"),
        ("Names the root cause", "failed"),
    }
    assert set(Trial.objects.values_list("duration_seconds", flat=True)) == {2.5, None}


def test_sums_by_condition_beside_evals_are_no_results(tmp_path):
    """Their names begin as those of conditions do."""
    found = {"with_skill_pass_rate": 1.0, "without_skill_pass_rate": 0.5, **BOTH}
    write(tmp_path / "a-workspace" / "iteration-1" / "benchmark.json", {"per_eval": {"plan": found}})
    report = bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [1.0], "no-skill@1 1": [0.5]}
    assert "pass_rate" not in str(list(report.problems))


def test_a_row_tells_what_its_run_used(tmp_path):
    used = {"duration_ms": 1_500, "cost_usd": 0.25, "input_tokens": 11, "output_tokens": 7}
    rows = [{"eval_id": 1, "condition": "with_skill", "pass_rate": 101, **used}]
    write(tmp_path / "a-workspace" / "iteration-1" / "benchmark.json", {"runs": rows})
    report = bring_in(tmp_path)
    trial = Trial.objects.get()
    assert (trial.duration_seconds, trial.cost_usd, trial.input_tokens, trial.output_tokens) == (1.5, 0.25, 11, 7)
    assert trial.reward is None
    assert "found '101'; not taken" in str(list(report.problems))


def test_cases_without_a_condition_are_of_the_skill(tmp_path):
    cases = [
        {"id": 1, "name": "nightmare", "assertions_total": 2, "assertions_passed": 1, "quality": {"humor": 5}}
        | grading(True, False, key="assertion_details", text="assertion"),
        {
            "id": 2,
            "name": "unjudged",
            "assertions_total": 9,
            "assertions_passed": 0,
            "assertion_details": [],
            "pass_rate": 0.0,
        },
    ]
    write(tmp_path / "roast" / "evals" / "iteration-1" / "benchmark.json", {"per_case": cases, "avg_pass_rate": 0.25})
    report = bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [0.5, None]}
    assert Verdict.objects.get().dimensions.get().score == 5.0
    problems = str(list(report.problems))
    assert "no verdict, not a failure" in problems
    assert "its mean of with-skills is 0.25, not 0.50" in problems


def test_gradings_win_over_the_benchmark(workspace):
    """All that its users ran into: sums of nothing, a reversed sign, characters for tokens, rows without a folder."""
    place = workspace / "iteration-2"
    write(
        place / "eval-1" / "with_skill" / "run-1" / "grading.json",
        grading(True, True, execution_metrics={"output_chars": 900}),
    )
    benchmark = {
        "metadata": {"skill_name": "upgrades", "executor_model": "model-1", "runs_per_configuration": 3},
        "runs": [row(1, "with_skill", 1), row(2, "with_skill", 2), row(3, "with_skill", 2)],
        "run_summary": {
            "with_skill": {"pass_rate": {"mean": 0.0, "stddev": 0.0}},
            "without_skill": {"pass_rate": {"mean": 0.25}},
            "delta": {"pass_rate": "-0.75", "tokens": "+0"},
        },
    }
    write(place / "benchmark.json", benchmark)
    report = bring_in(workspace)
    assert runs()["with-skills@2 2"] == [1.0, 1.0, 1.0]
    [message] = [each.message for each in report.problems if each.path.endswith("benchmark.json")]
    assert message.split("; ") == [
        "another share passed: 1 of 3 rows",
        "characters (output_chars) as tokens: 1 of 3 rows",
        "other tokens: 1 of 3 rows",
        "of no run folder, taken: 3 with_skill",
        "its mean of with-skills is 0.00, not 1.00",
        "its delta -0.75 is reversed",
    ]
    assert Run.objects.get(condition="with-skills@2").agent_model == "model-1"
    assert Run.objects.get(condition="with-skills@1").agent_model == "unknown"


def test_a_row_may_be_about_a_folder_that_it_names_in_another_way(tmp_path):
    """A folder without a row leaves it open whose result a row without a folder is; another number of the
    run does not."""
    place = tmp_path / "a-workspace" / "iteration-1"
    run_folder(place / "plan" / "with_skill", True, False)
    write(place / "benchmark.json", {"runs": [row(3, "with_skill", 2), row(4, "with_skill", 2)]})
    (message,) = [each.message for each in bring_in(tmp_path).problems if each.path.endswith("benchmark.json")]
    assert message == "of no run folder, left out: 3 with_skill, 4 with_skill"
    assert runs() == {"with-skills@1 1": [0.5]}
    write(
        place / "benchmark.json",
        {"runs": [row(3, "with_skill", 2), row(4, "with_skill", 1, eval_name="plan", run_number=2)]},
    )
    (message,) = [each.message for each in bring_in(tmp_path).problems if each.path.endswith("benchmark.json")]
    assert message.endswith("of no run folder, taken: 3 with_skill")
    assert sorted(runs()["with-skills@1 1"]) == [0.5, 1.0]


def test_a_summary_of_another_name_is_the_benchmark(tmp_path):
    """Written by hand: another name, signs before numbers, commas and a comment."""
    place = tmp_path / "a-workspace" / "iteration-1"
    for condition in ("with_skill", "without_skill"):
        write(an_eval(place / "plan", 1) / condition / "outputs" / "plan.md", "Text")
    case = '{"id": 1, "config": "with_skill", "assertions": [{"text": "See //a, +1", "passed": true},]}'
    write(place / "eval_summary.json", '{"test_cases": [' + case + '],  // one\n "delta": +0.111}')
    report = bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [1.0], "no-skill@1 1": [None]}
    assert Check.objects.get().name == "See //a, +1"
    assert told(report, "iteration-1")[0] == ": benchmark.json"


def test_an_iteration_without_results_is_no_experiment(tmp_path):
    write(tmp_path / "evals" / "iteration-1" / "plan" / "with_skill" / "plan.py", "1")
    write(tmp_path / "evals" / "iteration-1" / "results.json", {"scorecard": {"held": 4, "of": 4}})
    report = bring_in(tmp_path)
    assert not Experiment.objects.exists()
    assert "plan/with_skill/plan.py" in [each.message for each in report.problems][0]


def test_a_benchmark_fills_in_what_run_folders_lack(tmp_path):
    place = tmp_path / "a-workspace" / "iteration-1"
    write(an_eval(place / "plan", 1) / "with_skill" / "outputs" / "plan.md", "Text")
    write(place / "benchmark.json", {"runs": [row(1, "with_skill", 2), row(2, "with_skill", 1)]})
    bring_in(tmp_path)
    assert runs() == {"with-skills@1 1": [1.0, 0.5]}


# --- texts, decisions, reviews --------------------------------------------------------------------------------------


def test_the_snapshot_is_the_library_of_the_old_skill(tmp_path):
    folder = tmp_path / "upgrades-workspace"
    write(folder / "skill-snapshot" / "SKILL.md", "---\nname: upgrades\n---\nOld text.")
    run_folder(folder / "iteration-1" / "plan" / "old_skill", False)
    run_folder(folder / "iteration-1" / "plan" / "with_skill", True)
    report = bring_in(tmp_path)
    assert report.counts["snapshots"] == 1
    library = Episode.objects.get(run__condition="old-skill@1").library
    assert list(library.read()) == ["upgrades/SKILL.md"]
    assert Episode.objects.get(run__condition="with-skills@1").library is None
    assert list(audit.flaws()) == []


def version(name, parent, result, rate=0.75):
    return {"version": name, "parent": parent, "expectation_pass_rate": rate, "grading_result": result}


def test_the_history_decides(tmp_path):
    folder = tmp_path / "upgrades-workspace"
    write(folder / "skill-snapshot" / "SKILL.md", "Old text.")
    write(tmp_path / "upgrades" / "SKILL.md", "New text.")
    for iteration in (1, 2, 3, 4):
        run_folder(folder / f"iteration-{iteration}" / "plan" / "with_skill", True)
    versions = [
        version("v0", None, "baseline"),
        version("v1", "v0", "lost", 0.25),
        version("v2", "v1", "tie"),
        version("v3", "v0", "won"),
        version("v4", "v0", "won"),
        version("v9", "v4", "lost"),
    ]
    write(folder / "history.json", {"current_best": "v9", "iterations": versions})
    report = bring_in(folder)
    assert "v9 lost: left out" in str(list(report.problems))
    decisions = Decision.objects.order_by("episode__run__condition")
    assert list(decisions.values_list("status", "summary")) == [
        ("rejected", "v1 lost against v0: 25% of the expectations passed"),
        ("no-op", "v2 tie against v1: 75% of the expectations passed"),
        ("failed", "v3 won against v0: 75% of the expectations passed"),
        ("failed", "v4 won against v0: 75% of the expectations passed"),
    ]
    assert {len(each.evidence.all()) for each in decisions} == {1}
    assert list(audit.flaws()) == []


def test_the_text_of_the_last_version_is_known_if_it_is_the_best(tmp_path):
    folder = tmp_path / "upgrades-workspace"
    write(folder / "skill-snapshot" / "SKILL.md", "Old text.")
    write(tmp_path / "upgrades" / "SKILL.md", "New text.")
    run_folder(folder / "iteration-1" / "plan" / "with_skill", True)
    write(folder / "history.json", {"current_best": "v1", "iterations": [version("v1", "v0", "won")]})
    bring_in(tmp_path)
    decision = Decision.objects.get()
    assert (decision.status, decision.before.read()["upgrades/SKILL.md"].content) == ("applied", b"Old text.")
    assert decision.after.read()["upgrades/SKILL.md"].content == b"New text."
    assert Trial.objects.get().snapshot == decision.after
    assert list(audit.flaws()) == []


def test_an_improvement_has_its_reasons_and_the_text_before_it(tmp_path):
    place = tmp_path / "roast" / "evals" / "iteration-2"
    case = {"id": 1, "assertions_total": 2, "assertions_passed": 1}
    write(place / "benchmark.json", {"per_case": [case]})
    write(
        place / "improvement.json", [{"section": "Process", "what": "Ask what is missing", "why": "It is never asked"}]
    )
    write(place / "SKILL.md.before", "# Roast")
    bring_in(tmp_path)
    decision = Decision.objects.get()
    assert decision.summary == "Process: Ask what is missing: It is never asked"
    assert decision.before.read()["roast/SKILL.md"].content == b"# Roast"
    assert (decision.before, decision.evidence.count()) == (decision.after, 1)
    assert "not in the files" in decision.error
    assert Trial.objects.get().snapshot is None  # the files do not say whether the trials had this text
    again = bring_in(tmp_path)
    assert (again.counts["created"], again.counts["changed"]) == (0, 0)
    assert (Entry.objects.count(), Activity.objects.filter(verb="supersede").count()) == (3, 0)
    assert list(audit.flaws()) == []


def test_reviews_of_people_are_kept_with_their_trial(workspace):
    reviews = [
        {"run_id": "eval-1-with_skill-run-1", "feedback": "Too long.", "timestamp": "2026-03-01T10:00:00Z"},
        {"run_id": "iteration-1-eval-2-with_skill-run-1", "feedback": "Good."},
        {"run_id": "eval-9-with_skill", "feedback": "Lost."},
        {"run_id": "eval-2-without_skill-run-1", "feedback": ""},
    ]
    write(workspace / "iteration-1" / "feedback.json", {"reviews": reviews, "status": "in_progress"})
    report = bring_in(workspace)
    found = [
        config_of(trial).get("feedback") for trial in Trial.objects.filter(episode__run__condition="with-skills@1")
    ]
    assert [each[0]["feedback"] for each in found] == ["Too long.", "Good."]
    assert "eval-9-with_skill: left out" in str(list(report.problems))


def test_agent_skills_eval_tells_model_judge_and_conversation(tmp_path):
    place = tmp_path / "workspace" / "iteration-1"
    write(place / "meta.json", {"name": "tables", "target": "model-1", "judge": "model-2", "modes": ["with_skill"]})
    write(place / "benchmark.json", {"run_summary": {"with_skill": {"pass_rate": {"mean": 1.0, "stddev": 0}}}})
    folder = run_folder(place / "sum-column" / "with_skill", True, response_txt="It is 3.")
    write(folder / "prompts.json", {"system": "Skill text", "user": "Sum it.", "fileCount": 0})
    write(folder / "tool_calls.json", [{"type": "function", "function": {"name": "sum", "arguments": "{}"}}])
    bring_in(tmp_path / "workspace")
    assert Run.objects.get().agent_model == "model-1"
    assert Verdict.objects.get().source == "grader:model-2"
    trajectory = Attempt.objects.get().trajectories.get()
    assert (trajectory.source_format, trajectory.steps_total) == ("chat-messages", 3)


def test_agent_skills_eval_without_iterations(tmp_path):
    for skill in ("tables", "charts"):
        place = tmp_path / "workspace" / skill
        write(place / "meta.json", {"name": skill, "slug": skill, "target": "model-1", "modes": ["with_skill"]})
        write(place / "benchmark.json", {"run_summary": {"with_skill": {"pass_rate": {"mean": 1.0}}}})
        run_folder(place / "first" / "with_skill", True)
    report = bring_in(tmp_path)
    assert runs() == {"with-skills None": [1.0]}
    assert Run.objects.count() == 2
    assert "no known format" not in str(list(report.problems))
    assert Experiment.objects.count() == Task.objects.count() == 2


def test_a_benchmark_that_names_its_skill_needs_no_iteration(tmp_path):
    write(
        tmp_path / "tables" / "evals" / "benchmark.json",
        {"metadata": {"skill_name": "tables"}, "runs": [row(1, "with_skill", 2)]},
    )
    named = {"skill_name": "charts", "configs": [{"name": "with_skill", "evals": [{"eval_id": 1, "pass_rate": 0.5}]}]}
    write(tmp_path / "charts" / "evals" / "benchmark.json", named)
    write(tmp_path / "loops" / "benchmark.json", {"runs": [{"name": "parse", "passed": True, "seconds": 3}]})
    bring_in(tmp_path)
    assert set(Trial.objects.values_list("episode__run__experiment__name", "reward")) == {
        ("skill-creator tables/evals", 1.0),
        ("skill-creator charts/evals", 0.5),
    }


# --- what is broken or hostile ----------------------------------------------------------------------------------------


def test_documents_beside_a_benchmark_are_no_logs(tmp_path):
    """Outside iteration-N a name such as sessions.md says nothing: it may be a file that an agent wrote."""
    results = tmp_path / "a-skill" / "evals" / "results"
    write(results / "benchmark.json", {"metadata": {"skill_name": "a-skill"}, "runs": [row(1, "with_skill", 2)]})
    write(results / "wiki" / "flask" / "09-sessions.md", "# Sessions\n")
    run_folder(results / "eval-2" / "gpt", True)
    bring_in(tmp_path)
    assert runs() == {"with-skills None": [1.0], "gpt None": [1.0]}


def test_everything_readable_comes_in(workspace, tmp_path):
    place = workspace / "iteration-1"
    secret = write(tmp_path / "outside" / "grading.json", grading(True, True, True))
    broken = {
        "eval-3/with_skill/grading.json": '{"expectations": [{"text": "cut o',
        "eval-4/with_skill/grading.json": ["no", "object"],
        "eval-5/with_skill/grading.json": {"expectations": "none", "summary": [], "pass_rate": "high"},
        "eval-6/with_skill/grading.json": grading(True, "yes", 1, passed=10**30, total=-4),
        "eval-7/with_skill/grading.json": {"passed": 7, "total": 2, "pass_rate": 350},
        "eval-8/with_skill/timing.json": {"total_tokens": 10**30, "total_duration_seconds": -1, "duration_ms": "1"},
        "eval-9/eval_metadata.json": {"eval_id": {"a": 1}, "prompt": 5, "eval_name": ["x"]},
        "eval-9/with_skill/grading.json": grading(True),
        "a\tb\x1b[31m/with_skill/grading.json": grading(True),
        "feedback.json": {"reviews": [3, {"run_id": 4, "feedback": 5}]},
        "benchmark.json": {
            "metadata": "x",
            "runs": [{"eval_id": 1, "expectations": 5}, 5, {"expectations": [{"passed": 1}]}],
            "run_summary": {"delta": {"pass_rate": "9" * 500}},
        },
        "improvement.json": "{",
    }
    for name, content in broken.items():
        write(place / name, content)
    write(
        workspace / "history.json", {"iterations": [{"version": 1, "grading_result": ["won"]}, "x"], "current_best": {}}
    )
    (place / "eval-10" / "with_skill").mkdir(parents=True)
    (place / "eval-10" / "with_skill" / "grading.json").symlink_to(secret)
    (workspace / "iteration-7").symlink_to(secret.parent)
    report = bring_in(workspace)
    rewards = dict(Trial.objects.filter(episode__run__condition="with-skills@1").values_list("task__key", "reward"))
    found = {key.rpartition("/")[2]: reward for key, reward in rewards.items()}
    assert {key: found[key] for key in ("1", "2", "3", "4", "5", "6", "7", "8", "9")} == {
        "1": 0.5,
        "2": 0.5,
        **dict.fromkeys(("3", "4", "5", "7", "8")),
        "6": 1.0,
        "9": 1.0,
    }
    assert len(found) == 10
    paths = {each.path.rpartition("iteration-1/")[2] for each in report.problems}
    assert {f"eval-{number}/with_skill/grading.json" for number in (3, 4, 5, 6, 7, 10)} <= paths
    assert {"eval-8/with_skill/timing.json", "feedback.json", "benchmark.json", "improvement.json"} <= paths
    assert list(audit.flaws()) == []
    again = bring_in(workspace)
    assert (again.counts["created"], again.counts["changed"]) == (0, 0)


def test_no_value_of_a_key_reaches_the_record(workspace):
    key = "sk-ant-api03-" + "Zq7LmX2rT9vKc4Wn8Bp1Yh6Jd3Fs5Gu0"
    write(
        workspace / "iteration-1" / "eval-1" / "eval_metadata.json",
        {"eval_id": 1, "prompt": f"Use {key}", "api_key": "plain-value-of-a-key"},
    )
    bring_in(workspace)
    stored = "".join(str(Blob.objects.read(digest)) for digest in Blob.objects.values_list("pk", flat=True))
    assert "Use " in stored
    assert key not in stored
    assert "plain-value-of-a-key" not in stored
    assert key not in " ".join(Task.objects.values_list("title", flat=True))


def test_folders_of_another_kind_are_not_claimed(tmp_path):
    write(tmp_path / "sweep" / "iteration-1" / "metrics.csv", "a,b")
    write(tmp_path / "sweep" / "iteration-2" / "checkpoint" / "model.txt", "x")
    assert bring_in(tmp_path).counts["experiments"] == 0


# --- real ones --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sample(request) -> Path:
    folder = SKILL_TOOLS / request.param
    if not folder.is_dir():
        pytest.skip("needs the outputs of real tools next to the project")
    return folder


def passed(condition: str) -> str:
    checks = Check.objects.filter(verdict__attempt__trial__episode__run__condition=condition)
    return f"{checks.filter(status='passed').count()}/{checks.count()}"


def counted(condition: str) -> str:
    """Of rows without a list: the counts in the trials' configs."""
    configs = [config_of(trial)["benchmark"] for trial in Trial.objects.filter(episode__run__condition=condition)]
    return f"{sum(each['pass_count'] for each in configs)}/{sum(each['total'] for each in configs)}"


@pytest.mark.shared_data
@pytest.mark.parametrize("sample", ["sc-flat-gke"], indirect=True)
def test_the_flat_workspace_has_its_counts(sample):
    report = bring_in(sample)
    assert Run.objects.values("replicate").distinct().count() == 10
    assert [passed(f"with-skills@{number}") for number in (1, 2, 3)] == ["27/27"] * 3
    bare = Check.objects.filter(status="passed")
    by_iteration = [
        bare.filter(verdict__attempt__trial__episode__run__condition=f"no-skill@{number}").count()
        for number in (1, 2, 3)
    ]
    assert by_iteration == [21, 21, 13]  # the third's list has one more than its own pass_count
    assert [counted(f"with-skills@{number}") for number in (5, 6, 7, 20, 32)] == [
        "259/310",
        "256/310",
        "263/338",
        "295/348",
        "298/348",
    ]
    assert counted("claude_with_skill@4") == "156/194"
    assert [counted(f"{name}@10") for name in ("claude_with_skill", "claude_without_skill")] == ["261/340", "189/340"]
    assert [counted(f"{name}@10") for name in ("gemini_with_skill", "gemini_without_skill")] == ["234/340", "176/340"]
    assert not Run.objects.filter(condition="gemini_with_skill@4").exists()
    assert sum(config_of(each)["total_tokens"] for each in Trial.objects.filter(episode__run__replicate=1)) == 178_902
    assert "every run folder once" in str(list(report.problems))
    assert list(audit.flaws()) == []


@pytest.mark.shared_data
@pytest.mark.parametrize("sample", ["sc-benchmark-only-roast"], indirect=True)
def test_the_benchmarks_alone_have_their_counts(sample):
    bring_in(sample)
    assert [passed(f"with-skills@{number}") for number in range(1, 9)] == [
        "26/28",
        "17/18",  # ten more were never judged
        "25/28",
        "28/28",
        "36/45",
        "38/79",
        "69/79",
        "68/79",
    ]
    assert [Trial.objects.filter(episode__run__replicate=number).count() for number in range(1, 9)] == [
        3,
        3,
        3,
        3,
        5,
        9,
        9,
        9,
    ]
    decision = Decision.objects.get()
    assert (decision.evidence.count(), decision.summary.count("\n\n")) == (3, 1)
    assert list(audit.flaws()) == []

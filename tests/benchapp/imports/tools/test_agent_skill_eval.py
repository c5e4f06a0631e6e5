"""Result files of agent-skill-eval: a file for each version of a skill, with both conditions,
and one of its queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp import audit
from benchapp.models import Attempt, Check, Episode, Experiment, Run, Task, Trial, Verdict
from tests.benchapp.import_folders import bring_in, write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db
SAMPLE = SKILL_TOOLS / "skilleval-lifecycle-v1-v3"


def side(*answers, method="deterministic", output="It is valid.", **more):
    items = [
        {"text": f"contains {place}", "passed": passed, "evidence": "found", "method": method, "uncertain": not passed}
        for place, passed in enumerate(answers)
    ]
    tokens = {"input_tokens": 900, "output_tokens": 50, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {
        "assertion_results": items,
        "pass_rate": sum(answers) / max(1, len(answers)),
        "summary": "as asserted",
        "execution_metrics": {"tool_calls": 2, "token_counts": tokens},
        "timing": {"elapsed_seconds": 3.5},
        "raw_output": output,
        **more,
    }


def report_file(version="v1", rows=None, **more):
    rows = rows or [("title", side(True, True), side(True, False)), ("branch", side(True), side(False))]
    return {
        "skill_name": "naming",
        "skill_path": f"./demo/{version}",
        "eval_count": len(rows),
        "runs_per_eval": 1,
        "metadata": {"timestamp": "2026-03-15T10:52:45Z"},
        "runs": [
            {"eval_id": ident, "run_index": 0, "with_skill": mine, "without_skill": bare} for ident, mine, bare in rows
        ],
        "scores": {"overall": 0.86},
        "passed": True,
        **more,
    }


def query(text, should, started, runs=1):
    return {
        "query": text,
        "should_trigger": should,
        "trigger_count": started,
        "run_count": runs,
        "trigger_rate": started / runs,
        "passed": should == (started / runs > 0.5),
        "mean_input_tokens": 100.0,
        "mean_output_tokens": 7.5,
    }


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two versions in folders, with their results in a folder next to them."""
    place = tmp_path / "demo"
    for version in ("v1", "v2"):
        write(place / version / "SKILL.md", f"---\nname: naming\n---\nText of {version}.")
        write(place / version / "evals" / "evals.json", [{"id": "title", "prompt": "Check this title."}])
        write(place / "results" / f"func-{version}.json", report_file(version))
    queries = [query("Is my title right?", True, 1), query("Sort a list", False, 1), query("Fix it", True, 2, 3)]
    triggers = {"skill_name": "naming", "skill_path": "./demo/v1", "query_results": queries}
    write(place / "results" / "trigger-v1.json", triggers)
    return place


def runs() -> dict[str, list[float | None]]:
    return {
        f"{run.condition} {run.replicate}": list(
            Trial.objects.filter(episode__run=run).order_by("task__key").values_list("reward", flat=True)
        )
        for run in Run.objects.all()
    }


def test_a_file_is_two_runs_of_the_folder(folder):
    report = bring_in(folder)
    assert list(report.problems) == []
    assert runs() == {
        "with-skills@v1 1": [1.0, 1.0],
        "no-skill@v1 1": [0.0, 0.5],
        "with-skills@v2 2": [1.0, 1.0],
        "no-skill@v2 2": [0.0, 0.5],
        "trigger@v1 1": [1.0, 1.0, 0.0],
    }
    assert Experiment.objects.get().name == "agent-skill-eval demo/results"
    assert sorted(Task.objects.values_list("key", "title"))[:2] == [
        ("demo/results/demo/branch", "branch"),
        ("demo/results/demo/title", "Check this title."),
    ]
    trial = Trial.objects.get(task__key__endswith="title", episode__run__condition="with-skills@v1")
    assert (trial.input_tokens, trial.cached_tokens, trial.output_tokens) == (900, None, 50)
    assert (trial.duration_seconds, trial.success) == (3.5, True)
    assert Verdict.objects.get(attempt__trial=trial).source == "grader:deterministic"
    assert Attempt.objects.get(trial=trial).trajectories.get().source_format == "plain-text"
    assert Check.objects.filter(message="found (uncertain)", status="failed").count() == 4
    assert Run.objects.get(condition="with-skills@v1").setup["scores"] == {"overall": 0.86}
    assert list(audit.flaws()) == []


def test_the_folder_that_the_file_names_is_its_library(folder):
    bring_in(folder)
    for version in ("v1", "v2"):
        library = Episode.objects.get(run__condition=f"with-skills@{version}").library.read()
        assert list(library) == ["naming/SKILL.md"]  # without the answers in evals/
        assert library["naming/SKILL.md"].content.decode().endswith(f"Text of {version}.")


def test_queries_are_trials_of_their_own_run(folder):
    bring_in(folder)
    checks = Check.objects.filter(verdict__source="trigger").order_by("verdict__attempt__trial__task__key")
    assert list(checks.values_list("name", "status", "message")) == [
        ("starts the skill", "passed", "started it in 2 of 3 runs"),
        ("starts the skill", "passed", "started it in 1 of 1 runs"),
        ("does not start the skill", "failed", "started it in 1 of 1 runs"),
    ]
    tokens = Trial.objects.filter(episode__run__condition="trigger@v1").order_by("task__key")
    assert list(tokens.values_list("input_tokens", "output_tokens")) == [(None, None), (100, None), (100, None)]


def test_importing_again_adds_nothing(folder):
    bring_in(folder)
    for again in (folder, folder / "results", folder.parent, folder / "results" / "func-v1.json"):
        counts = bring_in(again).counts
        assert (counts["created"], counts["changed"]) == (0, 0)
    assert Experiment.objects.count() == 1


def test_a_skill_changed_in_place_goes_by_the_names_of_the_files(tmp_path):
    for name in ("monday", "friday"):
        write(tmp_path / "reports" / f"{name}.json", report_file("naming"))
    report = bring_in(tmp_path)
    assert {"with-skills@monday None", "with-skills@friday None"} <= runs().keys()
    assert Run.objects.count() == 4
    assert str(list(report.problems)).count("its text is unknown") == 2


def test_several_runs_of_an_eval_are_samples(tmp_path):
    found = report_file()
    found["runs"] += [{**each, "run_index": 1} for each in found["runs"]]
    write(tmp_path / "results" / "func.json", found)
    bring_in(tmp_path)
    assert sorted(Trial.objects.values_list("sample", flat=True)) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_it_says_where_the_sums_are_others(tmp_path):
    sums = {
        "with_skill": {"mean_pass_rate": 0.0},
        "without_skill": {"mean_pass_rate": 0.25},
        "delta": {"pass_rate": -0.25},
    }
    write(tmp_path / "results" / "func.json", report_file(run_summary=sums))
    problems = str(list(bring_in(tmp_path).problems))
    assert "its mean of with-skills is 0.00, not 1.00; its delta -0.25 is reversed" in problems


def test_everything_readable_comes_in(tmp_path):
    rows = [
        ("a", side(True), {"error": "timeout"}),
        ("b", side(output=5), {"assertion_results": "none", "pass_rate": 0.5, "timing": 3, "execution_metrics": [1]}),
        (
            "c\x1b[31m",
            side(True, execution_metrics={"token_counts": {"input_tokens": -1, "output_tokens": 1e300}}),
            "lost",
        ),
        (["d"], side(True), side(True)),
    ]
    write(tmp_path / "results" / "odd.json", report_file(rows=rows, run_summary=[1], skill_path="../../../etc"))
    write(tmp_path / "results" / "cut.json", '{"skill_name": "naming", "runs_per_eval": 1, "runs": [{"eval_id": "a"')
    queries = [query("ok", True, 1), {"query": 7, "passed": "yes"}, 5]
    write(tmp_path / "results" / "odd-trigger.json", {"skill_name": "naming", "query_results": queries})
    report = bring_in(tmp_path)
    found = dict(
        Trial.objects.exclude(episode__run__condition__startswith="no-skill").values_list("task__key", "reward")
    )
    assert {key.rpartition("naming/")[2]: reward for key, reward in found.items()} == {
        "a": 1.0,
        "b": None,
        "c": 1.0,
        "trigger/ok": 1.0,
        "trigger/unknown": None,
    }
    assert sorted(
        Trial.objects.filter(episode__run__condition__startswith="no-skill").values_list("reward", flat=True), key=str
    ) == [
        0.5,
        None,  # it has only an error
    ]
    odd = [(each.place, each.expected) for each in report.problems if each.path.endswith("odd.json")]
    assert ("runs[2].without_skill", "an object or null") in odd
    assert odd.count(("runs[3].with_skill.eval_id", "an eval's id or name")) == 1
    assert any(each.path.endswith("cut.json") for each in report.problems)
    assert list(audit.flaws()) == []


@pytest.mark.shared_data
def test_the_three_versions_have_their_counts():
    report = bring_in(SAMPLE)
    assert list(report.problems) == []
    assert report.counts["snapshots"] == 6  # three texts, each of the evals and of the queries

    def passed(condition: str, number: int) -> str:
        checks = Check.objects.filter(verdict__attempt__trial__episode__run__condition=condition)
        checks = checks.filter(verdict__attempt__trial__episode__run__replicate=number)
        return f"{checks.filter(status='passed').count()}/{checks.count()}"

    assert [passed(f"with-skills@v{number}", number) for number in (1, 2, 3)] == ["7/8", "8/8", "8/8"]
    assert [passed(f"no-skill@v{number}", number) for number in (1, 2, 3)] == ["5/8", "7/8", "8/8"]
    assert [passed(f"trigger@v{number}", number) for number in (1, 2, 3)] == ["6/8", "6/8", "5/8"]
    scores = [Run.objects.get(condition=f"with-skills@v{number}").setup["scores"]["overall"] for number in (1, 2, 3)]
    assert scores == [0.8592, 0.8612, 0.8479]
    assert Task.objects.count() == 14
    assert list(audit.flaws()) == []

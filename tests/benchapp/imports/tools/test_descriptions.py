"""Description tests of skill-creator, as its run_loop.py and run_eval.py write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.tools import descriptions
from benchapp.models import Decision, Episode, Run, Trial
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db


def queries(*passed: bool, name: str = "add") -> list[dict[str, Any]]:
    return [
        {
            "query": f"{name} {n}",
            "should_trigger": n % 2 == 0,
            "trigger_rate": 1.0,
            "triggers": 3,
            "runs": 3,
            "pass": each,
        }
        for n, each in enumerate(passed)
    ]


def a_round(number: int, text: str, train: list[bool], test: list[bool]) -> dict[str, Any]:
    rows, held = queries(*train), queries(*test, name="held")
    counts = {"train_passed": sum(train), "train_total": len(train), "test_passed": sum(test), "test_total": len(test)}
    found = {"iteration": number, "description": text, **counts, "train_results": rows, "test_results": held}
    return {**found, "passed": sum(train), "results": rows}  # the rows twice, as the program writes them


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    rounds = [
        a_round(1, "Adds.", [True, False], [False]),
        a_round(2, "Adds numbers.", [False, True], [True]),
        a_round(3, "Adds all.", [True, True], [False]),
    ]
    content = {
        "exit_reason": "all_passed (iteration 3)",
        "original_description": "Adds.",
        "best_description": "Adds numbers.",
        "best_score": "1/1",
        "history": rounds,
    }
    return write(tmp_path / "2026-08-01" / "results.json", content)


def test_descriptions_are_states_and_the_best_is_kept(loop: Path) -> None:
    assert list(import_paths([loop]).problems) == []
    assert list(Decision.objects.order_by("number").values_list("status", "summary")) == [
        ("applied", "A new description after iteration 1, where 1 of 2 queries of the training set passed."),
        ("applied", "A new description after iteration 2, where 1 of 2 queries of the training set passed."),
    ]
    assert Trial.objects.count() == 9
    results = Trial.objects.filter(phase="evaluation").order_by("episode__run__condition")
    assert list(results.values_list("episode__run__condition", "task__key", "success")) == [
        ("old-skill", "held 0", False),
        ("skill-descriptions", "held 0", True),
    ]
    episode = Episode.objects.get(run__condition="skill-descriptions")
    assert episode.library is not None
    first = Decision.objects.order_by("number")[0]
    assert [each.trial.task.key for each in first.evidence.order_by("ordinal")] == ["add 0", "add 1"]


def test_a_test_of_one_description_is_a_run(tmp_path: Path) -> None:
    content = {"skill_name": "sums", "description": "Adds.", "results": queries(True, False), "summary": {"total": 2}}
    write(tmp_path / "one.json", content)
    assert list(import_paths([tmp_path]).problems) == []
    assert Run.objects.get().condition == "with-skills"
    assert list(Trial.objects.order_by("task__key").values_list("success", "phase", "reward")) == [
        (True, "evaluation", 1.0),
        (False, "evaluation", 0.0),
    ]
    assert Episode.objects.get().key == "sums"


def test_tests_of_several_skills_in_one_file(tmp_path: Path) -> None:
    """As somebody collected them (kimsanguine/AI_PM_Skills); a file without any query is reported."""
    skills = [{"skill": name, "description": "Adds.", "results": queries(True, name=name)} for name in ("a", "b")]
    write(tmp_path / "all.json", {"summary": {"total_skills": 2}, "skills": skills})
    write(tmp_path / "empty.json", {"original_description": "", "best_description": "", "history": []})
    [problem] = import_paths([tmp_path]).problems
    assert (problem.path.rpartition("/")[2], problem.message) == ("empty.json", "none; left out")
    assert list(Episode.objects.order_by("key").values_list("key", "trials__task__key")) == [("a", "a 0"), ("b", "b 0")]


def test_the_format_s_check_finds_nothing(loop: Path) -> None:
    assert check_format(descriptions, [loop.parent]).faults == []

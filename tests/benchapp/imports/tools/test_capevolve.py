"""Runs of cap-evolve: candidates with parents, a gate's reasons, rollouts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from django.core.management import call_command

from benchapp.analysis.lineage.library_states import read_history
from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.tools import capevolve
from benchapp.models import Decision, Episode, Seal, Trial
from tests.benchapp.import_folders import write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db
SAMPLE = SKILL_TOOLS / "capevolve-toy"


def step(number: int, parent: str, val: float, parent_val: float, reason: str, *, accept: bool) -> dict[str, object]:
    told = {"candidate": f"cand_000{number}", "accept": accept, "reason": reason, "parent": parent}
    return {"t": 1795792830.5 + number, "kind": "step", **told, "val": val, "parent_val": parent_val}


def rollout(run: Path, split: str, task: str, candidate: str, reward: float, attempt: int = 0) -> None:
    content = {
        "rollout": {"output": f"said {reward}", "cost_usd": 0.0, "tokens": 12},
        "score": {"reward": reward, "feedback": "why"},
    }
    write(run / "rollouts" / split / f"{task}__{candidate}__t{attempt}.json", content)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_dir(tmp_path / "lab" / "run_1")


def run_dir(folder: Path) -> Path:
    """Candidate 1 is accepted, 2 rejected; 3 comes from the seed again and is the best."""
    for name, text in (("seed", "a"), ("cand_0001", "b"), ("cand_0002", "c"), ("cand_0003", "d")):
        write(folder / "candidates" / name / "prompt.txt", text)
        write(folder / "candidates" / name / "INSTRUCTIONS.md", "the optimizer's")
    events = [
        {"t": 1795792830.0, "kind": "baseline", "val": 0.0},
        step(1, "seed", 0.5, 0.0, "better", accept=True),
        step(2, "cand_0001", 0.5, 0.5, "no gain", accept=False),
        step(3, "seed", 1.0, 0.0, "better", accept=True),
    ]
    write(folder / "events.jsonl", "".join(f"{json.dumps(event)}\n" for event in events))
    write(folder / "history.jsonl", json.dumps({"candidate_id": "cand_0001", "fixed": ["x"]}) + "\n")
    write(folder / "rejected.jsonl", json.dumps({"candidate_id": "cand_0002", "broke": ["y"]}) + "\n")
    write(folder / "final.json", {"best_id": "cand_0003"})
    for candidate, rewards in (
        ("seed", (0.0, 0.0)),
        ("cand_0001", (1.0, 0.0)),
        ("cand_0002", (0.0, 1.0)),
        ("cand_0003", (1.0, 1.0)),
    ):
        for task, reward in zip("xy", rewards, strict=True):
            rollout(folder, "val", task, candidate, reward)
    rollout(folder, "test", "z", "seed", 0.0)
    rollout(folder, "test", "z", "cand_0003", 1.0)
    return folder


def test_steps_are_decisions_from_their_parents(run: Path) -> None:
    assert list(import_paths([run]).problems) == []
    assert [(row.status, row.summary) for row in Decision.objects.order_by("number")] == [
        ("applied", "cand_0001 from seed, val 0.0 -> 0.5: better. fixed: x."),
        ("rejected", "cand_0002 from cand_0001, val 0.5 -> 0.5: no gain. broke: y."),
        ("applied", "cand_0003 from seed, val 0.0 -> 1.0: better."),
    ]
    history = read_history(Episode.objects.get(run__condition="cap-evolve"))
    assert [(each.before.key, each.after.key) for each in history.steps][1:4] == [
        ("S1", "R1"),
        ("R1", "R1"),
        ("S1", "R2"),
    ]
    assert Seal.objects.get().snapshot.read()["capability/prompt.txt"].content == b"d"
    call_command("check_record")
    assert import_paths([run.parent]).counts["unchanged"] == 12


def test_only_the_test_split_is_a_result(run: Path) -> None:
    import_paths([run])
    results = Trial.objects.filter(phase="deployment").order_by("episode__run__condition")
    assert list(results.values_list("episode__run__condition", "task__key", "success")) == [
        ("cap-evolve", "z", True),
        ("old-skill", "z", False),
    ]
    assert Trial.objects.filter(phase="acquisition").count() == 8
    assert Trial.objects.exclude(cost_usd=None).count() == 0  # 0 is not a cost


def test_without_rollouts_the_summaries_are_read(run: Path) -> None:
    shutil.rmtree(run / "rollouts")
    tasks = {
        "split": "val",
        "per_task": [{"task_id": "x", "reward": 0.0, "feedback": "no"}, {"task_id": "y", "reward": None}],
    }
    write(run / "baseline.json", {"val": tasks})
    (problem,) = import_paths([run]).problems
    assert problem.message == "none: only the tasks in baseline.json and final.json"
    assert list(Trial.objects.order_by("task__key").values_list("task__key", "success")) == [("x", False), ("y", None)]


def test_the_format_s_check_finds_nothing(run: Path) -> None:
    assert check_format(capevolve, [run]).faults == []


@pytest.mark.shared_data
def test_a_real_run() -> None:
    import_paths([SAMPLE])
    assert list(Decision.objects.order_by("number").values_list("status", flat=True)) == [
        "applied",
        "rejected",
        "rejected",
    ]
    tests = Trial.objects.filter(phase="deployment").values_list("episode__run__condition", "success")
    assert sorted(tests) == [*[("cap-evolve", True)] * 2, *[("old-skill", False)] * 2]

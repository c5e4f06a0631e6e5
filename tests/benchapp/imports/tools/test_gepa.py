"""Run folders of GEPA: candidates as a tree, decisions with their minibatch, scores on validation."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from django.core.management import call_command

from benchapp.analysis.lineage.library_states import read_history
from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.tools import gepa
from benchapp.models import Decision, Episode, Experiment, Run, Trajectory, Trial
from benchapp.stats.comparing.groups import Groups
from tests.benchapp.import_folders import write
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS

pytestmark = pytest.mark.django_db
SAMPLE = SKILL_TOOLS / "gepa-optimize"

SEED = "---\nname: sums\ndescription: Adds numbers.\n---\n# Sums\n"
SHORT, UNITS, ROUND = f"{SEED}- Answer with one word.", f"{SEED}- Leave the unit out.", f"{SEED}- Round it."


def iteration(
    number: int, parent: int, old: list[float], new: list[float] | None, accepted: int | None = None
) -> dict[str, object]:
    row: dict[str, object] = {
        "i": number - 1,
        "selected_program_candidate": parent,
        "subsample_ids": [7, 8, 9],
        "subsample_scores": old,
    }
    if new is not None:
        row["new_subsample_scores"] = new
    if accepted is not None:
        row |= {"new_program_idx": accepted, "evaluated_val_indices": [0, 1]}
    return row


def run_dir(folder: Path) -> Path:
    """Three candidates: 1 and 2 both come from the seed. Iteration 2 is rejected, iteration 4 proposes nothing."""
    write(folder / "candidates.json", [{"prompt": SEED}, {"prompt": SHORT}, {"prompt": UNITS}])
    rows = [
        iteration(1, 0, [0, 0, 1], [1, 1, 1], 1),
        iteration(2, 1, [0, 1, 1], [0, 1, 1]),
        iteration(3, 0, [0, 0, 0], [1, 0, 0], 2),
        iteration(4, 2, [1, 1, 1], None),
    ]
    write(folder / "run_log.json", rows)
    proposed = "Proposed new text for prompt"
    log = f"""Iteration 0: Base program full valset score: 0.5 over 2 / 2 examples
Iteration 1: Selected program 0 score: 0.5
Iteration 1: {proposed}: {SHORT}
Iteration 1: Accepted candidate (subsample score 1.0 -> 3.0); running full eval.
Iteration 1: Individual valset scores for new program: {{0: 0.0, 1: 0.0}}
Iteration 1: New valset pareto front scores: {{0: 1.0, 1: 0.0}}
Iteration 1: Updated valset pareto front programs: {{0: {{0}}, 1: {{0, 1}}}}
Iteration 1: Best program as per aggregate score on valset: 0
Iteration 2: {proposed}: {ROUND}
Iteration 2: New subsample score 2.0 is not better than old score 2.0, skipping
Iteration 3: {proposed}: {UNITS}
Iteration 3: Accepted candidate (subsample score 0.0 -> 1.0); running full eval.
Iteration 3: Individual valset scores for new program: {{0: 1.0, 1: 1.0}}
Iteration 3: Best program as per aggregate score on valset: 2
Iteration 4: All subsample scores perfect for parent 2. Skipping.
"""
    write(folder / "run_log.txt", log)
    write(folder / "generated_best_outputs_valset/task_1/iter_3_prog_2.json", {"full_assistant_response": "42"})
    return folder


def test_candidates_are_a_tree_and_the_best_is_kept(tmp_path: Path) -> None:
    report = import_paths([run_dir(tmp_path / "runs" / "monday")])
    assert list(report.problems) == []
    call_command("check_record")
    decisions = Decision.objects.order_by("number")
    assert [(row.status, row.summary) for row in decisions] == [
        ("applied", "From candidate 0. Minibatch of 3: 1 -> 3, accepted as candidate 1. Validation: 0 on 2 items."),
        ("rejected", "From candidate 1. Minibatch of 3: 2 -> 2, not better: rejected."),
        ("applied", "From candidate 0. Minibatch of 3: 0 -> 1, accepted as candidate 2. Validation: 1 on 2 items."),
        ("no-op", "From candidate 2. All subsample scores perfect for parent 2. Skipping."),
    ]
    history = read_history(Episode.objects.get(run__condition="gepa"))
    assert [(step.before.key, step.after.key) for step in history.steps] == [
        *(("R0", "S1"), ("S1", "R1"), ("R1", "R1"), ("S1", "R2"), ("R2", "R2")),
        ("R2", "R2"),  # the freeze
    ]
    rejected = decisions[1].read_proposal()
    assert rejected is not None
    assert rejected.upsert_files == {"prompt/SKILL.md": ROUND}
    shown = decisions[0].evidence.order_by("ordinal").values_list("trial__task__key", flat=True)
    assert list(shown) == ["train-7", "train-8", "train-9"]


def test_only_the_kept_candidate_s_validation_is_a_result(tmp_path: Path) -> None:
    import_paths([run_dir(tmp_path / "runs" / "monday")])
    results = Trial.objects.filter(phase="evaluation").order_by("episode__run__condition", "task__key")
    told = results.values_list("episode__run__condition", "task__key", "success")
    assert list(told) == [
        *(("gepa", "val-0", True), ("gepa", "val-1", True)),
        *(("old-skill", "val-0", True), ("old-skill", "val-1", False)),  # the second by subtraction from the mean
    ]
    assert (
        Trial.objects.get(episode__run__condition="gepa", task__key="val-1", phase="evaluation")
        .attempts.get()
        .trajectories.count()
        == 1
    )
    assert Groups.of(Run.objects.all(), "no-skill").baseline == "old-skill"


def test_what_dspy_printed_is_the_text_log(tmp_path: Path) -> None:
    """DSPy's log_dir has no run_log.txt: it logs the same lines, between progress bars and other loggers' lines."""
    folder = run_dir(tmp_path / "runs" / "monday")
    own = (folder / "run_log.txt").read_text().replace("\nIteration", "\0Iteration").split("\0")
    stamp, bar = "2026/03/01 10:00:00 INFO", " 18%|███      | 14/80 [00:05<00:27,  2.42it/s]"
    printed = [f"{bar}{stamp} dspy.teleprompt.gepa.gepa: {line}\n{bar}\n" for line in own]
    other = f"{stamp} dspy.evaluate.evaluate: Average Metric: 1.0 / 3\n"
    write(folder / "run_log.txt", other.join(["Loading.\n", *printed]))
    assert list(import_paths([folder]).problems) == []
    rejected = Decision.objects.get(status="rejected").read_proposal()
    assert rejected is not None
    assert rejected.upsert_files == {"prompt/SKILL.md": ROUND}
    assert Trial.objects.filter(phase="evaluation", success=True).count() == 3


def test_items_may_have_names(tmp_path: Path) -> None:
    """A data loader of one's own may name its items: JSON holds the names, the text log prints them as Python does."""
    folder = run_dir(tmp_path / "runs" / "monday")
    rows = json.loads((folder / "run_log.json").read_text())
    for row in rows:
        row["subsample_ids"] = [f"issue-{item}" for item in row["subsample_ids"]]
    write(folder / "run_log.json", rows)
    log = (folder / "run_log.txt").read_text()
    for item, name in ((0, "'django__django-0'"), (1, r'''"it's: {1: 0}"''')):
        log = log.replace(f"{{{item}: ", f"{{{name}: ").replace(f", {item}: ", f", {name}: ")
    write(folder / "run_log.txt", log)
    (folder / "generated_best_outputs_valset" / "task_1").rename(
        folder / "generated_best_outputs_valset" / "task_it's: {1: 0}"
    )
    assert list(import_paths([folder]).problems) == []
    results = Trial.objects.filter(phase="evaluation").order_by("episode__run__condition", "task__key")
    assert list(results.values_list("episode__run__condition", "task__key", "success")) == [
        *(("gepa", "val-django__django-0", True), ("gepa", "val-it's: {1: 0}", True)),
        *(("old-skill", "val-django__django-0", True), ("old-skill", "val-it's: {1: 0}", False)),
    ]
    assert Trajectory.objects.get().attempt.trial.task.key == "val-it's: {1: 0}"
    shown = Decision.objects.get(number=1).evidence.order_by("ordinal").values_list("trial__task__key", flat=True)
    assert list(shown) == ["train-issue-7", "train-issue-8", "train-issue-9"]
    assert check_format(gepa, [folder]).faults == []


def test_an_item_s_name_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = run_dir(tmp_path / "runs" / "monday")
    write(tmp_path / "runs" / "iter_3_prog_2.json", {"full_assistant_response": "of somebody else"})
    (folder / "generated_best_outputs_valset" / "task_").mkdir()
    log = (folder / "run_log.txt").read_text()
    write(folder / "run_log.txt", log.replace("{0: ", "{'x': ").replace(", 1: ", ", '/../../..': "))
    import_paths([tmp_path])
    assert Trial.objects.filter(task__key="val-/../../..").exists()
    assert not Trajectory.objects.exists()


def test_a_seed_that_solved_nothing_has_its_scores(tmp_path: Path) -> None:
    """The first candidate alone is on the front, so the log lists no score of the seed:
    its mean says that all are 0."""
    folder = run_dir(tmp_path / "runs" / "monday")
    log = (folder / "run_log.txt").read_text()
    for before, after in {
        "valset score: 0.5": "valset score: 0.0",
        "front scores: {0: 1.0, 1: 0.0}": "front scores: {0: 1.0, 1: 1.0}",
        "front programs: {0: {0}, 1: {0, 1}}": "front programs: {0: {1}, 1: {1}}",
    }.items():
        assert before in log
        log = log.replace(before, after)
    (folder / "run_log.txt").write_text(log)
    assert list(import_paths([folder]).problems) == []
    assert (
        list(Trial.objects.filter(episode__run__condition="old-skill").values_list("success", flat=True)) == [False] * 2
    )


def test_an_iteration_may_propose_several_times(tmp_path: Path) -> None:
    """With a sampling strategy of GEPA 0.1.4: here the second of two proposals is better than its parent."""
    folder = run_dir(tmp_path / "runs" / "monday")
    tasks = [
        {"parent_idx": 0, "subsample_ids": [7], "subsample_scores": [1.0], "new_subsample_scores": [0.0]},
        {"parent_idx": 1, "subsample_ids": [8], "subsample_scores": [0.0], "new_subsample_scores": [1.0]},
    ]
    row = {"i": 0, "selected_program_candidate": 0, "tasks": tasks, "new_program_idx": 2, "new_program_indices": [2]}
    write(folder / "run_log.json", [row | {key: tasks[0][key] for key in list(tasks[0])[1:]}])
    log = f"""Iteration 1: Proposed new text for prompt: {ROUND}
Iteration 1: Proposed new text for prompt: {UNITS}
Iteration 1: New subsample score 0.0 is not better than old score 1.0, skipping
Iteration 1: Accepted candidate (subsample score 0.0 -> 1.0); running full eval.
Iteration 1: Individual valset scores for new program: {{0: 1.0, 1: 1.0}}
Iteration 1: New program candidate index: 2
"""
    told = [
        ("rejected", "From candidate 0. Minibatch of 1: 1 -> 0, not better: rejected."),
        ("applied", "From candidate 1. Minibatch of 1: 0 -> 1, accepted as candidate 2. Validation: 1 on 2 items."),
    ]
    write(folder / "run_log.txt", log)
    import_paths([folder])
    assert list(Decision.objects.order_by("number").values_list("status", "summary")) == told
    rejected = Decision.objects.order_by("number")[0].read_proposal()
    assert rejected is not None
    assert rejected.upsert_files == {"prompt/SKILL.md": ROUND}
    alone = tmp_path / "alone"
    for name in ("candidates.json", "run_log.json"):
        write(alone / name, json.loads((folder / name).read_text()))
    import_paths([alone])
    without = Decision.objects.filter(episode__run__experiment__name__contains="alone").order_by("number")
    assert [row.summary for row in without] == [told[0][1], told[1][1].partition(" Validation")[0]]


def test_a_merge_is_a_decision_from_the_better_one_of_two(tmp_path: Path) -> None:
    folder = run_dir(tmp_path / "runs" / "monday")
    row = {
        "i": 0,
        "invoked_merge": True,
        "merged": True,
        "merged_entities": [1, 2, 0],
        "subsample_ids": [0, 1],
        "id1_subsample_scores": [0.0, 0.0],
        "id2_subsample_scores": [1.0, 0.0],
        "new_program_subsample_scores": [0.0, 0.0],
    }
    # A merge that was not found leaves its mark in the row of the reflection that follows.
    write(folder / "run_log.json", [row, iteration(2, 0, [0, 0, 0], [1, 0, 0]) | {"invoked_merge": True}])
    write(folder / "run_log.txt", "Iteration 1: Merged programs 1 and 2 via ancestor 0\n")
    write(folder / "iterations/seed/val_scores.json", {"0": 0.5, "1": 1.0})  # what GEPA writes for agents
    report = import_paths([folder])
    assert list(report.problems) == []
    assert list(Decision.objects.order_by("number").values_list("operation_type", "summary")) == [
        ("merge", "Merge of candidates 1 and 2. Minibatch of 2: 1 -> 0, not better: rejected."),
        ("revise", "From candidate 0. Minibatch of 3: 0 -> 1, not better: rejected."),
    ]
    assert Decision.objects.order_by("number")[0].evidence.count() == 0
    merged = Trial.objects.filter(episode__run__condition="gepa", task__key__startswith="val-")
    assert list(merged.values_list("phase", flat=True)) == ["acquisition", "acquisition"]
    seed = Trial.objects.filter(episode__run__condition="old-skill").order_by("task__key")
    assert list(seed.values_list("reward", flat=True)) == [0.5, 1.0]


def test_a_run_that_goes_on_moves_its_results(tmp_path: Path) -> None:
    """At first the seed is best, so the first candidate's scores served the search only."""
    folder = run_dir(tmp_path / "runs" / "monday")
    rows, log = json.loads((folder / "run_log.json").read_text()), (folder / "run_log.txt").read_text()
    write(folder / "run_log.json", rows[:1])
    write(folder / "run_log.txt", log.partition("Iteration 2")[0].replace("on valset: 0", "on valset: 1"))
    import_paths([folder])
    of_first = Trial.objects.filter(episode__run__condition="gepa", task__key__startswith="val")
    assert set(of_first.values_list("phase", flat=True)) == {"evaluation"}
    write(folder / "run_log.json", rows)
    write(folder / "run_log.txt", log)
    report = import_paths([folder])
    assert report.counts["created"] == 17  # the trials of three more iterations, and nothing twice
    moved = of_first.filter(attempts__lineage={}, attempts__counts=True).values_list("task__key", "phase")
    assert sorted(moved) == [(f"val-{item}", phase) for item in (0, 1) for phase in ("acquisition", "evaluation")]
    call_command("check_record")


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("candidates.json", {"0": "a"}, "whole file", "found an object"),
        ("candidates.json", [{"prompt": 1}], "[0]", "found an object"),
        ("run_log.json", {"i": 0}, "", "none: the course of the run is unknown"),
        (
            "run_log.json",
            [{"i": 0, "selected_program_candidate": 9}],
            "[0].selected_program_candidate",
            "none; the iteration is left out",
        ),
        (
            "run_log.txt",
            "",
            "",
            "none: texts rejected and scores on validation are unknown. "
            "DSPy prints it: save what it prints under this name",
        ),
        ("gepa_state.bin", b"\x80", "", "a pickle; it was not opened"),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path: Path, name: str, content: object, place: str, message: str) -> None:
    folder = run_dir(tmp_path / "runs" / "monday")
    write(folder / name, content)
    report = import_paths([folder])
    assert (name, place, message) in {(Path(each.path).name, each.place, each.message) for each in report.problems}
    call_command("check_record")


def test_the_format_s_check_finds_nothing(tmp_path: Path) -> None:
    assert check_format(gepa, [run_dir(tmp_path / "runs" / "monday")]).faults == []


@pytest.mark.shared_data
def test_a_real_run() -> None:
    report = import_paths([SAMPLE])
    assert Experiment.objects.get().name == "GEPA gepa-optimize/run_dir"
    assert Counter(Decision.objects.values_list("status", flat=True)) == {"applied": 4, "rejected": 9, "no-op": 1}
    assert report.counts["attempts"] == 118  # of 121 metric calls; of three the log only says that all were perfect
    assert report.counts["trajectories"] == 11
    call_command("check_record")

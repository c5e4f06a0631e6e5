"""Sessions that hold a copy of another one: marked, counted once, whichever comes in first."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from benchapp import audit
from benchapp.imports.import_map import read_map
from benchapp.models import Attempt, Experiment, Task, Trajectory, Trial
from benchapp.record.trajectory_store import iterate_steps
from tests.benchapp.import_folders import bring_in
from tests.benchapp.session_copies import (
    FIRST,
    SECOND,
    THIRD,
    claude_turns,
    codex_head,
    codex_turns,
    write_lines,
)

pytestmark = pytest.mark.django_db
FORK_AT = "2026-03-01T11:00:00.000Z"


def lineage(session: str) -> dict[str, Any]:
    return Attempt.objects.get(counts=True, trial__task__key=f"session {session}").lineage


def rows() -> dict[str, tuple[Any, ...]]:
    """Of every session its title, turns, steps, tokens, seconds and lineage."""
    names = ("task__title", "turns", "steps", "input_tokens", "output_tokens", "duration_seconds")
    return {
        trial.task.key: (*Trial.objects.values_list(*names).get(pk=trial.pk), lineage(trial.task.key[8:]))
        for trial in Trial.objects.select_related("task")
    }


def total(name: str) -> int:
    return sum(value or 0 for value in Trial.objects.values_list(name, flat=True))


def resumed(folder: Path) -> list[Path]:
    """A session, one that resumes it, and one that resumes that."""
    return [
        write_lines(folder / f"{FIRST}.jsonl", claude_turns(FIRST, [1, 2])),
        write_lines(folder / f"{SECOND}.jsonl", claude_turns(SECOND, [1, 2, 3])),
        write_lines(folder / f"{THIRD}.jsonl", claude_turns(THIRD, [1, 2, 3, 4])),
    ]


def test_a_resumed_session_counts_its_own_work_only(tmp_path):
    resumed(tmp_path / "proj")
    bring_in(tmp_path / "proj")
    assert (total("input_tokens"), total("output_tokens")) == (100, 10)
    assert rows()[f"session {SECOND}"] == (
        *("Question 3", 1, 2, 30, 3, 30.0),
        {"kind": "resume", "of": f"claude-session:{FIRST}", "copied_lines": 4, "by": "ids", "own_from": 5},
    )
    assert (lineage(FIRST), lineage(THIRD)["of"], lineage(THIRD)["own_from"]) == ({}, f"claude-session:{SECOND}", 7)
    steps = list(iterate_steps(Trajectory.objects.get(attempt__trial__task__key=f"session {THIRD}")))
    assert [step.is_copied_context for step in steps] == [True] * 6 + [False] * 2
    assert [step.usage is None for step in steps if step.source == "agent"] == [True, True, True, False]
    assert list(audit.flaws()) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_record_is_the_same_whichever_session_comes_in_first(tmp_path, order):
    together = resumed(tmp_path / "proj")
    bring_in(tmp_path / "proj")
    expected = rows()
    Experiment.objects.all().delete()
    Task.objects.all().delete()
    for at in order:
        bring_in(together[at])
    assert rows() == expected
    assert list(audit.flaws()) == []
    before = list(Attempt.objects.order_by("pk").values_list("pk", "status"))
    assert bring_in(tmp_path / "proj").counts["unchanged"] == 3
    assert list(Attempt.objects.order_by("pk").values_list("pk", "status")) == before


def test_a_fork_whose_parent_goes_on_too(tmp_path):
    write_lines(tmp_path / f"{FIRST}.jsonl", claude_turns(FIRST, [1, 2, 3]))
    write_lines(tmp_path / f"{SECOND}.jsonl", claude_turns(SECOND, [1, 2, 5]))
    bring_in(tmp_path)
    assert (total("input_tokens"), lineage(FIRST), lineage(SECOND)["kind"]) == (110, {}, "fork")
    assert lineage(SECOND)["of"] == f"claude-session:{FIRST}"


def test_a_fork_that_names_its_parent_is_marked_without_it(tmp_path):
    copied = [{**line, "forkedFrom": {"sessionId": FIRST}} for line in claude_turns(SECOND, [1, 2])]
    write_lines(tmp_path / f"{SECOND}.jsonl", copied + claude_turns(SECOND, [3]))
    bring_in(tmp_path)
    assert rows()[f"session {SECOND}"][:5] == ("Question 3", 1, 2, 30, 3)
    assert (lineage(SECOND)["of"], lineage(SECOND)["by"]) == (f"claude-session:{FIRST}", "log")


def test_lines_that_keep_the_id_of_the_copied_session(tmp_path):
    write_lines(tmp_path / f"{SECOND}.jsonl", claude_turns(FIRST, [1, 2]) + claude_turns(SECOND, [3]))
    bring_in(tmp_path)
    assert rows()[f"session {SECOND}"][:5] == ("Question 3", 1, 2, 30, 3)
    assert lineage(SECOND)["of"] == f"claude-session:{FIRST}"


def test_snapshots_of_one_session_are_one_trial(tmp_path):
    for number in (1, 2, 3, 4):
        write_lines(tmp_path / f"{number}" / "full.jsonl", claude_turns(FIRST, range(1, number + 1)))
    report = bring_in(tmp_path)
    assert (Trial.objects.count(), total("input_tokens")) == (1, 100)
    assert sum("a snapshot of the session" in problem.message for problem in report.problems) == 3


@pytest.mark.parametrize("order", [(1, 3), (3, 1)])
def test_snapshots_of_one_session_are_one_trial_across_imports(tmp_path, order):
    for number in order:
        bring_in(write_lines(tmp_path / f"{number}.jsonl", claude_turns(FIRST, range(1, number + 1))))
    assert (Trial.objects.count(), total("input_tokens"), total("steps")) == (1, 60, 6)


def test_logs_of_other_work_under_one_id_are_no_samples_of_one_task(tmp_path):
    for number in (1, 2, 3):
        write_lines(tmp_path / f"job-{number}" / "log.jsonl", claude_turns("same", [number]))
    bring_in(tmp_path)
    assert sorted(Trial.objects.values_list("task__title", "sample")) == [(f"Question {n}", 0) for n in (1, 2, 3)]


def codex_fork(folder: Path) -> tuple[Path, Path]:
    parent = [codex_head("aa", "2026-03-01T10:00:00.000Z"), *codex_turns([1, 2])]
    copy = [codex_head("aa", "2026-03-01T10:00:00.000Z") | {"timestamp": FORK_AT}, *codex_turns([1, 2], FORK_AT)]
    own = [{**line, "timestamp": "2026-03-01T11:01:00.000Z"} for line in codex_turns([3])]
    head = codex_head("bb", "2026-03-01T11:00:00.000Z", forked_from_id="aa")
    return write_lines(folder / "rollout-aa.jsonl", parent), write_lines(
        folder / "rollout-bb.jsonl", [head, *copy, *own]
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1,)])
def test_a_codex_fork_counts_its_own_work_only(tmp_path, order):
    files = codex_fork(tmp_path)
    for at in order:
        bring_in(files[at])
    fork = Trajectory.objects.get(attempt__trial__task__key="session bb", attempt__counts=True)
    assert rows()["session bb"] == (
        *("Question 3", 1, 2, 30, 3, 0.0),
        {"kind": "fork", "of": "codex-rollout:aa", "copied_lines": 8, "by": "log", "own_from": 5},
    )
    assert (fork.extra["session_id"], fork.extra["cwd"]) == ("bb", "/bb")
    if len(order) > 1:
        assert (total("input_tokens"), total("output_tokens")) == (60, 6)


@pytest.mark.parametrize("before", [False, True])
def test_a_map_says_whose_copy_a_session_is(tmp_path, before):
    log = write_lines(tmp_path / f"{SECOND}.jsonl", claude_turns(SECOND, [1, 2, 3]))
    rules = tmp_path / "map.yaml"
    rules.write_text(
        f'rules:\n  - match: {{path: "*{SECOND}*"}}\n    set: {{copy_of: {FIRST}, copied_as: fork, own_from_line: 5}}\n'
    )
    if before:
        bring_in(log)
    bring_in(log, mapping=read_map(rules))
    bring_in(log)  # without the map it stays
    told = {"kind": "fork", "of": f"claude-session:{FIRST}", "copied_lines": 4, "by": "map", "own_from": 5}
    assert rows()[f"session {SECOND}"] == ("Question 3", 1, 2, 30, 3, 30.0, told)


def test_a_codex_log_marks_its_compaction_with_tokens(tmp_path):
    mark = {"timestamp": "2026-03-01T10:01:30.000Z", "type": "compacted", "payload": {"message": "So far"}}
    lines = [codex_head("aa", "2026-03-01T10:00:00.000Z"), *codex_turns([1]), mark, *codex_turns([2])]
    bring_in(write_lines(tmp_path / "rollout-aa.jsonl", lines))
    assert list(iterate_steps(Trajectory.objects.get()))[2].extra == {
        "compaction": {"tokens_before": 10, "tokens_after": 20}
    }

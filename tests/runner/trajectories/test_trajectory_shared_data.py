"""Real trajectories that lie beside the project: read whole, with the numbers that were counted by other means."""

import json
from pathlib import Path

import pytest

from runner.base.types import CompactionKind, Step, Usage
from runner.trajectories.atif_values import step_from_json, step_to_json
from runner.trajectories.compaction import compact, render
from runner.trajectories.readers.reading import ReadTrajectory, open_file
from runner.trajectories.readers.skill_use import skill_uses
from runner.trajectories.step_outline import outline_row
from tests.cases import every

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
pytestmark = pytest.mark.shared_data
PATTERNS = (
    "**/trajectory.json",
    "**/acp_trajectory.jsonl",
    "**/codex.txt",
    "**/claude-code.txt",
    "**/sessions/**/*.jsonl",
)
FILES = sorted({path for pattern in PATTERNS for path in DATA.glob(pattern)}) if DATA.is_dir() else []
SKILLSBENCH, KEYPOINTS = DATA / "skillsbench", DATA / "skilllearnbench" / "eval_keypoints"


def read(path: Path) -> tuple[ReadTrajectory, list[Step]]:
    result = open_file(path)
    return result, list(result.steps)


def only(pattern: str) -> Path:
    (found,) = [path for path in FILES if path.match(pattern)]
    return found


def calls(steps: list[Step]) -> int:
    return sum(len(step.tool_calls) for step in steps)


@every(*FILES)
def test_every_file_reads_without_a_problem_and_can_be_worked_with(path: Path) -> None:
    result, steps = read(path)
    assert list(result.problems) == []
    assert result.head.source_format != "plain-text"
    assert len(steps) >= 4
    for each in [steps, *(list(subagent.steps) for subagent in result.subagents)]:
        assert [step.number for step in each] == list(range(1, len(each) + 1))
        assert [step_from_json(step_to_json(step)) for step in each] == each
        assert all(len(json.dumps(outline_row(step))) < 2_000 for step in each)
        for kind in CompactionKind:
            made = compact(each, kind, title="t")
            assert made.tokens <= 8_000
            assert render(made.spans, each, title="t") == made.text


@every(
    ("*powerlifting-coef-calc__NYGDBnx/agent/*", 11, 9, Usage(157_081, 65_039, 8_067)),
    ("*powerlifting-coef-calc__CQ9zzzG/agent/*", 14, 13, Usage(343_830, 252_616, 13_828)),
    ("*3d-scan-calc__PA9RFys/agent/*", 20, 8, Usage(139_866, 138_203)),
    ("*3d-scan-calc__iCJxdWQ/agent/*", 42, 19, Usage(418_804, 412_946)),
    ("*lean4-proof__QpY3vfW/agent/*", 26, 25, Usage(751_158, 735_104, 33_944)),
    ("*video-tutorial-indexer__PFWtRHs/agent/*", 133, 133, Usage()),
    ("*dapt-intrusion-detection__Y6Xtg2z/agent/*", 9, 15, Usage()),
    ("*3d-scan-calc__720ed855/trajectory/*", 10, 8, Usage()),
    ("*-3d-scan-calc-c59444/agent/*", 7, 6, Usage(119_965, 97_607, 1_507, 0.04488844999999999)),
)
def test_the_numbers_are_those_counted_in_the_file(pattern: str, steps: int, tool_calls: int, usage: Usage) -> None:
    result, found = read(only(pattern))
    assert (len(found), calls(found), result.usage) == (steps, tool_calls, usage)


def test_atif_totals_agree_with_the_files_own_except_where_those_repeat() -> None:
    for path in FILES:
        result, _ = read(path)
        if result.head.source_format.startswith("ATIF") and result.reported is not None:
            repeats = "steps_with_repeated_metrics" in result.facts
            assert (result.usage.input_tokens == result.reported.input_tokens) is not repeats, path


def test_codex_calls_and_results_equal_those_counted_line_by_line() -> None:
    for path in (path for path in FILES if path.name == "codex.txt"):
        items = [json.loads(line) for line in path.read_text().split("\n") if line]
        kinds = ("command_execution", "file_change")
        started = {event["item"]["id"] for event in items if event.get("item", {}).get("type") in kinds}
        over = [event for event in items if event["type"] == "item.completed" and event["item"]["type"] in kinds]
        _, steps = read(path)
        assert calls(steps) == len(started)
        assert sum(len(step.observations) for step in steps) == len(over)


def test_claude_calls_equal_those_counted_line_by_line_and_each_has_its_result() -> None:
    total = 0
    for path in (path for path in FILES if path.is_relative_to(KEYPOINTS)):
        events = [json.loads(line) for line in path.read_text().split("\n") if line]
        blocks = [block for event in events if event["type"] == "assistant" for block in event["message"]["content"]]
        result, steps = read(path)
        threads = [steps, *(list(subagent.steps) for subagent in result.subagents)]
        counted = sum(calls(thread) for thread in threads)
        assert counted == sum(block["type"] == "tool_use" for block in blocks)
        assert counted == sum(len(step.observations) for thread in threads for step in thread)
        last = [event for event in events if event["type"] == "result"][-1]
        assert result.usage.cost_usd == last["total_cost_usd"]
        assert result.usage.output_tokens == sum(model["outputTokens"] for model in last["modelUsage"].values())
        total += counted
    assert total == 157


def test_the_exported_copies_hold_the_same_calls() -> None:
    copies = sorted(KEYPOINTS.glob("*/*/claude-code.dataclaw.jsonl"))
    found = [read(path) for path in copies]
    assert [list(result.problems) for result, _ in found] == [[]] * len(copies)
    assert sum(calls(steps) for _, steps in found) == 157


def test_two_results_sum_turns_and_keep_the_last_running_total() -> None:
    result, _ = read(KEYPOINTS / "fix-security-bug" / "fix-security-bug-3" / "claude-code.txt")
    assert (result.turns, result.usage.cost_usd) == (46, 0.7870243499999998)


@every(
    ("*-3d-scan-calc-c59444/agent/*", {("mesh-analysis", "invoked")}),
    ("*crystallographic-wyckoff-positio__juf8fiK/agent/*", {("pymatgen", "read")}),
    ("*crystallographic-wyckoff-positio__CBK3Zcg/agent/*", set()),
    ("*powerlifting-coef-calc__CQ9zzzG/agent/*", {("powerlifting", "invoked"), ("xlsx", "invoked")}),
    ("*3d-scan-calc__TmjJ44a/agent/*", {("mesh-analysis", "invoked")}),
    ("*dapt-intrusion-detection__Y6Xtg2z/agent/*", set()),
    ("*3d-scan-calc__720ed855/trajectory/*", {("mesh-analysis", "invoked"), ("mesh-analysis", "read")}),
    ("*3d-scan-calc__PA9RFys/agent/*", set()),
    ("*sum-csv__cNR7jZi/agent/*", {("csv-tools", "read")}),
)
def test_skill_uses_are_those_seen_by_eye(pattern: str, uses: set[tuple[str, str]]) -> None:
    _, steps = read(only(pattern))
    assert {(use.skill, str(use.kind)) for use in skill_uses(steps, mounted=None)} == uses

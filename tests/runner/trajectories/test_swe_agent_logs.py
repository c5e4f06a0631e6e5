"""What SWE-agent, mini-swe-agent and older releases of Codex wrote, by small files of our own in each shape."""

from pathlib import Path

import pytest

from runner.base.types import Source, Step, Usage
from runner.trajectories.readers.reading import ReadTrajectory, open_file, sniff
from tests.cases import every

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"

FORMATS = {
    "codex_rollout_2025.jsonl": "codex-rollout",
    "codex_rollout_first.json": "codex-rollout",
    "swe_agent_history.traj": "swe-agent",
    "swe_agent_text_history.traj": "swe-agent",
    "mini_swe_agent_1.json": "mini-swe-agent",
    "mini_swe_agent_bare.json": "mini-swe-agent",
    "mini_swe_agent_2.json": "mini-swe-agent",
    "mini_swe_agent_text.json": "mini-swe-agent",
    "mini_swe_agent_responses.json": "mini-swe-agent",
}


def read(name: str) -> tuple[ReadTrajectory, list[Step]]:
    result = open_file(FIXTURES / name)
    return result, list(result.steps)


@every(*FORMATS.items())
def test_it_knows_a_format_by_its_content(name: str, source_format: str, tmp_path: Path) -> None:
    renamed = tmp_path / "trajectory.json"
    renamed.write_bytes((FIXTURES / name).read_bytes())
    assert sniff(renamed) == source_format


@every(*FORMATS)
def test_it_reads_a_sound_file_without_problems_and_pairs_results_with_calls(name: str) -> None:
    result, steps = read(name)
    assert list(result.problems) == []
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        known = {call.id for call in step.tool_calls}
        assert {observation.source_call_id for observation in step.observations} <= known


@pytest.mark.parametrize("name", ["codex_rollout_2025.jsonl", "codex_rollout_first.json"])
def test_it_reads_codex_rollouts_without_wrapper(name: str) -> None:
    result, steps = read(name)
    assert result.head.session_id in ("r-2025", "r-first")
    looked, said = steps[-2:]
    assert (looked.tool_calls[0].name, looked.observations[0].content, said.message) == ("shell", "b\n1\n2\n", "3")
    assert [step.message for step in steps if step.source is Source.USER][-1] == "Add up column b."


def test_an_old_codex_rollout_keeps_reasoning_and_counts_its_state_lines() -> None:
    result, steps = read("codex_rollout_2025.jsonl")
    assert steps[2].reasoning == "Plan it"
    assert result.facts["events_without_step"] == {"state": 6}


def test_it_reads_the_history_where_there_is_no_trajectory() -> None:
    _, steps = read("swe_agent_history.traj")
    assert [(step.source, step.message) for step in steps] == [
        (Source.SYSTEM, "You fix issues."),
        (Source.USER, "ISSUE: the sum is wrong."),
        (Source.AGENT, "I look for it."),
        (Source.AGENT, "I hand it in."),
    ]
    assert (steps[2].tool_calls[0].name, steps[2].observations[0].content) == ("find_file", "Found 1 match.")


def test_a_history_without_tool_calls_has_its_commands_in_the_actions() -> None:
    _, steps = read("swe_agent_text_history.traj")
    assert (steps[2].tool_calls[0].arguments, steps[2].message) == ({"command": "find_file sums.py"}, "I look for it.")
    assert steps[2].observations[0].content == "Found 1 match."
    assert steps[3].tool_calls[0].arguments == {"command": "submit"}


def test_a_run_that_never_acted_is_still_a_swe_agent_file(tmp_path: Path) -> None:
    log = tmp_path / "x.traj"
    log.write_text('{"trajectory": [], "history": [{"role": "system", "content": "Fix."}], "info": {}}')
    assert sniff(log) == "swe-agent"
    assert [step.message for step in open_file(log).steps] == ["Fix."]


@every(*[name for name in FORMATS if name.startswith("mini")])
def test_it_reads_a_command_of_mini_swe_agent_with_its_result(name: str) -> None:
    result, steps = read(name)
    assert result.head.agent_name == "mini-swe-agent"
    assert [step.message for step in steps[:2]] == ["You use a shell.", "Sum column b."]
    call, observation = steps[2].tool_calls[0], steps[2].observations[0]
    assert (call.name, call.arguments) == ("bash", {"command": "cat data.csv"})
    assert observation.content.startswith("<returncode>")
    assert observation.is_error == ("no such file" in observation.content)


def test_a_complaint_about_the_format_is_no_result() -> None:
    _, steps = read("mini_swe_agent_1.json")
    assert [(step.source, step.message) for step in steps[3:]] == [
        (Source.AGENT, "No command."),
        (Source.USER, "Please always provide EXACTLY ONE action."),
    ]


def test_mini_swe_agent_tells_tokens_where_it_kept_the_answers_and_the_cost_of_the_run() -> None:
    result, steps = read("mini_swe_agent_1.json")
    assert result.usage == Usage(230, 40, 15)
    assert result.reported == Usage(cost_usd=0.5)
    assert (result.head.model, result.head.agent_version) == ("lab/model-1", "1.17.5")
    assert steps[2].timestamp == "2026-01-02T03:00:00.500Z"
    assert read("mini_swe_agent_responses.json")[0].usage == Usage(100, 40, 10)


def test_each_tool_call_of_mini_swe_agent_has_its_own_result() -> None:
    _, steps = read("mini_swe_agent_2.json")
    assert [(item.source_call_id, item.is_error) for item in steps[2].observations] == [("c1", False), ("c2", True)]
    assert (steps[3].message, len(steps[3].tool_calls)) == ("", 1)
    assert steps[-1].source is Source.SYSTEM


def test_an_answer_of_the_responses_interface_keeps_text_and_reasoning() -> None:
    _, steps = read("mini_swe_agent_responses.json")
    assert (steps[2].message, steps[2].reasoning) == ("I look.", "Plan it")

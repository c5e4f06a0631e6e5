"""Each source format, by a small file of our own that holds the traps of that format."""

import json
from pathlib import Path

import pytest

from runner.base.types import Source, Step, TrajectoryKind, Usage
from runner.trajectories.problems import TrajectoryProblem
from runner.trajectories.readers.reading import ReadTrajectory, open_file, sniff
from runner.trajectories.readers.skill_use import skill_uses
from tests.cases import every

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"

FORMATS = {
    "atif_v18.json": "atif",
    "atif_claude_code.json": "atif",
    "terminus_episodes.json": "terminus-episodes",
    "claude_stream.jsonl": "claude-stream-json",
    "claude_session.jsonl": "claude-session",
    "codex.jsonl": "codex-jsonl",
    "gemini_native.json": "gemini-native",
    "acp.jsonl": "acp-jsonl",
    "codex_rollout.jsonl": "codex-rollout",
    "chat_openai.json": "chat-messages",
    "chat_dataclaw.jsonl": "chat-messages",
}


def read(name: str) -> tuple[ReadTrajectory, list[Step]]:
    result = open_file(FIXTURES / name)
    return result, list(result.steps)


def uses(steps: list[Step]) -> list[tuple[str, str, int | None, str | None]]:
    return [(use.skill, str(use.kind), use.step, use.path) for use in skill_uses(steps, mounted=None)]


@every(*FORMATS.items())
def test_it_knows_a_format_by_its_content(name: str, source_format: str, tmp_path: Path) -> None:
    renamed = tmp_path / "trajectory.json"
    renamed.write_bytes((FIXTURES / name).read_bytes())
    assert sniff(renamed) == source_format


@every(*FORMATS)
def test_it_numbers_steps_from_one_without_holes(name: str) -> None:
    _, steps = read(name)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert len(steps) > 2


@every(*FORMATS)
def test_it_reports_nothing_in_a_sound_file(name: str) -> None:
    result, _ = read(name)
    expected = 1 if name == "claude_session.jsonl" else 0  # one line there comes twice, on purpose
    assert len(list(result.problems)) == expected


@every(*FORMATS)
def test_every_result_names_a_call_of_its_step_or_none(name: str) -> None:
    for step in read(name)[1]:
        calls = {call.id for call in step.tool_calls}
        for observation in step.observations:
            assert observation.source_call_id is None or observation.source_call_id in calls


def test_it_reads_atif_with_content_parts_and_references() -> None:
    result, steps = read("atif_v18.json")
    assert result.head.source_format == "ATIF-v1.8"
    assert (result.head.agent_name, result.head.agent_version, result.head.model) == (
        "terminus-2",
        "2.0.0",
        "stub/model",
    )
    assert steps[0].message.endswith("in the picture.\n[image image/png: images/squares.png]")
    assert steps[1].extra == {"atif": {"reasoning_effort": "low", "llm_call_count": 1, "metrics": {"logprobs": [-0.5]}}}
    assert steps[1].usage == Usage(1200, 1000, 30, 0.002)
    assert steps[3].is_copied_context
    extra = result.head.extra or {}
    assert extra["continued_trajectory_ref"] == "trajectory.cont-1.json"
    assert extra["subagent_trajectory_refs"] == [
        {"trajectory_path": "trajectory.summarization-1.json", "session_id": "session-b", "step": 3}
    ]


def test_atif_usage_leaves_out_copied_context_and_keeps_the_reported_totals() -> None:
    result, _ = read("atif_v18.json")
    assert result.usage == Usage(2500, 2200, 34, pytest.approx(0.003))  # type: ignore[arg-type]
    assert result.reported == Usage(2500, 2200, 34, 0.003)


def test_atif_subagents_inside_the_file_are_trajectories_of_their_own() -> None:
    result, _ = read("atif_v18.json")
    (subagent,) = result.subagents
    steps = list(subagent.steps)
    assert (subagent.head.kind, subagent.head.name, subagent.head.parent) == (
        TrajectoryKind.SUBAGENT,
        "subagent-1",
        "main",
    )
    assert subagent.head.agent_name == "helper"
    assert [step.message for step in steps] == ["Sum up.", "It counts squares."]


def test_atif_from_claude_code_counts_each_model_call_once() -> None:
    result, steps = read("atif_claude_code.json")
    assert result.usage == Usage(1150, 920)  # calls that wrote something and took 0 output tokens were not counted
    assert result.reported == Usage(2800, 2240, 0)
    assert [step.usage is not None for step in steps] == [False, True, False, False, True, False]
    assert result.facts["steps_with_repeated_metrics"] == 3


def test_atif_from_claude_code_loses_the_copies_and_nothing_else() -> None:
    _, steps = read("atif_claude_code.json")
    assert steps[3].observations[0].content == "total 4\n-rw-r--r-- 1 me me 12 data.csv"
    assert steps[4].observations[0].content == "1\ta,b\n2\t1,2"
    assert steps[5].observations[0].content == "File does not exist."
    assert [step.observations[0].is_error for step in steps[3:]] == [False, False, True]
    extra = steps[3].extra or {}
    assert "metadata" not in extra
    assert "raw_arguments" not in extra
    assert extra["tool_result_metadata"]["tool_use_result"] == {"stderr": "", "interrupted": False}
    file = (steps[4].extra or {})["tool_result_metadata"]["tool_use_result"]["file"]
    assert file["content"] == "a,b\n1,2"


def test_it_reads_terminus_episodes_with_the_next_prompt_as_result() -> None:
    result, steps = read("terminus_episodes.json")
    assert [step.source for step in steps] == [Source.USER, *[Source.AGENT] * 4]
    assert result.head.skills_listed == ("csv-sums",)
    assert [call.name for step in steps for call in step.tool_calls] == [
        "load_skill",
        "load_skill",
        "bash_command",
        "bash_command",
        "mark_task_complete",
    ]
    assert steps[1].observations[0].is_error
    assert "Two ideas." in steps[1].message
    assert steps[3].message == "Analysis: Known now.\n\nPlan: Add."
    assert (steps[4].extra or {})["other"] == {"confidence": 0.9}
    assert uses(steps) == [("csv-sums", "invoked", 3, None), ("csv-sums", "executed", 4, "scripts/add.py")]


def test_a_claude_stream_that_goes_on_after_its_last_result_leaves_a_lower_bound(tmp_path: Path) -> None:
    whole = open_file(FIXTURES / "claude_stream.jsonl")
    list(whole.steps)
    said = {"id": "later", "role": "assistant", "content": [{"type": "text", "text": "More."}]}
    path = tmp_path / "cut.txt"
    more = json.dumps({"type": "assistant", "session_id": "s", "message": said})
    path.write_text((FIXTURES / "claude_stream.jsonl").read_text().rstrip("\n") + f"\n{more}\n")
    result = open_file(path)
    list(result.steps)
    assert (result.usage, result.reported) == (whole.usage.in_part(), whole.usage)


@pytest.mark.parametrize(
    ("agent", "output", "usage"),
    [
        ("claude-code", 400, Usage(100, None, 400, 0.5)),
        ("claude-code", 3, Usage(100, None, None, None, priced_usd=0.5, output_at_least=3)),
        ("other", 3, Usage(100, None, 3, 0.5)),
        ("other", 0, Usage(100, None, None, None, priced_usd=0.5)),
    ],
)
def test_output_tokens_that_cannot_have_written_the_text_are_a_lower_bound(
    tmp_path: Path, agent: str, output: int, usage: Usage
) -> None:
    metrics = {"prompt_tokens": 100, "completion_tokens": output, "cost_usd": 0.5}
    step = {"step_id": 1, "source": "agent", "message": "word " * 100, "metrics": metrics}
    path = tmp_path / "trajectory.json"
    told = {"schema_version": "ATIF-v1.8", "agent": {"name": agent, "version": "1"}, "steps": [step]}
    path.write_text(json.dumps(told))
    result = open_file(path)
    (found,) = result.steps
    assert result.usage == usage
    assert found.usage is not None
    assert found.usage.output_tokens == usage.output_tokens


def test_chat_messages_tell_their_usage_in_either_shape(tmp_path: Path) -> None:
    openai = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens": 7}
    anthropic = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
    told = [{"role": "assistant", "content": "Said.", "usage": usage} for usage in (openai, anthropic)]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"messages": told}))
    result = open_file(path)
    list(result.steps)
    assert result.usage == Usage(200, 150, 12)


def test_it_merges_the_blocks_of_a_claude_message() -> None:
    result, steps = read("claude_stream.jsonl")
    first = steps[0]
    assert (first.reasoning, first.message, len(first.tool_calls)) == ("Use the skill.", "I load the skill.", 1)
    assert first.usage == Usage(350, 300, None)
    assert [len(step.tool_calls) for step in steps] == [1, 0, 1, 1, 2, 0]
    assert steps[1].extra == {"synthetic": True}
    assert result.head.skills_listed == ("csv-sums", "debug")
    assert result.facts["events_without_step"] == {"system/task_started": 1}


def test_claude_totals_are_running_and_turns_are_not() -> None:
    result, _ = read("claude_stream.jsonl")
    assert result.usage == Usage(55 + 700 + 50 + 5, 700, 97, 0.025)
    assert result.turns == 6
    assert [item["num_turns"] for item in result.facts["results"]] == [5, 1]


def test_claude_subagents_are_read_from_the_same_file() -> None:
    result, _ = read("claude_stream.jsonl")
    (subagent,) = result.subagents
    steps = list(subagent.steps)
    assert subagent.head.parent == "main"
    assert subagent.head.model == "helper-model"
    assert subagent.head.extra == {"tool_call_id": "t3", "subagent_type": "Explore", "description": "Find files"}
    assert [step.source for step in steps] == [Source.USER, Source.AGENT, Source.AGENT]
    assert subagent.usage == Usage()  # the parent's totals hold it
    assert uses(steps) == [("csv-sums", "read", 2, "SKILL.md")]


def test_claude_skill_calls_count_only_when_they_succeed() -> None:
    _, steps = read("claude_stream.jsonl")
    assert uses(steps) == [("csv-sums", "invoked", 1, None), ("csv-sums", "executed", 5, "scripts/add.py")]


def test_it_shows_output_as_a_terminal_would_and_images_as_a_mark() -> None:
    _, steps = read("claude_stream.jsonl")
    text, image = steps[4].observations
    assert text.content == "2\n100%\n"
    assert image.content == "[image image/png: 300 bytes, not kept: no PNG, JPEG, GIF or WebP]"


def test_a_claude_stream_without_result_has_input_but_unknown_output(tmp_path: Path) -> None:
    lines = (FIXTURES / "claude_stream.jsonl").read_text().splitlines(keepends=True)
    path = tmp_path / "cut.txt"
    path.write_text("bash: cannot set terminal process group\n" + "".join(lines[:9]))
    result = open_file(path)
    assert len(list(result.steps)) == 4
    assert result.usage == Usage(350 + 372 + 392, 1000, output_at_least=3)
    assert result.facts["cut_off"] is True
    (problem,) = result.problems
    assert (problem.place, problem.expected) == ("line 1", "one JSON object on each line")


def test_it_reads_a_claude_session_tree() -> None:
    result, steps = read("claude_session.jsonl")
    assert [step.source for step in steps] == [Source.USER, Source.AGENT, Source.AGENT, Source.USER]
    assert [item.source_call_id for item in steps[1].observations] == ["t1", "t2"]
    assert steps[3].extra == {"branched_from": "a1"}
    assert result.usage == Usage(115 + 145, 220, output_at_least=2)
    assert uses(steps) == []  # the file that was to be read is not there
    assert [step.message for step in result.subagents[0].steps] == ["Look around.", "Nothing here."]
    (problem,) = result.problems
    assert problem.place == "line 11"


def test_it_reads_codex_items_in_the_order_they_started() -> None:
    result, steps = read("codex.jsonl")
    commands = [call.arguments.get("command", "") for step in steps for call in step.tool_calls]
    assert [text[14:23] for text in commands if text] == ["\"sed -n '", "'sleep 30", "'cat noth", "'ls /root"]
    assert steps[0].reasoning == "**Reading the skill**"
    assert [[item.is_error for item in step.observations] for step in steps] == [
        [False],
        [True],
        [True],
        [False],
        [],
        [],
    ]
    assert steps[4].extra == {"unfinished": True}
    assert result.usage == Usage(1500, 1300, 55)
    assert uses(steps) == [("csv-sums", "read", 1, "SKILL.md")]


def test_a_codex_turn_that_did_not_complete_leaves_a_lower_bound(tmp_path: Path) -> None:
    path = tmp_path / "codex.txt"
    path.write_text((FIXTURES / "codex.jsonl").read_text().rstrip("\n") + '\n{"type": "turn.started"}\n')
    result = open_file(path)
    list(result.steps)
    assert result.usage == Usage(cached_tokens=1300, input_at_least=1500, output_at_least=55)
    assert result.facts["cut_off"]


def test_codex_without_a_completed_turn_has_unknown_usage(tmp_path: Path) -> None:
    path = tmp_path / "codex.txt"
    path.write_text("".join((FIXTURES / "codex.jsonl").read_text().splitlines(keepends=True)[:7]))
    result = open_file(path)
    steps = list(result.steps)
    assert [bool((step.extra or {}).get("unfinished")) for step in steps] == [False, True, True]
    assert result.usage == Usage()


def test_it_reads_gemini_messages() -> None:
    result, steps = read("gemini_native.json")
    assert steps[1].reasoning == "Plan\nSkill first."
    assert steps[1].usage == Usage(101, 50, 15)
    assert [item.is_error for item in steps[1].observations] == [False, True]
    assert steps[2].source is Source.SYSTEM
    assert result.usage == Usage(301, 200, 19)
    assert result.head.session_id == "g-1"
    assert uses(steps) == [("csv-sums", "invoked", 2, None)]


def test_it_reads_acp_and_says_where_arguments_come_from() -> None:
    _, steps = read("acp.jsonl")
    assert [len(step.tool_calls) for step in steps] == [0, 1, 3, 0]
    assert steps[1].message == "I load the skill."
    assert steps[1].observations[0].content.count("# CSV sums") == 1
    assert (steps[1].tool_calls[0].extra or {})["arguments_from"] == "result"
    edit = steps[2].tool_calls[1]
    assert (edit.name, edit.arguments) == ("edit", {"path": "/app/sum.txt", "newText": "2"})
    assert steps[2].observations[2].is_error
    assert uses(steps) == [("csv-sums", "invoked", 2, None), ("csv-sums", "read", 3, "scripts/add.py")]


def test_a_codex_compaction_is_one_step_although_two_lines_report_it(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    history = [{"type": "compaction", "encrypted_content": "gAAA"}]
    lines = [
        ("session_meta", {"id": "s1", "source": "cli"}),
        ("event_msg", {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 900}}}),
        ("response_item", history[0]),
        ("compacted", {"message": "", "replacement_history": history}),
        ("compacted", {"message": "So far"}),
    ]
    path.write_text("".join(json.dumps({"type": kind, "payload": payload}) + "\n" for kind, payload in lines))
    steps = list(open_file(path).steps)
    assert [(step.message, step.extra["compaction"]) for step in steps] == [
        ("[compaction]", {"tokens_before": 900}),
        ("So far", {"tokens_before": 900}),
    ]


def test_it_reads_a_codex_rollout() -> None:
    result, steps = read("codex_rollout.jsonl")
    assert [step.source for step in steps] == [Source.SYSTEM, Source.USER, Source.AGENT, Source.AGENT]
    assert (result.head.session_id, result.head.agent_version, result.head.model) == ("r-1", "0.80.0", "code-model")
    first = steps[2]
    assert (first.reasoning, first.message, first.timestamp) == ("Plan it", "I look.", "2026-01-02T03:04:08.000Z")
    assert [item.is_error for item in first.observations] == [False, True]
    assert result.usage == Usage(300, 200, 30)
    assert uses(steps) == [("csv-sums", "read", 3, "SKILL.md")]


def test_it_reads_chat_messages_with_tool_calls() -> None:
    result, steps = read("chat_openai.json")
    assert [step.source for step in steps] == [Source.SYSTEM, Source.USER, Source.AGENT, Source.AGENT]
    assert steps[2].tool_calls[0].arguments == {"command": "cat data.csv"}
    assert steps[2].tool_calls[1].arguments == {"raw": "{broken"}
    assert [item.content for item in steps[2].observations] == ["a,b\n1,2", "no"]
    assert (result.head.model, result.usage) == ("chat-model", Usage())


def test_it_reads_exported_conversations_with_their_outputs() -> None:
    result, steps = read("chat_dataclaw.jsonl")
    assert [item.is_error for step in steps for item in step.observations] == [False, True]
    assert steps[1].reasoning == "Skill first."
    assert result.head.session_id == "session"
    assert uses(steps) == [("csv-sums", "invoked", 3, None)]


def test_it_reads_plain_text_by_blocks(tmp_path: Path) -> None:
    path = tmp_path / "oracle.txt"
    path.write_text("one\ntwo\n\n\n\x1b[1mthree\x1b[0m\n")
    result = open_file(path)
    assert result.head.source_format == "plain-text"
    assert [step.message for step in result.steps] == ["one\ntwo", "three"]


def test_it_reports_a_pointer_that_was_not_fetched(tmp_path: Path) -> None:
    path = tmp_path / "acp_trajectory.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 140677567\n")
    result = open_file(path)
    assert list(result.steps) == []
    assert result.facts["git_lfs_size"] == 140_677_567
    assert list(result.problems) == [
        TrajectoryProblem(
            "whole file", "the trajectory itself", "a git-lfs pointer to 140,677,567 bytes that was not fetched"
        )
    ]


def test_an_empty_file_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "oracle.txt"
    path.write_bytes(b"")
    result = open_file(path)
    assert (list(result.steps), list(result.problems), result.facts) == ([], [], {"empty": True})


def test_calls_of_fast_agent_are_by_their_ids(tmp_path: Path) -> None:
    """The loop below Hugging Face's upskill: an object of calls, and their results in the user's next message."""
    text = {"type": "text", "text": "Looking."}
    call = {"method": "tools/call", "params": {"name": "execute", "arguments": {"command": "cat SKILL.md"}}}
    seen = {"content": [{"type": "text", "text": "# Sums"}], "isError": False}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Sum it."}]},
        {"role": "assistant", "content": [text], "tool_calls": {"c1": call}},
        {"role": "user", "content": [], "tool_results": {"c1": seen}},
        {"role": "assistant", "content": [{"type": "text", "text": "42"}]},
    ]
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps({"messages": messages}))
    steps = list(open_file(path).steps)
    assert [(step.message, [each.name for each in step.tool_calls]) for step in steps] == [
        ("Sum it.", []),
        ("Looking.", ["execute"]),
        ("42", []),
    ]
    assert [(each.source_call_id, each.content) for each in steps[1].observations] == [("c1", "# Sums")]

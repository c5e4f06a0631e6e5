"""What GitHub Copilot and Cursor write: by small files of our own in the forms that `readers/copilot*.py` and
`cursor.py` name."""

from __future__ import annotations

import json
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.models import Trajectory, Trial
from runner.base.types import Source, Step, Usage, UseKind
from runner.trajectories.readers.reading import ReadTrajectory, read_trajectory, sniff
from runner.trajectories.readers.skill_use import skill_uses

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "trajectories"
NO_FILE = "wc: missing.txt: No such file"


def read(name: str, more: bytes = b"") -> tuple[ReadTrajectory, list[Step]]:
    content = (FIXTURES / name).read_bytes() + more
    result = read_trajectory(lambda: BytesIO(content))
    return result, list(result.steps)


def brief(steps: list[Step]) -> list[tuple[str, str, list[str], list[tuple[str, bool]]]]:
    return [
        (
            step.source.value,
            step.message,
            [call.name for call in step.tool_calls],
            [(seen.content, seen.is_error) for seen in step.observations],
        )
        for step in steps
    ]


def test_copilot_s_answers_have_their_calls_and_results() -> None:
    result, steps = read("copilot_session.jsonl")
    assert brief(steps) == [
        ("user", "Count the words", [], []),
        ("agent", "I read the skill.", ["view"], [("Count with wc.", False)]),
        ("agent", "", ["bash"], [(NO_FILE, True)]),
        ("agent", "", ["task"], [("It is in text.txt.", False)]),
        ("system", "Counting words.", [], []),
        ("agent", "12 words.", [], []),
    ]
    assert steps[1].reasoning == "A skill may help."
    assert steps[2].tool_calls[0].arguments == {"command": "wc -w missing.txt"}  # VS Code writes them as a text
    assert (steps[4].extra or {})["compaction"] == {"tokens_before": 9000}
    head = result.head
    assert (head.agent_name, head.agent_version, head.model) == ("copilot-cli", "1.0.80", "claude-haiku-4.5")
    assert head.skills_listed == ("count-words",)
    assert [(use.skill, use.kind) for use in skill_uses(steps, mounted=None)] == [("count-words", UseKind.READ)]
    assert result.facts["events_without_step"] == {"assistant.turn_start": 1, "assistant.message_delta": 1}
    assert list(result.problems) == []


def test_copilot_s_totals_include_what_the_cache_gave_and_are_a_lower_bound_if_answers_follow() -> None:
    assert read("copilot_session.jsonl")[0].usage == Usage(900, 700, 39)
    again = {"messageId": "m9", "content": "More.", "toolRequests": [], "outputTokens": 3}
    line = {"type": "assistant.message", "data": again, "id": "x", "timestamp": "2026-03-01T11:00:00Z", "parentId": "y"}
    result, steps = read("copilot_session.jsonl", json.dumps(line).encode())
    assert steps[-1].message == "More."
    assert (result.usage.input_tokens, result.usage.output_at_least) == (None, 39)


def test_copilot_s_sub_agent_is_a_trajectory_of_its_own() -> None:
    result, _ = read("copilot_session.jsonl")
    (agent,) = result.subagents
    assert brief(list(agent.steps)) == [("agent", "It is in text.txt.", [], [])]
    assert agent.head.extra == {"tool_call_id": "toolu_3", "subagent_type": "explore"}


def test_a_kind_that_copilot_does_not_have_is_reported() -> None:
    line = {"type": "hologram", "data": {}, "id": "x", "timestamp": "2026-03-01T11:00:00Z", "parentId": "y"}
    result, _ = read("copilot_session.jsonl", json.dumps(line).encode())
    assert [problem.message for problem in result.problems] == ["found type 'hologram'"]


def test_a_chat_of_vs_code_takes_the_rounds_or_else_what_was_shown() -> None:
    result, steps = read("copilot_chat.json")
    assert brief(steps) == [
        ("user", "Count the words", [], []),
        ("agent", "I read the skill.", ["read_file"], [("Count\nwith wc.", False)]),
        ("agent", "12 words.", [], []),  # the rounds end with a call: the answer is only in what was shown
        ("user", "And in the other file?", [], []),
        ("agent", "I look at `other.txt`.", ["run_in_terminal"], [("wc: other.txt: No such file", True)]),
        ("agent", "There is no such file.", [], []),
        ("system", "", [], [("Rate limited", True)]),
    ]
    assert [step.reasoning for step in steps if step.reasoning] == ["A skill may help.", "It may be missing."]
    assert steps[4].tool_calls[0].arguments == {"command": "wc -w other.txt"}
    assert [(use.skill, use.kind) for use in skill_uses(steps, mounted=None)] == [("count-words", UseKind.READ)]
    assert (result.head.agent_name, result.head.model) == ("copilot-chat", "copilot/gpt-5-mini")
    assert result.facts["events_without_step"] == {"progressTaskSerialized": 1}
    assert list(result.problems) == []


def test_cursor_s_transcript_has_calls_without_results() -> None:
    result, steps = read("cursor_transcript.jsonl")
    assert [(step.source, [call.name for call in step.tool_calls]) for step in steps] == [
        (Source.USER, []),
        (Source.AGENT, ["Read", "Shell"]),
        (Source.AGENT, []),
    ]
    assert steps[0].timestamp == "2026-03-01T12:06:00+02:00"
    assert result.facts == {"events_without_step": {"turn_ended/success": 1}, "usage_from": "nothing"}


@pytest.mark.parametrize(
    ("zone", "time"),
    [("UTC", "12:06:00+00:00"), ("UTC-3:30", "12:06:00-03:30"), ("UTC+99", None), ("Mars", None)],
)
def test_a_request_to_cursor_may_name_its_time(zone: str, time: str | None) -> None:
    text = f"<timestamp>Sunday, Mar 1, 2026, 12:06 PM ({zone})</timestamp>"
    line = {"role": "user", "message": {"content": [{"type": "text", "text": text}]}}
    (step,) = read_trajectory(lambda: BytesIO(json.dumps(line).encode())).steps
    assert step.timestamp == (time and f"2026-03-01T{time}")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"kind":0,"v":{"version":3,"requests":[]}}\n{"kind":1,"k":["customTitle"],"v":"A"}\n', "vscode-chat-log"),
        (b"user:\n<user_query>\nCount\n</user_query>\n\nassistant:\n12\n", "cursor-text"),
        (b'{"role":"user","message":{"content":"a"},"time":1}\n', "plain-text"),
    ],
)
def test_what_no_reader_takes_is_named(content: bytes, found: str) -> None:
    assert sniff(BytesIO(content)) == found


@pytest.mark.django_db
def test_the_logs_are_imported_as_sessions_with_cursor_s_sub_agents(tmp_path: Path) -> None:
    places = {
        "copilot_session.jsonl": "session-state/0b1c/events.jsonl",
        "copilot_chat.json": "chat.json",
        "cursor_transcript.jsonl": "agent-transcripts/c1/c1.jsonl",
    }
    of_agent = "agent-transcripts/c1/subagents/s1.jsonl"
    for name, place in [*places.items(), ("cursor_transcript.jsonl", of_agent)]:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES / name, tmp_path / place)
    assert list(import_paths([tmp_path]).problems) == []
    found: dict[str, Any] = {
        trial.episode.run.harness: (trial.task.title.partition(" (session")[0], trial.episode.run.agent_model)
        for trial in Trial.objects.select_related("task", "episode__run")
    }
    assert found == {
        "copilot-cli": ("Count the words", "claude-haiku-4.5"),
        "copilot-chat": ("Count the words", "copilot/gpt-5-mini"),
        "cursor": ("Count the words", "unknown"),
    }
    kinds = Trajectory.objects.filter(attempt__trial__episode__run__harness="cursor").values_list("kind", flat=True)
    assert sorted(kinds) == ["main", "subagent"]

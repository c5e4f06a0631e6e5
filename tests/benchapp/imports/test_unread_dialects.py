"""Logs that nothing reads: named in one line, and taken for no other program's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp.models import Trial
from runner.trajectories.readers.reading import sniff
from tests.benchapp.import_folders import bring_in

pytestmark = pytest.mark.django_db
AT = "2026-03-01T10:00:00.000Z"


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


DROID = [
    {"type": "session_start", "id": "s1", "title": "Sums", "owner": "dev", "version": 2, "cwd": "/w"},
    {
        "type": "message",
        "id": "m1",
        "timestamp": AT,
        "message": {"role": "user", "content": [{"type": "text", "text": "Go"}]},
    },
]
DROID_STREAM = [
    {
        "type": "system",
        "subtype": "init",
        "cwd": "/w",
        "session_id": "s1",
        "tools": ["Read"],
        "reasoning_effort": "low",
    },
    {"type": "message", "role": "user", "id": "m1", "text": "Go", "timestamp": 1, "session_id": "s1"},
]
TELEMETRY = {
    "hrTime": [1, 2],
    "resource": {"attributes": {"service.name": "qwen-code"}},
    "body": "CLI configuration loaded.",
    "attributes": {"session.id": "s1", "event.name": "qwen-code.config"},
}
GO = {"role": "user", "content": "Go"}
OTHERS = [
    {"type": "user", "message": GO, "agent": "MyAgent/1.0"},
    {"type": "assistant", "message": {"role": "assistant", "content": "Done."}, "agent": "MyAgent/1.0"},
]
ROLLOUT_HEAD = {"id": "r1", "originator": "rival_cli", "cwd": "/w", "cli_version": "9"}
ROLLOUT = [
    {"timestamp": AT, "type": "session_meta", "payload": ROLLOUT_HEAD},
    {"timestamp": AT, "type": "response_item", "payload": {"type": "message", "role": "user", "content": []}},
]
RIVAL = {
    "sessionId": "g1",
    "startTime": AT,
    "messages": [{"id": "1", "type": "rival", "content": "Go", "timestamp": AT}],
}
UNKNOWN = "a session of an unknown program"
LOGS = [
    ("other.jsonl", lines(*OTHERS), UNKNOWN),
    ("producer.jsonl", lines({"sessionId": "x1", "type": "user", "message": GO, "producer": "NotClaude"}), UNKNOWN),
    ("rollout.jsonl", lines(*ROLLOUT), UNKNOWN),
    ("rival.json", json.dumps(RIVAL), UNKNOWN),
    ("session.jsonl", lines(*DROID), "a session of Factory Droid"),
    ("rest.jsonl", lines(*DROID[1:]), "a session of Factory Droid"),
    ("stream.jsonl", lines(*DROID_STREAM), "a session of Factory Droid"),
    ("said.jsonl", lines(*DROID_STREAM[1:]), "a session of Factory Droid"),
    ("telemetry.log", json.dumps(TELEMETRY, indent=2), "telemetry"),
    ("telemetry.jsonl", lines(TELEMETRY), "telemetry"),
    (".aider.chat.history.md", "\n# aider chat started at 2026-03-01 10:00:00\n\n#### Go\n\nDone.\n", "aider"),
    ("history.md", "# Session\n\n## User\n\nGo\n\n## Assistant\n\nDone.\n", "a history of an agent in Markdown"),
    (
        "2026-03-01.md",
        "_**User**_\n\nGo\n\n---\n\n_**Agent (claude)**_\n\nDone.\n",
        "a history of an agent in Markdown",
    ),
    ("chat.md", "### You:\n\nGo\n\n### Claude - 10:02\n\nDone.\n", "a history of an agent in Markdown"),
]


@pytest.mark.parametrize(("name", "content", "words"), LOGS, ids=[name for name, *_ in LOGS])
@pytest.mark.parametrize("alone", [False, True])
def test_a_log_that_nothing_reads_is_named_in_one_line(tmp_path, name, content, words, alone):
    path = tmp_path / "logs" / name
    path.parent.mkdir()
    path.write_text(content)
    report = bring_in(path if alone else path.parent)
    (told,) = [problem for problem in report.problems if words in problem.message]
    assert told.message.endswith(f"; no reader exists: {name}") or "no reader exists" in told.message
    assert name in f"{told.path} {told.message}"
    assert not Trial.objects.exists()


def test_a_rollout_that_a_client_of_codex_named_is_still_one_of_codex(tmp_path):
    head = {**ROLLOUT_HEAD, "originator": "Xcode", "source": "vscode", "model_provider": "openai"}
    path = tmp_path / "rollout.jsonl"
    path.write_text(lines({**ROLLOUT[0], "payload": head}, *ROLLOUT[1:]))
    assert sniff(path) == "codex-rollout"


def test_a_later_line_shows_whose_log_it_is(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(lines(*OTHERS[:1], {"type": "user", "uuid": "u1", "sessionId": "s1", "message": GO}))
    assert sniff(path) == "claude-session"


def test_other_markdown_is_not_reported(tmp_path):
    """Skills and notes have headings about users and agents, but none that only says who speaks."""
    (tmp_path / "README.md").write_text("# Sums\n\n## Usage\n\nThe user runs it.\n")
    (tmp_path / "GUIDE.md").write_text("# Claude API\n\n## User guide\n\n**Model choice**: any.\n\n### Agent loop\n")
    assert [problem.message for problem in bring_in(tmp_path).problems] == ["none was found in it"]


def test_a_session_of_qwen_code_that_begins_with_telemetry_is_its_own(tmp_path):
    head = {"uuid": "u1", "parentUuid": None, "sessionId": "s1", "timestamp": AT, "version": "0.6"}
    first = {**head, "type": "system", "subtype": "ui_telemetry", "systemPayload": {"uiEvent": {}}}
    path = tmp_path / "chat.jsonl"
    path.write_text(lines(first))
    assert sniff(path) == "qwen-session"


@pytest.mark.parametrize("part", ["steps", "agent", "verifier"])
def test_a_folder_with_a_config_of_something_else_is_no_interrupted_trial(tmp_path, part: str):
    run: Path = tmp_path / "run"
    (run / part).mkdir(parents=True)
    (run / "config.json").write_text(json.dumps({"model": "lab/model-1", "epochs": 2, "skill_init": "seed.md"}))
    (run / "sums.md").write_text("# Sums\n")
    report = bring_in(run)
    assert [problem.message for problem in report.problems][0] == "1 file in no known format; not read: config.json"
    assert not Trial.objects.exists()

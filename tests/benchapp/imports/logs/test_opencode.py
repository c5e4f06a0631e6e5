"""Sessions of opencode: its storage folder, what it exports, and the events that it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.logs import opencode
from benchapp.models import Run, Trajectory, Trial
from runner.base.types import Step
from runner.trajectories.readers.reading import open_file, sniff
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db
AT = 1772359200000
SESSION = {
    "id": "ses_1",
    "version": "1.0.1",
    "projectID": "p",
    "directory": "/w",
    "title": "Sum the column",
    "time": {"created": AT, "updated": AT + 60_000},
}
TOKENS = {"input": 100, "output": 10, "reasoning": 5, "cache": {"read": 40, "write": 2}}


def part(kind: str, number: int, message: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"prt_{number}", "sessionID": "ses_1", "messageID": message, "type": kind, **fields}


MESSAGES = [
    {
        "info": {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": AT}},
        "parts": [
            part("text", 1, "msg_1", text="Sum it."),
            part("file", 2, "msg_1", mime="text/csv", filename="a.csv"),
        ],
    },
    {
        "info": {
            "id": "msg_2",
            "sessionID": "ses_1",
            "role": "assistant",
            "modelID": "model-1",
            "providerID": "lab",
            "time": {"created": AT + 1_000},
            "cost": 0.03,
            "tokens": TOKENS,
        },
        "parts": [
            part("step-start", 3, "msg_2"),
            part("reasoning", 4, "msg_2", text="I look."),
            part(
                "tool",
                5,
                "msg_2",
                callID="c1",
                tool="bash",
                state={"status": "error", "input": {"command": "x"}, "error": "no x"},
            ),
            part("step-finish", 6, "msg_2", reason="tool-calls", cost=0.02, tokens=TOKENS),
            part("step-start", 7, "msg_2"),
            part("text", 8, "msg_2", text="6"),
            part("step-finish", 9, "msg_2", reason="stop", cost=0.01, tokens=TOKENS),
        ],
    },
    {
        "info": {
            "id": "msg_3",
            "sessionID": "ses_1",
            "role": "assistant",
            "time": {"created": AT + 2_000},
            "error": {"name": "ProviderError", "data": {"message": "too many requests"}},
        },
        "parts": [],
    },
]
STEPS = [
    ("user", "Sum it.\n[file a.csv]", []),
    ("agent", "", [("no x", True)]),
    ("agent", "6", []),
    ("system", "", [("ProviderError: too many requests", True)]),
]


def brief(steps: list[Step]) -> list[tuple[str, str, list[tuple[str, bool]]]]:
    return [(str(s.source), s.message, [(o.content, o.is_error) for o in s.observations]) for s in steps]


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    folder = tmp_path / "opencode" / "storage"
    write(folder / "session" / "p" / "ses_1.json", SESSION)
    child = {**SESSION, "id": "ses_2", "parentID": "ses_1", "title": "Look around"}
    write(folder / "session" / "p" / "ses_2.json", child)
    for message in MESSAGES:
        info = message["info"]
        write(folder / "message" / "ses_1" / f"{info['id']}.json", info)
        for each in message["parts"]:
            write(folder / "part" / info["id"] / f"{each['id']}.json", each)
    write(folder / "message" / "ses_2" / "msg_9.json", {**MESSAGES[1]["info"], "id": "msg_9", "sessionID": "ses_2"})
    write(folder / "part" / "msg_9" / "prt_1.json", part("text", 1, "msg_9", text="Nothing here."))
    write(tmp_path / "opencode" / "auth.json", {"lab": {"type": "api", "key": "sk-SECRET-1234567890"}})
    return folder


def test_an_export_has_a_step_for_each_call_of_the_model(tmp_path: Path) -> None:
    path = write(tmp_path / "session.json", {"info": SESSION, "messages": MESSAGES})
    assert sniff(path) == "opencode-export"
    found = open_file(path)
    steps = list(found.steps)
    assert brief(steps) == STEPS
    assert (steps[1].reasoning, steps[1].model, steps[1].timestamp) == (
        "I look.",
        "model-1",
        "2026-03-01T10:00:01.000Z",
    )
    assert (found.usage.input_tokens, found.usage.cached_tokens, found.usage.output_tokens) == (284, 80, 30)
    assert found.reported is not None
    assert found.reported.cost_usd == pytest.approx(0.03)
    import_paths([path])
    assert Trial.objects.get().duration_seconds == 2  # from the session's creation to its last message


def test_printed_events_give_the_same_steps(tmp_path: Path) -> None:
    kinds = {"step-start": "step_start", "tool": "tool_use", "step-finish": "step_finish"}
    events = [
        {"type": kinds.get(each["type"], each["type"]), "timestamp": AT, "sessionID": "ses_1", "part": each}
        for each in MESSAGES[1]["parts"]
    ]
    events.append({"type": "error", "timestamp": AT, "sessionID": "ses_1", "error": MESSAGES[2]["info"]["error"]})
    path = write(tmp_path / "run.jsonl", "".join(f"{json.dumps(event)}\n" for event in events))
    assert sniff(path) == "opencode-stream"
    found = open_file(path)
    assert brief(list(found.steps)) == STEPS[1:]
    assert found.usage.output_tokens == 30
    assert list(found.problems) == []
    assert list(import_paths([path]).problems) == []
    assert Run.objects.get().harness == "opencode"


def test_the_storage_folder_gives_sessions_with_their_sub_agents(storage: Path) -> None:
    assert list(import_paths([storage.parent]).problems) == []
    trial = Trial.objects.get()
    assert (trial.task.title, trial.success, trial.output_tokens) == ("Sum the column", None, 45)
    assert trial.duration_seconds == 60
    assert list(Trajectory.objects.order_by("pk").values_list("kind", "steps_total")) == [("main", 4), ("subagent", 1)]
    assert Run.objects.values_list("harness", "harness_version", "agent_model").get() == (
        "opencode",
        "1.0.1",
        "model-1",
    )
    assert import_paths([storage]).counts["created"] == 0


def test_sessions_that_name_each_other_as_parents_are_kept(storage: Path) -> None:
    write(storage / "session" / "p" / "ses_1.json", {**SESSION, "parentID": "ses_2"})
    assert {problem.message for problem in import_paths([storage]).problems} == {"a loop; a session of its own"}
    assert Trial.objects.count() == 2


def test_a_newer_version_s_database_is_named(tmp_path: Path) -> None:
    write(tmp_path / "opencode" / "opencode.db", b"SQLite format 3\0")
    messages = [problem.message for problem in import_paths([tmp_path]).problems]
    assert messages[0] == "a SQLite database of a newer version; it is not opened"


def test_the_format_s_check_finds_nothing(storage: Path) -> None:
    assert check_format(opencode, [storage]).faults == []

"""What is made of a program's own logs, in whatever state it leaves them: no log costs the trial its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from runner.agents import AgentJob, AgentRun, make_agent
from runner.base.types import File, Role, Source, Task, Usage
from runner.engine.toolbox import Cleaner
from runner.models.litellm.client import LiteLLM
from runner.models.wire.metering import Metered
from runner.programs import Program
from runner.sandboxes import LOGS, Completed
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.needs import Provider
from tests.cases import every
from tests.program_runs import KEY, KEY_VARIABLE, preset_for
from tests.runner.small_episode import MemorySandbox

TASK = Task("t", "t", "E1", "f", Role.CANONICAL, 1, "Do it.", "0" * 64, Path("/nowhere"))
NAMES = ("claude-code", "codex", "gemini-cli", "qwen-code", "kimi-code")
SAID = json.dumps({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "I look."}]}})
ITEM = json.dumps({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "I look."}})
META = json.dumps({"type": "session_meta", "payload": {"id": "s", "cwd": "/w"}})


class _Leaving(MemorySandbox):
    """Its program asks once, is answered, and leaves these logs."""

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        self.gateway.ask()
        self.gateway.count(Metered(Usage(10, 0, 5)), whole=True)
        self.put(LOGS, {f"agent/{path}": File(content) for path, content in self.left.items()})
        return Completed(0, "")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.setattr(
        "runner.agents.agent_program.find_installed", lambda name: Program(name, "1", Path("/no"), "/opt/no")
    )


def run(name: str, left: Mapping[str, bytes]) -> AgentRun:
    sandbox = _Leaving({}, provider_url="http://here")
    sandbox.gateway, sandbox.left = Gateway(Provider("https://here.example", None)), left
    model = LiteLLM.of_preset(preset_for(name, "https://here.example", "model-1"))
    return make_agent(name).run(AgentJob(TASK, "Do it.", (), 1), sandbox, model, lambda step: None)


@every(*NAMES)
@every(None, b"", b"Segmentation fault\n", b'{"type": "assist', b"\xff\xfe\x00", b"[" * 9_000)
def test_a_run_without_a_log_that_tells_anything_has_its_result(content: bytes | None, name: str) -> None:
    done = run(name, {} if content is None else {"output.jsonl": content})
    assert (done.failure, done.usage) == (None, Usage(10, 0, 5))
    assert "Do it." in [step.message for step in done.trajectories[0].steps if step.source is Source.USER]


def test_what_could_not_be_read_of_a_log_is_told_with_its_trajectory() -> None:
    done = run("claude-code", {"output.jsonl": f"{SAID}\nnpm warn something\n{SAID[:50]}".encode()})
    (trajectory,) = done.trajectories
    assert [step.message for step in trajectory.steps] == ["Do it.", "I look."]
    problems = (trajectory.head.extra or {})["problems"]
    assert [problem["place"] for problem in problems] == ["line 2", "line 3"]
    cleaned = Cleaner(text=lambda text: text.replace("line", "[taken out]")).run(done)
    assert "line" not in str(cleaned.trajectories[0].head.extra)


def test_a_session_that_got_no_further_than_its_head_gives_way_to_the_events() -> None:
    left = {"codex/sessions/2026/rollout-1.jsonl": META.encode(), "output.jsonl": ITEM.encode()}
    assert run("codex", left).trajectories[0].steps[-1].message == "I look."
    only = {name: content for name, content in left.items() if name != "output.jsonl"}
    assert [step.message for step in run("codex", only).trajectories[0].steps] == ["Do it."]

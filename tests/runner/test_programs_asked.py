"""What each program may ask its provider, told to the gateway by its adapter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.agents import AgentJob, make_agent
from runner.agents.program import ProgramAgent, Start
from runner.models.litellm import LiteLLM
from runner.sandboxes import Needs, Program
from runner.types import Role, Task
from tests.program_runs import KEY, KEY_VARIABLE, preset_for

WIRES = {
    "claude-code": "messages",
    "codex": "responses",
    "gemini-cli": "generateContent",
    "qwen-code": "chat/completions",
    "kimi-code": "chat/completions",
}


def needs_of(name: str, model: str, monkeypatch: pytest.MonkeyPatch) -> Needs:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    program = Program(name, "1", Path("/nowhere"), "/opt/nowhere")
    monkeypatch.setattr("runner.agents.program.installed", lambda wanted: program)
    return make_agent(name).needs(LiteLLM.of_preset(preset_for(name, "https://here.example", model)))


@pytest.mark.parametrize("name", WIRES)
def test_it_names_its_one_model_and_its_one_format(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = needs_of(name, "vendor/model-1", monkeypatch).provider
    assert provider is not None
    assert (provider.wire, provider.models) == (WIRES[name], {"vendor/model-1"})


def test_the_mark_for_a_long_context_is_no_part_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = needs_of("claude-code", "claude-sonnet-4-6[1m]", monkeypatch).provider
    assert provider is not None
    assert provider.models == {"claude-sonnet-4-6"}


def start_of(name: str) -> Start:
    task = Task("t", "t", "E1", "f", Role.CANONICAL, 1, "Do it.", "0" * 64, Path("/nowhere"))
    preset = preset_for(name, "https://here.example", "model-1")
    return Start(AgentJob(task, "Do it.", (), 1), preset, f"/opt/{name}", "/logs/agent", "http://here")


def test_calls_on_the_side_go_to_the_model_under_test() -> None:
    claude, gemini = make_agent("claude-code"), make_agent("gemini-cli")
    assert isinstance(claude, ProgramAgent)
    assert isinstance(gemini, ProgramAgent)
    told = claude.environment(start_of("claude-code"))
    for family in ("HAIKU", "SONNET", "OPUS"):
        assert told[f"ANTHROPIC_DEFAULT_{family}_MODEL"] == "model-1"
    settings = json.loads(gemini.files(start_of("gemini-cli"))["settings.json"])
    overrides = settings["modelConfigs"]["customOverrides"]
    assert {"base", "chat-compression-default"} <= {override["match"]["model"] for override in overrides}
    assert {override["modelConfig"]["model"] for override in overrides} == {"model-1"}

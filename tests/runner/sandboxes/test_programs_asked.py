"""What each program may ask its provider, told to the gateway by its adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import AgentJob, Limits, make_agent
from runner.agents.agent_program import ProgramAgent, ProgramStart
from runner.base.types import Role, Task, Usage
from runner.engine.engine import advance
from runner.engine.recorders import ListRecorder
from runner.models.litellm.client import LiteLLM
from runner.models.wire.metering import Metered
from runner.programs import Program
from runner.sandboxes import Completed, Sandbox
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.gateway.gateway_rules import RequestRefused
from runner.sandboxes.needs import NOTHING, Needs, Provider
from tests.cases import every
from tests.program_runs import KEY, KEY_VARIABLE, preset_for
from tests.runner.small_episode import MemorySandbox, MemorySandboxes, small_environment, small_plan, small_toolbox

WIRES = {
    "claude-code": "messages",
    "codex": "responses",
    "gemini-cli": "generateContent",
    "qwen-code": "chat/completions",
    "kimi-code": "chat/completions",
}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program counts as installed, and the key is there."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.setattr(
        "runner.agents.agent_program.find_installed", lambda name: Program(name, "1", Path("/no"), "/opt/no")
    )


def needs_of(name: str, model: str) -> Needs:
    return make_agent(name).needs(LiteLLM.of_preset(preset_for(name, "https://here.example", model)))


@every(*WIRES)
def test_it_names_its_one_model_and_its_one_format(name: str) -> None:
    provider = needs_of(name, "vendor/model-1").provider
    assert provider is not None
    assert (provider.wire, provider.models) == (WIRES[name], {"vendor/model-1"})


def test_the_mark_for_a_long_context_is_no_part_of_the_name() -> None:
    provider = needs_of("claude-code", "claude-sonnet-4-6[1m]").provider
    assert provider is not None
    assert provider.models == {"claude-sonnet-4-6"}


TASK = Task("t", "t", "E1", "f", Role.CANONICAL, 1, "Do it.", "0" * 64, Path("/nowhere"))
JOB = AgentJob(TASK, "Do it.", (), 1)


def start_of(name: str) -> ProgramStart:
    preset = preset_for(name, "https://here.example", "model-1")
    return ProgramStart(JOB, preset, f"/opt/{name}", "/logs/agent", "http://here")


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


class _Asking(MemorySandbox):
    """A program that asks until it is refused, whatever it was told about turns."""

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        self.asked = 0
        try:
            while self.asked < 100:
                self.gateway.ask()
                self.asked += 1
        except RequestRefused:
            return Completed(1, "refused")
        return Completed(0, "never refused")


@every(*WIRES)
def test_every_program_is_held_to_its_turns_by_the_gateway(name: str) -> None:
    sandbox = _Asking({}, provider_url="http://here")
    sandbox.gateway = Gateway(Provider("https://here.example", None))
    model = LiteLLM.of_preset(preset_for(name, "https://here.example", "model-1"))
    ran = make_agent(name).run(replace(JOB, limits=Limits(max_turns=3)), sandbox, model, lambda step: None)
    assert sandbox.asked == 3
    assert ran.failure is not None
    assert ran.failure.type == "TurnLimit"


class _Answered(MemorySandbox):
    """A program whose first call was answered with a count, and whose second one without."""

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        for usage in (Usage(10, 0, 1), Usage()):
            self.gateway.ask()
            self.gateway.count(Metered(usage), whole=True)
        return Completed(0, "")


def test_a_call_that_told_nothing_leaves_the_cost_known_in_part() -> None:
    sandbox = _Answered({}, provider_url="http://here")
    provider = Provider("https://here.example", None)
    sandbox.gateway = Gateway(provider, price=lambda usage, written: 0.5 if usage.input_tokens else None)
    model = LiteLLM.of_preset(preset_for("claude-code", "https://here.example", "model-1"))
    ran = make_agent("claude-code").run(JOB, sandbox, model, lambda step: None)
    assert ran.usage == Usage(cached_tokens=0, priced_usd=0.5, input_at_least=10, output_at_least=1)


class _Noting(MemorySandboxes):
    counted: bool | None = None

    def open_sandbox(self, task: Task, *, name: str, needs: Needs = NOTHING) -> Sandbox:
        self.counted = needs.counted
        return super().open_sandbox(task, name=name, needs=needs)


@pytest.mark.parametrize("has_budget", [True, False])
def test_the_gateway_is_told_whether_a_budget_counts_on_what_is_used(has_budget: bool, tmp_path: Path) -> None:
    plan, noting = small_plan("no-skill", small_environment(tmp_path)), _Noting()
    advance(plan, ListRecorder(plan), replace(small_toolbox(), sandboxes=noting, has_budget=has_budget))
    assert noting.counted is has_budget

"""Claude Code, the real program, in a container against a provider on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import Limits
from runner.base.errors import BudgetSpent, KeyRefused, ModelUnavailable
from runner.base.types import Source, Usage, UseKind
from tests.harbor_validator import assert_valid_atif
from tests.program_runs import KEY, SKILL, attempt, billed, preset_for, use_program
from tests.providers.anthropic_provider import AnthropicProvider
from tests.providers.scripted_server import Call, Turn

pytestmark = [pytest.mark.docker, pytest.mark.slow]

MODEL = "claude-sonnet-4-5"
FOLDER = f"/root/.claude/skills/{SKILL}"
SOLVES = [
    Turn("I load the skill.", (Call("Skill", {"skill": SKILL}),), fresh=100, cached=50, output=20),
    Turn("I read it.", (Call("Read", {"file_path": f"{FOLDER}/SKILL.md"}),), fresh=10, cached=150, output=21),
    Turn("I count.", (Call("Bash", {"command": f"sh {FOLDER}/scripts/count.sh"}),), fresh=11, cached=160, output=22),
    Turn("There are seven.", fresh=5, cached=200, output=5),
]


@pytest.fixture
def provider() -> Iterator[AnthropicProvider]:
    server = AnthropicProvider(list(SOLVES))
    yield server
    server.close()


def test_it_records_what_the_provider_billed_and_what_the_program_did(
    provider: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program("claude-code", monkeypatch)
    ran = attempt(agent, preset_for("claude-code", provider.url, MODEL, key_header="x-api-key"), tmp_path)
    assert ran.error is None
    result = ran.result
    assert result is not None
    assert result.failure is None
    assert result.verdict is not None
    assert result.verdict.success is True
    assert result.usage == billed(provider.billed)
    assert result.turns == len(provider.asked) == 4
    assert set(provider.keys) == {KEY}
    main = result.trajectories[0]
    assert main.head.agent_version == agent.version
    assert main.head.skills_listed == (SKILL,), "the library, and none of the skills that the program brings along"
    assert main.steps[0].source is Source.USER
    assert "How many birds" in main.steps[0].message
    assert [step.tool_calls[0].name for step in main.steps if step.tool_calls] == ["Skill", "Read", "Bash"]
    assert (main.usage.input_tokens, main.usage.cached_tokens, main.usage.output_tokens) == provider.totals
    kinds = {use.kind for use in result.skill_uses if use.skill == SKILL}
    assert kinds == {UseKind.MOUNTED, UseKind.INVOKED, UseKind.READ, UseKind.EXECUTED}
    assert_valid_atif(result.trajectories, tmp_path)
    assert main.source is not None
    assert KEY not in main.source
    assert '"type":"result"' in main.source
    assert result.library_writes == ()


def test_it_ends_as_turn_limit_where_the_turns_are_used_up(
    provider: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program("claude-code", monkeypatch)
    preset = preset_for("claude-code", provider.url, MODEL, key_header="x-api-key")
    ran = attempt(agent, preset, tmp_path, limits=Limits(max_turns=2, timeout_seconds=300))
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.type == "TurnLimit"
    assert ran.result.verdict is not None
    assert ran.result.verdict.success is False
    assert ran.result.usage == billed(provider.billed)


def test_it_counts_what_was_used_until_the_time_was_up(
    provider: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program("claude-code", monkeypatch)
    provider.script[1] = Turn(
        "I wait.",
        (Call("Bash", {"command": "python3 -c 'import time; time.sleep(100)'"}),),
        fresh=9,
        cached=90,
        output=8,
    )
    preset = preset_for("claude-code", provider.url, MODEL, key_header="x-api-key")
    ran = attempt(agent, preset, tmp_path, limits=Limits(timeout_seconds=45))
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.type == "AgentTimeout"
    assert ran.result.usage == billed(provider.billed), "the log has no totals then: the gateway counted"
    assert [step.tool_calls[0].name for step in ran.result.trajectories[0].steps if step.tool_calls] == [
        "Skill",
        "Bash",
    ]


@pytest.mark.parametrize(
    ("status", "error", "named"), [(401, KeyRefused, "SKILLGLASS_TEST_PROVIDER_KEY"), (529, ModelUnavailable, "529")]
)
def test_it_tells_a_provider_that_does_not_answer_from_a_program_that_fails(
    status: int,
    error: type[Exception],
    named: str,
    provider: AnthropicProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = use_program("claude-code", monkeypatch)
    provider.script[1:] = [Turn(f"no, {KEY}", status=status)]
    monkeypatch.setenv("SKILLGLASS_TEST_RETRIES", "1")
    preset = replace(
        preset_for("claude-code", provider.url, MODEL, key_header="x-api-key"),
        agent_environment={"CLAUDE_CODE_MAX_RETRIES": "SKILLGLASS_TEST_RETRIES"},
    )
    ran = attempt(agent, preset, tmp_path)
    assert isinstance(ran.error, error)
    assert named in str(ran.error)
    assert KEY not in str(ran.error)
    (abandoned,) = ran.recorder.abandoned
    assert abandoned.usage == billed(provider.billed), "what was answered before is billed all the same"


def test_it_stops_at_the_next_call_once_the_budget_is_spent(
    provider: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def budget(spent: Usage) -> None:
        if (spent.output_tokens or 0) >= 40:
            raise BudgetSpent("40 output tokens are enough")

    agent = use_program("claude-code", monkeypatch)
    preset = preset_for("claude-code", provider.url, MODEL, key_header="x-api-key")
    ran = attempt(agent, preset, tmp_path, budget=budget)
    assert isinstance(ran.error, BudgetSpent)
    assert len(provider.asked) == 2
    assert ran.recorder.abandoned[0].usage == billed(provider.billed)

"""gemini-cli, qwen-code and kimi-code, the real programs, in containers against a provider on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.agents import Limits
from runner.base.errors import BudgetSpent, KeyRefused, ModelUnavailable
from runner.base.types import AttemptResult, Source, TrajectoryKind, Usage, UseKind
from runner.models.preset import Preset
from tests.harbor_validator import assert_valid_atif
from tests.program_runs import KEY, SKILL, Ran, attempt, billed, preset_for, use_program
from tests.providers.gemini_provider import GeminiProvider
from tests.providers.scripted_server import Call, ScriptedServer, Turn
from tests.providers.streaming_chat_provider import StreamingChatProvider

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@dataclass(frozen=True)
class Harness:
    """What is particular to one program: its wire format, where it finds skills, what it calls its tools."""

    name: str
    provider: type[ScriptedServer]
    folder: str
    skill_tool: tuple[str, str]  # the tool and its argument
    read_tool: tuple[str, str]
    shell_tool: str
    subagent: tuple[str, Mapping[str, Any]]
    subagent_ends: Call | None = None  # where it must say so with a tool
    shell_more: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""  # of the API, part of the address
    key_header: str = "authorization"

    @property
    def skill(self) -> str:
        return f"{self.folder}/{SKILL}"

    def solves(self) -> list[Turn]:
        """Loads the skill, reads it, runs its script, and says so."""
        load = Call(self.skill_tool[0], {self.skill_tool[1]: SKILL})
        read = Call(self.read_tool[0], {self.read_tool[1]: f"{self.skill}/SKILL.md"})
        return [
            Turn("I load the skill.", (load,), fresh=100, cached=50, output=20),
            Turn("I read it.", (read,), fresh=10, cached=150, output=21),
            Turn("I count.", (self.shell(f"sh {self.skill}/scripts/count.sh"),), fresh=11, cached=160, output=22),
            Turn("There are seven.", fresh=5, cached=200, output=5),
        ]

    @property
    def below(self) -> list[Turn]:
        """What a sub-agent answers: it reads the skill and ends."""
        read = self.shell(f"cat {self.skill}/SKILL.md")
        ends = (self.subagent_ends,) if self.subagent_ends else ()
        return [
            Turn("I am below.", (read,), fresh=20, cached=5, output=6),
            Turn("Seven, says the one below.", ends, fresh=30, output=7),
        ]

    def shell(self, command: str) -> Call:
        return Call(self.shell_tool, {"command": command, **self.shell_more})

    def preset(self, provider: ScriptedServer) -> Preset:
        return preset_for(self.name, provider.url + self.version, f"{self.name}-model", key_header=self.key_header)


HARNESSES = [
    Harness(
        "gemini-cli",
        GeminiProvider,
        "/root/.gemini/skills",
        ("activate_skill", "name"),
        ("read_file", "file_path"),
        "run_shell_command",
        ("invoke_agent", {"agent_name": "generalist", "prompt": "Count them for me."}),
        Call("complete_task", {"result": {"response": "Seven."}}),
        key_header="x-goog-api-key",
    ),
    Harness(
        "qwen-code",
        StreamingChatProvider,
        "/root/.qwen/skills",
        ("skill", "skill"),
        ("read_file", "file_path"),
        "run_shell_command",
        (
            "agent",
            {
                "description": "counts birds",
                "prompt": "Count them for me.",
                "subagent_type": "general-purpose",
                "run_in_background": False,
            },
        ),
        shell_more={"is_background": False},
        version="/v1",
    ),
    Harness(
        "kimi-code",
        StreamingChatProvider,
        "/root/.kimi-code/skills",
        ("Skill", "skill"),
        ("Read", "path"),
        "Bash",
        ("Agent", {"description": "counts birds", "prompt": "Count them for me."}),
        version="/v1",
    ),
]


@pytest.fixture(params=HARNESSES, ids=lambda harness: harness.name)
def harness(request: pytest.FixtureRequest) -> Harness:
    found: Harness = request.param
    return found


@pytest.fixture
def provider(harness: Harness) -> Iterator[ScriptedServer]:
    server = harness.provider(harness.solves())
    yield server
    server.close()


def finished(ran: Ran) -> AttemptResult:
    assert ran.error is None
    assert ran.result is not None
    return ran.result


def until_asked(provider: ScriptedServer, calls: int, run: Callable[[Limits], Ran]) -> Ran:
    """The first run that got as far as that many calls:
    on a busy machine a program alone may take a minute to start."""
    for seconds in (20, 60, 180):
        provider.asked.clear()
        provider.answered.clear()
        ran = run(Limits(timeout_seconds=seconds))
        if len(provider.asked) >= calls:
            return ran
    raise AssertionError(f"the program made {len(provider.asked)} calls in {seconds} seconds")


def test_it_ends_as_turn_limit_at_the_gateway(
    harness: Harness, provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program(harness.name, monkeypatch)
    limits = Limits(max_turns=2, timeout_seconds=180)
    result = finished(attempt(agent, harness.preset(provider), tmp_path, limits=limits))
    assert result.failure is not None
    assert result.failure.type == "TurnLimit"
    assert result.verdict is not None
    assert result.verdict.success is False
    assert result.turns == len(provider.asked) == 2
    assert result.usage == billed(provider.billed)


def test_it_keeps_what_was_done_until_the_time_was_up(
    harness: Harness, provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program(harness.name, monkeypatch)
    provider.script[1] = Turn("I wait.", (harness.shell("tail -f /dev/null"),), fresh=9, cached=90, output=8)
    result = finished(
        until_asked(provider, 2, lambda limits: attempt(agent, harness.preset(provider), tmp_path, limits=limits))
    )
    assert result.failure is not None
    assert result.failure.type == "AgentTimeout"
    assert result.usage == billed(provider.billed)
    calls = [call.name for step in result.trajectories[0].steps for call in step.tool_calls]
    assert calls[0] == harness.skill_tool[0]


@pytest.mark.parametrize(
    ("status", "error", "named"), [(401, KeyRefused, "SKILLGLASS_TEST_PROVIDER_KEY"), (529, ModelUnavailable, "529")]
)
def test_a_provider_that_does_not_answer_is_no_failure_of_the_agent(
    status: int,
    error: type[Exception],
    named: str,
    harness: Harness,
    provider: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = use_program(harness.name, monkeypatch)
    provider.script[1:] = [Turn(f"no, {KEY}", status=status)]
    ran = until_asked(provider, 2, lambda limits: attempt(agent, harness.preset(provider), tmp_path, limits=limits))
    assert isinstance(ran.error, error)
    assert named in str(ran.error)
    assert KEY not in str(ran.error)
    assert ran.recorder.abandoned[0].usage == billed(provider.billed)


def test_it_stops_before_the_call_that_the_budget_does_not_allow(
    harness: Harness, provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def budget(spent: Usage) -> None:
        if (spent.output_tokens or 0) >= 40:
            raise BudgetSpent("40 output tokens are enough")

    agent = use_program(harness.name, monkeypatch)
    ran = attempt(agent, harness.preset(provider), tmp_path, budget=budget)
    assert isinstance(ran.error, BudgetSpent)
    assert len(provider.asked) == 2
    assert ran.recorder.abandoned[0].usage == billed(provider.billed)


def test_the_record_equals_what_the_provider_sent(
    harness: Harness, provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program(harness.name, monkeypatch)
    result = finished(attempt(agent, harness.preset(provider), tmp_path))
    assert result.failure is None
    assert result.verdict is not None
    assert result.verdict.success is True
    assert result.usage == billed(provider.billed)
    assert result.turns == len(provider.asked) == 4
    assert not provider.asides
    assert {key.removeprefix("Bearer ") for key in provider.keys} == {KEY}
    main = result.trajectories[0]
    assert (main.head.agent_name, main.head.agent_version) == (harness.name, agent.version)
    assert (main.usage.input_tokens, main.usage.cached_tokens, main.usage.output_tokens) == provider.totals
    assert [step.message for step in main.steps if step.source is Source.AGENT] == [
        turn.text for turn in provider.script
    ]
    assert any("How many birds" in step.message for step in main.steps if step.source is Source.USER)
    tools = [call.name for step in main.steps for call in step.tool_calls]
    assert tools == [harness.skill_tool[0], harness.read_tool[0], harness.shell_tool]
    assert not any(item.is_error for step in main.steps for item in step.observations)
    kinds = {use.kind for use in result.skill_uses if use.skill == SKILL}
    assert kinds == {UseKind.MOUNTED, UseKind.INVOKED, UseKind.READ, UseKind.EXECUTED}
    assert_valid_atif(result.trajectories, tmp_path)
    assert main.source is not None
    assert KEY not in main.source
    assert result.library_writes == ()


def test_a_sub_agents_log_is_a_trajectory_of_its_own(
    harness: Harness, provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program(harness.name, monkeypatch)
    provider.script[:] = [
        Turn("I ask another.", (Call(*harness.subagent),), fresh=100, output=10),
        *harness.below,
        Turn("Done.", fresh=200, cached=50, output=5),
    ]
    result = finished(attempt(agent, harness.preset(provider), tmp_path))
    assert result.failure is None
    main, below = result.trajectories
    assert (below.head.kind, below.head.parent, below.head.name) == (TrajectoryKind.SUBAGENT, "main", "subagent-1")
    assert "Count them for me." in [step.message for step in below.steps]
    uses = [(use.kind, use.trajectory) for use in result.skill_uses if use.kind is not UseKind.MOUNTED]
    assert uses == [(UseKind.READ, "subagent-1")]
    assert result.usage == billed(provider.billed)
    tokens = [main.usage + below.usage]
    assert [(usage.input_tokens, usage.cached_tokens, usage.output_tokens) for usage in tokens] == [provider.totals]
    assert_valid_atif(result.trajectories, tmp_path)


def test_an_instruction_longer_than_an_argument_may_be_reaches_the_program(
    harness: Harness, provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program(harness.name, monkeypatch)
    provider.script[:] = [Turn("Understood.", fresh=9, output=8)]
    long = "A bird came by. " * 12_000 + "That was the last bird."
    result = finished(attempt(agent, harness.preset(provider), tmp_path, instruction=long))
    assert result.failure is None
    assert "That was the last bird." in json.dumps(provider.asked[0])
    asked = [step for step in result.trajectories[0].steps if "That was the last bird." in step.message]
    assert [step.source for step in asked] == [Source.USER]


def test_gemini_cli_shortens_what_was_said_with_the_model_under_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left to itself it asks another model for that, which the gateway would refuse."""
    gemini = HARNESSES[0]
    agent = use_program(gemini.name, monkeypatch)
    counts = Turn("I count.", (gemini.shell("seq 3000"),), fresh=990_000, output=20)
    provider = GeminiProvider([counts, Turn("Done.", fresh=50, output=9)])
    try:
        result = finished(attempt(agent, gemini.preset(provider), tmp_path))
    finally:
        provider.close()
    assert result.failure is None
    assert "distilling chat history" in str(provider.asides[0]["systemInstruction"])
    assert all("/models/gemini-cli-model:" in path for path in provider.paths)
    assert result.usage == billed(provider.billed)

"""Codex, the real program, in a container against a provider on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.agents import Limits
from runner.base.errors import KeyRefused
from runner.base.types import Source, UseKind
from tests.harbor_validator import assert_valid_atif
from tests.program_runs import KEY, SKILL, attempt, billed, preset_for, use_program
from tests.providers.responses_provider import ResponsesProvider
from tests.providers.scripted_server import Call, Turn

pytestmark = [pytest.mark.docker, pytest.mark.slow]

MODEL = "gpt-5.1-codex"
FOLDER = f"/root/.agents/skills/{SKILL}"
SOLVES = [
    Turn(
        "I read the skill.",
        (Call("exec_command", {"cmd": f"cat {FOLDER}/SKILL.md", "yield_time_ms": 30_000}),),
        fresh=100,
        cached=50,
        output=20,
    ),
    Turn(
        "I count.",
        (Call("exec_command", {"cmd": f"sh {FOLDER}/scripts/count.sh", "yield_time_ms": 30_000}),),
        fresh=11,
        cached=160,
        output=22,
    ),
    Turn("There are seven.", fresh=5, cached=200, output=5),
]


@pytest.fixture
def provider() -> Iterator[ResponsesProvider]:
    server = ResponsesProvider(list(SOLVES))
    yield server
    server.close()


def test_it_records_what_the_provider_billed_and_what_the_program_did(
    provider: ResponsesProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program("codex", monkeypatch)
    ran = attempt(agent, preset_for("codex", f"{provider.url}/v1", MODEL), tmp_path)
    assert ran.error is None
    result = ran.result
    assert result is not None
    assert result.failure is None
    assert result.verdict is not None
    assert result.verdict.success is True
    assert result.usage == billed(provider.billed)
    assert result.turns == len(provider.asked) == 3
    assert set(provider.keys) == {f"Bearer {KEY}"}
    main = result.trajectories[0]
    assert main.head.source_format == "codex-rollout"
    assert main.head.agent_version == agent.version
    assert (main.usage.input_tokens, main.usage.cached_tokens, main.usage.output_tokens) == provider.totals
    assert sum("How many birds" in step.message for step in main.steps if step.source is Source.USER) == 1
    assert all(step.observations for step in main.steps if step.tool_calls)
    kinds = {use.kind for use in result.skill_uses if use.skill == SKILL}
    assert kinds == {UseKind.MOUNTED, UseKind.READ, UseKind.EXECUTED}
    assert_valid_atif(result.trajectories, tmp_path)
    assert main.source is not None
    assert KEY not in main.source


def test_it_lists_the_library_and_none_of_the_skills_that_the_program_brings_along(
    provider: ResponsesProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program("codex", monkeypatch)
    attempt(agent, preset_for("codex", f"{provider.url}/v1", MODEL), tmp_path)
    told = str(provider.asked[0]["input"])
    listed = told.partition("### Available skills")[2].partition("</skills_instructions>")[0]
    assert f"- {SKILL}:" in listed
    assert listed.count("SKILL.md)") == 1


def test_it_has_its_turns_limited_by_the_gateway(
    provider: ResponsesProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program("codex", monkeypatch)
    preset = preset_for("codex", f"{provider.url}/v1", MODEL)
    ran = attempt(agent, preset, tmp_path, limits=Limits(max_turns=1, timeout_seconds=300))
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.type == "TurnLimit"
    assert len(provider.asked) == 1
    assert ran.result.usage == billed(provider.billed)


def test_it_ends_the_run_where_the_provider_refuses_the_key(
    provider: ResponsesProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = use_program("codex", monkeypatch)
    provider.script[:] = [Turn(f"no, {KEY}", status=401)]
    ran = attempt(agent, preset_for("codex", f"{provider.url}/v1", MODEL), tmp_path)
    assert isinstance(ran.error, KeyRefused)
    assert KEY not in str(ran.error)

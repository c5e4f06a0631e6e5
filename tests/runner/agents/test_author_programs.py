"""Claude Code, Codex and Gemini CLI, the real programs, as skill authors in containers,
against providers on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.agents import Limits
from runner.authoring.agent_prompts import CREATOR
from runner.base.errors import SandboxError
from runner.base.types import Decision, DecisionStatus, Environment, Family, Source
from runner.engine.author_step import RULE, ask, session_name
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Toolbox
from runner.models.litellm.client import LiteLLM
from runner.protocols import next_step
from runner.protocols.conditions import find_condition
from runner.protocols.history import fold
from runner.protocols.plan import Ask, EpisodePlan
from runner.sandboxes import sandbox_kind
from runner.sandboxes.docker import docker_engine
from tests.harbor_validator import assert_valid_atif
from tests.program_runs import KEY, billed, birds_task, preset_for, use_program
from tests.providers.anthropic_provider import AnthropicProvider
from tests.providers.gemini_provider import GeminiProvider
from tests.providers.responses_provider import ResponsesProvider
from tests.providers.scripted_server import Call, ScriptedServer, Turn

pytestmark = [pytest.mark.docker, pytest.mark.slow]

LIMITS = Limits(max_turns=20, timeout_seconds=300)
TEXT = r"---\nname: count-birds\ndescription: Count birds. Use it whenever birds are to be counted.\n---\n\n# Count\n\n1. Count.\n"  # noqa: E501
WRITES = f"mkdir -p skills/count-birds && printf -- '{TEXT}' > skills/count-birds/SKILL.md && echo 'How to count.' > summary.txt"  # noqa: E501


@dataclass(frozen=True)
class AuthorHarness:
    """What is particular to one program: its wire format, what its shell is called,
    where it finds a skill of its own."""

    name: str
    provider: type[ScriptedServer]
    shell_tool: str
    argument: str
    skills: str
    model: str
    version: str = ""  # of the API, part of the address
    key_header: str = "authorization"
    more: Mapping[str, Any] = field(default_factory=dict)

    def shell(self, command: str) -> Turn:
        call = Call(self.shell_tool, {self.argument: command, **self.more})
        return Turn("I work.", (call,), fresh=100, cached=50, output=20)


DONE = Turn("Written.", fresh=5, cached=200, output=5)
HARNESSES = [
    AuthorHarness(
        "claude-code",
        AnthropicProvider,
        "Bash",
        "command",
        "/root/.claude/skills",
        "claude-sonnet-4-5",
        key_header="x-api-key",
    ),
    AuthorHarness(
        "codex",
        ResponsesProvider,
        "exec_command",
        "cmd",
        "/root/.agents/skills",
        "gpt-5.1-codex",
        version="/v1",
        more={"yield_time_ms": 30_000},
    ),
    AuthorHarness(
        "gemini-cli",
        GeminiProvider,
        "run_shell_command",
        "command",
        "/root/.gemini/skills",
        "gemini-cli-model",
        key_header="x-goog-api-key",
    ),
]


@pytest.fixture(params=HARNESSES, ids=lambda harness: harness.name)
def harness(request: pytest.FixtureRequest) -> AuthorHarness:
    found: AuthorHarness = request.param
    return found


@pytest.fixture
def provider(harness: AuthorHarness) -> Iterator[ScriptedServer]:
    server = harness.provider([])
    yield server
    server.close()


@dataclass(frozen=True)
class Authoring:
    """One episode up to its first answer."""

    plan: EpisodePlan
    recorder: ListRecorder
    toolbox: Toolbox

    @property
    def due(self) -> Ask:
        step = next_step(self.plan, self.recorder.history())
        assert isinstance(step, Ask)
        return step

    def answer(self) -> Decision:
        ask(self.due, self.plan, self.recorder, self.toolbox, fold(self.recorder.history()))
        return self.recorder.decisions[-1]


@pytest.fixture
def authoring(
    harness: AuthorHarness, provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Authoring]:
    def make(condition: str = "one-shot", limits: Limits = LIMITS) -> Authoring:
        agent = use_program(harness.name, monkeypatch)
        task = birds_task(tmp_path, "How many birds are there? Write the number into birds.txt.\n")
        family = Family("birds", "count-birds", "Birds", "Counting.", "E1", (task,))
        plan = EpisodePlan(
            "birds",
            Environment("birds", "Birds", (family,)),
            find_condition(condition, "skilllearnbench"),
            run_seed=1,
            setup_digest="0" * 64,
            agent="nop",
            author_model="here",
            author_agent=harness.name,
            author_limits=limits,
            sandbox="docker",
            protocol="skilllearnbench",
        )
        preset = preset_for(harness.name, provider.url + harness.version, harness.model, key_header=harness.key_header)
        toolbox = Toolbox(agent, sandbox_kind("docker"), author_model=LiteLLM.of_preset(preset), author_agent=agent)
        return Authoring(plan, ListRecorder(plan), toolbox)

    return make


def test_its_folder_becomes_a_patch_and_every_call_is_billed(
    harness: AuthorHarness, provider: ScriptedServer, authoring: Callable[..., Authoring], tmp_path: Path
) -> None:
    provider.script = [harness.shell(f"cat {harness.skills}/{CREATOR}/SKILL.md; ls"), harness.shell(WRITES), DONE]
    at_work = authoring("skill-creator")
    decision = at_work.answer()
    assert decision.status is DecisionStatus.APPLIED, decision.error or decision.findings
    assert decision.summary == "How to count."
    library = at_work.recorder.library(decision.after)
    assert set(library) == {"count-birds/SKILL.md"}
    reply = at_work.recorder.reply(str(decision.call))
    assert reply is not None
    assert reply.usage == billed(provider.billed)
    assert reply.usage.cost_usd
    assert all(KEY in key for key in provider.keys)
    main = at_work.recorder.sessions[str(decision.call)][0]
    assert (main.head.agent_name, (main.head.extra or {})["turns"]) == (harness.name, len(provider.asked))
    assert any("Where you write" in step.message for step in main.steps if step.source is Source.USER)
    assert CREATOR in str(provider.asked[0]), "the skill it was given is listed to its model"
    assert "Write skills that get used" in str([step.observations for step in main.steps])
    assert KEY not in str(main)
    assert_valid_atif((main,), tmp_path)
    assert not isinstance(next_step(at_work.plan, at_work.recorder.history()), Ask)


def test_a_folder_that_breaks_a_rule_is_refused_whole(
    harness: AuthorHarness, provider: ScriptedServer, authoring: Callable[..., Authoring]
) -> None:
    provider.script = [harness.shell(f"{WRITES} && echo loose > skills/notes.md"), DONE]
    at_work = authoring()
    decision = at_work.answer()
    assert decision.status is DecisionStatus.REJECTED
    assert "path-layout" in {finding.rule for finding in decision.findings}
    assert at_work.recorder.library(decision.after) == {}


def test_at_its_turn_limit_what_lies_in_the_folder_counts(
    harness: AuthorHarness, provider: ScriptedServer, authoring: Callable[..., Authoring]
) -> None:
    provider.script = [harness.shell(WRITES), harness.shell("ls")]  # and so on, for ever
    at_work = authoring(limits=Limits(max_turns=2, timeout_seconds=300))
    decision = at_work.answer()
    assert decision.status is DecisionStatus.APPLIED, decision.error
    (note,) = [finding.message for finding in decision.findings if finding.rule == RULE]
    assert note.startswith("TurnLimit: ")
    assert len(provider.asked) == 2
    reply = at_work.recorder.reply(str(decision.call))
    assert reply is not None
    assert (reply.finish_reason, reply.usage) == ("TurnLimit", billed(provider.billed))


def test_a_program_that_crashes_in_the_middle_has_answered_badly_and_is_billed(
    harness: AuthorHarness, provider: ScriptedServer, authoring: Callable[..., Authoring]
) -> None:
    provider.script = [harness.shell(WRITES), harness.shell("kill -9 -1"), DONE]
    at_work = authoring()
    decision = at_work.answer()
    assert decision.status is DecisionStatus.FAILED
    assert decision.error.startswith(f"{harness.name}: The program ")
    assert at_work.recorder.library(decision.after) == {}
    reply = at_work.recorder.reply(str(decision.call))
    assert reply is not None
    assert reply.usage == billed(provider.billed)


def test_a_container_that_is_gone_is_the_machines_failure_and_the_session_begins_anew(
    harness: AuthorHarness, provider: ScriptedServer, authoring: Callable[..., Authoring]
) -> None:
    if harness.name != "claude-code":
        pytest.skip("the same for every program: one shows it")
    at_work = authoring()
    name = session_name(at_work.plan, at_work.due)

    def remove() -> None:
        if len(provider.asked) == 1:
            remove_containers(name)

    provider.script, provider.before = [harness.shell(WRITES), DONE], remove
    with pytest.raises(SandboxError):
        at_work.answer()
    assert at_work.recorder.decisions == []
    provider.before = lambda: None
    provider.asked.clear()
    decision = at_work.answer()
    assert decision.status is DecisionStatus.APPLIED
    assert len(at_work.recorder.calls) == 2


def remove_containers(name: str) -> None:
    """As an operator might: those of this session alone."""
    client = docker.from_env()
    label = f"{docker_engine.ATTEMPT_LABEL}={name}"
    for container in client.containers.list(all=True, filters={"label": label}):
        with contextlib.suppress(docker.errors.NotFound):
            container.remove(force=True)
    client.close()

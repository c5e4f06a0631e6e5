"""Agents of ours in Harbor's environments, by the real program: a trial ends as it does in our own containers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import Limits, make_agent
from runner.base.errors import SetupError
from runner.base.trees import Tree
from runner.base.types import File, UseKind
from runner.programs.installing import install
from runner.sandboxes import TESTS, WORKSPACE
from runner.sandboxes.harbor import environment
from runner.sandboxes.harbor.environment import HarborEnvironment, open_environment
from tests.conftest import ROOT
from tests.program_runs import KEY, Ran, attempt, billed, birds_task, preset_for, use_program
from tests.providers.anthropic_provider import AnthropicProvider
from tests.providers.scripted_server import Call, Turn
from tests.runner.agents.test_claude_code import MODEL, SOLVES, provider
from tests.runner.agents.test_harbor_agents import containers_below, with_harbor

pytestmark = [pytest.mark.docker, pytest.mark.slow]
__all__ = ["provider", "with_harbor"]  # fixtures


def outcome(ran: Ran) -> tuple[object, ...]:
    """What must not depend on where a trial ran."""
    assert ran.error is None
    result = ran.result
    assert result is not None
    assert result.verdict is not None
    calls = [
        (step.source, [(call.name, call.arguments) for call in step.tool_calls])
        for step in result.trajectories[0].steps
    ]
    uses = sorted((use.kind.value, use.skill) for use in result.skill_uses)
    return result.verdict.success, result.failure, result.turns, result.usage, calls, uses


def run_claude(provider: AnthropicProvider, sandbox: str, folder: Path, **told: object) -> Ran:
    preset = preset_for("claude-code", provider.url, MODEL, key_header="x-api-key")
    return attempt(make_agent("claude-code"), preset, folder, sandbox=sandbox, **told)  # type: ignore[arg-type]


def test_claude_code_does_there_what_it_does_in_our_own_container(
    with_harbor: None, provider: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_program("claude-code", monkeypatch)
    install("node")
    there = run_claude(provider, "harbor", tmp_path / "there")
    assert there.result is not None
    assert there.result.usage == billed(provider.billed)
    assert set(provider.keys) == {KEY}
    assert {use.kind for use in there.result.skill_uses} >= {UseKind.INVOKED, UseKind.EXECUTED}
    with contextlib.closing(AnthropicProvider(list(SOLVES))) as again:
        here = run_claude(again, "docker", tmp_path / "here")
    assert outcome(there) == outcome(here)


def test_time_that_is_up_ends_a_program_with_what_it_had(
    with_harbor: None, provider: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_program("claude-code", monkeypatch)
    install("node")
    provider.script[1] = Turn(
        "I wait.",
        (Call("Bash", {"command": "python3 -c 'import time; time.sleep(100)'"}),),
        fresh=9,
        cached=90,
        output=8,
    )
    ran = run_claude(provider, "harbor", tmp_path, limits=Limits(timeout_seconds=40))
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.type == "AgentTimeout"
    assert ran.result.usage == billed(provider.billed)


def test_a_place_that_mounts_nothing_gets_its_programs_as_files(
    with_harbor: None, provider: AnthropicProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_program("claude-code", monkeypatch)
    install("node")
    go_elsewhere(monkeypatch)
    task = birds_task(tmp_path, "How many birds are there? Write the number into birds.txt.\n")
    task = replace(task, machine=replace(task.machine, network=True))
    ran = run_claude(provider, "harbor", tmp_path, task=task)
    assert ran.error is None
    assert ran.result is not None
    assert ran.result.verdict is not None
    assert (ran.result.verdict.success, ran.result.failure) == (True, None)
    assert ran.result.usage == billed(provider.billed)


def test_a_place_that_cannot_be_cut_off_refuses_such_a_task(
    with_harbor: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_elsewhere(monkeypatch, "Unfiltered")
    ran = attempt(make_agent("nop"), None, tmp_path, sandbox="harbor")
    assert isinstance(ran.error, SetupError), repr(ran.error)
    assert "network_mode='no-network' is not supported" in str(ran.error)


def go_elsewhere(monkeypatch: pytest.MonkeyPatch, kind: str = "Elsewhere") -> None:
    monkeypatch.setenv("SKILLGLASS_HARBOR_ENVIRONMENT", f"elsewhere:{kind}")
    monkeypatch.setenv("SKILLGLASS_HARBOR_VARIABLES", "PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "harbor_kinds"))
    monkeypatch.setattr(environment, "_driver", None)  # it was started with other variables


# --- the sandbox by itself ------------------------------------------------------------------------------------------


@pytest.fixture
def sandbox(with_harbor: None, tmp_path: Path) -> Iterator[HarborEnvironment]:
    with contextlib.closing(open_environment(birds_task(tmp_path, "Do."), name="t")) as made:
        yield made


def test_a_command_has_its_output_its_code_and_its_variables(sandbox: HarborEnvironment) -> None:
    done = sandbox.execute("echo $SAID; echo no >&2; pwd; exit 3", timeout_seconds=30, environment={"SAID": "it's"})
    assert (done.exit_code, done.output, done.timed_out) == (3, "it's\nno\n/workspace\n", False)
    large = sandbox.execute("head -c 6000000 /dev/zero | tr '\\0' x", timeout_seconds=30)
    assert large.truncated
    assert len(large.output) < 1_100_000
    assert "characters left out" in large.output
    assert sandbox.execute("x" * 70_000, timeout_seconds=5).exit_code == 126
    assert sandbox.execute("cat /proc/net/dev | grep -c eth", timeout_seconds=5).output == "0\n", "no network"


def test_a_command_that_takes_too_long_keeps_what_it_said(sandbox: HarborEnvironment) -> None:
    done = sandbox.execute("echo before; sleep 100", timeout_seconds=2)
    assert (done.exit_code, done.timed_out) == (None, True)
    assert done.output.startswith("before\n")
    assert done.duration_seconds < 30


def test_a_command_that_hides_from_its_time_limit_is_ended_too(sandbox: HarborEnvironment) -> None:
    done = sandbox.execute("rm -rf /tmp/.skillglass-*; sleep 300", timeout_seconds=2)
    assert (done.exit_code, done.timed_out) == (None, True)
    assert done.duration_seconds < 60
    assert sandbox.execute("echo on", timeout_seconds=5).output == "on\n"


def test_files_come_out_as_they_are_and_links_do_not(sandbox: HarborEnvironment) -> None:
    sandbox.put(WORKSPACE, {"a/b.txt": File(b"hi"), "run.sh": File(b"#!/bin/sh\necho ran\n", 0o755)})
    assert sandbox.execute("./run.sh; ln -s /etc/passwd a/out; mkfifo pipe", timeout_seconds=5).output == "ran\n"
    tree = sandbox.tree(WORKSPACE)
    assert {path: (file.content, file.mode) for path, file in tree.files.items()} == {
        "a/b.txt": (b"hi", 0o644),
        "run.sh": (b"#!/bin/sh\necho ran\n", 0o755),
    }
    assert sorted(tree.left_out) == ["a/out: a link", "pipe: a special file"]
    assert set(sandbox.tree(WORKSPACE, names=frozenset({"a/b.txt", "none"})).files) == {"a/b.txt"}
    assert sandbox.tree(WORKSPACE, below="nowhere") == Tree()


def test_nothing_an_agent_started_sees_the_tests(sandbox: HarborEnvironment) -> None:
    """It forks, forgets its parent, and kills what it may."""
    hidden = "while :; do cat /tests/secret >> /workspace/stolen 2> /dev/null; sleep 0.05; done"
    sandbox.execute(f"setsid sh -c '{hidden}' > /dev/null 2>&1 < /dev/null & :", timeout_seconds=5)
    ended = sandbox.execute("sleep 300 & kill -9 -1; echo alive", timeout_seconds=20)
    assert ended.exit_code is None
    assert "ended from outside" in ended.output
    sandbox.execute(f"setsid sh -c '{hidden}' > /dev/null 2>&1 < /dev/null & ln -s /tests leak", timeout_seconds=5)
    sandbox.end_processes()
    assert sandbox.remove_links("mkdir -p /tests") == ["/workspace/leak: a link to /tests, removed before judging"]
    sandbox.put(TESTS, {"secret": File(b"42")})
    assert sandbox.execute("sleep 1; cat /tests/secret stolen; id -u", timeout_seconds=10).output == "420\n"
    sandbox.resume()
    assert sandbox.tree(TESTS) == Tree()


def test_a_killed_worker_leaves_no_container(with_harbor: None, tmp_path: Path) -> None:
    program = "import sys; from tests.runner.agents.test_harbor_environments import hold; hold(sys.argv[1])"
    worker = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    folder = Path(worker.stdout.readline().strip())
    assert containers_below(folder)
    worker.kill()
    worker.wait()
    until = time.monotonic() + 60
    while containers_below(folder) and time.monotonic() < until:
        time.sleep(0.5)
    assert containers_below(folder) == []


def hold(place: str) -> None:
    sandbox = open_environment(birds_task(Path(place), "Do."), name="held")
    print(sandbox.handle["folder"], flush=True)
    time.sleep(600)

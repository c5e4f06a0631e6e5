"""Harbor's agents, run by the real program: its job becomes an attempt like any other."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from runner.agents import AgentJob, Limits, make_agent
from runner.base.errors import ModelRefused, NotOnThisMachine, SandboxError, SetupError, VerifierError
from runner.base.types import Failure, Role, Task, UseKind
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.harbor import end_processes, harbor_jobs, open_sandbox
from runner.sandboxes.harbor.harbor_jobs import find_harbor
from runner.sandboxes.local import LocalSandbox, make_sandbox
from tests.conftest import ROOT, docker_answers, require
from tests.docker_images import image_with_tmux
from tests.program_runs import KEY, KEY_VARIABLE, LIMITS, SKILL, Ran, attempt, billed, birds_task, preset_for
from tests.providers.chat_provider import Provider

MODEL = "gpt-4.1-mini"
TASK_TOML = """schema_version = "1.4"
[task]
name = "ours/birds"
[environment]
memory_mb = 1024
"""
COMPOSE = "services:\n  main:\n    init: true\n"  # else each container takes ten seconds to stop
SOLUTION = "#!/bin/bash\necho 7 > birds.txt\n"


@cache
def why_not() -> str:
    """What is missing for Harbor here; "" where nothing is."""
    if not docker_answers():
        return "no Docker engine answers"
    try:
        find_harbor()
    except NotOnThisMachine as error:
        return str(error)
    composed = subprocess.run(["docker", "compose", "version"], capture_output=True)
    return "" if composed.returncode == 0 else "docker has no `compose`"


@pytest.fixture
def with_harbor() -> None:
    if told := why_not():
        require("SKILLGLASS_HARBOR" not in os.environ, told)  # it needs a newer Python, which not every machine has
        pytest.skip(told)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """The birds, with an image of their own and a solution."""
    found = birds_task(tmp_path, "How many birds are there? Write the number into birds.txt.\n")
    context = found.folder / "environment"
    context.mkdir()
    (found.folder / "solution").mkdir()
    (found.folder / "solution" / "solve.sh").write_text(SOLUTION)
    (found.folder / "task.toml").write_text(TASK_TOML)
    (context / "Dockerfile").write_text(f"FROM {image_with_tmux()}\nWORKDIR /workspace\n")
    (context / "docker-compose.yaml").write_text(COMPOSE)
    # Its task.toml names no network_mode, so it is online, as Harbor reads it. Not every kernel can keep it off.
    machine = replace(found.machine, image=None, context=context, network=True)
    return replace(found, machine=machine, agent_timeout_seconds=120.0)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    server = Provider()
    yield server
    server.close()


def types(keys: str, *, done: bool = False) -> str:
    """A reply of the model, as Terminus 2 takes it."""
    commands = [{"keystrokes": keys, "duration": 1.0}] if keys else []
    return json.dumps({"analysis": "I look.", "plan": "I go on.", "commands": commands, "task_complete": done})


def script(provider: Provider, *replies: str) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    for reply in replies:
        provider.says(reply, usage=usage)


def run(task: Task, provider: Provider, agent: str = "harbor-terminus-2", limits: Limits = LIMITS) -> Ran:
    preset = preset_for(agent, provider.url, MODEL)
    return attempt(make_agent(agent), preset, task.folder.parent, sandbox="harbor", task=task, limits=limits)


def containers_below(folder: Path) -> list[str]:
    client = docker_engine.connect()
    with contextlib.closing(client):
        found = docker_engine.list_labelled(client, "container", [harbor_jobs.PLACE])
    return [name for name, told in found if Path(told[harbor_jobs.PLACE]).is_relative_to(folder)]


@pytest.mark.docker
@pytest.mark.slow
def test_a_trial_by_harbor_is_an_attempt_with_steps_skills_tokens_and_a_verdict(
    with_harbor: None, task: Task, provider: Provider
):
    skill = f"/runtime/skills/{SKILL}"
    script(
        provider,
        types(f"cat {skill}/SKILL.md\n"),
        types(f"sh {skill}/scripts/count.sh\n"),
        types("", done=True),
        types("", done=True),  # it asks whether that is so
    )
    ran = run(task, provider)
    assert ran.error is None
    assert ran.result is not None
    assert ran.result.verdict is not None
    assert (ran.result.verdict.success, ran.result.failure) == (True, None)
    assert ran.result.usage == replace(billed([(100, 0, 20)] * 4), cached_tokens=None)  # this server names none
    assert ran.result.turns == len(provider.asked) == 4
    assert set(provider.keys) == {f"Bearer {KEY}"}
    assert SKILL in str(provider.asked[0])
    main = ran.result.trajectories[0]
    assert (main.head.agent_name, main.head.source_format) == ("harbor-terminus-2", "ATIF-v1.8")
    assert main.head.agent_version
    kinds = {use.kind for use in ran.result.skill_uses if use.skill == SKILL}
    assert kinds == {UseKind.MOUNTED, UseKind.READ, UseKind.EXECUTED}
    assert KEY not in str(main)
    assert (ran.result.agent_seconds or 0) > 1


@pytest.mark.docker
@pytest.mark.slow
def test_the_same_trial_here_and_by_harbor_has_the_same_verdict(with_harbor: None, task: Task, tmp_path: Path):
    here = attempt(make_agent("oracle"), None, tmp_path, task=task).result
    there = attempt(make_agent("harbor-oracle"), None, tmp_path, task=task, sandbox="harbor").result
    assert here is not None
    assert there is not None
    assert here.verdict is not None
    assert there.verdict is not None
    for name in ("success", "reward", "checks", "rewards", "verifier_digest"):
        assert getattr(there.verdict, name) == getattr(here.verdict, name), name
    assert there.verdict.success is True


@pytest.mark.docker
@pytest.mark.slow
def test_a_wrong_answer_is_scored_and_a_limit_is_the_agents_own(with_harbor: None, task: Task, provider: Provider):
    script(provider, types("echo 8 > birds.txt\n"))
    ran = run(task, provider, limits=Limits(max_turns=2, timeout_seconds=120))
    assert ran.result is not None, ran.error
    assert ran.result.verdict is not None
    assert ran.result.verdict.success is False
    assert ran.result.failure == Failure("TurnLimit", "Not done after 2 model calls.")
    assert len(provider.asked) == 2


@pytest.mark.docker
@pytest.mark.slow
def test_a_provider_that_refuses_is_no_failure_of_the_agent(with_harbor: None, task: Task, provider: Provider):
    provider.fails(400, "no such model")
    ran = run(task, provider)
    assert ran.result is None
    assert isinstance(ran.error, ModelRefused), repr(ran.error)


@pytest.mark.docker
@pytest.mark.slow
def test_a_verifier_without_a_reward_is_never_scored(with_harbor: None, task: Task, tmp_path: Path):
    (task.folder / "tests" / "test.sh").write_text("#!/bin/sh\necho nothing\n")
    ran = attempt(make_agent("harbor-oracle"), None, tmp_path, task=task, sandbox="harbor")
    assert isinstance(ran.error, VerifierError), repr(ran.error)
    assert "reward" in str(ran.error)


@pytest.mark.docker
@pytest.mark.slow
def test_what_a_killed_worker_left_is_ended_with_its_containers(with_harbor: None, task: Task):
    (task.folder / "solution" / "solve.sh").write_text("#!/bin/bash\nsleep 600\n")
    program = (
        "from tests.runner.agents.test_harbor_agents import hold; import sys, pickle; "
        "hold(pickle.load(open(sys.argv[1], 'rb')))"
    )
    place = task.folder.parent / "task.pickle"
    place.write_bytes(pickle.dumps(task))
    worker = subprocess.Popen([sys.executable, "-c", program, str(place)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        handle = json.loads(worker.stdout.readline())
        until = time.monotonic() + 120
        while not containers_below(Path(handle["folder"])) and time.monotonic() < until:
            time.sleep(0.5)
    finally:
        worker.kill()
        worker.wait()
    assert containers_below(Path(handle["folder"]))
    end_processes(handle)
    assert containers_below(Path(handle["folder"])) == []
    assert not Path(handle["folder"]).exists()


def hold(task: Task) -> None:
    sandbox = open_sandbox(task, name="held", needs=make_agent("harbor-oracle").needs(None))
    print(json.dumps(sandbox.handle), flush=True)
    job = AgentJob(task, task.instruction, (), 1, LIMITS)
    make_agent("harbor-oracle").run(job, sandbox, None, lambda step: None)


def test_no_command_of_an_agent_runs_on_this_side(tmp_path: Path):
    sandbox = make_sandbox(harbor_jobs.HarborSandbox, name="t", task="t")
    with contextlib.closing(sandbox), pytest.raises(SetupError, match="Harbor runs the whole trial"):
        sandbox.execute("touch /tmp/never", timeout_seconds=1)


def test_harbors_agents_work_nowhere_else(tmp_path: Path):
    task = Task(
        "birds", "Birds", "E1", "birds", Role.CANONICAL, 1, "x", "0" * 64, tmp_path
    )  # without an image: no Docker here
    sandbox = make_sandbox(LocalSandbox, name="t", task="t")
    with contextlib.closing(sandbox), pytest.raises(SetupError):
        make_agent("harbor-oracle").run(AgentJob(task, "x", (), 1, LIMITS), sandbox, None, lambda step: None)


def test_a_missing_or_another_harbor_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SKILLGLASS_HARBOR", str(tmp_path / "harbor"))
    with pytest.raises(NotOnThisMachine, match=r"no program .*install harbor 0\."):
        find_harbor()
    (tmp_path / "harbor").write_text("#!/bin/sh\necho 0.1.0\n")
    (tmp_path / "harbor").chmod(0o755)
    with pytest.raises(NotOnThisMachine, match=r"expected harbor 0\.\d+\.\d+, found 0\.1\.0"):
        find_harbor()


# --- what Harbor cannot do here -------------------------------------------------------------------------------------

REFUSED = """
│ │   1052 │   │   │   │   "network policy or reject the task."              │ │
│ ╰──────────────────────────────────────────────────────────────────────────╯ │
│ ValueError: network_mode='no-network' is not supported by                    │
│ EnvironmentType.DOCKER environment. Environment providers must enforce the   │
│ requested network policy or reject the task.                                 │
╰──────────────────────────────────────────────────────────────────────────────╯
"""
GPU = "RuntimeError: Task requires 1 GPU(s) but docker environment does not support GPU allocation."
AWAY = "RuntimeError: Docker daemon is not running. Please start Docker and try again."


@pytest.fixture
def fake_harbor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in Harbor's place, which writes what `said` holds and leaves no trial."""
    said, program = tmp_path / "said", tmp_path / "harbor"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo {harbor_jobs.VERSION} && exit\ncat {said}; exit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("SKILLGLASS_HARBOR", str(program))
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    harbor_jobs._ask_version.cache_clear()
    return said


@pytest.mark.docker  # the task's image
@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        (
            REFUSED,
            SetupError,
            "ValueError: network_mode='no-network' is not supported by EnvironmentType.DOCKER environment. Environment "
            "providers must enforce the requested network policy or reject the task.",
        ),
        (GPU, SetupError, GPU),
        (AWAY, SandboxError, AWAY),
        ("harbor: killed", SandboxError, "harbor: killed"),
    ],
)
def test_a_refusal_by_configuration_is_one_sentence_and_never_tried_again(
    fake_harbor: Path, tmp_path: Path, said: str, error: type[Exception], told: str
) -> None:
    fake_harbor.write_text(said)
    found = birds_task(tmp_path, "How many?\n")
    (found.folder / "task.toml").write_text(TASK_TOML)
    folder = make_sandbox(harbor_jobs.HarborSandbox, name="a", task="t")
    try:
        with pytest.raises(error) as raised:
            folder.run_trial(found, "Do.", ["--agent", "oracle"], seconds=60, variables={}, with_library=False)
    finally:
        folder.close()
    assert type(raised.value) is error
    assert str(raised.value).endswith(told)

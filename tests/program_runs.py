"""One attempt of a real agent program in a container, against a provider on this machine.

The program is installed as `manage.py install_program` does it. It is kept between runs in a folder outside the
repository ($SKILLGLASS_TEST_PROGRAMS, else in the system's folder for temporary files).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runner.agents import Agent, Limits, make_agent
from runner.base.digests import EMPTY_LIBRARY
from runner.base.types import (
    AttemptResult,
    Environment,
    Family,
    File,
    Files,
    Machine,
    Phase,
    Role,
    Task,
    TrialSlot,
    Usage,
)
from runner.engine.attempts import run_trial
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Toolbox, no_budget
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset, Prices
from runner.programs.installing import install
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan, RunTrial
from runner.sandboxes import sandbox_kind
from tests.docker_images import base_image

KEY_VARIABLE, KEY = "SKILLGLASS_TEST_PROVIDER_KEY", "sk-test-0123456789abcdef"
PRICES = Prices(input=3.0, output=15.0, cached=0.3)
SKILL = "count-birds"
ASKED = "How many birds are there? Write the number into birds.txt.\n"
LIBRARY: Files = {
    f"{SKILL}/SKILL.md": File(
        f"---\nname: {SKILL}\ndescription: How to count birds. Use it whenever birds are to be counted.\n---\n\n"
        "# Count birds\n\nRun `scripts/count.sh`; the answer goes into birds.txt.\n".encode()
    ),
    f"{SKILL}/scripts/count.sh": File(b"#!/bin/sh\necho 7 > birds.txt\ncat birds.txt\n", 0o755),
}
_TEST = '#!/bin/sh\nif [ "$(cat birds.txt 2>/dev/null)" = 7 ]; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n'  # noqa: E501
LIMITS = Limits(max_turns=20, timeout_seconds=300)
SLOT = TrialSlot(Phase.ACQUISITION, "birds")


@dataclass(frozen=True)
class Ran:
    """What one attempt left: a result, or the error that interrupted it."""

    recorder: ListRecorder
    result: AttemptResult | None
    error: BaseException | None = None


def programs_folder() -> Path:
    told = os.environ.get("SKILLGLASS_TEST_PROGRAMS")
    return Path(told) if told else Path(tempfile.gettempdir(), f"skillglass-test-programs-{os.getuid()}")


def use_program(name: str, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """The agent, its program installed and the provider's key set."""
    monkeypatch.setenv("SKILLGLASS_PROGRAMS", str(programs_folder()))
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    install(name)
    return make_agent(name)


def preset_for(agent: str, address: str, model: str, *, key_header: str = "authorization") -> Preset:
    return Preset(
        name="here",
        provider="here",
        harness=agent,
        agent_model=model,
        host_model=f"openai/{model}",
        api_base=address,
        key_variable=KEY_VARIABLE,
        key_header=key_header,
        prices=PRICES,
    )


def attempt(
    agent: Agent,
    preset: Preset | None,
    folder: Path,
    *,
    library: Files = LIBRARY,
    limits: Limits = LIMITS,
    budget: Callable[[Usage], None] = no_budget,
    instruction: str = ASKED,
    sandbox: str = "docker",
    task: Task | None = None,
) -> Ran:
    """Runs one trial of a task with a container of its own: write the number of birds into birds.txt."""
    task = task or birds_task(folder, instruction)
    environment = Environment("E1", "Birds", (Family("birds", SKILL, "Birds", "Counting.", "E1", (task,), LIBRARY),))
    plan = EpisodePlan(
        "E1",
        environment,
        find_condition("curated-static"),
        run_seed=1,
        setup_digest="0" * 64,
        agent=agent.name,
        sandbox=sandbox,
        limits=limits,
    )
    recorder = ListRecorder(plan)
    toolbox = Toolbox(agent, sandbox_kind(sandbox), preset and LiteLLM.of_preset(preset), budget=budget)
    step = RunTrial(SLOT, "birds", None, EMPTY_LIBRARY, library=bool(library))
    try:
        run_trial(step, library, plan, recorder, toolbox)
    except Exception as error:
        return Ran(recorder, None, error)
    return Ran(recorder, recorder.results[SLOT])


def birds_task(folder: Path, instruction: str) -> Task:
    place = folder / "birds"
    (place / "tests").mkdir(parents=True, exist_ok=True)
    (place / "tests" / "test.sh").write_text(_TEST)
    machine = Machine(image=base_image(), memory_mb=4_096)
    return Task("birds", "Birds", "E1", "birds", Role.CANONICAL, 1, instruction, "0" * 64, place, machine=machine)


def billed(answers: Iterable[tuple[int, int, int]]) -> Usage:
    """What (input with cache, of it cached, output) of every answer must become in the record."""
    total = Usage()
    for tokens in answers:
        total += replace(Usage(*tokens), cost_usd=PRICES.cost(Usage(*tokens)))
    return total

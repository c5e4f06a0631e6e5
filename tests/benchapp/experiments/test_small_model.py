"""The small language model end to end, with its real server: what trying it says, a protocol that ends done, a killed
server.

Nothing here says what it must reply. A model of this size solves nothing; what it does must be counted all the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from benchapp.deploy.installation import ADDRESS_VARIABLE, build_server_command, find_free_port, find_model
from benchapp.experiments.example_experiment import SMALL_DEMO
from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.models import Attempt, Experiment, Trial
from benchapp.models.stand_ins import StandIn
from runner.models.litellm.client import LiteLLM
from runner.models.presets import read_preset_named
from runner.models.tryout import Tryout

pytestmark = [pytest.mark.small_model, pytest.mark.slow, pytest.mark.django_db]

PRESET = str(SMALL_DEMO["agent_model"])
SHORT = {"max_turns": 1, "max_output_tokens": 24, "timeout_seconds": 300}


class SmallServer:
    """As the demo's supervisor starts it."""

    def __init__(self, log: Path) -> None:
        self.port, self.log = find_free_port(), log
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as output:
            command = build_server_command(find_model(), self.port)
            self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def wait(self) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=60).close()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()[-2_000:]
                time.sleep(0.5)
        pytest.fail("the server did not answer within two minutes")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallServer]:
    found = SmallServer(tmp_path / "small-model.log")
    monkeypatch.setenv(ADDRESS_VARIABLE, f"http://127.0.0.1:{found.port}/v1")
    found.wait()
    yield found
    found.kill()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., Any]) -> Callable[..., Any]:
    """Launches the demo's experiment with changes, and works until no episode wants more."""
    queue: list[str] = []
    monkeypatch.setattr(advance, "put_hint", lambda episode, needs, **_: queue.append(episode) or True)

    def go(**changes: Any) -> Experiment:
        with django_capture_on_commit_callbacks(execute=True):
            experiment = launch({**SMALL_DEMO, "environments": ["boxes"], "limits": SHORT, **changes})
        while queue:
            advance.advance(queue.pop(0))
        experiment.refresh_from_db()
        return experiment

    return go


def test_trying_it_finds_what_it_was_started_with(server: SmallServer) -> None:
    tryout = Tryout(LiteLLM.of_preset(read_preset_named(PRESET)))
    answers = {answer.question: answer for answer in tryout.ask()}
    assert answers["Is the server there, and what does it serve?"].said == "it serves smollm2-135m (llama.cpp)"
    assert tryout.answers
    assert tryout.window == 8_192
    assert "tokens a second" in answers["How fast is it?"].said


def test_a_protocol_ends_done_with_every_trial_counted(server: SmallServer, work: Callable[..., Any]) -> None:
    experiment = work()
    assert experiment.status == Experiment.Status.DONE
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    assert {trial.success for trial in trials} <= {True, False}
    assert trials.count() == 2
    for attempt in Attempt.objects.filter(trial__in=trials):
        assert attempt.turns
        assert attempt.cost_usd is None
    for run in experiment.runs.all():
        assert run.stand_ins == {StandIn.SMALL}
        assert not run.scripted


def test_a_server_that_is_killed_and_comes_back_is_waited_for(server: SmallServer, work: Callable[..., Any]) -> None:
    server.kill()
    back = Timer(4, server.start)
    back.start()
    try:
        experiment = work(conditions=["no-skill"])
    finally:
        back.join()
    assert experiment.status == Experiment.Status.DONE
    (attempt,) = Attempt.objects.filter(trial__episode__run__experiment=experiment)
    assert attempt.turns == 1
    (trial,) = Trial.objects.filter(episode__run__experiment=experiment)
    assert trial.success is not None

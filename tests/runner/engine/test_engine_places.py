"""The limit on trials at a time on one engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import NotOnThisMachine
from runner.base.types import Task
from runner.engine.engine import advance
from runner.engine.recorders import ListRecorder
from runner.models.wire import call_slots
from runner.sandboxes import Sandbox
from runner.sandboxes.needs import NOTHING, Needs
from tests.providers.queue_here import QueueHere
from tests.runner.small_episode import MemorySandboxes, small_environment, small_plan, small_toolbox

MOST = "SKILLGLASS_ENGINE_TRIALS"


@pytest.fixture
def queue() -> Iterator[QueueHere]:
    made = QueueHere()
    call_slots.use_queue(made)
    yield made
    call_slots.use_queue(None)


class Counted(MemorySandboxes):
    """Notes how many of its sandboxes were open at once."""

    def __init__(self) -> None:
        self.lock, self.open, self.most = threading.Lock(), 0, 0

    def open_sandbox(self, task: Task, *, name: str, needs: Needs = NOTHING) -> Sandbox:
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        sandbox = super().open_sandbox(task, name=name, needs=needs)

        def close() -> None:
            time.sleep(0.05)
            with self.lock:
                self.open -= 1

        sandbox.close = close  # type: ignore[method-assign]
        return sandbox


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_trials_than_places_work_on_an_engine_and_none_is_lost(
    most: int, queue: QueueHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MOST, str(most))
    monkeypatch.setattr(call_slots, "OTHERS_SECONDS", 0.01)
    monkeypatch.setattr(call_slots, "NEXT_SECONDS", 0.01)
    sandboxes, recorders = Counted(), []

    def run(number: int) -> None:
        (folder := tmp_path / str(number)).mkdir()
        plan = small_plan("no-skill", small_environment(folder))
        recorders.append(ListRecorder(plan))
        advance(plan, recorders[-1], replace(small_toolbox(), sandboxes=sandboxes))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sandboxes.most == most
    assert all(recorder.results for recorder in recorders)
    assert queue.tickets == []


def test_without_a_limit_nobody_asks_the_queue(
    queue: QueueHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MOST, raising=False)
    queue.is_lost = True
    plan = small_plan("no-skill", small_environment(tmp_path))
    advance(plan, ListRecorder(plan), small_toolbox())


@pytest.mark.parametrize("told", ["0", "-1", "many", "1.5"])
def test_a_limit_is_a_positive_number(told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MOST, told)
    plan = small_plan("no-skill", small_environment(tmp_path))
    with pytest.raises(NotOnThisMachine, match=f"{MOST}='{told}': expected a positive number"):
        advance(plan, ListRecorder(plan), small_toolbox())

"""A broker of its own for a test, and a trial at work whose steps go through it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import django_rq
import pytest

from benchapp.deploy import embedded_broker
from benchapp.models import Attempt, Trial
from benchapp.record import live
from runner.base.types import Observation, Source, Step, ToolCall
from tests.worlds.factories import make_attempt, make_trial


@contextmanager
def running_broker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    url = embedded_broker.broker_url(folder)
    process = subprocess.Popen(embedded_broker.broker_command(folder), stdout=subprocess.DEVNULL)
    try:
        assert embedded_broker.wait_for(url)
        monkeypatch.setitem(django_rq.settings.QUEUES["default"], "URL", url)
        monkeypatch.setattr(live, "_silent_until", 0.0)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def attempt_at_work(**fields: object) -> Attempt:
    trial = make_trial(finished=False, **fields)  # type: ignore[arg-type]
    Trial.objects.filter(pk=trial.pk).update(status="running")
    return make_attempt(trial, counts=False, status="running", worker="host-1")


def publish(attempt: Attempt, numbers: Iterable[int], said: str = "I look at <b>file</b> {}.") -> None:
    for number in numbers:
        call = ToolCall(f"c{number}", "shell", {"command": f"cat part-{number}"})
        results = (Observation("line\n" * 12, call.id),)
        step = Step(number, Source.AGENT, said.format(number), tool_calls=(call,), observations=results)
        live.publish(str(attempt.public_id), step)

"""Calls at a time: they wait in our queue and not in the server's, and the wait is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runner.base.encoding import decode, encode
from runner.base.errors import InfrastructureError, LeaseLost
from runner.base.types import ModelReply, ModelRequest
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset
from runner.models.preset_file import check_preset
from runner.models.wire import call_slots
from runner.models.wire.call_slots import Endpoint, call_slot, use_queue
from tests.cases import every
from tests.providers.one_slot_server import OneSlotServer
from tests.providers.queue_here import QueueHere

REQUEST = ModelRequest(({"role": "user", "content": "hello"},))
SECONDS = 0.3


@pytest.fixture
def queue() -> Iterator[QueueHere]:
    found = QueueHere()
    use_queue(found)
    yield found
    use_queue(None)


@pytest.fixture
def server() -> Iterator[OneSlotServer]:
    found = OneSlotServer(SECONDS)
    yield found
    found.close()


def preset(address: str | None, **values: object) -> Preset:
    named = {"provider": "house", "harness": "shell", "agent_model": "m", "host_model": "openai/m"}
    return check_preset(Path("house.yaml"), {**named, **({"api_base": address} if address else {}), **values})


def test_a_server_with_one_slot_is_asked_one_call_at_a_time_and_the_wait_is_no_silence(
    queue: QueueHere, server: OneSlotServer
) -> None:
    """Six callers, of whom the last waits longer than a silent provider is waited for."""

    def ask(_: int) -> ModelReply:
        return LiteLLM.of_preset(preset(server.url, timeout_seconds=3 * SECONDS)).complete(REQUEST)

    with ThreadPoolExecutor(6) as callers:
        replies = list(callers.map(ask, range(6)))
    assert (server.answered, server.dropped, server.most) == (6, 0, 1)
    assert [reply.failed_tries for reply in replies] == [()] * 6
    waits = sorted(reply.queued_seconds for reply in replies)
    assert waits[0] < SECONDS
    assert waits[-1] > 4 * SECONDS
    assert all(reply.delay_seconds == reply.queued_seconds for reply in replies), "it is not the agent's time"
    assert queue.tickets == []


def test_the_time_of_a_whole_call_begins_behind_the_queue(
    queue: QueueHere, server: OneSlotServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_MODEL_CALL_SECONDS", "4")
    queue.tickets.append("another's")
    model = LiteLLM.of_preset(preset(server.url))
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        time.sleep(0.8)
        if len(waited) == 6:
            queue.tickets.remove("another's")

    model.wait_in_queue = wait
    assert model.complete(REQUEST).queued_seconds > 4


@every(
    (None, None, None),
    ("https://api.example.com/v1", None, None),
    ("https://api.example.com/v1", 8, 8),
    ("http://127.0.0.1:8080/v1", None, 1),
    ("http://[::1]:8080/v1", None, 1),
    ("http://192.168.1.7:8000/v1", None, 1),
    ("http://gpu-box:8000/v1", None, 1),
    ("http://gpu-box.local/v1", None, 1),
    ("http://gpu-box:8000/v1", 32, 32),
    ("http://8.8.8.8/v1", None, None),
)
def test_who_is_asked_how_many_calls_at_a_time(address: str | None, stated: int | None, at_a_time: int | None) -> None:
    assert preset(address, **({"max_parallel": stated} if stated else {})).endpoint().at_a_time == at_a_time


def test_presets_of_one_server_share_its_slots_and_those_of_two_do_not() -> None:
    one, other = preset("http://gpu-box:8000/v1"), preset("http://gpu-box:8000/v1/", max_parallel=4)
    assert one.endpoint().server == other.endpoint().server
    assert one.endpoint().server != preset("http://gpu-box:8001/v1").endpoint().server
    assert one.endpoint().server != preset(None).endpoint().server


def test_calls_at_a_time_are_no_part_of_what_a_preset_is() -> None:
    assert preset("http://gpu-box/v1").digest == preset("http://gpu-box/v1", max_parallel=4).digest


def test_a_reply_that_did_not_wait_is_written_as_before_and_one_that_did_is_read_back() -> None:
    assert "queued_seconds" not in encode(ModelReply("x"))
    assert decode(ModelReply, encode(ModelReply("x", queued_seconds=2.5))).queued_seconds == 2.5


def test_a_wait_can_be_ended_and_leaves_the_queue(queue: QueueHere) -> None:
    queue.tickets.append("another's")

    def lost(seconds: float) -> None:
        raise LeaseLost("cancelled")

    with pytest.raises(LeaseLost), call_slot(Endpoint("m", "s", 1), lost):
        pytest.fail("it has no slot")
    assert queue.tickets == ["another's"]


def test_a_queue_that_is_lost_is_waited_for_and_then_a_failure_of_the_machine(
    queue: QueueHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_slots, "QUEUE_LOST_SECONDS", 0.1)
    queue.is_lost = True
    with pytest.raises(InfrastructureError, match="queue of calls to m"), call_slot(Endpoint("m", "s", 1), time.sleep):
        pytest.fail("nobody knows whether a slot is free")


def test_an_outage_is_reported_until_the_next_answer(queue: QueueHere, server: OneSlotServer) -> None:
    seen = []
    server.close()
    model = LiteLLM.of_preset(preset(server.url))

    def pause(seconds: float) -> None:
        seen.append(queue.outage)
        queue.tickets.clear()
        raise LeaseLost("enough")

    model.sleep = pause
    with pytest.raises(LeaseLost):
        model.complete(REQUEST)
    ((name, reason, seconds_left),) = seen
    assert (name, "Connection refused" in reason) == ("house", True)
    assert seconds_left == pytest.approx(600, abs=30)
    again = OneSlotServer(0.0)
    try:
        LiteLLM.of_preset(preset(again.url)).complete(REQUEST)
    finally:
        again.close()
    assert queue.outage is None

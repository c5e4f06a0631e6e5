"""The queue of calls to a model server: in the broker, for all workers;
and what it changes for a run of many of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Thread

import django_rq
import pytest

from benchapp.deploy import embedded_broker
from benchapp.experiments.launch import launch
from benchapp.experiments.work import call_queue
from benchapp.experiments.work.call_queue import BrokerQueue, list_outages
from benchapp.models import Episode
from benchapp.record import log_context
from runner.agents import AgentJob, AgentRun, Limits, make_agent
from runner.base.types import Task
from runner.models.litellm.client import LiteLLM
from runner.models.preset_file import check_preset
from runner.models.wire import call_slots
from runner.models.wire.call_slots import Endpoint, call_slot, use_queue
from runner.sandboxes.local import open_sandbox
from tests.providers.one_slot_server import OneSlotServer

ONE = Endpoint("smol", "127.0.0.1:8080 here", 1)
PRESET = {
    "provider": "own server",
    "harness": "shell",
    "agent_model": "one-slot",
    "host_model": "openai/one-slot",
}
CALL_SECONDS, AGENT_SECONDS = 0.7, 8  # three calls a conversation: six that share a slot take longer than an agent has


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    url = embedded_broker.broker_url(tmp_path / "valkey")
    process = subprocess.Popen(embedded_broker.broker_command(tmp_path / "valkey"), stdout=subprocess.DEVNULL)
    try:
        assert embedded_broker.wait_for(url)
        monkeypatch.setitem(django_rq.settings.QUEUES["default"], "URL", url)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def test_who_comes_first_is_served_first_whoever_asks_again(broker: str) -> None:
    queue, others = BrokerQueue(), replace(ONE, server="another")
    assert [queue.count_ahead(ONE, ticket) for ticket in "abc"] == [0, 1, 2]
    assert [queue.count_ahead(ONE, ticket) for ticket in "cba"] == [2, 1, 0]
    assert queue.count_ahead(others, "d") == 0
    queue.leave(ONE, "a")
    assert [queue.count_ahead(ONE, ticket) for ticket in "cab"] == [1, 2, 0]
    queue.leave(ONE, "x")


def test_the_place_of_a_killed_worker_is_free_once_its_ticket_ends(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_queue, "TICKET_SECONDS", 1)
    queue = BrokerQueue()
    queue.count_ahead(ONE, "killed")
    queue.count_ahead(ONE, "killed too")
    assert queue.count_ahead(ONE, "waits") == 2
    time.sleep(1.5)
    assert queue.count_ahead(ONE, "waits") == 0


def test_a_call_keeps_its_slot_as_long_as_it_lasts_and_through_a_restart_of_the_broker(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_queue, "TICKET_SECONDS", 1)
    monkeypatch.setattr(call_slots, "RENEWAL_SECONDS", 0.1)
    use_queue(BrokerQueue())
    try:
        with call_slot(ONE, time.sleep):
            time.sleep(1.5)
            assert BrokerQueue().count_ahead(ONE, "waits") == 1
            django_rq.get_connection().flushall()
            BrokerQueue().count_ahead(ONE, "waits")
            time.sleep(0.5)
            assert BrokerQueue().count_ahead(ONE, "waits") == 1, "before it again"
        assert BrokerQueue().count_ahead(ONE, "waits") == 0
    finally:
        use_queue(None)


def test_no_more_calls_than_slots_are_under_way_however_many_callers_there_are(broker: str) -> None:
    three, under_way, most = replace(ONE, at_a_time=3), [0], [0]
    use_queue(BrokerQueue())

    def call() -> None:
        with call_slot(three, time.sleep):
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
            time.sleep(0.1)
            under_way[0] -= 1

    try:
        callers = [Thread(target=call) for _ in range(12)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
    finally:
        use_queue(None)
    assert most == [3]


def test_a_broker_that_is_away_is_no_free_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BrokerQueue().count_ahead(ONE, "a") is None
    BrokerQueue().leave(ONE, "a")
    BrokerQueue().note_failure(ONE, "Connection refused", 600)
    BrokerQueue().note_answer(ONE)
    assert list_outages() == []


# --- outages --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_outage_names_the_episodes_that_wait_and_ends_with_the_next_answer(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "sk-abcdef0123456789abcdef")
    spec = {"name": "x", "suite": "starter", "conditions": ["no-skill"], "environments": ["E1"], "agent": "oracle"}
    launch({**spec, "sandbox": "local", "replicates": 3})
    first, second, ended = map(str, Episode.objects.values_list("public_id", flat=True))
    Episode.objects.filter(public_id=ended).update(status="cancelled")
    queue = BrokerQueue()
    for episode, seconds in ((first, 600.0), (second, 300.0), (ended, 5.0), (first, 590.0)):
        with log_context.about(episode=episode):
            queue.note_failure(ONE, "refused: sk-abcdef0123456789abcdef", seconds)
    (outage,) = list_outages()
    assert (outage.model, set(outage.episodes)) == ("smol", {first, second})
    assert "sk-abc" not in outage.reason
    assert 280 < (outage.given_up_at - outage.since).total_seconds() < 301
    queue.note_answer(replace(ONE, model="another"))
    assert len(list_outages()) == 1
    queue.note_answer(ONE)
    assert list_outages() == []


# --- agents at one server -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 6])
def test_the_number_of_workers_does_not_change_what_is_measured(
    workers: int, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    server = OneSlotServer(CALL_SECONDS)
    preset = check_preset(Path("one-slot.yaml"), {**PRESET, "api_base": server.url})
    task = Task("T", "t", "E1", "E1-LS1", None, 1, "Do it.", "0" * 64, tmp_path)

    def work(number: int) -> AgentRun:
        sandbox = open_sandbox(task, name=f"t{number}")
        try:
            job = AgentJob(task, "Do it.", (), 7, Limits(timeout_seconds=AGENT_SECONDS))
            return make_agent("shell").run(job, sandbox, LiteLLM.of_preset(preset), lambda step: None)
        finally:
            sandbox.close()

    LiteLLM.of_preset(preset).load()
    use_queue(BrokerQueue())
    try:
        with ThreadPoolExecutor(workers) as crew:
            runs = list(crew.map(work, range(6)))
    finally:
        use_queue(None)
        server.close()
    assert [(run.failure, run.turns) for run in runs] == [(None, 3)] * 6
    assert (server.answered, server.dropped, server.most) == (18, 0, 1)
    queued = sum(run.queued_seconds for run in runs)
    assert queued > AGENT_SECONDS if workers == 6 else queued < 1 if workers == 1 else queued > 0

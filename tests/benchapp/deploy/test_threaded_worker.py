"""`work --trials N`: one process, a trial in each thread; and `--burst`, which ends when nothing waits."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django_rq
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_rq.workers import get_worker
from redis.exceptions import ConnectionError

from benchapp.deploy import embedded_broker, workers
from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.experiments.work.progress import workforce
from benchapp.models import Attempt, Episode, Trial
from benchapp.record import live, pooling

SPEC = {
    "suite": "starter-corpora",
    "protocol": "skillgenbench",
    "name": "Threads",
    "conditions": ["no-skill"],
    "environments": ["boxes"],  # one trial an episode
    "replicates": 3,
    "agent": "shell",
    "agent_model": "scripted/apprentice",
    "sandbox": "local",
}


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


@pytest.fixture(autouse=True)
def _no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals and orders from elsewhere are for a process of its own."""
    for name in ("_install_signal_handlers", "subscribe", "unsubscribe"):
        monkeypatch.setattr(workers.Worker, name, lambda self: None)


def make_worker(trials: int) -> Any:
    if trials > 1:
        return get_worker("default", worker_class=workers.ThreadedWorker, trials=trials)
    return get_worker("default", worker_class=workers.EpisodeWorker)


@pytest.mark.django_db(transaction=True)
def test_it_works_off_an_experiment_with_several_trials_at_a_time(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most, began = set[str](), [0], threading.Barrier(3, timeout=60)

    def meet(episode: str) -> None:
        if Attempt.objects.count() == 0 and most[0] < 3:
            under_way.add(episode)
            began.wait()  # three threads are here at the same moment, or this breaks
            most[0] = max(most[0], len(under_way))
        real(episode)

    real = advance.advance
    monkeypatch.setattr(advance, "advance", meet)
    experiment = launch(SPEC)
    make_worker(trials=3).work(burst=True)
    assert most == [3]
    experiment.refresh_from_db()
    assert experiment.status == "done"
    assert Trial.objects.filter(is_done=False).count() == 0
    assert Attempt.objects.filter(counts=True).count() == 3
    assert set(Episode.objects.values_list("lease_owner", flat=True)) == {""}


@pytest.mark.django_db(transaction=True)
def test_its_room_counts_as_that_many_workers(broker: str) -> None:
    worker, go_on = make_worker(trials=4), threading.Event()
    worker.register_birth()
    worker.trials = 9  # so that the main thread does not wait for room
    jobs = [advance.slices.enqueue("time.sleep", "advance", name, description=name) for name in ("a", "b")]
    worker._perform = lambda *_: go_on.wait(60)
    for job in jobs:
        worker.execute_job(job, django_rq.get_queue())
    crew = workforce().workers
    assert crew is not None
    assert sorted(str(hand.episode) for hand in crew) == ["None", "None", "a", "b"]
    assert {hand.name for hand in crew} == {worker.name}
    go_on.set()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("trials", [1, 3])
def test_a_burst_waits_for_an_episode_between_two_tries_without_spinning(
    broker: str, monkeypatch: pytest.MonkeyPatch, trials: int
) -> None:
    monkeypatch.setattr(workers, "BURST_SECONDS", 0.2)
    monkeypatch.setattr(workers, "RECONCILE_SECONDS", 0.2)
    launch({**SPEC, "replicates": 1})
    until = timezone.now() + timedelta(seconds=3)
    Episode.objects.update(lease_until=until, failures=1, last_failure="the model was away")
    # A work-horse is a fork, and this process must not be forked.
    monkeypatch.setattr(workers.EpisodeWorker, "execute_job", lambda self, job, queue: job.perform())
    looks: list[int] = []
    real = advance.is_any_waiting
    monkeypatch.setattr(advance, "is_any_waiting", lambda labels: looks.append(1) or real(labels))
    make_worker(trials).work(burst=True)
    assert Episode.objects.get().status == "done"
    assert timezone.now() > until
    assert 2 <= len(looks) < 60


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("status", [Episode.Status.BLOCKED, Episode.Status.PAUSED])
def test_a_burst_does_not_wait_for_people(broker: str, status: str) -> None:
    launch({**SPEC, "replicates": 1})
    Episode.objects.update(status=status)
    began = time.monotonic()
    make_worker(trials=2).work(burst=True)
    assert time.monotonic() - began < 30
    assert not Attempt.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_stop_waits_for_the_trials_under_way(broker: str) -> None:
    worker, ended = make_worker(trials=2), []
    worker.register_birth()

    def perform(*_: object) -> None:
        time.sleep(0.5)
        ended.append(1)

    worker.perform_job = perform
    worker.execute_job(advance.slices.enqueue("time.sleep", "advance", "a", description="a"), django_rq.get_queue())
    assert ended == []
    worker.teardown()
    assert ended == [1]


@pytest.mark.django_db(transaction=True)
def test_trials_under_way_end_though_the_broker_is_lost(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, ended = make_worker(trials=2), []
    worker.register_birth()
    monkeypatch.setattr(workers, "BURST_SECONDS", 0.1)

    def perform(*_: object) -> None:
        time.sleep(1)
        ended.append(1)

    worker.perform_job = perform
    worker.execute_job(advance.slices.enqueue("time.sleep", "advance", "a", description="a"), django_rq.get_queue())
    monkeypatch.setattr(workers.Worker, "heartbeat", away)
    with pytest.raises(ConnectionError):
        worker.heartbeat()
    monkeypatch.setattr(workers.Worker, "teardown", lambda self: None)
    worker.teardown()
    assert ended == [1]


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_lost_its_broker_ends_as_failed_though_the_broker_is_back(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that starts it again after failures only would leave its host idle."""
    for name in (
        "preload",
        "sweep_at_start",
        "hide_environment",
        "use_queue",
        "setup_loghandlers",
        "share_connections",
    ):
        monkeypatch.setattr(f"benchapp.management.commands.work.{name}", lambda *_: None)
    monkeypatch.setattr(workers.Worker, "check_for_suspension", away)
    with pytest.raises(CommandError, match="without being asked"):
        call_command("work", trials=2)


def away(*_: object) -> None:
    raise ConnectionError("Connection refused")


def test_the_tail_of_an_episode_holds_no_line_of_another_thread(broker: str) -> None:
    log, both = logging.getLogger("benchapp.test"), threading.Barrier(2, timeout=30)

    def work(episode: str) -> None:
        with live.keep_tail(episode):
            both.wait()
            log.warning("of %s", episode)
            both.wait()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("one", "two"):
        assert [line.rpartition(" WARNING ")[2] for line in live.read_log(name) or []] == [f"of {name}"]


@pytest.mark.parametrize("trials", [0, 1_001])
def test_it_wants_a_possible_number(trials: int) -> None:
    with pytest.raises(CommandError, match=f"--trials {trials}: expected 1 to 1000"):
        call_command("work", trials=trials)


@pytest.mark.parametrize("labels", [["GPU"], ["a,b"], ["a:b"], list("abcdef")])
def test_it_wants_labels_that_can_name_a_queue(labels: list[str]) -> None:
    with pytest.raises(CommandError, match=r"label.*expected"):
        call_command("work", label=labels)


@pytest.mark.parametrize(
    ("options", "in_atomic_block", "closed"),
    [({}, False, 0), ({"pool": {"max_size": 1}}, False, 1), ({"pool": {"max_size": 1}}, True, 0)],
)
def test_a_connection_is_given_back_only_to_a_pool_and_never_inside_a_transaction(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], in_atomic_block: bool, closed: int
) -> None:
    calls: list[int] = []
    here = SimpleNamespace(
        settings_dict={"OPTIONS": options}, in_atomic_block=in_atomic_block, close=lambda: calls.append(1)
    )
    monkeypatch.setattr(pooling, "connection", here)
    pooling.give_back()
    assert len(calls) == closed

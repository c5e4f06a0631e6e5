"""Who may work on an episode, and who finds out that it is somebody else's now."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from benchapp.experiments.work.advance import Lease
from benchapp.models import Episode
from runner.sandboxes.processes import ProcessName, read_start_of_process, this_machine, this_process
from tests.benchapp.small_rows import hold, make_episode, small_suite


@pytest.fixture
def episode(tmp_path: Path, transactional_db: None) -> Episode:
    return make_episode(small_suite(tmp_path))[0]


def test_a_lease_is_had_by_one(episode: Episode) -> None:
    first = Lease.take(episode.pk)
    assert first is not None
    assert Lease.take(episode.pk) is None
    episode.refresh_from_db()
    assert (episode.status, episode.lease_epoch, episode.lease_owner) == ("running", 1, str(this_process()))


def test_of_many_who_reach_for_it_at_once_one_gets_it(episode: Episode) -> None:
    got: list[Lease | None] = []
    start = threading.Barrier(6)

    def reach() -> None:
        start.wait()
        try:
            got.append(Lease.take(episode.pk))
        finally:
            connection.close()

    threads = [threading.Thread(target=reach) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([lease for lease in got if lease]) == 1
    assert len(got) == 6


def test_one_that_ran_out_is_taken_over_under_a_higher_epoch(episode: Episode) -> None:
    epoch = hold(episode, seconds=-1)
    lease = Lease.take(episode.pk)
    assert lease is not None
    assert lease.epoch == epoch + 1
    assert not Episode.objects.renew(episode.pk, epoch=epoch, seconds=60)


def test_it_is_renewed_while_work_goes_on(episode: Episode) -> None:
    lease = Lease.take(episode.pk, seconds=0.6)
    assert lease is not None
    with lease:
        time.sleep(1.2)
        assert not lease.lost.is_set()
        assert not Episode.objects.free().filter(pk=episode.pk).exists()


def test_a_renewal_that_comes_after_the_lease_was_given_back_does_not_hold_the_episode(episode: Episode) -> None:
    """The renewing thread may be waiting for the database while the work ends."""
    epoch = hold(episode)
    Episode.objects.release(episode.pk, epoch=epoch)
    assert not Episode.objects.renew(episode.pk, epoch=epoch, seconds=60)
    assert Episode.objects.free().filter(pk=episode.pk).exists()


def test_the_holder_learns_that_it_was_lost(episode: Episode) -> None:
    lease = Lease.take(episode.pk, seconds=0.3)
    assert lease is not None
    with lease:
        Episode.objects.filter(pk=episode.pk).update(lease_epoch=lease.epoch + 1)
        assert lease.lost.wait(60)


def test_what_the_former_holder_says_afterwards_changes_nothing(episode: Episode) -> None:
    former = hold(episode, seconds=-1)
    present = hold(episode)
    before = Episode.objects.filter(pk=episode.pk).values().get()
    told = [
        Episode.objects.release(episode.pk, epoch=former),
        Episode.objects.finish(episode.pk, epoch=former),
        Episode.objects.block(episode.pk, epoch=former, reason="no"),
        Episode.objects.postpone(episode.pk, epoch=former),
    ]
    assert told == [False] * 4
    assert Episode.objects.filter(pk=episode.pk).values().get() == before
    assert Episode.objects.release(episode.pk, epoch=present)


def test_nobody_takes_a_postponed_episode_before_its_time(episode: Episode) -> None:
    Episode.objects.postpone(episode.pk, epoch=hold(episode), seconds=30)
    assert not Episode.objects.free().exists()
    Episode.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert Episode.objects.free().get().failures == 1


@pytest.mark.parametrize("seconds", [300, -300])
def test_a_worker_whose_clock_is_off_takes_a_lease_when_the_database_says_so(
    episode: Episode, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Five minutes ahead, every lease would be at its end; five minutes behind, an own one would be at once."""
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + timedelta(seconds=seconds))
    held = hold(episode, seconds=30)
    assert Lease.take(episode.pk) is None
    assert Episode.objects.renew(episode.pk, epoch=held, seconds=30)
    assert 0 < (Episode.objects.get().lease_until - real()).total_seconds() <= 30
    assert Episode.objects.postpone(episode.pk, epoch=held, seconds=30)
    assert not Episode.objects.free().exists()
    Episode.objects.update(lease_until=real() - timedelta(seconds=1))
    assert Lease.take(episode.pk)


def test_a_cancelled_episode_fences_off_its_holder(episode: Episode) -> None:
    epoch = hold(episode)
    assert Episode.objects.cancel() == 1
    assert not Episode.objects.renew(episode.pk, epoch=epoch, seconds=60)
    assert Lease.take(episode.pk) is None


@pytest.mark.parametrize("status", ["done", "blocked", "cancelled"])
def test_an_ended_episode_is_not_to_be_had(episode: Episode, status: str) -> None:
    Episode.objects.update(status=status)
    assert Lease.take(episode.pk) is None


def test_an_operator_lets_a_blocked_episode_go_on(episode: Episode) -> None:
    Episode.objects.block(episode.pk, epoch=hold(episode), reason="disk full")
    assert Episode.objects.retry(episode.pk)
    assert not Episode.objects.retry(episode.pk)
    assert Lease.take(episode.pk) is not None


# --- naming processes -----------------------------------------------------------------------------------------------


def test_a_process_is_told_from_a_later_one_with_its_id() -> None:
    me = this_process()
    assert me == ProcessName.parse(str(me))
    assert me.is_alive
    assert ProcessName(me.machine, me.pid, "long ago").is_gone


def test_an_ended_process_is_gone_also_before_it_is_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    name = ProcessName(this_machine(), child.pid, read_start_of_process(child.pid) or "unknown")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, still unburied
    assert name.is_gone
    child.wait()


def test_a_process_of_another_machine_is_neither_alive_nor_gone() -> None:
    elsewhere = ProcessName("elsewhere", os.getpid(), read_start_of_process(os.getpid()) or "")
    assert (elsewhere.is_alive, elsewhere.is_gone) == (False, False)


@pytest.mark.parametrize("text", ["", "a test", "host 12", "host twelve now"])
def test_what_is_no_process_name_is_none(text: str) -> None:
    assert ProcessName.parse(text) is None

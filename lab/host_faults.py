"""The faults of `lab/hosts.py`, one method each: it says what happened, and how long until the next attempt was
recorded and until all was well.

All is well when every host with a worker has recorded an attempt that it began after the fault, and of those begun
before none is under way.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from lab.hosts import Cluster, Host

DEADLINE_SECONDS = 2400
MOST_TURNS = 240  # seconds until the others come to a held episode: it waits in the queue behind the rest
MAX_LINES = 40  # beyond, workers keep dying and nothing is measured
BETWEEN = 20  # attempts recorded between two faults
SKEW_SECONDS = 300
SPOT_SECONDS, BROKER_SECONDS, FULL_SECONDS, PROMOTE_SECONDS, SLOW_SECONDS = 30, 20, 30, 10, 30
SLOW_WRITES = 10  # a second
BLKIO = Path("/sys/fs/cgroup/blkio")

# In this order; the last one cannot be undone.
FAULTS = ("skew", "cut-database", "cut-worker", "spot-kill", "broker", "full-disk", "slow-disk", "failover")


class Faults:
    """Waits for the end of the experiment and keeps a worker on each host; in between it breaks things."""

    def __init__(self, experiment: Any, cluster: Cluster, chosen: list[str], cut_seconds: float, trials: int) -> None:
        self.experiment, self.cluster, self.chosen = experiment, cluster, chosen
        self.cut_seconds, self.trials = cut_seconds, trials
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.down: set[str] = set()  # hosts without a worker on purpose
        self.report: list[str] = []
        self.missed: list[str] = []
        self.most_running = 0
        self.until = time.monotonic() + DEADLINE_SECONDS

    def run(self) -> None:
        if "skew" in self.chosen:
            self._watch_skew()
        for name in self.chosen:
            if name == "skew":
                continue
            due = self._ask(lambda: self._count("finished")) + BETWEEN
            self._wait(lambda due=due: self._count("finished") >= due and self._find_at_work())
            if self._has_ended():
                self.missed.append(f"{name}: the experiment had ended by then")
                continue
            getattr(self, "_" + name.replace("-", "_"))()
        self._wait(lambda: False)

    # --- the faults -----------------------------------------------------------------------------------------------

    def _watch_skew(self) -> None:
        """Two hosts have had another time since they started.
        Nothing else is broken yet, so nobody may be taken over."""
        self._wait(lambda: self._count("finished") >= 3 * BETWEEN)
        lost = self._count("interrupted")
        fast, slow = self._skewed()
        self._tell(f"{fast} {SKEW_SECONDS} s ahead, {slow} as much behind: {lost} attempts taken over")
        if lost:
            self.missed.append(f"{lost} attempts were taken over although every worker lived")

    def _cut_database(self) -> None:
        name, before = self.cluster.primary, self._count("interrupted")
        self.cluster.switch.cut.add(name)
        time.sleep(self.cut_seconds)
        self.cluster.switch.cut.discard(name)
        self._until_well(f"the database cut off for {self.cut_seconds:.0f} s", before)

    def _cut_worker(self) -> None:
        """Longer than a lease: other hosts must take over what it holds, and it must not write when it is back."""
        held = self._find_at_work()
        if held is None:
            self.missed.append("no worker was cut off: nobody was at work")
            return
        name, before = held.worker.partition("/")[0], self._count("interrupted")
        under_way = [*self._of(name).filter(status="running").values_list("pk", flat=True)]
        left = self._attempts().filter(pk__in=under_way, status="running")
        cut_at = time.monotonic()
        self.cluster.switch.cut.add(name)
        self._pause(self.cut_seconds)
        self._wait(lambda: time.monotonic() > cut_at + MOST_TURNS or not left.exists())
        if untaken := self._ask(left.count):
            self.missed.append(f"nobody took over {untaken} attempts of {name} within {MOST_TURNS} s")
        self.cluster.switch.cut.discard(name)
        seconds = time.monotonic() - cut_at
        self._until_well(
            f"{name} cut off with {len(under_way)} attempts until others had taken them over, {seconds:.0f} s", before
        )

    def _spot_kill(self) -> None:
        """Everything on the host is gone at once, its disk too; a new one of the same name comes later."""
        name = self.cluster.names[0]
        held = self._of(name).filter(status="running").count()
        before = self._count("interrupted")
        self.down.add(name)
        self.cluster.kill(name)
        del self.workers[name]
        self._pause(SPOT_SECONDS)
        self.cluster.replace(name)
        self.down.discard(name)
        self._until_well(f"{name} killed with {held} attempts, a new host after {SPOT_SECONDS} s", before)

    def _broker(self) -> None:
        before = self._count("interrupted")
        self.cluster.broker.kill()
        self.cluster.broker.wait()
        self._pause(BROKER_SECONDS)
        self.cluster.start_broker()
        self._until_well(f"the broker killed, started empty after {BROKER_SECONDS} s", before)

    def _full_disk(self) -> None:
        """Its temporary folder, var folder and cache are on one small disk."""
        host, last = self.cluster.hosts[self.cluster.names[-1]], self._last()
        before = self._count("interrupted")
        fill = f"dd if=/dev/zero of={host.disk}/fill bs=1M; df -k {host.disk} | tail -1"
        found = subprocess.run([*host.enter, "sh", "-c", fill], capture_output=True, text=True, check=False).stdout
        self._pause(FULL_SECONDS)
        host.run("rm", f"{host.disk}/fill")
        failed = self._of(host.name).filter(pk__gt=last, status="infrastructure").count()
        self._until_well(
            f"{host.name}: its disk full ({found.split()[3] if found else '?'} kB free) for {FULL_SECONDS} s,"
            f" {failed} attempts begun in it ended by the machine",
            before,
        )

    def _slow_disk(self) -> None:
        """The database's: its processes may write a few times a second to the disk below (cgroup, version 1)."""
        group, device = BLKIO / f"skillglass-hosts-{os.getpid()}", self.cluster.device
        limit = group / "blkio.throttle.write_iops_device"
        try:
            group.mkdir()
            limit.write_text(f"{device} {SLOW_WRITES}")
        except OSError as error:
            self.missed.append(f"no slow disk: this kernel has no limit of writes a second: {error}")
            return
        before = self._count("interrupted")
        recorded = self._count("finished")
        try:
            until = time.monotonic() + SLOW_SECONDS
            while time.monotonic() < until:
                for pid in self.cluster.hosts[self.cluster.primary].processes():  # each connection is a new one
                    with contextlib.suppress(OSError):
                        (group / "cgroup.procs").write_text(str(pid))
                self._pause(1)
            slow = self._ask(lambda: self._count("finished")) - recorded
        finally:
            limit.write_text(f"{device} 0")
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (BLKIO / "cgroup.procs").write_text(pid)
            with contextlib.suppress(OSError):
                group.rmdir()
        self._until_well(
            f"the database's disk at {SLOW_WRITES} writes a second for {SLOW_SECONDS} s, {slow} attempts recorded in "
            "it",
            before,
        )

    def _failover(self) -> None:
        """The host of the database is gone; the standby becomes the database after the seconds that noticing takes."""
        before, name = self._count("interrupted"), self.cluster.primary
        confirmed = set(self._attempts().filter(status="finished").values_list("pk", flat=True))
        self.cluster.kill(name)
        time.sleep(PROMOTE_SECONDS)
        self.cluster.promote()
        found = self._ask(lambda: set(self._attempts().filter(status="finished").values_list("pk", flat=True)))
        lost = len(confirmed - found)
        self._until_well(
            f"the host of the database killed, the standby promoted after {PROMOTE_SECONDS} s, {lost} of "
            f"{len(confirmed)} recorded attempts lost",
            before,
        )
        if lost:
            self.missed.append(f"{lost} recorded attempts were lost by the failover")

    # --- how long until all is well -----------------------------------------------------------------------------------

    def _until_well(self, what: str, before: int) -> None:
        """Wait until all is well again; called when what was broken works again.
        before: attempts that had been interrupted when it was broken."""
        began, next_after = time.monotonic(), 0.0
        since, recorded = self._ask(lambda: (self._last(), self._count("finished")))

        def is_well() -> bool:
            nonlocal next_after
            if not next_after and self._count("finished") > recorded:
                next_after = time.monotonic() - began
            new = self._attempts().filter(status="finished", pk__gt=since).values_list("worker", flat=True)
            left = self._attempts().filter(status="running", pk__lte=since)
            return {worker.partition("/")[0] for worker in new} >= set(self.cluster.names) and not left.exists()

        self._wait(is_well)
        seconds = time.monotonic() - began
        has_ended, lost = self._ask(lambda: (self._has_ended(), self._count("interrupted") - before))
        well = "the experiment ended before all was well" if has_ended else "all was well"
        self._tell(
            f"{what}; {lost} attempts interrupted; next one recorded {next_after or seconds:.1f} s after it was back,"
            f" {well} after {seconds:.1f} s"
        )

    def _tell(self, line: str) -> None:
        self.report.append(line)
        print(line, file=sys.stderr, flush=True)

    # --- waiting, and the workers in the meantime -------------------------------------------------------------------

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= until, ends=False)

    def _wait(self, is_met: Callable[[], object], *, ends: bool = True) -> None:
        """Until it is met, or (`ends`) the experiment has ended."""
        while time.monotonic() < self.until:
            self._keep_workers()
            with self._patience():
                self.most_running = max(self.most_running, self._attempts().filter(status="running").count())
                if is_met() or (ends and self._has_ended()):
                    return
            time.sleep(0.2)
        raise SystemExit(f"not within {DEADLINE_SECONDS} s: {self.report}")

    def _ask(self, question: Callable[[], Any]) -> Any:
        """The answer of the record, as soon as it can be reached."""
        answers: list[Any] = []
        self._wait(lambda: answers.append(question()) or True, ends=False)
        return answers[-1]

    def _has_ended(self) -> bool:
        self.experiment.refresh_from_db(fields=["status"])
        return self.experiment.status not in ("waiting", "running")

    def _keep_workers(self) -> None:
        """Start each ended one again, as a supervisor would."""
        for name in self.cluster.names:
            if name in self.down:
                continue
            if (process := self.workers.get(name)) is None or process.poll() is not None:
                if process is not None:
                    self._tell(f"{name}: its worker ended with status {process.returncode}, started again")
                    if len(self.report) > MAX_LINES:
                        raise SystemExit("\n".join(self.report))
                self.workers[name] = self._start_worker(self.cluster.hosts[name])

    def _start_worker(self, host: Host) -> subprocess.Popen[bytes]:
        work = [sys.executable, str(ROOT / "lab" / "waiting_worker.py"), "work", "--trials", str(self.trials)]
        skew = {}
        if "skew" in self.chosen and host.name in self._skewed():
            seconds = SKEW_SECONDS if host.name == self._skewed()[0] else -SKEW_SECONDS
            skew = {"LD_PRELOAD": str(self.cluster.clock), "CLOCK_SKEW": str(seconds)}
        return host.spawn("work.log", *work, DOCKER_HOST=host.engine, **skew)

    def _skewed(self) -> tuple[str, str]:
        """One ahead, one behind; not the first and the last, which other faults meet."""
        return self.cluster.names[1], self.cluster.names[2]

    @contextlib.contextmanager
    def _patience(self) -> Iterator[None]:
        from django.db import InterfaceError, OperationalError, connection

        try:
            yield
        except (OperationalError, InterfaceError):
            connection.close()

    # --- the record -------------------------------------------------------------------------------------------------

    def _attempts(self) -> Any:
        from benchapp.models import Attempt

        return Attempt.objects.filter(trial__episode__run__experiment=self.experiment)

    def _of(self, name: str) -> Any:
        return self._attempts().filter(worker__startswith=f"{name}/")

    def _count(self, status: str) -> int:
        return int(self._attempts().filter(status=status).count())

    def _last(self) -> int:
        return self._attempts().order_by("-pk").values_list("pk", flat=True).first() or 0

    def _find_at_work(self) -> Any:
        """An attempt under way that has begun long enough ago to have a sandbox;
        on a host that no other fault meets."""
        apart = self._of(self.cluster.names[0]) | self._of(self.cluster.names[-1])
        running = self._attempts().filter(status="running")
        return running.exclude(pk__in=apart.values("pk")).order_by("pk").first()

"""Watching what a container writes: nothing it does to slow a look down lets it write unseen."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.sandboxes.docker import docker_limits
from runner.sandboxes.docker.docker_limits import DiskUse, DiskWatch, measure_folders

WAIT = 20  # seconds for what happens at once; only a failure takes that long
MANY = 2_500  # entries, a few times as many as are looked at in one go


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[..., tuple[DiskWatch, threading.Event]]]:
    """Makes a watch of the folder that has started, and the event that is set when it ends its container."""
    watches = []

    def start(**limits: int) -> tuple[DiskWatch, threading.Event]:
        ended = threading.Event()
        watch = DiskWatch(
            "no-container", [tmp_path], end=ended.set, **{"limit": 10**9, "files": 10**6, "free": 0, **limits}
        )
        watches.append(watch)
        watch.start()
        return watch, ended

    yield start
    for watch in watches:
        watch.stop()


def test_the_watch_of_a_disk_outlasts_what_cannot_be_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_limits, "_SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(docker_limits, "_PAUSE_WITHOUT_ANSWER", 0.01)
    (tmp_path / "big").write_bytes(b"x" * 100_000)
    real, asked, ended = docker_limits.measure_folders, [], threading.Event()

    def measured(*limits: Any) -> docker_limits.DiskUse:
        asked.append(1)
        if len(asked) == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return real(*limits)

    monkeypatch.setattr(docker_limits, "measure_folders", measured)
    watch = docker_limits.DiskWatch("no-container", [tmp_path], limit=1_000, files=100, free=0, end=ended.set)
    watch.start()
    assert ended.wait(20)
    watch.stop()
    assert watch.breach == "ended: it wrote more than 0 MiB"


def test_a_part_of_what_a_container_writes_is_never_measured_for_all_of_it(tmp_path: Path) -> None:
    layer, volume, own = tmp_path / "layer", tmp_path / "volume", tmp_path / "own"
    for folder in (layer, volume, own):
        folder.mkdir()
    written = {"Type": "volume", "Name": "ours", "Source": str(volume), "RW": True}
    read_only = {"Type": "volume", "Name": "program", "Source": str(tmp_path), "RW": False}
    mounts = {"Mounts": [written, {**written, "Destination": "/again"}, read_only]}
    driver = {"GraphDriver": {"Data": {"UpperDir": str(layer)}}}
    assert docker_limits.folders_of(driver | mounts) == [layer, volume]
    assert docker_limits.folders_of(driver | mounts | {"HostsPath": str(own / "hosts")}) == [layer, volume, own]
    assert docker_limits.folders_of(driver | {"Mounts": None, "HostsPath": ""}) == [layer]
    for unnamed in ({}, {"GraphDriver": None}, {"GraphDriver": {"Data": None}}, {"GraphDriver": {"Data": {}}}):
        assert docker_limits.folders_of(unnamed | mounts) == []
    volume.rmdir()
    assert docker_limits.folders_of(driver | mounts) == []


def test_a_long_look_is_followed_by_a_short_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Callable[..., tuple[DiskWatch, threading.Event]]
) -> None:
    """A look at 200,000 files took so long that the next came after everything was written."""
    clock, pauses = iter(range(0, 10**6, 100)), []
    monkeypatch.setattr(docker_limits, "measure_folders", lambda *_: DiskUse())
    monkeypatch.setattr(docker_limits, "time", SimpleNamespace(monotonic=lambda: next(clock)))  # each look takes 100 s
    watch, _ = watched()
    looked = threading.Event()
    real = watch._due.wait

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 3:
            looked.set()
        return real(0.01)

    monkeypatch.setattr(watch._due, "wait", wait)
    assert looked.wait(WAIT)
    assert max(pauses) <= 2


def test_the_room_left_is_looked_at_while_a_look_is_under_way(
    monkeypatch: pytest.MonkeyPatch, watched: Callable[..., tuple[DiskWatch, threading.Event]]
) -> None:
    room, measuring, go_on = [10**12], threading.Event(), threading.Event()

    def slow(*_: object) -> DiskUse:
        measuring.set()
        go_on.wait(WAIT)
        return DiskUse()

    usage = namedtuple("usage", "free")
    monkeypatch.setattr(docker_limits, "measure_folders", slow)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(room[0]))
    watch, ended = watched(free=2**31)
    assert measuring.wait(WAIT)
    room[0] = 2**30
    assert ended.wait(WAIT / 2)
    go_on.set()
    assert watch.breach == "ended: less than 2,048 MiB are left on the engine's disk"


def test_room_that_goes_suddenly_is_looked_after_at_once(
    monkeypatch: pytest.MonkeyPatch, watched: Callable[..., tuple[DiskWatch, threading.Event]]
) -> None:
    room, looks = [10**12], []
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(docker_limits, "_SHORTEST_PAUSE", 3_600)
    monkeypatch.setattr(docker_limits, "_LONGEST_PAUSE", 3_600)
    monkeypatch.setattr(
        docker_limits, "measure_folders", lambda *_: looks.append(1) or DiskUse(2 * 10**9 if looks[1:] else 0)
    )
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(room[0]))
    watch, ended = watched()
    watch.look()
    room[0] -= 10**9
    assert ended.wait(WAIT)
    assert watch.breach == "ended: it wrote more than 953 MiB"
    assert len(looks) in (2, 3)  # ending may look once more; the pauses would take an hour


def test_a_last_look_sees_what_was_written_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Callable[..., tuple[DiskWatch, threading.Event]]
) -> None:
    monkeypatch.setattr(docker_limits, "_SHORTEST_PAUSE", 3_600)
    watch, ended = watched(limit=1_000)
    (tmp_path / "big").write_bytes(b"x" * 100_000)
    watch.look()
    assert ended.is_set()
    assert watch.breach == "ended: it wrote more than 0 MiB"


def test_a_look_that_takes_too_long_is_given_up_and_counts_as_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MANY):
        (tmp_path / str(number)).touch()
    monkeypatch.setattr(docker_limits, "_LONGEST_LOOK", -1.0)
    found = measure_folders([tmp_path])
    assert found.count < MANY
    assert found.problem == "its files take more than -1 s to be measured"
    for lenient, why in ((False, f"ended: {found.problem}"), (True, None)):
        watch = DiskWatch(
            "no-container", [tmp_path], limit=10**9, files=10**6, free=0, end=lambda: None, lenient=lenient
        )
        watch.look()
        assert watch.breach == why


def test_a_watch_that_is_stopped_gives_up_its_look(tmp_path: Path) -> None:
    for number in range(MANY):
        (tmp_path / str(number)).touch()
    assert measure_folders([tmp_path], given_up=lambda: True).count < MANY


class _Entry:
    """As `os.scandir` tells it, of a file that is gone or there."""

    def __init__(self, path: str, *, is_gone: bool) -> None:
        self.path, self.is_gone = path, is_gone

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        if self.is_gone:
            raise FileNotFoundError(errno.ENOENT, "gone", self.path)
        return os.stat_result((0o100644, 1, 1, 1, 0, 0, 0, 0, 0, 0), {"st_blocks": 200})


def test_a_file_that_comes_and_goes_does_not_hide_those_listed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: Any = [_Entry("a", is_gone=True), _Entry("b", is_gone=False)]

    class Listing:
        def __enter__(self) -> Iterator[_Entry]:
            return iter(listed)

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(os, "scandir", lambda _: Listing())
    assert measure_folders([tmp_path]).bytes == 200 * 512


def test_a_look_at_a_great_many_open_files_can_be_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, process, asked = tmp_path / "layer", tmp_path / "proc" / "77", []
    files = process / "task" / "77" / "fd"
    for folder in (layer, files, process / "root"):
        folder.mkdir(parents=True)
    (process / "cgroup").write_text("0::/docker/the-container\n")
    for number in range(MANY):
        (files / str(number)).symlink_to("/dev/null")
    monkeypatch.setattr(docker_limits, "PROC", tmp_path / "proc")
    measure_folders([layer], given_up=lambda: bool(asked.append(1)), container="the-container")
    assert len(asked) > 1, "none of them is a removed file, and the look never asked whether it goes on"

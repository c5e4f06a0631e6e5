"""The embedded broker: private, on no port, also below a long path."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
import redis

from benchapp.deploy import embedded_broker


@pytest.mark.parametrize("depth", [1, 12])
def test_it_serves_its_user_on_a_private_socket(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a folder with spaces"[: 8 + depth]] * depth)
    process = subprocess.Popen(embedded_broker.broker_command(folder), stdout=subprocess.DEVNULL)
    try:
        url = embedded_broker.broker_url(folder)
        assert embedded_broker.wait_for(url)
        path = embedded_broker.socket_path(folder)
        assert len(os.fsencode(path)) <= embedded_broker.MAX_SOCKET_PATH
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.parent.stat().st_uid == os.getuid()
        with redis.Redis.from_url(url) as client:
            assert client.config_get("port") == {"port": "0"}
            assert client.config_get("save") == {"save": ""}
    finally:
        process.terminate()
        process.wait(60)
    assert not embedded_broker.answers(url)


def test_a_socket_left_by_a_killed_broker_is_in_nobodys_way(tmp_path: Path) -> None:
    for _ in range(2):
        process = subprocess.Popen(embedded_broker.broker_command(tmp_path), stdout=subprocess.DEVNULL)
        assert embedded_broker.wait_for(embedded_broker.broker_url(tmp_path))
        process.kill()
        process.wait(60)


def test_waiting_for_a_broker_that_never_comes_ends(tmp_path: Path) -> None:
    assert not embedded_broker.wait_for(embedded_broker.broker_url(tmp_path), seconds=0.2)


def test_a_folder_of_somebody_else_is_not_used_for_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short folder for long paths lies where everybody may write; another user could have made it first."""
    long = tmp_path / ("x" * 90)
    place = embedded_broker.socket_path(long).parent
    place.mkdir(mode=0o777, exist_ok=True)
    try:
        place.chmod(0o777)
        with pytest.raises(PermissionError, match="private"):
            embedded_broker.broker_command(long)
    finally:
        place.rmdir()


def test_a_path_is_as_long_as_its_bytes() -> None:
    path = embedded_broker.socket_path(Path("/srv") / ("ö" * 45))
    assert len(os.fsencode(path)) <= embedded_broker.MAX_SOCKET_PATH
